"""Problems on RMSNorm: each vector divided by its root mean square, times γ."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from workings.languages import gettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.affine import ElementwiseAffine, take_root
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Op, Terms, UnaryOp, format_symbol

if TYPE_CHECKING:
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class MeanSquare(UnaryOp):
    """The mean of the squares of each row."""

    # The fields describe mistakes.
    centered: bool = False  # the variance
    is_sum: bool = False
    unbiased: bool = False  # divided by d − 1

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x]
        zero = IntervalMatrix.exact([[0.0]] * x.shape[0])
        squares = x.variance(x.mean() if self.centered else zero)
        width = x.shape[1]
        factor = width if self.is_sum else width / (width - 1) if self.unbiased else 1.0
        return squares if factor == 1.0 else squares * IntervalMatrix.exact(factor)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("mean", n.power(format_symbol(n, self.x), n.number(2)))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        row = env[self.x].mid[i]
        squares = [n.power(n.factor(float(v)), n.number(2)) for v in row]
        return n.fraction(n.total(squares), n.number(len(row)))

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        row = env[self.x].mid[i].tolist()
        return Terms([(v, v) for v in row], lambda total: total / len(row))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        centered = replace(self, centered=True)
        yield (
            "mean-subtracted",
            centered,
            gettext("subtracted the mean first, as a layer norm does"),
        )
        total = replace(self, is_sum=True)
        yield "sum-for-mean", total, gettext("did not divide the sum of the squares")
        if problem.exact_matrices[self.x].shape[1] > 1:
            unbiased = replace(self, unbiased=True)
            yield "variance-over-n-minus-1", unbiased, gettext("divided by d − 1, not by d")


@dataclass(frozen=True)
class RootMeanSquare(UnaryOp):
    """`√(mean square + ε)`."""

    eps: float

    def compute(self, env: Env) -> IntervalMatrix:
        return take_root(env[self.x] + IntervalMatrix.exact(self.eps))

    def _format(self, n: Notation, x: str) -> str:
        return n.root(n.total([x, n.number(self.eps)]) if self.eps else x)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, n.number(float(env[self.x].mid[i, j])))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "root-forgotten", Copy(self.x), gettext("did not take the root")
        if self.eps:
            yield (
                "eps-forgotten",
                replace(self, eps=0.0),
                gettext("left out ε = {eps:.4g}", eps=self.eps),
            )


@dataclass(frozen=True)
class RootQuotient(Op):
    """Each row divided by its root mean square."""

    x: str
    rms: str

    failure: ClassVar[str] = "divides by zero (is X zero there? give an eps)"

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x] / env[self.rms]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.x), format_symbol(n, self.rms))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        own, root = float(env[self.x].mid[i, j]), float(env[self.rms].mid[i, 0])
        return n.fraction(n.number(own), n.number(root))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.rms)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        square = replace(self, rms=self.rms.replace("rms", "mean_square"))
        yield "root-forgotten", square, gettext("divided by the mean square, not by its root")
        yield "not-normalized", Copy(self.x), gettext("did not divide by the root mean square")


def build_rms_norm_steps(eps: float, x: str, gamma: str | None, prefix: str = "") -> list[Step]:
    """Return the steps of an RMSNorm of `x`."""
    square, rms, normalised = (f"{prefix}{s}" for s in ("mean_square", "rms", "normalised"))
    return [
        Step(square, MeanSquare(x)),
        Step(rms, RootMeanSquare(square, eps)),
        Step(normalised, RootQuotient(x, rms)),
        Step(
            f"{prefix}output",
            ElementwiseAffine(normalised, gamma, None) if gamma else Copy(normalised),
            is_shown=gamma is not None,
        ),
    ]


def _build_rms_norm_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    return build_rms_norm_steps(setting.eps, "X", "gamma" if "gamma" in sizes else None)


RMS_NORM = Kind(
    name="rms_norm",
    matrices={"X": ("n", "d"), "gamma": ("1", "d")},
    required=("X",),
    settings=("eps",),
    build=_build_rms_norm_steps,
)
