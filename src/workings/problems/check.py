"""Checking a worked solution: a verdict for every claimed cell, and what went wrong first."""

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from workings.problems.diagnosis import Cause, WrongStep, find_causes
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.notation import Formula, Notation, format_decimal
from workings.problems.problem import Claim, Problem
from workings.problems.solution import (
    GIVEN_DECIMALS,
    Solution,
    describe_part,
    format_step_title,
    get_given_axes,
    make_panel,
    make_step_formula,
)
from workings.problems.verdicts import WORST_FIRST, ClaimedMatrix, Verdicts
from workings.problems.worked_problem import (
    Cell,
    MistakeSummary,
    Panel,
    WorkedProblem,
    WorkedResult,
)

_MAX_ROUTES = 32  # combinations of reprints


@dataclass(frozen=True)
class WrongCell:
    """The first wrong cell, counted from 0 in the problem's own convention."""

    key: str
    step: str
    head: int | None
    time: int | None
    reprint: int
    cell: tuple[int, int]
    claimed: str
    expected: float
    carried_value: float | None  # what its inputs, themselves off, lead to
    causes: list[Cause]

    def to_dict(self) -> dict[str, Any]:
        """Give it as the contract has it."""
        data: dict[str, Any] = {"step": self.step, "head": self.head}
        if self.time is not None:
            data["t"] = self.time
        if self.reprint:
            data["again"] = self.reprint
        data |= {
            "cell": list(self.cell),
            "claimed": self.claimed,
            "expected": _to_json_number(self.expected),
        }
        if self.carried_value is not None:
            data["carried"] = _to_json_number(self.carried_value)
        data["causes"] = [
            {"name": c.name, "reproduces": c.reproduced_share, "says": c.description}
            for c in self.causes
        ]
        return data


@dataclass(frozen=True)
class CheckedStep:
    """A claimed step with its verdicts, vectors as rows."""

    step: Step
    claim: Claim
    claimed_matrix: ClaimedMatrix
    carried_matrix: IntervalMatrix
    verdicts: Verdicts

    @property
    def verdict(self) -> str:
        """The worst of its cells'."""
        return next(v for v in WORST_FIRST if (self.verdicts == v).any())

    def copyable_matrix(self, exact: IntervalMatrix) -> IntervalMatrix:
        """The numbers that somebody may have copied into another step.

        What follows from a wrong number was not there to be copied before it: in its place stands,
        marked as `off`, what should have been.
        """
        follows = self.verdicts == "follows"
        return replace(
            IntervalMatrix.exact(np.where(follows, exact.mid, self.claimed_matrix.values)),
            tainted=follows,
        )


def check_problem(problem: Problem) -> "Report":
    """Judge every claimed cell of a problem."""
    return Report(problem, *_check_claims(problem))


def _check_claims(problem: Problem) -> tuple[list[CheckedStep], dict[str, IntervalMatrix]]:
    """Judge each claim by the routes that may have led to it; the kindest verdict counts.

    A route takes one print of every step. There is only one, unless something is printed again.
    """
    walks = [_follow_route(problem, route) for route in _list_routes(problem.claims)]
    first, env = walks[0]
    if len(walks) == 1:
        return list(first.values()), env
    judged = []
    for step in problem.steps:
        for claim in problem.claims:
            if claim.key == step.key:
                routes = [
                    _check_claim(problem, step, claim, walk[step.key].carried_matrix)
                    for walk, _ in walks
                ]
                judged.append(_select_best_verdicts(routes))
    return judged, env


def _list_routes(claims: list[Claim]) -> list[dict[str, Claim]]:
    """List which print of each step may have been used: every combination, if they are few."""
    prints: dict[str, list[Claim]] = {}
    for claim in claims:
        prints.setdefault(claim.key, []).append(claim)
    if math.prod(len(p) for p in prints.values()) > _MAX_ROUTES:
        most = max(len(p) for p in prints.values())
        return [{key: p[min(k, len(p) - 1)] for key, p in prints.items()} for k in range(most)]
    return [dict(zip(prints, route, strict=True)) for route in product(*prints.values())]


def _follow_route(
    problem: Problem, route: dict[str, Claim]
) -> tuple[dict[str, CheckedStep], dict[str, IntervalMatrix]]:
    """Work through the steps from the claimed numbers; give every matrix as claimed, too."""
    env, judged = dict(problem.given), {}
    for step in problem.steps:
        carried = env[step.key] = step.op.compute(env)
        if step.key in route:
            one = judged[step.key] = _check_claim(problem, step, route[step.key], carried)
            exact = problem.exact_matrices[step.key]
            env[step.key] = one.claimed_matrix.to_intervals(exact, carried, one.verdicts)
    return judged, env


def _check_claim(
    problem: Problem, step: Step, claim: Claim, carried_matrix: IntervalMatrix
) -> CheckedStep:
    written = ClaimedMatrix.from_numbers(claim.numbers)
    return CheckedStep(
        step,
        claim,
        written,
        carried_matrix,
        written.assign_verdicts(problem.exact_matrices[step.key], carried_matrix),
    )


def _select_best_verdicts(routes: list[CheckedStep]) -> CheckedStep:
    """Take the best verdict for each cell; all else from the route that has the most of them."""
    ranks = np.array([[[WORST_FIRST.index(v) for v in row] for row in r.verdicts] for r in routes])
    verdicts = np.array(WORST_FIRST)[ranks.max(0)]
    most = int(ranks.sum((1, 2)).argmax())
    return replace(routes[most], verdicts=verdicts)


class Report(WorkedResult):
    """What is right and what is wrong in a worked solution."""

    def __init__(
        self, problem: Problem, steps: list[CheckedStep], env: dict[str, IntervalMatrix]
    ) -> None:
        self.problem, self.steps, self._env = problem, steps, env
        cells = Counter(str(v) for one in steps for v in one.verdicts.flat)
        self.counts = {v: cells[v] for v in ("right", "rounded", "follows", "wrong", "blank")}

    @cached_property
    def wrong_cells(self) -> list[WrongCell]:
        """The first wrong cell of every step that has one, in order, with its causes."""
        wrong = [one for one in self.steps if one.verdict == "wrong"]
        return [self.first, *map(self._make_wrong_cell, wrong[1:])] if self.first else []

    @cached_property
    def first(self) -> WrongCell | None:
        """The first wrong cell of all; None where nothing is wrong."""
        wrong = (one for one in self.steps if one.verdict == "wrong")
        return next(map(self._make_wrong_cell, wrong), None)

    def __repr__(self) -> str:
        return f"<Report: {self.summarize()}>"

    @property
    def verdict(self) -> str:
        """`wrong` where any cell is wrong, else `right`."""
        return "wrong" if self.counts["wrong"] else "right"

    def __getitem__(self, key: str) -> list[list[str]]:
        """The verdicts of a step's cells, in the problem's own convention."""
        for one in self.steps:
            if one.step.key == key:
                return self._orient_verdicts(one.verdicts)
        self.problem.get_step(key)
        raise KeyError(f"{key} was not claimed")

    def _orient_verdicts(self, verdicts: Verdicts) -> list[list[str]]:
        turned = verdicts.T if self.problem.column_vectors else verdicts
        return [[str(verdict) for verdict in row] for row in turned]

    def _make_wrong_cell(self, checked_step: CheckedStep) -> WrongCell:
        wrong = self.problem.orient(checked_step.verdicts == "wrong")
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        i, j = (column, row) if self.problem.column_vectors else (row, column)
        number = checked_step.claim.numbers[i][j]
        assert number is not None
        place = describe_part(checked_step.step, self.problem)
        return WrongCell(
            key=checked_step.step.key,
            step=checked_step.step.name,
            head=place["head"],
            time=place.get("t"),
            reprint=checked_step.claim.reprint,
            cell=(row, column),
            claimed=number.text,
            expected=float(self.problem.exact_matrices[checked_step.step.key].mid[i, j]),
            carried_value=float(checked_step.carried_matrix.mid[i, j])
            if checked_step.carried_matrix.tainted[i, j]
            else None,
            causes=find_causes(self._make_wrong_step(checked_step, (i, j))),
        )

    def _make_wrong_step(self, checked_step: CheckedStep, first_cell: tuple[int, int]) -> WrongStep:
        """Gather what was claimed around the first wrong cell."""
        at = {step.key: k for k, step in enumerate(self.problem.steps)}
        nearest = sorted(
            self.steps, key=lambda other: abs(at[other.step.key] - at[checked_step.step.key])
        )
        sheet = {
            other.step.key: other.copyable_matrix(self.problem.exact_matrices[other.step.key])
            for other in nearest
            if other.step.key != checked_step.step.key
        }
        number = checked_step.claim.numbers[first_cell[0]][first_cell[1]]
        return WrongStep(
            problem=self.problem,
            step=checked_step.step,
            first_cell=first_cell,
            first_text="?" if number is None else _format_claimed(number.text),
            claimed_matrix=checked_step.claimed_matrix,
            verdicts=checked_step.verdicts,
            carried_matrix=checked_step.carried_matrix,
            env={**self._env, checked_step.step.key: checked_step.carried_matrix},
            other_claims=sheet,
        )

    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return the right working of one cell, counted from 1, for any notation."""
        return Solution(self.problem).cell_formula(key, row, column)

    def to_worked_problem(self, *, notes: bool = True) -> WorkedProblem:  # noqa: ARG002 - a report is its notes
        """Lay the report out to look at."""
        problem, first = self.problem, self.first
        givens = [
            make_panel(problem, name, None, cells, *get_given_axes(problem, name), GIVEN_DECIMALS)
            for name, cells in problem.given.items()
            if name in problem.kind.matrices
        ]
        counted = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items() if n)
        return WorkedProblem(
            problem.title,
            givens,
            [self._make_panel(one) for one in self.steps],
            verdict=self.verdict,
            summary=counted or "nothing is claimed",
            mistake=None if first is None else self._make_mistake_summary(first),
        )

    def _make_panel(self, checked_step: CheckedStep) -> Panel:
        """A claimed step: the numbers as written, their verdicts, and what they should be."""
        laid = make_panel(
            self.problem,
            format_step_title(checked_step.step, self.problem)
            + (", again" if checked_step.claim.reprint else ""),
            make_step_formula(checked_step.step, self.problem),
            self.problem.exact_matrices[checked_step.step.key],
            checked_step.step.row_axis,
            checked_step.step.column_axis,
            6,
        )
        verdicts = self._orient_verdicts(checked_step.verdicts)
        texts = np.array(
            [["?" if n is None else n.text for n in row] for row in checked_step.claim.numbers]
        )
        carried = self.problem.orient(checked_step.carried_matrix.mid).tolist()
        blank = checked_step.claimed_matrix.is_blank
        values = np.where(
            self.problem.orient(blank),
            None,
            self.problem.orient(checked_step.claimed_matrix.values),
        )
        written = self.problem.orient(texts).tolist()
        cells = [
            [
                Cell(
                    text,
                    claimed,
                    verdict,
                    _format_note(verdict, exact.text, format_decimal(value, 6)),
                )
                for text, claimed, exact, verdict, value in zip(*rows, strict=True)
            ]
            for rows in zip(written, values, laid.cells, verdicts, carried, strict=True)
        ]
        first = self.first
        here = first is not None and (first.key, first.reprint) == (
            checked_step.step.key,
            checked_step.claim.reprint,
        )
        return replace(
            laid,
            cells=cells,
            verdict=checked_step.verdict,
            first_wrong=first.cell if first and here else None,
        )

    def _make_mistake_summary(self, wrong_cell: WrongCell) -> MistakeSummary:
        row, column = wrong_cell.cell
        title = format_step_title(self.problem.get_step(wrong_cell.key), self.problem)
        expected = format_decimal(wrong_cell.expected, 6)
        if wrong_cell.carried_value is not None:
            expected += (
                f" ({format_decimal(wrong_cell.carried_value, 6)} from the numbers before it)"
            )

        def working(n: Notation) -> str:
            return self.problem.solve().cell(wrong_cell.key, row + 1, column + 1, n)

        return MistakeSummary(
            location=f"{title}, row {row + 1}, column {column + 1}",
            claimed=wrong_cell.claimed,
            expected=expected,
            working=working,
            causes=[(c.name, c.reproduced_share, c.description) for c in wrong_cell.causes],
        )

    def summarize(self) -> str:
        """Say in a line or two what is wrong: where, what it should be, and why."""
        counted = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items() if n)
        if self.first is None:
            return f"✓ {counted or 'nothing is claimed'}"
        first = self._make_mistake_summary(self.first)
        causes = " or ".join(name for name, _, _ in first.causes)
        return f"✗ {first.location}: {first.claimed}, but it is {first.expected}: {causes}\n  {counted}"

    def to_dict(self) -> dict[str, Any]:
        """Give the report as the contract has it."""
        first = self.first
        return {
            "version": 1,
            "title": self.problem.title,
            "verdict": self.verdict,
            "first": first and first.to_dict(),
            "steps": [
                {
                    "step": one.step.name,
                    **describe_part(one.step, self.problem),
                    **({"again": one.claim.reprint} if one.claim.reprint else {}),
                    "verdict": one.verdict,
                    "cells": self._orient_verdicts(one.verdicts),
                }
                for one in self.steps
            ],
            "counts": self.counts,
        }

    def to_json(self, file: str | None = None) -> str:
        """Write the report as one line of JSON."""
        data = self.to_dict()
        if file is not None:
            data = {"version": data.pop("version"), "file": file, **data}
        return json.dumps(data)


def _format_note(verdict: str, exact: str, carried_value: str) -> str:
    if verdict in ("right", "blank"):
        return "" if verdict == "right" else f"exact: {exact}"
    return (
        f"exact: {exact}" if exact == carried_value else f"exact: {exact}; carried: {carried_value}"
    )


def _format_claimed(text: str) -> str:
    """Write a claimed number as it is read out among others: with a minus, not a hyphen."""
    return ("−" + text[1:] if text.startswith("-") else text).replace("inf", "∞")


def _to_json_number(value: float) -> float | str:
    """JSON knows no infinity; what came from one that somebody claimed may not even be a number."""
    return value if math.isfinite(value) else str(value)
