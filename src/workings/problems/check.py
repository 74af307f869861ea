"""Checking a worked solution: a verdict for every claimed cell, and what went wrong first."""

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from workings.problems.causes import Cause, causes
from workings.problems.cells import Cells
from workings.problems.kinds import Step
from workings.problems.problem import Claim, Problem
from workings.problems.solve import AS_GIVEN, formula_of, given_axes, panel, place_of, title_of
from workings.problems.suspect import Suspect
from workings.problems.verdicts import WORST_FIRST, Verdicts, Written
from workings.views.notation import Notation, decimal
from workings.views.shown import Shown
from workings.views.worked import Cell, Finding, Panel, Worked

_MANY_ROUTES = 32  # combinations of reprints


@dataclass(frozen=True)
class First:
    """The first wrong cell, counted from 0 in the problem's own convention."""

    key: str
    step: str
    head: int | None
    time: int | None
    again: int
    cell: tuple[int, int]
    claimed: str
    expected: float
    carried: float | None  # what its inputs, themselves off, lead to
    causes: list[Cause]

    def data(self) -> dict[str, Any]:
        """Give it as the contract has it."""
        data: dict[str, Any] = {"step": self.step, "head": self.head}
        if self.time is not None:
            data["t"] = self.time
        if self.again:
            data["again"] = self.again
        data |= {
            "cell": list(self.cell),
            "claimed": self.claimed,
            "expected": _json_number(self.expected),
        }
        if self.carried is not None:
            data["carried"] = _json_number(self.carried)
        data["causes"] = [
            {"name": c.name, "reproduces": c.reproduces, "says": c.says} for c in self.causes
        ]
        return data


@dataclass(frozen=True)
class Judged:
    """A claimed step with its verdicts, vectors as rows."""

    step: Step
    claim: Claim
    written: Written
    carried: Cells
    verdicts: Verdicts

    @property
    def verdict(self) -> str:
        """The worst of its cells'."""
        return next(v for v in WORST_FIRST if (self.verdicts == v).any())

    def to_copy(self, exact: Cells) -> Cells:
        """The numbers that somebody may have copied into another step.

        What follows from a wrong number was not there to be copied before it: in its place stands,
        marked as `off`, what should have been.
        """
        follows = self.verdicts == "follows"
        return replace(Cells.exact(np.where(follows, exact.mid, self.written.value)), off=follows)


def check(problem: Problem) -> "Report":
    """Judge every claimed cell of a problem."""
    return Report(problem, *_judge(problem))


def _judge(problem: Problem) -> tuple[list[Judged], dict[str, Cells]]:
    """Judge each claim by the routes that may have led to it; the kindest verdict counts.

    A route takes one print of every step. There is only one, unless something is printed again.
    """
    walks = [_walk(problem, route) for route in _routes(problem.claims)]
    first, env = walks[0]
    if len(walks) == 1:
        return list(first.values()), env
    judged = []
    for step in problem.steps:
        for claim in problem.claims:
            if claim.key == step.key:
                routes = [_one(problem, step, claim, walk[step.key].carried) for walk, _ in walks]
                judged.append(_kindest(routes))
    return judged, env


def _routes(claims: list[Claim]) -> list[dict[str, Claim]]:
    """List which print of each step may have been used: every combination, if they are few."""
    prints: dict[str, list[Claim]] = {}
    for claim in claims:
        prints.setdefault(claim.key, []).append(claim)
    if math.prod(len(p) for p in prints.values()) > _MANY_ROUTES:
        most = max(len(p) for p in prints.values())
        return [{key: p[min(k, len(p) - 1)] for key, p in prints.items()} for k in range(most)]
    return [dict(zip(prints, route, strict=True)) for route in product(*prints.values())]


def _walk(problem: Problem, route: dict[str, Claim]) -> tuple[dict[str, Judged], dict[str, Cells]]:
    """Work through the steps from the claimed numbers; give every matrix as claimed, too."""
    env, judged = dict(problem.given), {}
    for step in problem.steps:
        carried = env[step.key] = step.op.compute(env)
        if step.key in route:
            one = judged[step.key] = _one(problem, step, route[step.key], carried)
            exact = problem.exact[step.key]
            env[step.key] = one.written.carried_on(exact, carried, one.verdicts)
    return judged, env


def _one(problem: Problem, step: Step, claim: Claim, carried: Cells) -> Judged:
    written = Written.of(claim.numbers)
    return Judged(step, claim, written, carried, written.judge(problem.exact[step.key], carried))


def _kindest(routes: list[Judged]) -> Judged:
    """Take the best verdict for each cell; all else from the route that has the most of them."""
    ranks = np.array([[[WORST_FIRST.index(v) for v in row] for row in r.verdicts] for r in routes])
    verdicts = np.array(WORST_FIRST)[ranks.max(0)]
    most = int(ranks.sum((1, 2)).argmax())
    return replace(routes[most], verdicts=verdicts)


class Report(Shown):
    """What is right and what is wrong in a worked solution."""

    def __init__(self, problem: Problem, judged: list[Judged], env: dict[str, Cells]) -> None:
        self.problem, self.steps, self._env = problem, judged, env
        cells = Counter(str(v) for one in judged for v in one.verdicts.flat)
        self.counts = {v: cells[v] for v in ("right", "rounded", "follows", "wrong", "blank")}

    @cached_property
    def findings(self) -> list[First]:
        """The first wrong cell of every step that has one, in order, with its causes."""
        wrong = [one for one in self.steps if one.verdict == "wrong"]
        return [self.first, *map(self._finding, wrong[1:])] if self.first else []

    @cached_property
    def first(self) -> First | None:
        """The first wrong cell of all; None where nothing is wrong."""
        wrong = (one for one in self.steps if one.verdict == "wrong")
        return next(map(self._finding, wrong), None)

    def __repr__(self) -> str:
        return f"<Report: {self.brief()}>"

    @property
    def verdict(self) -> str:
        """`wrong` where any cell is wrong, else `right`."""
        return "wrong" if self.counts["wrong"] else "right"

    def __getitem__(self, key: str) -> list[list[str]]:
        """The verdicts of a step's cells, in the problem's own convention."""
        for one in self.steps:
            if one.step.key == key:
                return self._turned(one.verdicts)
        self.problem.step(key)
        raise KeyError(f"{key} was not claimed")

    def _turned(self, verdicts: Verdicts) -> list[list[str]]:
        turned = verdicts.T if self.problem.columns else verdicts
        return [[str(verdict) for verdict in row] for row in turned]

    def _finding(self, one: Judged) -> First:
        wrong = self.problem.turn(one.verdicts == "wrong")
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        i, j = (column, row) if self.problem.columns else (row, column)
        number = one.claim.numbers[i][j]
        assert number is not None
        place = place_of(one.step, self.problem)
        return First(
            key=one.step.key,
            step=one.step.name,
            head=place["head"],
            time=place.get("t"),
            again=one.claim.again,
            cell=(row, column),
            claimed=number.text,
            expected=float(self.problem.exact[one.step.key].mid[i, j]),
            carried=float(one.carried.mid[i, j]) if one.carried.off[i, j] else None,
            causes=causes(self._suspect(one, (i, j))),
        )

    def _suspect(self, one: Judged, first: tuple[int, int]) -> Suspect:
        """Gather what was claimed around the first wrong cell."""
        at = {step.key: k for k, step in enumerate(self.problem.steps)}
        nearest = sorted(self.steps, key=lambda other: abs(at[other.step.key] - at[one.step.key]))
        sheet = {
            other.step.key: other.to_copy(self.problem.exact[other.step.key])
            for other in nearest
            if other.step.key != one.step.key
        }
        number = one.claim.numbers[first[0]][first[1]]
        return Suspect(
            problem=self.problem,
            step=one.step,
            first=first,
            text="?" if number is None else _said(number.text),
            written=one.written,
            verdicts=one.verdicts,
            right=one.carried,
            env={**self._env, one.step.key: one.carried},
            sheet=sheet,
        )

    def worked(self, *, notes: bool = True) -> Worked:  # noqa: ARG002 - a report is its notes
        """Lay the report out to look at."""
        problem, first = self.problem, self.first
        givens = [
            panel(problem, name, None, cells, *given_axes(problem, name), AS_GIVEN)
            for name, cells in problem.given.items()
            if name in problem.kind.matrices
        ]
        counted = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items() if n)
        return Worked(
            problem.title,
            givens,
            [self._panel(one) for one in self.steps],
            verdict=self.verdict,
            summary=counted or "nothing is claimed",
            finding=None if first is None else self._shown_finding(first),
        )

    def _panel(self, one: Judged) -> Panel:
        """A claimed step: the numbers as written, their verdicts, and what they should be."""
        laid = panel(
            self.problem,
            title_of(one.step, self.problem) + (", again" if one.claim.again else ""),
            formula_of(one.step, self.problem),
            self.problem.exact[one.step.key],
            one.step.rows,
            one.step.columns,
            6,
        )
        verdicts = self._turned(one.verdicts)
        texts = np.array([["?" if n is None else n.text for n in row] for row in one.claim.numbers])
        carried = self.problem.turn(one.carried.mid).tolist()
        blank = one.written.blank
        values = np.where(self.problem.turn(blank), None, self.problem.turn(one.written.value))
        written = self.problem.turn(texts).tolist()
        cells = [
            [
                Cell(text, claimed, verdict, _note(verdict, exact.text, decimal(value, 6)))
                for text, claimed, exact, verdict, value in zip(*rows, strict=True)
            ]
            for rows in zip(written, values, laid.cells, verdicts, carried, strict=True)
        ]
        first = self.first
        here = first is not None and (first.key, first.again) == (one.step.key, one.claim.again)
        return replace(
            laid, cells=cells, judged=one.verdict, first=first.cell if first and here else None
        )

    def _shown_finding(self, first: First) -> Finding:
        row, column = first.cell
        title = title_of(self.problem.step(first.key), self.problem)
        expected = decimal(first.expected, 6)
        if first.carried is not None:
            expected += f" ({decimal(first.carried, 6)} from the numbers before it)"

        def working(n: Notation) -> str:
            return self.problem.solve().cell(first.key, row + 1, column + 1, n)

        return Finding(
            where=f"{title}, row {row + 1}, column {column + 1}",
            claimed=first.claimed,
            expected=expected,
            working=working,
            causes=[(c.name, c.reproduces, c.says) for c in first.causes],
        )

    def brief(self) -> str:
        """Say in a line or two what is wrong: where, what it should be, and why."""
        counted = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items() if n)
        if self.first is None:
            return f"✓ {counted or 'nothing is claimed'}"
        first = self._shown_finding(self.first)
        causes = " or ".join(name for name, _, _ in first.causes)
        return (
            f"✗ {first.where}: {first.claimed}, but it is {first.expected}: {causes}\n  {counted}"
        )

    def data(self) -> dict[str, Any]:
        """Give the report as the contract has it."""
        first = self.first
        return {
            "version": 1,
            "title": self.problem.title,
            "verdict": self.verdict,
            "first": first and first.data(),
            "steps": [
                {
                    "step": one.step.name,
                    **place_of(one.step, self.problem),
                    **({"again": one.claim.again} if one.claim.again else {}),
                    "verdict": one.verdict,
                    "cells": self._turned(one.verdicts),
                }
                for one in self.steps
            ],
            "counts": self.counts,
        }

    def json(self, file: str | None = None) -> str:
        """Write the report as one line of JSON."""
        data = self.data()
        if file is not None:
            data = {"version": data.pop("version"), "file": file, **data}
        return json.dumps(data)


def _note(verdict: str, exact: str, carried: str) -> str:
    if verdict in ("right", "blank"):
        return "" if verdict == "right" else f"exact: {exact}"
    return f"exact: {exact}" if exact == carried else f"exact: {exact}; carried: {carried}"


def _said(text: str) -> str:
    """Write a claimed number as it is read out among others: with a minus, not a hyphen."""
    return ("−" + text[1:] if text.startswith("-") else text).replace("inf", "∞")


def _json_number(value: float) -> float | str:
    """JSON knows no infinity; what came from one that somebody claimed may not even be a number."""
    return value if math.isfinite(value) else str(value)
