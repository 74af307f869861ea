"""Tables whose cells are computed from their neighbors: edit distance, common subsequence.

A claimed table is judged cell by cell: each cell from the claimed cells above, to the left and
diagonally before it. So a slip is found where it happened, and what follows from it follows.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from workings.languages import gettext
from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.notation import Notation
from workings.problems.ops import Env, MistakeOption, Op, UnaryOp, format_symbol, get_own_claim

if TYPE_CHECKING:
    from workings.problems.kinds import Step
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class RecursiveTable(Op):
    """A table over two texts: a row for each word of the first, a column for each of the second."""

    reads_own_claim: ClassVar[bool] = True
    key: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @abstractmethod
    def combine(self, above: float, left: float, diagonal: float, is_match: bool) -> float:
        """Return a cell inside the table from its neighbors."""

    @abstractmethod
    def border(self, number: int, is_row: bool) -> float:
        """Return a cell of the first row or column."""

    def compute(self, env: Env) -> IntervalMatrix:
        claimed = get_own_claim(env, self.key)
        exact = self._fill(np.full((len(self.rows) + 1, len(self.columns) + 1), np.nan))
        if claimed is None:
            return IntervalMatrix.exact(exact)
        known = np.where(np.isnan(claimed), exact, claimed)
        carried, is_off = self._fill(known), known != exact
        tainted = np.zeros_like(is_off)
        tainted[1:, 1:] = is_off[:-1, 1:] | is_off[1:, :-1] | is_off[:-1, :-1]
        return IntervalMatrix(carried, carried, carried, tainted)

    def _fill(self, known: Floats) -> Floats:
        """Compute every cell from the known neighbors, or from computed ones where they are NaN."""
        table, height, width = np.zeros(known.shape), len(self.rows), len(self.columns)
        table[:, 0] = [self.border(i, False) for i in range(height + 1)]
        table[0, :] = [self.border(j, True) for j in range(width + 1)]
        is_known = ~np.isnan(known)
        for i in range(1, height + 1):
            for j in range(1, width + 1):
                neighbors = ((i - 1, j), (i, j - 1), (i - 1, j - 1))
                above, left, diagonal = (
                    float(known[cell] if is_known[cell] else table[cell]) for cell in neighbors
                )
                is_match = self.rows[i - 1] == self.columns[j - 1]
                table[i, j] = self.combine(above, left, diagonal, is_match)
        return table

    def get_neighbors(self, env: Env, i: int, j: int) -> tuple[float, float, float]:
        """Return the numbers above, to the left and diagonally before a cell, as claimed."""
        claimed, table = get_own_claim(env, self.key), self.compute(env).mid
        known = table if claimed is None else np.where(np.isnan(claimed), table, claimed)
        return float(known[i - 1, j]), float(known[i, j - 1]), float(known[i - 1, j - 1])

    def sources(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class EditTable(RecursiveTable):
    """The edit distance of every start of one text from every start of another."""

    substitution: float
    # The remaining fields describe mistakes.
    match: float = 0.0
    insertion: float = 1.0
    deletion: float = 1.0
    has_border: bool = True
    takes_largest: bool = False
    only_diagonal: bool = False

    def combine(self, above: float, left: float, diagonal: float, is_match: bool) -> float:
        along = diagonal + (self.match if is_match else self.substitution)
        if self.only_diagonal:
            return along
        select = max if self.takes_largest else min
        return select(above + self.deletion, left + self.insertion, along)

    def border(self, number: int, is_row: bool) -> float:
        cost = self.insertion if is_row else self.deletion
        return number * cost if self.has_border else 0.0

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        one = n.number(1)
        cost = n.apply("cost", n.number(0), n.number(self.substitution))
        moves = (("above", one), ("left", one), ("diagonal", cost))
        return n.apply("min", *(n.total([n.word(word), added]) for word, added in moves))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        if i == 0 or j == 0:
            return n.number(self.border(max(i, j), i == 0))
        above, left, diagonal = self.get_neighbors(env, i, j)
        is_match = self.rows[i - 1] == self.columns[j - 1]
        costs = (self.deletion, self.insertion, self.match if is_match else self.substitution)
        sums = zip((above, left, diagonal), costs, strict=True)
        return n.apply("min", *(n.total([n.number(a), n.number(b)]) for a, b in sums))

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        other = 3.0 - self.substitution if self.substitution in (1.0, 2.0) else 1.0
        words = {1.0: "one", 2.0: "two"}
        yield (
            f"substitution-costs-{words[other]}",
            replace(self, substitution=other),
            gettext(
                "counted {other:g} for a substitution, not {substitution:g}",
                other=other,
                substitution=self.substitution,
            ),
        )
        costly = replace(self, match=self.substitution)
        yield "match-costs-one", costly, gettext("counted a substitution for equal words")
        yield (
            "border-of-zeros",
            replace(self, has_border=False),
            gettext("started with zeros at the border"),
        )
        free = replace(self, insertion=0.0)
        yield "insertions-not-counted", free, gettext("counted nothing for an insertion")
        free = replace(self, deletion=0.0)
        yield "deletions-not-counted", free, gettext("counted nothing for a deletion")
        largest = replace(self, takes_largest=True)
        yield (
            "maximum-for-minimum",
            largest,
            gettext("took the largest of the three, not the smallest"),
        )
        diagonal = replace(self, only_diagonal=True)
        yield (
            "only-diagonal",
            diagonal,
            gettext("compared word by word, without insertions and deletions"),
        )


@dataclass(frozen=True)
class SubsequenceTable(RecursiveTable):
    """The length of the longest common subsequence of every two starts of two texts."""

    # The fields describe mistakes.
    contiguous: bool = False  # the longest common run of words instead
    match_from: str = "diagonal"  # the neighbor that a match adds one to
    adds_without_match: bool = False
    uses_above_only: bool = False

    def combine(self, above: float, left: float, diagonal: float, is_match: bool) -> float:
        if is_match:
            return (diagonal if self.match_from == "diagonal" else max(above, left)) + 1
        if self.contiguous:
            return 0.0
        if self.adds_without_match:
            return max(above, left, diagonal + 1)
        return above if self.uses_above_only else max(above, left)

    def border(self, number: int, is_row: bool) -> float:  # noqa: ARG002
        return 0.0

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        match = n.total([n.word("diagonal"), n.number(1)])
        return n.apply(
            "max", n.word("above"), n.word("left"), n.row(match, n.word(gettext(" if equal")))
        )

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        if i == 0 or j == 0:
            return n.number(0)
        above, left, diagonal = self.get_neighbors(env, i, j)
        if self.rows[i - 1] == self.columns[j - 1]:
            return n.total([n.number(diagonal), n.number(1)])
        return n.apply("max", n.number(above), n.number(left))

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        run = replace(self, contiguous=True)
        yield "contiguous-for-common", run, gettext("started again at 0 where the words differ")
        beside = replace(self, match_from="beside")
        yield (
            "match-not-from-diagonal",
            beside,
            gettext("added 1 to the larger neighbor, not diagonally"),
        )
        always = replace(self, adds_without_match=True)
        yield "difference-counted", always, gettext("added 1 where the words differ, too")
        above = replace(self, uses_above_only=True)
        yield "left-neighbor-forgotten", above, gettext("took the number above without comparing")


@dataclass(frozen=True)
class Corner(UnaryOp):
    """The last cell of a table; `row` and `column` count from its end."""

    row: int = 1
    column: int = 1

    def compute(self, env: Env) -> IntervalMatrix:
        rows, columns = env[self.x].shape
        i, j = rows - self.row, columns - self.column
        if min(i, j) < 0:
            raise ValueError("the table is too small")
        return env[self.x].rearrange(lambda a: a[i : i + 1, j : j + 1])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("last", format_symbol(n, self.x))

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        for row, column, description in (
            (2, 1, gettext("took the cell above the last one")),
            (1, 2, gettext("took the cell left of the last one")),
            (2, 2, gettext("took the cell diagonally before the last one")),
        ):
            yield "wrong-cell", replace(self, row=row, column=column), description
