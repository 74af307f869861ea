"""Checking a worked solution: a verdict for every claimed cell, and what went wrong first."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from workings.problems.causes import Cause, Suspect, causes
from workings.problems.cells import Cells
from workings.problems.kinds import Step
from workings.problems.problem import Claim, Problem
from workings.problems.solve import formula_of, given_axes, panel, place_of, title_of
from workings.problems.verdicts import WORST_FIRST, Verdicts, Written, merge
from workings.views.notation import Notation, decimal
from workings.views.shown import Shown
from workings.views.worked import Cell, Finding, Panel, Worked


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


def check(problem: Problem) -> "Report":
    """Judge every claimed cell of a problem."""
    return Report(problem, _judge(problem))


def _judge(problem: Problem) -> list[Judged]:
    """Walk through the steps with the claimed numbers; once more with the reprints, if any."""
    first = {claim.key: claim for claim in problem.claims if claim.again == 0}
    last = {claim.key: claim for claim in problem.claims}
    judged = _walk(problem, first, first)
    if len(problem.claims) == len(first):
        return list(judged.values())
    again = _walk(problem, first, last)
    merged = []
    for step in problem.steps:
        for claim in problem.claims:
            if claim.key != step.key:
                continue
            one = judged.get(claim.key, again[claim.key])
            merged.append(_best(problem, claim, one.carried, again[claim.key].carried))
    return merged


def _walk(problem: Problem, first: dict[str, Claim], used: dict[str, Claim]) -> dict[str, Judged]:
    """Judge the `used` claims, each from the claims before it."""
    env, judged = dict(problem.given), {}
    for step in problem.steps:
        carried = env[step.key] = step.op.compute(env)
        if step.key not in used:
            continue
        one = _one(problem, step, used[step.key], carried)
        judged[step.key] = one
        exact = problem.exact[step.key]
        env[step.key] = one.written.carried_on(exact, carried, one.verdicts)
        if first.get(step.key) not in (None, used[step.key]):  # a blank in a reprint: see the first
            original = _one(problem, step, first[step.key], carried)
            before = original.written.carried_on(exact, carried, original.verdicts)
            env[step.key] = merge(one.written.blank, before, env[step.key])
    return judged


def _one(problem: Problem, step: Step, claim: Claim, carried: Cells) -> Judged:
    written = Written.of(claim.numbers)
    return Judged(step, claim, written, carried, written.judge(problem.exact[step.key], carried))


def _best(problem: Problem, claim: Claim, *routes: Cells) -> Judged:
    """Judge a claim by each of the routes that may have led to it; the kindest verdict counts."""
    step = problem.step(claim.key)
    options = [_one(problem, step, claim, carried) for carried in routes]
    ranks = np.array([[[WORST_FIRST.index(v) for v in row] for row in o.verdicts] for o in options])
    verdicts = np.array(WORST_FIRST)[ranks.max(0)]
    return Judged(step, claim, options[0].written, routes[0], verdicts)


class Report(Shown):
    """What is right and what is wrong in a worked solution."""

    def __init__(self, problem: Problem, judged: list[Judged]) -> None:
        self.problem, self.steps = problem, judged
        cells = Counter(str(v) for one in judged for v in one.verdicts.flat)
        self.counts = {v: cells[v] for v in ("right", "rounded", "follows", "wrong", "blank")}

    @cached_property
    def findings(self) -> list[First]:
        """The first wrong cell of every step that has one, in order, with its causes."""
        return [self._finding(one) for one in self.steps if one.verdict == "wrong"]

    @property
    def first(self) -> First | None:
        """The first wrong cell of all; None where nothing is wrong."""
        return self.findings[0] if self.findings else None

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
        turned: list[list[str]] = self.problem.turn(verdicts).tolist()
        return turned

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
            causes=causes(self.problem, self._suspect(one, (i, j))),
        )

    def _suspect(self, one: Judged, first: tuple[int, int]) -> Suspect:
        """Gather what was claimed around the first wrong cell."""
        env = dict(self.problem.exact)
        for other in self.steps:
            if other.claim.again == 0:
                exact = self.problem.exact[other.step.key]
                env[other.step.key] = other.written.carried_on(exact, other.carried, other.verdicts)
        claimed = frozenset(c.key for c in self.problem.claims)
        for step in self.problem.steps:  # what was not claimed comes from what was
            if step.key not in claimed:
                env[step.key] = step.op.compute(env)
        env[one.step.key] = one.carried
        texts = [["?" if n is None else n.text for n in row] for row in one.claim.numbers]
        return Suspect(one.step.key, first, one.written, texts, one.verdicts, env, claimed)

    def worked(self) -> Worked:
        """Lay the report out to look at."""
        problem, first = self.problem, self.first
        givens = [
            panel(problem, name, None, cells, *given_axes(problem, name), 6)
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
            "first": first and self._first_data(first),
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

    def _first_data(self, first: First) -> dict[str, Any]:
        data: dict[str, Any] = {"step": first.step, "head": first.head}
        if first.time is not None:
            data["t"] = first.time
        if first.again:
            data["again"] = first.again
        data |= {
            "cell": list(first.cell),
            "claimed": first.claimed,
            "expected": _json_number(first.expected),
        }
        if first.carried is not None:
            data["carried"] = _json_number(first.carried)
        data["causes"] = [
            {"name": c.name, "reproduces": c.reproduces, "says": c.says} for c in first.causes
        ]
        return data

    def json(self, file: str | None = None) -> str:
        """Write the report as one line of JSON."""
        data = self.data()
        if file is not None:
            data = {"version": data.pop("version"), "file": file, **data}
        return json.dumps(data, ensure_ascii=False)


def _note(verdict: str, exact: str, carried: str) -> str:
    if verdict in ("right", "blank"):
        return "" if verdict == "right" else f"exact: {exact}"
    return f"exact: {exact}" if exact == carried else f"exact: {exact}; carried: {carried}"


def _json_number(value: float) -> float | str:
    return "-inf" if value == float("-inf") else value
