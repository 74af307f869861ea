"""A sheet's folder: what is handed out, and under key/ what is not."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.io import read_bytes
from workings.problems.problem_file import format_toml
from workings.problems.sheets.rounded_solution import list_asked_steps, make_answer_key, nest_claims
from workings.problems.sheets.sheet import Exercise, Sheet

FORMAT, VERSION = "workings sheet", 1
MANIFEST = "sheet.json"
MAX_MANIFEST_BYTES = 16 * 2**20


def format_problem_files(sheet: Sheet) -> dict[str, str]:
    """Return the problem files and, under key/, their solutions, by path in the folder."""
    files = {}
    for exercise in sheet.exercises:
        files[f"{exercise.name}.toml"] = _render_problem(exercise)
        files[f"key/{exercise.name}.toml"] = _render_key(exercise, sheet.plan.decimals)
    return files


def _render_problem(exercise: Exercise) -> str:
    if exercise.planted_mistake is None:
        return format_toml(exercise.table)
    claim = nest_claims(exercise.problem, exercise.planted_mistake.claims)
    return format_toml(
        {**exercise.table, "claim": claim}, "One number is the first wrong one: which?"
    )


def _render_key(exercise: Exercise, decimals: int) -> str:
    """The right solution, and in front of it what was planted."""
    claim = nest_claims(exercise.problem, make_answer_key(exercise.problem, decimals))
    planted, comment = exercise.planted_mistake, ""
    if planted is not None:
        row, column = planted.cell
        comment = (
            f"Planted: {planted.name} ({planted.description})\n"
            f"First wrong number: {planted.step_title}, row {row + 1}, column {column + 1}:"
            f" {planted.claimed} instead of {planted.correct}"
        )
        if planted.equivalent_names:
            comment += f"\nThe same numbers come from {', '.join(planted.equivalent_names)}"
    return format_toml({**exercise.table, "claim": claim}, comment)


def format_manifest(sheet: Sheet, names: Iterable[str]) -> str:
    """Say what the sheet is and how to make it again; nothing of it gives an answer away."""
    plan = sheet.plan
    problems = [
        {"file": f"{e.name}.toml", "steps": [step.key for step in list_asked_steps(e.problem)]}
        for e in sheet.exercises
    ]
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "workings": _get_version(),
        "title": sheet.title,
        "kind": plan.kind,
        "size": f"{plan.tokens}x{plan.width}",
        "count": len(sheet.exercises),
        "seed": sheet.seed,
        "decimals": plan.decimals,
        "vectors": "columns" if plan.column_vectors else "rows",
        "mistakes": sheet.mistakes,
    }
    for name in ("heads", "d_k", "context", "hidden"):
        if getattr(plan, name):
            data[name] = getattr(plan, name)
    if plan.has_attention:
        data["scale"] = "sqrt(d_k)" if plan.is_scaled else "none"
    data |= {"notes": sheet.notes, "problems": problems, "files": sorted(names)}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _get_version() -> str:
    """Which program made it, as far as it knows: it may run without having been installed."""
    from importlib.metadata import PackageNotFoundError, version  # costs 20 ms

    try:
        return version("workings")
    except PackageNotFoundError:
        return "unknown"


def write_folder(files: Mapping[str, str], folder: Path) -> None:
    """Write the files to a temporary folder and rename it when all are written.

    A sheet in its place is replaced; a folder with anything else in it is left alone.
    """
    folder = folder.resolve()
    _check_overwrite(folder)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        for name, text in files.items():
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


def _check_overwrite(folder: Path) -> None:
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
        data = json.loads(read_bytes(path, MAX_MANIFEST_BYTES).decode("utf-8"))
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
