"""The written-out computations of cells, one by one or for a whole step."""

from collections.abc import Callable
from typing import TypeAlias

from workings.problems import Problem, Solution
from workings.problems.derivation import InputFinder
from workings.problems.notation import Notation
from workings.web import responses
from workings.web.markup import build_formula
from workings.web.problem_views import format_exact

CellFormatter: TypeAlias = Callable[[str, int, int], Callable[[Notation], str]]
"""Takes a step, a row and a column, counted from 1; returns a writer for any notation."""


class CellWorkings:
    """The cells of a problem, each with its substitution and the cells that it is computed from."""

    def __init__(
        self, problem: Problem, decimals: int, formatter: CellFormatter | None = None
    ) -> None:
        self._problem, self._solution = problem, Solution(problem, decimals)
        self._formatter = formatter or self._default_formatter
        self._inputs: dict[str, InputFinder] = {}

    def write_cell(self, key: str, row: int, column: int) -> responses.CellWorking:
        """Return the working of a cell, counted from 0; raise a `UserError` if there is none."""
        self._solution.locate_cell(key, row + 1, column + 1)
        if key not in self._inputs:
            self._inputs[key] = InputFinder(self._problem, key)
        return responses.CellWorking(
            key=key,
            row=row,
            column=column,
            name=f"{key}[{row + 1},{column + 1}]",
            working=build_formula(
                self._formatter(key, row + 1, column + 1), self._solution.decimals
            ),
            value=format_exact(float(self._solution[key][row, column])),
            reads=self._inputs[key].find(row, column),
        )

    def num_cells(self, key: str) -> int:
        """Return the number of cells of a step."""
        return self._solution[key].size

    def write_step(self, key: str) -> list[list[responses.CellWorking]]:
        """Return the workings of all cells of a step, by row and column."""
        rows, columns = self._solution[key].shape
        return [
            [self.write_cell(key, row, column) for column in range(columns)] for row in range(rows)
        ]

    def _default_formatter(self, key: str, row: int, column: int) -> Callable[[Notation], str]:
        return lambda n: self._solution.cell(key, row, column, n)
