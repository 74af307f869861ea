r"""Read answers in LaTeX, Markdown or plain text: the sheet's own sheet.tex, or named matrices.

A heading such as `\section*{Problem 2}` or `## Problem 2` begins a problem.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from workings.errors import UserError
from workings.problems.documents.chains import Statement, find_statements
from workings.problems.documents.entries import get_symbol
from workings.problems.documents.examples import Example, split_examples
from workings.problems.documents.latex import clean_cell, split_rows
from workings.problems.documents.matrices import MAX_TEXT_CHARS, Rows, parse_matrix
from workings.problems.documents.prints import Prints
from workings.problems.documents.sources import read_source
from workings.problems.documents.sources.base import BREAK, GRID_CLOSE, GRID_OPEN
from workings.problems.grading.answer_names import StepNames
from workings.problems.grading.answer_tables import normalize_answer
from workings.problems.grading.answer_text import FileAnswers, normalize_text
from workings.problems.grading.headings import split_problems
from workings.problems.grading.marking import SheetProblem
from workings.problems.numbers import transpose_rows
from workings.problems.problem_file import format_claim_path, set_nested

_OWN_WORK = re.compile(r"\\textbf\{[^}]*\}\\par\s*\n\{\\raggedright")
_OWN_TABLE = re.compile(
    r"\\begin\{tabular\}\{r\|(?:c\|)+\}(?P<body>.*?)\\end\{tabular\}", re.DOTALL
)
_OWN_COMMANDS = re.compile(r"\\cline\{[^}]*\}|\\filled(?![A-Za-z])|\\fbox|\\blank(?![A-Za-z])")
# A step of the sheet as a PDF of it shows it: scores = Q Kᵀ 3 × 3, and its matrix below.
_OWN_PRINT = re.compile(
    r"^(?P<name>[^\n=]{1,60}?) *=[^\n]*?\d+ × \d+ *\n\s*(?P<rows>\[\[[^\n]*\]\]) *$", re.MULTILINE
)
_NUMBER_COMMAND = re.compile(r"\\num\{([^{}]*)\}")
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")


def extract_text(content: bytes, name: str) -> str:
    """Return the text of a Word document, a PDF or a web page, with its matrices as lists."""
    source = read_source(content, name)
    texts = [
        "[" + ", ".join("[" + ", ".join(row) + "]" for row in grid.rows) + "]"
        for grid in source.grids
    ]
    mark = re.compile(f"{GRID_OPEN}(\\d+){GRID_CLOSE}")
    lines = (mark.sub(lambda match: texts[int(match[1])], line.text) for line in source.lines)
    return "\n".join(lines).replace(BREAK, "\n")


def is_own_sheet(text: str) -> bool:
    """Return True for the sheet's own LaTeX file, whose boxes are read one by one."""
    return _OWN_WORK.search(text) is not None


def parse_document(text: str, problems: Sequence[SheetProblem], name: str | None) -> FileAnswers:
    """Read the answers of a document; `name` is the problem that its file names."""
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    text = _NUMBER_COMMAND.sub(r"\1", normalize_text(text))
    by_name = {problem.name: problem for problem in problems}
    answers = FileAnswers()
    for problem_name, line, part in split_problems(text, list(by_name), name):
        problem = by_name[problem_name]
        own = _read_own_tables(part, problem)
        own = _read_own_prints(part, problem) if own is None else own
        is_own = own is not None
        claim, errors = _read_claim(part, problem) if own is None else (own, [])
        answers.errors += [f"{problem_name}: {_shift_line(e, line)}" for e in errors]
        if claim:
            answers.tables[problem_name] = normalize_answer({"claim": claim}, problem)
        elif is_own:
            answers.tables[problem_name] = {}
    if not answers.tables and not answers.errors:
        raise UserError(
            "no matrix found: expected names and matrices, such as Q = [[1, 0], [0, 2]]"
        )
    return answers


def _shift_line(error: str, first_line: int) -> str:
    match = re.match(r"line (\d+): ", error)
    return error if match is None else f"line {int(match[1]) + first_line}: {error[match.end() :]}"


def _read_claim(text: str, problem: SheetProblem) -> tuple[dict[str, Any], list[str]]:
    """Return the claimed steps of one problem, and errors with their lines."""
    source = read_source(_COMMENT.sub("", text).encode("utf-8", "replace"))
    statements = find_statements(source)
    examples = split_examples(source, statements, problem.problem.kind.name)
    names = StepNames(problem)
    claim: dict[str, Any] = {}
    for example in examples:
        for role, rows in _list_prints(example, problem):
            # Q_1 may be the Q of problem 1.
            path = names.find_path(role) or names.find_path(role.rpartition(".")[2])
            if path is not None:
                set_nested(claim, path, rows)
        for statement in example.bare:  # a name that only the sheet knows
            symbol = get_symbol(statement)  # or the caption above a table
            path = names.find_path(symbol.text if symbol is not None else statement.label)
            if path is not None and statement.value is not None:
                set_nested(claim, path, statement.value)
    return claim, list(_list_errors(statements, examples, names))


def _list_prints(example: Example, problem: SheetProblem) -> Iterator[tuple[str, Rows]]:
    """Yield the path and the last print of every matrix of an example; rows are put together."""
    prints, part_name = Prints(example), problem.problem.kind.part_name
    for (role, part), versions in prints.by_key.items():
        own = [(rows, stacked) for rows, entry, stacked in versions if not entry.is_factor]
        for rows, is_stacked in own[-1:]:
            path = role if part is None else f"{part_name}.{part}.{role}"
            is_turned = is_stacked and problem.problem.column_vectors
            yield path, transpose_rows(rows) if is_turned else rows


def _list_errors(
    statements: Sequence[Statement], examples: Sequence[Example], names: StepNames
) -> Iterator[str]:
    """Yield why a step could not be read, with its line."""
    roles = {id(entry.statement): entry.role for e in examples for entry in e.entries}
    for statement in statements:
        symbol = get_symbol(statement)
        name = roles.get(id(statement)) or (symbol.text if symbol is not None else "")
        if statement.problem and names.find_path(name) is not None:
            yield f"line {statement.place}: {name}: {statement.problem}"


def _read_own_prints(text: str, problem: SheetProblem) -> dict[str, Any] | None:
    """Return the filled-in boxes of the sheet as a PDF; None if the text is another."""
    names, claim = StepNames(problem), dict[str, Any]()
    for match in _OWN_PRINT.finditer(text):
        path = names.find_path(match["name"])
        if path is not None:
            set_nested(claim, path, parse_matrix(match["rows"], match["name"]))
    return claim or None


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
