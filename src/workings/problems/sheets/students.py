"""A list of students, and a sheet of their own for each, keyed by a secret."""

import csv
import hashlib
import hmac
import io
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems.problem_file import prefix_errors, read_text_file

SECRET_FILE = "key/secret.txt"  # noqa: S105 - a path
_MAX_STUDENTS = 2_000
_ID_HEADERS = ("id", "student id", "id number", "sis user id", "matriculation number", "number")
_NAME_HEADERS = ("name", "student", "full name", "student name")


@dataclass(frozen=True)
class Student:
    """A student of the list; `folder` is the name of the folder of the student's sheet."""

    id: str
    name: str
    folder: str


def read_students(path: str | Path) -> list[Student]:
    """Read a list of students: a CSV file with the columns id and name, or one name per line."""
    with prefix_errors(path):
        text = read_text_file(path)
        separator = next((mark for mark in ";\t" if mark in text.partition("\n")[0]), ",")
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(io.StringIO(text), delimiter=separator)
        ]
        rows = [row for row in rows if any(row)]
        if not rows:
            raise UserError("the list of students is empty")
        header = [cell.casefold() for cell in rows[0]]
        id_column = next((header.index(name) for name in _ID_HEADERS if name in header), None)
        name_column = next((header.index(name) for name in _NAME_HEADERS if name in header), None)
        if id_column is None and name_column is None:
            id_column, name_column = 0, min(1, len(header) - 1)
        else:
            rows = rows[1:]
        pairs = [(_get_cell(row, id_column), _get_cell(row, name_column)) for row in rows]
        return make_students([(i or n, n or i) for i, n in pairs if i or n])


def _get_cell(row: Sequence[str], column: int | None) -> str:
    return row[column] if column is not None and column < len(row) else ""


def make_students(pairs: Sequence[tuple[str, str]]) -> list[Student]:
    """Return students with distinct folders from pairs of id and name."""
    if len(pairs) > _MAX_STUDENTS:
        raise UserError(f"{len(pairs)} students: at most {_MAX_STUDENTS} are allowed")
    students: list[Student] = []
    for student_id, name in pairs:
        folder = re.sub(r"[^\w\-]+", "_", student_id).strip("_")[:60] or "student"
        taken = [other.folder.casefold() for other in students]
        if student_id in [other.id for other in students]:
            raise UserError(f"{to_one_line(student_id)[:40]} is in the list twice")
        base, number = folder, 2
        while folder.casefold() in taken:
            folder, number = f"{base}-{number}", number + 1
        students.append(Student(to_one_line(student_id), to_one_line(name), folder))
    return students


def make_variants(count: int) -> list[Student]:
    """Return the students `001`, `002`, … of a sheet in many variants."""
    return make_students([(f"{k:03d}", f"variant {k}") for k in range(1, count + 1)])


def make_secret() -> str:
    """Return a new secret."""
    return secrets.token_hex(16)


def derive_seed(secret: str, student: Student, seed: int) -> int:
    """Return the seed of a student's sheet, which cannot be found without the secret."""
    return int.from_bytes(_digest(secret, f"seed {seed} {student.id}")[:6])


def derive_code(secret: str, student: Student) -> str:
    """Return the code that is printed on a student's sheet; it leads to no seed."""
    return _digest(secret, f"code {student.id}").hex()[:8]


def _digest(secret: str, message: str) -> bytes:
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).digest()
