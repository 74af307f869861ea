"""Problems on position encodings, layer norm, feed-forward, additive attention and blocks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import IntervalMatrix, select_cells
from workings.problems.kinds.affine import ElementwiseAffine, take_root
from workings.problems.kinds.attention import (
    ATTENTION_MATRICES,
    ATTENTION_TIED_SIZES,
    build_attention_steps,
)
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.rms_norm import build_rms_norm_steps
from workings.problems.kinds.softmax import EXPONENTIALS_OPTION, build_weight_steps
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Normalization,
    Op,
    Sum,
    SumOfProducts,
    Terms,
    UnaryOp,
    format_symbol,
)
from workings.problems.options import make_choice

if TYPE_CHECKING:
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class Angles(Op):
    """`pos / base^(2i/width)`, one angle per column or per pair of columns."""

    count: int
    width: int
    base: float
    per_pair: bool
    # The remaining fields describe mistakes.
    first_position: int = 0
    divided_by: int | None = None  # in the exponent, instead of the width
    columns_per_exponent: int = 2  # 1: the exponent grows with every column, not with every pair
    exponent_step: int = 2  # of adjacent exponents: 2i

    def _exponents(self) -> list[int]:
        shared = 1 if self.per_pair else self.columns_per_exponent
        columns = range((self.width + 1) // 2 if self.per_pair else self.width)
        return [self.exponent_step * (column // shared) for column in columns]

    def compute(self, env: Env) -> IntervalMatrix:  # noqa: ARG002
        divisors = self.base ** (np.array(self._exponents()) / (self.divided_by or self.width))
        positions = np.arange(self.count)[:, None] + self.first_position
        return IntervalMatrix.exact(positions) / IntervalMatrix.exact(divisors[None, :])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        exponent = n.fraction(n.product(n.number(2), n.symbol("i")), n.number(self.width))
        return n.fraction(n.symbol("pos"), n.power(n.number(self.base), exponent))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        exponent = n.fraction(n.number(self._exponents()[j]), n.number(self.width))
        return n.fraction(n.number(i), n.power(n.number(self.base), exponent))

    def sources(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class PositionEncoding(Op):
    """The sine of the angle in even columns and the cosine in odd columns, counted from 0."""

    width: int
    per_pair: bool
    # The remaining fields describe mistakes.
    functions: tuple[str, str] = ("sin", "cos")  # of even and odd columns
    in_degrees: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        angles = env["angles"]
        if self.per_pair:
            angles = angles.rearrange(lambda a: a.repeat(2, axis=1)[:, : self.width])
        if self.in_degrees:
            angles = angles * IntervalMatrix.exact(np.pi / 180)
        is_even = np.arange(self.width) % 2 == 0
        return select_cells(is_even, *(_SINUSOIDS[function](angles) for function in self.functions))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        angle = n.symbol("angle")
        return n.row(n.apply("sin", angle), ",", n.apply("cos", angle))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        angle = env["angles"].mid[i, j // 2 if self.per_pair else j]
        return n.apply(self.functions[j % 2], n.number(float(angle)))

    def sources(self) -> tuple[str, ...]:
        return ("angles",)


_SINUSOIDS: dict[str, Callable[[IntervalMatrix], IntervalMatrix]] = {
    "sin": lambda angles: angles.apply_sinusoid(np.sin, np.pi / 2),
    "cos": lambda angles: angles.apply_sinusoid(np.cos, 0.0),
}


def _build_position_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    # Half as many claimed angles as columns: they are given per pair of columns.
    per_pair = sizes.sizes.get("angles") == (setting.width + 1) // 2 != setting.width
    return [
        Step("angles", Angles(setting.count, setting.width, setting.base, per_pair)),
        Step("encoding", PositionEncoding(setting.width, per_pair)),
    ]


@dataclass(frozen=True)
class Mean(UnaryOp):
    """The mean of each row."""

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x].mean()

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("mean", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        row = env[self.x].mid[i]
        return n.fraction(n.total([n.factor(float(v)) for v in row]), n.number(len(row)))

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        row = env[self.x].mid[i].tolist()
        return Terms([(value,) for value in row], lambda total: total / len(row))


@dataclass(frozen=True)
class Variance(Op):
    """The variance of each row, divided by d (not d − 1)."""

    x: str
    mean: str
    # The remaining fields describe mistakes.
    unbiased: bool = False  # divided by d − 1
    rooted: bool = False  # the standard deviation instead

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x]
        variance = x.variance(env[self.mean])
        if self.unbiased:
            variance = variance * IntervalMatrix.exact(x.shape[1] / (x.shape[1] - 1))
        return take_root(variance) if self.rooted else variance

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        difference = n.row("(", format_symbol(n, self.x), "−", format_symbol(n, self.mean), ")")
        return n.apply("mean", n.power(difference, n.number(2)))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        mean, row = n.factor(float(env[self.mean].mid[i, 0])), env[self.x].mid[i]
        squares = [
            n.power(n.row("(", n.number(float(v)), "−", mean, ")"), n.number(2)) for v in row
        ]
        return n.fraction(n.total(squares), n.number(len(row)))

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        distances = (env[self.x].mid[i] - env[self.mean].mid[i, 0]).tolist()
        return Terms([(d, d) for d in distances], lambda total: total / len(distances))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.mean)


@dataclass(frozen=True)
class Standardization(Op):
    """The difference from the mean divided by the standard deviation.

    `divides_by_variance` is for the mistake of not taking the root.
    """

    failure: ClassVar[str] = "divides by zero (is X constant there? give an eps)"
    x: str
    mean: str
    variance: str
    eps: float
    divides_by_variance: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        return (env[self.x] - env[self.mean]) / self._compute_deviation(env)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        deviation = self._compute_deviation(env)
        rounded = deviation.round_to(unit)
        # A deviation that would be rounded to zero is not rounded: it is divided by.
        lo = np.where(rounded.lo > 0, rounded.lo, deviation.lo)
        return (env[self.x] - env[self.mean]) / replace(rounded, lo=lo)

    def _compute_deviation(self, env: Env) -> IntervalMatrix:
        variance = env[self.variance] + IntervalMatrix.exact(self.eps)
        return variance if self.divides_by_variance else take_root(variance)

    def _format_quotient(self, n: Notation, difference: str, variance: str) -> str:
        radicand = n.total([variance, n.number(self.eps)]) if self.eps else variance
        return n.fraction(difference, n.root(radicand))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        difference = n.row(format_symbol(n, self.x), "−", format_symbol(n, self.mean))
        return self._format_quotient(n, difference, format_symbol(n, self.variance))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        own, shape = env[self.x].mid[i, j], env[self.x].shape
        # The moments have a single column or, of a batch, a single row.
        mean, variance = (
            float(np.broadcast_to(env[key].mid, shape)[i, j]) for key in (self.mean, self.variance)
        )
        difference = n.row(n.number(float(own)), "−", n.factor(mean))
        return self._format_quotient(n, difference, n.number(variance))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.mean, self.variance)


def build_norm_steps(
    setting: Setting, x: str, gamma: str | None, beta: str | None, prefix: str = ""
) -> list[Step]:
    """Return the steps of a layer norm of `x`."""
    mean, variance, normalised = (f"{prefix}{s}" for s in ("mean", "variance", "normalised"))
    return [
        Step(mean, Mean(x)),
        Step(variance, Variance(x, mean)),
        Step(normalised, Standardization(x, mean, variance, setting.eps)),
        Step(
            f"{prefix}output",
            ElementwiseAffine(normalised, gamma, beta) if gamma or beta else Copy(normalised),
            is_shown=bool(gamma or beta),
        ),
    ]


def _build_layer_norm_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    gamma, beta = ("gamma" if "gamma" in sizes else None, "beta" if "beta" in sizes else None)
    return build_norm_steps(setting, "X", gamma, beta)


def build_feed_forward_steps(
    sizes: Sizes, setting: Setting, x: str = "X", prefix: str = ""
) -> list[Step]:
    """Return the steps of `W_2 σ(W_1 x + b_1) + b_2`; with W_3, of a gated layer."""
    biases = {b: b if b in sizes else None for b in ("b_1", "b_2", "b_3")}
    hidden, activated = f"{prefix}hidden", f"{prefix}activated"
    steps = [Step(hidden, Linear(((x, "W_1"),), bias=biases["b_1"]))]
    if "W_3" in sizes:
        total = Linear(((x, "W_3"),), bias=biases["b_3"])
        steps += _build_gate_steps(hidden, activated, total, setting)
    elif biases["b_3"]:
        raise UserError("b_3 is given, but not W_3: the gate is σ(X W_3 + b_3)")
    else:
        steps.append(Step(activated, Activation(hidden, setting.activation)))
    return [*steps, Step(f"{prefix}output", Linear(((activated, "W_2"),), bias=biases["b_2"]))]


def _build_gate_steps(hidden: str, activated: str, total: Linear, setting: Setting) -> list[Step]:
    """Return the steps of a gate, σ(X W_3 + b_3), and of its product with the hidden features."""
    gate = activated.replace("activated", "gate")
    gate_sum = f"{gate}_sum"
    mistakes: tuple[MistakeOption, ...] = (
        ("gate-forgotten", Activation(hidden, setting.activation), gettext("left out the gate")),
        (
            "gate-not-activated",
            SumOfProducts(((hidden, gate_sum),)),
            gettext("multiplied by the gate's sums, without the activation"),
        ),
        (
            "activation-on-wrong-part",
            SumOfProducts(((gate_sum, hidden),), function=setting.activation),
            gettext("activated the hidden features, not the gate"),
        ),
        ("gate-added", Sum(hidden, gate), gettext("added the gate, and did not multiply by it")),
    )
    return [
        Step(gate_sum, total),
        Step(gate, Activation(gate_sum, setting.activation)),
        Step(activated, SumOfProducts(((hidden, gate),)), mistakes=mistakes),
    ]


def _build_additive_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    def weight(name: str) -> str:
        return name if name in sizes else f"I.{sizes['k']}"

    pairs = (("s", weight("W_s")), ("H", weight("W_h")))
    weights = Step("weights", Normalization("scores"), row_axis="", column_axis="context")
    return [
        Step("hidden", Linear(pairs, function="tanh"), row_axis="context"),
        Step("scores", Linear((("v", "hiddenᵀ"),)), row_axis="", column_axis="context"),
        *build_weight_steps(sizes, setting, weights, "scores").values(),
        Step("mixed", Linear((("weights", "H"),)), row_axis=""),
    ]


FEED_FORWARD_MATRICES = {
    "W_1": ("d", "h"),
    "b_1": ("1", "h"),
    "W_2": ("h", "o"),
    "b_2": ("1", "o"),
}

POSITIONS = Kind(
    name="positions",
    matrices={},
    required=(),
    settings=("count", "width", "base"),
    build=_build_position_steps,
)
LAYER_NORM = Kind(
    name="layer_norm",
    matrices={"X": ("n", "d"), "gamma": ("1", "d"), "beta": ("1", "d")},
    required=("X",),
    settings=("eps",),
    build=_build_layer_norm_steps,
)
FEED_FORWARD = Kind(
    name="feed_forward",
    matrices={"X": ("n", "d"), **FEED_FORWARD_MATRICES, "W_3": ("d", "h"), "b_3": ("1", "h")},
    required=("X", "W_1", "W_2"),
    settings=("activation",),
    build=build_feed_forward_steps,
)
ADDITIVE = Kind(
    name="additive",
    matrices={
        "s": ("1", "a"),
        "H": ("n", "b"),
        "W_s": ("a", "k"),
        "W_h": ("b", "k"),
        "v": ("1", "k"),
    },
    required=("s", "H", "v"),
    tied_sizes=((("W_s",), "a", "k"), (("W_h",), "b", "k")),
    settings=(),
    options={"exponentials": EXPONENTIALS_OPTION},
    build=_build_additive_steps,
)


@dataclass(frozen=True)
class Residual(Sum):
    """The input of a part of a block plus its output."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "residual-forgotten", Copy(self.b), gettext("did not add the input of the part")


NORM_OPTION = make_choice("layer", "rms")


def build_block_norm(sizes: Sizes, setting: Setting, which: int, x: str) -> list[Step]:
    """Return the steps of one norm of a block, with its own γ and β or those given for all."""
    gamma, beta = (
        next((g for g in (f"{name}_{which}", name) if g in sizes), None)
        for name in ("gamma", "beta")
    )
    prefix = f"norm_{which}."
    if setting.options["norm"] == "layer":
        return build_norm_steps(setting, x, gamma, beta, prefix)
    if beta is not None:
        raise UserError(f'{beta} is given, but norm = "rms": an RMSNorm has no β')
    return build_rms_norm_steps(setting.eps, x, gamma, prefix)


def _build_block_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    if setting.order == "pre":
        return [
            *build_block_norm(sizes, setting, 1, "X"),
            *build_attention_steps(sizes, setting, "attention.", "norm_1.output"),
            Step("add_1", Residual("X", "attention.output")),
            *build_block_norm(sizes, setting, 2, "add_1"),
            *build_feed_forward_steps(sizes, setting, "norm_2.output", "feed_forward."),
            Step("add_2", Residual("add_1", "feed_forward.output")),
        ]
    return [
        *build_attention_steps(sizes, setting, "attention.", "X"),
        Step("add_1", Residual("X", "attention.output")),
        *build_block_norm(sizes, setting, 1, "add_1"),
        *build_feed_forward_steps(sizes, setting, "norm_1.output", "feed_forward."),
        Step("add_2", Residual("norm_1.output", "feed_forward.output")),
        *build_block_norm(sizes, setting, 2, "add_2"),
    ]


BLOCK = Kind(
    name="block",
    # The residual connections add outputs to inputs, so attention and feed-forward must have
    # outputs of width d.
    matrices={
        **ATTENTION_MATRICES,
        "W_O": ("w", "d"),
        "b_O": ("1", "d"),
        **FEED_FORWARD_MATRICES,
        "W_2": ("h", "d"),
        "b_2": ("1", "d"),
        **{f"{name}{end}": ("1", "d") for name in ("gamma", "beta") for end in ("", "_1", "_2")},
    },
    required=("X", "W_1", "W_2"),
    tied_sizes=(*ATTENTION_TIED_SIZES, (("W_O",), "w", "d")),
    settings=("heads", "scale", "mask", "normalizer", "activation", "order", "eps"),
    options={"exponentials": EXPONENTIALS_OPTION, "norm": NORM_OPTION},
    build=_build_block_steps,
    part_name="head",
    prefixes=("attention", "norm_1", "feed_forward", "norm_2"),
)
