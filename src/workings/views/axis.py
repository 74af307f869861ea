r"""Axes of a chart: their range, the round numbers on them, and how those are written.

>>> axis([0.31, 0.97], 6, percent=True, cover=True).labels
('20\xa0%', '40\xa0%', '60\xa0%', '80\xa0%', '100\xa0%')
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from workings.views.notation import typeset

_HUGE, _FAR = 1e300, 1e150  # beyond them differences, or ticks on a logarithmic axis, overflow
_SAME = 1e-12  # relative; what is nearer is drawn as one number
_LONG = 9  # letters; longer numbers are written with a power of ten


@dataclass(frozen=True)
class Axis:
    """A range with ticks in it, upwards, and how they are written."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Say how far along the axis a value stands: 0 at the low end, 1 at the high one."""
        if self.log:
            low = math.log(self.low)
            return (math.log(value) - low) / (math.log(self.high) - low)
        return (value - self.low) / (self.high - self.low)


def drawable(value: float, log: bool) -> bool:
    """Say whether a number has a place on an axis; on a logarithmic one, only positive ones have.

    >>> drawable(0.0, log=False), drawable(0.0, log=True), drawable(math.nan, log=False)
    (True, False, False)
    """
    return 1 / _FAR < value < _FAR if log else abs(value) < _HUGE


def axis(
    values: Sequence[float],
    most: int,
    *,
    log: bool = False,
    percent: bool = False,
    cover: bool = False,
) -> Axis:
    """Make an axis for drawable numbers, at least one, with about so many ticks at most.

    It ends where the numbers do, or, to `cover` them, at ticks below and above them.
    """
    low, high = min(values), max(values)
    whole = not percent and all(value == round(value) for value in values)
    low, high = _widened(low, high, log, percent, whole)
    most = most if cover else most + 2  # the outer two will go
    chosen = log_ticks(low, high, most) if log else ticks(low, high, most, whole)
    even = not log
    if log and len(_inside(chosen, low, high)) < 2:  # less than a step of 1, 2, 5, 10
        by_steps = ticks(low, high, most)
        if by_steps[0] > 0 or not cover:
            chosen, even = by_steps, True
    if cover:
        low, high = min(low, chosen[0]), max(high, chosen[-1])
    else:
        chosen = _inside(chosen, low, high)
    labels = _even_labels(chosen, percent) if even else [_label(v, percent) for v in chosen]
    return Axis(low, high, tuple(chosen), tuple(labels), log)


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """List numbers 1, 2 or 5 times a power of ten apart, from below `low` to above `high`.

    At most so many, but at least three are allowed; `whole` ones, where nothing lies between.

    >>> ticks(0.12, 0.93), ticks(1, 3, 9, whole=True)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 2.0, 3.0])
    """
    power = math.floor(math.log10((high - low) / most))
    power = max(power, 0) if whole else power
    while True:
        for digit in (1, 2, 5):
            first, last = _below(low, digit, power), -_below(-high, digit, power)
            if last - first < max(most, 3):
                return [_multiple(k, digit, power) for k in range(first, last + 1)]
        power += 1


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """List 1, 2 and 5 times powers of ten, or powers of ten only, from below `low` to above `high`.

    >>> log_ticks(3e-5, 0.004), log_ticks(0.3, 4.0)
    ([1e-05, 0.0001, 0.001, 0.01], [0.2, 0.5, 1.0, 2.0, 5.0])
    """
    powers = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1
    chosen = [
        _multiple(digit, 1, power) for power in range(powers[0] - 1, powers[1] + 1)
        for digit in (1, 2, 5)
    ]  # fmt: skip
    while len(chosen := _around(chosen, low, high)) > max(most, 3):
        first = stride * math.floor(powers[0] / stride)
        chosen = [_multiple(1, 1, k) for k in range(first, powers[1] + stride, stride)]
        stride += 1
    return chosen


def _widened(low: float, high: float, log: bool, percent: bool, whole: bool) -> tuple[float, float]:
    """Give room to a single number."""
    size = max(abs(low), abs(high))
    if log:
        return (low / 1.5, high * 1.5) if high / low < 1 + 1e-9 else (low, high)
    if high - low > max(size * _SAME, 1 / _HUGE):
        return low, high
    if percent and low >= 0 and high <= 1:
        return max(low - 0.05, 0.0), min(high + 0.05, 1.0)
    room = 0.5 if whole and size < 1e6 else max(size / 10, 1 / _HUGE)
    return low - room, high + room


def _multiple(k: int, digit: int, power: int) -> float:
    """The float nearest to k times digit times a power of ten."""
    return float(k * digit * 10**power) if power >= 0 else k * digit / 10**-power


def _below(value: float, digit: int, power: int) -> int:
    """The last multiple that is no larger than a value: 3 tenths for 0.3, whatever its bits say."""
    k = round(value / _multiple(1, digit, power))
    return k - 1 if _multiple(k, digit, power) > value else k


def _inside(chosen: Sequence[float], low: float, high: float) -> list[float]:
    return [tick for tick in chosen if low <= tick <= high]


def _around(chosen: Sequence[float], low: float, high: float) -> list[float]:
    """Keep what lies between, and one on either side."""
    first = max((k for k, tick in enumerate(chosen) if tick <= low), default=0)
    last = min((k for k, tick in enumerate(chosen) if tick >= high), default=len(chosen) - 1)
    return list(chosen[first : last + 1])


def _even_labels(chosen: Sequence[float], percent: bool) -> list[str]:
    """Write ticks with as many decimals as tell them apart."""
    shown = [Decimal(repr(tick)) * (100 if percent else 1) for tick in chosen]
    top = max(map(abs, shown), default=Decimal(0))
    power = min((_last_place(tick) for tick in shown if tick), default=0)
    ten = top.adjusted() if top else 0
    written = [f"{tick:,.{max(0, -power)}f}" for tick in shown]
    short = [f"{tick.scaleb(-ten):.{ten - power}f}e{ten}" for tick in shown]
    if len(f"{top:,.{max(0, -power)}f}") > max(_LONG, 5 + ten - power):
        written = short
    written = ["0" if not t else typeset(text) for t, text in zip(shown, written, strict=True)]
    return [f"{text}\u00a0%" for text in written] if percent else written


def _last_place(number: Decimal) -> int:
    """The power of ten of the last digit that is not 0."""
    exponent = number.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _label(tick: float, percent: bool) -> str:
    """Write a tick by itself, large and small ones with a power of ten."""
    shown = Decimal(repr(tick)) * (100 if percent else 1)
    power = shown.adjusted()
    if -4 <= power < 6:
        text = f"{shown:,.{max(0, -power)}f}"
    else:
        text = typeset(f"{shown.scaleb(-power):.0f}e{power}").removeprefix("1·")
    return f"{text}\u00a0%" if percent else text
