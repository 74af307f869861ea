"""A part of a trained model as a worked problem, compared with the model's own numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workings.errors import UserError
from workings.problems.derivation import CellDerivation, ModelValue, derive
from workings.problems.labels import get_label
from workings.problems.notation import Formula, TextNotation, format_decimal, typeset
from workings.problems.numbers import MAX_SIDE
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    MAX_PROBLEM_BYTES,
    format_claim_path,
    format_toml,
    set_nested,
)
from workings.problems.solution import MAX_NOTED_CELLS, Solution
from workings.problems.worked_problem import Panel, WorkedProblem, WorkedResult

MAX_FILE_TOKENS = 32  # of a problem file that a person can read
MAX_SHOWN_SIDE = 12  # rows or columns of weight matrices that are shown
CLAIM_DECIMALS = 4  # of the model's numbers in a problem file

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ModelProblem(WorkedResult):
    """A part of a model as a problem, and its steps as the model computed them."""

    problem: Problem
    settings: Mapping[str, Any]
    given: Mapping[str, Matrix]
    model_steps: Mapping[str, Matrix]
    note: str = ""
    top: int = 5
    decimals: int = 4

    comment = "A part of a trained model. The claims are its own numbers, in float32."
    smaller_file_hint = ""

    def cell(self, step: str, row: int, column: int) -> CellDerivation:
        """Derive one cell, counted from 1, and compare it with the model's number."""
        derivation = derive(self.problem, step, row, column, top=self.top, decimals=self.decimals)
        model_values = []
        for source, matrix in self._list_model_matrices(step).items():
            value = matrix[row - 1, column - 1]
            difference = float(absolute_difference(derivation.value, value))
            model_values.append(ModelValue(source, float(value), difference))
        return replace(
            derivation,
            description=self._describe_cell(step, row, column),
            model_values=model_values,
            notes=[self.note] if self.note else [],
        )

    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return the working of one cell, counted from 1, with its largest terms only."""
        return self.cell(key, row, column).working

    def _list_model_matrices(self, step: str) -> dict[str, Matrix]:
        """Return the model's matrices of a step, by where they come from."""
        return {"the model": self.model_steps[step]} if step in self.model_steps else {}

    def _describe_cell(self, key: str, row: int, column: int) -> str:  # noqa: ARG002
        return ""

    def max_differences(self) -> dict[str, float]:
        """Return the largest difference between the model's numbers and the exact ones by step."""
        exact = self.problem.exact_matrices
        return {
            step: float(absolute_difference(exact[step].mid, matrix).max())
            for step, matrix in self.model_steps.items()
        }

    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Return the layout of the problem; with `notes` each cell has its largest terms."""
        solution = Solution(self.problem, self.decimals)
        layout = solution.to_worked_problem()
        steps = layout.steps
        if notes:
            steps = [
                self._annotate_panel(key, panel)
                for key, panel in zip(solution.keys(), steps, strict=True)
            ]
        hides_weights = bool(self._omitted_weights())
        givens = [
            _round_panel(panel, self.decimals)
            for panel in layout.givens
            if not (hides_weights and _is_weight_or_bias(panel.name))
        ]
        return replace(layout, givens=givens, steps=steps, summary=self._summarize())

    def _summarize(self) -> str:
        """Return which matrices are omitted, and the differences to the model's numbers."""
        sentences = ["Computed in 64-bit arithmetic from the vectors and weights of the model."]
        if omitted := self._omitted_weights():
            sentences.append(f"Too large to show: {', '.join(omitted)}.")
        sentences.append(self._summarize_differences())
        return " ".join([*sentences, self.note] if self.note else sentences)

    def _summarize_differences(self) -> str:
        differences = self.max_differences()
        step = max(differences, key=differences.__getitem__)
        exact, own = (
            float(matrix.flat[0])
            for matrix in (self.problem.exact_matrices[step].mid, self.model_steps[step])
        )
        if self.model_steps[step].size == 1:
            return (
                f"{step}: {exact:.8g} here, {own:.8g} in the model, a difference of"
                f" {format_difference(differences[step])}."
            )
        return (
            "The model's own numbers differ by at most"
            f" {format_difference(differences[step])} (in {step})."
        )

    def _omitted_weights(self) -> list[str]:
        """Return the names of the weight matrices if one of them is too large to show."""
        shapes = {name: m.shape for name, m in self.given.items() if name.startswith("W")}
        is_large = any(max(shape) > MAX_SHOWN_SIDE for shape in shapes.values())
        return list(shapes) if is_large else []

    def _annotate_panel(self, key: str, panel: Panel) -> Panel:
        height, width = panel.shape
        if height * width > MAX_NOTED_CELLS:
            return panel
        cells = [
            [
                replace(cell, note=self.cell(key, i, j).working(TextNotation(self.decimals)))
                for j, cell in enumerate(row, start=1)
            ]
            for i, row in enumerate(panel.cells, start=1)
        ]
        return replace(panel, cells=cells)

    def to_dict(self) -> dict[str, Any]:
        """Return the solved problem and the differences as a dictionary for JSON."""
        solution: dict[str, Any] = json.loads(Solution(self.problem).to_json())
        return {**solution, "differences": self.max_differences(), "note": self.note}

    def to_file(self) -> str:
        """Return a problem file whose claims are the model's numbers to four decimals."""
        self._check_file()
        given = {name: _to_shortest_decimals(matrix) for name, matrix in self.given.items()}
        stated_steps = {step.key for step in self.problem.asked_steps}
        claim: dict[str, Any] = {}
        for step, matrix in self.model_steps.items():
            if step in stated_steps:
                labels = self.problem.get_step(step).labels
                texts = [[_format_claim(x, labels) for x in row] for row in matrix.tolist()]
                set_nested(claim, format_claim_path(self.problem.kind, step).split("."), texts)
        table = {**self.settings, "given": given, "claim": claim}
        content = format_toml(table, f"{self.comment} {self.note}")
        size = len(content.encode("utf-8", "replace"))
        if size > MAX_PROBLEM_BYTES:
            raise UserError(
                f"the problem file would have {size / 1e6:.1f} MB, the limit is "
                f"{MAX_PROBLEM_BYTES / 1e6:.0f} MB{self.smaller_file_hint}"
            )
        return content

    def _check_file(self) -> None:
        """Raise a `UserError` if a person cannot read the file."""


def build_problem(
    settings: Mapping[str, Any], given: Mapping[str, Matrix], hint: str = ""
) -> Problem:
    """Return the problem of a model's matrices; `hint` says how to get a smaller one."""
    max_side = max(max(matrix.shape) for matrix in given.values())
    if max_side > MAX_SIDE:
        raise UserError(
            f"vectors of {max_side:,} numbers: a problem has at most {MAX_SIDE:,}{hint}"
        )
    # A problem takes float64 numbers as they are, and float32 numbers by their shortest decimals.
    doubles = {name: matrix.astype(np.float64) for name, matrix in given.items()}
    return Problem(**settings, given=doubles)


def absolute_difference(expected: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    """Return |expected − actual|; equal infinities have difference 0."""
    a, b = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(a - b))


def format_difference(difference: float) -> str:
    """Format a difference: `1.2e−07`."""
    return typeset(f"{difference:.1e}")


def format_name(names: Sequence[str], index: int) -> str:
    """Format a token with its number: `2 “cat”`."""
    name = names[index - 1]
    return name if name == str(index) else f"{index} “{name}”"


def _format_claim(value: float, labels: tuple[str, ...]) -> str:
    return get_label(value, labels) if labels else f"{value:.{CLAIM_DECIMALS}f}"


def _is_weight_or_bias(name: str) -> bool:
    return name[0] == "W" or name == "b" or name.startswith("b_")


def _to_shortest_decimals(matrix: Matrix) -> list[list[float]]:
    """Return the shortest decimals that are read back as the same float32 numbers."""
    return [[float(str(x)) for x in row] for row in matrix]


def _round_panel(panel: Panel, decimals: int) -> Panel:
    """Show a matrix of float32 numbers with the decimals of the steps."""
    cells = [
        [
            cell if cell.value is None else replace(cell, text=format_decimal(cell.value, decimals))
            for cell in row
        ]
        for row in panel.cells
    ]
    return replace(panel, cells=cells)
