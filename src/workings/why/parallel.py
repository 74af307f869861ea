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
from workings.layers.recurrent import Recurrent
from workings.views.chart import Series, line_chart
from workings.views.marks import Point
from workings.views.panels import side_by_side
from workings.views.picture import Picture
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import seeded
from workings.why.power_law import power_law

WIDTHS = (64, 256)
LENGTHS = tuple(2**k for k in range(4, 13))
REPEATS = 5
TAIL = 4  # lengths that an exponent is fitted to: the longest
SOME = 256  # of the lengths: a paragraph


@dataclass(frozen=True)
class Raced:
    """The two over vectors of one width: points of length and seconds."""

    width: int
    recurrent: Sequence[Point]
    attention: Sequence[Point]

    @property
    def crossing(self) -> float | None:
        """The length at which attention begins to take longer; None: at none of those timed."""
        return crossing(self.attention, self.recurrent)


def products(length: int, width: int) -> tuple[int, int]:
    """How many products of two numbers a recurrent network takes, and how many attention."""
    return 2 * length * width**2, 2 * length**2 * width  # W_x x and W_h h; Q Kᵀ and A V


def crossing(one: Sequence[Point], other: Sequence[Point]) -> float | None:
    """Where one begins to stay above the other, both drawn straight between their logarithms.

    >>> crossing([(1, 1), (4, 16)], [(1, 2), (4, 8)])
    2.0
    """
    leads = [(x, math.log(a / b)) for (x, a), (_, b) in zip(one, other, strict=True)]
    for (x, before), (y, after) in reversed(list(pairwise(leads))):
        if before <= 0 < after:
            return float(x * (y / x) ** (before / (before - after)))
    return None


def measure(seed: int = 1, lengths: Sequence[int] = LENGTHS, repeats: int = REPEATS) -> list[Raced]:
    """Time both over all lengths, for each width, on one thread."""
    with seeded(seed), torch.no_grad(), _one_thread():
        return [race(width, lengths, repeats) for width in WIDTHS]


def race(width: int, lengths: Sequence[int], repeats: int) -> Raced:
    """Time both turn and turn about, and keep the medians."""
    ways = (Recurrent("rnn", width, width), lambda x: attend(x, x, x))
    inputs = [torch.randn(1, length, width) for length in lengths]
    rounds = [[[_seconds(way, x) for x in inputs] for way in ways] for _ in range(repeats + 1)]
    medians = torch.tensor(rounds[1:]).median(0).values  # in the first, memory is made ready
    return Raced(width, *(list(zip(lengths, way, strict=True)) for way in medians.tolist()))


def _seconds(way: Callable[[Tensor], object], x: Tensor) -> float:
    """Of the processor's time: what else the machine does meanwhile does not count."""
    start = time.process_time()
    way(x)
    return time.process_time() - start


@contextmanager
def _one_thread() -> Iterator[None]:
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
    grown = [power_law(way[-TAIL:])[0] for way in (narrow.recurrent, narrow.attention)]
    k = LENGTHS.index(SOME)
    lead = {r.width: r.recurrent[k][1] / r.attention[k][1] for r in raced}
    lines = (
        f"From {LENGTHS[-TAIL]:,} to {LENGTHS[-1]:,} vectors of {narrow.width} numbers, the "
        f"recurrent network's time grows as n to the power of {grown[0]:.2f}, attention's to that "
        f"of {grown[1]:.2f}.",
        " ".join(_where(r) for r in raced),
        f"Of {SOME} vectors the network makes {SOME} steps, one after the other, attention one. "
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
        side_by_side([_counted(), _timed(raced)], "A recurrent network and attention, by length"),
        head,
        rows,
    )


def _where(raced: Raced) -> str:
    counted = f"d = {raced.width}: products are equally many at n = {raced.width}; "
    if raced.crossing is None:
        return f"{counted}the times do not cross up to n = {LENGTHS[-1]:,}."
    return f"{counted}attention is the faster one up to n ≈ {raced.crossing:,.0f}."


def _counted() -> Picture:
    return _chart(
        [
            Raced(width, *([(n, products(n, width)[k]) for n in LENGTHS] for k in range(2)))
            for width in WIDTHS
        ],
        "Counted",
        "products of two numbers",
    )


def _timed(raced: Sequence[Raced]) -> Picture:
    in_ms = [
        Raced(r.width, *([(n, 1000 * s) for n, s in way] for way in (r.recurrent, r.attention)))
        for r in raced
    ]
    return _chart(in_ms, "Timed, on one thread of this machine", "milliseconds")


def _chart(raced: Sequence[Raced], title: str, y_label: str) -> Picture:
    return line_chart(
        [
            Series(f"{name}, d = {r.width}", way, dashed=r.width != WIDTHS[0], colour=colour)
            for r in raced
            for colour, (name, way) in enumerate((("RNN", r.recurrent), ("attention", r.attention)))
        ],
        title=title,
        x_label="n, vectors in a sequence",
        y_label=y_label,
        log_x=True,
        log_y=True,
        width=540,
    )
