"""The reports of a document: its examples with their verdicts, and what was not read."""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workings.problems.check import Report
from workings.problems.documents.entries import Entry
from workings.problems.documents.sources import Place, Source
from workings.problems.kinds.attention import resolve_scale
from workings.problems.problem import Problem
from workings.problems.problem_file import format_claim_path


@dataclass(frozen=True)
class Unread:
    """A matrix that was found and not read: where, what and why."""

    place: Place
    text: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON report."""
        return {"line": self.place, "text": self.text, "why": self.why}

    def describe(self) -> str:
        """Return a line: where, what and why."""
        return f"{format_places([self.place])}: {self.text}: {self.why}"


@dataclass
class ExampleReport:
    """A worked example of a document with its verdicts; `report` is None if none was possible."""

    place: Place
    kind: str
    report: Report | None
    reading: list[str]
    givens: list[str]
    entries: list[Entry]
    why: str = ""  # it is not judged, or not wholly
    other: Report | None = None  # under another reading, with another verdict
    problem: Problem | None = None  # before its numbers showed further conventions

    @property
    def verdict(self) -> str:
        """The verdict of the report; "not judged" without one, or if it leaves out steps."""
        if self.report is None or (self.why and self.report.verdict == "right"):
            return "not judged"
        if self.other is not None or self.report.verdict == "blank":
            return "not judged"
        return self.report.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON report: those of a problem file, and where it stands."""
        data: dict[str, Any] = {} if self.report is None else self.report.to_dict()
        if self.report is None:
            data = {"version": 1, "title": "", "verdict": "not judged", "first": None,
                    "mistakes": [], "steps": [], "why": self.why}  # fmt: skip
        elif self.why:
            data |= {"verdict": self.verdict, "why": self.why}
        if self.other is not None and self.report is not None:
            data["readings"] = [
                {"read_as": ", ".join(describe_reading(report.problem)), "verdict": report.verdict}
                for report in (self.report, self.other)
            ]
        return {
            **data,
            "line": self.place,
            "kind": self.kind,
            "given": self.givens,
            "read_as": ", ".join(self.reading),
        }

    def describe_place(self) -> str:
        """Return `line 4`, `page 1`, `Sheet!A1`."""
        return format_places([self.place])

    def list_reading(self) -> list[str]:
        """Return one line per number or matrix that was read: its place, name and evidence."""
        lines = []
        for entry in self.entries:
            part = f".{entry.part}" if entry.part is not None else ""
            row = f", row {entry.row + 1}" if entry.row is not None else ""
            row += f", column {entry.column + 1}" if entry.column is not None else ""
            shape = (
                "not readable" if entry.rows is None else f"{len(entry.rows)}×{len(entry.rows[0])}"
            )
            where, text = format_places([entry.statement.place]), entry.statement.text[:60]
            lines.append(f"{where}: {entry.role}{part}{row} ({shape}) by {entry.evidence}: {text}")
        return lines

    def to_table(self) -> dict[str, Any]:
        """Return the table of the problem file, with the conventions that its numbers show."""
        assert self.report is not None
        problem = self.report.problem
        table = {k: v for k, v in problem.table.items() if k not in ("given", "claim")}
        if problem.column_vectors:
            table["vectors"] = "columns"
        if problem.setting.causal:
            table["mask"] = "causal"
        if "scale" in problem.kind.settings and problem.setting.scale != "sqrt(d_k)":
            table["scale"] = problem.setting.scale
        return {
            **table,
            "given": problem.table["given"],
            "claim": self._list_certain_claims(problem),
        }

    def _list_certain_claims(self, problem: Problem) -> dict[str, Any]:
        """Return the claims of the problem file without those that are in doubt."""
        claim: dict[str, Any] = copy.deepcopy(problem.table.get("claim", {}))
        for key in self.report.problem.unjudged if self.report is not None else ():
            remove_nested(claim, format_claim_path(problem.kind, key).split("."))
        return claim

    def without_doubt(self) -> Problem | None:
        """Return the problem as it was read, without the claims that are in doubt."""
        if self.problem is None or self.report is None:
            return self.problem
        problem, doubtful = copy.copy(self.problem), self.report.problem.unjudged
        problem.table = {**problem.table, "claim": self._list_certain_claims(problem)}
        problem.claims = [claim for claim in problem.claims if claim.key not in doubtful]
        problem.unjudged = doubtful
        return problem

    def summarize(self) -> str:
        """Return the verdict in words, and how the example was read."""
        lines = [self.report.summarize()] if self.report is not None else []
        lines += [f"not judged: {self.why}"] if self.why else []
        lines += [f"read as: {', '.join(self.reading)}"] if self.reading else []
        if self.other is not None:
            reading = ", ".join(describe_reading(self.other.problem))
            lines.append(
                f"or: {self.other.summarize().splitlines()[0].strip()}, read as: {reading}"
            )
        return "\n  ".join(lines)


@dataclass
class DocumentReport:
    """The examples of a document, and what was not read."""

    examples: list[ExampleReport]
    unread: list[Unread]
    num_matrices: int
    num_judged: int
    unclaimed: list[ExampleReport] = field(default_factory=list)  # givens without any result
    source: Source = field(default_factory=Source)

    @property
    def verdict(self) -> str:
        """`wrong` if an example is, `blank` if nothing was judged, otherwise `right`."""
        verdicts = {example.verdict for example in self.examples}
        if "wrong" in verdicts:
            return "wrong"
        return "right" if "right" in verdicts else "blank"

    def summarize_counts(self) -> str:
        """Return the last line: `12 matrices found, 9 judged, 3 not read: lines 14, 80, 95`."""
        count = f"{self.num_matrices} {'matrix' if self.num_matrices == 1 else 'matrices'} found"
        line = f"{count}, {self.num_judged} judged"
        if not self.unread:
            return line
        return (
            f"{line}, {len(self.unread)} not read: {format_places([u.place for u in self.unread])}"
        )

    def to_json_lines(self, file: str) -> list[str]:
        """Return one report per example, then the counts of the document."""
        lines = []
        for example in self.examples:
            data = example.to_dict()
            lines.append(json.dumps({"version": data.pop("version"), "file": file, **data}))
        document = {
            "document": file,
            "matrices": self.num_matrices,
            "judged": self.num_judged,
            "unread": [unread.to_dict() for unread in self.unread],
        }
        return [*lines, json.dumps(document)]


def remove_nested(table: dict[str, Any], path: list[str]) -> bool:
    """Remove an item of nested tables; return False if there is none."""
    *outer, last = path
    for name in outer:
        if not isinstance(table.get(name), dict):
            return False
        table = table[name]
    return table.pop(last, None) is not None


def format_places(places: list[Place]) -> str:
    """Return `lines 14, 80, 95` or `page 2, slide 3`.

    >>> format_places([14, 80]), format_places([3]), format_places(["page 2"])
    ('lines 14, 80', 'line 3', 'page 2')
    """
    unique = list(dict.fromkeys(places))
    listed = ", ".join(str(place) for place in unique[:12]) + (", …" if len(unique) > 12 else "")
    if isinstance(unique[0], int):
        return f"{'lines' if len(unique) > 1 else 'line'} {listed}"
    return listed


def describe_reading(problem: Problem) -> list[str]:
    """Return the conventions that a problem was read with: rows, ÷√3, causal."""
    setting, kind = problem.setting, problem.kind
    reading = [kind.name] if kind.name != "attention" else []
    reading.append("columns" if problem.column_vectors else "rows")
    if "scale" in kind.settings:
        divisor, radicand = resolve_scale(problem.sizes, setting)
        scale = (
            "not scaled"
            if divisor is None
            else f"÷√{radicand:g}"
            if radicand
            else f"÷{divisor:.4g}"
        )
        reading.append(scale)
        if setting.causal or (setting.mask is not None and _is_causal(setting.mask)):
            reading.append("causal")
        elif setting.mask is not None:
            reading.append("masked")
        if setting.heads > 1:
            reading.append(f"{setting.heads} heads")
        if setting.normalizer != "softmax":
            reading.append(setting.normalizer)
    if "activation" in kind.settings and setting.activation != "relu":
        reading.append(setting.activation)
    return reading


def _is_causal(mask: Any) -> bool:
    shape = mask.shape
    return bool((mask == np.tril(np.ones(shape, dtype=np.bool_), shape[1] - shape[0])).all())
