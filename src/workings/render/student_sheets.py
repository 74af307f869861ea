"""Write a sheet for each student, with one key for all."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from workings.languages import get_language
from workings.problems.sheets.folder import FORMAT, MANIFEST, VERSION, write_folder
from workings.problems.sheets.sheet import Sheet
from workings.problems.sheets.students import (
    SECRET_FILE,
    Student,
    derive_code,
    derive_seed,
    make_secret,
)
from workings.render.sheets import render_all_files


def write_student_sheets(
    make: Callable[[int], Sheet], students: Sequence[Student], folder: str | Path, seed: int = 1
) -> list[Sheet]:
    """Write students/ID/ for each student and key/ with every answer; `make` takes a seed.

    A folder of sheets that is made again keeps its secret, so that everyone keeps their numbers.
    """
    folder = Path(folder)
    secret = _read_secret(folder) or make_secret()
    files: dict[str, str | bytes] = {SECRET_FILE: secret + "\n"}
    sheets = []
    for student in students:
        sheet = make(derive_seed(secret, student, seed))
        sheet = replace(sheet, code=derive_code(secret, student))
        sheets.append(sheet)
        for name, content in render_all_files(sheet).items():
            part = (
                f"key/{student.folder}" if name.startswith("key/") else f"students/{student.folder}"
            )
            files[f"{part}/{name.removeprefix('key/')}"] = content
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "title": sheets[0].title,
        "language": get_language().code,
        "students": [{"id": s.id, "name": s.name, "folder": s.folder} for s in students],
        "files": sorted([*files, MANIFEST]),
    }
    files[MANIFEST] = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    write_folder(dict(sorted(files.items())), folder)
    return sheets


def _read_secret(folder: Path) -> str:
    path = folder / SECRET_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
