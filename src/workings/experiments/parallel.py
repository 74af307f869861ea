"""When is attention faster than a recurrent network?

Over n vectors of d numbers, a recurrent network takes n sequential steps of d² multiplications
each. Attention takes n² · d multiplications, all in parallel. Without the projections to queries,
keys and values, the counts are equal at n = d; measured, attention stays faster up to longer
sequences, because processors are good at large batches of equal operations.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from workings.attention import attend
from workings.experiments import QUESTIONS
from workings.experiments.base import Finding, fit_power_law, isolated_rng
from workings.layers.recurrent import RecurrentStack
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side
from workings.render.svg_writer import Point

WIDTHS = (64, 256)
LENGTHS = tuple(2**k for k in range(4, 13))
REPEATS = 5
NUM_FITTED_LENGTHS = 4  # the longest of LENGTHS, to which the exponents are fitted
PARAGRAPH_LENGTH = 256  # one of LENGTHS


@dataclass(frozen=True)
class TimingResult:
    """Seconds by length for vectors of one width."""

    width: int
    recurrent: Sequence[Point]
    attention: Sequence[Point]

    @property
    def crossing(self) -> float | None:
        """The length from which on attention is slower; None if there is none."""
        return find_crossing(self.attention, self.recurrent)


def count_products(length: int, width: int) -> tuple[int, int]:
    """Return the number of multiplications of a recurrent network and of attention."""
    return 2 * length * width**2, 2 * length**2 * width  # W_x x and W_h h; Q Kᵀ and A V


def find_crossing(first: Sequence[Point], second: Sequence[Point]) -> float | None:
    """Return x where `first` last rises above `second`, interpolating linearly in log space.

    >>> find_crossing([(1, 1), (4, 16)], [(1, 2), (4, 8)])
    2.0
    """
    ratios = [(x, math.log(a / b)) for (x, a), (_, b) in zip(first, second, strict=True)]
    for (x, before), (next_x, after) in reversed(list(pairwise(ratios))):
        if before <= 0 < after:
            return float(x * (next_x / x) ** (before / (before - after)))
    return None


def measure(
    seed: int = 1, lengths: Sequence[int] = LENGTHS, repeats: int = REPEATS
) -> list[TimingResult]:
    """Time both layers for all lengths and each width, on one thread."""
    with isolated_rng(seed), torch.no_grad(), _single_thread():
        return [time_layers(width, lengths, repeats) for width in WIDTHS]


def time_layers(width: int, lengths: Sequence[int], repeats: int) -> TimingResult:
    """Time both layers alternately; return the medians."""
    layers = (RecurrentStack("rnn", width, width), lambda x: attend(x, x, x))
    inputs = [torch.randn(1, length, width) for length in lengths]
    rounds = [
        [[_time_call(layer, x) for x in inputs] for layer in layers] for _ in range(repeats + 1)
    ]
    medians = torch.tensor(rounds[1:]).median(0).values  # the first round allocates memory
    return TimingResult(width, *(list(zip(lengths, row, strict=True)) for row in medians.tolist()))


def _time_call(function: Callable[[Tensor], object], x: Tensor) -> float:
    """Return the process time of a call, which other processes do not affect."""
    start = time.process_time()
    function(x)
    return time.process_time() - start


@contextmanager
def _single_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    timings = measure(seed)
    narrow = timings[0]
    recurrent_exponent, attention_exponent = (
        fit_power_law(points[-NUM_FITTED_LENGTHS:])[0]
        for points in (narrow.recurrent, narrow.attention)
    )
    paragraph = LENGTHS.index(PARAGRAPH_LENGTH)
    speedups = [
        f"{x.recurrent[paragraph][1] / x.attention[paragraph][1]:.1f} times at d = {x.width}"
        for x in timings
    ]
    lines = (
        f"From {LENGTHS[-NUM_FITTED_LENGTHS]:,} to {LENGTHS[-1]:,} vectors of {narrow.width} "
        "numbers, the recurrent network's time grows as n to the power of "
        f"{recurrent_exponent:.2f}, attention's to the power of {attention_exponent:.2f}.",
        " ".join(_describe_crossing(x) for x in timings),
        f"For {PARAGRAPH_LENGTH} vectors the network takes {PARAGRAPH_LENGTH} sequential steps, "
        f"attention one. Attention is faster there by {', '.join(speedups)}, on a single thread.",
    )
    rows = [
        (
            f"{length:,}",
            *(
                f"{1000 * points[k][1]:.3g}"
                for x in timings
                for points in (x.recurrent, x.attention)
            ),
        )
        for k, length in enumerate(LENGTHS)
    ]
    return Finding(
        QUESTIONS["parallel"],
        lines,
        "more parallel hardware, a GPU or more threads: attention gains, the recurrent network "
        "does not; a batch of many sequences, whose steps are computed together; generation token "
        "by token, where both have to wait for each. Left out here: the projections to queries, "
        "keys and values, 3·n·d² multiplications, with which attention never takes fewer than the "
        "network, only fewer sequential ones; and the backward pass.",
        side_by_side(
            [_draw_counts(), _draw_times(timings)], "A recurrent network and attention, by length"
        ),
        ("n", *(f"d = {x.width}: {name}, ms" for x in timings for name in ("RNN", "attention"))),
        rows,
    )


def _describe_crossing(timing: TimingResult) -> str:
    counts = f"d = {timing.width}: the multiplications are equal at n = {timing.width}; "
    if timing.crossing is None:
        return f"{counts}the times do not cross up to n = {LENGTHS[-1]:,}."
    return f"{counts}attention is faster up to n ≈ {timing.crossing:,.0f}."


def _draw_counts() -> Picture:
    counts = [
        TimingResult(
            width, *([(n, count_products(n, width)[k]) for n in LENGTHS] for k in range(2))
        )
        for width in WIDTHS
    ]
    return _draw_chart(counts, "Counted", "multiplications")


def _draw_times(timings: Sequence[TimingResult]) -> Picture:
    in_ms = [
        TimingResult(
            x.width,
            *(
                [(n, 1000 * seconds) for n, seconds in points]
                for points in (x.recurrent, x.attention)
            ),
        )
        for x in timings
    ]
    return _draw_chart(in_ms, "Timed, on one thread of this machine", "milliseconds")


def _draw_chart(timings: Sequence[TimingResult], title: str, y_label: str) -> Picture:
    return line_chart(
        [
            Series(f"{name}, d = {x.width}", points, dashed=x.width != WIDTHS[0], color=color)
            for x in timings
            for color, (name, points) in enumerate(
                (("RNN", x.recurrent), ("attention", x.attention))
            )
        ],
        title=title,
        x_label="n, vectors in a sequence",
        y_label=y_label,
        log_x=True,
        log_y=True,
        width=540,
    )
