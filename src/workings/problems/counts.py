"""Operations on whole numbers: sums of products such as d·d·kernel + d, and counts of windows.

Numbers that are counted are never negative, so the ends of a range lead to the ends of the result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from workings.languages import gettext
from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.notation import Notation
from workings.problems.ops import Env, MistakeOption, Op, Terms, UnaryOp, format_symbol

if TYPE_CHECKING:
    from workings.problems.kinds import Step
    from workings.problems.problem import Problem

MEBIBYTE = 2**20
MEGABYTE = 10**6


@dataclass(frozen=True)
class Factor:
    """A number in a formula: the single cell of a matrix, or a constant, which may have a name."""

    name: str = ""
    key: str | None = None
    value: float = 1.0

    def get(self, env: Env) -> IntervalMatrix:
        """Return the number with its range."""
        return IntervalMatrix.exact(self.value) if self.key is None else env[self.key]

    def format(self, n: Notation) -> str:
        """Format the factor in a formula: its name, or its value if it has none."""
        if self.key is not None and not self.name:
            return format_symbol(n, self.key)
        return n.symbol(self.name) if self.name else n.number(self.value)


Product: TypeAlias = tuple[Factor, ...]
Products: TypeAlias = tuple[Product, ...]
Alternative: TypeAlias = tuple[str, Products, str]  # name, wrong products, description


@dataclass(frozen=True)
class Count(Op):
    """A sum of products of whole numbers, over a divisor such as the bytes of a mebibyte.

    `alternatives` are the products that a mistake leads to.
    """

    products: Products
    divisor: int = 1
    alternatives: tuple[Alternative, ...] = ()

    def compute(self, env: Env) -> IntervalMatrix:
        factors = [[factor.get(env) for factor in product] for product in self.products]

        def add_up(end: str) -> Floats:
            values = [prod(float(getattr(f, end)[0, 0]) for f in fs) for fs in factors]
            return np.array([[sum(values) / self.divisor]])

        mid, lo, hi = add_up("mid"), add_up("lo"), add_up("hi")
        tainted = np.array([[any(bool(f.tainted[0, 0]) for fs in factors for f in fs)]])
        return IntervalMatrix(mid, np.minimum(lo, hi), np.maximum(lo, hi), tainted)

    def sources(self) -> tuple[str, ...]:
        keys = [factor.key for product in self.products for factor in product]
        return tuple(dict.fromkeys(key for key in keys if key is not None))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._divide(n, n.total([_format_product(n, p) for p in self.products]))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        products = self.terms(env, i, j).products
        return self._divide(n, n.total([n.product(*map(n.factor, fs)) for fs in products]))

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        products = [tuple(float(f.get(env).mid[0, 0]) for f in fs) for fs in self.products]
        return Terms(products, lambda total: total / self.divisor)

    def _divide(self, n: Notation, total: str) -> str:
        if self.divisor == 1:
            return total
        exponent = self.divisor.bit_length() - 1
        is_power = self.divisor == 1 << exponent
        divisor = n.power(n.number(2), n.number(exponent)) if is_power else n.number(self.divisor)
        return n.fraction(total, divisor)

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        for name, products, description in self.alternatives:
            yield name, replace(self, products=products, alternatives=()), description
        if self.divisor == MEBIBYTE:
            decimal = replace(self, divisor=MEGABYTE, alternatives=())
            yield "thousand-for-1024", decimal, gettext("divided by 10⁶, not by 2²⁰")
        elif self.divisor == 1 and len(self.products) > 1:
            for k, left_out in enumerate(self.products):
                others = self.products[:k] + self.products[k + 1 :]
                key = left_out[0].key if len(left_out) == 1 else None
                if key is not None:
                    wrong = replace(self, products=others, alternatives=())
                    yield "term-left-out", wrong, gettext("left out {key}", key=key)


def _format_product(n: Notation, product: Product) -> str:
    """Format a product; a factor that is repeated becomes a power."""
    parts = []
    for text, group in groupby(factor.format(n) for factor in product):
        count = len(list(group))
        parts.append(text if count == 1 else n.power(text, n.number(count)))
    return n.product(*parts)


@dataclass(frozen=True)
class WindowCount(UnaryOp):
    """The number of windows: `⌊(length + 2 padding − kernel) / stride⌋ + 1`."""

    kernel: int
    stride: int
    padding: int
    # The remaining fields describe mistakes.
    sides: int = 2  # how often the padding is counted
    rounds_up: bool = False
    plus: int = 1

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x]
        mid, lo, hi = (self._count(end) for end in (x.mid, x.lo, x.hi))
        return IntervalMatrix(mid, lo, hi, x.tainted)

    def _count(self, length: Floats) -> Floats:
        quotient = (length + self.sides * self.padding - self.kernel) / self.stride
        steps = np.ceil(quotient - 1e-9) if self.rounds_up else np.floor(quotient + 1e-9)
        count: Floats = np.maximum(steps + self.plus, 0)
        return count

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return self._format(n, n.number(float(env[self.x].mid[i, j])))

    def _format(self, n: Notation, length: str) -> str:
        padding = [n.product(n.number(self.sides), n.number(self.padding))] if self.padding else []
        top = n.row(n.total([length, *padding]), "−", n.number(self.kernel))
        floor = n.apply("floor", n.fraction(top, n.number(self.stride)))
        return n.total([floor, n.number(self.plus)])

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        if self.padding:
            forgotten = replace(self, padding=0)
            yield "padding-forgotten", forgotten, gettext("left out the padding")
            once = replace(self, sides=1)
            yield "padding-counted-once", once, gettext("counted the padding of one side only")
        if self.stride > 1:
            yield (
                "stride-forgotten",
                replace(self, stride=1),
                gettext("did not divide by {stride}", stride=self.stride),
            )
            up = replace(self, rounds_up=True)
            yield "rounded-up", up, gettext("rounded up: the last window does not fit")
        yield "off-by-one", replace(self, plus=0), gettext("did not add 1")
        yield "off-by-one", replace(self, plus=2), gettext("counted one window too many")
        for plus in (0, 1):
            without = replace(self, kernel=0, plus=plus)
            yield "kernel-not-subtracted", without, gettext("left out the kernel")


@dataclass(frozen=True)
class Ratio(Op):
    """One number divided by another; `inverted` is for the mistake of exchanging them."""

    top: str
    bottom: str
    inverted: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        top, bottom = env[self.top], env[self.bottom]
        return bottom / top if self.inverted else top / bottom

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.top), format_symbol(n, self.bottom))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        top, bottom = (n.number(float(env[key].mid[i, j])) for key in (self.top, self.bottom))
        return n.fraction(top, bottom)

    def sources(self) -> tuple[str, ...]:
        return (self.top, self.bottom)

    def list_mistakes(self, problem: "Problem", step: "Step") -> Iterator[MistakeOption]:  # noqa: ARG002
        inverted = replace(self, inverted=True)
        yield (
            "ratio-inverted",
            inverted,
            gettext("divided {bottom} by {top}", bottom=self.bottom, top=self.top),
        )
