"""Find what each student handed in: folders, single files, downloads of learning platforms.

answers/alice/problem-01.toml                                 one folder per student, also nested
answers/bob.toml                                              one file for all problems
answers/Eve Ng_81234_assignsubmission_file_/sheet.ipynb       Moodle's download
answers/ngeve_5123_99871_problem-01.toml                      Canvas's download
answers/Sheet_ngeve_attempt_2026-11-19-10-00-00_a.toml        Blackboard's download
answers/5123-99 - Eve Ng - Nov 19, 2026 1005 PM/a.toml        Brightspace's download

An answer that cannot be read is reported and does not affect the other answers.
"""

import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from workings.errors import UserError, did_you_mean
from workings.io import read_limited
from workings.problems.grading.answer_names import find_path_problem, names_unknown_problem
from workings.problems.grading.answer_tables import is_blank
from workings.problems.grading.file_answers import BINARY, SUFFIXES, parse_file
from workings.problems.grading.marking import SheetProblem

MAX_FILE_BYTES = 20_000_000
_MAX_FILES = 500  # per student
_MAX_ARCHIVED_BYTES = 50_000_000
_MAX_ARCHIVE_DEPTH = 2  # an archive in an archive is read
_IGNORED_NAMES = (
    "__MACOSX",
    "desktop.ini",
    "thumbs.db",
    "submission_metadata.yml",
)  # names with a dot are ignored, too
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)"
)
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_(?P<submission>\d+)_(?P<file>.+)")
_BLACKBOARD = re.compile(
    r".+_(?P<name>(?P<id>[^_]+))_attempt_\d{4}(?:-\d\d){5}(?:_(?P<file>.+)|\.txt)"
)
_BRIGHTSPACE = re.compile(
    r"(?P<id>\d+)-\d+ - (?P<name>.+?) - \w{3} \d{1,2}, \d{4} \d{3,4} [AP]M(?: - (?P<file>.+))?"
)
_PLATFORMS = (_MOODLE, _CANVAS, _BLACKBOARD, _BRIGHTSPACE)
_STUDENT_AND_PROBLEM = re.compile(  # ann_problem-01: a file of each problem beside other students'
    r"(?P<name>.*\w)[\s_\-.]+(?:problem|exercise|aufgabe|exercice|bài)[\s_\-.]*\d{1,3}",
    re.IGNORECASE,
)
_OWN_FILES = ("sheet.html", "sheet.json", "policy.toml")  # handed back with the answers
_BYPRODUCTS = (".xml", ".log", ".aux", ".out", ".toc", ".synctex", ".css", ".js", ".bak", ".pyc")
_DATA = (".toml", ".json", ".ipynb", ".csv", ".tsv", ".xlsx", ".xlsm", ".ods")
_DOCUMENTS = (".tex", ".latex", ".md", ".py")
_NO_TEXT = b"There is no student submission text data"
_NOTEBOOK_MARK = b"claim_1["  # in a page that a notebook was exported to, which is sheet.html, too


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
class HandIn:
    """Where the files of one student are."""

    student: str
    id: str
    paths: list[tuple[Path, str]] = field(default_factory=list)  # and the name of each file


def read_submission(hand_in: HandIn, problems: Sequence[SheetProblem]) -> Submission:
    """Read all files of one student."""
    submission = Submission(hand_in.student, hand_in.id)
    for path, name in sorted(hand_in.paths[:_MAX_FILES], key=lambda entry: _rank(entry[1])):
        try:
            _read_path(path, name, problems, submission)
        except OSError as error:
            submission.add_error(name, error.strerror or "cannot be read")
    if len(hand_in.paths) > _MAX_FILES:
        submission.add_error("files", f"more than {_MAX_FILES} files; the others are not read")
    return submission


def read_hand_ins(folder: Path) -> list[HandIn]:
    """Return what everyone handed in, sorted by name."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder with one folder or file per student")
    hand_ins: dict[tuple[str, str], HandIn] = {}
    for entry in _list_entries(folder):
        is_folder = entry.is_dir() and not entry.is_symlink()
        student, student_id, file = _parse_entry(entry, is_folder)
        key = (student, student_id)
        hand_in = hand_ins.setdefault(key, HandIn(student, student_id))
        hand_in.paths.extend(_list_files(entry, entry) if is_folder else [(entry, file)])
    return [hand_ins[key] for key in sorted(hand_ins)]


def _list_entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder; a folder that is a download stands for its own entries."""
    for entry in sorted(folder.iterdir()):
        if _is_ignored(entry.name) or entry.name == "index.html":  # Brightspace's list of files
            continue
        is_folder = entry.is_dir() and not entry.is_symlink()
        if is_folder and any(
            pattern.fullmatch(child.name) for child in entry.iterdir() for pattern in _PLATFORMS
        ):
            yield from _list_entries(entry)
        else:
            yield entry


def _parse_entry(entry: Path, is_folder: bool) -> tuple[str, str, str]:
    """Return the student, the id and the name of the file from the name of an entry."""
    for pattern in _PLATFORMS:
        match = pattern.fullmatch(entry.name)
        if match is not None and (pattern in (_MOODLE, _BRIGHTSPACE) or not is_folder):
            return match["name"].strip(), match["id"], match["file"] or entry.name
    student = entry.name if is_folder else _remove_suffixes(entry.name)
    if not is_folder and (match := _STUDENT_AND_PROBLEM.fullmatch(student)):
        student = match["name"]
    return student, student, entry.name


def _list_files(folder: Path, root: Path) -> list[tuple[Path, str]]:
    """Return the files below a student's folder with their names from there.

    Links and devices are included, to be reported.
    """
    files = []
    for path in sorted(folder.iterdir()):
        if _is_ignored(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            files += _list_files(path, root)
        else:
            files.append((path, path.relative_to(root).as_posix()))
    return files


def _is_ignored(name: str) -> bool:
    return name.startswith((".", "~$")) or name.casefold() in (n.casefold() for n in _IGNORED_NAMES)


def _remove_suffixes(name: str) -> str:
    """Return a file's name without its known suffixes: alice for alice.toml.txt."""
    path = PurePosixPath(name)
    while path.suffix.casefold() in (*SUFFIXES, *BINARY) and path.stem:
        path = path.with_suffix("")
    return str(path)


def _get_suffix(name: str) -> str:
    """Return the suffix that tells the format: .toml for problem-01.toml.txt."""
    suffixes = [suffix.strip().casefold() for suffix in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] == ".txt" and len(suffixes) > 1 and suffixes[-2] in SUFFIXES:
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def _read_path(
    path: Path, name: str, problems: Sequence[SheetProblem], submission: Submission
) -> None:
    if not stat.S_ISREG(path.lstat().st_mode):
        submission.add_error(name, "expected a regular file, not a link or device")
        return
    with path.open("rb") as file:
        try:
            content = read_limited(file, MAX_FILE_BYTES, name)
        except UserError as error:
            submission.add_error(name, str(error))
            return
    members = _unpack(name, content, submission)
    for member, data in sorted(members, key=lambda entry: _rank(entry[0])):
        is_own = PurePosixPath(member).name in _OWN_FILES and _NOTEBOOK_MARK not in data
        is_own |= _NO_TEXT in data  # Blackboard says who handed in what
        if not is_own and _get_suffix(member) not in _BYPRODUCTS:
            _read_content(member, data, problems, submission)


def _rank(name: str) -> int:
    """Return how surely a file is read: a surer one replaces the steps of others."""
    suffix = _get_suffix(name)
    return (suffix in _DOCUMENTS or suffix in _DATA) + (suffix in _DATA)


def _unpack(
    name: str, content: bytes, submission: Submission, depth: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Yield a file or, of an archive, the files in it; an archive in an archive is read, too."""
    suffix = _get_suffix(name)
    if suffix not in (".zip", ".gz", ".tgz", ".tar"):
        yield name, content
        return
    if depth == _MAX_ARCHIVE_DEPTH:
        return
    read = _read_zip if suffix == ".zip" else _read_tar
    try:
        for member, data in read(name, content):
            yield from _unpack(member, data, submission, depth + 1)
    except UserError as error:
        submission.add_error(name, str(error))


def _read_zip(_name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a ZIP archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if sum(m.file_size for m in members) > _MAX_ARCHIVED_BYTES:
                raise _make_size_error()
            for member in members[:_MAX_FILES]:
                parts = PurePosixPath(member.filename).parts
                if not any(map(_is_ignored, parts)):
                    with archive.open(member) as file:
                        data = file.read(member.file_size)
                    yield "/".join(parts), data
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError):
        raise UserError("not a ZIP archive that can be read") from None


def _read_tar(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a tar archive, compressed or not, or the one that gzip compressed."""
    try:
        if content.startswith(b"\x1f\x8b"):
            content = zlib.decompressobj(31).decompress(content, _MAX_ARCHIVED_BYTES + 1)
        if len(content) > _MAX_ARCHIVED_BYTES:
            raise _make_size_error()
        if _get_suffix(name) == ".gz" and not name.casefold().endswith(".tar.gz"):
            yield name[: -len(".gz")], content
            return
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            members = [m for m in archive if m.isreg()][:_MAX_FILES]
            for member in members:
                parts = PurePosixPath(member.name).parts
                file = archive.extractfile(member)
                if file is not None and parts and not any(map(_is_ignored, parts)):
                    yield "/".join(parts), file.read()
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError):
        raise UserError("not a tar archive that can be read") from None


def _make_size_error() -> UserError:
    return UserError(f"larger than {_MAX_ARCHIVED_BYTES // 1_000_000} MB unpacked")


def _read_content(
    name: str, content: bytes, problems: Sequence[SheetProblem], submission: Submission
) -> None:
    """Read one file and add its answers; errors are kept with the problem that the file names."""
    names = [problem.name for problem in problems]
    problem_name = find_path_problem(_remove_suffixes(name), names)
    place = problem_name or name
    stem = PurePosixPath(_remove_suffixes(name)).name
    if problem_name is None and names_unknown_problem(stem, names):
        hint = did_you_mean(stem, names)
        submission.add_error(name, f"the sheet has no such problem: {hint}")
        return
    try:
        answers = parse_file(name, _get_suffix(name), content, problems, problem_name)
    except UserError as error:
        submission.add_error(place, str(error))
        return
    except Exception as error:  # one file must not stop the marks of a class
        submission.add_error(place, f"an error of the program: {type(error).__name__}")
        return
    for text in answers.errors:
        owner = next((n for n in names if text.startswith(f"{n}: ")), None)
        submission.add_error(owner or place, text.removeprefix(f"{owner}: "))
    for key, table in answers.tables.items():
        _merge(submission.tables.setdefault(key, {}), table)


def _merge(table: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Add the entries of another file; a matrix that is left blank there replaces none."""
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        elif key not in table or not is_blank(value):
            table[key] = value
