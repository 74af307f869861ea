"""Read answers in a CSV file or a spreadsheet: the sheet's answers.csv, or matrices under names.

problem,step,row,1,2          problem-01
problem-01,Q,1,0.5,2          Q
problem-01,Q,2,1,0            0.5  2
                              1    0
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import Any

from workings.errors import UserError, install_command
from workings.problems.documents.matrices import Rows, parse_matrix
from workings.problems.grading.answer_names import StepNames, find_problem_name
from workings.problems.grading.answer_tables import (
    add_missing_steps,
    arrange_cells,
    count_numbers,
)
from workings.problems.grading.answer_text import FileAnswers, normalize_text
from workings.problems.grading.marking import SheetProblem
from workings.problems.grading.table_texts import is_blank_mark
from workings.problems.numbers import read_number
from workings.problems.problem_file import set_nested

_MAX_CELLS = 200_000
# Where a matrix stands beside the name of its step: rows down and columns to the right.
_PLACES = ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (2, 1))
# Names of columns, in the languages of the sheets.
_COLUMN_NAMES = {
    "problem": "problem exercise task aufgabe exercice bài 题目",
    "step": "step matrix quantity schritt étape bước 步骤",
    "row": "row token i zeile ligne hàng 行",
    "column": "column col j spalte colonne cột 列",
    "cell": "cell index zelle cellule ô 单元格",
    "value": "value values answer answers result wert antwort valeur réponse 值 答案",
}
_COLUMNS = {word: name for name, words in _COLUMN_NAMES.items() for word in words.split()}
_FINDING_FIELDS = ("step", "row", "column", "mistake", "should")


def parse_csv(text: str, problems: Sequence[SheetProblem], name: str | None) -> FileAnswers:
    """Read a CSV table separated by commas, semicolons or tabs; `name` is the file's problem."""
    text = normalize_text(text)
    head = text[:4000]
    separator = next((mark for mark in ("\t", ";", "|") if mark in head), ",")
    rows = [list(row) for row in csv.reader(io.StringIO(text), delimiter=separator)]
    return parse_grid(rows, problems, name)


def read_spreadsheet(
    content: bytes, problems: Sequence[SheetProblem], name: str | None
) -> FileAnswers:
    """Read every worksheet of an .xlsx file; a worksheet may be named after its problem."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise UserError(
            f"reading spreadsheets needs openpyxl: {install_command('documents')};"
            " or save the sheet as CSV"
        ) from None
    try:
        workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheets = [(s.title, [list(r) for r in s.iter_rows(values_only=True)]) for s in workbook]
    except Exception as error:
        raise UserError(f"not a spreadsheet: {type(error).__name__}") from None
    texts = [(title, [[_format_cell(c) for c in row] for row in rows]) for title, rows in sheets]
    return parse_worksheets(texts, problems, name)


def parse_worksheets(
    sheets: Iterable[tuple[str, Rows]], problems: Sequence[SheetProblem], name: str | None
) -> FileAnswers:
    """Read the worksheets of a file by their titles."""
    names = [problem.name for problem in problems]
    answers = FileAnswers()
    for title, rows in sheets:
        if any(StepNames(problem).find_exact_path(title) for problem in problems):
            rows = [[title], *rows]  # a worksheet for each step
        part = parse_grid(rows, problems, find_problem_name(title, names) or name)
        for problem, table in part.tables.items():
            _merge(answers.tables.setdefault(problem, {}), table)
        answers.errors += [f"worksheet {title}: {error}" for error in part.errors]
    return answers


def _merge(table: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _format_cell(value: Any) -> str:
    """Return the text of a cell; a float has the fewest digits that identify it."""
    if value is None:
        return ""
    if isinstance(value, date):  # Excel turns 1/2 into a date
        return str(value)
    return repr(value) if isinstance(value, float) else str(value)


def parse_grid(
    rows: Sequence[Sequence[str]], problems: Sequence[SheetProblem], name: str | None
) -> FileAnswers:
    """Read a table of texts, with a header row or with matrices under their names."""
    if sum(map(len, rows)) > _MAX_CELLS:
        raise UserError(f"the table has more than {_MAX_CELLS:,} cells")
    names = [StepNames(problem) for problem in problems]
    cells = [[_read_text(cell.strip(), names) for cell in row] for row in rows]
    header = next((k for k, row in enumerate(cells) if _is_header(row)), None)
    reader = _GridReader(problems, name)
    if header is not None:
        reader.read_table(cells[header], enumerate(cells[header + 1 :], start=header + 2))
        return reader.finish()
    reader.read_blocks(enumerate(cells, start=1))
    scattered = _GridReader(problems, name)
    scattered.read_scattered(cells)
    blocks, answers = reader.finish(), scattered.finish()
    counts = [count_numbers(both.tables, problems) for both in (blocks, answers)]
    if counts[1] > counts[0]:
        blocks, answers = answers, blocks
    add_missing_steps(blocks.tables, answers.tables, problems, prefers_others=True)
    return blocks


def _read_text(cell: str, names: Sequence[StepNames]) -> str:
    """Return the text of a cell, "?" for a dash or an x that names no step."""
    is_left_out = bool(cell) and is_blank_mark(cell)
    return "?" if is_left_out and not any(n.find_exact_path(cell) for n in names) else cell


def _is_header(row: Sequence[str]) -> bool:
    words = [_name_column(cell) for cell in row]
    return "step" in words and bool({"row", "problem", "value"} & set(words))


def _name_column(cell: str) -> str:
    """Return the name of a column: "row" for "Zeile"."""
    word = cell.strip(" .:").casefold()
    return _COLUMNS.get(word, word)


class _GridReader:
    """Collects the rows of matrices by problem and step."""

    def __init__(self, problems: Sequence[SheetProblem], name: str | None) -> None:
        self._problems = {problem.name: problem for problem in problems}
        self._names = {problem.name: StepNames(problem) for problem in problems}
        self._current = name or (problems[0].name if len(problems) == 1 else None)
        self._path: tuple[str, ...] | None = None
        self._rows: dict[tuple[str, tuple[str, ...]], Rows] = {}
        self._row_labels: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._cells: dict[tuple[str, tuple[str, ...]], dict[tuple[int, int], str]] = {}
        self._findings: dict[str, dict[str, str]] = {}
        self._errors: list[str] = []

    def read_table(self, header: Sequence[str], rows: Iterable[tuple[int, list[str]]]) -> None:
        """Read rows with the problem, the step and the row in columns of their own."""
        columns = {_name_column(cell): k for k, cell in enumerate(header) if cell}
        if "mistake" in columns or "should" in columns:
            self._read_findings(columns, rows)
            return
        if "value" in columns:
            self._read_values(columns, rows)
            return
        label_columns = [columns[n] for n in ("problem", "step", "row") if n in columns]
        start = max(label_columns) + 1
        for line, row in rows:
            labels = {name: row[k] for name, k in columns.items() if k < len(row)}
            if not any(row):
                continue
            self._set_problem(labels.get("problem", ""), line)
            if step := labels.get("step", ""):
                self._set_step(step, line)
            self._add_row(_trim(row[start:]), labels.get("row", ""))

    def _read_values(self, columns: dict[str, int], rows: Iterable[tuple[int, list[str]]]) -> None:
        """Read a cell in each row, or a whole matrix: Q, 1, 2, 0.5 or Q, "[[1, 0.5], [0, 2]]"."""
        for line, row in rows:
            fields = {n: row[k] for n, k in columns.items() if k < len(row) and row[k]}
            self._set_problem(fields.get("problem", ""), line)
            if step := fields.get("step", ""):
                self._set_step(step, line)
            if self._current is None or self._path is None or "value" not in fields:
                continue
            index = re.findall(r"\d+", fields.get("cell", ""))
            index = index or [fields[n] for n in ("row", "column") if n in fields]
            if len(index) == 2 and all(text.isdecimal() for text in index):
                cells = self._cells.setdefault((self._current, self._path), {})
                cells[int(index[0]), int(index[1])] = fields["value"]
            else:
                self._read_matrix(fields["value"], line)

    def _read_matrix(self, text: str, line: int) -> None:
        assert self._current is not None, "set by the caller"
        assert self._path is not None, "set by the caller"
        try:
            self._rows[self._current, self._path] = parse_matrix(text, ".".join(self._path))
        except UserError as error:
            self._errors.append(f"line {line}: {error}")

    def _read_findings(
        self, columns: dict[str, int], rows: Iterable[tuple[int, list[str]]]
    ) -> None:
        for line, row in rows:
            fields = {n: row[k] for n, k in columns.items() if k < len(row) and row[k]}
            self._set_problem(fields.get("problem", ""), line)
            finding = {k: v for k, v in fields.items() if k in _FINDING_FIELDS and v != "?"}
            if self._current is not None and finding:
                self._findings[self._current] = finding

    def read_blocks(self, rows: Iterable[tuple[int, list[str]]]) -> None:
        """Read matrices below or beside the names of their steps."""
        for line, row in rows:
            cells = _trim(row)
            while cells and not self._is_cell(cells[0]):
                label = cells.pop(0)
                if not label:
                    continue
                if find_problem_name(label, list(self._problems)) and not self._find_step(label):
                    self._set_problem(label, line)
                    self._path = None
                elif self._find_step(label) or not cells:
                    self._set_step(label, line)
            if cells:
                self._add_row(cells)

    def read_scattered(self, rows: Sequence[Sequence[str]]) -> None:
        """Read matrices that stand anywhere near the names of their steps, also side by side."""
        for i, row in enumerate(rows):
            for j, label in enumerate(row):
                if not label or _is_number(label):
                    continue
                path = self._find_step(label)
                if path is None:
                    if find_problem_name(label, list(self._problems)):
                        self._set_problem(label, i + 1)
                    continue
                assert self._current is not None
                names = self._names[self._current]
                is_cell = partial(names.is_cell, path)
                is_alone = partial(self._is_alone, rows, j)
                matrix = _find_matrix(rows, i, j, names.get_shape(path), is_cell, is_alone)
                if matrix:
                    self._rows.setdefault((self._current, path), matrix)

    def _is_alone(self, rows: Sequence[Sequence[str]], column: int, places: range) -> bool:
        """Return True if a column names no steps in some rows, which are theirs."""
        labels = (row[column] for row in rows[places.start : places.stop] if column < len(row))
        return not any(
            label and self._find_step(label) for label in labels if not _is_number(label)
        )

    def _is_cell(self, text: str) -> bool:
        """Return True for a number, and for a word if the cells of the step are words."""
        if self._current is None or self._path is None:
            return _is_number(text)
        return self._names[self._current].is_cell(self._path, text)

    def _find_step(self, label: str) -> tuple[str, ...] | None:
        label = label.rstrip("=: ")
        return self._names[self._current].find_path(label) if self._current else None

    def _set_problem(self, label: str, line: int) -> None:
        if not label:
            return
        name = find_problem_name(label, list(self._problems))
        if name is None:
            self._errors.append(f"line {line}: the sheet has no problem {label[:40]!r}")
        elif name != self._current:
            self._current, self._path = name, None

    def _set_step(self, label: str, line: int) -> None:
        self._path = self._find_step(label)
        if self._path is None:
            where = f"{self._current} has" if self._current else "no problem is named that has"
            self._errors.append(f"line {line}: {where} no step {label[:40]!r}")

    def _add_row(self, cells: list[str], label: str = "") -> None:
        if self._current is not None and self._path is not None:
            key, blank_filled = (self._current, self._path), [cell or "?" for cell in cells]
            self._rows.setdefault(key, []).append(blank_filled)
            self._row_labels.setdefault(key, []).append(label)

    def _sort_rows(self, key: tuple[str, tuple[str, ...]], rows: Rows) -> Rows:
        """Return rows in the order of their numbers, if each has one of its own."""
        labels = self._row_labels.get(key, [])
        if sorted(labels) != sorted(map(str, range(1, len(rows) + 1))):
            return rows
        return [rows[labels.index(str(k + 1))] for k in range(len(rows))]

    def finish(self) -> FileAnswers:
        """Return the answers; cells that are missing are blank."""
        answers = FileAnswers(errors=self._errors)
        for (name, path), cells in self._cells.items():
            self._rows[name, path] = arrange_cells(cells, self._names[name].get_shape(path))
        for (name, path), rows in self._rows.items():
            if self._problems[name].answer_table == "claim":
                height, width = self._names[name].get_shape(path)
                fitted = _remove_remarks(self._sort_rows((name, path), rows), width)
                matrix = [[*row, *["?"] * (width - len(row))] for row in fitted]
                matrix += [["?"] * width for _ in range(height - len(rows))]
                set_nested(answers.tables.setdefault(name, {}), ("claim", *path), matrix)
        for name, finding in self._findings.items():
            if self._problems[name].answer_table == "found":
                answers.tables[name] = {"found": finding}
        return answers


def _find_matrix(
    rows: Sequence[Sequence[str]],
    i: int,
    j: int,
    shape: tuple[int, int],
    is_cell: Callable[[str], bool],
    is_alone: Callable[[range], bool],
) -> Rows | None:
    """Return the matrix of a shape that stands right of or below a cell, the fullest one."""
    best: Rows | None = None
    most = (0, 0)
    for down, right in _PLACES:
        top, left = i + down, j + right
        block = [list(row[left : left + shape[1]]) for row in rows[top : top + shape[0]]]
        num_texts = sum(map(bool, (cell for row in block for cell in row)))
        block = [[cell or "?" for cell in row] + ["?"] * (shape[1] - len(row)) for row in block]
        cells = [cell for row in block for cell in row]
        count = sum(cell != "?" for cell in cells)
        begins_beside = down > 0 or any(cell != "?" for cell in cells[: shape[1]])
        fits = len(block) == shape[0] and begins_beside and all(map(is_cell, cells))
        fits = fits and (not down or is_alone(range(top, top + shape[0])))
        if fits and count and (count, num_texts) > most:
            best, most = block, (count, num_texts)
    return best


def _remove_remarks(rows: Rows, width: int) -> Rows:
    """Return the rows without row numbers before the cells and words behind them."""
    is_numbered = all(row[:1] == [str(k)] for k, row in enumerate(rows, start=1))
    if is_numbered and all(len(row) > width for row in rows):
        rows = [row[1:] for row in rows]
    return [
        row if any(_is_number(cell) and cell != "?" for cell in row[width:]) else row[:width]
        for row in rows
    ]


def _trim(row: Sequence[str]) -> list[str]:
    """Return the cells without the empty ones at the end."""
    cells = list(row)
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _is_number(text: str) -> bool:
    try:
        read_number(text, "")
    except UserError:
        return False
    return True
