"""Styles of honest solutions: how numbers are rounded and written, and what later steps use."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np

Matrix = np.ndarray
Rng = np.random.Generator
Texts = list[list[str]]

MAX_VALUE = 1e9  # larger numbers are not written by hand
_MAX_DENOMINATOR = 60


@dataclass(frozen=True)
class Style:
    """How the numbers of a sheet are written, and which numbers later steps use."""

    name: str
    decimals: tuple[int, ...] = (2,)  # of the steps in turn
    rounding: str = ROUND_HALF_UP
    significant: int | None = None  # digits, instead of decimals
    notation: str = "plain"  # or fraction, scientific, power, comma
    strips_zeros: bool = False
    whole_cells: bool = False  # integers have no decimals
    weight_decimals: int | None = None  # of a softmax, if others than of the other steps
    uses_exact: bool = False  # later steps use the exact value, not the written one
    rounds_unclaimed: bool = False  # steps that are not written were rounded, too
    rounded_notes: frozenset[str] = frozenset()  # intermediate results that were rounded
    note_decimals: int | None = None  # of intermediate results, if others than of the step
    adjusts_weights: bool = False  # so that each row has a sum of 1
    infinity: str = "-inf"
    blank_share: float = 0.0  # of the numbers, which are not written

    def _decimals_of(self, index: int, is_softmax: bool = False) -> int:
        if is_softmax and self.weight_decimals is not None:
            return self.weight_decimals
        return self.decimals[index % len(self.decimals)]

    def write(self, exact: Matrix, index: int, is_softmax: bool = False) -> Texts:
        """Format the matrix of the step with this index."""
        decimals = self._decimals_of(index, is_softmax)
        texts = [[self._format(float(value), decimals) for value in row] for row in exact]
        if self.adjusts_weights and is_softmax:
            texts = [_adjust_sum(row, decimals) for row in texts]
        return texts

    def read(self, texts: Texts, exact: Matrix, is_changed: Matrix | None = None) -> Matrix:
        """Return the values that later steps use."""
        written = np.array([[read_number(text) for text in row] for row in texts])
        written = np.where(np.isneginf(exact) & (written <= -10_000), -np.inf, written)
        if self.uses_exact:  # only changed numbers are used as written
            return exact if is_changed is None else np.where(is_changed, written, exact)
        return written

    def note(self, name: str, value: Matrix, index: int) -> Matrix:
        """Return an intermediate result as it is used: rounded, in some styles."""
        if name not in self.rounded_notes:
            return value
        decimals = self.note_decimals or self._decimals_of(index)
        if name == "exponentials":
            smallest = value.max(-1).min()
            if smallest * 10**decimals < 10:  # nobody continues with a single digit
                raise ValueError("the exponentials are too small to be rounded")
        if not (np.abs(value) < MAX_VALUE).all():
            raise ValueError("an intermediate result is too large to be written by hand")
        return np.array([[float(self._round(float(cell), decimals)) for cell in r] for r in value])

    def _round(self, value: float, decimals: int) -> Decimal:
        # 2.0999999999999996 is 2.1: fourteen digits are more than anybody writes.
        exact = Decimal(f"{value:.13e}")
        if self.significant is not None:
            decimals = self.significant - 1 - exact.adjusted() if exact else 0
        rounded = exact.quantize(Decimal(1).scaleb(-decimals), self.rounding)
        if self.significant is not None and rounded.adjusted() > exact.adjusted():
            rounded = rounded.quantize(Decimal(1).scaleb(1 - decimals))  # 9.99 became 10.0
        return abs(rounded) if rounded == 0 else rounded

    def _format(self, value: float, decimals: int) -> str:
        if np.isneginf(value):
            return self.infinity
        if not abs(value) < MAX_VALUE:
            raise ValueError(f"{value} is too large to be written by hand")
        if self.whole_cells and abs(value - round(value)) < 1e-12:
            return f"{round(value)}"
        if self.notation == "fraction":
            fraction = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
            if abs(float(fraction) - value) < 1e-12:
                return str(fraction)
        rounded = self._round(value, decimals)
        if self.notation in ("scientific", "power"):
            mantissa, _, exponent = f"{rounded:e}".partition("e")
            if self.notation == "power":
                return f"{mantissa}×10^{int(exponent)}"
            return f"{mantissa}e{int(exponent)}"
        text = f"{rounded:f}"
        if self.strips_zeros and "." in text:
            text = text.rstrip("0").rstrip(".")
        return text.replace(".", ",") if self.notation == "comma" else text


def read_number(text: str) -> float:
    """Return the value of a number as written."""
    if text in ("−∞", "?"):
        return -np.inf if text == "−∞" else np.nan
    plain = text.replace(",", ".").replace("×10^", "e")
    return float(Fraction(plain)) if "/" in plain else float(plain)


def _adjust_sum(row: list[str], decimals: int) -> list[str]:
    """Add what is missing to a sum of 1 to the largest weight."""
    values = [Decimal(text) for text in row]
    missing = 1 - sum(values)
    if missing == 1 or abs(missing) > Decimal(2).scaleb(-decimals):
        return row  # all masked, or not weights
    values[values.index(max(values))] += missing
    return [f"{value:f}" for value in values]


def _decimals(rng: Rng, low: int = 1, high: int = 4) -> tuple[int]:
    return (int(rng.integers(low, high + 1)),)


def _draw_coarse_root(rng: Rng) -> Style:
    """Draw a style with √2 as 1.4 beside two decimals, or as 1.41 beside three or four."""
    (decimals,) = _decimals(rng, 2, 4)
    coarse = 1 if decimals == 2 else 2
    return Style("", (decimals,), rounded_notes=frozenset({"root"}), note_decimals=coarse)


StyleMaker = Callable[[Rng], Style]
STYLES: dict[str, StyleMaker] = {
    **{
        f"{k} decimal{'s' if k > 1 else ''}": lambda _rng, k=k: Style("", (k,)) for k in range(1, 6)
    },
    "all digits": lambda _rng: Style("", (6,), strips_zeros=True),
    "truncated": lambda rng: Style("", _decimals(rng), rounding=ROUND_DOWN),
    "half to even": lambda rng: Style("", _decimals(rng, 1, 3), rounding=ROUND_HALF_EVEN),
    **{f"{k} significant": lambda _rng, k=k: Style("", significant=k) for k in range(2, 6)},
    "mixed decimals": lambda rng: Style("", tuple(int(k) for k in rng.integers(1, 5, 7))),
    "only display rounded": lambda rng: Style("", _decimals(rng), uses_exact=True),
    "whole cells": lambda rng: Style("", _decimals(rng), whole_cells=True),
    "whole numbers": lambda rng: Style("", (0,), weight_decimals=int(rng.integers(2, 4))),
    "fractions": lambda rng: Style("", _decimals(rng), notation="fraction"),
    "scientific": lambda rng: Style(
        "",
        significant=int(rng.integers(2, 6)),
        notation=str(rng.choice(["scientific", "power"])),
    ),
    "decimal comma": lambda rng: Style("", _decimals(rng), notation="comma"),
    "zeros dropped": lambda rng: Style(
        "", _decimals(rng), strips_zeros=True, uses_exact=bool(rng.random() < 0.5)
    ),
    "only the result": lambda rng: Style("", _decimals(rng), rounds_unclaimed=True),
    "skipped steps": lambda rng: Style("", _decimals(rng), rounds_unclaimed=True),
    "mixed alone": lambda rng: Style("", _decimals(rng), rounds_unclaimed=True),
    "rounded root": lambda rng: Style("", _decimals(rng, 1, 3), rounded_notes=frozenset({"root"})),
    "coarse root": _draw_coarse_root,
    "rounded exponentials": lambda rng: Style(
        "", _decimals(rng), rounded_notes=frozenset({"exponentials"})
    ),
    "rounded deviation": lambda rng: Style(
        "", _decimals(rng), rounded_notes=frozenset({"deviation"})
    ),
    "rounded sums": lambda rng: Style("", _decimals(rng), rounded_notes=frozenset({"sum"})),
    "adjusted weights": lambda rng: Style("", _decimals(rng), adjusts_weights=True),
    "blank cells": lambda rng: Style("", _decimals(rng), blank_share=rng.uniform(0.1, 0.7)),
    "written infinity": lambda rng: Style(
        "",
        _decimals(rng),
        infinity=str(rng.choice(["-1e9", "-1000000000", "-10000", "-1e4", "−∞"])),
    ),
}
# The styles of sheets with mistakes: plain numbers, in which a slip has a definite size.
PLAIN_STYLES = (
    *("1 decimal", "2 decimals", "3 decimals", "4 decimals"),
    *("truncated", "only display rounded", "only display rounded"),
    *("whole cells", "zeros dropped"),
)


def leave_blanks(texts: dict[str, Texts], share: float, rng: Rng) -> dict[str, Texts]:
    """Replace some of the numbers with blanks."""
    return {
        key: [["?" if rng.random() < share else text for text in row] for row in rows]
        for key, rows in texts.items()
    }


def draw_style(rng: Rng, name: str) -> Style:
    """Draw a style by its name."""
    return replace(STYLES[name](rng), name=name)
