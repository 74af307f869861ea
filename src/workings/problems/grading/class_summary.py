"""Summarize the marks of a class: their distribution, the commonest mistakes, the items."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from workings.problems.diagnosis import UNKNOWN
from workings.problems.grading.marking import ProblemMark
from workings.problems.grading.marks import Grades

_NUM_BINS = 10
_MIN_CORRELATION = 0.2  # of an item with the rest of the sheet, below which it tells little
_MIN_STUDENTS = 5  # fewer show no correlation


@dataclass(frozen=True)
class CommonMistake:
    """A mistake, the students who made it first in some problem, and an example."""

    name: str
    description: str
    students: list[str]
    example: str


@dataclass(frozen=True)
class Item:
    """A step of a problem: the mean share of its points, and how well it discriminates.

    `correlation` is that of its points with those of the rest of the sheet; None if all students
    have the same points, or too few handed in.
    """

    problem: str
    step: str
    mean: float
    correlation: float | None

    @property
    def discriminates(self) -> bool:
        """True if students who do well elsewhere do better here."""
        return self.correlation is not None and self.correlation >= _MIN_CORRELATION


@dataclass(frozen=True)
class ClassSummary:
    """What a teacher wants to know about a class."""

    shares: list[float]  # of the points, one per student
    mistakes: list[CommonMistake] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def histogram(self) -> list[tuple[str, int]]:
        """The number of students in each tenth of the points."""
        bins = np.clip((np.array(self.shares) * _NUM_BINS).astype(int), 0, _NUM_BINS - 1)
        counts = np.bincount(bins, minlength=_NUM_BINS).tolist()
        width = 100 // _NUM_BINS
        return [(f"{k * width}–{(k + 1) * width} %", count) for k, count in enumerate(counts)]


def summarize_class(grades: Grades) -> ClassSummary:
    """Return the distribution, the commonest mistakes (most first) and the items of a sheet."""
    shares = [s.final / s.max_points if s.max_points else 0.0 for s in grades.students]
    return ClassSummary(shares, list(_count_mistakes(grades)), list(_examine_items(grades)))


def _count_mistakes(grades: Grades) -> list[CommonMistake]:
    mistakes: dict[str, CommonMistake] = {}
    for student in grades.students:
        for mark in student.marks:
            first = mark.first_mistake
            if first is None or first.causes[0].name == UNKNOWN:
                continue
            cause = first.causes[0]
            example = f"{mark.problem.name}, {mark.describe_first_mistake()}"
            mistake = mistakes.setdefault(
                cause.name, CommonMistake(cause.name, cause.description, [], example)
            )
            if student.student not in mistake.students:
                mistake.students.append(student.student)
    return sorted(mistakes.values(), key=lambda m: (-len(m.students), m.name))


def _examine_items(grades: Grades) -> Iterable[Item]:
    """Yield every step of every problem, over the students who have the same problems."""
    if not grades.students:
        return
    totals = np.array([student.total for student in grades.students])
    for k, problem in enumerate(grades.problems):
        marks = [student.marks[k] for student in grades.students if k < len(student.marks)]
        for step, worth in problem.points.items():
            points = np.array([_get_points(mark, step) for mark in marks])
            if worth > 0:
                yield Item(
                    problem.name,
                    step,
                    float(points.mean() / worth),
                    _correlate(points, totals - points),
                )


def _get_points(mark: ProblemMark, step: str) -> float:
    return mark.points.get(step, 0.0)


def _correlate(points: np.ndarray, rest: np.ndarray) -> float | None:
    if len(points) < _MIN_STUDENTS or np.ptp(points) < 1e-9 or np.ptp(rest) < 1e-9:
        return None
    return float(np.corrcoef(points, rest)[0, 1])
