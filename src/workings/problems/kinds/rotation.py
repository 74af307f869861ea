"""Rotary position embeddings: queries and keys rotated by angles that grow with the position."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds.base import Step
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Terms, UnaryOp, format_symbol

if TYPE_CHECKING:
    from workings.problems.problem import Problem

Columns: TypeAlias = NDArray[np.int_]
_BASES = (100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)


@dataclass(frozen=True)
class Rotation(UnaryOp):
    """Pairs of columns rotated by pos / base^(2i/d); a pair is adjacent, or one of each half."""

    base: float
    layout: str  # adjacent: (0, 1), (2, 3), …; halves: (0, d/2), (1, d/2 + 1), …
    # The remaining fields describe mistakes.
    first_position: int = 0
    is_reversed: bool = False  # rotated by −θ
    in_degrees: bool = False
    exponent_width: int = 2  # 2i/d; 1: i/d

    def _angles(self, count: int, width: int) -> Floats:
        """Return the angle of each position and pair: `[count, width / 2]`."""
        if width % 2:
            raise UserError(
                f"{self.x.rpartition('.')[2] or self.x} has {width} columns:"
                " rope rotates pairs of them, so they must be even"
            )
        exponents = self.exponent_width * np.arange(width // 2) / width
        positions = np.arange(count)[:, None] + self.first_position
        angles: Floats = positions / self.base ** exponents[None, :]
        angles = np.deg2rad(angles) if self.in_degrees else angles
        return -angles if self.is_reversed else angles

    def _pair_columns(self, width: int) -> tuple[Columns, Columns]:
        """Return the first and the second columns of the pairs."""
        columns = np.arange(width)
        if self.layout == "adjacent":
            return columns[::2], columns[1::2]
        return columns[: width // 2], columns[width // 2 :]

    def _coefficients(self, shape: tuple[int, int]) -> tuple[Floats, Floats, Columns]:
        """Return what each cell and its partner are multiplied by, and the partner's column."""
        angles, (first, second) = self._angles(*shape), self._pair_columns(shape[1])
        own, other = np.zeros(shape), np.zeros(shape)
        partner = np.zeros(shape[1], dtype=np.int_)
        own[:, first] = own[:, second] = np.cos(angles)
        other[:, first], other[:, second] = -np.sin(angles), np.sin(angles)
        partner[first], partner[second] = second, first
        return own, other, partner

    def compute(self, env: Env) -> IntervalMatrix:
        x = env[self.x]
        own, other, partner = self._coefficients(x.shape)
        swapped = x.rearrange(lambda a: a[:, partner])
        return x * IntervalMatrix.exact(own) + swapped * IntervalMatrix.exact(other)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        x = env[self.x]
        own, other, partner = self._coefficients(x.shape)
        swapped = x.rearrange(lambda a: a[:, partner])
        factors = (IntervalMatrix.exact(c).round_to(unit) for c in (own, other))
        return x * next(factors) + swapped * next(factors)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("rotate", format_symbol(n, self.x), n.symbol("pos"))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        x = env[self.x].mid
        first, second = self._pair_columns(x.shape[1])
        pair = int(np.argwhere((first == j) | (second == j))[0, 0])
        angle = n.number(float(self._angles(*x.shape)[i, pair]))
        a, b = (n.factor(float(x[i, column[pair]])) for column in (first, second))
        cos, sin = n.apply("cos", angle), n.apply("sin", angle)
        if j == first[pair]:
            return n.row(n.product(a, cos), "−", n.product(b, sin))
        return n.total([n.product(a, sin), n.product(b, cos)])

    def terms(self, env: Env, i: int, j: int) -> Terms:
        x = env[self.x].mid
        own, other, partner = self._coefficients((x.shape[0], x.shape[1]))
        terms = [(x[i, j], own[i, j]), (x[i, partner[j]], other[i, j])]
        return Terms([tuple(map(float, pair)) for pair in terms])

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "rotation-forgotten", Copy(self.x), gettext("did not rotate")
        from_1 = replace(self, first_position=1)
        yield "positions-from-1", from_1, gettext("counted the positions from 1")
        yield (
            "rotated-backwards",
            replace(self, is_reversed=True),
            gettext("rotated by −θ, not by θ"),
        )
        other = "halves" if self.layout == "adjacent" else "adjacent"
        yield (
            "wrong-pairs",
            replace(self, layout=other),
            gettext("paired the columns as {other}", other=other),
        )
        for base in _BASES:
            if base != self.base:
                description = gettext(
                    "used the base {base:,.0f}, not {base_2:,.4g}", base=base, base_2=self.base
                )
                yield "wrong-base", replace(self, base=base), description
        degrees = replace(self, in_degrees=True)
        yield "degrees-for-radians", degrees, gettext("took the angles as degrees, not as radians")
        per_pair = replace(self, exponent_width=1)
        yield "exponent-by-column", per_pair, gettext("used i/d as the exponent, not 2i/d")
