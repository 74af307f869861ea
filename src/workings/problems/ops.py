"""The operations that steps are made of: each computes, states its formula and writes out one cell.

Inside, a vector is a row. A problem in columns is turned over when it is read; its formulas are the
same products the other way round, which is all that `columns` changes here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from workings.problems.cells import Bools, Cells, Floats, beside
from workings.views.notation import Notation

Env: TypeAlias = Mapping[str, Cells]


def matrix(env: Env, key: str) -> Cells:
    """Look a matrix up; `Kᵀ` is K's transpose."""
    return env[key[:-1]].T if key.endswith("ᵀ") else env[key]


def written(n: Notation, key: str) -> str:
    """Write a matrix's name: `attention.scores` as scores, `h.3` as h₃."""
    parts = key.removesuffix("ᵀ").split(".")
    name = f"{parts[-2]}_{parts[-1]}" if parts[-1].isdigit() else parts[-1]
    if name == "output" and len(parts) > 1:  # a block's parts are known by what they put out
        name = {"feed_forward": "FFN"}.get(parts[0], parts[0])
    return n.transposed(n.symbol(name)) if key.endswith("ᵀ") else n.symbol(name)


def outside(n: Notation, function: str, inside: str) -> str:
    """Write a function round its argument."""
    return inside if function == "none" else n.apply(function, inside)


class Op(ABC):
    """How a step comes from the matrices before it."""

    @abstractmethod
    def compute(self, env: Env) -> Cells:
        """Work the step out."""

    @abstractmethod
    def formula(self, n: Notation, columns: bool) -> str:
        """State what is computed."""

    @abstractmethod
    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        """Write out cell (i, j), rows convention, with its numbers."""

    @abstractmethod
    def sources(self) -> tuple[str, ...]:
        """Name the matrices it is computed from."""


@dataclass(frozen=True)
class Copy(Op):
    """The matrix itself: a step that the problem does not have equals the one before it."""

    x: str

    def compute(self, env: Env) -> Cells:
        return env[self.x]

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return written(n, self.x)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.number(float(env[self.x].mid[i, j]))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Part(Op):
    """Some columns of a matrix: what one head sees, or one gate."""

    x: str
    start: int
    stop: int

    def compute(self, env: Env) -> Cells:
        return env[self.x].columns(self.start, self.stop)

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.apply("part", written(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.number(float(self.compute(env).mid[i, j]))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Row(Op):
    """One row of a matrix: the input at one time."""

    x: str
    index: int

    def compute(self, env: Env) -> Cells:
        return env[self.x].row(self.index)

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.symbol(f"{self.x}_{self.index + 1}")

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.number(float(self.compute(env).mid[i, j]))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Beside(Op):
    """Matrices side by side: the heads' results put together."""

    parts: tuple[str, ...]

    def compute(self, env: Env) -> Cells:
        return beside([env[p] for p in self.parts])

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.apply("concat", *(written(n, p) for p in self.parts))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.number(float(self.compute(env).mid[i, j]))

    def sources(self) -> tuple[str, ...]:
        return self.parts


@dataclass(frozen=True)
class Scaled(Op):
    """A matrix divided (by mistake, multiplied) by a number; `root`: what it is the root of."""

    x: str
    by: float
    root: float | None = None
    multiplied: bool = False

    def compute(self, env: Env) -> Cells:
        by = Cells.exact(self.by)
        return env[self.x] * by if self.multiplied else env[self.x] / by

    def _by(self, n: Notation) -> str:
        return n.number(self.by) if self.root is None else n.root(n.number(self.root))

    def _with(self, n: Notation, top: str) -> str:
        return n.product(top, self._by(n)) if self.multiplied else n.fraction(top, self._by(n))

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return self._with(n, written(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._with(n, n.factor(float(env[self.x].mid[i, j])))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True, eq=False)
class Masked(Op):
    """A matrix with a number (−∞, if it is done right) where the mask forbids to look."""

    x: str
    allowed: Bools
    otherwise: float = -np.inf

    def compute(self, env: Env) -> Cells:
        return env[self.x].where(self.allowed, self.otherwise)

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.total([written(n, self.x), n.symbol("M")])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        number = n.factor(float(env[self.x].mid[i, j]))
        return number if self.allowed[i, j] else n.total([number, n.factor(self.otherwise)])

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True, eq=False)
class Normalised(Op):
    """Scores made weights, along each row (or, by mistake, down each column)."""

    x: str
    how: str = "softmax"  # softmax, sigmoid, sum, exp
    # The rest is what mistakes are made of.
    transposed: bool = False
    allowed: Bools | None = None  # a mask, applied only now
    times: Bools | None = None  # weights multiplied by a 0/1 matrix afterwards
    over: float = 1.0  # weights divided by this afterwards

    def compute(self, env: Env) -> Cells:
        x = env[self.x] if self.allowed is None else env[self.x].where(self.allowed, -np.inf)
        x = x.T if self.transposed else x
        weights = NORMALISE[self.how](x)
        weights = weights.T if self.transposed else weights
        if self.times is not None:
            weights = weights.where(self.times, 0.0)
        return weights if self.over == 1.0 else weights / Cells.exact(self.over)

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.apply(self.how, written(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        x = env[self.x].mid
        rivals = x[:, j] if self.transposed else x[i]
        own = float(x[i, j])
        if self.how == "sigmoid":
            return n.fraction(n.number(1), n.total([n.number(1), _e(n, -own)]))
        if np.isneginf(rivals).all():
            return n.number(0)
        if self.how == "sum":
            shown = [n.factor(float(r)) for r in rivals if not np.isneginf(r)]
            return n.fraction(n.number(0 if np.isneginf(own) else own), n.total(shown))
        if self.how == "exp":
            return _e(n, own)
        return n.fraction(_e(n, own), n.total([_e(n, float(r)) for r in rivals]))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


def _e(n: Notation, exponent: float) -> str:
    return n.power(n.symbol("e"), n.number(exponent))


NORMALISE: dict[str, Callable[[Cells], Cells]] = {
    "softmax": Cells.softmax,
    "sigmoid": Cells.sigmoid,
    "sum": Cells.over_sum,
    "exp": lambda x: x.rising(np.exp),
}


_ERF = np.vectorize(math.erf, otypes=[np.float64])
_GELU_TURNS = -0.7517915246935645


def _gelu(x: Floats) -> Floats:
    share: Floats = (1 + _ERF(x / math.sqrt(2))) / 2
    return np.where(np.isneginf(x), 0.0, x * share)


ACTIVATE: dict[str, Callable[[Cells], Cells]] = {
    "relu": lambda x: x.rising(lambda v: np.maximum(v, 0)),
    "tanh": lambda x: x.rising(np.tanh),
    "sigmoid": Cells.sigmoid,
    "gelu": lambda x: x.turning(_gelu, _GELU_TURNS),
    "none": lambda x: x,
}


@dataclass(frozen=True)
class Activated(Op):
    """A function of each cell."""

    x: str
    function: str

    def compute(self, env: Env) -> Cells:
        return ACTIVATE[self.function](env[self.x])

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.apply(self.function, written(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.apply(self.function, n.number(float(env[self.x].mid[i, j])))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Linear(Op):
    """`f(x W + … + bias)`: products of matrices (`Kᵀ` names K's transpose), their sum, a function.

    A projection, the scores, the mixing of values, a recurrent step and a gate all have this form.
    """

    pairs: tuple[tuple[str, str], ...]
    bias: str | None = None
    function: str = "none"

    def compute(self, env: Env) -> Cells:
        (a, b), *rest = self.pairs
        total = matrix(env, a) @ matrix(env, b)
        for x, w in rest:
            total = total + matrix(env, x) @ matrix(env, w)
        if self.bias is not None:
            total = total + env[self.bias]
        return ACTIVATE[self.function](total)

    def formula(self, n: Notation, columns: bool) -> str:
        terms = []
        for pair in self.pairs:
            factors = [written(n, key) for key in pair]
            terms.append(n.beside(*(reversed(factors) if columns else factors)))
        if self.bias is not None:
            terms.append(written(n, self.bias))
        return outside(n, self.function, n.total(terms))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        terms = [
            n.product(n.factor(float(x)), n.factor(float(y)))
            for a, b in self.pairs
            for x, y in zip(_row(matrix(env, a), i), matrix(env, b).mid[:, j], strict=True)
        ]
        if self.bias is not None:
            terms.append(n.factor(float(env[self.bias].mid[0, j])))
        return outside(n, self.function, n.total(terms))

    def sources(self) -> tuple[str, ...]:
        keys = tuple(key.removesuffix("ᵀ") for pair in self.pairs for key in pair)
        return keys if self.bias is None else (*keys, self.bias)


def _row(cells: Cells, i: int) -> Floats:
    """Take a row; a matrix of one row is the same for all."""
    row: Floats = cells.mid[i if cells.shape[0] > 1 else 0]
    return row


@dataclass(frozen=True)
class SumOfProducts(Op):
    """`a ∘ b + c ∘ d …`, cell by cell, the last factor of each perhaps through a function."""

    pairs: tuple[tuple[str, str], ...]
    function: str = "none"

    def compute(self, env: Env) -> Cells:
        total = None
        for a, b in self.pairs:
            term = env[a] * ACTIVATE[self.function](env[b])
            total = term if total is None else total + term
        assert total is not None
        return total

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.total(
            [
                n.product(written(n, a), outside(n, self.function, written(n, b)))
                for a, b in self.pairs
            ]
        )

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.total(
            [
                n.product(
                    n.factor(float(env[a].mid[i, j])),
                    n.factor(float(env[b].mid[i, j]))
                    if self.function == "none"
                    else outside(n, self.function, n.number(float(env[b].mid[i, j]))),
                )
                for a, b in self.pairs
            ]
        )

    def sources(self) -> tuple[str, ...]:
        return tuple(key for pair in self.pairs for key in pair)


@dataclass(frozen=True)
class Sum(Op):
    """`a + b`, cell by cell: a residual path."""

    a: str
    b: str

    def compute(self, env: Env) -> Cells:
        return env[self.a] + env[self.b]

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.total([written(n, self.a), written(n, self.b)])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.total([n.factor(float(env[k].mid[i, j])) for k in (self.a, self.b)])

    def sources(self) -> tuple[str, ...]:
        return (self.a, self.b)
