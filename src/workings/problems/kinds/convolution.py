"""Problems on convolution in one dimension: padding, filters, activation, pooling.

A row of X is a position, a column is a channel. Filter f is a matrix of kernel × channels; the
filters are stacked in W. As in every deep-learning library, a kernel is not flipped.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import Bools, IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.notation import Notation
from workings.problems.ops import (
    ACTIVATIONS,
    Activation,
    Copy,
    Env,
    MistakeOption,
    Op,
    Terms,
    UnaryOp,
    format_symbol,
)
from workings.problems.options import make_choice, make_count
from workings.problems.spellings import find_choice

if TYPE_CHECKING:
    from workings.problems.problem import Problem

_POOLINGS = ("none", "max", "mean", "global max", "global mean")


def count_windows(length: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Return how many windows fit: ⌊(length + 2 padding − kernel) / stride⌋ + 1, or 0.

    >>> count_windows(500, 7, stride=3), count_windows(5, 3, padding=1), count_windows(2, 3)
    (165, 5, 0)
    """
    return max((length + 2 * padding - kernel) // stride + 1, 0)


@dataclass(frozen=True)
class Padding(UnaryOp):
    """Rows of zeros before and after a matrix.

    `repeats_edge` is for the mistake of repeating the first and last row.
    """

    before: int
    after: int
    repeats_edge: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        widths = ((self.before, self.after), (0, 0))
        mode: Any = "edge" if self.repeats_edge else "constant"
        return env[self.x].rearrange(lambda a: np.pad(a, widths, mode=mode))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("pad", format_symbol(n, self.x), n.number(self.before))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        both = self.before + self.after
        for before, after, place in ((0, both, "after"), (both, 0, "before")):
            wrong = replace(self, before=before, after=after)
            yield (
                "padding-on-one-side",
                wrong,
                gettext("put all zeros {place} the sequence", place=place),
            )
        edge = replace(self, repeats_edge=True)
        yield "padding-repeats-edge", edge, gettext("repeated the values at the ends, not zeros")


@dataclass(frozen=True)
class Convolution(UnaryOp):
    """Each filter's products with each window of a sequence, summed: `[windows, filters]`."""

    weight: str
    bias: str | None
    filters: int
    num_windows: int
    stride: int
    # The remaining fields describe mistakes.
    offset: int = 0  # rows before the first window
    flipped: bool = False
    filter_order: tuple[int, ...] = ()  # the filter used in the place of each
    channels: int | None = None  # only the first so many
    bias_count: int = 1  # how often the bias is added

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.weight, *([] if self.bias is None else [self.bias]))

    def compute(self, env: Env) -> IntervalMatrix:
        order, num_windows, channels = self._get_order(), self.num_windows, self.channels
        kernel = self._get_kernel(env)
        starts = self.offset + self.stride * np.arange(num_windows)
        rows = starts[:, None] + np.arange(kernel)  # [window, position]
        if rows.max() >= env[self.x].shape[0]:
            raise ValueError("a window ends outside the sequence")
        flip = slice(None, None, -1) if self.flipped else slice(None)

        def unfold(a: NDArray[Any]) -> NDArray[Any]:
            return a[rows, :channels].reshape(num_windows, -1)

        def fold_filters(a: NDArray[Any]) -> NDArray[Any]:
            stacked = a.reshape(self.filters, kernel, -1)[list(order), flip, :channels]
            return stacked.reshape(self.filters, -1).T

        product = env[self.x].rearrange(unfold) @ env[self.weight].rearrange(fold_filters)
        if self.bias is None:
            return product
        return product + env[self.bias] * IntervalMatrix.exact(self.bias_count)

    def _get_order(self) -> tuple[int, ...]:
        return self.filter_order or tuple(range(self.filters))

    def _get_kernel(self, env: Env) -> int:
        return env[self.weight].shape[0] // self.filters

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        stride = [] if self.stride == 1 else [_format_named(n, "stride", self.stride)]
        product = n.apply("conv", format_symbol(n, self.x), format_symbol(n, self.weight), *stride)
        return product if self.bias is None else n.total([product, format_symbol(n, self.bias)])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        products = self.terms(env, i, j).products
        return n.total([n.product(*map(n.factor, factors)) for factors in products])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        kernel, start = self._get_kernel(env), self.offset + self.stride * i
        first = self._get_order()[j] * kernel
        own = env[self.weight].mid[first : first + kernel]
        own = (own[::-1] if self.flipped else own)[:, : self.channels]
        window = env[self.x].mid[start : start + kernel, : self.channels]
        pairs = zip(window.ravel().tolist(), own.ravel().tolist(), strict=True)
        products: list[tuple[float, ...]] = list(pairs)
        if self.bias is not None:
            products += [(float(env[self.bias].mid[0, j]),)] * self.bias_count
        return Terms(products)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "kernel-flipped", replace(self, flipped=True), gettext("flipped the kernel")
        if self.stride > 1:
            forgotten = replace(self, stride=1)
            yield (
                "stride-forgotten",
                forgotten,
                gettext("moved the window by 1, not by {stride}", stride=self.stride),
            )
        late = replace(self, offset=1)
        yield "window-shifted", late, gettext("started the first window at the second position")
        num_channels = problem.exact_matrices[self.x].shape[1]
        if num_channels > 1:
            first = replace(self, channels=1)
            yield "channels-not-summed", first, gettext("used the first channel only")
        if self.bias is not None:
            yield "bias-forgotten", replace(self, bias=None), gettext("left out the bias")
            if num_channels > 1:
                repeated = replace(self, bias_count=num_channels)
                yield "bias-for-each-channel", repeated, gettext("added the bias once per channel")
        if self.filters > 1:
            yield from self._list_filter_mistakes()

    def _list_filter_mistakes(self) -> Iterator[MistakeOption]:
        order = tuple(range(self.filters))
        turned = ((*order[1:], order[0]), (order[-1], *order[:-1]), order[::-1])
        for other in dict.fromkeys(turned):  # two filters have one other order
            wrong = replace(self, filter_order=other)
            yield "wrong-filter", wrong, gettext("used the filters in another order")
        first = replace(self, filter_order=(0,) * self.filters)
        yield "wrong-filter", first, gettext("used the first filter for all outputs")


@dataclass(frozen=True)
class Pooling(UnaryOp):
    """The maximum or mean of each window of each channel: `[windows, channels]`."""

    function: str  # max, mean
    size: int
    stride: int
    num_windows: int
    # The remaining fields describe mistakes: other functions are min, sum, magnitude.

    def _gather(self, env: Env) -> IntervalMatrix:
        """Return the windows: `[window · channel, position]`."""
        rows = self.stride * np.arange(self.num_windows)[:, None] + np.arange(self.size)
        if rows.max() >= env[self.x].shape[0]:
            raise ValueError("a window ends outside the sequence")
        return env[self.x].rearrange(lambda a: a[rows].transpose(0, 2, 1).reshape(-1, self.size))

    def compute(self, env: Env) -> IntervalMatrix:
        windows, width = self._gather(env), env[self.x].shape[1]
        pooled = _POOL_FUNCTIONS[self.function](windows)
        return pooled.rearrange(lambda a: a.reshape(-1, width))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        stride = [] if self.stride == self.size else [_format_named(n, "stride", self.stride)]
        size = _format_named(n, "size", self.size)
        return n.apply(self.function, format_symbol(n, self.x), size, *stride)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        values = [float(v) for v in self._get_window(env, i, j)]
        if self.function == "mean":
            return n.fraction(n.total([n.factor(v) for v in values]), n.number(len(values)))
        return n.apply(self.function, *(n.number(v) for v in values))

    def terms(self, env: Env, i: int, j: int) -> Terms | None:
        values = self._get_window(env, i, j).tolist()
        if self.function != "mean":
            return None
        return Terms([(value,) for value in values], lambda total: total / len(values))

    def _get_window(self, env: Env, i: int, j: int) -> NDArray[np.float64]:
        start = i * self.stride
        return env[self.x].mid[start : start + self.size, j]

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        names = {"max": ("mean-for-max", "mean"), "mean": ("max-for-mean", "max")}
        name, other = names[self.function]
        yield (
            name,
            replace(self, function=other),
            gettext("took the {other}, not the {function}", other=other, function=self.function),
        )
        if self.function == "mean":
            total = replace(self, function="sum")
            yield "sum-for-mean", total, gettext("did not divide by {size}", size=self.size)
        else:
            least = replace(self, function="min")
            yield "min-for-max", least, gettext("took the smallest number")
            magnitude = replace(self, function="magnitude")
            yield "sign-ignored", magnitude, gettext("took the number of the largest magnitude")
        if self.stride > 1 and self.num_windows > 1:
            overlapping = replace(self, stride=1)
            description = gettext("moved the window by 1, not by {stride}", stride=self.stride)
            yield "stride-forgotten", overlapping, description
        if self.size > 1:
            short = replace(self, size=self.size - 1)
            yield (
                "window-too-short",
                short,
                gettext(
                    "pooled {size} numbers, not {size_2}", size=self.size - 1, size_2=self.size
                ),
            )


def _format_named(n: Notation, name: str, value: int) -> str:
    """Format a named argument: `stride = 2`."""
    return n.equals(n.word(name), n.number(value))


def _take_extremum(windows: IntervalMatrix, largest: bool) -> IntervalMatrix:
    """Return the largest or smallest number of each row."""
    pick = np.max if largest else np.min
    mid, lo, hi = (pick(a, axis=1, keepdims=True) for a in (windows.mid, windows.lo, windows.hi))
    tainted: Bools = np.any(windows.tainted, axis=1, keepdims=True)
    return IntervalMatrix(mid, lo, hi, tainted)


def _take_largest_magnitude(windows: IntervalMatrix) -> IntervalMatrix:
    place = np.abs(windows.mid).argmax(1)[:, None]
    return windows.rearrange(lambda a: np.take_along_axis(a, place, axis=1))


_POOL_FUNCTIONS: dict[str, Callable[[IntervalMatrix], IntervalMatrix]] = {
    "max": lambda windows: _take_extremum(windows, largest=True),
    "min": lambda windows: _take_extremum(windows, largest=False),
    "mean": IntervalMatrix.mean,
    "sum": lambda windows: windows.mean() * IntervalMatrix.exact(windows.shape[1]),
    "magnitude": _take_largest_magnitude,
}


def _build_conv1d_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    options = setting.options
    padding, stride = options["padding"], options["stride"]
    filters = _count_filters(sizes, options["filters"])
    kernel, length = sizes["fk"] // filters, sizes["n"]
    count = count_windows(length, kernel, stride, padding)
    if count == 0:
        padded = (
            gettext("{length} + 2·{padding} positions", length=length, padding=padding)
            if padding
            else gettext("{length} positions", length=length)
        )
        raise UserError(f"the kernel has {kernel} positions, but X has {padded}")
    bias, axis = "b" if "b" in sizes else None, "tokens" if count == length else ""
    activation, pooling = options["activation"], options["pooling"]
    steps = [
        Step("padded", _make_padding(padding), row_axis="", is_shown=padding > 0),
        Step("output", Convolution("padded", "W", bias, filters, count, stride), row_axis=axis),
        Step(
            "activated",
            Copy("output") if activation == "none" else Activation("output", activation),
            row_axis=axis,
            is_shown=activation != "none",
        ),
    ]
    if pooling != "none":
        pool = _make_pooling(pooling, count, options["pool_size"], options["pool_stride"])
        steps.append(Step("pooled", pool, row_axis=""))
    return steps


def _count_filters(sizes: Sizes, declared: int | None) -> int:
    """Return the number of filters: as declared, or one per bias, or one."""
    biases = sizes.sizes.get("f")
    filters = declared or biases or 1
    if biases is not None and biases != filters:
        raise UserError(f"b has {biases} numbers: it must have {filters}, one per filter")
    if sizes["fk"] % filters:
        raise UserError(
            f"{sizes.reasons['fk']}: it must be a multiple of {filters}, the number of filters"
        )
    return filters


def _make_padding(padding: int) -> Op:
    return Padding("X", padding, padding) if padding else Copy("X")


def _make_pooling(pooling: str, length: int, size: int, stride: int | None) -> Pooling:
    *is_global, function = pooling.split()
    size = length if is_global else size
    stride = size if stride is None or is_global else stride
    count = count_windows(length, size, stride)
    if count == 0:
        raise UserError(f"pool_size = {size}, but there are {length} positions to pool")
    return Pooling("activated", function, size, stride, count)


def _rewrite_filters(given: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows as a list of filters, if the input is a flat list: it has one channel."""
    x, w = given.get("X"), given.get("W")
    is_flat = isinstance(x, list) and not any(isinstance(row, list) for row in x)
    rows = w if isinstance(w, list) and all(isinstance(row, list) for row in w) else []
    if not is_flat or len(rows) < 2 or any(len(row) < 2 for row in rows):
        return given
    if any(isinstance(cell, list) for row in rows for cell in row):
        return given
    is_column = find_choice(table.get("vectors"), ("rows", "columns")) == "columns"
    filters = [[row] if is_column else [[cell] for cell in row] for row in rows]
    return {**given, "W": filters}


CONV1D = Kind(
    rewrite_givens=_rewrite_filters,
    name="conv1d",
    matrices={"X": ("n", "c"), "W": ("fk", "c"), "b": ("1", "f")},
    required=("X", "W"),
    settings=(),
    build=_build_conv1d_steps,
    sequences={"X": None, "W": "filters"},
    options={
        "filters": make_count(None),
        "stride": make_count(1),
        "padding": make_count(0, minimum=0),
        "activation": make_choice("none", *(name for name in ACTIVATIONS if name != "none")),
        "pooling": make_choice(*_POOLINGS),
        "pool_size": make_count(2),
        "pool_stride": make_count(None),
    },
)
