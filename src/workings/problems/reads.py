"""Which cells a cell is computed from, and which of them carry an error on into it.

Nothing is said twice about what a step computes: each row and each column of a source is marked in
turn, the step is worked out, and the mark arrives or it does not.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from workings.problems.cells import Bools, Cells
from workings.problems.check import Judged, Report
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
    return Reads(problem, key, among).of(row, column)


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


class Reads:
    """What the cells of one step are computed from; asked about many, it works little out twice."""

    def __init__(self, problem: Problem, key: str, among: Collection[str] | None = None) -> None:
        among = shown(problem) if among is None else among
        known = {s.key: s for s in problem.steps}
        self._problem, self._key, self._sources, between = problem, key, list[str](), {key}
        waiting = [*problem.step(key).op.sources()]
        while waiting:
            source = waiting.pop(0)
            if source in among and source != key:
                self._sources += [source] if source not in self._sources else []
            elif source in known and source not in between:
                between.add(source)
                waiting += known[source].op.sources()
        self._way = [s for s in problem.steps if s.key in between]
        self._env = {key: _plain(cells) for key, cells in problem.exact.items()}
        self._arrived: dict[tuple[str, int, int], Bools] = {}

    def of(self, row: int, column: int) -> list[Block]:
        """List what a cell, counted from 0 in the problem's convention, is computed from."""
        columns = self._problem.columns
        i, j = (column, row) if columns else (row, column)
        found = [
            (source, self._lines(source, 0, i, j), self._lines(source, 1, i, j))
            for source in self._sources
        ]
        return [
            Block(source, across, down) if columns else Block(source, down, across)
            for source, down, across in found
            if down and across
        ]

    def _lines(self, source: str, axis: int, i: int, j: int) -> list[int]:
        """Which rows (axis 0) or columns (1) of a source reach cell (i, j), vectors as rows."""
        count = self._env[source].shape[axis]
        return [k for k in range(count) if self._reached(source, axis, k)[i, j]]

    def _reached(self, source: str, axis: int, k: int) -> Bools:
        """Which cells of the step a row or a column of a source reaches."""
        place = (source, axis, k)
        if place not in self._arrived:
            marked = self._env[source].off.copy()
            marked[np.s_[:, k] if axis else np.s_[k, :]] = True
            env: Env = {**self._env, source: replace(self._env[source], off=marked)}
            for step in self._way:
                with np.errstate(all="ignore"):
                    env = {**env, step.key: step.op.compute(env)}
            self._arrived[place] = env[self._key].off
        return self._arrived[place]


def _plain(cells: Cells) -> Cells:
    """Numbers of no special kind, none of them nought: through a nought no mark would pass."""
    return Cells.exact(np.linspace(1.0, 2.0, cells.mid.size).reshape(cells.shape))
