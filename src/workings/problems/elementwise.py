"""Operations on cells and their sums: what losses, gradients and optimizers are made of."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from workings.problems.intervals import IntervalMatrix
from workings.problems.notation import Notation
from workings.problems.ops import ACTIVATIONS, Env, Op, Terms, UnaryOp, format_symbol, get_matrix

Factor: TypeAlias = tuple[str, str]  # the key of a matrix and a function of its cells
Term: TypeAlias = tuple[float, tuple[Factor, ...]]  # a coefficient and the factors
Join: TypeAlias = Callable[..., str]  # formats a product of its arguments


@dataclass(frozen=True)
class CellFunction:
    """A function of the cells of a matrix and how it is written.

    `write(n, x, join)` formats it for a formatted cell or symbol; `join` formats a product.
    """

    apply: Callable[[IntervalMatrix], IntervalMatrix]
    write: Callable[[Notation, str, Join], str]


def _format_complement(n: Notation, x: str) -> str:
    return n.row("(", n.number(1), "−", x, ")")


# The slopes are functions of the activation, not of its argument: tanh' = 1 − tanh².
CELL_FUNCTIONS: dict[str, CellFunction] = {
    "none": CellFunction(lambda x: x, lambda n, x, join: x),  # noqa: ARG005
    "square": CellFunction(
        lambda x: x.apply_piecewise_monotonic(np.square, 0.0),
        lambda n, x, join: n.power(x, n.number(2)),  # noqa: ARG005
    ),
    "root": CellFunction(
        lambda x: x.apply_monotonic(lambda v: np.sqrt(np.maximum(v, 0))),
        lambda n, x, join: n.root(x),  # noqa: ARG005
    ),
    "tanh": CellFunction(
        ACTIVATIONS["tanh"],
        lambda n, x, join: n.apply("tanh", x),  # noqa: ARG005
    ),
    "complement": CellFunction(
        lambda x: IntervalMatrix.exact(1.0) - x,
        lambda n, x, join: _format_complement(n, x),  # noqa: ARG005
    ),
    "slope of none": CellFunction(
        lambda x: IntervalMatrix.exact(np.ones(x.shape)),
        lambda n, x, join: n.number(1),  # noqa: ARG005
    ),
    "slope of tanh": CellFunction(
        lambda x: x.apply_piecewise_monotonic(lambda v: 1 - v * v, 0.0),
        lambda n, x, join: _format_complement(n, n.power(x, n.number(2))),  # noqa: ARG005
    ),
    "slope of sigmoid": CellFunction(
        lambda x: x.apply_piecewise_monotonic(lambda v: v * (1 - v), 0.5),
        lambda n, x, join: join(x, _format_complement(n, x)),
    ),
    "slope of relu": CellFunction(
        lambda x: x.apply_monotonic(lambda v: np.where(v > 0, 1.0, 0.0)),
        lambda n, x, join: n.apply("relu'", x),  # noqa: ARG005
    ),
}


def get_cell(matrix: IntervalMatrix, i: int, j: int) -> float:
    """Return a cell; a matrix with a single row or column is broadcast."""
    rows, columns = matrix.shape
    return float(matrix.mid[i if rows > 1 else 0, j if columns > 1 else 0])


def apply_function(function: str, value: float) -> float:
    """Return a cell function of a number."""
    return float(CELL_FUNCTIONS[function].apply(IntervalMatrix.exact(value)).mid[0, 0])


def multiply(env: Env, factors: tuple[Factor, ...]) -> IntervalMatrix:
    """Return the elementwise product of functions of matrices; 1 without any."""
    product = None
    for key, function in factors:
        matrix = CELL_FUNCTIONS[function].apply(get_matrix(env, key))
        product = matrix if product is None else product * matrix
    return IntervalMatrix.exact(1.0) if product is None else product


def _format_product(n: Notation, factors: tuple[Factor, ...]) -> str:
    symbols = [
        CELL_FUNCTIONS[function].write(n, format_symbol(n, key), n.elementwise)
        for key, function in factors
    ]
    return symbols[0] if len(symbols) == 1 else n.elementwise(*symbols)


def _format_cell_product(n: Notation, env: Env, factors: tuple[Factor, ...], i: int, j: int) -> str:
    numbers = [
        CELL_FUNCTIONS[function].write(n, n.factor(get_cell(get_matrix(env, key), i, j)), n.product)
        for key, function in factors
    ]
    return numbers[0] if len(numbers) == 1 else n.product(*numbers)


def _get_products(env: Env, factors: tuple[Factor, ...], i: int, j: int) -> tuple[float, ...]:
    """Return the factors of a cell as numbers."""
    return tuple(apply_function(f, get_cell(get_matrix(env, key), i, j)) for key, f in factors)


def _join_signed(n: Notation, terms: list[tuple[float, str]]) -> str:
    """Format a sum of terms that are subtracted if their sign is negative."""
    parts: list[str] = []
    for sign, text in terms:
        if parts:
            parts += ["−" if sign < 0 else "+", text]
        else:
            parts.append(n.minus(text) if sign < 0 else text)
    return n.row(*parts)


@dataclass(frozen=True)
class ElementwiseSum(Op):
    """`(a x ∘ f(y) + b z + …) / divisor`: a sum of products of cells, with coefficients."""

    products: tuple[Term, ...]
    divisor: float = 1.0

    def compute(self, env: Env) -> IntervalMatrix:
        total = None
        for coefficient, factors in self.products:
            term = multiply(env, factors)
            if coefficient == -1:
                term = -term
            elif coefficient != 1:
                term = term * IntervalMatrix.exact(coefficient)
            total = term if total is None else total + term
        assert total is not None
        return total if self.divisor == 1 else total / IntervalMatrix.exact(self.divisor)

    def _format(self, n: Notation, write: Callable[[tuple[Factor, ...]], str]) -> str:
        terms = []
        for coefficient, factors in self.products:
            size = abs(coefficient)
            if not factors:
                text = n.number(size)
            else:
                text = write(factors) if size == 1 else n.product(n.number(size), write(factors))
            terms.append((coefficient, text))
        total = _join_signed(n, terms)
        return total if self.divisor == 1 else n.fraction(total, n.number(self.divisor))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, lambda factors: _format_product(n, factors))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, lambda factors: _format_cell_product(n, env, factors, i, j))

    def terms(self, env: Env, i: int, j: int) -> Terms:
        products = []
        for coefficient, factors in self.products:
            numbers = _get_products(env, factors, i, j)
            if numbers and abs(coefficient) == 1:
                products.append((coefficient * numbers[0], *numbers[1:]))
            else:
                products.append((coefficient, *numbers))
        return Terms(products, lambda total: total / self.divisor)

    def sources(self) -> tuple[str, ...]:
        keys = (key.removesuffix("ᵀ") for _, factors in self.products for key, _ in factors)
        return tuple(dict.fromkeys(keys))


def make_product(*factors: str | Factor) -> ElementwiseSum:
    """Return the elementwise product of matrices, or of functions of them."""
    return ElementwiseSum(((1.0, make_factors(*factors)),))


def make_difference(a: str, b: str) -> ElementwiseSum:
    """Return `a − b`."""
    return ElementwiseSum(((1.0, make_factors(a)), (-1.0, make_factors(b))))


def make_factors(*factors: str | Factor) -> tuple[Factor, ...]:
    """Return factors; a key alone stands for the matrix itself."""
    return tuple((f, "none") if isinstance(f, str) else f for f in factors)


@dataclass(frozen=True)
class AxisSum(Op):
    """The elementwise product of matrices, summed over the vectors or within each vector.

    `over_vectors`: down each column, vectors as rows, which leaves one row (the gradient of a
    bias). Otherwise along each row, which leaves one column. `is_transposed` is for the mistake of
    summing along the other axis.
    """

    factors: tuple[Factor, ...]
    over_vectors: bool = True
    divisor: float = 1.0
    is_transposed: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        product = multiply(env, self.factors)
        # With vectors as rows, a sum within each vector is the product with a column of ones.
        rows = product.T if self.over_vectors != self.is_transposed else product
        total = rows @ IntervalMatrix.exact(np.full((rows.shape[1], 1), 1.0))
        total = total.T if self.over_vectors else total
        return total if self.divisor == 1 else total / IntervalMatrix.exact(self.divisor)

    def formula(self, n: Notation, column_vectors: bool) -> str:
        function = "colsum" if self.over_vectors != column_vectors else "rowsum"
        total = n.apply(function, _format_product(n, self.factors))
        return total if self.divisor == 1 else n.fraction(total, n.number(self.divisor))

    def _list_cells(self, env: Env, i: int, j: int) -> list[tuple[int, int]]:
        """Return the cells that are added up for cell (i, j) of the sum."""
        rows, columns = multiply(env, self.factors).shape
        if self.over_vectors:
            return [(row, j) for row in range(rows)]
        return [(i, column) for column in range(columns)]

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        terms = [
            _format_cell_product(n, env, self.factors, *cell)
            for cell in self._list_cells(env, i, j)
        ]
        total = n.total(terms)
        return total if self.divisor == 1 else n.fraction(total, n.number(self.divisor))

    def terms(self, env: Env, i: int, j: int) -> Terms:
        cells = self._list_cells(env, i, j)
        products = [_get_products(env, self.factors, *cell) for cell in cells]
        return Terms(products, lambda total: total / self.divisor)

    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for key, _ in self.factors))


@dataclass(frozen=True)
class Exponential(UnaryOp):
    """`base^(x / divisor)` of each cell; a base other than e is a mistake."""

    divisor: float = 1.0
    base: float = math.e

    def compute(self, env: Env) -> IntervalMatrix:
        exponent = env[self.x] * IntervalMatrix.exact(math.log(self.base) / self.divisor)
        return exponent.apply_monotonic(np.exp)

    def _format(self, n: Notation, x: str) -> str:
        base = n.symbol("e") if self.base == math.e else n.number(self.base)
        return n.power(base, x if self.divisor == 1 else n.fraction(x, n.number(self.divisor)))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, n.number(float(env[self.x].mid[i, j])))
