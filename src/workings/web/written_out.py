"""Cells written out, one by one or all of a step."""

from collections.abc import Callable
from typing import TypeAlias

from workings.problems import Problem, Solution
from workings.problems.reads import Reads
from workings.views.notation import Notation
from workings.web import told
from workings.web.formulas import formula
from workings.web.laid import exactly

Write: TypeAlias = Callable[[str, int, int], Callable[[Notation], str]]
"""How a cell, counted from 1, is written out in any notation."""


class Workings:
    """The cells of a problem, each with its substitution and what it is computed from."""

    def __init__(self, problem: Problem, decimals: int, write: Write | None = None) -> None:
        self._problem, self._solution = problem, Solution(problem, decimals)
        self._write = write or self._whole
        self._reads: dict[str, Reads] = {}

    def of(self, key: str, row: int, column: int) -> told.Working:
        """Write a cell out, counted from 0; whatever is no such cell is a `UserError`."""
        self._solution.place(key, row + 1, column + 1)
        if key not in self._reads:
            self._reads[key] = Reads(self._problem, key)
        return told.Working(
            key=key,
            row=row,
            column=column,
            name=f"{key}[{row + 1},{column + 1}]",
            working=formula(self._write(key, row + 1, column + 1), self._solution.decimals),
            value=exactly(float(self._solution[key][row, column])),
            reads=[
                told.Block(key=block.key, rows=block.rows, columns=block.columns)
                for block in self._reads[key].of(row, column)
            ],
        )

    def size(self, key: str) -> int:
        """How many cells a step has."""
        return self._solution[key].size

    def step(self, key: str) -> list[list[told.Working]]:
        """Write every cell of a step out."""
        rows, columns = self._solution[key].shape
        return [[self.of(key, row, column) for column in range(columns)] for row in range(rows)]

    def _whole(self, key: str, row: int, column: int) -> Callable[[Notation], str]:
        return lambda n: self._solution.cell(key, row, column, n)
