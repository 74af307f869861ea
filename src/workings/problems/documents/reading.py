"""Read a document and judge each of its worked examples."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import UserError
from workings.problems.check import Report
from workings.problems.diagnosis import UNKNOWN
from workings.problems.documents.assembly import Assembly, AttentionAssembler
from workings.problems.documents.chains import Statement, find_statements
from workings.problems.documents.entries import Entry, get_symbol
from workings.problems.documents.examples import Example, find_place, split_examples
from workings.problems.documents.formulas import normalize_name
from workings.problems.documents.layer_assembly import LayerAssembler
from workings.problems.documents.matrices import MAX_TEXT_CHARS
from workings.problems.documents.sources import Place, Source, read_source
from workings.problems.documents.sources.formats import MAX_DOCUMENT_BYTES
from workings.problems.documents.value_names import (
    compute_share,
    count_fits,
    may_be_a_step,
    name_by_value,
)
from workings.problems.kinds.attention import resolve_scale
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    ProblemReader,
    format_claim_path,
    parse_problem_toml,
    prefix_errors,
    set_nested,
)

_CLAIM_ERROR = re.compile(r"claim\.(?:again\.(\d+)\.)?([\w.]+)")
_MAX_EXAMPLES = 400
_MAX_INTRODUCTION = 4  # sections


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
    problem: Problem | None = None  # before its numbers showed further conventions

    @property
    def verdict(self) -> str:
        """The verdict of the report; "not judged" without one, or if it leaves out steps."""
        if self.report is None or (self.why and self.report.verdict == "right"):
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
        return {**table, "given": problem.table["given"], "claim": problem.table.get("claim", {})}

    def summarize(self) -> str:
        """Return the verdict in words, and how the example was read."""
        lines = [self.report.summarize()] if self.report is not None else []
        lines += [f"not judged: {self.why}"] if self.why else []
        lines.append(f"read as: {', '.join(self.reading)}")
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


def load_document(path: str | Path, **settings: Any) -> DocumentReport:
    """Read and judge a document file, or standard input for `-`; errors name the file."""
    with prefix_errors(path):
        try:
            if str(path) == "-":
                content = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
            else:
                with Path(path).open("rb") as file:
                    content = file.read(MAX_DOCUMENT_BYTES + 1)
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            raise UserError(f"{getattr(error, 'strerror', None) or error}") from None
        return read_document(content, str(path), **settings)


def read_document(content: bytes, name: str = "", **settings: Any) -> DocumentReport:
    """Read a document of any format and judge its examples; `settings` hold for all of them."""
    source = read_source(content, name)
    return judge_source(source, settings)


def read_problem(text: str, **settings: Any) -> Problem:
    """Return the problem of a text with a single worked example; settings as in a problem file."""
    document = judge_source(_read_text(text), settings)
    examples = document.examples or document.unclaimed
    problems = [e.problem for e in examples if e.problem is not None]
    if len(problems) == 1:
        return problems[0]
    if problems:
        places = format_places([example.place for example in document.examples])
        raise UserError(f"{len(problems)} worked examples ({places}): expected a single problem")
    whys = [example.why for example in document.examples if example.why]
    whys += [unread.describe() for unread in document.unread]
    raise UserError(whys[0] if whys else "no worked example found: expected X = …, W_Q = …, Q = …")


def _read_text(text: str) -> Source:
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    return read_source(text.encode("utf-8", "replace"))


def judge_source(source: Source, settings: Mapping[str, Any]) -> DocumentReport:
    """Judge the examples of a source."""
    declared = _read_settings(source)
    settings = {**declared, **settings}
    statements = find_statements(source)
    settings, ignored, kind = _take_reader_settings(settings)
    for statement in statements:
        symbol = get_symbol(statement)
        if symbol is not None and normalize_name(symbol.text) in ignored:
            statement.value, statement.problem = None, "it is ignored"
    examples = split_examples(source, statements, kind)
    texts = _collect_texts(source)
    reports, unread, used = [], list[Unread](), set[int]()
    for example in examples[:_MAX_EXAMPLES]:
        sections = [*_find_introduction(example, examples), *example.sections]
        text = "\n".join(texts[section] for section in sections)
        judge = _ExampleJudge(source, example, text, settings)
        report = judge.judge()
        unread += judge.unread
        used |= judge.used
        if report is not None:
            reports.append(report)
    unread = _sort_unread(unread)
    with_claims = [r for r in reports if r.report is not None or r.why]
    others = [r for r in reports if r.report is None and not r.why]
    count = len(used) + len(unread)
    return DocumentReport(with_claims, unread, count, len(used), others, source)


def _find_introduction(example: Example, examples: list[Example]) -> list[int]:
    """Return the sections right before an example that have no numbers: titles and remarks."""
    taken = {section for other in examples for section in other.sections if other.entries}
    first = min(example.sections)
    before = list(takewhile(lambda s: s not in taken, range(first - 1, -1, -1)))
    return before[:_MAX_INTRODUCTION][::-1]


def _take_reader_settings(
    settings: Mapping[str, Any],
) -> tuple[dict[str, Any], set[str], str | None]:
    """Return the settings of problems, the names that are not read, and the kind if it is given."""
    rest = dict(settings)
    ignored, kind = rest.pop("ignore", []), rest.pop("kind", None)
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise UserError('ignore must be a list of names: ["P"]')
    if kind is not None:
        kind = ProblemReader({"kind": kind}).read_kind().name
    return rest, {normalize_name(name) for name in ignored}, kind


def _read_settings(source: Source) -> dict[str, Any]:
    try:
        return parse_problem_toml("\n".join(source.settings))
    except UserError as error:
        raise UserError(f"settings in a comment: {error}") from None


def _collect_texts(source: Source) -> list[str]:
    texts: list[list[str]] = [[]]
    for line in source.lines:
        if line.level:
            texts.append([])
        texts[-1].append(line.text)
    return ["\n".join(lines) for lines in texts]


def _sort_unread(unread: list[Unread]) -> list[Unread]:
    unique = {(str(u.place), u.text, u.why): u for u in unread}
    return sorted(
        unique.values(),
        key=lambda u: (isinstance(u.place, str), u.place if isinstance(u.place, int) else 0),
    )


class _ExampleJudge:
    """Builds the problem of an example, checks it and says what could not be judged."""

    def __init__(
        self, source: Source, example: Example, text: str, settings: Mapping[str, Any]
    ) -> None:
        self._source, self._example, self._text, self._settings = source, example, text, settings
        self.unread: list[Unread] = []
        self.why = ""  # claims that do not fit the problem
        self.used: set[int] = set()

    def judge(self) -> ExampleReport | None:
        """Return the report of the example; None if it has nothing to judge."""
        report = self._judge()
        for statement in self._example.bare:
            rows = statement.value
            is_matrix = rows is None or len(rows) > 1 or len(statement.elements) > 1
            if statement.value_grid >= 0 and is_matrix:
                self._add_unread(statement, statement.problem or "no name for it")
        return report

    def _judge(self) -> ExampleReport | None:
        example = self._example
        for entry in example.entries:
            if entry.rows is None and entry.problem:
                self._add_unread(entry.statement, entry.problem)
        if not example.entries:
            return None
        place = find_place(example, self._source)
        try:
            assembly, problem = self._assemble()
        except UserError as error:
            if not example.claims:
                return None
            self._reject_all(str(error))
            return ExampleReport(place, example.kind, None, [], [], example.entries, str(error))
        if not problem.claims:
            self.used.clear()
            return ExampleReport(place, example.kind, None, [], assembly.givens, [], "", problem)
        report = self._check(assembly, problem)
        cells = sum(report.counts.values()) - report.counts["blank"]
        num_off = report.counts["wrong"] + report.counts["follows"]
        if num_off * 4 > cells and self._may_be_given():
            assembly, problem, report = self._check_as_given(assembly, problem, report)
        while self.why and self._is_doubtful(report):
            report = self._withdraw(problem, report)
        self._mark_judged()
        reading = describe_reading(report.problem)
        return ExampleReport(
            place,
            example.kind,
            report,
            reading,
            assembly.givens,
            example.entries,
            self.why,
            problem,
        )

    def _assemble(self) -> tuple[Assembly, Problem]:
        """Return the problem; Q, K and V that no earlier X leads to are given."""
        example = self._example
        try:
            result = self._assemble_once()
        except UserError:
            if not self._may_be_given():
                raise
        else:
            if not self._may_be_given() or not _has_foreign_queries(result[1]):
                return result
        inherited, unread = example.inherited, list(self.unread)
        example.inherited = []
        try:
            return self._assemble_once()
        except UserError:
            example.inherited, self.unread = inherited, unread
            raise

    def _check_as_given(
        self, assembly: Assembly, problem: Problem, report: Report
    ) -> tuple[Assembly, Problem, Report]:
        """Return the check with Q, K and V as givens, if they come from no X of this document."""
        inherited, self._example.inherited = self._example.inherited, []
        try:
            other = self._assemble_once()
            checked = self._check(*other)
        except UserError:
            self._example.inherited = inherited
            return assembly, problem, report
        if checked.counts["wrong"] < report.counts["wrong"]:
            return *other, checked
        self._example.inherited = inherited
        return assembly, problem, report

    def _assemble_once(self) -> tuple[Assembly, Problem]:
        assembler = AttentionAssembler if self._example.kind == "attention" else LayerAssembler
        assembly = assembler(self._example, self._text, self._settings).assemble()
        problem = self._build(assembly)
        if _settle_scores(assembly, problem):
            problem = self._build(assembly)
        return assembly, self._name_by_value(assembly, problem)

    def _name_by_value(self, assembly: Assembly, problem: Problem) -> Problem:
        """Return the problem with claims that only their numbers name."""
        problem, renamed = self._free_misnamed(assembly, problem)
        names = name_by_value(problem, self._example.bare)
        for path, statement in names:
            assert statement.value is not None
            set_nested(assembly.table["claim"], path.split("."), statement.value)
            role, part = path.rpartition(".")[2], path.split(".")[1] if "." in path else None
            entry = Entry(role, statement.value, statement, "value", int(part) if part else None)
            self._example.entries.append(entry)
            self._example.bare.remove(statement)
        problem = self._build(assembly) if names else problem
        for path in sorted(renamed - {path for path, _ in names}):
            self.why = f"a matrix may be {path} or another step"
        for statement in self._example.bare:
            is_named = len([e for e in statement.elements if e]) > 1
            if (
                statement.value
                and is_named
                and may_be_a_step(problem, statement.value)
                and statement.value_grid >= 0
            ):
                self.why = self.why or f"{statement.text} has no known name"
        return problem

    def _free_misnamed(self, assembly: Assembly, problem: Problem) -> tuple[Problem, set[str]]:
        """Return the problem without claims that only a letter names and that are another step.

        Their statements become unnamed; the paths that they were claimed as are returned, too.
        """
        claimed = {claim.key for claim in problem.claims}
        others = [
            problem.orient(problem.exact_matrices[step.key].mid)
            for step in problem.steps
            if step.is_claimable and step.is_shown and step.key not in claimed
        ]
        freed: set[str] = set()
        for entry in list(self._example.claims):
            key = entry.role if entry.part is None else f"{entry.role}.{entry.part}"
            is_letter = entry.evidence == "letter" and entry.statement.value_grid >= 0
            if not is_letter or entry.rows is None or key not in claimed or entry.row is not None:
                continue
            own = problem.orient(problem.exact_matrices[key].mid)
            is_other = any(compute_share(entry.rows, other) >= 0.9 for other in others)
            if (
                entry.role in ("Q", "K", "V")
                or compute_share(entry.rows, own) > 0.34
                or not is_other
            ):
                continue
            path = format_claim_path(problem.kind, key)
            if _remove(assembly.table["claim"], path.split(".")):
                self._example.entries.remove(entry)
                self._example.bare.append(entry.statement)
                freed.add(path)
        return (self._build(assembly) if freed else problem), freed

    def _may_be_given(self) -> bool:
        """Return True if Q, K and V are printed in an example that has no X of its own."""
        roles = {entry.role for entry in self._example.entries}
        return {"Q", "K", "V"} <= roles and "X" not in roles and bool(self._example.inherited)

    def _add_unread(self, statement: Statement, why: str) -> None:
        grid = statement.value_grid
        place = self._source.grids[grid].place if grid >= 0 else statement.place
        line = self._source.lines[statement.line].text
        text = re.sub("\ue000\\d+\ue001", "[…]", line).replace("\v", " ")
        self.unread.append(Unread(place, " ".join(text.split())[:120], why))

    def _reject_all(self, why: str) -> None:
        for entry in self._example.entries:
            if not entry.is_factor and entry.rows is not None:
                self._add_unread(entry.statement, why)

    def _build(self, assembly: Assembly) -> Problem:
        """Return the problem; claims that do not fit are left out and told."""
        options = ["rows", "columns"] if "vectors" not in assembly.table else [None]
        results: list[tuple[int, Problem, list[tuple[str, str]], dict[str, Any]]] = []
        error: UserError | None = None
        for vectors in options:
            table = dict(assembly.table)
            if vectors == "columns":
                table["vectors"] = "columns"
            try:
                problem, dropped = _build_without_misfits(table, assembly)
            except UserError as failure:
                error = error or failure
                continue
            results.append((len(dropped), problem, dropped, table))
        if not results:
            assert error is not None
            raise error
        _, problem, dropped, table = min(results, key=lambda result: result[0])
        if table.get("vectors") == "columns" and options != [None]:
            problem.assumption = 'each token is a column: declare vectors = "columns"'
        assembly.table = table
        misfits = [why for _, why in dropped if "no such step" not in why]
        self.why = misfits[0] if misfits else ""
        for path, why in dropped:
            for entry in self._example.claims:
                if _matches(entry, path) and not entry.is_factor:
                    self._add_unread(entry.statement, why)
        return problem

    def _check(self, assembly: Assembly, problem: Problem) -> Report:
        """Check the problem; numbers that depend on something unreadable are never wrong."""
        report = problem.check()
        if assembly.possible_scale and "scale" in problem.undeclared and report.counts["wrong"]:
            other = _build_without_misfits(
                {**assembly.table, "scale": assembly.possible_scale}, assembly
            )
            scaled = other[0].check()
            if scaled.counts["wrong"] < report.counts["wrong"]:
                problem, report = other[0], scaled
        for _ in range(len(problem.claims) + 1):
            wrong = report.wrong_steps
            doubtful = [
                (checked, why)
                for checked in wrong
                if (why := assembly.doubtful.get(checked.step.name.rpartition(".")[2]))
            ]
            if not doubtful:
                break
            keys = {checked.step.key for checked, _ in doubtful}
            problem.unjudged = {
                **problem.unjudged,
                **{checked.step.key: why for checked, why in doubtful},
            }
            problem.claims = [claim for claim in problem.claims if claim.key not in keys]
            report = problem.check()
        return report

    def _is_doubtful(self, report: Report) -> bool:
        """Return True if the first wrong number may be wrong only as it was read.

        Some of the example was not read, and no known mistake explains the number, or only a
        letter names its step.
        """
        first = report.first
        if first is None:
            return False
        evidence = {e.evidence for e in self._example.entries if e.role == first.step}
        is_certain = first.step in ("Q", "K", "V") or not evidence <= {"letter", "value"}
        return first.causes[0].name == UNKNOWN or not is_certain

    def _withdraw(self, problem: Problem, report: Report) -> Report:
        """Return the report without the steps that are wrong, perhaps only as they were read."""
        keys = {checked.step.key for checked in report.wrong_steps}
        problem.unjudged = {**problem.unjudged, **dict.fromkeys(keys, self.why)}
        problem.claims = [claim for claim in problem.claims if claim.key not in keys]
        return problem.check()

    def _mark_judged(self) -> None:
        for entry in (*self._example.entries, *self._example.inherited):
            if entry.rows is not None and not any(
                u.place == entry.statement.place
                and not entry.is_factor
                and u.why != "no name for it"
                for u in self.unread
            ):
                self.used.add(id(entry.statement))


def _has_foreign_queries(problem: Problem) -> bool:
    """Return True if nearly all numbers of Q, K and V are wrong: they come from another X."""
    exact, printed = problem.exact_matrices, {c.key: c.numbers for c in problem.claims}
    names = [name for name in ("Q", "K", "V") if name in printed]
    cells = sum(len(row) for name in names for row in printed[name])
    fits = sum(count_fits(printed[name], exact[name].mid) for name in names)
    return len(names) >= 2 and fits * 3 < cells


def _settle_scores(assembly: Assembly, problem: Problem) -> bool:
    """Decide by the numbers whether scores are printed before or after the division.

    That matters where only a letter names them: S in A = softmax(S). Return True if the table has
    changed.
    """
    if (
        problem.kind.name != "attention"
        or "scale" in assembly.table
        or "scale" in assembly.declared
    ):
        return False
    claim, changed = assembly.table["claim"], False
    for table in (claim, *claim.get("head", {}).values()):
        if "scores" not in table or "scaled" in table or "scores" not in assembly.lettered:
            continue
        key = (
            "scores"
            if table is claim
            else f"scores.{next(k for k, v in claim['head'].items() if v is table)}"
        )
        printed = next((c for c in problem.claims if c.key == key), None)
        if printed is None:
            continue
        exact = problem.exact_matrices
        fits = {
            name: count_fits(printed.numbers, exact[key.replace("scores", name)].mid)
            for name in ("scores", "scaled")
        }
        if fits["scaled"] > fits["scores"]:
            table["scaled"] = table.pop("scores")
            changed = True
        elif fits["scores"] > fits["scaled"] and assembly.has_plain_softmax:
            assembly.table["scale"] = "none"
            changed = True
    return changed


def _build_without_misfits(
    table: dict[str, Any], assembly: Assembly
) -> tuple[Problem, list[tuple[str, str]]]:
    dropped: list[tuple[str, str]] = []
    for _ in range(200):
        assembly.table = table
        try:
            return assembly.build(), dropped
        except UserError as error:
            match = _CLAIM_ERROR.search(str(error))
            if match is None:
                raise
            path = match[2].rstrip(".")
            claim = table["claim"]
            where = claim["again"][int(match[1]) - 1] if match[1] else claim
            if not _remove(where, path.split(".")):
                raise
            dropped.append((path, str(error).removeprefix("claim.")))
    raise UserError("too many of its numbers do not fit together")


def _remove(table: dict[str, Any], path: list[str]) -> bool:
    *outer, last = path
    for name in outer:
        if not isinstance(table.get(name), dict):
            return False
        table = table[name]
    return table.pop(last, None) is not None


def _matches(entry: Entry, path: str) -> bool:
    *outer, role = path.split(".")
    part = int(outer[-1]) if outer and outer[-1].isdigit() else None
    return entry.role == role and (entry.part == part or part is None)


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
