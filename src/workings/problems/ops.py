"""The operations of steps: each computes a matrix, states its formula and writes out a cell.

Vectors are rows here. A problem with column vectors is transposed when it is read; its formulas
have the same products with the factors reversed, which is all that `column_vectors` changes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from workings.problems.intervals import Bools, Floats, IntervalMatrix, concatenate_columns
from workings.problems.notation import Notation

if TYPE_CHECKING:
    from workings.problems.kinds import Step
    from workings.problems.problem import Problem

Env: TypeAlias = Mapping[str, IntervalMatrix]  # the matrices of a problem by key
MistakeOption: TypeAlias = tuple[str, "Op", str]  # name, wrong operation, description


def get_matrix(env: Env, key: str) -> IntervalMatrix:
    """Return the matrix of a key; the key `Kᵀ` names the transpose of K."""
    return env[key[:-1]].T if key.endswith("ᵀ") else env[key]


def format_own_claim_key(key: str) -> str:
    """Return the key of the numbers claimed for a step, which a recursive operation reads."""
    return f"claimed:{key}"


def get_own_claim(env: Env, key: str) -> Floats | None:
    """Return the numbers claimed for a step, NaN where blank; None if it is not claimed."""
    claimed = env.get(format_own_claim_key(key))
    return None if claimed is None else claimed.mid


def format_symbol(n: Notation, key: str) -> str:
    """Format the symbol of a matrix: scores for `attention.scores`, h₃ for `h.3`."""
    parts = key.removesuffix("ᵀ").split(".")
    name = f"{parts[-2]}_{parts[-1]}" if parts[-1].isdigit() else parts[-1]
    if (
        name == "output" and len(parts) > 1
    ):  # the output of a part of a block is named after the part
        name = {"feed_forward": "FFN"}.get(parts[0], parts[0])
    return n.transpose(n.symbol(name)) if key.endswith("ᵀ") else n.symbol(name)


def format_call(n: Notation, function: str, inside: str) -> str:
    """Format a function call; the function `none` leaves the argument as it is."""
    return inside if function == "none" else n.apply(function, inside)


@dataclass(frozen=True)
class Terms:
    """The sum in a cell: its terms, each a product of factors, and the function of their sum."""

    products: list[tuple[float, ...]]
    finish: Callable[[float], float] = lambda total: total


class Op(ABC):
    """The operation that computes a step from earlier matrices.

    `failure` says why a vector of the step cannot be computed if its numbers are not finite;
    `allows_minus_infinity`: a result of −∞, such as ln 0, is no failure. `reads_own_claim`: cells
    depend on other cells of the same step, as claimed (`get_own_claim`). `reads_classes`: its
    sources hold class indexes, so that other numbers would be invalid.
    """

    allows_minus_infinity: ClassVar[bool] = False
    reads_own_claim: ClassVar[bool] = False
    reads_classes: ClassVar[bool] = False

    failure: ClassVar[str] = "has a number that is too large"

    @abstractmethod
    def compute(self, env: Env) -> IntervalMatrix:
        """Return the matrix of the step."""

    def close_gaps(self, matrix: IntervalMatrix, env: Env, claimed: Floats) -> IntervalMatrix:  # noqa: ARG002
        """Return the step's matrix with the possible values that are nearest to those claimed.

        It differs from `matrix` only if the ranges have gaps, such as those of a count.
        """
        return matrix

    @property
    def rounds_inside(self) -> bool:
        """True if the step has roots or powers inside, which may be rounded."""
        return type(self).compute_rounded is not Op.compute_rounded

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:  # noqa: ARG002
        """Compute the matrix; its ranges include rounding inside the step, of roots and powers."""
        return self.compute(env)

    @abstractmethod
    def formula(self, n: Notation, column_vectors: bool) -> str:
        """Format the right-hand side of the step's equation."""

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        """Format the arithmetic of cell (i, j), vectors as rows; by default only its value."""
        return n.number(float(self.compute(env).mid[i, j]))

    def terms(self, env: Env, i: int, j: int) -> Terms | None:  # noqa: ARG002
        """Return the terms of cell (i, j), vectors as rows; None if it is not a sum."""
        return None

    @abstractmethod
    def sources(self) -> tuple[str, ...]:
        """Return the keys of the matrices that it is computed from."""

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        """Yield the named mistakes of this operation that do not depend on the kind of problem."""
        yield from ()


@dataclass(frozen=True, eq=False)
class UnaryOp(Op):
    """An operation on one matrix, `x`."""

    x: str

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Copy(UnaryOp):
    """The matrix itself, for a step that the problem does not have, such as an absent mask."""

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return format_symbol(n, self.x)


@dataclass(frozen=True)
class ColumnSlice(UnaryOp):
    """Columns `start` to `stop` of a matrix: the part of one head or one gate.

    `stride` is for the mistake of taking every other column.
    """

    start: int
    stop: int
    stride: int = 1

    def compute(self, env: Env) -> IntervalMatrix:
        if self.stride == 1:
            return env[self.x].slice_columns(self.start, self.stop)
        return env[self.x].rearrange(lambda a: a[:, self.start : self.stop : self.stride])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("part", format_symbol(n, self.x))


@dataclass(frozen=True)
class RowSlice(UnaryOp):
    """One row of a matrix: the input at one time step."""

    index: int

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x].slice_row(self.index)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.symbol(f"{self.x}_{self.index + 1}")


@dataclass(frozen=True)
class Concatenation(Op):
    """Matrices side by side: the concatenated outputs of the heads.

    `interleaved` is for the mistake of taking their columns in turn.
    """

    parts: tuple[str, ...]
    interleaved: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        matrix = concatenate_columns([env[p] for p in self.parts])
        if not self.interleaved:
            return matrix
        order = np.arange(matrix.shape[1]).reshape(len(self.parts), -1).T.ravel()
        return matrix.rearrange(lambda a: a[:, order])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("concat", *(format_symbol(n, p) for p in self.parts))

    def sources(self) -> tuple[str, ...]:
        return self.parts


@dataclass(frozen=True)
class Scaling(UnaryOp):
    """A matrix divided by a number; `radicand` is set if the divisor is a square root.

    `multiplies` is for the mistake of multiplying by the number. The `scale` of a problem is this
    divisor, while `workings.attend` multiplies by its `scale`.
    """

    divisor: float
    radicand: float | None = None
    multiplies: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        divisor = IntervalMatrix.exact(self.divisor)
        return env[self.x] * divisor if self.multiplies else env[self.x] / divisor

    def _format_divisor(self, n: Notation) -> str:
        return n.number(self.divisor) if self.radicand is None else n.root(n.number(self.radicand))

    def _format_quotient(self, n: Notation, numerator: str) -> str:
        divisor = self._format_divisor(n)
        return n.product(numerator, divisor) if self.multiplies else n.fraction(numerator, divisor)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format_quotient(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        value = float(env[self.x].mid[i, j])
        return self._format_quotient(n, n.factor(value) if self.multiplies else n.number(value))


@dataclass(frozen=True, eq=False)
class Masking(UnaryOp):
    """A matrix with `fill_value` where the mask forbids attention; −∞ unless by mistake."""

    allowed: Bools
    fill_value: float = -np.inf

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x].where(self.allowed, self.fill_value)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.total([format_symbol(n, self.x), n.symbol("M")])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        value = float(env[self.x].mid[i, j])
        if self.allowed[i, j]:
            return n.number(value)
        return n.total([n.factor(value), n.factor(self.fill_value)])


@dataclass(frozen=True, eq=False)
class Normalization(UnaryOp):
    """Scores turned into weights along each row, or, by mistake, down each column."""

    failure: ClassVar[str] = "divides by zero"
    normalizer: str = "softmax"  # softmax, sigmoid, sum, exp
    # The remaining fields describe mistakes.
    transposed: bool = False
    allowed: Bools | None = None  # a mask that belongs to the step before
    post_mask: Bools | None = None  # a mask that sets weights to zero after normalizing
    post_divisor: float = 1.0  # a number that the weights are divided by

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x] if self.allowed is None else env[self.x].where(self.allowed, -np.inf)
        x = x.T if self.transposed else x
        weights = NORMALIZERS[self.normalizer](x)
        weights = weights.T if self.transposed else weights
        if self.post_mask is not None:
            weights = weights.where(self.post_mask, 0.0)
        if self.post_divisor != 1.0:
            weights = weights / IntervalMatrix.exact(self.post_divisor)
        return weights

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        if self.normalizer == "softmax":
            return env[self.x].softmax_of_rounded_powers(unit)
        return self.compute(env)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(self.normalizer, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        x = env[self.x].mid
        scores = x[:, j] if self.transposed else x[i]
        own = float(x[i, j])
        if self.normalizer == "sigmoid":
            return n.fraction(n.number(1), n.total([n.number(1), _format_exp(n, -own)]))
        if np.isneginf(scores).all():
            return n.number(0)
        if self.normalizer == "sum":
            terms = [n.factor(float(s)) for s in scores if not np.isneginf(s)]
            return n.fraction(n.number(0 if np.isneginf(own) else own), n.total(terms))
        if self.normalizer == "exp":
            return _format_exp(n, own)
        return n.fraction(_format_exp(n, own), n.total([_format_exp(n, float(s)) for s in scores]))


def _format_exp(n: Notation, exponent: float) -> str:
    return n.power(n.symbol("e"), n.number(exponent))


NORMALIZERS: dict[str, Callable[[IntervalMatrix], IntervalMatrix]] = {
    "softmax": IntervalMatrix.softmax,
    "sigmoid": IntervalMatrix.sigmoid,
    "sum": IntervalMatrix.normalize_by_sum,
    "exp": lambda x: x.apply_monotonic(np.exp),
}


_ERF = np.vectorize(math.erf, otypes=[np.float64])
_GELU_MINIMUM = -0.7517915246935645


_SILU_MINIMUM = -1.278464542761074


def _silu(x: Floats) -> Floats:
    return np.where(np.isneginf(x), 0.0, x * np.exp(-np.logaddexp(0, -x)))


def _gelu(x: Floats) -> Floats:
    normal_cdf: Floats = (1 + _ERF(x / math.sqrt(2))) / 2
    return np.where(np.isneginf(x), 0.0, x * normal_cdf)


ACTIVATIONS: dict[str, Callable[[IntervalMatrix], IntervalMatrix]] = {
    "relu": lambda x: x.apply_monotonic(lambda v: np.maximum(v, 0)),
    "tanh": lambda x: x.apply_monotonic(np.tanh),
    "sigmoid": IntervalMatrix.sigmoid,
    "gelu": lambda x: x.apply_piecewise_monotonic(_gelu, _GELU_MINIMUM),
    "silu": lambda x: x.apply_piecewise_monotonic(_silu, _SILU_MINIMUM),
    "none": lambda x: x,
}


def _activate_number(function: str, value: float) -> float:
    return float(ACTIVATIONS[function](IntervalMatrix.exact(value)).mid[0, 0])


@dataclass(frozen=True)
class Activation(UnaryOp):
    """An activation function applied to each cell."""

    function: str

    def compute(self, env: Env) -> IntervalMatrix:
        return ACTIVATIONS[self.function](env[self.x])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(self.function, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.apply(self.function, n.number(float(env[self.x].mid[i, j])))


@dataclass(frozen=True)
class Linear(Op):
    """`f(x W + … + bias)`: a function of a sum of matrix products (`Kᵀ` is the transpose of K).

    Projections, scores, weighted values, recurrent steps and gates all have this form. `products`
    are elementwise products that are added: r ∘ h in the candidate of a GRU.
    """

    pairs: tuple[tuple[str, str], ...]
    bias: str | None = None
    function: str = "none"
    products: tuple[tuple[str, str], ...] = ()

    def compute(self, env: Env) -> IntervalMatrix:
        (a, b), *rest = self.pairs
        total = get_matrix(env, a) @ get_matrix(env, b)
        for x, w in rest:
            total = total + get_matrix(env, x) @ get_matrix(env, w)
        for x, y in self.products:
            total = total + env[x] * env[y]
        if self.bias is not None:
            total = total + env[self.bias]
        return ACTIVATIONS[self.function](total)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        terms = []
        for pair in self.pairs:
            factors = [format_symbol(n, key) for key in pair]
            terms.append(n.matrix_product(*(reversed(factors) if column_vectors else factors)))
        terms += [n.product(*(format_symbol(n, key) for key in pair)) for pair in self.products]
        if self.bias is not None:
            terms.append(format_symbol(n, self.bias))
        return format_call(n, self.function, n.total(terms))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        terms = [n.product(*map(n.factor, factors)) for factors in self.terms(env, i, j).products]
        return format_call(n, self.function, n.total(terms))

    def terms(self, env: Env, i: int, j: int) -> Terms:
        products: list[tuple[float, ...]] = [
            (float(x), float(y))
            for a, b in self.pairs
            for x, y in zip(
                _broadcast_row(get_matrix(env, a), i), get_matrix(env, b).mid[:, j], strict=True
            )
        ]
        products += [tuple(float(env[key].mid[i, j]) for key in pair) for pair in self.products]
        if self.bias is not None:
            products.append((float(env[self.bias].mid[0, j]),))
        return Terms(products, lambda total: _activate_number(self.function, total))

    def sources(self) -> tuple[str, ...]:
        pairs = (*self.pairs, *self.products)
        keys = tuple(key.removesuffix("ᵀ") for pair in pairs for key in pair)
        return keys if self.bias is None else (*keys, self.bias)


def _broadcast_row(matrix: IntervalMatrix, i: int) -> Floats:
    """Return row i; a matrix with a single row is broadcast."""
    row: Floats = matrix.mid[i if matrix.shape[0] > 1 else 0]
    return row


@dataclass(frozen=True)
class SumOfProducts(Op):
    """`a ∘ f(b) + c ∘ f(d) + …`, elementwise."""

    pairs: tuple[tuple[str, str], ...]
    function: str = "none"

    def compute(self, env: Env) -> IntervalMatrix:
        total = None
        for a, b in self.pairs:
            term = env[a] * ACTIVATIONS[self.function](env[b])
            total = term if total is None else total + term
        assert total is not None
        return total

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.total(
            [
                n.elementwise(
                    format_symbol(n, a), format_call(n, self.function, format_symbol(n, b))
                )
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
                    else format_call(n, self.function, n.number(float(env[b].mid[i, j]))),
                )
                for a, b in self.pairs
            ]
        )

    def terms(self, env: Env, i: int, j: int) -> Terms:
        return Terms(
            [
                (float(env[a].mid[i, j]), _activate_number(self.function, env[b].mid[i, j]))
                for a, b in self.pairs
            ]
        )

    def sources(self) -> tuple[str, ...]:
        return tuple(key for pair in self.pairs for key in pair)


@dataclass(frozen=True)
class Sum(Op):
    """`a + b`, elementwise: a residual connection."""

    a: str
    b: str

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.a] + env[self.b]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.total([format_symbol(n, self.a), format_symbol(n, self.b)])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.total([n.factor(float(env[k].mid[i, j])) for k in (self.a, self.b)])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        return Terms([(float(env[key].mid[i, j]),) for key in (self.a, self.b)])

    def sources(self) -> tuple[str, ...]:
        return (self.a, self.b)
