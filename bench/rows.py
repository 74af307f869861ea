"""Counts of the checker's benchmark, for one style, kind or mistake."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_NUM_EXAMPLES = 5  # failures that are kept


@dataclass
class Row:
    """Counts for one style or one mistake that was planted many times."""

    name: str
    num_planted: int = 0
    num_within_rounding: int = 0  # skipped, since rounding could explain it
    num_wrong: int = 0  # reported as wrong, or not read at all
    num_found: int = 0  # the first wrong cell is the right one
    num_named: int = 0  # the planted mistake is among the causes
    num_causes: int = 0
    given_names: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)  # files

    def percent(self, count: int) -> float:
        """Return the percentage of what was planted."""
        return 100 * count / max(self.num_planted, 1)

    def add_failure(self, text: str) -> None:
        """Keep the shortest files."""
        self.failures = sorted([*self.failures, text], key=len)[:_NUM_EXAMPLES]

    def to_dict(self, *names: str) -> dict[str, Any]:
        """Return some of the counts for the result file."""
        counts = {name: getattr(self, f"num_{name}") for name in ("planted", *names)}
        return {"name": self.name, **counts}


def add_up(rows: list[Row]) -> Row:
    """Return the sums of all counts."""
    counts = ("planted", "within_rounding", "wrong", "found", "named", "causes")
    keys = [f"num_{name}" for name in counts]
    return Row("all", **{key: sum(getattr(row, key) for row in rows) for key in keys})
