"""Derive single cells: their largest terms, the cells they depend on, and how errors carry over.

`Solution.cell` writes out all terms of a sum, which suits the three products of a textbook. In a
trained model a sum has a hundred terms; `derive` shows the largest ones and adds up the rest.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workings.display import Renderable
from workings.errors import UserError
from workings.problems.check import Report
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.judging import CheckedStep
from workings.problems.kinds import Step
from workings.problems.notation import Formula, Notation, TextNotation
from workings.problems.ops import (
    Copy,
    Env,
    Linear,
    Masking,
    Normalization,
    Scaling,
    format_call,
    format_symbol,
    get_matrix,
)
from workings.problems.problem import Problem
from workings.problems.solution import (
    Solution,
    format_cell_name,
    get_axis_labels,
    make_step_formula,
    resolve_aliases,
)

MAX_SHOWN_SCORE = 100.0  # larger scores are shown minus their maximum, since e^score overflows
REMAINDER_LABEL = "+ remainder of the other"


@dataclass(frozen=True)
class SumLine:
    """A line of a sum: a number, or None, for each column of the header."""

    name: str
    numbers: Sequence[float | None]
    is_marked: bool = False  # the line of the derived cell itself


@dataclass(frozen=True)
class ModelValue:
    """The value of the cell in a model, and its difference from the derived value."""

    source: str
    value: float
    difference: float


@dataclass(frozen=True)
class CellDerivation(Renderable):
    """The derivation of one cell.

    `intermediates` are the same cell in earlier steps. `header` and `lines` are the terms of the
    sum, the largest first; they are empty if the cell is not a sum.
    """

    title: str
    name: str
    description: str
    formula: Formula
    intermediates: Sequence[Formula]
    header: Sequence[str]
    lines: Sequence[SumLine]
    working: Formula
    value: float
    model_values: Sequence[ModelValue] = ()
    notes: Sequence[str] = ()
    decimals: int = 4

    def to_dict(self) -> dict[str, Any]:
        """Return the derivation as data for JSON; −∞ is the string "-inf"."""
        n = TextNotation(self.decimals)
        return {
            "title": self.title,
            "cell": self.name,
            "description": self.description,
            "formula": self.formula(n),
            "working": self.working(n),
            "value": _json_number(self.value),
            "header": list(self.header),
            "lines": [
                {"name": line.name, "numbers": [_json_number(x) for x in line.numbers]}
                for line in self.lines
            ],
            "model_values": [
                {"source": m.source, "value": _json_number(m.value), "difference": m.difference}
                for m in self.model_values
            ],
            "notes": list(self.notes),
        }


def _json_number(number: float | None) -> float | str | None:
    return "-inf" if number == float("-inf") else number


def derive(
    problem: Problem, key: str, row: int, column: int, *, top: int = 5, decimals: int = 4
) -> CellDerivation:
    """Derive one cell, counted from 1 in the problem's convention, with its `top` largest terms.

    >>> derivation = derive(Problem(X=[[1, 2, 3], [3, 1, 0]], scale="none"), "scores", 1, 1, top=2)
    >>> derivation.working(TextNotation())
    'scores[1,1] = 3·3 + 2·2 + 1 = 14'
    """
    if top < 1:
        raise UserError(f"top = {top}: it must be at least 1")
    step = problem.get_step(key)
    index = Solution(problem, decimals).locate_cell(key, row, column)
    deriver = _CellDeriver(problem, step, (row, column), index, top)
    header, lines, working = deriver.expand()
    return CellDerivation(
        problem.title,
        f"{key}[{row},{column}]",
        "",
        make_step_formula(step, problem),
        deriver.list_preceding_formulas(),
        header,
        lines,
        working,
        deriver.value,
        decimals=decimals,
    )


class _CellDeriver:
    """Derives one cell; `position` is from 1 as displayed, `index` from 0 with vectors as rows."""

    def __init__(
        self,
        problem: Problem,
        step: Step,
        position: tuple[int, int],
        index: tuple[int, int],
        top: int,
    ) -> None:
        self.problem, self.step, self.position, self.top = problem, step, position, top
        self.i, self.j = index

    @property
    def value(self) -> float:
        return float(self.problem.exact_matrices[self.step.key].mid[self.i, self.j])

    def list_preceding_formulas(self) -> list[Formula]:
        """Return formulas of the same cell in earlier steps, back to the first that is a sum."""
        known = {step.key: step for step in self.problem.steps}
        step, lines = self.step, list[Formula]()
        while isinstance(step.op, Scaling | Masking | Normalization | Copy) and step.op.x in known:
            step = known[step.op.x]
            lines += [self._make_brief_formula(step)] if step.is_shown else []
        return lines[::-1]

    def _make_brief_formula(self, step: Step) -> Formula:
        """Return a formula for the cell in another step; of a sum only the result."""

        def line(n: Notation) -> str:
            if isinstance(step.op, Linear):
                value = float(self.problem.exact_matrices[step.key].mid[self.i, self.j])
                return n.equals(format_cell_name(n, step, *self.position), n.number(value))
            return Solution(self.problem, n.decimals).cell(step.key, *self.position, n)

        return line

    def expand(self) -> tuple[Sequence[str], Sequence[SumLine], Formula]:
        """Return header and lines of the sum, empty for other operations, and the arithmetic."""
        op = self.step.op
        if isinstance(op, Linear):
            return self._expand_products(op)
        if (
            isinstance(op, Normalization)
            and op.normalizer == "softmax"
            and self._has_visible_scores(op)
        ):
            return self._expand_softmax(op)
        return (), (), self._format_working

    def _has_visible_scores(self, op: Normalization) -> bool:
        return bool(np.isfinite(self.problem.exact_matrices[op.x].mid[self.i]).any())

    def _format_working(self, n: Notation) -> str:
        return Solution(self.problem, n.decimals).cell(self.step.key, *self.position, n)

    def _expand_products(self, op: Linear) -> tuple[Sequence[str], Sequence[SumLine], Formula]:
        """Expand rows times columns; the largest products come first."""
        env = self.problem.exact_matrices
        a = np.concatenate([self._get_factors(left) for left, _ in op.pairs])
        b = np.concatenate([get_matrix(env, right).mid[:, self.j] for _, right in op.pairs])
        bias = None if op.bias is None else float(env[op.bias].mid[0, self.j])
        products = a * b
        order = np.argsort(-np.abs(products), kind="stable")
        largest, others = order[: self.top].tolist(), order[self.top :]
        rest = float(products[others].sum())
        names = self._list_term_names(op)
        lines = [SumLine(names[k], (a[k], b[k], products[k])) for k in largest]
        if len(others):
            lines.append(SumLine(f"{REMAINDER_LABEL} {len(others)}", (None, None, rest)))
        if bias is not None:
            lines.append(SumLine(f"+ {op.bias}[{self.j + 1}]", (None, None, bias)))
        total = float(products.sum()) + (bias or 0.0)
        lines.append(SumLine("sum", (None, None, total)))
        if op.function != "none":
            lines.append(SumLine(f"{op.function}(sum)", (None, None, self.value)))

        def working(n: Notation) -> str:
            terms = [n.product(n.factor(float(a[k])), n.factor(float(b[k]))) for k in largest]
            terms += [n.factor(rest)] if len(others) else []
            terms += [n.factor(bias)] if bias is not None else []
            name = format_cell_name(n, self.step, *self.position)
            return n.equals(name, format_call(n, op.function, n.total(terms)), n.number(self.value))

        return self._make_product_header(op), lines, working

    def _get_factors(self, left: str) -> Floats:
        """Return the row of a left factor; a single row is broadcast."""
        rows = get_matrix(self.problem.exact_matrices, left).mid
        factors: Floats = rows[self.i if len(rows) > 1 else 0]
        return factors

    def _list_term_names(self, op: Linear) -> list[str]:
        """Return the names of the terms, with the matrix if there are several."""
        parts = [
            (left, self._get_term_names(left, len(self._get_factors(left)))) for left, _ in op.pairs
        ]
        if len(parts) == 1:
            return parts[0][1]
        return [f"{_format_plain_key(left)} {name}" for left, names in parts for name in names]

    def _make_product_header(self, op: Linear) -> Sequence[str]:
        if len(op.pairs) > 1:
            return ("input", "value", "weight", "product")
        named = resolve_aliases(op, self.problem)
        assert isinstance(named, Linear)
        ((left, right),) = named.pairs
        return (
            "token" if self._sums_over_tokens(op.pairs[0][0]) else "column",
            f"{_format_plain_key(left)}[{self.i + 1}]",
            self._format_second_factor(right),
            "product",
        )

    def _format_second_factor(self, key: str) -> str:
        """Format the second factor: a row of K if it is transposed, otherwise a column."""
        index = f"[{self.j + 1}]" if key.endswith("ᵀ") else f"[·,{self.j + 1}]"
        return _format_plain_key(key) + index

    def _sums_over_tokens(self, left: str) -> bool:
        """Return True if the sum runs over the attended tokens, as in weights times values."""
        return any(
            step.key == left and step.column_axis == "context" for step in self.problem.steps
        )

    def _get_term_names(self, left: str, count: int) -> list[str]:
        numbers = [str(k + 1) for k in range(count)]
        if not self._sums_over_tokens(left):
            return numbers
        return _prefix_numbers(get_axis_labels(self.problem, "context", count))

    def _expand_softmax(
        self, op: Normalization
    ) -> tuple[Sequence[str], Sequence[SumLine], Formula]:
        """Expand a softmax: the cell's own score and the largest other scores."""
        scores = self.problem.exact_matrices[op.x].mid[self.i]
        offset = float(scores.max()) if abs(scores.max()) > MAX_SHOWN_SCORE else 0.0
        scores = scores - offset
        powers, own = np.exp(scores), self.j
        total = float(powers.sum())
        others = [k for k in np.argsort(-scores, kind="stable").tolist() if k != own]
        visible = [k for k in others if scores[k] > -math.inf]
        largest = sorted([own, *visible[: self.top]], key=lambda k: -scores[k])
        smaller, num_masked = visible[self.top :], len(others) - len(visible)
        rest = float(powers[smaller].sum())
        names = _prefix_numbers(get_axis_labels(self.problem, "context", len(scores)))
        lines = [
            SumLine(names[k], (scores[k], powers[k], powers[k] / total), is_marked=k == own)
            for k in largest
        ]
        if smaller:
            lines.append(SumLine(f"{REMAINDER_LABEL} {len(smaller)}", (None, rest, rest / total)))
        if num_masked:
            lines.append(SumLine(f"hidden by the mask: {num_masked}", (-math.inf, 0.0, 0.0)))
        lines.append(SumLine("sum", (None, total, 1.0)))

        def working(n: Notation) -> str:
            power = n.power(n.symbol("e"), n.number(float(scores[own])))
            return n.equals(
                format_cell_name(n, self.step, *self.position),
                n.fraction(power, n.symbol("sum")),
                n.fraction(n.number(float(powers[own])), n.number(total)),
                n.number(self.value),
            )

        named = resolve_aliases(op, self.problem)
        assert isinstance(named, Normalization)
        source = _format_plain_key(named.x)
        source += f" − {TextNotation(2).number(offset)}" if offset else ""
        power = f"e^({source})" if offset else f"e^{source}"
        return ("token", source, power, self.step.name), lines, working


def _prefix_numbers(names: Sequence[str]) -> list[str]:
    """Prefix names with their number, unless the name is that number."""
    return [name if name == str(k) else f"{k} {name}" for k, name in enumerate(names, start=1)]


def _format_plain_key(key: str) -> str:
    return format_symbol(TextNotation(), key.removesuffix("ᵀ"))


@dataclass(frozen=True)
class SourceBlock:
    """Rows and columns of a matrix, counted from 0 in the problem's convention."""

    key: str
    rows: list[int]
    columns: list[int]


@dataclass(frozen=True)
class ErrorLink:
    """An error carried over: the wrong source cell, the first dependent cell and their count."""

    source: str
    cell: tuple[int, int]
    target: str
    first: tuple[int, int]
    count: int


def find_inputs(
    problem: Problem, key: str, row: int, column: int, stop_at: Collection[str] | None = None
) -> list[SourceBlock]:
    """Return the blocks that a cell depends on; it counts from 0 in the problem's convention.

    `stop_at`: the matrices to stop at; by default the givens and the asked steps.

    >>> find_inputs(Problem(X=[[1, 2], [3, 1], [0, 1]], scale="none"), "scores", 0, 2)
    [SourceBlock(key='Q', rows=[0], columns=[0, 1]), SourceBlock(key='K', rows=[2], columns=[0, 1])]
    """
    return InputFinder(problem, key, stop_at).find(row, column)


def list_shown_matrices(problem: Problem) -> list[str]:
    """Return the keys of the matrices that are displayed: the givens and the asked steps."""
    givens = [name for name in problem.kind.matrices if name in problem.given]
    return [*givens, *(step.key for step in problem.asked_steps)]


def find_error_links(report: Report) -> list[ErrorLink]:
    """Return which wrong claims led to which later ones: one link per pair of steps."""
    checked = {checked_step.step.key: checked_step for checked_step in report.steps}
    return [link for step in checked.values() for link in _link_step(report, step, checked)]


def _link_step(
    report: Report, checked_step: CheckedStep, checked_steps: dict[str, CheckedStep]
) -> list[ErrorLink]:
    """Link the first carried-over cell of a step to the wrong cells that it depends on."""
    problem, follows = report.problem, report.problem.orient(checked_step.verdicts == "follows")
    if not follows.any():
        return []
    row, column = (int(k) for k in np.argwhere(follows)[0])
    links = []
    key = checked_step.step.key
    for block in find_inputs(problem, key, row, column, [k for k in checked_steps if k != key]):
        verdicts = checked_steps[block.key].verdicts
        is_off: Bools = problem.orient((verdicts == "wrong") | (verdicts == "follows"))
        is_input = np.zeros_like(is_off)
        is_input[np.ix_(block.rows, block.columns)] = True
        if (is_off & is_input).any():
            r, c = (int(k) for k in np.argwhere(is_off & is_input)[0])
            links.append(ErrorLink(block.key, (r, c), key, (row, column), int(follows.sum())))
    return links


class InputFinder:
    """Finds the inputs of the cells of one step; results are cached over many cells."""

    def __init__(self, problem: Problem, key: str, stop_at: Collection[str] | None = None) -> None:
        stop_at = list_shown_matrices(problem) if stop_at is None else stop_at
        steps = {step.key: step for step in problem.steps}
        self._problem, self._key, self._sources, visited = problem, key, list[str](), {key}
        queue = [*problem.get_step(key).op.sources()]
        while queue:
            source = queue.pop(0)
            if source in stop_at and source != key:
                self._sources += [source] if source not in self._sources else []
            elif source in steps and source not in visited:
                visited.add(source)
                queue += steps[source].op.sources()
        self._path = [step for step in problem.steps if step.key in visited]
        classes = {s for step in problem.steps if step.op.reads_classes for s in step.op.sources()}
        self._env = {
            key: matrix if key in classes else _make_probe(matrix)
            for key, matrix in problem.exact_matrices.items()
        }
        self._reached_cells: dict[tuple[str, int, int], Bools] = {}

    def find(self, row: int, column: int) -> list[SourceBlock]:
        """Return the blocks that a cell depends on, from 0 in the problem's convention."""
        is_transposed = self._problem.column_vectors
        i, j = (column, row) if is_transposed else (row, column)
        blocks = []
        for source in self._sources:
            rows, columns = (self._find_lines(source, axis, i, j) for axis in (0, 1))
            if rows and columns:
                rows, columns = (columns, rows) if is_transposed else (rows, columns)
                blocks.append(SourceBlock(source, rows, columns))
        return blocks

    def _find_lines(self, source: str, axis: int, i: int, j: int) -> list[int]:
        """Return the rows (axis 0) or columns (1) of a source that cell (i, j) depends on."""
        count = self._env[source].shape[axis]
        return [k for k in range(count) if self._mark_reached(source, axis, k)[i, j]]

    def _mark_reached(self, source: str, axis: int, k: int) -> Bools:
        """Return which cells of the step depend on row or column k of a source.

        The row or column is tainted, and the steps are computed to see where the taint arrives.
        """
        line = (source, axis, k)
        if line not in self._reached_cells:
            marked = self._env[source].tainted.copy()
            marked[np.s_[:, k] if axis else np.s_[k, :]] = True
            env: Env = {**self._env, source: replace(self._env[source], tainted=marked)}
            for step in self._path:
                with np.errstate(all="ignore"):
                    env = {**env, step.key: step.op.compute(env)}
            self._reached_cells[line] = env[self._key].tainted
        return self._reached_cells[line]


def _make_probe(matrix: IntervalMatrix) -> IntervalMatrix:
    """Return a matrix of the same shape without zeros, which would block a taint."""
    return IntervalMatrix.exact(np.linspace(1.0, 2.0, matrix.mid.size).reshape(matrix.shape))
