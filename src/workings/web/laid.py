"""Problems and solutions laid out for the page."""

import math
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from workings.problems import Problem, Solution
from workings.problems.cells import Floats
from workings.problems.kinds import Step
from workings.problems.reads import shown
from workings.problems.solve import cell_name
from workings.views.colours import step as colour_of
from workings.views.notation import Notation, decimal, typeset
from workings.views.numerals import largest, texts
from workings.views.worked import Panel, Worked
from workings.web import told
from workings.web.formulas import formula, role

_LABELS = {
    "n": "tokens", "m": "context", "d": "width", "e": "width", "k": "d_k", "v": "d_v",
    "o": "output", "h": "hidden", "f": "hidden",
}  # fmt: skip
_AS_GIVEN = 12  # decimals
_LARGEST = 1000  # denominator of a fraction that somebody may have written
MOST_SIDE = 64  # rows or columns of a matrix on the page


def worked(problem: Problem, decimals: int, laid: Worked | None = None) -> told.Worked:
    """Solve a problem and lay everything out, as somebody has `laid` it out already."""
    began = perf_counter()
    solution = problem.solve(decimals)
    laid, keys = laid or solution.worked(), solution.keys()
    steps = [problem.step(key) for key in keys]
    sizes = problem.sizes.sizes
    return told.Worked(
        title=problem.title,
        given=givens(problem, laid.givens),
        steps=[
            matrix(problem, step.key, panel, decimals, step_axes(problem, step), step)
            for step, panel in zip(steps, laid.steps, strict=True)
        ],
        absent=_absent(problem),
        sizes=_sizes(problem),
        heads=_heads(sizes) if "heads" in problem.kind.settings else [],
        settings=list(problem.kind.settings),
        mask=None if problem.setting.mask is None else written(problem.turn(problem.setting.mask)),
        milliseconds=1000 * (perf_counter() - began),
    )


def givens(problem: Problem, panels: list[Panel]) -> list[told.Matrix]:
    """Lay out what was given."""
    return [
        matrix(problem, panel.name, panel, _AS_GIVEN, _given_axes(problem, panel.name))
        for panel in panels
    ]


def matrix(
    problem: Problem,
    key: str,
    panel: Panel,
    decimals: int,
    axes: tuple[str, str],
    step: Step | None = None,
) -> told.Matrix:
    """Lay a matrix out: the texts as they are shown, and everything that is seen beside them."""
    full = largest(panel)
    seen = set(shown(problem)) if step else set()

    def symbol(n: Notation) -> str:
        return n.symbol(key if step is None or step.part else step.name.rpartition(".")[2])

    return told.Matrix(
        key=key,
        name=panel.name,
        symbol=formula(symbol),
        formula=None if panel.formula is None else formula(panel.formula, decimals),
        role=role(key),
        axes=axes,
        row_names=panel.row_names,
        column_names=panel.column_names,
        texts=[[typeset(text) for text in row] for row in texts(panel, decimals)],
        values=[[exactly(cell.value) for cell in row] for row in panel.cells],
        colours=[[colour_of(cell.value, full) for cell in row] for row in panel.cells],
        marks=[[cell.mark for cell in row] for row in panel.cells],
        largest=typeset(decimal(full, decimals)),
        part=step.part if step else None,
        sources=_sources(problem, step, seen) if step else [],
    )


def substitution(problem: Problem, key: str, row: int, column: int, decimals: int) -> told.Formula:
    """Write a cell out without its result."""
    step = problem.step(key)
    i, j = Solution(problem, decimals).place(key, row + 1, column + 1)

    def write(n: Notation) -> str:
        name = cell_name(n, step, row + 1, column + 1)
        return n.equals(name, step.op.cell(n, problem.exact, i, j))

    return formula(write, decimals)


def table(problem: Problem) -> told.Table:
    """Write a problem as the page edits it."""
    given = {name: problem.given[name].mid for name in shown(problem) if name in problem.given}
    return told.Table(
        title=problem.title,
        kind=problem.kind.name,
        vectors="columns" if problem.columns else "rows",
        tokens=problem.tokens,
        context_tokens=problem.context_tokens,
        settings=_settings(problem),
        given={name: written(problem.turn(cells)) for name, cells in given.items()},
        claims=[
            told.Claimed(key=claim.key, again=claim.again, cells=_turned(problem, claim.numbers))
            for claim in problem.claims
        ],
    )


def step_axes(problem: Problem, step: Step) -> tuple[str, str]:
    """What a step's rows and columns stand for, in the problem's own convention."""
    return (step.columns, step.rows) if problem.columns else (step.rows, step.columns)


def written(numbers: Any) -> list[list[str]]:
    """Write numbers as they were given: as a decimal number, or as a fraction that none can say.

    >>> written([[0.5, 1 / 6]])
    [['0.5', '1/6']]
    """
    return [[_as_given(float(value)) for value in row] for row in numbers]


def _as_given(value: float) -> str:
    short = decimal(value, _AS_GIVEN)
    if float(short) == value:
        return short
    ratio = Fraction(value).limit_denominator(_LARGEST)
    return str(ratio) if float(ratio) == value else short


def exactly(value: float | None) -> str:
    """Write a number to its last digit; one that is not there is nothing."""
    if value is None or math.isnan(value):
        return ""
    return typeset(repr(value).removesuffix(".0"))


def _given_axes(problem: Problem, name: str) -> tuple[str, str]:
    """Like a step's; what asks itself stands for both, tokens and context."""
    both = "context" not in problem.given and "K" not in problem.given
    axes = {"n": "tokens context" if both and name == "X" else "tokens", "m": "context"}
    down, across = (axes.get(size, "") for size in problem.kind.matrices[name])
    return (across, down) if problem.columns else (down, across)


def _turned(problem: Problem, numbers: list[list[Any]]) -> list[list[str]]:
    cells = [["?" if n is None else n.text for n in row] for row in numbers]
    return [list(line) for line in zip(*cells, strict=True)] if problem.columns else cells


def _sources(problem: Problem, step: Step, seen: set[str]) -> list[str]:
    """Name the matrices on the page that a step is computed from."""
    known = {other.key: other for other in problem.steps}
    found, waiting = list[str](), [*step.op.sources()]
    while waiting:
        key = waiting.pop(0)
        if key in seen:
            found += [key] if key not in found else []
        elif key in known:
            waiting += known[key].op.sources()
    return found


def _settings(problem: Problem) -> dict[str, Any]:
    setting, said = problem.setting, dict[str, Any]()
    for name in problem.kind.settings:
        value = getattr(setting, name)
        if name == "mask":
            own = value is not None and not setting.causal
            value = "causal" if setting.causal else written(problem.turn(value)) if own else "none"
        said[name] = value
    return said


def _heads(sizes: dict[str, int]) -> list[int]:
    """In how many heads queries and values can be split."""
    both = math.gcd(sizes["k"], sizes["v"])
    return [count for count in range(1, both + 1) if both % count == 0]


def _absent(problem: Problem) -> list[told.Absent]:
    """List what might be given, too, with numbers that leave everything as it is."""
    found, given = [], problem.given
    for name, (down, across) in problem.kind.matrices.items():
        needless = name in {f"W_{made}" for made in ("Q", "K", "V") if made in given}
        if name in given or name in ("X", "Q", "K", "V") or needless:
            continue
        if name == "context" and ("X" not in given or {"K", "V"} & set(given)):
            continue
        start = _start(problem, name, down, across)
        if start is not None:
            found.append(told.Absent(name=name, cells=written(problem.turn(start))))
    return found


def _start(problem: Problem, name: str, down: str, across: str) -> Floats | None:
    if name == "context":
        return problem.given["X"].mid
    sizes = {"1": 1, "4h": 4 * problem.sizes.sizes.get("h", 0), **problem.sizes.sizes}
    rows, columns = sizes.get(down, 0), sizes.get(across, 0)
    if name.startswith("W"):
        return np.eye(rows) if rows == columns and rows else None
    if not rows * columns:
        return None
    return np.ones((rows, columns)) if name.startswith("gamma") else np.zeros((rows, columns))


def _sizes(problem: Problem) -> list[told.Size]:
    """List the sizes that can be changed; those that an absent matrix makes one change together."""
    group = {letter: letter for pair in problem.kind.matrices.values() for letter in pair}
    if "4h" in group:  # four gates grow together: nothing for a button
        return []
    for absent, one, other in problem.kind.ties:
        if not any(name in problem.given for name in absent):
            old, new = group[one], group[other]
            group = {letter: new if root == old else root for letter, root in group.items()}
    found: dict[str, told.Size] = {}
    mask = {"mask": ("n", "m")} if problem.setting.mask is not None else {}
    for name, pair in (*problem.kind.matrices.items(), *mask.items()):
        if name not in problem.given and (name != "mask" or problem.setting.causal):
            continue
        for axis, letter in enumerate(pair):
            if letter == "1":
                continue
            size = found.setdefault(group[letter], _size(problem, group, letter))
            size.lines.append((name, 1 - axis if problem.columns else axis))
    return list(found.values())


def _size(problem: Problem, group: dict[str, str], letter: str) -> told.Size:
    letters = [other for other, root in group.items() if root == group[letter]]
    label = next((_LABELS[other] for other in letters if other in _LABELS), "size")
    names = [name for other, name in (("n", "tokens"), ("m", "context_tokens")) if other in letters]
    return told.Size(label=label, value=problem.sizes[letter], names=names, lines=[])
