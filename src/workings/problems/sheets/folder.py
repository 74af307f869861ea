"""The folder of a sheet: files for students, and the answers under key/."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.io import atomic_folder, read_bytes
from workings.problems.problem_file import format_toml
from workings.problems.sheets.rounded_solution import make_answer_key, nest_claims
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
    return format_toml({**exercise.table, "claim": claim}, "Which number is the first wrong one?")


def _render_key(exercise: Exercise, decimals: int) -> str:
    """Return the correct solution, with the planted mistake in a comment."""
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
    """Return the manifest: how to reproduce the sheet and its files, without answers."""
    plan = sheet.plan
    problems = [
        {"file": f"{e.name}.toml", "steps": [step.key for step in e.problem.asked_steps]}
        for e in sheet.exercises
    ]
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "workings": _get_version(),
        "title": sheet.title,
        "kind": plan.kind.name,
        "size": f"{plan.tokens}x{plan.width}",
        "count": len(sheet.exercises),
        "seed": sheet.seed,
        "decimals": plan.decimals,
        "vectors": "columns" if plan.column_vectors else "rows",
        "mistakes": sheet.mistakes,
    }
    sizes = {"heads": plan.heads, **plan.sizes}
    data |= {{"hidden_size": "hidden"}.get(name, name): size for name, size in sizes.items()}
    if plan.kind.has_attention:
        data["scale"] = "sqrt(d_k)" if plan.is_scaled else "none"
    data |= {"notes": sheet.notes, "problems": problems, "files": sorted(names)}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _get_version() -> str:
    """Return the version of this package; "unknown" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # costs 20 ms

    try:
        return version("workings")
    except PackageNotFoundError:
        return "unknown"


def write_folder(files: Mapping[str, str], folder: Path) -> None:
    """Write the files to a temporary folder and rename it when all are written.

    An existing sheet is replaced; a folder with any other file is an error.
    """
    folder = folder.resolve()
    _check_overwrite(folder)
    with atomic_folder(folder, unique=True, replace=True) as temporary:
        for name, text in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")


def _check_overwrite(folder: Path) -> None:
    """Raise an error if the folder has files that do not belong to a sheet."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: --out must name a folder")
    entry = next(folder.iterdir(), None)
    if entry is None:
        return
    if not (folder / MANIFEST).is_file():
        raise UserError(
            f"{folder} is not empty and not a sheet: it contains {entry.name}; use another --out"
        )
    files = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    names = sorted(p.relative_to(folder).as_posix() for p in files)
    known = read_manifest(folder).get("files")
    unknown = [name for name in names if not isinstance(known, list) or name not in known]
    if unknown:
        raise UserError(
            f"{folder} contains {unknown[0]}, which is not part of its sheet: use another --out"
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a sheet's folder."""
    path = folder / MANIFEST
    try:
        data = json.loads(read_bytes(path, MAX_MANIFEST_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} is not a sheet: it has no {MANIFEST}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not the manifest of a sheet") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UserError(f"{path} is not the manifest of a sheet")
    if data.get("version") != VERSION:
        raise UserError(
            f"{path}: version {data.get('version')!r:.20} is not supported; expected {VERSION}"
        )
    return data
