"""Judging a claimed number against the exact value and against what the claims before lead to."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.problems.cells import Bools, Cells, Floats
from workings.problems.numbers import Number

Verdict: TypeAlias = Literal["right", "rounded", "follows", "wrong", "blank"]
Verdicts: TypeAlias = NDArray[Any]  # of words; their dtype depends on the longest
WORST_FIRST: tuple[Verdict, ...] = ("wrong", "follows", "rounded", "right", "blank")

MINUS_INFINITY = -10_000.0  # a claim at or below counts as −∞ where −∞ is right


@dataclass(frozen=True)
class Written:
    """A matrix as somebody wrote it: values (NaN where blank) and one in each last digit.

    `whole`: cells of a matrix without decimals. Where the value they stand for is whole they are
    exact, otherwise they may be rounded to one, but not truncated.
    """

    value: Floats
    unit: Floats
    whole: Bools

    @classmethod
    def of(cls, numbers: list[list[Number | None]]) -> "Written":
        """Work out how precisely each cell was written."""
        flat = [n for row in numbers for n in row if n is not None]
        places = [n.places for n in flat if n.places and not n.exponent]
        least = min(places, default=None)

        def unit(n: Number | None) -> float:
            if n is None or n.places is None:
                return 0.0
            if n.whole:
                return 1.0 if least is None else 10.0**-least
            return 10.0**-n.places

        return cls(
            np.array([[np.nan if n is None else n.value for n in row] for row in numbers]),
            np.array([[unit(n) for n in row] for row in numbers]),
            np.array(
                [[n is not None and n.whole and least is None for n in row] for row in numbers]
            ),
        )

    @property
    def blank(self) -> Bools:
        """Which cells were left out."""
        return np.isnan(self.value)

    def stands_for(self, cells: Cells) -> Bools:
        """Say which cells are some value in these ranges, rounded or truncated as written."""
        value, unit = self.value, np.where(self.whole & _has_whole(cells), 0.0, self.unit)
        slack = 1e-9 * unit + 1e-12 * np.abs(value)
        with np.errstate(invalid="ignore"):
            rounded = (value >= cells.lo - unit / 2 - slack) & (
                value <= cells.hi + unit / 2 + slack
            )
            # Truncated: the value lies between the claim and one unit further from zero.
            above = (cells.hi >= value - slack) & (cells.lo < value + unit - slack) & (value >= 0)
            below = (cells.lo <= value + slack) & (cells.hi > value - unit + slack) & (value <= 0)
        truncated = (above | below) & ~self.whole
        hidden = np.isneginf(cells.mid)
        return np.where(hidden, value <= MINUS_INFINITY, np.isfinite(value) & (rounded | truncated))

    def near(self, middle: Floats, units: float) -> Bools:
        """Say which cells are within so many units of a value."""
        slack = 1e-9 * self.unit + 1e-12 * np.abs(self.value)
        with np.errstate(invalid="ignore"):
            return np.abs(self.value - middle) <= units * self.unit + slack

    def judge(self, exact: Cells, carried: Cells) -> Verdicts:
        """Give each cell its verdict."""
        right = self.stands_for(exact)
        in_range = self.stands_for(carried)
        rounded = ~carried.off & (in_range | (self.near(exact.mid, 1.0) & ~self.whole))
        follows = carried.off & (in_range | self.near(carried.mid, 0.5))
        return np.select(
            [self.blank, right, rounded, follows],
            ["blank", "right", "rounded", "follows"],
            default="wrong",
        )

    def carried_on(self, exact: Cells, carried: Cells, verdicts: Verdicts) -> Cells:
        """What the next steps are computed from: the claimed cells, and the blanks as carried."""
        unit = np.where(self.whole & _has_whole(exact), 0.0, self.unit)
        value = np.where(
            np.isneginf(exact.mid) & (self.value <= MINUS_INFINITY), -np.inf, self.value
        )
        claimed = Cells(
            value, value - unit, value + unit, (verdicts == "wrong") | (verdicts == "follows")
        )
        return merge(self.blank, carried, claimed)


def merge(where: Bools, these: Cells, those: Cells) -> Cells:
    """Take some cells from one matrix and the rest from another."""
    return Cells(*(np.where(where, getattr(these, a), getattr(those, a)) for a in Cells.__slots__))


def _has_whole(cells: Cells) -> Bools:
    """Say which ranges are narrow and hold a whole number: the value is that number."""
    with np.errstate(invalid="ignore"):
        return (np.floor(cells.hi) >= np.ceil(cells.lo)) & (cells.hi - cells.lo < 1e-6)
