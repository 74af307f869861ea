"""Students' answers to a sheet, read from a folder; nobody's can spoil another's, or the sheet.

answers/alice/problem-01.toml    a file a problem, with a [claim] (and anything else, unread)
answers/bob.toml                 or one file for all: [problem-01.claim], [problem-02.claim]
"""

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.errors import UserError, near
from workings.problems.reading import read_toml, text_of_file

_NOT_ANSWERS = ("__MACOSX",)  # what archives and desktops leave behind; and what starts with a dot


@dataclass
class HandIn:
    """What one student handed in: a table a problem, and what could not be read.

    `errors` are by problem, or by file where that belongs to none; `unread`: nothing could be read.
    """

    student: str
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    unread: str = ""


def hand_ins(folder: Path, problems: list[str]) -> Iterator[HandIn]:
    """Read every student's answers, in the order of their names."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder with a folder or a file for each student")
    entries = sorted(
        (p for p in folder.iterdir() if not _left_behind(p)),
        key=lambda p: (p.stem if p.suffix == ".toml" else p.name, p.name),
    )
    seen: set[str] = set()
    for entry in entries:
        is_folder = entry.is_dir() and not entry.is_symlink()
        hand_in = HandIn(entry.name if is_folder else entry.stem)
        try:
            if hand_in.student in seen:
                raise UserError(f"{hand_in.student} is there twice, as a folder and as a file")
            if is_folder:
                _read_folder(entry, problems, hand_in)
            else:
                _read_file(entry, problems, hand_in)
        except (UserError, OSError) as error:
            hand_in.unread = hand_in.errors[entry.name] = _told(error)
        seen.add(hand_in.student)
        yield hand_in


def _left_behind(path: Path) -> bool:
    return path.name.startswith(".") or path.name in _NOT_ANSWERS


def _read_folder(folder: Path, problems: list[str], hand_in: HandIn) -> None:
    """Read a file a problem."""
    for path in sorted(folder.iterdir()):
        if _left_behind(path):
            continue
        try:
            if path.suffix != ".toml" or path.stem not in problems:
                hint = near(path.stem, problems)
                raise UserError(f"no problem of this sheet is called so: {hint}")
            hand_in.tables[path.stem] = read_table(path)
        except (UserError, OSError) as error:
            name = path.stem if path.stem in problems else path.name
            hand_in.errors[name] = _told(error)


def _read_file(path: Path, problems: list[str], hand_in: HandIn) -> None:
    """Read one file for all problems."""
    if path.suffix != ".toml":
        raise UserError("not a .toml file with claims, nor a folder of them")
    table = read_table(path)
    if len(problems) == 1 and ("claim" in table or "found" in table):
        hand_in.tables[problems[0]] = table
        return
    for name, part in table.items():
        if name not in problems:
            hint = near(name, problems)
            hand_in.errors[name] = f"no problem of this sheet is called so: {hint}"
        elif not isinstance(part, dict):
            hand_in.errors[name] = f"expected a table: [{name}.claim]"
        else:
            hand_in.tables[name] = part


def read_table(path: Path) -> dict[str, Any]:
    """Read a TOML file with its decimals as they are written; links and devices are refused."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UserError("a link or a device, not a file")
    return read_toml(text_of_file(path))


def _told(error: Exception) -> str:
    return (error.strerror or "cannot be read") if isinstance(error, OSError) else str(error)
