"""When is attention faster than a recurrent network?

Over n vectors of d numbers a recurrent network takes n steps of d² products each, one after the
other. Attention takes n² times d products, all at once. Counted so, without the projections to
queries, keys and values, they are even where n = d; timed, attention has a lead, because a machine
is good at much work of one kind at once.
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
from workings.experiments.curves import fit_power_law
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng
from workings.layers.recurrent import RecurrentStack
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side
from workings.render.svg_writer import Point

WIDTHS = (64, 256)
LENGTHS = tuple(2**k for k in range(4, 13))
REPEATS = 5
NUM_FITTED_LENGTHS = 4  # lengths that an exponent is fitted to: the longest
PARAGRAPH_LENGTH = 256  # of the lengths: a paragraph


@dataclass(frozen=True)
class TimingResult:
    """The two over vectors of one width: points of length and seconds."""

    width: int
    recurrent: Sequence[Point]
    attention: Sequence[Point]

    @property
    def crossing(self) -> float | None:
        """The length at which attention begins to take longer; None: at none of those timed."""
        return find_crossing(self.attention, self.recurrent)


def count_products(length: int, width: int) -> tuple[int, int]:
    """How many products of two numbers a recurrent network takes, and how many attention."""
    return 2 * length * width**2, 2 * length**2 * width  # W_x x and W_h h; Q Kᵀ and A V


def find_crossing(first: Sequence[Point], second: Sequence[Point]) -> float | None:
    """Where one begins to stay above the other, both drawn straight between their logarithms.

    >>> find_crossing([(1, 1), (4, 16)], [(1, 2), (4, 8)])
    2.0
    """
    leads = [(x, math.log(a / b)) for (x, a), (_, b) in zip(first, second, strict=True)]
    for (x, before), (y, after) in reversed(list(pairwise(leads))):
        if before <= 0 < after:
            return float(x * (y / x) ** (before / (before - after)))
    return None


def measure(
    seed: int = 1, lengths: Sequence[int] = LENGTHS, repeats: int = REPEATS
) -> list[TimingResult]:
    """Time both over all lengths, for each width, on one thread."""
    with isolated_rng(seed), torch.no_grad(), _single_thread():
        return [time_layers(width, lengths, repeats) for width in WIDTHS]


def time_layers(width: int, lengths: Sequence[int], repeats: int) -> TimingResult:
    """Time both turn and turn about, and keep the medians."""
    ways = (RecurrentStack("rnn", width, width), lambda x: attend(x, x, x))
    inputs = [torch.randn(1, length, width) for length in lengths]
    rounds = [[[_time_call(way, x) for x in inputs] for way in ways] for _ in range(repeats + 1)]
    medians = torch.tensor(rounds[1:]).median(0).values  # in the first, memory is made ready
    return TimingResult(width, *(list(zip(lengths, way, strict=True)) for way in medians.tolist()))


def _time_call(function: Callable[[Tensor], object], x: Tensor) -> float:
    """Of the processor's time: what else the machine does meanwhile does not count."""
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
    """Say and draw what was measured."""
    raced = measure(seed)
    narrow = raced[0]
    grown = [
        fit_power_law(way[-NUM_FITTED_LENGTHS:])[0] for way in (narrow.recurrent, narrow.attention)
    ]
    k = LENGTHS.index(PARAGRAPH_LENGTH)
    lead = {r.width: r.recurrent[k][1] / r.attention[k][1] for r in raced}
    lines = (
        f"From {LENGTHS[-NUM_FITTED_LENGTHS]:,} to {LENGTHS[-1]:,} vectors of {narrow.width} numbers, the "
        f"recurrent network's time grows as n to the power of {grown[0]:.2f}, attention's to that "
        f"of {grown[1]:.2f}.",
        " ".join(_describe_crossing(r) for r in raced),
        f"Of {PARAGRAPH_LENGTH} vectors the network makes {PARAGRAPH_LENGTH} steps, one after the other, attention one. "
        "Its lead there: "
        + ", ".join(f"{times:.1f} times at d = {width}" for width, times in lead.items())
        + ", on a single thread.",
    )
    head = ("n", *(f"d = {r.width}: {name}, ms" for r in raced for name in ("RNN", "attention")))
    rows = [
        (
            f"{n:,}",
            *(f"{1000 * way[k][1]:.3g}" for r in raced for way in (r.recurrent, r.attention)),
        )
        for k, n in enumerate(LENGTHS)
    ]
    return Finding(
        QUESTIONS["parallel"],
        lines,
        "a machine that does more at once, a graphics processor or more threads: attention gains, "
        "the recurrent network does not; a batch of many sequences, whose steps are taken "
        "together; writing one token after the other, when both have to wait for each. Left out "
        "here: the projections to queries, keys and values, 3·n·d² products, with which attention "
        "never takes fewer than the network, only fewer one after the other; and the way back.",
        side_by_side(
            [_draw_counts(), _draw_times(raced)], "A recurrent network and attention, by length"
        ),
        head,
        rows,
    )


def _describe_crossing(timing: TimingResult) -> str:
    counted = f"d = {timing.width}: products are equally many at n = {timing.width}; "
    if timing.crossing is None:
        return f"{counted}the times do not cross up to n = {LENGTHS[-1]:,}."
    return f"{counted}attention is the faster one up to n ≈ {timing.crossing:,.0f}."


def _draw_counts() -> Picture:
    return _draw_chart(
        [
            TimingResult(
                width, *([(n, count_products(n, width)[k]) for n in LENGTHS] for k in range(2))
            )
            for width in WIDTHS
        ],
        "Counted",
        "products of two numbers",
    )


def _draw_times(timings: Sequence[TimingResult]) -> Picture:
    in_ms = [
        TimingResult(
            r.width, *([(n, 1000 * s) for n, s in way] for way in (r.recurrent, r.attention))
        )
        for r in timings
    ]
    return _draw_chart(in_ms, "Timed, on one thread of this machine", "milliseconds")


def _draw_chart(timings: Sequence[TimingResult], title: str, y_label: str) -> Picture:
    return line_chart(
        [
            Series(f"{name}, d = {r.width}", way, dashed=r.width != WIDTHS[0], color=colour)
            for r in timings
            for colour, (name, way) in enumerate((("RNN", r.recurrent), ("attention", r.attention)))
        ],
        title=title,
        x_label="n, vectors in a sequence",
        y_label=y_label,
        log_x=True,
        log_y=True,
        width=540,
    )
