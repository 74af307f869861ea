"""One cell written out when its sum is long: the largest terms, and what the others come to.

A textbook's cell is a sum of three products, and `Solution.cell` writes all of them. A trained
model's is one of a hundred: the few that make the number are shown, the rest as one remainder.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workings.display import Renderable
from workings.errors import UserError
from workings.problems.check import CheckedStep, Report
from workings.problems.intervals import Bools, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.notation import Formula, Notation, TextNotation
from workings.problems.ops import (
    Copy,
    Env,
    Linear,
    Masking,
    Normalization,
    Scaling,
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

MAX_SHOWN_SCORE = 100.0  # scores beyond are shown less the largest: e to them is no number to read
REMAINDER_LABEL = "+ remainder of the other"


@dataclass(frozen=True)
class SumLine:
    """A line of the sum: numbers below the heads, None where there is nothing to write."""

    name: str
    numbers: Sequence[float | None]
    is_marked: bool = False  # it is the one that was asked about


@dataclass(frozen=True)
class ModelValue:
    """The same number as somebody else has it, and how far that is from the one written out."""

    source: str
    value: float
    difference: float


@dataclass(frozen=True)
class CellDerivation(Renderable):
    """A cell and how it comes about.

    `before`: the same cell in the steps that lead here. `head` and `lines`: the sum, its largest
    terms first, where it is one.
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
        """Take it apart into what JSON can hold; −∞ is the string "-inf"."""
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
                {
                    "source": one.source,
                    "value": _json_number(one.value),
                    "difference": one.difference,
                }
                for one in self.model_values
            ],
            "notes": list(self.notes),
        }


def _json_number(number: float | None) -> float | str | None:
    return "-inf" if number == float("-inf") else number


def derive(
    problem: Problem, key: str, row: int, column: int, *, top: int = 5, decimals: int = 4
) -> CellDerivation:
    """Derive one cell, counted from 1 in the problem's convention, with its `top` largest terms.

    >>> found = derive(Problem(X=[[1, 2, 3], [3, 1, 0]], scale="none"), "scores", 1, 1, top=2)
    >>> found.working(TextNotation())
    'scores[1,1] = 3·3 + 2·2 + 1 = 14'
    """
    if top < 1:
        raise UserError(f"top = {top}: at least 1 term is shown")
    step = problem.get_step(key)
    at = Solution(problem, decimals).locate_cell(key, row, column)
    cell = _CellDeriver(problem, step, (row, column), at, top)
    head, lines, working = cell.expand()
    return CellDerivation(
        problem.title,
        f"{key}[{row},{column}]",
        "",
        make_step_formula(step, problem),
        cell.list_preceding_formulas(),
        head,
        lines,
        working,
        cell.value,
        decimals=decimals,
    )


class _CellDeriver:
    """A cell that is being derived; inside, vectors are rows and counting starts from 0."""

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
        """Write the same cell in the steps that lead here, as far as there are no sums in them."""
        known = {step.key: step for step in self.problem.steps}
        step, lines = self.step, list[Formula]()
        while isinstance(step.op, Scaling | Masking | Normalization | Copy) and step.op.x in known:
            step = known[step.op.x]
            lines += [self._make_brief_formula(step)] if step.is_shown else []
        return lines[::-1]

    def _make_brief_formula(self, step: Step) -> Formula:
        def line(n: Notation) -> str:
            if isinstance(step.op, Linear):
                value = float(self.problem.exact_matrices[step.key].mid[self.i, self.j])
                return n.equals(format_cell_name(n, step, *self.position), n.number(value))
            return Solution(self.problem, n.decimals).cell(step.key, *self.position, n)

        return line

    def expand(self) -> tuple[Sequence[str], Sequence[SumLine], Formula]:
        """The heads and lines of the sum, where the cell is one, and the working in one line."""
        op = self.step.op
        if isinstance(op, Linear) and len(op.pairs) == 1 and op.function == "none":
            return self._expand_product(op)
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

    def _expand_product(self, op: Linear) -> tuple[Sequence[str], Sequence[SumLine], Formula]:
        """A row times a column: the products by their size."""
        env, ((left, right),) = self.problem.exact_matrices, op.pairs
        rows = get_matrix(env, left).mid
        a = rows[self.i if len(rows) > 1 else 0]  # a single row is the same for all
        b = get_matrix(env, right).mid[:, self.j]
        bias = None if op.bias is None else float(env[op.bias].mid[0, self.j])
        products = a * b
        order = np.argsort(-np.abs(products), kind="stable")
        largest, others = order[: self.top].tolist(), order[self.top :]
        rest = float(products[others].sum())
        names = self._get_term_names(left, len(a))
        lines = [SumLine(names[k], (a[k], b[k], products[k])) for k in largest]
        if len(others):
            lines.append(SumLine(f"{REMAINDER_LABEL} {len(others)}", (None, None, rest)))
        if bias is not None:
            lines.append(SumLine(f"+ {op.bias}[{self.j + 1}]", (None, None, bias)))
        lines.append(SumLine("sum", (None, None, self.value)))

        def working(n: Notation) -> str:
            terms = [n.product(n.factor(float(a[k])), n.factor(float(b[k]))) for k in largest]
            terms += [n.factor(rest)] if len(others) else []
            terms += [n.factor(bias)] if bias is not None else []
            name = format_cell_name(n, self.step, *self.position)
            return n.equals(name, n.total(terms), n.number(self.value))

        what = "token" if self._sums_over_tokens(left) else "column"
        named = resolve_aliases(op, self.problem)
        assert isinstance(named, Linear)
        ((left, right),) = named.pairs
        return (
            (
                what,
                f"{_format_plain_key(left)}[{self.i + 1}]",
                self._format_second_factor(right),
                "product",
            ),
            lines,
            working,
        )

    def _format_second_factor(self, key: str) -> str:
        """Name the second factor: a row of K, where K is turned over; else a column."""
        where = f"[{self.j + 1}]" if key.endswith("ᵀ") else f"[·,{self.j + 1}]"
        return _format_plain_key(key) + where

    def _sums_over_tokens(self, left: str) -> bool:
        """Say whether the sum runs over the tokens that were looked at: weights times values."""
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
        """A power of e over the sum of all: itself, and the largest of the others."""
        scores = self.problem.exact_matrices[op.x].mid[self.i]
        less = float(scores.max()) if abs(scores.max()) > MAX_SHOWN_SCORE else 0.0
        scores = scores - less
        powers, own = np.exp(scores), self.j
        total = float(powers.sum())
        rivals = [k for k in np.argsort(-scores, kind="stable").tolist() if k != own]
        visible = [k for k in rivals if scores[k] > -math.inf]
        shown = sorted([own, *visible[: self.top]], key=lambda k: -scores[k])
        others, hidden = visible[self.top :], len(rivals) - len(visible)
        rest = float(powers[others].sum())
        names = _prefix_numbers(get_axis_labels(self.problem, "context", len(scores)))
        lines = [
            SumLine(names[k], (scores[k], powers[k], powers[k] / total), is_marked=k == own)
            for k in shown
        ]
        if others:
            lines.append(SumLine(f"{REMAINDER_LABEL} {len(others)}", (None, rest, rest / total)))
        if hidden:
            lines.append(SumLine(f"hidden by the mask: {hidden}", (-math.inf, 0.0, 0.0)))
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
        source += f" − {TextNotation(2).number(less)}" if less else ""
        power = f"e^({source})" if less else f"e^{source}"
        return ("token", source, power, self.step.name), lines, working


def _prefix_numbers(names: Sequence[str]) -> list[str]:
    """Put numbers before names, where these are not numbers themselves."""
    return [name if name == str(k) else f"{k} {name}" for k, name in enumerate(names, start=1)]


def _format_plain_key(key: str) -> str:
    return format_symbol(TextNotation(), key.removesuffix("ᵀ"))


@dataclass(frozen=True)
class SourceBlock:
    """Rows and columns of a matrix, counted from 0 in the problem's own convention."""

    key: str
    rows: list[int]
    columns: list[int]


@dataclass(frozen=True)
class ErrorLink:
    """An error carried on: the cell that is off, the first cell that follows, how many do."""

    source: str
    cell: tuple[int, int]
    target: str
    first: tuple[int, int]
    count: int


def find_inputs(
    problem: Problem, key: str, row: int, column: int, stop_at: Collection[str] | None = None
) -> list[SourceBlock]:
    """List what a cell, counted from 0 in the problem's convention, is computed from.

    `stop_at`: the matrices to stop at; without it, the givens and the steps that are shown.

    >>> find_inputs(Problem(X=[[1, 2], [3, 1], [0, 1]], scale="none"), "scores", 0, 2)
    [SourceBlock(key='Q', rows=[0], columns=[0, 1]), SourceBlock(key='K', rows=[2], columns=[0, 1])]
    """
    return InputFinder(problem, key, stop_at).find(row, column)


def list_shown_matrices(problem: Problem) -> list[str]:
    """Name the matrices that a reader sees."""
    steps = [step.key for step in problem.steps if step.is_shown and step.is_claimable]
    return [*(name for name in problem.kind.matrices if name in problem.given), *steps]


def find_error_links(report: Report) -> list[ErrorLink]:
    """Say from which claimed cells errors were carried into which later ones, a link a pair."""
    judged = {one.step.key: one for one in report.steps}
    return [link for one in judged.values() for link in _link_step(report, one, judged)]


def _link_step(
    report: Report, checked_step: CheckedStep, checked_steps: dict[str, CheckedStep]
) -> list[ErrorLink]:
    """Link a step's first cell that follows with the cells that it follows from."""
    problem, follows = report.problem, report.problem.orient(checked_step.verdicts == "follows")
    if not follows.any():
        return []
    row, column = (int(k) for k in np.argwhere(follows)[0])
    links = []
    for block in find_inputs(
        problem,
        checked_step.step.key,
        row,
        column,
        [k for k in checked_steps if k != checked_step.step.key],
    ):
        verdicts = checked_steps[block.key].verdicts
        off: Bools = problem.orient((verdicts == "wrong") | (verdicts == "follows"))
        inside = np.zeros_like(off)
        inside[np.ix_(block.rows, block.columns)] = True
        if (off & inside).any():
            r, c = (int(k) for k in np.argwhere(off & inside)[0])
            count = int(follows.sum())
            links.append(ErrorLink(block.key, (r, c), checked_step.step.key, (row, column), count))
    return links


class InputFinder:
    """What the cells of one step are computed from; asked about many, it works little out twice."""

    def __init__(self, problem: Problem, key: str, stop_at: Collection[str] | None = None) -> None:
        stop_at = list_shown_matrices(problem) if stop_at is None else stop_at
        known = {s.key: s for s in problem.steps}
        self._problem, self._key, self._sources, between = problem, key, list[str](), {key}
        waiting = [*problem.get_step(key).op.sources()]
        while waiting:
            source = waiting.pop(0)
            if source in stop_at and source != key:
                self._sources += [source] if source not in self._sources else []
            elif source in known and source not in between:
                between.add(source)
                waiting += known[source].op.sources()
        self._path = [s for s in problem.steps if s.key in between]
        self._env = {key: _make_probe(cells) for key, cells in problem.exact_matrices.items()}
        self._reached_cells: dict[tuple[str, int, int], Bools] = {}

    def find(self, row: int, column: int) -> list[SourceBlock]:
        """List what a cell, counted from 0 in the problem's convention, is computed from."""
        columns = self._problem.column_vectors
        i, j = (column, row) if columns else (row, column)
        found = [
            (source, self._find_lines(source, 0, i, j), self._find_lines(source, 1, i, j))
            for source in self._sources
        ]
        return [
            SourceBlock(source, across, down) if columns else SourceBlock(source, down, across)
            for source, down, across in found
            if down and across
        ]

    def _find_lines(self, source: str, axis: int, i: int, j: int) -> list[int]:
        """Which rows (axis 0) or columns (1) of a source reach cell (i, j), vectors as rows."""
        count = self._env[source].shape[axis]
        return [k for k in range(count) if self._mark_reached(source, axis, k)[i, j]]

    def _mark_reached(self, source: str, axis: int, k: int) -> Bools:
        """Which cells of the step a row or a column of a source reaches."""
        place = (source, axis, k)
        if place not in self._reached_cells:
            marked = self._env[source].tainted.copy()
            marked[np.s_[:, k] if axis else np.s_[k, :]] = True
            env: Env = {**self._env, source: replace(self._env[source], tainted=marked)}
            for step in self._path:
                with np.errstate(all="ignore"):
                    env = {**env, step.key: step.op.compute(env)}
            self._reached_cells[place] = env[self._key].tainted
        return self._reached_cells[place]


def _make_probe(cells: IntervalMatrix) -> IntervalMatrix:
    """Numbers of no special kind, none of them nought: through a nought no mark would pass."""
    return IntervalMatrix.exact(np.linspace(1.0, 2.0, cells.mid.size).reshape(cells.shape))
