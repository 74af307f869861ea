"""Problems and solutions laid out for the page."""

import math
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from workings.problems import Problem, Solution
from workings.problems.derivation import list_shown_matrices
from workings.problems.intervals import Floats
from workings.problems.kinds import Step
from workings.problems.notation import Notation, format_decimal, typeset
from workings.problems.solution import format_cell_name
from workings.problems.worked_problem import Panel, WorkedProblem
from workings.render.colors import color_step as colour_of
from workings.render.matrix import format_cells, max_abs_cell
from workings.web import responses
from workings.web.markup import build_formula, matrix_role

_LABELS = {
    "n": "tokens", "m": "context", "d": "width", "e": "width", "k": "d_k", "v": "d_v",
    "o": "output", "h": "hidden", "f": "hidden",
}  # fmt: skip
_GIVEN_DECIMALS = 12  # decimals
_MAX_DENOMINATOR = 1000  # denominator of a fraction that somebody may have written
MAX_SIDE = 64  # rows or columns of a matrix on the page


def build_solution_view(
    problem: Problem, decimals: int, layout: WorkedProblem | None = None
) -> responses.SolutionView:
    """Solve a problem and lay everything out, as somebody has `laid` it out already."""
    began = perf_counter()
    solution = problem.solve(decimals)
    layout, keys = layout or solution.to_worked_problem(), solution.keys()
    steps = [problem.get_step(key) for key in keys]
    sizes = problem.sizes.sizes
    return responses.SolutionView(
        title=problem.title,
        given=build_given_views(problem, layout.givens),
        steps=[
            build_matrix_view(problem, step.key, panel, decimals, step_axes(problem, step), step)
            for step, panel in zip(steps, layout.steps, strict=True)
        ],
        absent=_list_optional_matrices(problem),
        sizes=_list_dimensions(problem),
        heads=_head_counts(sizes) if "heads" in problem.kind.settings else [],
        settings=list(problem.kind.settings),
        mask=None
        if problem.setting.mask is None
        else format_as_given(problem.orient(problem.setting.mask)),
        milliseconds=1000 * (perf_counter() - began),
    )


def build_given_views(problem: Problem, panels: list[Panel]) -> list[responses.MatrixView]:
    """Lay out what was given."""
    return [
        build_matrix_view(
            problem, panel.name, panel, _GIVEN_DECIMALS, _given_axes(problem, panel.name)
        )
        for panel in panels
    ]


def build_matrix_view(
    problem: Problem,
    key: str,
    panel: Panel,
    decimals: int,
    axes: tuple[str, str],
    step: Step | None = None,
) -> responses.MatrixView:
    """Lay a matrix out: the texts as they are shown, and everything that is seen beside them."""
    full = max_abs_cell(panel)
    seen = set(list_shown_matrices(problem)) if step else set()

    def symbol(n: Notation) -> str:
        return n.symbol(key if step is None or step.part_index else step.name.rpartition(".")[2])

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
        colors=[[colour_of(cell.value, full) for cell in row] for row in panel.cells],
        marks=[[cell.mark for cell in row] for row in panel.cells],
        largest=typeset(format_decimal(full, decimals)),
        part=step.part_index if step else None,
        sources=_list_sources(problem, step, seen) if step else [],
    )


def build_substitution(
    problem: Problem, key: str, row: int, column: int, decimals: int
) -> responses.FormulaView:
    """Write a cell out without its result."""
    step = problem.get_step(key)
    i, j = Solution(problem, decimals).locate_cell(key, row + 1, column + 1)

    def write(n: Notation) -> str:
        name = format_cell_name(n, step, row + 1, column + 1)
        return n.equals(name, step.op.cell(n, problem.exact_matrices, i, j))

    return build_formula(write, decimals)


def build_problem_table(problem: Problem) -> responses.ProblemTable:
    """Write a problem as the page edits it."""
    given = {
        name: problem.given[name].mid
        for name in list_shown_matrices(problem)
        if name in problem.given
    }
    return responses.ProblemTable(
        title=problem.title,
        kind=problem.kind.name,
        vectors="columns" if problem.column_vectors else "rows",
        tokens=problem.tokens,
        context_tokens=problem.context_tokens,
        settings=_collect_settings(problem),
        given={name: format_as_given(problem.orient(cells)) for name, cells in given.items()},
        claims=[
            responses.ClaimView(
                key=claim.key, reprint=claim.reprint, cells=_transpose_claim(problem, claim.numbers)
            )
            for claim in problem.claims
        ],
    )


def step_axes(problem: Problem, step: Step) -> tuple[str, str]:
    """What a step's rows and columns stand for, in the problem's own convention."""
    return (
        (step.column_axis, step.row_axis)
        if problem.column_vectors
        else (step.row_axis, step.column_axis)
    )


def format_as_given(numbers: Any) -> list[list[str]]:
    """Write numbers as they were given: as a decimal number, or as a fraction that none can say.

    >>> format_as_given([[0.5, 1 / 6]])
    [['0.5', '1/6']]
    """
    return [[_format_number_as_given(float(value)) for value in row] for row in numbers]


def _format_number_as_given(value: float) -> str:
    short = format_decimal(value, _GIVEN_DECIMALS)
    if float(short) == value:
        return short
    ratio = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    return str(ratio) if float(ratio) == value else short


def format_exact(value: float | None) -> str:
    """Write a number to its last digit; one that is not there is nothing."""
    if value is None or math.isnan(value):
        return ""
    return typeset(repr(value).removesuffix(".0"))


def _given_axes(problem: Problem, name: str) -> tuple[str, str]:
    """Like a step's; what asks itself stands for both, tokens and context."""
    both = "context" not in problem.given and "K" not in problem.given
    axes = {"n": "tokens context" if both and name == "X" else "tokens", "m": "context"}
    down, across = (axes.get(size, "") for size in problem.kind.matrices[name])
    return (across, down) if problem.column_vectors else (down, across)


def _transpose_claim(problem: Problem, numbers: list[list[Any]]) -> list[list[str]]:
    cells = [["?" if n is None else n.text for n in row] for row in numbers]
    return [list(line) for line in zip(*cells, strict=True)] if problem.column_vectors else cells


def _list_sources(problem: Problem, step: Step, visible: set[str]) -> list[str]:
    """Name the matrices on the page that a step is computed from."""
    known = {other.key: other for other in problem.steps}
    found, waiting = list[str](), [*step.op.sources()]
    while waiting:
        key = waiting.pop(0)
        if key in visible:
            found += [key] if key not in found else []
        elif key in known:
            waiting += known[key].op.sources()
    return found


def _collect_settings(problem: Problem) -> dict[str, Any]:
    setting, said = problem.setting, dict[str, Any]()
    for name in problem.kind.settings:
        value = getattr(setting, name)
        if name == "mask":
            own = value is not None and not setting.causal
            value = (
                "causal"
                if setting.causal
                else format_as_given(problem.orient(value))
                if own
                else "none"
            )
        said[name] = value
    return said


def _head_counts(sizes: dict[str, int]) -> list[int]:
    """In how many heads queries and values can be split."""
    both = math.gcd(sizes["k"], sizes["v"])
    return [count for count in range(1, both + 1) if both % count == 0]


def _list_optional_matrices(problem: Problem) -> list[responses.OptionalMatrix]:
    """List what might be given, too, with numbers that leave everything as it is."""
    found, given = [], problem.given
    for name, (down, across) in problem.kind.matrices.items():
        needless = name in {f"W_{made}" for made in ("Q", "K", "V") if made in given}
        if name in given or name in ("X", "Q", "K", "V") or needless:
            continue
        if name == "context" and ("X" not in given or {"K", "V"} & set(given)):
            continue
        start = _initial_matrix(problem, name, down, across)
        if start is not None:
            found.append(
                responses.OptionalMatrix(name=name, cells=format_as_given(problem.orient(start)))
            )
    return found


def _initial_matrix(problem: Problem, name: str, down: str, across: str) -> Floats | None:
    if name == "context":
        return problem.given["X"].mid
    sizes = {"1": 1, "4h": 4 * problem.sizes.sizes.get("h", 0), **problem.sizes.sizes}
    rows, columns = sizes.get(down, 0), sizes.get(across, 0)
    if name.startswith("W"):
        return np.eye(rows) if rows == columns and rows else None
    if not rows * columns:
        return None
    return np.ones((rows, columns)) if name.startswith("gamma") else np.zeros((rows, columns))


def _list_dimensions(problem: Problem) -> list[responses.ResizableDimension]:
    """List the sizes that can be changed; those that an absent matrix makes one change together."""
    group = {letter: letter for pair in problem.kind.matrices.values() for letter in pair}
    if "4h" in group:  # four gates grow together: nothing for a button
        return []
    for absent, one, other in problem.kind.tied_sizes:
        if not any(name in problem.given for name in absent):
            old, new = group[one], group[other]
            group = {letter: new if root == old else root for letter, root in group.items()}
    found: dict[str, responses.ResizableDimension] = {}
    mask = {"mask": ("n", "m")} if problem.setting.mask is not None else {}
    for name, pair in (*problem.kind.matrices.items(), *mask.items()):
        if name not in problem.given and (name != "mask" or problem.setting.causal):
            continue
        for axis, letter in enumerate(pair):
            if letter == "1":
                continue
            size = found.setdefault(group[letter], _build_dimension(problem, group, letter))
            size.lines.append((name, 1 - axis if problem.column_vectors else axis))
    return list(found.values())


def _build_dimension(
    problem: Problem, group: dict[str, str], letter: str
) -> responses.ResizableDimension:
    letters = [other for other, root in group.items() if root == group[letter]]
    label = next((_LABELS[other] for other in letters if other in _LABELS), "size")
    names = [name for other, name in (("n", "tokens"), ("m", "context_tokens")) if other in letters]
    return responses.ResizableDimension(
        label=label, value=problem.sizes[letter], names=names, lines=[]
    )
