"""Build the responses of the screen Work: solutions, and the written-out computations of cells."""

import math
from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems import Problem, Solution
from workings.problems.derivation import InputFinder, list_shown_matrices
from workings.problems.intervals import Floats
from workings.problems.kinds import Step
from workings.problems.notation import Notation, format_decimal, format_given_name, typeset
from workings.problems.solution import GIVEN_DECIMALS, format_cell_name
from workings.problems.worked_problem import Panel, WorkedProblem
from workings.render.colors import color_step
from workings.render.matrix import format_cells, max_abs_cell
from workings.web import responses
from workings.web.markup import build_formula, matrix_role

_LABELS = {
    "n": gettext_noop("tokens"), "m": gettext_noop("context"), "d": gettext_noop("width"),
    "e": gettext_noop("width"), "k": "d_k", "v": "d_v", "o": gettext_noop("output"),
    "h": gettext_noop("hidden"), "f": gettext_noop("hidden"),
}  # fmt: skip
_MAX_DENOMINATOR = 1000  # of a number that is shown as a fraction
_MAX_WRITTEN_DECIMALS = 7  # by hand; a number with more was computed
_ROUNDED_DECIMALS = 4
MAX_SIDE = 64  # rows or columns of a matrix on the page

CellFormatter: TypeAlias = Callable[[str, int, int], Callable[[Notation], str]]
"""Takes a step, a row and a column, counted from 1; returns a writer for any notation."""


def build_solution_view(
    problem: Problem, decimals: int, layout: WorkedProblem | None = None
) -> responses.SolutionView:
    """Solve a problem and return its matrices and options; `layout`: already computed panels."""
    start = perf_counter()
    solution = problem.solve(decimals)
    layout, keys = layout or solution.to_worked_problem(), solution.keys()
    steps = [problem.get_step(key) for key in keys]
    mask = problem.setting.mask
    return responses.SolutionView(
        title=problem.title,
        given=build_given_views(problem, layout.givens),
        steps=[
            build_matrix_view(problem, step.key, panel, decimals, step_axes(problem, step), step)
            for step, panel in zip(steps, layout.steps, strict=True)
        ],
        absent=_list_optional_matrices(problem),
        sizes=_list_dimensions(problem),
        heads=list_head_counts(problem),
        settings=list(problem.kind.settings),
        options=[
            responses.OptionView(
                name, option.form, list(option.choices), _format_default(option.default)
            )
            for name, option in problem.kind.options.items()
        ],
        mask=None if mask is None else format_as_given(problem.orient(mask)),
        milliseconds=1000 * (perf_counter() - start),
    )


def _format_default(value: object) -> str:
    """Format the default of an option; "" if it has none."""
    if value is None or value == () or isinstance(value, bool):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def list_given_names(problem: Problem) -> list[str]:
    """Return the matrices that the problem itself gives, without implied ones such as h0 = 0."""
    given = problem.table.get("given", {})
    return [name for name in problem.kind.matrices if name in given]


def build_given_views(problem: Problem, panels: list[Panel]) -> list[responses.MatrixView]:
    """Return the given matrices; texts and single settings are no matrices to edit."""
    return [
        build_matrix_view(
            problem, panel.name, panel, _given_decimals(panel), _given_axes(problem, panel.name)
        )
        for panel in panels
        if panel.name in problem.kind.matrices
    ]


def _given_decimals(panel: Panel) -> int:
    """Return how many decimals to show: those that were written, or few of computed numbers."""
    texts = [text for row in format_cells(panel, GIVEN_DECIMALS) for text in row]
    longest = max((len(text.partition(".")[2]) for text in texts), default=0)
    return GIVEN_DECIMALS if longest <= _MAX_WRITTEN_DECIMALS else _ROUNDED_DECIMALS


def build_matrix_view(
    problem: Problem,
    key: str,
    panel: Panel,
    decimals: int,
    axes: tuple[str, str],
    step: Step | None = None,
) -> responses.MatrixView:
    """Return a matrix with its names, formula, cell texts, colors and marks."""
    max_abs = max_abs_cell(panel)
    visible = set(list_shown_matrices(problem)) if step else set()

    def symbol(n: Notation) -> str:
        if step is None:
            return format_given_name(n, key)
        return n.symbol(key if step.part_index else step.name.rpartition(".")[2])

    return responses.MatrixView(
        key=key,
        name=panel.name,
        symbol=build_formula(symbol),
        formula=None if panel.formula is None else build_formula(panel.formula, decimals),
        role=matrix_role(key),
        axes=axes,
        row_names=panel.row_names,
        column_names=panel.column_names,
        texts=[[typeset(text) for text in row] for row in format_cells(panel, decimals)],
        values=[[format_exact(cell.value) for cell in row] for row in panel.cells],
        colors=[[color_step(cell.value, max_abs) for cell in row] for row in panel.cells],
        marks=[[cell.mark for cell in row] for row in panel.cells],
        largest=typeset(format_decimal(max_abs, decimals)),
        part=step.part_index if step else None,
        sources=_list_sources(problem, step, visible) if step else [],
        is_backward=key in find_backward_keys(problem),
    )


def find_backward_keys(problem: Problem) -> frozenset[str]:
    """Return the gradients of a problem, dX for X, and the steps that are computed from them."""
    names = {*problem.kind.matrices, *(step.name.rpartition(".")[2] for step in problem.steps)}

    def is_gradient(name: str) -> bool:
        return name[:1] == "d" and (name[1:] in names or name[1:2].isupper())

    backward = {name for name in problem.given if is_gradient(name)}
    for step in problem.steps:
        sources = {key.removesuffix("ᵀ") for key in step.op.sources()}
        if is_gradient(step.name.rpartition(".")[2]) or sources & backward:
            backward.add(step.key)
    return frozenset(backward)


def build_substitution(
    problem: Problem, key: str, row: int, column: int, decimals: int
) -> responses.FormulaView:
    """Return the computation of a cell without its result."""
    step = problem.get_step(key)
    i, j = Solution(problem, decimals).locate_cell(key, row + 1, column + 1)

    def write(n: Notation) -> str:
        name = format_cell_name(n, step, row + 1, column + 1)
        return n.equals(name, step.op.cell(n, problem.exact_matrices, i, j))

    return build_formula(write, decimals)


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


def step_axes(problem: Problem, step: Step) -> tuple[str, str]:
    """Return the axes of a step's rows and columns, in the problem's own convention."""
    rows, columns = (
        axis if isinstance(axis, str) else "" for axis in (step.row_axis, step.column_axis)
    )
    return (columns, rows) if problem.column_vectors else (rows, columns)


def format_as_given(numbers: Any) -> responses.Cells:
    """Return numbers as decimals, or as fractions where a short decimal is not exact.

    >>> format_as_given([[0.5, 1 / 6]])
    [['0.5', '1/6']]
    """
    return [[_format_number_as_given(float(value)) for value in row] for row in numbers]


def _format_number_as_given(value: float) -> str:
    short = format_decimal(value, GIVEN_DECIMALS)
    if float(short) == value:
        return short
    ratio = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    return str(ratio) if float(ratio) == value else short


def format_exact(value: float | None) -> str:
    """Return a number to its last digit; an empty string for a missing one."""
    if value is None or math.isnan(value):
        return ""
    return typeset(repr(value).removesuffix(".0"))


def _given_axes(problem: Problem, name: str) -> tuple[str, str]:
    """Return the axes of a given matrix; in self-attention X is both tokens and context."""
    is_self_attention = "context" not in problem.given and "K" not in problem.given
    tokens = "tokens context" if is_self_attention and name == "X" else "tokens"
    axes = {"n": tokens, "m": "context"}
    rows, columns = (axes.get(size, "") for size in problem.kind.matrices[name])
    return (columns, rows) if problem.column_vectors else (rows, columns)


def _list_sources(problem: Problem, step: Step, visible: set[str]) -> list[str]:
    """Return the keys of the visible matrices that a step is computed from."""
    steps = {other.key: other for other in problem.steps}
    sources, queue = list[str](), [*step.op.sources()]
    while queue:
        key = queue.pop(0)
        if key in visible:
            sources += [key] if key not in sources else []
        elif key in steps:
            queue += steps[key].op.sources()
    return sources


def list_head_counts(problem: Problem) -> list[int]:
    """Return the numbers of heads that divide the widths of queries and values."""
    sizes = problem.sizes.sizes
    if "heads" not in problem.kind.settings or not {"k", "v"} <= sizes.keys():
        return []
    divisor = math.gcd(sizes["k"], sizes["v"])
    return [count for count in range(1, divisor + 1) if divisor % count == 0]


def _list_optional_matrices(problem: Problem) -> dict[str, responses.Cells]:
    """Return the matrices that can be added, with numbers that change no result."""
    matrices, given = dict[str, responses.Cells](), list_given_names(problem)
    for name, (rows, columns) in problem.kind.matrices.items():
        is_unused = name in {f"W_{result}" for result in ("Q", "K", "V") if result in given}
        if name in given or name in ("X", "Q", "K", "V", "scores") or is_unused:
            continue
        if name == "context" and ("X" not in given or {"K", "V"} & set(given)):
            continue
        initial = _initial_matrix(problem, name, rows, columns)
        if initial is None:
            continue
        cells = format_as_given(problem.orient(initial))
        if problem.can_add(name, cells):
            matrices[name] = cells
    return matrices


def _initial_matrix(problem: Problem, name: str, row_size: str, column_size: str) -> Floats | None:
    """Return a neutral matrix: identity, zeros or ones; None if there is none of this shape."""
    if name == "context" or name.startswith("X_"):  # sources of queries, keys and values
        is_context = name in ("X_K", "X_V") and "context" in problem.given
        source = problem.given.get("context" if is_context else "X")
        return None if source is None else source.mid
    sizes = {"1": 1, "4h": 4 * problem.sizes.sizes.get("h", 0), **problem.sizes.sizes}
    for key in ("mixed", "attention.mixed"):  # the width that an output projection reads
        if key in problem.exact_matrices:
            width = problem.exact_matrices[key].shape[1]
            sizes = {"w": width, "o": width, **sizes}
    rows, columns = sizes.get(row_size, 0), sizes.get(column_size, 0)
    if name.startswith("W"):
        return np.eye(rows) if rows == columns and rows else None
    if not rows * columns:
        return None
    return np.ones((rows, columns)) if name.startswith("gamma") else np.zeros((rows, columns))


def _list_dimensions(problem: Problem) -> list[responses.ResizableDimension]:
    """Return the sizes that can be changed; sizes tied by an absent matrix are one dimension."""
    group = {letter: letter for pair in problem.kind.matrices.values() for letter in pair}
    if "4h" in group:  # the four gates of an LSTM cannot be resized one by one
        return []
    for absent, one, other in problem.kind.tied_sizes:
        if not any(name in problem.given for name in absent):
            old, new = group[one], group[other]
            group = {letter: new if root == old else root for letter, root in group.items()}
    dimensions: dict[str, responses.ResizableDimension] = {}
    mask = {"mask": ("n", "m")} if problem.setting.mask is not None else {}
    for name, pair in (*problem.kind.matrices.items(), *mask.items()):
        if name not in problem.given and (name != "mask" or problem.setting.causal):
            continue
        for axis, letter in enumerate(pair):
            if letter == "1":
                continue
            size = dimensions.setdefault(group[letter], _build_dimension(problem, group, letter))
            size.lines.append((name, 1 - axis if problem.column_vectors else axis))
    return list(dimensions.values())


def _build_dimension(
    problem: Problem, group: dict[str, str], letter: str
) -> responses.ResizableDimension:
    letters = [other for other, root in group.items() if root == group[letter]]
    label = next((_LABELS[other] for other in letters if other in _LABELS), gettext_noop("size"))
    names = [name for other, name in (("n", "tokens"), ("m", "context_tokens")) if other in letters]
    return responses.ResizableDimension(
        label=gettext(label), value=problem.sizes[letter], names=names, lines=[]
    )
