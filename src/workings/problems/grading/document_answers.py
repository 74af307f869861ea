r"""Read answers in LaTeX, Markdown or plain text: the sheet's own sheet.tex, or named matrices.

A heading such as `\section*{Problem 2}` or `## Problem 2` begins a problem.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from workings.errors import UserError
from workings.problems.documents.collector import MatrixCollector
from workings.problems.documents.latex import clean_cell, split_rows
from workings.problems.documents.matrices import MAX_TEXT_CHARS
from workings.problems.documents.names import RoleResolver
from workings.problems.documents.statements import Statement, find_statements, parse_numbers
from workings.problems.grading.answer_names import StepNames, find_problem_name
from workings.problems.grading.answer_text import FileAnswers, normalize_text
from workings.problems.grading.marking import SheetProblem
from workings.problems.problem_file import format_claim_path, set_nested

_HEADING = re.compile(
    r"^[ \t]*(?:\\(?:sub)*(?:section|paragraph)\*?\{(?P<tex>[^\n]*)\}|#+[ \t]*(?P<md>[^\n]*)"
    r"|(?P<plain>(?:\*\*)?(?:problem|exercise|aufgabe|probleme)[ \t_-]*\d+)[^\n=]*)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_OWN_WORK = re.compile(r"\\textbf\{[^}]*\}\\par\s*\n\{\\raggedright")
_OWN_TABLE = re.compile(
    r"\\begin\{tabular\}\{r\|(?:c\|)+\}(?P<body>.*?)\\end\{tabular\}", re.DOTALL
)
_OWN_COMMANDS = re.compile(r"\\cline\{[^}]*\}|\\filled(?![A-Za-z])|\\fbox|\\blank(?![A-Za-z])")
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")


def parse_document(text: str, problems: Sequence[SheetProblem], name: str | None) -> FileAnswers:
    """Read the answers of a document; `name` is the problem that its file names."""
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    text = normalize_text(text)
    by_name = {problem.name: problem for problem in problems}
    answers = FileAnswers()
    for problem_name, line, part in _split_problems(text, list(by_name), name):
        problem = by_name[problem_name]
        claim, errors = _read_claim(part, problem)
        answers.errors += [f"{problem_name}: {_shift_line(e, line)}" for e in errors]
        if claim:
            answers.tables[problem_name] = {"claim": claim}
    if not answers.tables and not answers.errors:
        raise UserError(
            "no matrix found: expected names and matrices, such as Q = [[1, 0], [0, 2]]"
        )
    return answers


def _shift_line(error: str, first_line: int) -> str:
    match = re.match(r"line (\d+): ", error)
    return error if match is None else f"line {int(match[1]) + first_line}: {error[match.end() :]}"


def _split_problems(
    text: str, names: list[str], name: str | None
) -> Iterator[tuple[str, int, str]]:
    """Yield the problem, the lines before it and the text of each part of a document."""
    headings = []
    for match in _HEADING.finditer(text):
        heading = find_problem_name(next(filter(None, match.groups()), ""), names)
        if heading is not None:
            headings.append((heading, match.start(), match.end()))
    if not headings:
        if name is None and len(names) > 1:
            raise UserError("which problem is this? Put a heading such as Problem 1 before it")
        yield name or names[0], 0, text
        return
    for k, (heading, _, start) in enumerate(headings):
        end = headings[k + 1][1] if k + 1 < len(headings) else len(text)
        yield heading, text.count("\n", 0, start), text[start:end]


def _read_claim(text: str, problem: SheetProblem) -> tuple[dict[str, Any], list[str]]:
    """Return the claimed steps of one problem, and errors with their lines."""
    own = _read_own_tables(text, problem)
    if own is not None:
        return own, []
    kind, heads = problem.problem.kind, problem.problem.setting.heads
    statements = find_statements(_COMMENT.sub("", text))
    resolver = RoleResolver(kind, multi_head=heads > 1)
    names = StepNames(problem)
    claim: dict[str, Any] = {}
    try:
        collector = MatrixCollector(resolver, statements)
        collector.collect(problem.problem.column_vectors, has_mask=False)
        for role, prints in collector.values.items():
            path = names.find_path(role)
            if path is not None:
                set_nested(claim, path, list(prints.values())[-1])
    except UserError:
        return _read_statements(text, statements, resolver, names)
    return claim, []


def _read_statements(
    text: str, statements: list[Statement], resolver: RoleResolver, names: StepNames
) -> tuple[dict[str, Any], list[str]]:
    """Read each statement by itself, so that one that cannot be read leaves the others."""
    claim: dict[str, Any] = {}
    errors = []
    for statement in statements:
        name = resolver.extract_name(statement.left)
        path = names.find_path(name) or names.find_path(resolver.resolve_name(name) or "")
        matrices = [s.get_single_matrix() for s in statement.segments]
        matrix = next((m for m in reversed(matrices) if m is not None), None)
        if path is None or matrix is None:
            continue
        try:
            rows = parse_numbers(matrix, name)
        except UserError as error:
            line = text.count("\n", 0, statement.position) + 1
            errors.append(f"line {line}: {error}")
        else:
            if rows is not None:
                set_nested(claim, path, rows)
    return claim, errors


def _read_own_tables(text: str, problem: SheetProblem) -> dict[str, Any] | None:
    """Return the filled-in boxes of the sheet's own LaTeX file; None if the text is another."""
    parts = _OWN_WORK.split(text)
    bodies = [match["body"] for match in _OWN_TABLE.finditer(parts[-1])]
    steps = problem.problem.asked_steps
    if len(parts) < 2 or len(bodies) != len(steps):
        return None
    claim: dict[str, Any] = {}
    for step, body in zip(steps, bodies, strict=True):
        shape = problem.problem.orient(problem.problem.exact_matrices[step.key].mid).shape
        rows = split_rows(_OWN_COMMANDS.sub("", body))[1:]  # without the header
        cells = [[clean_cell(cell).strip("{} ") or "?" for cell in row[1:]] for row in rows if row]
        cells = [row for row in cells if len(row) == shape[1]]
        if any(cell != "?" for row in cells for cell in row):
            path = format_claim_path(problem.problem.kind, step.key).split(".")
            set_nested(claim, path, cells)
    return claim
