"""Problems on batch norm: moments of a batch, its normalization, and the running moments.

A row of X is an example, a column is a feature. The batch is normalized with the variance ÷ n; the
running variance is updated with the variance ÷ (n − 1), as in PyTorch. In evaluation, the running
moments normalize and do not change.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.affine import ElementwiseAffine, take_root
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layers import Standardization
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Op, Terms, UnaryOp, format_symbol
from workings.problems.options import make_choice, make_number

if TYPE_CHECKING:
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class BatchMean(UnaryOp):
    """The mean of each column; `over_features` is for the mistake of taking it along each row."""

    over_features: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        if self.over_features:
            return env[self.x].mean().T
        return env[self.x].T.mean().T

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("mean", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        column = env[self.x].mid[:, j].tolist()
        return n.fraction(n.total([n.factor(v) for v in column]), n.number(len(column)))

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        column = env[self.x].mid[:, j].tolist()
        return Terms([(value,) for value in column], lambda total: total / len(column))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        across = replace(self, over_features=True)
        yield "normalized-over-features", across, gettext("averaged each example, not each feature")
        yield (
            "not-divided",
            _Multiple(self, problem.sizes["n"]),
            gettext("added up and did not divide"),
        )


@dataclass(frozen=True)
class BatchVariance(Op):
    """The variance of each column, divided by n less `degrees`."""

    x: str
    mean: str
    degrees: int = 0
    # The remaining field describes a mistake.
    rooted: bool = False  # the standard deviation instead

    def compute(self, env: Env) -> IntervalMatrix:
        count = env[self.x].shape[0]
        variance = env[self.x].T.variance(env[self.mean].T).T
        if self.degrees:
            variance = variance * IntervalMatrix.exact(count / (count - self.degrees))
        return take_root(variance) if self.rooted else variance

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        difference = n.row("(", format_symbol(n, self.x), "−", format_symbol(n, self.mean), ")")
        return n.apply("mean", n.power(difference, n.number(2)))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        mean, column = n.factor(float(env[self.mean].mid[0, j])), env[self.x].mid[:, j]
        squares = [
            n.power(n.row("(", n.number(float(v)), "−", mean, ")"), n.number(2)) for v in column
        ]
        return n.fraction(n.total(squares), n.number(len(column) - self.degrees))

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        distances = (env[self.x].mid[:, j] - env[self.mean].mid[0, j]).tolist()
        divisor = len(distances) - self.degrees
        return Terms([(d, d) for d in distances], lambda total: total / divisor)

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.mean)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        count = problem.sizes["n"]
        if count > 1:
            description = gettext(
                "divided by {count}, not by {count_2}", count=count - 1, count_2=count
            )
            yield "variance-over-n-minus-1", replace(self, degrees=1), description
        deviation = replace(self, rooted=True)
        yield "deviation-for-variance", deviation, gettext("took the root: the standard deviation")
        yield "not-divided", _Multiple(self, count), gettext("added up and did not divide")


@dataclass(frozen=True)
class _Multiple(Op):
    """The result of another operation times a number, for a mean that is not divided."""

    op: Op
    factor: float

    def compute(self, env: Env) -> IntervalMatrix:
        return self.op.compute(env) * IntervalMatrix.exact(self.factor)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        return n.product(n.number(self.factor), self.op.formula(n, column_vectors))

    def sources(self) -> tuple[str, ...]:
        return self.op.sources()


@dataclass(frozen=True)
class RunningAverage(Op):
    """`(1 − momentum) · old + momentum · scale · new`."""

    old: str
    new: str
    momentum: float
    scale: float = 1.0  # n / (n − 1) turns the variance ÷ n into the one ÷ (n − 1)

    def compute(self, env: Env) -> IntervalMatrix:
        kept, added = (
            IntervalMatrix.exact(share) for share in (1 - self.momentum, self.momentum * self.scale)
        )
        return env[self.old] * kept + env[self.new] * added

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        scale = [] if self.scale == 1 else [self._format_scale(n)]
        kept = n.product(n.number(1 - self.momentum), format_symbol(n, self.old))
        added = n.product(n.number(self.momentum), *scale, format_symbol(n, self.new))
        return n.total([kept, added])

    def _format_scale(self, n: Notation) -> str:
        count = round(self.scale / (self.scale - 1))
        return n.fraction(n.number(count), n.number(count - 1))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        scale = [] if self.scale == 1 else [self._format_scale(n)]
        old, new = (n.factor(float(env[key].mid[i, j])) for key in (self.old, self.new))
        kept = n.product(n.number(1 - self.momentum), old)
        return n.total([kept, n.product(n.number(self.momentum), *scale, new)])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        old, new = (float(env[key].mid[i, j]) for key in (self.old, self.new))
        return Terms([(1 - self.momentum, old), (self.momentum * self.scale, new)])

    def sources(self) -> tuple[str, ...]:
        return (self.old, self.new)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        swapped = replace(self, momentum=1 - self.momentum)
        yield (
            "momentum-swapped",
            swapped,
            gettext("kept {momentum:.4g} of the old value", momentum=self.momentum),
        )
        yield (
            "running-moment-replaced",
            Copy(self.new),
            gettext("took the moment of this batch alone"),
        )
        yield (
            "running-moment-not-updated",
            Copy(self.old),
            gettext("left the running moment as it was"),
        )
        if self.scale != 1:
            biased = replace(self, scale=1.0)
            yield (
                "running-variance-with-n",
                biased,
                gettext("used the variance divided by n, not by n − 1"),
            )


@dataclass(frozen=True)
class BatchStandardization(Standardization):
    """The difference from each column's mean divided by its standard deviation.

    `eps_outside` is for the mistake of adding ε to the standard deviation.
    """

    eps_outside: bool = False

    def _compute_deviation(self, env: Env) -> IntervalMatrix:
        if self.eps_outside:
            return take_root(env[self.variance]) + IntervalMatrix.exact(self.eps)
        return super()._compute_deviation(env)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        if self.eps:
            outside = replace(self, eps_outside=True)
            yield "eps-outside-root", outside, gettext("added ε after the root")
        batch, running = ("mean", "variance"), ("running_mean", "running_variance")
        if self.mean == "running_mean":
            moments = BatchMoments(self.x, self.eps)
            yield (
                "batch-moments-in-evaluation",
                moments,
                gettext("normalized with the moments of the batch"),
            )
        elif set(running) <= set(problem.given):
            wrong = replace(self, mean=running[0], variance=running[1])
            description = gettext("normalized with the running moments")
            yield "running-moments-in-training", wrong, description
        else:
            assert self.mean == batch[0]


@dataclass(frozen=True)
class BatchMoments(UnaryOp):
    """A batch normalized with its own moments, by mistake in evaluation."""

    eps: float

    def compute(self, env: Env) -> IntervalMatrix:
        columns = env[self.x].T
        mean = columns.mean()
        deviation = take_root(columns.variance(mean) + IntervalMatrix.exact(self.eps))
        return ((columns - mean) / deviation).T

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("normalize", format_symbol(n, self.x))


def _build_batch_norm_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    gamma, beta = (name if name in sizes else None for name in ("gamma", "beta"))
    running = [name for name in ("running_mean", "running_variance") if name in sizes]
    is_evaluation = setting.options["mode"] == "evaluation"
    if is_evaluation and len(running) < 2:
        missing = "running_variance" if running == ["running_mean"] else "running_mean"
        raise UserError(f"given.{missing} is missing: evaluation needs it")
    affine = Step(
        "output",
        ElementwiseAffine("normalised", gamma, beta) if gamma or beta else Copy("normalised"),
        is_shown=bool(gamma or beta),
    )
    if is_evaluation:
        normalize = BatchStandardization("X", "running_mean", "running_variance", setting.eps)
        return [Step("normalised", normalize), affine]
    if sizes["n"] < 2:
        raise UserError(f"{sizes.reasons['n']}: a batch needs at least two examples")
    return [
        Step("mean", BatchMean("X"), row_axis=""),
        Step("variance", BatchVariance("X", "mean"), row_axis=""),
        Step("normalised", BatchStandardization("X", "mean", "variance", setting.eps)),
        affine,
        *_build_running_steps(sizes, setting),
    ]


def _build_running_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    """Return the steps that update the running moments that are given."""
    momentum, count = setting.options["momentum"], sizes["n"]
    scales = {"mean": 1.0, "variance": count / (count - 1)}
    return [
        Step(
            f"new_{name}",
            RunningAverage(f"running_{name}", name, momentum, scale),
            row_axis="",
        )
        for name, scale in scales.items()
        if f"running_{name}" in sizes
    ]


def _check_running_variance(given: "Env") -> None:
    if "running_variance" in given and (given["running_variance"].mid < 0).any():
        raise UserError("given.running_variance: a variance must not be negative")


BATCH_NORM = Kind(
    name="batch_norm",
    matrices={
        "X": ("n", "d"),
        "gamma": ("1", "d"),
        "beta": ("1", "d"),
        "running_mean": ("1", "d"),
        "running_variance": ("1", "d"),
    },
    required=("X",),
    settings=("eps",),
    build=_build_batch_norm_steps,
    options={
        "mode": make_choice("training", "evaluation"),
        "momentum": make_number(0.1, 0.0, 1.0),
    },
    check_givens=_check_running_variance,
)
