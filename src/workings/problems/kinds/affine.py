"""What all norms share: the root of a moment, and the affine map of each column."""

from dataclasses import dataclass

import numpy as np

from workings.problems.intervals import IntervalMatrix
from workings.problems.notation import Notation
from workings.problems.ops import Env, Op, Terms, format_symbol


def take_root(matrix: IntervalMatrix) -> IntervalMatrix:
    """Return the square root of each cell; negative cells count as zero."""
    with np.errstate(invalid="ignore"):
        return matrix.apply_monotonic(lambda v: np.sqrt(np.maximum(v, 0)))


@dataclass(frozen=True)
class ElementwiseAffine(Op):
    """The elementwise affine map of a layer norm: each column times its γ plus its β."""

    x: str
    gamma: str | None
    beta: str | None

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x]
        x = x if self.gamma is None else x * env[self.gamma]
        return x if self.beta is None else x + env[self.beta]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        x = format_symbol(n, self.x)
        x = x if self.gamma is None else n.product(n.symbol("γ"), x)
        return x if self.beta is None else n.total([x, n.symbol("β")])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        term = n.factor(float(env[self.x].mid[i, j]))
        if self.gamma is not None:
            term = n.product(n.factor(float(env[self.gamma].mid[0, j])), term)
        if self.beta is None:
            return term
        return n.total([term, n.factor(float(env[self.beta].mid[0, j]))])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        own = float(env[self.x].mid[i, j])
        product = (own,) if self.gamma is None else (float(env[self.gamma].mid[0, j]), own)
        shift = [] if self.beta is None else [(float(env[self.beta].mid[0, j]),)]
        return Terms([product, *shift])

    def sources(self) -> tuple[str, ...]:
        return tuple(key for key in (self.x, self.gamma, self.beta) if key is not None)
