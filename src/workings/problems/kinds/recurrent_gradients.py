"""Problems on back-propagation through time, and on the Jacobians of recurrent states."""

from dataclasses import dataclass, replace

import numpy as np

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.elementwise import (
    CELL_FUNCTIONS,
    ElementwiseSum,
    make_factors,
    make_product,
)
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.affine import take_root
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layer_gradients import (
    ACTIVATION_NAMES,
    list_input_gradient_mistakes,
    list_slope_mistakes,
)
from workings.problems.kinds.outputs import OUTPUT_MATRICES, OUTPUT_OPTIONS, build_output_steps
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Op,
    RowSlice,
    Terms,
    UnaryOp,
    format_symbol,
    get_matrix,
)
from workings.problems.options import make_choice


@dataclass(frozen=True)
class AddedProduct(Op):
    """`direct + a b`: the gradient of a state, of its own loss and of the next time step."""

    direct: str
    pair: tuple[str, str]

    @property
    def _product(self) -> Linear:
        return Linear((self.pair,))

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.direct] + self._product.compute(env)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        product = self._product.formula(n, column_vectors)
        return n.total([format_symbol(n, self.direct), product])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        direct = n.factor(float(env[self.direct].mid[i, j]))
        return n.total([direct, self._product.cell(n, env, i, j)])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        direct = (float(env[self.direct].mid[i, j]),)
        return Terms([direct, *self._product.terms(env, i, j).products])

    def sources(self) -> tuple[str, ...]:
        return (self.direct, *self._product.sources())


@dataclass(frozen=True)
class AveragedProducts(Linear):
    """A sum of products divided by a number, for the mistake of averaging over time."""

    divisor: float = 1.0

    def compute(self, env: Env) -> IntervalMatrix:
        return super().compute(env) / IntervalMatrix.exact(self.divisor)


def _get_state(t: int) -> str:
    return f"h.{t}" if t else "h0"


def _build_forward_steps(sizes: Sizes, function: str) -> list[Step]:
    """Return the states of the network over time."""
    times = range(1, sizes["n"] + 1)
    steps = [
        Step("x", RowSlice("X", t - 1), part_index=t, is_shown=False, is_claimable=False)
        for t in times
    ]
    for t in times:
        pairs = ((f"x.{t}", "W_xh"), (_get_state(t - 1), "W_hh"))
        total = Linear(pairs, bias="b" if "b" in sizes else None)
        without = replace(total, pairs=pairs[:1])
        mistakes = (("recurrence-forgotten", without, gettext("left out the previous state")),)
        steps.append(Step("sum", total, part_index=t, row_axis="", mistakes=mistakes))
        steps.append(Step("h", Activation(f"sum.{t}", function), part_index=t, row_axis=""))
    return steps


def _build_state_gradient_step(t: int, last: int, direct: str | None) -> Step:
    """Return the gradient of the state at a time: from its own loss and from the next time.

    `direct` is the gradient of its own loss; None: it has none.
    """
    upstream = f"dsum.{t + 1}"
    if t == last:
        own = Copy(direct or "given.dh")
        return Step("dh", own, part_index=t, row_axis="", is_shown=False)
    pair = (upstream, "W_hhᵀ")
    right: Op = Linear((pair,)) if direct is None else AddedProduct(direct, pair)
    wrong_pairs = (
        ("jacobian-transposed", (upstream, "W_hh"), gettext("multiplied by W_hh, not by W_hhᵀ")),
        ("wrong-weight", (upstream, "W_xhᵀ"), gettext("multiplied by W_xhᵀ, not by W_hhᵀ")),
        (
            "slope-forgotten",
            (f"dh.{t + 1}", "W_hhᵀ"),
            gettext("used the next dh, not the next dsum"),
        ),
    )
    mistakes: list[MistakeOption] = []
    for name, wrong, description in wrong_pairs:
        op: Op = Linear((wrong,)) if direct is None else AddedProduct(direct, wrong)
        mistakes.append((name, op, description))
    if direct is None:
        mistakes.append(("weight-forgotten", Copy(upstream), gettext("did not multiply by W_hhᵀ")))
    else:
        without = gettext("left out the gradient of the next time step")
        mistakes.append(("not-accumulated-over-time", Copy(direct), without))
        product = Linear((pair,))
        mistakes.append(
            ("own-loss-forgotten", product, gettext("left out the gradient of its own loss"))
        )
        parts = ((1.0, make_factors(direct)), (1.0, make_factors(upstream)))
        added = ElementwiseSum(parts)
        mistakes.append(("weight-forgotten", added, gettext("did not multiply by W_hhᵀ")))
    return Step("dh", right, part_index=t, row_axis="", mistakes=tuple(mistakes))


def _build_accumulated_step(
    name: str, inputs: list[str], gradients: list[str], shifted: list[str] | None = None
) -> Step:
    """Return the gradient of a weight: `Σ inputᵀ gradient` over all times.

    `shifted` are states that may be taken by mistake for the inputs.
    """
    pairs = tuple((f"{x}ᵀ", dy) for x, dy in zip(inputs, gradients, strict=True))
    transposed = tuple((f"{dy}ᵀ", x) for x, dy in zip(inputs, gradients, strict=True))
    mistakes: list[MistakeOption] = [
        (
            "gradient-transposed",
            Linear(transposed),
            gettext("computed the transpose of every product"),
        ),
    ]
    if gradients[0].startswith("dsum"):
        unsloped = tuple((x, dy.replace("dsum", "dh")) for x, dy in pairs)
        mistakes.append(("slope-forgotten", Linear(unsloped), gettext("used dh, not dsum")))
    if len(inputs) > 1:
        mistakes += [
            (
                "not-accumulated-over-time",
                Linear(pairs[-1:]),
                gettext("took the last time step only"),
            ),
            (
                "not-accumulated-over-time",
                Linear(pairs[:1]),
                gettext("took the first time step only"),
            ),
            (
                "mean-for-sum",
                AveragedProducts(pairs, divisor=float(len(inputs))),
                gettext("took the mean over time, not the sum"),
            ),
        ]
    if shifted is not None:
        wrong = Linear(tuple((f"{x}ᵀ", dy) for x, dy in zip(shifted, gradients, strict=True)))
        is_state_weight = name == "dW_hh"
        mistakes.append(
            ("state-of-same-time", wrong, gettext("used the new state, not the previous one"))
            if is_state_weight
            else ("state-not-updated", wrong, gettext("used the previous state, not the new one"))
        )
    return Step(name, Linear(pairs), row_axis="", mistakes=tuple(mistakes))


def _build_bias_step(name: str, gradients: list[str]) -> Step:
    """Return the gradient of a bias: the sum over all times."""

    def add(keys: list[str]) -> ElementwiseSum:
        return ElementwiseSum(tuple((1.0, make_factors(key)) for key in keys))

    right, mistakes = add(gradients), list[MistakeOption]()
    if gradients[0].startswith("dsum"):
        unsloped = add([key.replace("dsum", "dh") for key in gradients])
        mistakes.append(("slope-forgotten", unsloped, gettext("added dh, not dsum")))
    if len(gradients) > 1:
        last, mean = add(gradients[-1:]), replace(right, divisor=float(len(gradients)))
        mistakes += [
            ("not-accumulated-over-time", last, gettext("took the last time step only")),
            (
                "not-accumulated-over-time",
                add(gradients[:1]),
                gettext("took the first time step only"),
            ),
            ("mean-for-sum", mean, gettext("took the mean over time, not the sum")),
        ]
    return Step(name, right, row_axis="", mistakes=tuple(mistakes))


def _build_output_gradient_step(t: int, count: int) -> Step:
    """Return the gradient of the loss with respect to the output at a time: (p − y) / count."""
    p, target = make_factors(f"probabilities.{t}"), make_factors(f"target.{t}")
    right = ElementwiseSum(((1.0, p), (-1.0, target)), divisor=float(count))
    mistakes: list[MistakeOption] = [
        (
            "p-minus-y-reversed",
            replace(right, products=((1.0, target), (-1.0, p))),
            gettext("took y − p"),
        ),
        (
            "target-not-subtracted",
            replace(right, products=((1.0, p),)),
            gettext("took p, without subtracting y"),
        ),
        (
            "logits-for-probabilities",
            replace(right, products=((1.0, make_factors(f"y.{t}")), (-1.0, target))),
            gettext("subtracted y from the logits, not from their softmax"),
        ),
    ]
    if count > 1:
        wrong = replace(right, divisor=1.0)
        description = gettext("did not divide by {count:g}", count=count)
        mistakes.append(("one-over-n-forgotten", wrong, description))
    return Step("dy", right, part_index=t, row_axis="", mistakes=tuple(mistakes))


def _build_output_gradients(sizes: Sizes, setting: Setting) -> tuple[list[Step], list[int]]:
    """Return the steps from the outputs to the states and to W_hy, and the times of the outputs."""
    outputs = build_output_steps(sizes, setting, range(1, sizes["n"] + 1))
    times = sorted(t for t in outputs if t)
    if not any(step.name == "loss" for step in outputs[times[0]]):
        raise UserError("W_hy is given, but neither targets nor Y: the gradient is of a loss")
    steps = [step for t in times for step in outputs[t]] + outputs.get(0, [])
    count = len(times) if setting.options["reduction"] == "mean" else 1
    gradients = [f"dy.{t}" for t in times]
    steps += [_build_output_gradient_step(t, count) for t in reversed(times)]
    states = [f"h.{t}" for t in times]
    steps.append(
        _build_accumulated_step("dW_hy", states, gradients, [_get_state(t - 1) for t in times])
    )
    if "b_y" in sizes:
        steps.append(_build_bias_step("db_y", gradients))
    for t in reversed(times):
        mistakes = list_input_gradient_mistakes(f"dy.{t}", "W_hy")
        direct = Linear(((f"dy.{t}", "W_hyᵀ"),))
        steps.append(Step("dH", direct, part_index=t, row_axis="", mistakes=mistakes))
    return steps, times


def _build_given_gradients(sizes: Sizes) -> tuple[list[Step], list[int]]:
    """Return the steps with the given gradients of the states, and their times."""
    if "dH" not in sizes:
        return [], []
    times = list(range(1, sizes["n"] + 1))
    return [
        Step("dH", RowSlice("dH", t - 1), part_index=t, is_shown=False, is_claimable=False)
        for t in times
    ], times


def _build_rnn_gradient_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    sources = [name for name in ("dH", "dh", "W_hy") if name in sizes]
    if len(sources) != 1:
        raise UserError(
            "kind rnn_gradient needs given.dH (one row per time), given.dh (of the last state) or"
            " W_hy with targets (of a loss)"
            + (f", not both {sources[0]} and {sources[1]}" if sources else "")
        )
    function, count = setting.options["activation"], sizes["n"]
    steps = _build_forward_steps(sizes, function)
    own, direct_times = (
        _build_output_gradients(sizes, setting)
        if "W_hy" in sizes
        else _build_given_gradients(sizes)
    )
    steps += own
    for t in range(count, 0, -1):
        direct = f"dH.{t}" if t in direct_times else None
        steps.append(_build_state_gradient_step(t, count, direct))
        slope = make_product(f"dh.{t}", (f"h.{t}", f"slope of {function}"))
        mistakes = list_slope_mistakes(f"dh.{t}", f"h.{t}", function, f"sum.{t}")
        steps.append(Step("dsum", slope, part_index=t, row_axis="", mistakes=mistakes))
    times = range(1, count + 1)
    states, gradients = [_get_state(t) for t in range(count + 1)], [f"dsum.{t}" for t in times]
    steps += [
        _build_accumulated_step("dW_xh", [f"x.{t}" for t in times], gradients),
        _build_accumulated_step("dW_hh", states[:-1], gradients, states[1:]),
    ]
    if "b" in sizes:
        steps.append(_build_bias_step("db", gradients))
    if "h0" in sizes:
        mistakes = list_input_gradient_mistakes("dsum.1", "W_hh")
        steps.append(Step("dh0", Linear((("dsum.1", "W_hhᵀ"),)), row_axis="", mistakes=mistakes))
    return steps


@dataclass(frozen=True)
class StateJacobian(Op):
    """`W diag(f')`: how a state changes with the previous one, vectors as rows.

    With column vectors it is diag(f') W, the Jacobian as it is usually written.
    """

    weight: str
    state: str
    function: str
    scales_rows: bool = False  # a mistake: the slopes multiply from the other side

    def compute(self, env: Env) -> IntervalMatrix:
        slope = CELL_FUNCTIONS[f"slope of {self.function}"].apply(env[self.state])
        return get_matrix(env, self.weight) * (slope.T if self.scales_rows else slope)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        state = format_symbol(n, self.state)
        slope = CELL_FUNCTIONS[f"slope of {self.function}"].write(n, state, n.elementwise)
        if self.function == "tanh":  # without the parentheses of a factor
            slope = n.row(n.number(1), "−", n.power(state, n.number(2)))
        factors = (format_symbol(n, self.weight), n.apply("diag", slope))
        return n.matrix_product(*(reversed(factors) if column_vectors else factors))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        write = CELL_FUNCTIONS[f"slope of {self.function}"].write
        slope = write(n, n.factor(float(env[self.state].mid[0, j])), n.product)
        return n.product(n.factor(float(env[self.weight].mid[i, j])), slope)

    def sources(self) -> tuple[str, ...]:
        return (self.weight.removesuffix("ᵀ"), self.state)


@dataclass(frozen=True)
class FrobeniusNorm(UnaryOp):
    """The root of the sum of all squares."""

    # The fields describe mistakes.
    is_rooted: bool = True
    is_squared: bool = True

    def _add(self, env: Env) -> IntervalMatrix:
        x = env[self.x]
        squares = CELL_FUNCTIONS["square"].apply(x) if self.is_squared else x
        rows = squares @ IntervalMatrix.exact(np.ones((x.shape[1], 1)))
        return rows.T @ IntervalMatrix.exact(np.ones((x.shape[0], 1)))

    def compute(self, env: Env) -> IntervalMatrix:
        return take_root(self._add(env)) if self.is_rooted else self._add(env)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        total = self._add(env).round_to(unit)
        return take_root(total) if self.is_rooted else total

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.root(n.apply("sum", n.power(format_symbol(n, self.x), n.number(2))))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        cells = env[self.x].mid.ravel().tolist()
        return n.root(n.total([n.power(n.factor(v), n.number(2)) for v in cells]))


def _list_jacobian_mistakes(right: StateJacobian) -> tuple[MistakeOption, ...]:
    return (
        ("slope-forgotten", Copy(right.weight), gettext("left out the slope of the activation")),
        (
            "jacobian-transposed",
            replace(right, weight=f"{right.weight}ᵀ"),
            gettext("used {weight}ᵀ, not {weight}", weight=right.weight),
        ),
        (
            "slope-on-wrong-side",
            replace(right, scales_rows=True),
            gettext("multiplied the other side of W_hh by the slopes"),
        ),
        *(
            (
                "wrong-slope",
                replace(right, function=other),
                gettext("used the slope of {name}", name=gettext(name)),
            )
            for other, name in ACTIVATION_NAMES.items()
            if other != right.function
        ),
        (
            "slope-at-wrong-value",
            replace(right, state=right.state.replace("h.", "sum.")),
            gettext("computed the slope from the sum, before the activation"),
        ),
    )


def _build_product_steps(t: int) -> list[Step]:
    """Return the derivative of a state with respect to the initial one, and its norm."""
    jacobian, product, norm = f"jacobian.{t}", f"product.{t - 1}", FrobeniusNorm(f"product.{t}")
    mistakes: tuple[MistakeOption, ...] = (
        (
            "product-in-wrong-order",
            Linear(((jacobian, product),)),
            gettext("multiplied the Jacobians in the other order"),
        ),
        ("not-accumulated-over-time", Copy(jacobian), gettext("took the last Jacobian only")),
        (
            "elementwise-product",
            make_product(product, jacobian),
            gettext("multiplied cell by cell, not as matrices"),
        ),
    )
    return [
        Step(
            "product",
            Linear(((product, jacobian),)) if t > 1 else Copy(jacobian),
            part_index=t,
            row_axis="",
            is_shown=t > 1,
            mistakes=mistakes if t > 1 else (),
        ),
        Step(
            "norm",
            norm,
            part_index=t,
            row_axis="",
            mistakes=(
                (
                    "root-forgotten",
                    replace(norm, is_rooted=False),
                    gettext("did not take the root"),
                ),
                (
                    "square-forgotten",
                    replace(norm, is_rooted=False, is_squared=False),
                    gettext("added the numbers, not their squares"),
                ),
                (
                    "not-accumulated-over-time",
                    FrobeniusNorm(jacobian),
                    gettext("took the norm of the last Jacobian, not of the product"),
                ),
            ),
        ),
    ]


def _build_jacobian_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    function = setting.options["activation"]
    steps = _build_forward_steps(sizes, function)
    for t in range(1, sizes["n"] + 1):
        jacobian = StateJacobian("W_hh", f"h.{t}", function)
        mistakes = _list_jacobian_mistakes(jacobian)
        steps.append(Step("jacobian", jacobian, part_index=t, row_axis="", mistakes=mistakes))
        steps += _build_product_steps(t)
    return steps


def _make_initial_state(sizes: Sizes) -> dict[str, IntervalMatrix]:
    return {} if "h0" in sizes else {"h0": IntervalMatrix.exact(np.zeros((1, sizes["h"])))}


_RNN_MATRICES = {
    "X": ("n", "d"),
    "W_xh": ("d", "h"),
    "W_hh": ("h", "h"),
    "b": ("1", "h"),
    "h0": ("1", "h"),
}
_OPTIONS = {"activation": make_choice("tanh", "relu", "sigmoid", "none")}

RNN_GRADIENT = Kind(
    name="rnn_gradient",
    matrices={**_RNN_MATRICES, "dH": ("n", "h"), "dh": ("1", "h"), **OUTPUT_MATRICES},
    required=("X", "W_xh", "W_hh"),
    settings=(),
    options={**_OPTIONS, **OUTPUT_OPTIONS},
    build=_build_rnn_gradient_steps,
    part_name="t",
    make_constants=_make_initial_state,
)
RNN_JACOBIAN = Kind(
    name="rnn_jacobian",
    matrices=_RNN_MATRICES,
    required=("X", "W_xh", "W_hh"),
    settings=(),
    options=_OPTIONS,
    build=_build_jacobian_steps,
    part_name="t",
    make_constants=_make_initial_state,
)
