"""The folder of a sheet: files for students, and the answers under key/."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.io import atomic_folder, read_bytes
from workings.languages import SOURCE_LANGUAGE, get_language, gettext, list_languages
from workings.problems.problem_file import format_toml
from workings.problems.sheets.rounded_solution import make_answer_key, nest_claims
from workings.problems.sheets.sheet import Exercise, Sheet

FORMAT, VERSION = "workings sheet", 1
MANIFEST = "sheet.json"
# The fields of a problem that a student sees in its matrices, whether formulas are hidden or not.
_VISIBLE_FIELDS = ("title", "kind", "vectors", "heads", "mask", "tokens", "context_tokens", "given")
MAX_MANIFEST_BYTES = 16 * 2**20


def format_problem_files(sheet: Sheet) -> dict[str, str]:
    """Return the problem files and, under key/, their solutions, by path in the folder."""
    files = {}
    for exercise in sheet.exercises:
        files[f"{exercise.name}.toml"] = _render_problem(exercise, sheet.hides_formulas)
        files[f"key/{exercise.name}.toml"] = _render_key(exercise, sheet.decimals)
    return files


def make_student_table(exercise: Exercise, hides_formulas: bool) -> dict[str, Any]:
    """Return the table of the students' file; settings that state a formula may be hidden."""
    if not hides_formulas:
        return exercise.table
    kept = (*_VISIBLE_FIELDS, *exercise.problem.kind.options)
    return {name: value for name, value in exercise.table.items() if name in kept}


def _render_problem(exercise: Exercise, hides_formulas: bool) -> str:
    table = make_student_table(exercise, hides_formulas)
    if exercise.planted_mistake is None:
        return format_toml(table)
    claim = nest_claims(exercise.problem, exercise.planted_mistake.claims)
    return format_toml({**table, "claim": claim}, gettext("Which number is the first wrong one?"))


def _render_key(exercise: Exercise, decimals: int) -> str:
    """Return the correct solution, with the planted mistake in a comment."""
    claim = nest_claims(exercise.problem, make_answer_key(exercise.problem, decimals))
    planted, comment = exercise.planted_mistake, ""
    if planted is not None:
        row, column = planted.cell
        comment = (
            gettext(
                "Planted: {mistake} ({description})",
                mistake=planted.name,
                description=planted.description,
            )
            + "\n"
            + gettext(
                "First wrong number: {step}, row {row}, column {column}: {claimed} instead of"
                " {expected}",
                step=planted.step_title,
                row=row + 1,
                column=column + 1,
                claimed=planted.claimed,
                expected=planted.correct,
            )
        )
        if planted.equivalent_names:
            names = ", ".join(planted.equivalent_names)
            comment += "\n" + gettext("The same numbers come from {names}", names=names)
    return format_toml({**exercise.table, "claim": claim}, comment)


def format_manifest(sheet: Sheet, names: Iterable[str]) -> str:
    """Return the manifest: how to reproduce the sheet and its files, without answers."""
    problems = [_describe_problem(exercise, sheet) for exercise in sheet.exercises]
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "workings": _get_version(),
        "title": sheet.title,
        "kind": ",".join(plan.kind.name for plan in sheet.plans),
        "size": ",".join(f"{plan.tokens}x{plan.width}" for plan in sheet.plans),
        "count": len(sheet.exercises),
        **({"code": sheet.code} if sheet.code else {"seed": sheet.seed}),
        "decimals": sheet.decimals,
        "vectors": "columns" if sheet.plans[0].column_vectors else "rows",
        "mistakes": sheet.mistakes,
        "language": get_language().code,
    }
    data |= {"hide_formulas": True} if sheet.hides_formulas else {}
    for plan in sheet.plans:
        sizes = {"heads": plan.heads, **plan.sizes}
        data |= {{"hidden_size": "hidden"}.get(name, name): size for name, size in sizes.items()}
        if plan.kind.has_attention and not sheet.hides_formulas:
            data["scale"] = "sqrt(d_k)" if plan.is_scaled else "none"
    data |= {"notes": sheet.notes, "problems": problems, "files": sorted(names)}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def read_sheet_language(folder: Path) -> str:
    """Return the language that a sheet was made in; English if it does not say."""
    code = read_manifest(folder).get("language", SOURCE_LANGUAGE)
    return code if code in list_languages() else SOURCE_LANGUAGE


def _describe_problem(exercise: Exercise, sheet: Sheet) -> dict[str, Any]:
    """Return the entry of a problem: its file, the steps that are asked and their points."""
    steps = sheet.get_asked_steps(exercise)
    entry: dict[str, Any] = {"file": f"{exercise.name}.toml", "steps": list(steps)}
    if sheet.questions.has_points:
        entry["points"] = {key: sheet.questions.get_points(key) for key in steps}
    return entry


def _get_version() -> str:
    """Return the version of this package; "unknown" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # costs 20 ms

    try:
        return version("workings")
    except PackageNotFoundError:
        return "unknown"


def write_folder(files: Mapping[str, str | bytes], folder: Path) -> None:
    """Write the files to a temporary folder and rename it when all are written.

    An existing sheet is replaced; a folder with any other file is an error.
    """
    folder = folder.resolve()
    _check_overwrite(folder)
    with atomic_folder(folder, unique=True, replace=True) as temporary:
        for name, content in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)


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
