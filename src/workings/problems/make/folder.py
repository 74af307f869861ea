"""A sheet's folder: what is handed out, and under key/ what is not."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.files import read_bytes
from workings.problems.make.by_hand import asked, nested, right
from workings.problems.make.layout import page_of
from workings.problems.make.lesson import cells_of
from workings.problems.make.problem_file import toml
from workings.problems.make.sheet import Exercise, Sheet
from workings.views import moodle, notebook, sheet_html, sheet_latex

FORMAT, VERSION = "workings sheet", 1
MANIFEST = "sheet.json"
LARGEST_MANIFEST = 16 * 2**20


def files(sheet: Sheet) -> dict[str, str]:
    """Write every file of a sheet, by its path in the folder."""
    page = page_of(sheet)
    written = {
        "sheet.html": sheet_html.render(page),
        "sheet.tex": sheet_latex.render(page),
        "sheet.ipynb": notebook.render(cells_of(sheet, page)),
        "key/key.html": sheet_html.render(page, key=True),
        "key/key.tex": sheet_latex.render(page, key=True),
        "key/moodle.xml": moodle.render(page),
    }
    for exercise in sheet.exercises:
        written[f"{exercise.name}.toml"] = _problem(exercise)
        written[f"key/{exercise.name}.toml"] = _key(exercise, sheet.plan.decimals)
    written[MANIFEST] = _manifest(sheet, [*written, MANIFEST])
    return dict(sorted(written.items()))


def _problem(exercise: Exercise) -> str:
    if exercise.planted is None:
        return toml(exercise.table)
    claim = nested(exercise.problem, exercise.planted.claims)
    return toml({**exercise.table, "claim": claim}, "One number is the first wrong one: which?")


def _key(exercise: Exercise, decimals: int) -> str:
    """The right solution, and in front of it what was planted."""
    claim = nested(exercise.problem, right(exercise.problem, decimals))
    planted, comment = exercise.planted, ""
    if planted is not None:
        row, column = planted.cell
        comment = (
            f"Planted: {planted.name} ({planted.says})\n"
            f"First wrong number: {planted.where}, row {row + 1}, column {column + 1}:"
            f" {planted.claimed} instead of {planted.instead_of}"
        )
        if planted.also:
            comment += f"\nThe same numbers come from {', '.join(planted.also)}"
    return toml({**exercise.table, "claim": claim}, comment)


def _manifest(sheet: Sheet, names: list[str]) -> str:
    """Say what the sheet is and how to make it again; nothing of it gives an answer away."""
    plan = sheet.plan
    problems = [
        {"file": f"{e.name}.toml", "steps": [step.key for step in asked(e.problem)]}
        for e in sheet.exercises
    ]
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "workings": _version(),
        "title": sheet.title,
        "kind": plan.kind,
        "size": f"{plan.tokens}x{plan.width}",
        "count": len(sheet.exercises),
        "seed": sheet.seed,
        "decimals": plan.decimals,
        "vectors": "columns" if plan.columns else "rows",
        "mistakes": sheet.mistakes,
    }
    for name in ("heads", "d_k", "context", "hidden"):
        if getattr(plan, name):
            data[name] = getattr(plan, name)
    if plan.attends:
        data["scale"] = "sqrt(d_k)" if plan.scaled else "none"
    data |= {"notes": sheet.notes, "problems": problems, "files": sorted(names)}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _version() -> str:
    """Which program made it, as far as it knows: it may run without having been installed."""
    from importlib.metadata import PackageNotFoundError, version  # costs 20 ms

    try:
        return version("workings")
    except PackageNotFoundError:
        return "unknown"


def write(sheet: Sheet, folder: Path) -> None:
    """Write the folder beside its place and move it there when it is whole.

    A sheet in its place is replaced; a folder with anything else in it is left alone.
    """
    folder = folder.resolve()
    _refuse_to_lose(folder)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        for name, text in sheet.files().items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        if folder.exists():
            folder.rename(old)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
        elif old.exists():
            old.rename(folder)


def _refuse_to_lose(folder: Path) -> None:
    """Raise where something would be lost that making the sheet again would not bring back."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: a file is in the way: --out names a folder")
    other = next(folder.iterdir(), None)
    if other is None:
        return
    if not (folder / MANIFEST).is_file():
        raise UserError(
            f"{folder} is not empty and no sheet: it has {other.name}; take another --out"
        )
    found = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    there = sorted(p.relative_to(folder).as_posix() for p in found)
    known = read_manifest(folder).get("files")
    strange = [name for name in there if not isinstance(known, list) or name not in known]
    if strange:
        raise UserError(
            f"{folder} has {strange[0]}, which is not of the sheet in it: take another --out"
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what a folder says about the sheet in it."""
    path = folder / MANIFEST
    try:
        data = json.loads(read_bytes(path, LARGEST_MANIFEST).decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder}: no sheet: there is no {MANIFEST} in it") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not a sheet's {MANIFEST}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UserError(f"{path}: not a sheet's {MANIFEST}")
    if data.get("version") != VERSION:
        raise UserError(
            f"{path}: version {data.get('version')!r:.20}; this program reads version {VERSION}"
        )
    return data
