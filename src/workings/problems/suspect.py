"""A claimed step with something wrong in it, and what counts as an explanation."""

from collections.abc import Mapping
from dataclasses import dataclass

from workings.problems.cells import Bools, Cells, Floats
from workings.problems.kinds import Step
from workings.problems.problem import Problem
from workings.problems.verdicts import Verdicts, Written


@dataclass(frozen=True)
class Explanation:
    """A mistake that leads to some of the wrong cells (`hits`), the first one among them.

    `gives`: the whole step as the mistake would have it; None: it is one of single numbers.
    """

    name: str
    says: str
    hits: Bools
    gives: Floats | None = None


@dataclass(frozen=True)
class Suspect:
    """The step as it was written and judged, and everything else as claimed; vectors as rows."""

    problem: Problem
    step: Step
    first: tuple[int, int]  # the first wrong cell
    text: str  # what stands there
    written: Written
    verdicts: Verdicts
    right: Cells  # what the numbers before it lead to
    env: Mapping[str, Cells]  # every matrix as claimed, or else as it comes from what was claimed
    # The other claimed steps' numbers, to be copied; `off`: not as written but as they should be.
    sheet: Mapping[str, Cells]

    @property
    def wrong(self) -> Bools:
        """Which cells are wrong."""
        wrong: Bools = self.verdicts == "wrong"
        return wrong
