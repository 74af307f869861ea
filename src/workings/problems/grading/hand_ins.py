"""Find what each student handed in: folders, single files, Moodle's and Canvas's downloads.

answers/alice/problem-01.toml                                 one folder per student, also nested
answers/bob.toml                                              one file for all problems
answers/Eve Ng_81234_assignsubmission_file_/sheet.ipynb       Moodle's download
answers/ngeve_5123_99871_problem-01.toml                      Canvas's download

An answer that cannot be read is reported and does not affect the other answers.
"""

import io
import json
import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from workings.errors import UserError, did_you_mean
from workings.io import read_limited
from workings.problems.grading.answer_names import (
    find_problem_name,
    names_unknown_problem,
    normalize_answer,
    split_by_problem,
)
from workings.problems.grading.answer_text import (
    FileAnswers,
    decode_text,
    normalize_text,
    parse_answer_toml,
)
from workings.problems.grading.document_answers import extract_text, parse_document
from workings.problems.grading.grid_answers import parse_csv, read_spreadsheet
from workings.problems.grading.marking import SheetProblem
from workings.problems.grading.notebook_answers import parse_notebook

MAX_FILE_BYTES = 20_000_000
_MAX_FILES = 500  # per student
_MAX_ARCHIVED_BYTES = 50_000_000
_MAX_ARCHIVE_DEPTH = 2  # an archive in an archive is read
_IGNORED_NAMES = ("__MACOSX", "desktop.ini", "thumbs.db")  # names with a dot are ignored, too
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)"
)
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_(?P<submission>\d+)_(?P<file>.+)")
_SUFFIXES = (
    *(".toml", ".json", ".ipynb", ".py", ".csv", ".tsv", ".xlsx", ".zip"),
    *(".tex", ".latex", ".md", ".txt", ".html", ".htm", ".docx", ".pdf"),
)
_RENDERED = (".docx", ".pdf", ".html", ".htm")  # documents whose text is taken from them
_OWN_FILES = ("sheet.html", "sheet.json", "policy.toml")  # handed back with the answers
_BINARY = {
    ".doc": "an old Word document",
    ".odt": "a text document",
    ".pages": "a Pages document",
    ".jpg": "a picture",
    ".jpeg": "a picture",
    ".png": "a picture",
    ".heic": "a picture",
}
_EXPECTED = "expected .toml, .ipynb, .csv, .xlsx, .docx, .pdf, .tex, .md or .txt"


@dataclass
class Submission:
    """The answers of one student: a table per problem, and errors by problem or file."""

    student: str
    id: str
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def add_error(self, name: str, error: str) -> None:
        """Add an error on a problem or file."""
        known = self.errors.get(name)
        self.errors[name] = error if known is None else f"{known}; {error}"


@dataclass(frozen=True)
class _HandIn:
    """Where the files of one student are; `file_name` is set for a file without a folder."""

    student: str
    id: str
    paths: list[tuple[Path, str]] = field(default_factory=list)  # and the name of each file


def list_students(folder: Path) -> list[tuple[str, str]]:
    """Return the name and id of everyone who handed in, sorted by name."""
    return [(hand_in.student, hand_in.id) for hand_in in _list_hand_ins(folder)]


def read_submission(hand_in: "_HandIn", problems: Sequence[SheetProblem]) -> Submission:
    """Read all files of one student."""
    submission = Submission(hand_in.student, hand_in.id)
    for path, name in hand_in.paths[:_MAX_FILES]:
        try:
            _read_path(path, name, problems, submission)
        except OSError as error:
            submission.add_error(name, error.strerror or "cannot be read")
    if len(hand_in.paths) > _MAX_FILES:
        submission.add_error("files", f"more than {_MAX_FILES} files; the others are not read")
    return submission


def _list_hand_ins(folder: Path) -> list[_HandIn]:
    """Return the files of every student, sorted by name."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder with one folder or file per student")
    hand_ins: dict[tuple[str, str], _HandIn] = {}
    for entry in sorted(folder.iterdir()):
        if _is_ignored(entry.name):
            continue
        is_folder = entry.is_dir() and not entry.is_symlink()
        student, student_id, file = _parse_entry(entry, is_folder)
        key = (student, student_id)
        hand_in = hand_ins.setdefault(key, _HandIn(student, student_id))
        hand_in.paths.extend(_list_files(entry) if is_folder else [(entry, file)])
    return [hand_ins[key] for key in sorted(hand_ins)]


def read_hand_ins(folder: Path) -> list[_HandIn]:
    """Return what everyone handed in."""
    return _list_hand_ins(folder)


def _parse_entry(entry: Path, is_folder: bool) -> tuple[str, str, str]:
    """Return the student, the id and the name of the file from the name of an entry."""
    for pattern in (_MOODLE, _CANVAS):
        match = pattern.fullmatch(entry.name)
        if match is not None and (pattern is _MOODLE or not is_folder):
            return match["name"].strip(), match["id"], match["file"] or entry.name
    student = entry.name if is_folder else _remove_suffixes(entry.name)
    return student, student, entry.name


def _list_files(folder: Path) -> list[tuple[Path, str]]:
    """Return the files below a folder; links and devices are included, to be reported."""
    files = []
    for path in sorted(folder.iterdir()):
        if _is_ignored(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            files += _list_files(path)
        else:
            files.append((path, path.name))
    return files


def _is_ignored(name: str) -> bool:
    return name.startswith((".", "~$")) or name.casefold() in (n.casefold() for n in _IGNORED_NAMES)


def _remove_suffixes(name: str) -> str:
    """Return a file's name without its known suffixes: alice for alice.toml.txt."""
    path = PurePosixPath(name)
    while path.suffix.casefold() in (*_SUFFIXES, *_BINARY) and path.stem:
        path = PurePosixPath(path.stem)
    return str(path)


def _get_suffix(name: str) -> str:
    """Return the suffix that tells the format: .toml for problem-01.toml.txt."""
    suffixes = [suffix.strip().casefold() for suffix in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] == ".txt" and len(suffixes) > 1 and suffixes[-2] in _SUFFIXES:
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def _read_path(
    path: Path, name: str, problems: Sequence[SheetProblem], submission: Submission
) -> None:
    if not stat.S_ISREG(path.lstat().st_mode):
        submission.add_error(name, "expected a regular file, not a link or device")
        return
    if name in _OWN_FILES:
        return
    with path.open("rb") as file:
        try:
            content = read_limited(file, MAX_FILE_BYTES, name)
        except UserError as error:
            submission.add_error(name, str(error))
            return
    if _get_suffix(name) == ".zip":
        for member, data in _read_archive(name, content, submission):
            _read_content(member, data, problems, submission)
    else:
        _read_content(name, content, problems, submission)


def _read_archive(
    name: str, content: bytes, submission: Submission, depth: int = 1
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a ZIP archive, and those of an archive in it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if sum(m.file_size for m in members) > _MAX_ARCHIVED_BYTES:
                raise UserError(f"larger than {_MAX_ARCHIVED_BYTES // 1_000_000} MB unpacked")
            for member in members[:_MAX_FILES]:
                parts = PurePosixPath(member.filename).parts
                if not any(map(_is_ignored, parts)):
                    with archive.open(member) as file:
                        data = file.read(member.file_size)
                    if _get_suffix(parts[-1]) != ".zip":
                        yield parts[-1], data
                    elif depth < _MAX_ARCHIVE_DEPTH:
                        yield from _read_archive(parts[-1], data, submission, depth + 1)
    except UserError as error:
        submission.add_error(name, str(error))
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError):
        submission.add_error(name, "not a ZIP archive that can be read")


def _read_content(
    name: str, content: bytes, problems: Sequence[SheetProblem], submission: Submission
) -> None:
    """Read one file and add its answers; errors are kept with the problem that the file names."""
    names = [problem.name for problem in problems]
    problem_name = find_problem_name(_remove_suffixes(name), names)
    place = problem_name or name
    if problem_name is None and names_unknown_problem(_remove_suffixes(name), names):
        hint = did_you_mean(_remove_suffixes(name), names)
        submission.add_error(name, f"the sheet has no such problem: {hint}")
        return
    try:
        answers = _parse_file(name, content, problems, problem_name)
    except UserError as error:
        submission.add_error(place, str(error))
        return
    for text in answers.errors:
        owner = next((n for n in names if text.startswith(f"{n}: ")), None)
        submission.add_error(owner or place, text.removeprefix(f"{owner}: "))
    for key, table in answers.tables.items():
        if table or key not in submission.tables:
            submission.tables[key] = {**submission.tables.get(key, {}), **table}


def _parse_file(
    name: str, content: bytes, problems: Sequence[SheetProblem], problem_name: str | None
) -> FileAnswers:
    """Parse a file by its suffix or, if that says nothing, by its content."""
    suffix = _get_suffix(name)
    if suffix in _BINARY:
        raise UserError(f"{_BINARY[suffix]} cannot be read: {_EXPECTED}")
    if suffix == ".xlsx":
        return read_spreadsheet(content, problems, problem_name)
    if suffix in _RENDERED:
        return parse_document(extract_text(content, name), problems, problem_name)
    text = decode_text(content)
    if suffix == ".ipynb" or (text.lstrip().startswith("{") and '"cells"' in text):
        return parse_notebook(text, problems)
    if suffix == ".json" or text.lstrip().startswith("{"):
        return _sort_table(_parse_json(text), [], problems, problem_name)
    if suffix == ".py":
        cells = [{"cell_type": "code", "source": text}]
        return parse_notebook(json.dumps({"cells": cells}), problems)
    if suffix in (".csv", ".tsv"):
        return parse_csv(text, problems, problem_name)
    if suffix == ".toml":
        return _parse_toml(text, problems, problem_name)
    if suffix in (".tex", ".latex", ".md"):
        return parse_document(text, problems, problem_name)
    try:
        answers = _parse_toml(text, problems, problem_name)
    except UserError:
        answers = FileAnswers()
    if any(answers.tables.values()) and not answers.errors:
        return answers
    return parse_document(text, problems, problem_name)


def _parse_toml(
    text: str, problems: Sequence[SheetProblem], problem_name: str | None
) -> FileAnswers:
    table, errors = parse_answer_toml(normalize_text(text))
    if not table:
        raise UserError("; ".join(errors) or "the file is empty")
    return _sort_table(table, errors, problems, problem_name)


def _parse_json(text: str) -> dict[str, Any]:
    try:
        table = json.loads(normalize_text(text))
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error!s:.80}") from None
    if not isinstance(table, dict):
        raise UserError("expected a JSON object with the problems or steps by name")
    return table


def _sort_table(
    table: dict[str, Any],
    errors: list[str],
    problems: Sequence[SheetProblem],
    problem_name: str | None,
) -> FileAnswers:
    """Return the answers of a table by problem: one for each, or those of a file's problem."""
    names = [problem.name for problem in problems]
    if problem_name is None or any(find_problem_name(key, names) for key in table):
        tables, unknown = split_by_problem(table, problems)
        return FileAnswers(tables, errors + unknown)
    problem = problems[names.index(problem_name)]
    return FileAnswers(
        {problem_name: normalize_answer(table, problem)},
        [f"{problem_name}: {error}" for error in errors],
    )
