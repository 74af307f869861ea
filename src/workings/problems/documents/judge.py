"""Judge one example of a document: build its problem, check it, say what is left in doubt."""

import copy
import re
from collections.abc import Mapping
from typing import Any

from workings.errors import UserError
from workings.problems.check import Report
from workings.problems.diagnosis import UNKNOWN
from workings.problems.documents.assembly import Assembly, AttentionAssembler
from workings.problems.documents.chains import Statement
from workings.problems.documents.entries import Entry, get_symbol
from workings.problems.documents.examples import Example, find_place
from workings.problems.documents.layer_assembly import LayerAssembler
from workings.problems.documents.layer_names import find_step_of_letter
from workings.problems.documents.placement import find_unplaced
from workings.problems.documents.reports import (
    ExampleReport,
    Unread,
    describe_reading,
    remove_nested,
)
from workings.problems.documents.sources import Source
from workings.problems.documents.value_names import (
    compute_share,
    count_fits,
    is_leading,
    list_possible_steps,
    may_be_a_step,
    name_by_value,
)
from workings.problems.documents.words import (
    find_other_method,
    mentions_mask,
    mentions_scaling,
    says_sample_variance,
    says_unscaled,
)
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    format_claim_path,
    set_nested,
)

_CLAIM_ERROR = re.compile(r"claim\.(?:again\.(\d+)\.)?([\w.]+)")
# So many wrong numbers of a step, and half of them, may be another one's; with a formula.
_MIN_MISREAD = {False: 3, True: 6}
_SCORES = frozenset({"scores", "scaled", "masked"})
_AFTER_SCORES = frozenset({"scaled", "masked", "weights", "mixed", "output"})
_MAX_TRIALS = 12  # matrices without a name that are tried as each step


class ExampleJudge:
    """Builds the problem of an example, checks it and says what could not be judged."""

    def __init__(
        self, source: Source, example: Example, text: str, settings: Mapping[str, Any]
    ) -> None:
        self._source, self._example, self._text, self._settings = source, example, text, settings
        self.unread: list[Unread] = []
        self.why = ""  # claims that do not fit the problem
        self.used: set[int] = set()
        self._is_other = False  # what is wrong is stated to be on purpose

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
            if not example.claims or _is_no_example(example):
                self._reject_all("no example of which it is a part")
                return None
            self._reject_all(str(error))
            return ExampleReport(place, example.kind, None, [], [], example.entries, str(error))
        if not problem.claims:
            self.used.clear()
            givens, entries = assembly.givens, example.entries
            return ExampleReport(place, example.kind, None, [], givens, entries, problem=problem)
        claims = example.claims if example.kind != "positions" else []  # those lose a counter
        for entry in find_unplaced(claims, assembly.table):
            self._add_unread(entry.statement, "its numbers fit no step where they stand")
            self.why = self.why or f"{entry.statement.text or entry.role} fits no step"
        report = self._check(assembly, problem)
        cells = sum(report.counts.values()) - report.counts["blank"]
        num_off = report.counts["wrong"] + report.counts["follows"]
        is_foreign = any("does not fit" in why for why in assembly.unjudged.values())
        if (num_off * 4 > cells or is_foreign) and self._may_be_given():
            assembly, problem, report = self._check_as_given(assembly, problem, report)
        if self._rests_on_values(report):
            self.why = self.why or "only its numbers name the matrix that may be wrong"
        if unread := self._find_unread_before(report):
            self.why = self.why or f"{unread.text} has no known name"
        self.why = self.why or self._find_other_reading(report)
        is_withdrawn = False
        while self.why and report.first and (is_withdrawn or self._is_doubtful(report)):
            report, is_withdrawn = self._withdraw(problem, report), True  # then what follows, too
        self._mark_judged()
        self.why = self.why or self._describe_unreadable_step()
        other = self._check_in_rows(assembly, report) or self._check_as_said(
            assembly, problem, report
        )
        if other is not None:
            self.why = self.why or "two readings differ in their verdicts"
        reading = describe_reading(report.problem)
        return ExampleReport(
            place,
            example.kind,
            report,
            reading,
            assembly.givens,
            example.entries,
            self.why,
            other,
            problem,
        )

    def _find_stated(self) -> str:
        """Return the text from the heading of the first number to the first weights."""
        own = [e.statement.line for e in self._example.entries if not e.is_factor]
        after = {"weights", "mixed", "output"}
        ends = [e.statement.line for e in self._example.entries if e.role in after]
        if not own:
            return ""
        start, lines = min(own), self._source.lines
        while start > 0 and not lines[start].level:
            start -= 1
        stop = min(ends, default=max(own)) + 1
        return "\n".join(line.text for line in lines[start:stop])

    def _describe_unreadable_step(self) -> str:
        """Return why the example is not wholly judged: a step is printed and cannot be read."""
        read = {entry.key for entry in self._example.claims if entry.rows is not None}
        for entry in self._example.claims:
            if entry.rows is None and entry.problem and entry.key not in read:
                return f"{entry.role} could not be read: {entry.problem}"
        return ""

    def _check_in_rows(self, assembly: Assembly, report: Report) -> Report | None:
        """Return the report with tokens as rows, if only numbers show that they are columns.

        None if nothing is wrong in rows, or if no known mistake explains what is: then the numbers
        leave no doubt.
        """
        is_open = not {"vectors"} & (assembly.declared | self._settings.keys())
        if not (is_open and report.problem.column_vectors and report.verdict == "right"):
            return None
        try:
            table = copy.deepcopy({**assembly.table, "vectors": "rows"})
            rows, _ = _build_without_misfits(table, assembly)
            other = rows.check()
        except UserError:
            return None
        first = other.first
        return None if first is None or first.causes[0].name == UNKNOWN else other

    def _check_as_said(self, assembly: Assembly, problem: Problem, report: Report) -> Report | None:
        """Return the report with a scale or mask that the text speaks of, unlike the numbers.

        None if the verdict is the same.
        """
        if problem.kind.name != "attention" or report.verdict != "right":
            return None
        text, table, setting = self._find_stated(), dict(assembly.table), report.problem.setting
        is_said = mentions_scaling(text) and not says_unscaled(text)
        is_other = setting.scale not in (problem.setting.scale, assembly.possible_scale)
        if is_said and "scale" in problem.undeclared and is_other:
            table["scale"] = "sqrt(d_k)"
        is_unmasked = setting.mask is None and not setting.causal
        is_masked = assembly.adds_mask or mentions_mask(text)
        if is_unmasked and "mask" in problem.undeclared and is_masked:
            table["mask"] = "causal"
        if table == assembly.table:
            return None
        try:
            other = _build_without_misfits(copy.deepcopy(table), assembly)[0].check()
        except UserError:
            return None
        return other if other.verdict == "wrong" else None

    def _assemble(self) -> tuple[Assembly, Problem]:
        """Return the problem; Q, K and V that no earlier X leads to are given."""
        example = self._example
        try:
            result = self._assemble_once()
        except UserError:
            if self._has_stray_x():
                start = min(e.statement.line for e in example.entries if e.role in ("Q", "K", "V"))
                example.entries = [
                    e for e in example.entries if e.role != "X" and e.statement.line >= start
                ]
                return self._assemble_once()
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
        text, stated = self._text, self._find_stated()
        assembly = assembler(self._example, text, self._settings, stated).assemble()
        problem = self._build(assembly)
        if _settle_scores(assembly, problem):
            problem = self._build(assembly)
        return assembly, self._name_by_value(assembly, problem)

    def _name_by_value(self, assembly: Assembly, problem: Problem) -> Problem:
        """Return the problem with claims that only their numbers name."""
        problem, freed = self._free_misnamed(assembly, problem)
        bare = [s for s in self._example.bare if not self._is_copy(s)]
        names = name_by_value(problem, bare, self._list_steps_of_letter)
        names += self._name_by_trial(assembly, problem, names)
        for path, statement in names:
            assert statement.value is not None
            set_nested(assembly.table["claim"], path.split("."), statement.value)
            role, part = path.rpartition(".")[2], path.split(".")[1] if "." in path else None
            entry = Entry(role, statement.value, statement, "value", int(part) if part else None)
            self._example.entries.append(entry)
            self._example.bare.remove(statement)
        problem = self._build(assembly) if names else problem
        named = {id(statement) for _, statement in names}
        for path, statement in freed.items():
            symbol = get_symbol(statement)
            if symbol is not None and len(symbol.base) > 2:  # a word, and not a letter
                self.why = (
                    self.why or f"{statement.text} has the numbers of another step than {path}"
                )
        for path in sorted(path for path, statement in freed.items() if id(statement) not in named):
            self.why = f"a matrix may be {path} or another step"
        for statement in self._example.bare:
            if not statement.value or statement.value_grid < 0:
                continue
            if self._example.names is not None and self._example.names.is_summand(statement):
                continue
            if self._list_steps_of_letter(statement):
                self.why = self.why or f"nothing says when {statement.text} is"
            is_named = len([e for e in statement.elements if e]) > 1
            is_open = is_named or self._is_unexplained(statement)
            if is_open and may_be_a_step(problem, statement.value):
                what = statement.text if is_named else "a matrix"
                self.why = self.why or f"{what} has no known name"
        return problem

    def _list_steps_of_letter(self, statement: Statement) -> set[str]:
        """Return the step that the letter of a statement is, if the kind has fixed letters."""
        step = find_step_of_letter(self._example.kind, statement)
        return {step} if step else set()

    def _is_unexplained(self, statement: Statement) -> bool:
        """Return True for a matrix among those of the example that repeats none of them."""
        entries = self._example.entries
        lines = [entry.statement.line for entry in entries if not entry.is_factor]
        if len(statement.value or []) < 2 or not lines or not min(lines) < statement.line:
            return False
        is_near = any(entry.statement.section == statement.section for entry in entries)
        return is_near and not self._is_copy(statement)

    def _is_copy(self, statement: Statement) -> bool:
        """Return True if a matrix repeats one of the example, perhaps transposed."""
        rows = statement.value or []
        turned = [list(row) for row in zip(*rows, strict=True)]
        entries = (*self._example.entries, *self._example.inherited)
        return any(entry.rows in (rows, turned) for entry in entries if entry.rows)

    def _name_by_trial(
        self, assembly: Assembly, problem: Problem, names: list[tuple[str, Statement]]
    ) -> list[tuple[str, Statement]]:
        """Return the paths of steps whose numbers, as they follow from the claims, are unnamed."""
        results: list[tuple[str, Statement]] = []
        taken = {path for path, _ in names}
        known = {id(statement) for _, statement in names}
        bare = [
            s
            for s in self._example.bare
            if s.value_grid >= 0 and id(s) not in known and not self._is_copy(s)
        ]
        for statement in bare[:_MAX_TRIALS]:
            shares: list[tuple[float, str]] = []
            steps = self._list_steps_of_letter(statement)
            for path in list_possible_steps(problem, statement):
                if path not in taken and (not steps or path.rpartition(".")[2] in steps):
                    shares.append((self._try_name(assembly, path, statement), path))
            shares.sort(reverse=True)
            if shares and is_leading([share for share, _ in shares]):
                taken.add(shares[0][1])
                results.append((shares[0][1], statement))
        return results

    def _try_name(self, assembly: Assembly, path: str, statement: Statement) -> float:
        """Return the share of the numbers that are not wrong if they are those of a step."""
        claim = copy.deepcopy(assembly.table["claim"])
        assert statement.value is not None
        set_nested(claim, path.split("."), statement.value)
        try:
            report = Problem(**{**assembly.table, "claim": claim}).check()
        except UserError:
            return 0.0
        for step in report.steps:
            if format_claim_path(report.problem.kind, step.claim.key) == path:
                return float((step.verdicts != "wrong").mean())
        return 0.0

    def _free_misnamed(
        self, assembly: Assembly, problem: Problem
    ) -> tuple[Problem, dict[str, Statement]]:
        """Return the problem without claims that only a letter names and that are another step.

        Their statements become unnamed; they are returned by the path that they were claimed as.
        """
        claimed = {claim.key for claim in problem.claims}
        others = [
            problem.orient(problem.exact_matrices[step.key].mid)
            for step in problem.steps
            if step.is_claimable and step.is_shown and step.key not in claimed
        ]
        freed: dict[str, Statement] = {}
        for entry in list(self._example.claims):
            key = entry.role if entry.part is None else f"{entry.role}.{entry.part}"
            has_formula = len([e for e in entry.statement.elements if len(e) > 1]) > 0
            is_letter = entry.evidence == "letter" and entry.statement.value_grid >= 0
            is_weak = entry.evidence == "caption" and entry.role in ("scaled", "masked")
            is_letter = (is_letter or is_weak) and not has_formula
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
            if remove_nested(assembly.table["claim"], path.split(".")):
                self._example.entries.remove(entry)
                self._example.bare.append(entry.statement)
                freed[path] = entry.statement
        return (self._build(assembly) if freed else problem), freed

    def _has_stray_x(self) -> bool:
        """Return True if Q, K and V are printed and no weight is: an x of something else."""
        roles = {e.role for e in self._example.entries}
        return {"Q", "K", "V", "X"} <= roles and not roles & {"W_Q", "W_K", "W_V"}

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
        """Return the problem; claims that do not fit are left out and reported."""
        options = ["rows", "columns"] if "vectors" not in assembly.table else [None]
        results: list[tuple[int, Problem, list[tuple[str, str]], dict[str, Any]]] = []
        error: UserError | None = None
        for vectors in options:
            table = copy.deepcopy(
                assembly.table
            )  # each option drops the claims that it cannot have
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
        mask = "causal" if assembly.has_unknown_mask else None
        for name, value in (("scale", assembly.possible_scale), ("mask", mask)):
            if value and name in problem.undeclared and report.counts["wrong"]:
                table = copy.deepcopy({**assembly.table, name: value})
                try:
                    other, _ = _build_without_misfits(table, assembly)
                except UserError:
                    continue
                read = other.check()
                if read.counts["wrong"] < report.counts["wrong"]:
                    problem, report = other, read
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
            problem = copy.copy(problem)  # as it was read, it still has all of its claims
            problem.unjudged = {
                **problem.unjudged,
                **{checked.step.key: why for checked, why in doubtful},
            }
            problem.claims = [claim for claim in problem.claims if claim.key not in keys]
            report = problem.check()
        return report

    def _rests_on_values(self, report: Report) -> bool:
        """Return True if only its numbers name the first wrong step, and no mistake explains it."""
        first = report.first
        if first is None or first.causes[0].name != UNKNOWN:
            return False
        entries = [e for e in self._example.entries if e.role == first.step]
        return bool(entries) and all(entry.evidence == "value" for entry in entries)

    def _find_unread_before(self, report: Report) -> Statement | None:
        """Return a matrix with a letter that no step has, printed before the first wrong one."""
        first = report.first
        entries = self._example.entries
        lines = [e.statement.line for e in entries if first and e.role == first.step]
        names = self._example.names
        unread = (
            statement
            for statement in self._example.bare
            if statement.value_grid >= 0
            and get_symbol(statement) is not None
            and statement.line < min(lines, default=0)
            and statement.section in self._example.sections
            and not (names is not None and names.is_summand(statement))
        )
        return next(unread, None)

    def _find_other_reading(self, report: Report) -> str:
        """Return why what is wrong may be something else, computed in a way that is not judged."""
        first = report.first
        if first is None:
            return ""
        name = first.causes[0].name
        if name == "variance-over-n-minus-1" and says_sample_variance(self._text):
            self._is_other = True
            return "the text says that the variance is divided by n − 1"
        checked = report.wrong_steps[0]
        num_wrong = int((checked.verdicts == "wrong").sum())
        if name != UNKNOWN:
            return ""
        by_formula = any(
            e.evidence == "formula" for e in self._example.entries if e.role == first.step
        )
        if num_wrong >= _MIN_MISREAD[by_formula] and num_wrong * 2 >= checked.verdicts.size:
            return f"most numbers of {first.step} differ: it may be something else"
        words = find_other_method(self._text) if first.step in _AFTER_SCORES else ""
        is_read = words.startswith("temper") and "scale" not in report.problem.undeclared
        if words and not is_read:
            return f"the text speaks of another way: {words}"
        return ""

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
        return first.causes[0].name == UNKNOWN or not is_certain or self._is_other

    def _withdraw(self, problem: Problem, report: Report) -> Report:
        """Return the report without the steps that are wrong, perhaps only as they were read."""
        keys = {checked.step.key for checked in report.wrong_steps}
        kept = [claim for claim in problem.claims if claim.key not in keys]
        if len(kept) == len(problem.claims):  # the report takes scores for scaled ones
            keys = {key for key in (c.key for c in kept) if key.partition(".")[0] in _SCORES} or {
                claim.key for claim in kept
            }
            kept = [claim for claim in kept if claim.key not in keys]
        problem.unjudged = {**problem.unjudged, **dict.fromkeys(keys, self.why)}
        problem.claims = kept
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


def _is_no_example(example: Example) -> bool:
    """Return True if only letters name numbers that nothing else of an example surrounds."""
    roles = {entry.role for entry in (*example.entries, *example.inherited)}
    sources = {"X", "context", "Q", "K", "V", "W_Q", "W_K", "W_V", "scores"}
    is_named = any(e.evidence == "formula" for e in example.entries)
    return example.kind == "attention" and not roles & sources and not is_named


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
            if not remove_nested(where, path.split(".")):
                raise
            dropped.append((path, str(error).removeprefix("claim.")))
    raise UserError("too many of its numbers do not fit together")


def _matches(entry: Entry, path: str) -> bool:
    *outer, role = path.split(".")
    part = int(outer[-1]) if outer and outer[-1].isdigit() else None
    return entry.role == role and (entry.part == part or part is None)
