"""One cell written out when its sum is long: the largest terms, and what the others come to.

A textbook's cell is a sum of three products, and `Solution.cell` writes all of them. A trained
model's is one of a hundred: the few that make the number are shown, the rest as one remainder.
"""

import math
from collections.abc import Sequence

import numpy as np

from workings.errors import UserError
from workings.problems.kinds import Step
from workings.problems.ops import Copy, Linear, Masked, Normalised, Scaled, matrix, written
from workings.problems.problem import Problem
from workings.problems.solve import Solution, axis_names, cell_name, formula_of, spelled
from workings.views.derived import Derived, Formula, Line
from workings.views.notation import Notation, Text

HIGH = 100.0  # scores beyond are shown less the largest: e to them is no number to read
REST = "+ remainder of the other"


def derive(
    problem: Problem, key: str, row: int, column: int, *, top: int = 5, decimals: int = 4
) -> Derived:
    """Derive one cell, counted from 1 in the problem's convention, with its `top` largest terms.

    >>> found = derive(Problem(X=[[1, 2, 3], [3, 1, 0]], scale="none"), "scores", 1, 1, top=2)
    >>> found.working(Text())
    'scores[1,1] = 3·3 + 2·2 + 1 = 14'
    """
    if top < 1:
        raise UserError(f"top = {top}: at least 1 term is shown")
    step = problem.step(key)
    at = Solution(problem, decimals).place(key, row, column)
    cell = _Cell(problem, step, (row, column), at, top)
    head, lines, working = cell.summed()
    return Derived(
        problem.title,
        f"{key}[{row},{column}]",
        "",
        formula_of(step, problem),
        cell.before(),
        head,
        lines,
        working,
        cell.value,
        decimals=decimals,
    )


class _Cell:
    """A cell that is being derived; inside, vectors are rows and counting starts from 0."""

    def __init__(
        self,
        problem: Problem,
        step: Step,
        shown: tuple[int, int],
        at: tuple[int, int],
        top: int,
    ) -> None:
        self.problem, self.step, self.shown, self.top = problem, step, shown, top
        self.i, self.j = at

    @property
    def value(self) -> float:
        return float(self.problem.exact[self.step.key].mid[self.i, self.j])

    def before(self) -> list[Formula]:
        """Write the same cell in the steps that lead here, as far as there are no sums in them."""
        known = {step.key: step for step in self.problem.steps}
        step, lines = self.step, list[Formula]()
        while isinstance(step.op, Scaled | Masked | Normalised | Copy) and step.op.x in known:
            step = known[step.op.x]
            lines += [self._briefly(step)] if step.shown else []
        return lines[::-1]

    def _briefly(self, step: Step) -> Formula:
        def line(n: Notation) -> str:
            if isinstance(step.op, Linear):
                value = float(self.problem.exact[step.key].mid[self.i, self.j])
                return n.equals(cell_name(n, step, *self.shown), n.number(value))
            return Solution(self.problem, n.decimals).cell(step.key, *self.shown, n)

        return line

    def summed(self) -> tuple[Sequence[str], Sequence[Line], Formula]:
        """The heads and lines of the sum, where the cell is one, and the working in one line."""
        op = self.step.op
        if isinstance(op, Linear) and len(op.pairs) == 1 and op.function == "none":
            return self._product(op)
        if isinstance(op, Normalised) and op.how == "softmax" and self._sees(op):
            return self._softmax(op)
        return (), (), self._whole

    def _sees(self, op: Normalised) -> bool:
        return bool(np.isfinite(self.problem.exact[op.x].mid[self.i]).any())

    def _whole(self, n: Notation) -> str:
        return Solution(self.problem, n.decimals).cell(self.step.key, *self.shown, n)

    def _product(self, op: Linear) -> tuple[Sequence[str], Sequence[Line], Formula]:
        """A row times a column: the products by their size."""
        env, ((left, right),) = self.problem.exact, op.pairs
        rows = matrix(env, left).mid
        a = rows[self.i if len(rows) > 1 else 0]  # a single row is the same for all
        b = matrix(env, right).mid[:, self.j]
        bias = None if op.bias is None else float(env[op.bias].mid[0, self.j])
        products = a * b
        order = np.argsort(-np.abs(products), kind="stable")
        largest, others = order[: self.top].tolist(), order[self.top :]
        rest = float(products[others].sum())
        names = self._names(left, len(a))
        lines = [Line(names[k], (a[k], b[k], products[k])) for k in largest]
        if len(others):
            lines.append(Line(f"{REST} {len(others)}", (None, None, rest)))
        if bias is not None:
            lines.append(Line(f"+ {op.bias}[{self.j + 1}]", (None, None, bias)))
        lines.append(Line("sum", (None, None, self.value)))

        def working(n: Notation) -> str:
            terms = [n.product(n.factor(float(a[k])), n.factor(float(b[k]))) for k in largest]
            terms += [n.factor(rest)] if len(others) else []
            terms += [n.factor(bias)] if bias is not None else []
            name = cell_name(n, self.step, *self.shown)
            return n.equals(name, n.total(terms), n.number(self.value))

        what = "token" if self._over_tokens(left) else "column"
        named = spelled(op, self.problem)
        assert isinstance(named, Linear)
        ((left, right),) = named.pairs
        return (
            (what, f"{_plain(left)}[{self.i + 1}]", self._second(right), "product"),
            lines,
            working,
        )

    def _second(self, key: str) -> str:
        """Name the second factor: a row of K, where K is turned over; else a column."""
        where = f"[{self.j + 1}]" if key.endswith("ᵀ") else f"[·,{self.j + 1}]"
        return _plain(key) + where

    def _over_tokens(self, left: str) -> bool:
        """Say whether the sum runs over the tokens that were looked at: weights times values."""
        return any(step.key == left and step.columns == "context" for step in self.problem.steps)

    def _names(self, left: str, count: int) -> list[str]:
        numbers = [str(k + 1) for k in range(count)]
        if not self._over_tokens(left):
            return numbers
        return _numbered(axis_names(self.problem, "context", count))

    def _softmax(self, op: Normalised) -> tuple[Sequence[str], Sequence[Line], Formula]:
        """A power of e over the sum of all: itself, and the largest of the others."""
        scores = self.problem.exact[op.x].mid[self.i]
        less = float(scores.max()) if abs(scores.max()) > HIGH else 0.0
        scores = scores - less
        powers, own = np.exp(scores), self.j
        total = float(powers.sum())
        rivals = [k for k in np.argsort(-scores, kind="stable").tolist() if k != own]
        visible = [k for k in rivals if scores[k] > -math.inf]
        shown = sorted([own, *visible[: self.top]], key=lambda k: -scores[k])
        others, hidden = visible[self.top :], len(rivals) - len(visible)
        rest = float(powers[others].sum())
        names = _numbered(axis_names(self.problem, "context", len(scores)))
        lines = [
            Line(names[k], (scores[k], powers[k], powers[k] / total), marked=k == own)
            for k in shown
        ]
        if others:
            lines.append(Line(f"{REST} {len(others)}", (None, rest, rest / total)))
        if hidden:
            lines.append(Line(f"hidden by the mask: {hidden}", (-math.inf, 0.0, 0.0)))
        lines.append(Line("sum", (None, total, 1.0)))

        def working(n: Notation) -> str:
            power = n.power(n.symbol("e"), n.number(float(scores[own])))
            return n.equals(
                cell_name(n, self.step, *self.shown),
                n.fraction(power, n.symbol("sum")),
                n.fraction(n.number(float(powers[own])), n.number(total)),
                n.number(self.value),
            )

        named = spelled(op, self.problem)
        assert isinstance(named, Normalised)
        source = _plain(named.x)
        source += f" − {Text(2).number(less)}" if less else ""
        power = f"e^({source})" if less else f"e^{source}"
        return ("token", source, power, self.step.name), lines, working


def _numbered(names: Sequence[str]) -> list[str]:
    """Put numbers before names, where these are not numbers themselves."""
    return [name if name == str(k) else f"{k} {name}" for k, name in enumerate(names, start=1)]


def _plain(key: str) -> str:
    return written(Text(), key.removesuffix("ᵀ"))
