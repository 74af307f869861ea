"""The softmax written out: exponentials, their sums, and the quotients of the two.

A solution has these steps only if it claims one of them or the problem asks for them with the
option `exponentials`; otherwise the weights are computed from the scores in one step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, IntervalMatrix
from workings.problems.kinds.base import Setting, Sizes, Step
from workings.problems.notation import Notation
from workings.problems.ops import (
    Copy,
    Env,
    Masking,
    MistakeOption,
    Normalization,
    Op,
    Terms,
    UnaryOp,
    format_symbol,
)
from workings.problems.options import Alternative, make_convention

if TYPE_CHECKING:
    from workings.problems.problem import Problem

# "plain": e^score. "shifted": e^(score − the row's maximum). None: whatever the claims show.
EXPONENTIALS_OPTION = make_convention(
    "plain",
    "shifted",
    alternatives=(
        Alternative(
            "shifted", gettext_noop("the maximum is subtracted first"), ("exponentials", "sums")
        ),
    ),
)


def find_mask(problem: "Problem", scores: str) -> Bools | None:
    """Return the mask that a step of scores applies; None if it applies none."""
    op = next((step.op for step in problem.steps if step.key == scores), None)
    return op.allowed if isinstance(op, Masking) else None


@dataclass(frozen=True, eq=False)
class Exponentials(UnaryOp):
    """`e^x` of each cell; `is_shifted`: the maximum of the row is subtracted first."""

    failure: ClassVar[str] = (
        'has a number that is too large (declare exponentials = "shifted" to subtract the maximum'
        " first)"
    )
    is_shifted: bool = False
    # The remaining fields describe mistakes.
    base: float = np.e
    masked_value: float = -np.inf  # the exponent of a masked cell
    allowed: Bools | None = None  # a mask that belongs to a step before

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x] if self.allowed is None else env[self.x].where(self.allowed, -np.inf)
        x = x.subtract_row_maximum() if self.is_shifted else x
        if self.masked_value != -np.inf:
            x = x.where(~np.isneginf(x.mid), self.masked_value)
        scale = np.log(self.base)
        return x.apply_monotonic(lambda v: np.exp(scale * v))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        x = format_symbol(n, self.x)
        return n.power(n.symbol("e"), n.row(x, "−", n.apply("max", x)) if self.is_shifted else x)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        row = env[self.x].mid[i]
        own, largest = float(row[j]), float(row.max())
        is_shown_shifted = self.is_shifted and np.isfinite(own)
        exponent = n.row(n.number(own), "−", n.factor(largest)) if is_shown_shifted else None
        return n.power(n.symbol("e"), exponent or n.number(own))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield (
            "exponential-forgotten",
            Copy(self.x),
            gettext("took the scores themselves, not e^score"),
        )
        for base, name in ((2.0, "2"), (10.0, "10")):
            yield (
                "wrong-base",
                replace(self, base=base),
                gettext("used {name}^score, not e^score", name=name),
            )
        if self.is_shifted:
            plain = replace(self, is_shifted=False)
            yield (
                "maximum-not-subtracted",
                plain,
                gettext("did not subtract the maximum of the row"),
            )
        else:
            shifted = replace(self, is_shifted=True)
            yield "maximum-subtracted", shifted, gettext("subtracted the maximum of the row first")
        if "masked" not in self.x:
            return
        mask = find_mask(problem, self.x)
        unscaled = replace(self, x=self.x.replace("masked", "scores"), allowed=mask)
        yield "not-scaled", unscaled, gettext("took the scores before they were scaled")
        if mask is not None:
            unmasked = replace(self, x=self.x.replace("masked", "scaled"))
            yield "mask-forgotten", unmasked, gettext("did not apply the mask")
            zeros = replace(self, masked_value=0.0)
            yield "masked-with-zeros", zeros, gettext("took e⁰ = 1 where the mask forbids, not 0")


@dataclass(frozen=True)
class RowSums(UnaryOp):
    """The sum of each row of the exponentials of `scores`."""

    scores: str
    # The remaining fields describe mistakes.
    transposed: bool = False  # the sum of each column
    is_mean: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x].T if self.transposed else env[self.x]
        x = x.where(~np.isneginf(x.mid), 0.0)
        return x.mean() if self.is_mean else x @ IntervalMatrix.exact(np.ones((x.shape[1], 1)))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("sum", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        return n.total([n.factor(float(v)) for v in env[self.x].mid[i]])

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        return Terms([(v,) for v in env[self.x].mid[i].tolist()])

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        across = replace(self, transposed=True)
        yield "wrong-softmax-axis", across, gettext("added over the queries, not over the keys")
        scores = replace(self, x=self.scores)
        yield "exponential-forgotten", scores, gettext("added the scores, not their exponentials")
        mean = replace(self, is_mean=True)
        yield "mean-for-sum", mean, gettext("took the mean of the exponentials, not their sum")


@dataclass(frozen=True, eq=False)
class ExponentialShare(Normalization):
    """The weights as exponentials divided by their sums; `x` has the scores."""

    exponentials: str = ""
    sums: str = ""
    # The remaining fields describe mistakes.
    divides_by_total: bool = False  # by one sum over all rows
    leaves_out_own: bool = False  # by the sum of the other exponentials

    def compute(self, env: Env) -> IntervalMatrix:
        exponentials, sums = env[self.exponentials], env[self.sums]
        if self.divides_by_total:
            ones = IntervalMatrix.exact(np.ones((1, sums.shape[0])))
            return exponentials / (ones @ sums)
        if self.leaves_out_own:
            return exponentials / (sums - exponentials)
        # A query that may attend to nothing has a sum of zero, and weights of zero.
        is_empty = (sums.lo == 0) & (sums.hi == 0)
        return (exponentials / sums.where(~is_empty, 1.0)).where(~is_empty, 0.0)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:  # noqa: ARG002
        return self.compute(env)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.exponentials), format_symbol(n, self.sums))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        own, total = env[self.exponentials].mid[i, j], env[self.sums].mid[i, 0]
        return n.fraction(n.number(float(own)), n.number(float(total))) if total else n.number(0)

    def sources(self) -> tuple[str, ...]:
        return (self.exponentials, self.sums)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        undivided = Copy(self.exponentials)
        yield (
            "exp-not-normalised",
            undivided,
            gettext("did not divide the exponentials by their sum"),
        )
        by_total = replace(self, divides_by_total=True)
        yield (
            "divided-by-total",
            by_total,
            gettext("divided by the sum over all rows, not over the own row"),
        )
        others = replace(self, leaves_out_own=True)
        yield "own-term-left-out", others, gettext("divided by the sum of the other exponentials")


def build_weight_steps(
    sizes: Sizes, setting: Setting, weights: Step, scores: str
) -> dict[str, Step]:
    """Return the step of the weights, by its name, after the exponentials and sums it may need.

    `weights` is the step with its axes and a normalization of `scores` as its operation.
    """
    prefix, _, name = weights.name.rpartition(".")
    prefix = f"{prefix}." if prefix else ""
    end = "" if weights.part_index is None else f".{weights.part_index}"
    style = setting.options.get("exponentials")
    is_claimed = not sizes.claimed.isdisjoint((f"{prefix}exponentials", f"{prefix}sums"))
    is_softmax = isinstance(weights.op, Normalization) and weights.op.normalizer == "softmax"
    if not is_softmax or not (style or is_claimed):
        return {name: weights}
    exponentials, sums = f"{prefix}exponentials{end}", f"{prefix}sums{end}"
    op: Op = Exponentials(scores, is_shifted=style == "shifted")
    quotient = ExponentialShare(scores, exponentials=exponentials, sums=sums)
    return {
        "exponentials": replace(weights, name=f"{prefix}exponentials", op=op),
        "sums": replace(
            weights, name=f"{prefix}sums", op=RowSums(exponentials, scores), column_axis=""
        ),
        name: replace(weights, op=quotient),
    }
