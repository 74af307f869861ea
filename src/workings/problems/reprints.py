"""Compare the prints of a matrix that a document prints more than once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from workings.languages import gettext
from workings.problems.numbers import Number, read_number, transpose_rows
from workings.problems.problem import Problem
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD

Numbers: TypeAlias = Sequence[Sequence[Number | None]]

_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class ReprintedCell:
    """A number that is reprinted differently; the cell is from 0 in the problem's convention."""

    key: str
    reprint: int
    cell: tuple[int, int]
    first_text: str
    first_value: float
    text: str

    def describe(self) -> str:
        """Return a sentence: the place, the first print and the reprint."""
        row, column = self.cell
        return gettext(
            "{step}, row {row}, column {column}: printed as {first_text}, then as {text}",
            step=self.key,
            row=row + 1,
            column=column + 1,
            first_text=self.first_text,
            text=self.text,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON report (docs/problem-format.md)."""
        return {
            "matrix": self.key,
            "again": self.reprint,
            "cell": list(self.cell),
            "printed": self.first_text,
            "reprinted": self.text,
        }

    def to_wrong_cell(self) -> dict[str, Any]:
        """Return the fields of a wrong cell, for a report in which nothing else is wrong."""
        cause = {"name": "reprinted-differently", "reproduces": "1/1", "says": self.describe()}
        return {
            "step": self.key,
            "head": None,
            "again": self.reprint,
            "cell": list(self.cell),
            "claimed": self.text,
            "expected": self.first_value,
            "causes": [cause],
        }


def find_reprinted_cells(problem: Problem) -> list[ReprintedCell]:
    """Return the numbers that are reprinted differently: of givens, then of claimed steps.

    A step may be rounded once more, so a unit of its last digit is no difference. If more than a
    third of its numbers differ, it is not a reprint but another matrix with the same name.
    """
    cells = [
        cell
        for reprint in problem.given_reprints
        for cell in _compare(problem, reprint.key, reprint.reprint, reprint.first, reprint.numbers)
    ]
    first_claims = {claim.key: claim.numbers for claim in problem.claims if not claim.reprint}
    for claim in problem.claims:
        first = first_claims.get(claim.key)
        if claim.reprint and first is not None and _is_reprint(first, claim.numbers, 1.0):
            cells += _compare(problem, claim.key, claim.reprint, first, claim.numbers, 1.0)
    return cells


def _compare(
    problem: Problem, key: str, reprint: int, first: Numbers, other: Numbers, tolerance: float = 0.0
) -> Iterator[ReprintedCell]:
    """Yield the cells of a reprint that differ from the first print, row by row."""
    if problem.column_vectors:
        first, other = transpose_rows(first), transpose_rows(other)
    for i, (row, other_row) in enumerate(zip(first, other, strict=True)):
        for j, (number, other_number) in enumerate(zip(row, other_row, strict=True)):
            if number and other_number and _differ(number, other_number, tolerance):
                yield ReprintedCell(
                    key, reprint, (i, j), number.text, number.value, other_number.text
                )


def count_differences(first: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> int:
    """Return how many numbers of two prints differ by more than rounding; blanks do not.

    >>> count_differences([["0.5", "0.125", "2"]], [["0.50", "0.13", "3"]])
    1
    """
    return _count(_read(first), _read(other), 0.0)


def is_reprint(first: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> bool:
    """Return True if two prints are of one matrix: at most a third of the numbers differ.

    >>> is_reprint([["1", "0"], ["0", "2"]], [["1", "0"], ["0", "3"]])
    True
    """
    return _is_reprint(_read(first), _read(other), 0.0)


def _read(rows: Sequence[Sequence[str]]) -> Numbers:
    return [[read_number(cell, "") for cell in row] for row in rows]


def _is_reprint(first: Numbers, other: Numbers, tolerance: float) -> bool:
    if (len(first), len(first[0])) != (len(other), len(other[0])):
        return False
    size = len(first) * len(first[0])
    return _count(first, other, tolerance) <= max(1, size // 3)


def _count(first: Numbers, other: Numbers, tolerance: float) -> int:
    pairs = (pair for rows in zip(first, other, strict=True) for pair in zip(*rows, strict=True))
    return sum(a is not None and b is not None and _differ(a, b, tolerance) for a, b in pairs)


def _differ(first: Number, other: Number, tolerance: float) -> bool:
    """Return True if neither print is a rounding of the other.

    `tolerance`: so many units of its last digit a step may be off; 0 for a given, whose integers
    are exact.
    """
    a, b = first.value, other.value
    if a == b or max(a, b) <= MINUS_INFINITY_THRESHOLD:
        return False
    if first.places is None or other.places is None:  # a fraction or −∞ is exact
        places = [p for p in (first.places, other.places) if p is not None]
        return not places or abs(a - b) > 0.5 * 10.0 ** -places[0] * _SLACK
    unit = 10.0 ** -min(first.places, other.places)
    if not (first.places and other.places):
        are_integers = first.places == other.places
        return are_integers or not tolerance or abs(a - b) > 0.5
    if first.places == other.places:
        return abs(a - b) > tolerance * unit * _SLACK
    coarse, fine = (a, b) if first.places < other.places else (b, a)
    is_truncated = abs(coarse) <= abs(fine) and abs(a - b) < unit
    return not is_truncated and abs(a - b) > max(0.5, tolerance) * unit * _SLACK
