"""Check claimed solutions: a verdict for every cell, and the first wrong cell with its causes."""

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
from workings.problems.reprints import ReprintedCell, find_reprinted_cells
from workings.problems.solution import (
    Solution,
    describe_part,
    format_step_title,
    make_given_panels,
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

_MAX_SHOWN_REPRINTS = 6
_MAX_ROUTES = 32  # combinations of repeated claims that are followed


@dataclass(frozen=True)
class WrongCell:
    """The first wrong cell of a step, counted from 0 in the problem's convention."""

    key: str
    step: str
    head: int | None
    time: int | None
    reprint: int
    cell: tuple[int, int]
    claimed: str
    expected: float
    carried_value: float | None  # computed from the claims before it, if those are wrong
    causes: list[Cause]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON report (docs/problem-format.md)."""
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
        """The worst verdict of its cells."""
        return next(v for v in WORST_FIRST if (self.verdicts == v).any())

    def copyable_matrix(self, exact: IntervalMatrix) -> IntervalMatrix:
        """Return the numbers that may have been copied into another step.

        A cell that follows from a wrong number cannot have been copied before that number was
        written; it is replaced with the exact value and marked as tainted.
        """
        follows = self.verdicts == "follows"
        return replace(
            IntervalMatrix.exact(np.where(follows, exact.mid, self.claimed_matrix.values)),
            tainted=follows,
        )


def check_problem(problem: Problem) -> "Report":
    """Check every claimed cell of a problem."""
    return Report(problem, *_check_claims(problem))


def _check_claims(problem: Problem) -> tuple[list[CheckedStep], dict[str, IntervalMatrix]]:
    """Check each claim along every route that may have led to it; the best verdict counts.

    A route takes one claim of every step. There are several routes only if a step is repeated.
    """
    results = [_follow_route(problem, route) for route in _list_routes(problem.claims)]
    first, env = results[0]
    if len(results) == 1:
        return list(first.values()), env
    checked_steps = []
    for step in problem.steps:
        for claim in problem.claims:
            if claim.key == step.key:
                candidates = [
                    _check_claim(problem, step, claim, checked[step.key].carried_matrix)
                    for checked, _ in results
                ]
                checked_steps.append(_select_best_verdicts(candidates))
    return checked_steps, env


def _list_routes(claims: list[Claim]) -> list[dict[str, Claim]]:
    """Return the combinations of repeated claims: all of them, or the k-th of each if too many."""
    repeats: dict[str, list[Claim]] = {}
    for claim in claims:
        repeats.setdefault(claim.key, []).append(claim)
    if math.prod(map(len, repeats.values())) > _MAX_ROUTES:
        count = max(map(len, repeats.values()))
        return [{key: r[min(k, len(r) - 1)] for key, r in repeats.items()} for k in range(count)]
    return [dict(zip(repeats, route, strict=True)) for route in product(*repeats.values())]


def _follow_route(
    problem: Problem, route: dict[str, Claim]
) -> tuple[dict[str, CheckedStep], dict[str, IntervalMatrix]]:
    """Compute each step from the claims before it; return checked steps and matrices as claimed."""
    env, checked_steps = dict(problem.given), {}
    for step in problem.steps:
        matrix = env[step.key] = step.op.compute(env)
        if step.key in route:
            checked = _check_claim(problem, step, route[step.key], matrix)
            exact = problem.exact_matrices[step.key]
            env[step.key] = checked.claimed_matrix.to_intervals(exact, matrix, checked.verdicts)
            checked_steps[step.key] = checked
    return checked_steps, env


def _check_claim(
    problem: Problem, step: Step, claim: Claim, carried_matrix: IntervalMatrix
) -> CheckedStep:
    claimed = ClaimedMatrix.from_numbers(claim.numbers)
    verdicts = claimed.assign_verdicts(problem.exact_matrices[step.key], carried_matrix)
    return CheckedStep(step, claim, claimed, carried_matrix, verdicts)


def _select_best_verdicts(candidates: list[CheckedStep]) -> CheckedStep:
    """Return the best verdict of each cell; the rest is from the route with the best sum."""
    ranks = np.array(
        [[[WORST_FIRST.index(v) for v in row] for row in c.verdicts] for c in candidates]
    )
    verdicts = np.array(WORST_FIRST)[ranks.max(0)]
    best = int(ranks.sum((1, 2)).argmax())
    return replace(candidates[best], verdicts=verdicts)


class Report(WorkedResult):
    """The result of checking a problem: verdicts, and the first wrong cell with its causes."""

    def __init__(
        self, problem: Problem, steps: list[CheckedStep], env: dict[str, IntervalMatrix]
    ) -> None:
        self.problem, self.steps, self._env = problem, steps, env
        self.assumption = ""  # a convention that the problem leaves open
        counter = Counter(str(v) for step in steps for v in step.verdicts.flat)
        self.counts = {v: counter[v] for v in ("right", "rounded", "follows", "wrong", "blank")}

    @cached_property
    def wrong_cells(self) -> list[WrongCell]:
        """The first wrong cell of every wrong step, in order, with its causes."""
        wrong = [step for step in self.steps if step.verdict == "wrong"]
        return [self.first, *map(self._make_wrong_cell, wrong[1:])] if self.first else []

    @cached_property
    def first(self) -> WrongCell | None:
        """The first wrong cell of the problem; None if nothing is wrong."""
        wrong = (step for step in self.steps if step.verdict == "wrong")
        return next(map(self._make_wrong_cell, wrong), None)

    def __repr__(self) -> str:
        return f"<Report: {self.summarize()}>"

    @property
    def verdict(self) -> str:
        """`wrong` if any cell is wrong or reprinted differently, otherwise `right`."""
        return "wrong" if self.counts["wrong"] or self.reprinted_cells else "right"

    @cached_property
    def reprinted_cells(self) -> list[ReprintedCell]:
        """The numbers that the source prints once more, differently."""
        return find_reprinted_cells(self.problem)

    @property
    def notes(self) -> list[str]:
        """Sentences that the verdicts of the cells lack: on reprints and on unjudged steps."""
        cells = self.reprinted_cells
        notes = [f"reprinted differently: {c.describe()}" for c in cells[:_MAX_SHOWN_REPRINTS]]
        if len(cells) > _MAX_SHOWN_REPRINTS:
            notes.append(f"… and {len(cells) - _MAX_SHOWN_REPRINTS} more reprinted numbers")
        reasons = self.problem.unjudged.items()
        return notes + [f"{key} is not judged: {reason}" for key, reason in reasons]

    def __getitem__(self, key: str) -> list[list[str]]:
        """Return the verdicts of a step's cells, in the problem's convention."""
        for checked_step in self.steps:
            if checked_step.step.key == key:
                return self._orient_verdicts(checked_step.verdicts)
        self.problem.get_step(key)
        raise KeyError(f"{key} was not claimed")

    def _orient_verdicts(self, verdicts: Verdicts) -> list[list[str]]:
        oriented = verdicts.T if self.problem.column_vectors else verdicts
        return [[str(verdict) for verdict in row] for row in oriented]

    def _make_wrong_cell(self, checked_step: CheckedStep) -> WrongCell:
        """Return the first wrong cell of a step with its causes."""
        wrong = self.problem.orient(checked_step.verdicts == "wrong")
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        i, j = (column, row) if self.problem.column_vectors else (row, column)
        number = checked_step.claim.numbers[i][j]
        assert number is not None
        part = describe_part(checked_step.step, self.problem)
        matrix = checked_step.carried_matrix
        return WrongCell(
            key=checked_step.step.key,
            step=checked_step.step.name,
            head=part["head"],
            time=part.get("t"),
            reprint=checked_step.claim.reprint,
            cell=(row, column),
            claimed=number.text,
            expected=float(self.problem.exact_matrices[checked_step.step.key].mid[i, j]),
            carried_value=float(matrix.mid[i, j]) if matrix.tainted[i, j] else None,
            causes=find_causes(self._make_wrong_step(checked_step, (i, j))),
        )

    def _make_wrong_step(self, checked_step: CheckedStep, first_cell: tuple[int, int]) -> WrongStep:
        """Return the step with the other claims, the nearest first, for the diagnosis."""
        own_key = checked_step.step.key
        order = {step.key: k for k, step in enumerate(self.problem.steps)}
        nearest = sorted(self.steps, key=lambda other: abs(order[other.step.key] - order[own_key]))
        other_claims = {
            other.step.key: other.copyable_matrix(self.problem.exact_matrices[other.step.key])
            for other in nearest
            if other.step.key != own_key
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
            env={**self._env, own_key: checked_step.carried_matrix},
            other_claims=other_claims,
        )

    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return a function that formats the correct arithmetic of one cell, counted from 1."""
        return Solution(self.problem).cell_formula(key, row, column)

    def to_worked_problem(self, *, notes: bool = True) -> WorkedProblem:  # noqa: ARG002 - always has notes
        """Return the report to display."""
        return WorkedProblem(
            self.problem.title,
            make_given_panels(self.problem),
            [self._make_panel(checked_step) for checked_step in self.steps],
            verdict=self.verdict,
            summary=self._format_counts(),
            mistake=None if self.first is None else self._make_mistake_summary(self.first),
            assumption=self.assumption,
            notes=tuple(self.notes),
        )

    def _format_counts(self) -> str:
        counts = ", ".join(f"{n} {verdict}" for verdict, n in self.counts.items() if n)
        return counts or "nothing is claimed"

    def _make_panel(self, checked_step: CheckedStep) -> Panel:
        """Return a claimed step to display: numbers as written, verdicts and exact values."""
        step, claim, orient = checked_step.step, checked_step.claim, self.problem.orient
        panel = make_panel(
            self.problem,
            format_step_title(step, self.problem) + (", again" if claim.reprint else ""),
            make_step_formula(step, self.problem),
            self.problem.exact_matrices[step.key],
            step.row_axis,
            step.column_axis,
            6,
        )
        claimed = checked_step.claimed_matrix
        texts = np.array([["?" if n is None else n.text for n in row] for row in claim.numbers])
        columns = (
            orient(texts).tolist(),
            np.where(orient(claimed.is_blank), None, orient(claimed.values)),
            panel.cells,
            self._orient_verdicts(checked_step.verdicts),
            orient(checked_step.carried_matrix.mid).tolist(),
        )
        cells = [
            [
                Cell(text, value, verdict, _format_note(verdict, exact.text, format_decimal(c, 6)))
                for text, value, exact, verdict, c in zip(*rows, strict=True)
            ]
            for rows in zip(*columns, strict=True)
        ]
        first = self.first
        is_first = first is not None and (first.key, first.reprint) == (step.key, claim.reprint)
        first_wrong = first.cell if first and is_first else None
        return replace(panel, cells=cells, verdict=checked_step.verdict, first_wrong=first_wrong)

    def _make_mistake_summary(self, wrong_cell: WrongCell) -> MistakeSummary:
        row, column = wrong_cell.cell
        title = format_step_title(self.problem.get_step(wrong_cell.key), self.problem)
        expected = format_decimal(wrong_cell.expected, 6)
        if wrong_cell.carried_value is not None:
            carried_text = format_decimal(wrong_cell.carried_value, 6)
            expected += f" ({carried_text} from the numbers before it)"

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
        """Return a few lines: the first wrong cell, expected value and causes, counts, notes."""
        lines = [f"{'✗' if self.verdict == 'wrong' else '✓'} {self._format_counts()}"]
        if self.first is not None:
            first = self._make_mistake_summary(self.first)
            causes = " or ".join(name for name, _, _ in first.causes)
            lines = [f"✗ {first.location}: {first.claimed}, but it is {first.expected}: {causes}"]
            lines.append(self._format_counts())
        if self.assumption and self.verdict == "right":
            lines = [f"✓ right, if {self.assumption}", self._format_counts()]
        elif self.assumption:
            lines.append(f"if {self.assumption}")
        return "\n  ".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON report (docs/problem-format.md)."""
        first = self.first.to_dict() if self.first else None
        if first is None and self.reprinted_cells:
            first = self.reprinted_cells[0].to_wrong_cell()
        return {
            "version": 1,
            "title": self.problem.title,
            "verdict": self.verdict,
            **({"if": self.assumption} if self.assumption else {}),
            "first": first,
            "steps": [
                {
                    "step": checked.step.name,
                    **describe_part(checked.step, self.problem),
                    **({"again": checked.claim.reprint} if checked.claim.reprint else {}),
                    "verdict": checked.verdict,
                    "cells": self._orient_verdicts(checked.verdicts),
                }
                for checked in self.steps
            ],
            "counts": self.counts,
            **self._list_notes(),
        }

    def _list_notes(self) -> dict[str, Any]:
        """Return the fields for reprints and for steps that are not judged, if there are any."""
        cells = self.reprinted_cells
        notes: dict[str, Any] = {"reprints": [cell.to_dict() for cell in cells]} if cells else {}
        return notes | ({"not_judged": [*self.problem.unjudged]} if self.problem.unjudged else {})

    def to_json(self, file: str | None = None) -> str:
        """Return the report as one line of JSON; `file` adds the name of the file."""
        data = self.to_dict()
        if file is not None:
            data = {"version": data.pop("version"), "file": file, **data}
        return json.dumps(data)


def _format_note(verdict: str, exact: str, carried_value: str) -> str:
    """Format the note of a cell: the exact value and, if it differs, the carried value."""
    if verdict in ("right", "blank"):
        return ""
    if exact == carried_value:
        return f"exact: {exact}"
    return f"exact: {exact}; carried: {carried_value}"


def _format_claimed(text: str) -> str:
    """Format a claimed number for prose: − and ∞ instead of - and inf."""
    return ("−" + text[1:] if text.startswith("-") else text).replace("inf", "∞")


def _to_json_number(value: float) -> float | str:
    """Convert a number for JSON, which has no infinity or NaN: those become strings."""
    return value if math.isfinite(value) else str(value)
