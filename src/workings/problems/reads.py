"""Which cells a cell is computed from, and which of them carry an error on into it.

Nothing is said twice about what a step computes: each row and each column of a source is marked in
turn, the step is worked out, and the mark arrives or it does not.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from workings.problems.cells import Bools, Cells
from workings.problems.check import Judged, Report
from workings.problems.kinds import Step
from workings.problems.ops import Env
from workings.problems.problem import Problem


@dataclass(frozen=True)
class Block:
    """Rows and columns of a matrix, counted from 0 in the problem's own convention."""

    key: str
    rows: list[int]
    columns: list[int]


@dataclass(frozen=True)
class Link:
    """An error carried on: the cell that is off, the first cell that follows, how many do."""

    source: str
    cell: tuple[int, int]
    target: str
    first: tuple[int, int]
    count: int


def reads(
    problem: Problem, key: str, row: int, column: int, among: Collection[str] | None = None
) -> list[Block]:
    """List what a cell, counted from 0 in the problem's convention, is computed from.

    `among`: the matrices to stop at; without it, the givens and the steps that are shown.

    >>> reads(Problem(X=[[1, 2], [3, 1], [0, 1]], scale="none"), "scores", 0, 2)
    [Block(key='Q', rows=[0], columns=[0, 1]), Block(key='K', rows=[2], columns=[0, 1])]
    """
    i, j = (column, row) if problem.columns else (row, column)
    probe = _Probe(problem, problem.step(key), shown(problem) if among is None else among)
    found = ((source, *probe.reached(source, i, j)) for source in probe.sources)
    return [
        Block(source, *((across, down) if problem.columns else (down, across)))
        for source, down, across in found
        if down and across
    ]


def shown(problem: Problem) -> list[str]:
    """Name the matrices that a reader sees."""
    steps = [step.key for step in problem.steps if step.shown and step.claimable]
    return [*(name for name in problem.kind.matrices if name in problem.given), *steps]


def carried_on(report: Report) -> list[Link]:
    """Say from which claimed cells errors were carried into which later ones, a link a pair."""
    judged = {one.step.key: one for one in report.steps}
    return [link for one in judged.values() for link in _links(report, one, judged)]


def _links(report: Report, one: Judged, judged: dict[str, Judged]) -> list[Link]:
    """Link a step's first cell that follows with the cells that it follows from."""
    problem, follows = report.problem, report.problem.turn(one.verdicts == "follows")
    if not follows.any():
        return []
    row, column = (int(k) for k in np.argwhere(follows)[0])
    links = []
    for block in reads(
        problem, one.step.key, row, column, [k for k in judged if k != one.step.key]
    ):
        verdicts = judged[block.key].verdicts
        off: Bools = problem.turn((verdicts == "wrong") | (verdicts == "follows"))
        inside = np.zeros_like(off)
        inside[np.ix_(block.rows, block.columns)] = True
        if (off & inside).any():
            r, c = (int(k) for k in np.argwhere(off & inside)[0])
            count = int(follows.sum())
            links.append(Link(block.key, (r, c), one.step.key, (row, column), count))
    return links


class _Probe:
    """A step, and the way from the matrices that are among those asked about to it."""

    def __init__(self, problem: Problem, step: Step, among: Collection[str]) -> None:
        known = {s.key: s for s in problem.steps}
        self.step, self.sources, between = step, list[str](), {step.key}
        waiting = [*step.op.sources()]
        while waiting:
            key = waiting.pop(0)
            if key in among and key != step.key:
                self.sources += [key] if key not in self.sources else []
            elif key in known and key not in between:
                between.add(key)
                waiting += known[key].op.sources()
        self._way = [s for s in problem.steps if s.key in between]
        self._env = {key: _plain(cells) for key, cells in problem.exact.items()}

    def reached(self, source: str, i: int, j: int) -> tuple[list[int], list[int]]:
        """Which rows and which columns of a source reach cell (i, j), vectors as rows."""
        height, width = self._env[source].shape
        down = [r for r in range(height) if self._arrives(source, np.s_[r, :], i, j)]
        across = [c for c in range(width) if self._arrives(source, np.s_[:, c], i, j)]
        return down, across

    def _arrives(self, source: str, line: tuple[int | slice, int | slice], i: int, j: int) -> bool:
        marked = self._env[source].off.copy()
        marked[line] = True
        env: Env = {**self._env, source: replace(self._env[source], off=marked)}
        for step in self._way:
            with np.errstate(all="ignore"):
                env = {**env, step.key: step.op.compute(env)}
        return bool(env[self.step.key].off[i, j])


def _plain(cells: Cells) -> Cells:
    """Numbers of no special kind, none of them nought: through a nought no mark would pass."""
    return Cells.exact(np.linspace(1.0, 2.0, cells.mid.size).reshape(cells.shape))
