"""The named mistakes in recurrent steps, norms, position encodings and feed-forward layers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.kinds.layers import (
    Angles,
    ElementwiseAffine,
    Mean,
    PositionEncoding,
    Standardization,
    Variance,
    take_root,
)
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Op,
    Scaling,
    SumOfProducts,
)
from workings.problems.problem import Problem

_FUNCTION_NAMES = {"relu": "the ReLU", "gelu": "the GELU", "tanh": "tanh", "sigmoid": "the sigmoid"}
_MAX_OLDER_STATES = 4  # earlier states that are tried in the place of the previous one
# Wrong orders of the gates: which are used as the forget, the input and the output gate.
_GATE_ORDERS = (
    ("i", "f", "o"),
    ("o", "i", "f"),
    ("f", "o", "i"),
    ("o", "f", "i"),
    ("i", "o", "f"),
)
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
    elif isinstance(op, SumOfProducts):
        yield from _list_cell_mistakes(step, op)
    elif isinstance(op, Angles):
        yield from _list_angle_mistakes(op)
    elif isinstance(op, PositionEncoding):
        yield from _list_encoding_mistakes(op)
    else:
        yield from _list_norm_mistakes(problem, op)


def _list_sum_mistakes(problem: Problem, step: Step, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistakes in a sum of products: its bias, its function and its previous state."""
    if op.bias is not None:
        yield "bias-forgotten", replace(op, bias=None), "left out the bias"
    if op.function != "none":
        left_out = f"left out {_FUNCTION_NAMES[op.function]}"
        yield "activation-forgotten", replace(op, function="none"), left_out
        for other, description in _list_other_functions(op.function):
            yield "wrong-activation", replace(op, function=other), description
    if problem.kind.name in ("rnn", "lstm") and step.part_index is not None:
        (x, w_x), (previous, w_h) = op.pairs
        without = replace(op, pairs=((x, w_x),))
        yield "recurrence-forgotten", without, "left out the previous state"
        for older in _list_older_states(previous):
            wrong = replace(op, pairs=((x, w_x), (older, w_h)))
            yield "state-not-updated", wrong, f"used {_describe_state(older, step)}"
    yield from _list_order_mistakes(problem, op)


def _list_older_states(previous: str) -> list[str]:
    """Return the states before the previous one, `h.3`: the initial one, `h0`, and the latest."""
    name, _, time = previous.partition(".")
    if not time:
        return []
    before = [f"{name}.{t}" for t in range(int(time) - 1, 0, -1)]
    return [f"{name}0", *before[:_MAX_OLDER_STATES]]


def _describe_state(key: str, step: Step) -> str:
    """Describe an older state so that the same mistake at several times is described equally."""
    name, _, time = key.partition(".")
    if not time:
        return f"the initial {key}"
    return f"the {name} of {(step.part_index or 0) - int(time)} steps before"


def _list_other_functions(function: str) -> Iterator[tuple[str, str]]:
    for other, name in _FUNCTION_NAMES.items():
        if other != function:
            yield other, f"used {name}, not {_FUNCTION_NAMES[function]}"


def _list_order_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistake of using W_2 before W_1, with the bias of its place or with its own."""
    swap = {"W_1": "W_2", "W_2": "W_1"}
    ((x, weight), *rest) = op.pairs
    if rest or weight not in swap:
        return
    exchanged = replace(op, pairs=((x, swap[weight]),))
    yield "weights-in-wrong-order", exchanged, "used W_2 first and then W_1"
    other_bias = f"b{swap[weight][1:]}"
    bias = other_bias if other_bias in problem.given else None
    if bias != op.bias:
        description = "used W_2 with its bias first and then W_1"
        yield "weights-in-wrong-order", replace(exchanged, bias=bias), description


def _list_activation_mistakes(op: Activation) -> Iterator[MistakeOption]:
    if op.function == "none":
        return
    yield "activation-forgotten", Copy(op.x), f"left out {_FUNCTION_NAMES[op.function]}"
    for other, description in _list_other_functions(op.function):
        yield "wrong-activation", replace(op, function=other), description


def _list_cell_mistakes(step: Step, op: SumOfProducts) -> Iterator[MistakeOption]:
    """Yield the mistakes in c = f ∘ c_before + i ∘ g and in h = o ∘ tanh(c)."""
    time = step.part_index or 0
    if step.name == "c":
        (_, before), (_, candidate) = op.pairs
        for forget, write, output in _GATE_ORDERS:
            pairs = ((f"{forget}.{time}", before), (f"{write}.{time}", candidate))
            description = _describe_gates(forget, write, output)
            yield "gates-swapped", replace(op, pairs=pairs), description
        yield "recurrence-forgotten", replace(op, pairs=op.pairs[1:]), "left out the previous cell"
        for older in _list_older_states(before):
            pairs = ((f"f.{time}", older), op.pairs[1])
            description = f"used {_describe_state(older, step)}"
            yield "old-cell-used", replace(op, pairs=pairs), description
        return
    ((gate, cell),) = op.pairs
    for other in "fi":
        swapped = replace(op, pairs=((f"{other}.{time}", cell),))
        yield "gates-swapped", swapped, f"used {other} as the output gate"
        for order in _GATE_ORDERS:
            if order[2] == other:  # together with the same order in the step before
                yield "gates-swapped", swapped, _describe_gates(*order)
    squashed = replace(op, function="none")
    yield "cell-not-squashed", squashed, "left out tanh: multiplied by the cell itself"
    for other, description in _list_other_functions(op.function):
        yield "wrong-activation", replace(op, function=other), description
    before = f"c.{time - 1}" if time > 1 else "c0"
    description = "used the previous c, not the new one"
    yield "old-cell-used", replace(op, pairs=((gate, before),)), description
    for older in _list_older_states(before):
        description = f"used {_describe_state(older, step)}"
        yield "old-cell-used", replace(op, pairs=((gate, older),)), description


def _describe_gates(forget: str, write: str, output: str) -> str:
    gates = (("forget", forget, "f"), ("input", write, "i"), ("output", output, "o"))
    parts = [f"{used} as the {name} gate" for name, used, own in gates if used != own]
    return f"used {', '.join(parts)}"


def _list_norm_mistakes(problem: Problem, op: Op) -> Iterator[MistakeOption]:
    over_batch = "normalized over the batch, not over each vector"
    if isinstance(op, Mean):
        yield "normalized-over-batch", BatchNormalization(op.x, "mean"), over_batch
    elif isinstance(op, Variance):
        width = problem.exact_matrices[op.x].shape[1]
        if width > 1:
            description = f"divided by {width - 1}, not by {width}"
            yield "variance-with-n-1", replace(op, unbiased=True), description
        deviation = replace(op, rooted=True)
        yield "deviation-for-variance", deviation, "took the root: the standard deviation"
        yield "normalized-over-batch", BatchNormalization(op.x, "variance"), over_batch
        yield (
            "normalized-over-batch",
            BatchNormalization(op.x, "variance", mean=op.mean),
            f"{over_batch}, with the claimed mean",
        )
    elif isinstance(op, Standardization):
        by_variance = replace(op, divides_by_variance=True)
        yield "variance-for-deviation", by_variance, "divided by the variance, not by its root"
        if op.eps:
            yield "eps-forgotten", replace(op, eps=0.0), f"left out ε = {op.eps:.4g}"
        yield "normalized-over-batch", BatchNormalization(op.x, "normalised", op.eps), over_batch
        moments = BatchNormalization(op.x, "normalised", op.eps, op.mean, op.variance)
        yield "normalized-over-batch", moments, f"{over_batch}, with the claimed moments"
    elif isinstance(op, ElementwiseAffine):
        if op.gamma is not None:
            yield "gamma-forgotten", replace(op, gamma=None), "did not multiply by γ"
        if op.beta is not None:
            yield "beta-forgotten", replace(op, beta=None), "did not add β"


def _list_angle_mistakes(op: Angles) -> Iterator[MistakeOption]:
    yield "positions-from-1", replace(op, first_position=1), "counted the positions from 1"
    for step, exponent in ((1, "the column / width"), (2, "2 · the column / width")):
        by_column = replace(op, columns_per_exponent=1, exponent_step=step)
        yield "exponent-by-column", by_column, f"used {exponent} as the exponent"
    for base in _BASES:
        if base != op.base:
            description = f"used the base {base:,.0f}, not {op.base:,.4g}"
            yield "wrong-base", replace(op, base=base), description
    width = op.width
    for other in dict.fromkeys((width // 2, width - 1, width + 1, 2 * width, width - 2, width + 2)):
        if other > 0 and other != width:
            description = f"used the width {other}, not {width}"
            yield "wrong-width", replace(op, divided_by=other), description
    in_degrees = Scaling("angles", _DEGREES_PER_RADIAN, multiplies=True)
    yield "degrees-for-radians", in_degrees, "converted the angles to degrees"


def _list_encoding_mistakes(op: PositionEncoding) -> Iterator[MistakeOption]:
    for functions, description in (
        (("cos", "sin"), "exchanged sin and cos"),
        (("sin", "sin"), "took sin in every column"),
        (("cos", "cos"), "took cos in every column"),
    ):
        yield "sin-and-cos-swapped", replace(op, functions=functions), description
    in_degrees = replace(op, in_degrees=True)
    yield "degrees-for-radians", in_degrees, "took the angles as degrees, not as radians"
