"""Check claimed solutions: a verdict for every cell, and the first wrong cell with its causes."""

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from workings.languages import gettext, ngettext
from workings.problems.diagnosis import UNKNOWN, Cause, find_causes
from workings.problems.intervals import IntervalMatrix
from workings.problems.judging import CheckedStep, check_claims, list_unclaimed_sources
from workings.problems.labels import get_label
from workings.problems.notation import Formula, Notation
from workings.problems.numbers import read_number
from workings.problems.ops import Copy
from workings.problems.problem import Problem
from workings.problems.reprints import ReprintedCell, find_reprinted_cells
from workings.problems.solution import (
    Solution,
    describe_part,
    format_cell_working,
    format_step_title,
    format_value,
    make_given_panels,
    make_panel,
    make_step_formula,
)
from workings.problems.verdicts import (
    Verdicts,
)
from workings.problems.worked_problem import (
    CauseSummary,
    Cell,
    MistakeSummary,
    Panel,
    WorkedProblem,
    WorkedResult,
)
from workings.problems.wrong_step import WrongStep

_MAX_DECIMALS = 15
_MAX_SHOWN_REPRINTS = 6


@dataclass(frozen=True)
class WrongCell:
    """The first wrong cell of a step, counted from 0 in the problem's convention."""

    key: str
    step: str
    part: dict[str, int | None]  # the head, time or layer of the step, as in the report
    reprint: int
    cell: tuple[int, int]
    claimed: str
    expected: float  # the exact value
    carried_value: float | None  # computed from the claims before it, if those are wrong
    causes: list[Cause]
    labels: tuple[str, ...] = ()  # of the step: its cells are tokens

    @property
    def head(self) -> int | None:
        """The attention head, from 1."""
        return self.part["head"]

    @property
    def judged_value(self) -> float:
        """The value that the claim was compared with: the carried or else the exact one."""
        return self.expected if self.carried_value is None else self.carried_value

    def distinguishing_decimals(self, decimals: int) -> int:
        """Return how many decimals, at least these, show the judged value apart from the claim."""
        if self.labels:
            return decimals
        number = read_number(self.claimed, self.key)
        while (
            decimals < _MAX_DECIMALS
            and number
            and number.value == round(self.judged_value, decimals)
        ):
            decimals += 1
        return decimals

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON report (docs/problem-format.md)."""
        data: dict[str, Any] = {"step": self.step, **self.part}
        if self.reprint:
            data["again"] = self.reprint
        data |= {
            "cell": list(self.cell),
            "claimed": self.claimed,
            "expected": _to_json_value(self.expected, self.labels),
        }
        if self.carried_value is not None:
            data["carried"] = _to_json_value(self.carried_value, self.labels)
        data["causes"] = [_describe_cause(cause) for cause in self.causes]
        return data


def check_problem(problem: Problem, decimals: int | None = None) -> "Report":
    """Check every claimed cell; `decimals` is to how many a sheet asks to round."""
    return Report(problem, *check_claims(problem, decimals))


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
    def wrong_steps(self) -> list[CheckedStep]:
        """The steps with wrong cells, in order."""
        return [step for step in self.steps if step.verdict == "wrong"]

    @cached_property
    def wrong_cells(self) -> list[WrongCell]:
        """The first wrong cell of every wrong step, in order, with its causes."""
        return [self.first, *map(self._make_wrong_cell, self.wrong_steps[1:])] if self.first else []

    @cached_property
    def first(self) -> WrongCell | None:
        """The first wrong cell of the problem; None if nothing is wrong."""
        return next(map(self._make_wrong_cell, self.wrong_steps), None)

    def __repr__(self) -> str:
        return f"<Report: {self.summarize()}>"

    @property
    def verdict(self) -> str:
        """`wrong` if any cell is wrong or reprinted differently, `blank` if none has a number."""
        if self.counts["wrong"] or self.reprinted_cells:
            return "wrong"
        return "right" if sum(self.counts.values()) > self.counts["blank"] else "blank"

    @cached_property
    def reprinted_cells(self) -> list[ReprintedCell]:
        """The numbers that the source prints once more, differently."""
        return find_reprinted_cells(self.problem)

    @property
    def source_notes(self) -> list[str]:
        """Remarks on the source: on its reprints, and on steps that are not judged."""
        cells = self.reprinted_cells
        notes = [
            gettext("reprinted differently: {cell}", cell=c.describe())
            for c in cells[:_MAX_SHOWN_REPRINTS]
        ]
        if len(cells) > _MAX_SHOWN_REPRINTS:
            notes.append(
                gettext(
                    "… and {count} more reprinted numbers", count=len(cells) - _MAX_SHOWN_REPRINTS
                )
            )
        reasons = self.problem.unjudged.items()
        return notes + [
            gettext("{key} is not judged: {reason}", key=key, reason=reason)
            for key, reason in reasons
        ]

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
        matrix = checked_step.carried_matrix
        return WrongCell(
            key=checked_step.step.key,
            step=checked_step.step.name,
            part=describe_part(checked_step.step, self.problem),
            reprint=checked_step.claim.reprint,
            cell=(row, column),
            claimed=number.text,
            expected=float(self.problem.exact_matrices[checked_step.step.key].mid[i, j]),
            carried_value=float(matrix.mid[i, j]) if matrix.tainted[i, j] else None,
            causes=find_causes(self._make_wrong_step(checked_step, (i, j))),
            labels=checked_step.step.labels,
        )

    def _make_wrong_step(self, checked_step: CheckedStep, first_cell: tuple[int, int]) -> WrongStep:
        """Return the step with the other claims, the nearest first, for the diagnosis."""
        own_key = checked_step.step.key
        order = {step.key: k for k, step in enumerate(self.problem.steps)}
        nearest = sorted(self.steps, key=lambda other: abs(order[other.step.key] - order[own_key]))
        other_claims = {
            other.step.key: other.copyable_values for other in nearest if other.step.key != own_key
        }
        return WrongStep(
            problem=self.problem,
            step=checked_step.step,
            first_cell=first_cell,
            texts=[
                ["?" if number is None else _format_claimed(number.text) for number in row]
                for row in checked_step.claim.numbers
            ],
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
            verdict="nothing to check" if self.verdict == "blank" else self.verdict,
            summary=". ".join((self._format_counts(), *self.notes)),
            mistakes=list(map(self._make_mistake_summary, self.wrong_cells)),
            assumption=self.assumption,
            notes=tuple(self.source_notes),
        )

    def _format_counts(self) -> str:
        """Format the counts: `1 mistake, 5 numbers follow from it, 57 right`."""
        num_mistakes, num_wrong = len(self.wrong_steps), self.counts["wrong"]
        parts = []
        if num_mistakes:
            mistakes = ngettext("{count} mistake", "{count} mistakes", num_mistakes)
            in_cells = gettext(" in {num_wrong} numbers", num_wrong=num_wrong)
            parts.append(mistakes + in_cells * (num_wrong != num_mistakes))
        if self.counts["follows"]:
            follows = self.counts["follows"]
            parts.append(
                ngettext(
                    "{count} number follows from it", "{count} numbers follow from it", follows
                )
                if num_mistakes == 1
                else ngettext(
                    "{count} number follows from them", "{count} numbers follow from them", follows
                )
            )
        others = {
            "right": gettext("{count} right", count=self.counts["right"]),
            "rounded": gettext("{count} rounded", count=self.counts["rounded"]),
            "blank": gettext("{count} blank", count=self.counts["blank"]),
        }
        parts += [text for verdict, text in others.items() if self.counts[verdict]]
        return ", ".join(parts) or gettext("nothing is claimed")

    @cached_property
    def notes(self) -> list[str]:
        """Remarks on what cannot be judged: `mixed cannot be judged closer without weights`."""
        notes = []
        for checked in self.steps:
            exact = self.problem.exact_matrices[checked.step.key].mid
            is_far = (checked.verdicts == "rounded") & ~checked.claimed_matrix.is_near(exact, 1.0)
            if is_far.any():
                sources = list_unclaimed_sources(self.problem, [checked.step])[:-1]
                names = [step.key for step in sources if not isinstance(step.op, Copy)]
                if names:
                    without = ", ".join(names)
                    notes.append(
                        gettext(
                            "{key} cannot be judged closer without {without}",
                            key=checked.step.key,
                            without=without,
                        )
                    )
        return notes

    def _make_panel(self, checked_step: CheckedStep) -> Panel:
        """Return a claimed step to display: numbers as written, verdicts and exact values."""
        step, claim, orient = checked_step.step, checked_step.claim, self.problem.orient
        panel = make_panel(
            self.problem,
            format_step_title(step, self.problem) + (gettext(", again") if claim.reprint else ""),
            make_step_formula(step, self.problem),
            self.problem.exact_matrices[step.key],
            step.row_axis,
            step.column_axis,
            6,
            step.labels,
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
                Cell(
                    text,
                    value,
                    verdict,
                    _format_note(verdict, exact.text, format_value(c, 6, step.labels)),
                )
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
        decimals = wrong_cell.distinguishing_decimals(6)
        expected = format_value(wrong_cell.judged_value, decimals, wrong_cell.labels)
        if wrong_cell.carried_value is not None:
            exact = format_value(wrong_cell.expected, decimals, wrong_cell.labels)
            expected += gettext(" from the numbers before it (exact: {exact})", exact=exact)
        return MistakeSummary(
            location=gettext(
                "{step}, row {row}, column {column}", step=title, row=row + 1, column=column + 1
            ),
            claimed=wrong_cell.claimed,
            expected=expected,
            working=self.working_formula(wrong_cell),
            causes=[
                CauseSummary(
                    c.name,
                    "" if c.name == UNKNOWN else c.reproduced_share,
                    c.description,
                    c.partner,
                )
                for c in wrong_cell.causes
            ],
        )

    def working_formula(self, wrong_cell: WrongCell) -> Formula:
        """Return a function that formats the arithmetic of the value that a cell is judged against.

        It has so many decimals that the result does not read like the claim.
        """
        row, column = wrong_cell.cell
        is_carried = wrong_cell.carried_value is not None
        env = self._env if is_carried else self.problem.exact_matrices

        def working(n: Notation) -> str:
            precise = type(n)(wrong_cell.distinguishing_decimals(n.decimals))
            return format_cell_working(
                self.problem, env, wrong_cell.key, row + 1, column + 1, precise
            )

        return working

    def summarize(self) -> str:
        """Return the first wrong cell with its causes, those of other steps, counts and notes."""
        counts = ". ".join((self._format_counts(), *self.notes))
        if self.verdict == "blank":
            lines = [gettext("nothing to check: no number is claimed")]
        elif self.first is None:
            lines = [f"{'✗' if self.reprinted_cells else '✓'} {counts}"]
        else:
            first, *others = map(self._make_mistake_summary, self.wrong_cells)
            lines = [
                gettext(
                    "✗ {location}: {claimed}, but it is {expected}: {causes}",
                    location=first.location,
                    claimed=first.claimed,
                    expected=first.expected,
                    causes=first.format_causes(),
                ),
                *(mistake.format_as_further(k) for k, mistake in enumerate(others, start=2)),
                counts,
            ]
        if self.assumption and self.verdict == "right":
            lines = [gettext("✓ right, if {assumption}", assumption=self.assumption), counts]
        elif self.assumption:
            lines.append(gettext("if {assumption}", assumption=self.assumption))
        return "\n  ".join((*lines, *self.source_notes))

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
            "mistakes": [wrong_cell.to_dict() for wrong_cell in self.wrong_cells],
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
            **({"notes": self.notes} if self.notes else {}),
            **self._describe_source(),
        }

    def _describe_source(self) -> dict[str, Any]:
        """Return the fields for reprints and for steps that are not judged, if there are any."""
        cells, unjudged = self.reprinted_cells, self.problem.unjudged
        fields: dict[str, Any] = {"reprints": [cell.to_dict() for cell in cells]} if cells else {}
        return fields | ({"not_judged": [*unjudged]} if unjudged else {})

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
        return gettext("exact: {exact}", exact=exact)
    return gettext(
        "exact: {exact}; from the numbers before it: {carried}",
        exact=exact,
        carried=carried_value,
    )


def _format_claimed(text: str) -> str:
    """Format a claimed number for prose: − and ∞ instead of - and inf."""
    return ("−" + text[1:] if text.startswith("-") else text).replace("inf", "∞")


def _describe_cause(cause: Cause) -> dict[str, Any]:
    """Return the fields of a cause in the JSON report."""
    data: dict[str, Any] = {"name": cause.name}
    if cause.partner is not None:
        data["with"] = cause.partner
    data |= {"reproduces": cause.reproduced_share, "says": cause.description}
    if cause.unexplained_cells:
        data["unexplained"] = [list(cell) for cell in cause.unexplained_cells]
    return data


def _to_json_value(value: float, labels: tuple[str, ...]) -> float | str:
    """Convert a value for JSON: labels, infinity and NaN become strings."""
    if labels:
        return get_label(value, labels)
    return value if math.isfinite(value) else str(value)
