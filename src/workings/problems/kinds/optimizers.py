"""Problems on one step of an optimizer: SGD, momentum and Adam."""

from dataclasses import dataclass, replace

import numpy as np

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.elementwise import ElementwiseSum, make_factors
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.affine import take_root
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Op, Scaling, format_symbol
from workings.problems.options import make_choice, make_count, make_number

# The options and the states of each optimizer, with the defaults of the options.
_DEFAULTS: dict[str, dict[str, float]] = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "adam": {"beta_1": 0.9, "beta_2": 0.999, "eps": 1e-8, "t": 1},
}
_STATES = {"sgd": (), "momentum": ("velocity0",), "adam": ("m0", "v0")}


def _combine(*terms: tuple[float, str]) -> ElementwiseSum:
    return ElementwiseSum(tuple((coefficient, make_factors(key)) for coefficient, key in terms))


def _read_options(sizes: Sizes, setting: Setting) -> dict[str, float]:
    """Return the options of the chosen optimizer; reject those of another."""
    optimizer, options = setting.options["optimizer"], setting.options
    own = _DEFAULTS[optimizer]
    for other, defaults in _DEFAULTS.items():
        for name in (*defaults, *_STATES[other]):
            is_present = options.get(name) is not None or name in sizes
            if is_present and name not in (*own, *_STATES[optimizer]):
                raise UserError(f'{name}: optimizer "{optimizer}" has none; "{other}" has')
    if options["learning_rate"] is None:
        raise UserError("given.learning_rate is missing: kind optimizer_step needs it")
    values = {
        name: default if options[name] is None else options[name] for name, default in own.items()
    }
    return {**values, "learning_rate": options["learning_rate"]}


@dataclass(frozen=True)
class AdamUpdate(Op):
    """`W − η m̂ / (√v̂ + ε)`."""

    weight: str
    learning_rate: float
    first: str
    second: str
    eps: float
    # The remaining fields describe mistakes.
    is_rooted: bool = True
    sign: float = -1.0

    def compute(self, env: Env) -> IntervalMatrix:
        return self._update(env, self._compute_root(env))

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        root = self._compute_root(env)
        rounded = root.round_to(unit)
        # A root that would be rounded to zero is not rounded: it is divided by.
        lo = np.where(rounded.lo > 0, rounded.lo, root.lo)
        return self._update(env, replace(rounded, lo=lo))

    def _compute_root(self, env: Env) -> IntervalMatrix:
        return take_root(env[self.second]) if self.is_rooted else env[self.second]

    def _update(self, env: Env, root: IntervalMatrix) -> IntervalMatrix:
        quotient = env[self.first] / (root + IntervalMatrix.exact(self.eps))
        return env[self.weight] + quotient * IntervalMatrix.exact(self.sign * self.learning_rate)

    def _format(self, n: Notation, weight: str, first: str, second: str) -> str:
        root = n.root(second)
        denominator = n.total([root, n.number(self.eps)]) if self.eps else root
        rate = n.number(self.learning_rate)
        return n.row(weight, "−", n.fraction(n.product(rate, first), denominator))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, *(format_symbol(n, key) for key in self.sources()))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        weight, first, second = (float(env[key].mid[i, j]) for key in self.sources())
        return self._format(n, n.number(weight), n.factor(first), n.number(second))

    def sources(self) -> tuple[str, ...]:
        return (self.weight, self.first, self.second)


def _build_update_step(rate: float, direction: str, gradient: str = "dW") -> Step:
    """Return the step `W − η direction`."""
    mistakes: list[MistakeOption] = [
        (
            "learning-rate-forgotten",
            _combine((1.0, "W"), (-1.0, direction)),
            gettext("left out {rate:g}", rate=rate),
        ),
        ("gradient-added", _combine((1.0, "W"), (rate, direction)), gettext("added the step to W")),
        (
            "weight-forgotten",
            _combine((-rate, direction)),
            gettext("did not subtract the step from W"),
        ),
        (
            "learning-rate-divided",
            _combine((1.0, "W"), (-1 / rate, direction)),
            gettext("divided by {rate:g}, not multiplied", rate=rate),
        ),
    ]
    if direction != gradient:
        plain = _combine((1.0, "W"), (-rate, gradient))
        mistakes.append(
            (
                "momentum-forgotten",
                plain,
                gettext("used {gradient}, not {direction}", gradient=gradient, direction=direction),
            )
        )
    right = _combine((1.0, "W"), (-rate, direction))
    return Step("W_new", right, row_axis="", mistakes=tuple(mistakes))


def _build_momentum_steps(options: dict[str, float]) -> list[Step]:
    momentum, rate = options["momentum"], options["learning_rate"]
    mistakes: tuple[MistakeOption, ...] = (
        ("momentum-forgotten", Copy("dW"), gettext("left out the velocity before")),
        (
            "momentum-forgotten",
            _combine((1.0, "velocity0"), (1.0, "dW")),
            gettext("did not multiply the velocity by {momentum:g}", momentum=momentum),
        ),
        (
            "gradient-damped",
            _combine((momentum, "velocity0"), (1 - momentum, "dW")),
            gettext("multiplied dW by {momentum:g}, as Adam does", momentum=1 - momentum),
        ),
        ("gradient-forgotten", _combine((momentum, "velocity0")), gettext("left out dW")),
        (
            "gradient-added",
            _combine((momentum, "velocity0"), (-1.0, "dW")),
            gettext("subtracted dW from the velocity"),
        ),
        (
            "learning-rate-too-early",
            _combine((momentum, "velocity0"), (rate, "dW")),
            gettext("multiplied dW by {rate:g} in the velocity already", rate=rate),
        ),
    )
    velocity = _combine((momentum, "velocity0"), (1.0, "dW"))
    return [
        Step("velocity", velocity, row_axis="", mistakes=mistakes),
        _build_update_step(rate, "velocity"),
    ]


def _build_moment_step(name: str, beta: float, other_beta: float, function: str) -> Step:
    """Return the step of a running mean of the gradient (m) or of its square (v)."""

    def average(kept: float, added: float, of: str = function) -> ElementwiseSum:
        return ElementwiseSum(((kept, make_factors(f"{name}0")), (added, (("dW", of),))))

    mistakes: list[MistakeOption] = [
        (
            "betas-swapped",
            average(other_beta, 1 - other_beta),
            gettext("used {other_beta:g}, not {beta:g}", other_beta=other_beta, beta=beta),
        ),
        (
            "gradient-not-damped",
            average(beta, 1.0),
            gettext("did not multiply dW by {beta:.4g}", beta=1 - beta),
        ),
        (
            "beta-reversed",
            average(1 - beta, beta),
            gettext("exchanged {beta:g} and {beta_2:.4g}", beta=beta, beta_2=1 - beta),
        ),
    ]
    if function == "square":
        plain = average(beta, 1 - beta, "none")
        mistakes.append(("square-forgotten", plain, gettext("used dW, not its square")))
    return Step(name, average(beta, 1 - beta), row_axis="", mistakes=tuple(mistakes))


def _build_correction_step(name: str, beta: float, t: int) -> Step:
    """Return the step that corrects the bias of a running mean: m / (1 − β^t)."""
    right = BiasCorrection(name, beta, t)
    mistakes: list[MistakeOption] = [
        (
            "bias-correction-forgotten",
            Copy(name),
            gettext("did not divide by 1 − {beta:g}^{t}", beta=beta, t=t),
        ),
        (
            "bias-correction-multiplied",
            Scaling(name, 1 - beta**t, multiplies=True),
            gettext("multiplied"),
        ),
        (
            "wrong-step-number",
            replace(right, t=t + 1),
            gettext("used the power {t}, not {t_2}", t=t + 1, t_2=t),
        ),
        (
            "power-for-correction",
            Scaling(name, beta**t),
            gettext("divided by {beta:g}^{t}", beta=beta, t=t),
        ),
    ]
    if t > 1:
        for other in (1, t - 1):
            wrong = replace(right, t=other)
            mistakes.append(
                (
                    "wrong-step-number",
                    wrong,
                    gettext("used the power {other}, not {t}", other=other, t=t),
                )
            )
    return Step(f"{name}_hat", right, row_axis="", mistakes=tuple(mistakes))


@dataclass(frozen=True)
class BiasCorrection(Op):
    """`x / (1 − β^t)`: a running mean that started at zero."""

    x: str
    beta: float
    t: int

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x] / IntervalMatrix.exact(1 - self.beta**self.t)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        divisor = IntervalMatrix.exact(1 - self.beta**self.t)
        rounded = divisor.round_to(unit)
        lo = np.where(rounded.lo > 0, rounded.lo, divisor.lo)
        return env[self.x] / replace(rounded, lo=lo)

    def _format(self, n: Notation, x: str) -> str:
        power = n.power(n.number(self.beta), n.number(self.t))
        return n.fraction(x, n.row(n.number(1), "−", power))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, n.number(float(env[self.x].mid[i, j])))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


def _build_adam_steps(options: dict[str, float]) -> list[Step]:
    betas, t = (options["beta_1"], options["beta_2"]), int(options["t"])
    right = AdamUpdate("W", options["learning_rate"], "m_hat", "v_hat", options["eps"])
    mistakes: tuple[MistakeOption, ...] = (
        (
            "learning-rate-forgotten",
            replace(right, learning_rate=1.0),
            gettext("left out the learning rate"),
        ),
        ("gradient-added", replace(right, sign=1.0), gettext("added the step to W")),
        (
            "root-forgotten",
            replace(right, is_rooted=False),
            gettext("divided by v̂, not by its root"),
        ),
        (
            "bias-correction-forgotten",
            replace(right, first="m", second="v"),
            gettext("used m and v without their corrections"),
        ),
        ("momentum-forgotten", replace(right, first="dW"), gettext("used dW, not m̂")),
        (
            "second-moment-forgotten",
            _combine((1.0, "W"), (-right.learning_rate, "m_hat")),
            gettext("did not divide by the root of v̂"),
        ),
    )
    return [
        _build_moment_step("m", betas[0], betas[1], "none"),
        _build_moment_step("v", betas[1], betas[0], "square"),
        _build_correction_step("m", betas[0], t),
        _build_correction_step("v", betas[1], t),
        Step("W_new", right, row_axis="", mistakes=mistakes),
    ]


def _build_optimizer_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    options = _read_options(sizes, setting)
    optimizer = setting.options["optimizer"]
    if optimizer == "adam":
        return _build_adam_steps(options)
    if optimizer == "momentum":
        return _build_momentum_steps(options)
    return [_build_update_step(options["learning_rate"], "dW")]


def _make_states(sizes: Sizes) -> dict[str, IntervalMatrix]:
    zero = IntervalMatrix.exact(np.zeros((sizes["r"], sizes["c"])))
    names = (name for states in _STATES.values() for name in states)
    return {name: zero for name in names if name not in sizes}


OPTIMIZER_STEP = Kind(
    name="optimizer_step",
    matrices=dict.fromkeys(("W", "dW", "velocity0", "m0", "v0"), ("r", "c")),
    required=("W", "dW"),
    settings=(),
    options={
        "optimizer": make_choice("sgd", "momentum", "adam"),
        "learning_rate": make_number(None, 1e-12),
        "momentum": make_number(None, 0.0, 1.0),
        "beta_1": make_number(None, 0.0, 1 - 1e-9),
        "beta_2": make_number(None, 0.0, 1 - 1e-9),
        "eps": make_number(None, 0.0),
        "t": make_count(None, maximum=1_000_000),
    },
    build=_build_optimizer_steps,
    make_constants=_make_states,
)
