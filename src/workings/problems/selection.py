"""Operations that choose: the largest cells of a row, sorted cells, the best token.

Ranges are honest about ties: a cell that may be among the largest has a range down to zero, and a
token that may be the best widens the range of tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from workings.languages import gettext
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Op, Terms, UnaryOp, format_symbol

if TYPE_CHECKING:
    from workings.problems.kinds import Step
    from workings.problems.problem import Problem

_NOISE = 1e-9  # of sums such as 0.5 + 0.3 + 0.1 that reach a threshold of 0.9


def count_greater(row: IntervalMatrix) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return how many cells of a row are certainly, and how many possibly, greater than each."""
    lo, hi = row.lo[0], row.hi[0]
    certainly = (lo[:, None] > hi[None, :]).sum(0)
    possibly = (hi[:, None] > lo[None, :]).sum(0) - (hi > lo)  # without the cell itself
    return certainly, possibly


def keep_cells(row: IntervalMatrix, count: tuple[int, int, int], smallest: bool) -> IntervalMatrix:
    """Keep the largest cells and set the others to 0; `count`: how many, at least and at most."""
    own, least, most = count
    source = -row if smallest else row
    certainly, possibly = count_greater(source)
    rank = (source.mid[0][:, None] > source.mid[0][None, :] + 1e-12).sum(0)
    mid = np.where(rank < own, row.mid[0], 0.0)
    lo = np.where(possibly < least, row.lo[0], np.minimum(row.lo[0], 0.0))
    hi = np.where(certainly < most, row.hi[0], 0.0)
    tainted = np.full((1, mid.size), bool(row.tainted.any()))
    return IntervalMatrix(mid[None], np.minimum(lo, mid)[None], np.maximum(hi, mid)[None], tainted)


@dataclass(frozen=True)
class TopK(UnaryOp):
    """The k largest numbers of a row, the others set to 0; tied ones are all kept."""

    k: int
    smallest: bool = False  # by mistake

    def compute(self, env: Env) -> IntervalMatrix:
        return keep_cells(env[self.x], (self.k, self.k, self.k), self.smallest)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(f"top-{self.k}", format_symbol(n, self.x))

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        for k in (self.k - 1, self.k + 1):
            if k > 0:
                yield (
                    "off-by-one",
                    replace(self, k=k),
                    gettext("kept {k} tokens, not {k_2}", k=k, k_2=self.k),
                )
        yield "smallest-kept", replace(self, smallest=True), gettext("kept the least likely tokens")


@dataclass(frozen=True)
class Sorted(UnaryOp):
    """The numbers of a row, the largest first."""

    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        mid, lo, hi = (np.sort(end)[:, ::-1] for end in (row.mid, row.lo, row.hi))
        tainted = np.full(mid.shape, bool(row.tainted.any()))
        return IntervalMatrix(mid, lo, hi, tainted)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("sort", format_symbol(n, self.x))

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "not-sorted", Copy(self.x), gettext("left the tokens in their order")


@dataclass(frozen=True)
class CumulativeSum(UnaryOp):
    """The sum of each cell of a row and those before it; each is continued from the one before."""

    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        mid, lo, hi = (np.cumsum(end, axis=1) for end in (row.mid, row.lo, row.hi))
        return IntervalMatrix(mid, lo, hi, np.logical_or.accumulate(row.tainted, axis=1))

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        exact = self.compute(env)
        slack = unit * np.arange(exact.shape[1])[None]  # each sum may be rounded
        return replace(exact, lo=exact.lo - slack, hi=exact.hi + slack)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("cumulative", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.total([n.factor(float(v)) for v in env[self.x].mid[i, : j + 1]])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        return Terms([(float(v),) for v in env[self.x].mid[i, : j + 1]])


@dataclass(frozen=True)
class TopP(UnaryOp):
    """The largest numbers of a row whose sum reaches p, the others set to 0.

    `extra` is for the mistake of keeping one token more or less.
    """

    cumulative: str
    p: float
    extra: int = 0

    def compute(self, env: Env) -> IntervalMatrix:
        sums = env[self.cumulative]
        counts = [
            max(int((end[0] < self.p - _NOISE).sum()) + 1 + self.extra, 0)
            for end in (sums.mid, sums.hi, sums.lo)
        ]
        kept = keep_cells(env[self.x], (counts[0], counts[1], counts[2]), smallest=False)
        return replace(kept, tainted=kept.tainted | bool(sums.tainted.any()))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("top-p", format_symbol(n, self.x), n.number(self.p))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.cumulative)

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        short = replace(self, extra=-1)
        yield (
            "stopped-before-threshold",
            short,
            gettext("left out the token that reaches the threshold"),
        )
        yield "off-by-one", replace(self, extra=1), gettext("kept one token after the threshold")
        limit = Threshold(self.x, 1 - self.p)
        yield (
            "threshold-for-each-token",
            limit,
            gettext("kept every token above {p:.4g}", p=1 - self.p),
        )


@dataclass(frozen=True)
class Threshold(UnaryOp):
    """The numbers of at least a limit, the others set to 0: not a sum of probabilities."""

    limit: float

    def compute(self, env: Env) -> IntervalMatrix:
        is_kept: Bools = env[self.x].mid >= self.limit - _NOISE
        return env[self.x].where(is_kept, 0.0)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("threshold", format_symbol(n, self.x), n.number(self.limit))


@dataclass(frozen=True)
class RowSum(UnaryOp):
    """The sum of a row."""

    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        return row @ IntervalMatrix.exact(np.ones((row.shape[1], 1)))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("sum", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.total([n.factor(*factors) for factors in self.terms(env, i, j).products])

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        return Terms([(float(v),) for v in env[self.x].mid[i] if v])


@dataclass(frozen=True)
class Renormalization(Op):
    """Each number of a row divided by their sum; `wrong` are mistakes with another result."""

    failure: ClassVar[str] = "divides by zero"
    x: str
    total: str
    original: str  # before numbers were set to 0

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x] / env[self.total]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.x), format_symbol(n, self.total))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        total = n.number(float(env[self.total].mid[i, 0]))
        return n.fraction(n.number(float(env[self.x].mid[i, j])), total)

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.total)

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        yield (
            "not-renormalized",
            Copy(self.x),
            gettext("did not divide by the sum of the kept ones"),
        )
        yield (
            "softmax-for-division",
            _KeptSoftmax(self.x),
            gettext("took a softmax of the probabilities"),
        )
        yield "divided-by-count", _KeptMean(self.x), gettext("divided by the number of kept tokens")
        all_kept = replace(self, x=self.original)
        yield "dropped-tokens-kept", all_kept, gettext("divided the dropped tokens, too")


@dataclass(frozen=True)
class _KeptSoftmax(UnaryOp):
    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        is_kept: Bools = row.mid > 0
        return row.where(is_kept, -np.inf).softmax()

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("softmax", format_symbol(n, self.x))


@dataclass(frozen=True)
class _KeptMean(UnaryOp):
    def compute(self, env: Env) -> IntervalMatrix:
        count = max(int((env[self.x].mid > 0).sum()), 1)
        return env[self.x] / IntervalMatrix.exact(float(count))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("mean", format_symbol(n, self.x))


def find_possible_best(values: Floats, lo: Floats, hi: Floats) -> tuple[int, int, int]:
    """Return the place of the largest number, and the first and last place that may be it."""
    possible = np.flatnonzero(hi >= lo.max() - 1e-12)
    return int(values.argmax()), int(possible.min()), int(possible.max())


@dataclass(frozen=True)
class Argmax(UnaryOp):
    """The place of the largest number of a row, from 1: the most likely token."""

    smallest: bool = False  # by mistake

    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        if self.smallest:  # of the tokens that were kept
            row = (-row).where(row.mid != 0, -np.inf)
        places = find_possible_best(row.mid[0], row.lo[0], row.hi[0])
        mid, lo, hi = (np.array([[place + 1.0]]) for place in places)
        return IntervalMatrix(mid, lo, hi, np.array([[bool(row.tainted.any())]]))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("argmax", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        return n.apply("argmax", *(n.number(float(v)) for v in env[self.x].mid[i]))

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        yield (
            "smallest-chosen",
            replace(self, smallest=True),
            gettext("chose the least likely token"),
        )
