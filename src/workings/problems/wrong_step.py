"""A claimed step with wrong cells, and how likely it is that an explanation fits by chance."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.ops import Env
from workings.problems.problem import Problem
from workings.problems.verdicts import ClaimedMatrix, Verdicts

_LOG_MAGNITUDES = 7.0  # the natural logarithm of the largest change in units, a thousand
_INFINITY_CHANCE = 0.1  # that a wrong number happens to be −∞, which nobody writes by accident
_TINY = 1e-12


@dataclass(frozen=True)
class Explanation:
    """A mistake that leads to some of the wrong cells.

    `result` is the step as computed with the mistake; None for a slip in single numbers. `chance`
    is the probability that random numbers agree with it as well as the claimed ones.
    """

    name: str
    description: str
    explained_cells: Bools
    result: Floats | None = None
    chance: float = 0.0


@dataclass(frozen=True)
class WrongStep:
    """A claimed step with wrong cells, and everything else as claimed; vectors as rows."""

    problem: Problem
    step: Step
    first_cell: tuple[int, int]  # the first that is wrong
    texts: list[list[str]]  # the numbers as claimed
    claimed_matrix: ClaimedMatrix
    verdicts: Verdicts
    carried_matrix: IntervalMatrix  # computed from the claims before it
    env: Env  # every matrix as claimed or, if it is not, as computed from the claims
    # The other claims, the nearest first; NaN in cells that are wrong, follow or are blank.
    other_claims: dict[str, Floats]

    @property
    def first_text(self) -> str:
        """The number claimed in the first wrong cell."""
        i, j = self.first_cell
        return self.texts[i][j]

    @cached_property
    def is_wrong(self) -> Bools:
        """True for wrong cells."""
        is_wrong: Bools = self.verdicts == "wrong"
        return is_wrong

    @cached_property
    def num_wrong(self) -> int:
        """Number of wrong cells."""
        return int(self.is_wrong.sum())

    @cached_property
    @np.errstate(all="ignore")
    def value_chance(self) -> Floats:
        """The probability that a random mistake leads to the number claimed in each cell.

        Half of the random mistakes lead to any number within the range of the matrix, as it is
        written; half change a digit, so that every order of magnitude is equally likely.
        """
        claimed, correct = self.claimed_matrix.values, self.carried_matrix.mid
        units = np.maximum(self.claimed_matrix.units, _TINY)
        plausible = np.where(self.is_wrong, correct, claimed)
        plausible = plausible[np.isfinite(plausible)]
        low, high = (plausible.min(), plausible.max()) if plausible.size else (0.0, 0.0)
        is_inside = (claimed >= low - units) & (claimed <= high + units)
        # A single number has no others that would show a range.
        is_inside &= plausible.size > 1
        within_range = np.where(is_inside, 1 / ((high - low) / units + 1), 0.0)
        error = np.abs(claimed - np.where(np.isinf(correct), 0, correct)) / units
        chance = (within_range + 1 / (2 * _LOG_MAGNITUDES * np.maximum(error, 1.0))) / 2
        return np.where(np.isinf(claimed), _INFINITY_CHANCE, chance)

    @np.errstate(all="ignore")
    def estimate_chance(self, result: Floats, cells: Bools) -> float:
        """Return the probability that random numbers in these cells are as near to a result.

        A result that is hardly nearer to the number than the correct one explains nothing.
        """
        units = np.maximum(self.claimed_matrix.units[cells], _TINY)
        distance, error = (
            np.abs(self.claimed_matrix.values[cells] - other[cells]) / units
            for other in (result, self.carried_matrix.mid)
        )
        distance = np.where(np.isfinite(distance), distance, 0)
        share = np.maximum((2 * distance + 1) * self.value_chance[cells], distance / error)
        return float(np.minimum(share, 1.0).prod())

    def orient_cell(self, i: int, j: int) -> tuple[int, int]:
        """Return the row and column of a cell in the problem's convention."""
        return (j, i) if self.problem.column_vectors else (i, j)
