"""The named mistakes in recurrent steps, norms, position encodings and feed-forward layers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.kinds.affine import ElementwiseAffine, take_root
from workings.problems.kinds.layers import (
    Angles,
    Mean,
    PositionEncoding,
    Standardization,
    Variance,
)
from workings.problems.kinds.recurrence import list_state_mistakes
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Op,
    Scaling,
)
from workings.problems.problem import Problem

_FUNCTION_NAMES = {
    "relu": gettext_noop("the ReLU"),
    "gelu": gettext_noop("the GELU"),
    "silu": gettext_noop("the SiLU"),
    "tanh": "tanh",
    "sigmoid": gettext_noop("the sigmoid"),
}
_BASES = (10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)
_DEGREES_PER_RADIAN = 57.29577951308232


@dataclass(frozen=True)
class BatchNormalization(Op):
    """A step of a layer norm with moments over the batch: down each column, not along each row.

    `mean` and `variance` are the moments of the columns as claimed; None: computed from `x`.
    """

    x: str
    step: str  # mean, variance, normalised
    eps: float = 0.0
    mean: str | None = None
    variance: str | None = None

    def compute(self, env: Env) -> IntervalMatrix:
        columns = env[self.x].T
        mean = columns.mean() if self.mean is None else env[self.mean]
        if self.step == "mean":
            return mean
        variance = columns.variance(mean) if self.variance is None else env[self.variance]
        if self.step == "variance":
            return variance
        return ((columns - mean) / take_root(variance + IntervalMatrix.exact(self.eps))).T

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(self.step, n.symbol(self.x))

    def sources(self) -> tuple[str, ...]:
        return tuple(key for key in (self.x, self.mean, self.variance) if key is not None)


def list_layer_mistakes(problem: Problem, step: Step) -> Iterator[MistakeOption]:
    """Yield the mistakes of a step that is not particular to dot-product attention."""
    op = step.op
    if isinstance(op, Linear):
        yield from _list_sum_mistakes(problem, step, op)
    elif isinstance(op, Activation):
        yield from _list_activation_mistakes(op)
    elif isinstance(op, Angles):
        yield from _list_angle_mistakes(op)
    elif isinstance(op, PositionEncoding):
        yield from _list_encoding_mistakes(op)
    else:
        yield from _list_norm_mistakes(problem, op)


def _list_sum_mistakes(problem: Problem, step: Step, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistakes in a sum of products: its bias, its function and its previous state."""
    if op.bias is not None:
        yield "bias-forgotten", replace(op, bias=None), gettext("left out the bias")
    if op.function != "none":
        left_out = gettext("left out {function}", function=gettext(_FUNCTION_NAMES[op.function]))
        yield "activation-forgotten", replace(op, function="none"), left_out
        for other, description in _list_other_functions(op.function):
            yield "wrong-activation", replace(op, function=other), description
    if problem.kind.part_name == "t":
        yield from list_state_mistakes(step, op)
    yield from _list_order_mistakes(problem, op)


def _list_other_functions(function: str) -> Iterator[tuple[str, str]]:
    for other, name in _FUNCTION_NAMES.items():
        if other not in (function, "silu"):  # which no one uses by accident
            yield (
                other,
                gettext(
                    "used {name}, not {function}",
                    name=gettext(name),
                    function=gettext(_FUNCTION_NAMES[function]),
                ),
            )


def _list_order_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistake of using W_2 before W_1, with the bias of its place or with its own."""
    swap = {"W_1": "W_2", "W_2": "W_1"}
    ((x, weight), *rest) = op.pairs
    if rest or weight not in swap:
        return
    exchanged = replace(op, pairs=((x, swap[weight]),))
    yield "weights-in-wrong-order", exchanged, gettext("used W_2 first and then W_1")
    other_bias = f"b{swap[weight][1:]}"
    bias = other_bias if other_bias in problem.given else None
    if bias != op.bias:
        description = gettext("used W_2 with its bias first and then W_1")
        yield "weights-in-wrong-order", replace(exchanged, bias=bias), description


def _list_activation_mistakes(op: Activation) -> Iterator[MistakeOption]:
    if op.function == "none":
        return
    yield (
        "activation-forgotten",
        Copy(op.x),
        gettext("left out {function}", function=gettext(_FUNCTION_NAMES[op.function])),
    )
    for other, description in _list_other_functions(op.function):
        yield "wrong-activation", replace(op, function=other), description


def _list_norm_mistakes(problem: Problem, op: Op) -> Iterator[MistakeOption]:
    over_batch = gettext("normalized over the batch, not over each vector")
    if isinstance(op, Mean):
        yield "normalized-over-batch", BatchNormalization(op.x, "mean"), over_batch
    elif isinstance(op, Variance):
        width = problem.exact_matrices[op.x].shape[1]
        if width > 1:
            description = gettext(
                "divided by {width}, not by {width_2}", width=width - 1, width_2=width
            )
            yield "variance-over-n-minus-1", replace(op, unbiased=True), description
        deviation = replace(op, rooted=True)
        yield "deviation-for-variance", deviation, gettext("took the root: the standard deviation")
        yield "normalized-over-batch", BatchNormalization(op.x, "variance"), over_batch
        yield (
            "normalized-over-batch",
            BatchNormalization(op.x, "variance", mean=op.mean),
            gettext("{over_batch}, with the claimed mean", over_batch=over_batch),
        )
    elif isinstance(op, Standardization):
        by_variance = replace(op, divides_by_variance=True)
        yield (
            "variance-for-deviation",
            by_variance,
            gettext("divided by the variance, not by its root"),
        )
        if op.eps:
            yield (
                "eps-forgotten",
                replace(op, eps=0.0),
                gettext("left out ε = {eps:.4g}", eps=op.eps),
            )
        yield "normalized-over-batch", BatchNormalization(op.x, "normalised", op.eps), over_batch
        moments = BatchNormalization(op.x, "normalised", op.eps, op.mean, op.variance)
        yield (
            "normalized-over-batch",
            moments,
            gettext("{over_batch}, with the claimed moments", over_batch=over_batch),
        )
    elif isinstance(op, ElementwiseAffine):
        if op.gamma is not None:
            yield "gamma-forgotten", replace(op, gamma=None), gettext("did not multiply by γ")
        if op.beta is not None:
            yield "beta-forgotten", replace(op, beta=None), gettext("did not add β")


def _list_angle_mistakes(op: Angles) -> Iterator[MistakeOption]:
    yield "positions-from-1", replace(op, first_position=1), gettext("counted the positions from 1")
    for step, exponent in (
        (1, gettext("the column / width")),
        (2, gettext("2 · the column / width")),
    ):
        by_column = replace(op, columns_per_exponent=1, exponent_step=step)
        yield (
            "exponent-by-column",
            by_column,
            gettext("used {exponent} as the exponent", exponent=exponent),
        )
    for base in _BASES:
        if base != op.base:
            description = gettext(
                "used the base {base:,.0f}, not {base_2:,.4g}", base=base, base_2=op.base
            )
            yield "wrong-base", replace(op, base=base), description
    width = op.width
    for other in dict.fromkeys((width // 2, width - 1, width + 1, 2 * width, width - 2, width + 2)):
        if other > 0 and other != width:
            description = gettext("used the width {other}, not {width}", other=other, width=width)
            yield "wrong-width", replace(op, divided_by=other), description
    in_degrees = Scaling("angles", _DEGREES_PER_RADIAN, multiplies=True)
    yield "degrees-for-radians", in_degrees, gettext("converted the angles to degrees")


def _list_encoding_mistakes(op: PositionEncoding) -> Iterator[MistakeOption]:
    for functions, description in (
        (("cos", "sin"), gettext("exchanged sin and cos")),
        (("sin", "sin"), gettext("took sin in every column")),
        (("cos", "cos"), gettext("took cos in every column")),
    ):
        yield "sin-and-cos-swapped", replace(op, functions=functions), description
    in_degrees = replace(op, in_degrees=True)
    yield "degrees-for-radians", in_degrees, gettext("took the angles as degrees, not as radians")
