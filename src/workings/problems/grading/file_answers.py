"""Read one file that a student handed in: its format by its content, then by its name.

Students write TOML with decimal commas, a table in a text file, a list under `.json`. A file that
cannot be read completely in its own format is read in others, and the reading with the most numbers
that fit the sheet counts.
"""

import ast
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from workings.errors import UserError
from workings.problems.grading.answer_names import StepNames, find_problem_name, remove_problem_name
from workings.problems.grading.answer_tables import (
    add_missing_steps,
    count_numbers,
    is_blank,
    normalize_answer,
    split_by_problem,
    unwrap_answers,
)
from workings.problems.grading.answer_text import (
    FileAnswers,
    decode_text,
    normalize_text,
    parse_answer_toml,
)
from workings.problems.grading.array_files import NUMPY_MARK, print_array, print_arrays
from workings.problems.grading.document_answers import extract_text, is_own_sheet, parse_document
from workings.problems.grading.grid_answers import parse_csv, read_spreadsheet
from workings.problems.grading.marking import SheetProblem, iterate_leaves
from workings.problems.grading.notebook_answers import format_notebook, parse_notebook
from workings.problems.grading.open_documents import (
    SPREADSHEET_TYPE,
    read_open_document_type,
    read_open_spreadsheet,
    read_open_text,
    read_word_text,
    strip_rich_text,
)
from workings.problems.grading.scanned_answers import scan_answers
from workings.problems.grading.table_texts import (
    has_blank_cells,
    join_bars,
    mark_blank_cells,
    read_page_text,
)
from workings.problems.problem_file import set_nested

SUFFIXES = (
    *(".toml", ".json", ".ipynb", ".py", ".csv", ".tsv", ".xlsx", ".xlsm", ".ods", ".zip"),
    *(".tex", ".latex", ".md", ".txt", ".html", ".htm", ".docx", ".odt", ".rtf", ".pdf"),
    *(".tar", ".gz", ".tgz", ".yaml", ".yml", ".npy", ".npz", ".org", ".rst", ".typ", ".qmd"),
    *(".rmd", ".r", ".m", ".jl", ".sage", ".eml"),
)
BINARY = {
    ".doc": "an old Word document",
    ".xls": "an old spreadsheet",
    ".pages": "a Pages document",
    ".numbers": "a Numbers spreadsheet",
    ".jpg": "a picture",
    ".jpeg": "a picture",
    ".png": "a picture",
    ".heic": "a picture",
    ".webp": "a picture",
    ".gif": "a picture",
    ".tif": "a picture",
    ".tiff": "a picture",
    ".rar": "an RAR archive",
    ".7z": "a 7z archive",
}
EXPECTED = "expected .toml, .ipynb, .csv, .xlsx, .docx, .pdf, .tex, .md or .txt"
_FENCE = re.compile(r"^```python\s*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BETTER = 1.25  # another reading counts if it has so many times as many numbers
_MAX_LITERAL_CHARS = 500_000
_YAML_MATRIX = re.compile(
    r"^[ \t]*(?P<name>[\w.^\-]+):[ \t]*\n(?P<rows>(?:[ \t]*-[ \t]*\[[^\[\]\n]*\][ \t]*(?:\n|\Z))+)",
    re.MULTILINE,
)
_YAML_ROW = re.compile(r"-[ \t]*(\[[^\[\]\n]*\])")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_ROUND_LIST = re.compile(r"\((?=[\s(]*[-+?\d.\"'∞])|(?<=[\d?\"'∞),\sf])\)")
_NUMBERS = re.compile(r"(?:[\s\d.,;|\[\]()+\-−∞?]|e[+-]?\d|inf|nan)*", re.IGNORECASE)
Reading = Callable[[], FileAnswers]


def parse_file(
    name: str, suffix: str, content: bytes, problems: Sequence[SheetProblem], problem: str | None
) -> FileAnswers:
    """Return the answers of a file; `suffix` tells its format, `problem` is the one it names."""
    if content.startswith(b"PK\x03\x04"):
        return _parse_office(name, content, problems, problem)
    if suffix in BINARY:
        raise UserError(f"{BINARY[suffix]} cannot be read: {EXPECTED}")
    if suffix in (".xlsx", ".xlsm"):
        return read_spreadsheet(content, problems, problem)
    if suffix in (".pdf", ".docx") or content.startswith(b"%PDF"):
        return _parse_text(extract_text(content, name), ".txt", problems, problem)
    text = print_array(content) if content.startswith(NUMPY_MARK) else decode_text(content)
    if suffix == ".rtf" or text.startswith("{\\rtf"):
        text, suffix = strip_rich_text(text), ".txt"
    if suffix in (".html", ".htm"):
        rendered = extract_text(text.encode(), name)
        suffix = ".py" if "claim_1[" in rendered else ".txt"
        return _parse_text(rendered, suffix, problems, problem, read_page_text(text))
    if step := _find_file_step(name, text, problems, problem):
        text, suffix = f"{step} =\n{text}", ".txt"
    return _parse_text(text, suffix, problems, problem)


def _find_file_step(
    name: str, text: str, problems: Sequence[SheetProblem], problem: str | None
) -> str | None:
    """Return the step that a file of numbers alone is named after: problem-01/Q.csv, p1_Q.txt."""
    if not _NUMBERS.fullmatch(text):
        return None
    stem = remove_problem_name(PurePosixPath(name).name.partition(".")[0])
    is_step = any(StepNames(p).find_exact_path(stem) for p in problems if problem in (None, p.name))
    return stem.strip(" _-") if is_step else None


def _parse_text(
    text: str,
    suffix: str,
    problems: Sequence[SheetProblem],
    problem: str | None,
    page: str | None = None,
) -> FileAnswers:
    """Read a text; `page` is the same with the rows of its tables as lines."""
    if text.lstrip()[:1] == "{" and '"cells"' in text:
        suffix = ".ipynb"
    text = join_bars(text) if suffix != ".ipynb" else text
    readings = _list_readings(text, suffix, problems, problem)
    expected = [p for p in problems if problem in (None, p.name)]
    plain = format_notebook(text) if suffix == ".ipynb" else text
    scan = partial(scan_answers, problems=problems, name=problem)
    if is_own_sheet(text):
        return _read_best(readings, [partial(scan, plain)], expected)
    tables = mark_blank_cells(normalize_text(plain if page is None else join_bars(page)))
    scans = [partial(scan, plain), partial(scan, tables)]
    scans.append(partial(parse_document, tables, problems, problem))
    answers = _read_best(readings, scans, expected)
    if has_blank_cells(tables):
        with suppress(UserError):
            _restore_blanks(answers, scans[1](), expected)
    return answers


def _restore_blanks(
    answers: FileAnswers, scanned: FileAnswers, problems: Sequence[SheetProblem]
) -> None:
    """Take the steps with cells left out from a reading that keeps the places of the others."""
    for problem in problems:
        claim = scanned.tables.get(problem.name, {}).get("claim", {})
        if problem.answer_table == "claim":
            for path, value in iterate_leaves(claim):
                if any("?" in row for row in value) and not is_blank(value):
                    set_nested(answers.tables.setdefault(problem.name, {}), ("claim", *path), value)


def _parse_office(
    name: str, content: bytes, problems: Sequence[SheetProblem], problem: str | None
) -> FileAnswers:
    """Read a ZIP archive that is a document or a spreadsheet, whatever its name."""
    kind = read_open_document_type(content)
    if kind == SPREADSHEET_TYPE:
        return read_open_spreadsheet(content, problems, problem)
    if kind is not None:
        return _parse_text(read_open_text(content), ".txt", problems, problem)
    if b"xl/workbook.xml" in content:
        return read_spreadsheet(content, problems, problem)
    if name.casefold().endswith(".npz"):
        return _parse_text(print_arrays(content), ".txt", problems, problem)
    parse = partial(_parse_text, suffix=".txt", problems=problems, problem=problem)
    if b"word/document.xml" not in content:
        return parse(extract_text(content, name))
    page = read_word_text(content)
    readings = [lambda: parse(extract_text(content, name), page=page), lambda: parse(page)]
    return _read_best(readings, readings[1:], problems)


def _list_readings(
    text: str, suffix: str, problems: Sequence[SheetProblem], problem: str | None
) -> list[Reading]:
    """Return the ways to read a text, the likeliest first."""
    plain = normalize_text(text)
    toml = partial(_parse_toml, plain, problems, problem)
    decimal = partial(_parse_toml, _use_decimal_points(plain), problems, problem)
    document = partial(parse_document, _join_yaml_rows(text), problems, problem)
    grid = partial(parse_csv, text, problems, problem)
    start = text.lstrip()[:1]
    if suffix == ".ipynb":
        printed = partial(parse_document, format_notebook(text), problems, problem)
        return [partial(parse_notebook, text, problems), printed]
    if suffix == ".json" or start == "{":
        return [partial(_parse_json, plain, problems, problem), document]
    if suffix == ".py":
        cells = json.dumps({"cells": [{"cell_type": "code", "source": text}]})
        return [partial(parse_notebook, cells, problems), document, toml]
    if suffix in (".csv", ".tsv"):
        return [grid, document]
    if suffix == ".toml":
        return [toml, decimal, document, grid]
    if suffix in (".tex", ".latex", ".md"):
        code = [{"cell_type": "code", "source": source} for source in _FENCE.findall(text)]
        exported = partial(parse_notebook, json.dumps({"cells": code}), problems)
        return [exported, document, toml] if code else [document, toml]
    is_toml = "=" in text and re.search(r"^\s*\[[^\[\]\d]", plain, re.MULTILINE)
    return [toml, document, grid, decimal] if is_toml else [document, toml, grid, decimal]


def _read_best(
    readings: Sequence[Reading], scans: Sequence[Reading], problems: Sequence[SheetProblem]
) -> FileAnswers:
    """Return the first complete reading, or else the one with the most numbers.

    Where numbers are missing, the `scans`, which read any text, fill them in; one replaces a
    reading if it finds far more. If no reading has any numbers, the first one tells why.
    """
    best: FileAnswers | None = None
    most, first_error = 0, None
    for index, read in enumerate(readings):
        try:
            answers = read()
        except UserError as error:
            first_error = error if index == 0 else first_error
            continue
        count, is_complete = count_numbers(answers.tables, problems)
        if best is None or count > _BETTER * most:
            best, most = answers, count
        if best is answers and is_complete and not answers.errors:
            break
    for scan in scans:
        if best is not None and most >= max(1, _count_cells(problems)):
            break
        with suppress(UserError):
            scanned = scan()
            best = scanned if best is None else _combine(best, scanned, problems)
            most, _ = count_numbers(best.tables, problems)
    if first_error is not None and (best is None or not most):
        raise first_error
    assert best is not None, "a reading that fails has an error"
    return best


def _combine(
    answers: FileAnswers, others: FileAnswers, problems: Sequence[SheetProblem]
) -> FileAnswers:
    """Return answers with what another reading adds: a problem that it reads better, or steps."""
    for problem in problems:
        own, other = (count_numbers(a.tables, [problem])[0] for a in (answers, others))
        if other > _BETTER * own:
            answers.tables[problem.name] = others.tables[problem.name]
        else:
            add_missing_steps(answers.tables, others.tables, [problem])
    return answers


def _count_cells(problems: Sequence[SheetProblem]) -> int:
    """Return how many numbers a sheet asks for."""
    return sum(
        problem.problem.exact_matrices[key].mid.size
        for problem in problems
        if problem.answer_table == "claim"
        for key in problem.points
    )


def _use_decimal_points(text: str) -> str:
    """Return TOML with points for decimal commas, and brackets for lists in parentheses."""
    text = _ROUND_LIST.sub(lambda match: "[" if match[0] == "(" else "]", text)
    return _DECIMAL_COMMA.sub(".", text).replace(";", ",")


def _join_yaml_rows(text: str) -> str:
    """Return a text with matrices whose rows are items of a YAML list as lists of lists."""

    def join(match: re.Match[str]) -> str:
        rows = _YAML_ROW.findall(match["rows"])
        return f"{match['name']} = [{', '.join(rows)}]" + "\n" * match["rows"].count("\n")

    return _YAML_MATRIX.sub(join, text)


def _parse_toml(
    text: str, problems: Sequence[SheetProblem], problem_name: str | None
) -> FileAnswers:
    table, errors = parse_answer_toml(text)
    if not table:
        raise UserError("; ".join(errors) or "the file is empty")
    return _sort_table(table, errors, problems, problem_name)


def _parse_json(
    text: str, problems: Sequence[SheetProblem], problem_name: str | None
) -> FileAnswers:
    """Read an object by problem, a list of them, or a dictionary as Python prints it."""
    try:
        table = json.loads(text, parse_float=str)
    except (ValueError, RecursionError) as error:
        table = _parse_literal(text)
        if table is None:
            raise UserError(f"not JSON: {error!s:.80}") from None
    if isinstance(table, list):
        table = unwrap_answers({"answers": table}, problems)
    if not isinstance(table, dict):
        raise UserError("expected a JSON object with the problems or steps by name")
    return _sort_table(table, [], problems, problem_name)


def _parse_literal(text: str) -> Any:
    """Return a literal of Python; None if the text is none."""
    if len(text) > _MAX_LITERAL_CHARS:
        return None
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _sort_table(
    table: dict[str, Any],
    errors: list[str],
    problems: Sequence[SheetProblem],
    problem_name: str | None,
) -> FileAnswers:
    """Return the answers of a table by problem: one for each, or those of a file's problem."""
    table = unwrap_answers(table, problems)
    names = [problem.name for problem in problems]
    if problem_name is None or any(find_problem_name(key, names) for key in table):
        tables, unknown = split_by_problem(table, problems)
        return FileAnswers(tables, errors + unknown)
    problem = problems[names.index(problem_name)]
    return FileAnswers(
        {problem_name: normalize_answer(table, problem)},
        [f"{problem_name}: {error}" for error in errors],
    )
