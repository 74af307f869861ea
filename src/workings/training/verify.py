"""Verifying a run: reading each of its files, and comparing it with its checksum."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from workings.errors import UserError
from workings.io import read_bytes
from workings.storage import (
    CorruptFileError,
    file_checksums,
    read_json,
    read_tensors,
    table_checksum,
)
from workings.training.checkpoints import Checkpoints
from workings.training.finetuning import INITIAL_WEIGHTS
from workings.training.log_damage import find_damage
from workings.training.logging import MAX_LOG_BYTES

FileState: TypeAlias = Literal["intact", "unchecked", "damaged"]
NO_CHECKSUM = "it has no checksum"
INTERRUPTED_LINE = "the last line is incomplete, as a killed process leaves it"


@dataclass(frozen=True)
class FileReport:
    """The state of one file of a run."""

    name: str
    """path in the folder of the run"""
    state: FileState
    reason: str = ""


def verify_run(folder: Path) -> list[FileReport]:
    """Read every file of a run; return the state of each.

    A file is intact if it matches its checksum, or if all lines of a log are records. One without
    a checksum, such as report.html, is unchecked. The folder may be that of a running training.
    """
    if not (folder / "config.toml").is_file():
        raise UserError(f"{folder}: not a run: it has no config.toml")
    reports, run_id = _verify_description(folder)
    for name in ("model.safetensors", INITIAL_WEIGHTS, "result.json"):
        if (folder / name).exists():
            reports.append(_verify_file(folder, name, run_id))
    states: list[dict[str, Any]] = []
    for checkpoint in Checkpoints(folder, keep=1).list_folders():
        files, state = _verify_checkpoint(folder, checkpoint, run_id)
        if checkpoint.is_dir():  # else a running training has dropped it
            reports += files
            states.append(state)
    reports += _verify_log(folder, states)
    reports += _find_missing(states, {report.name for report in reports})
    return reports + list(_list_others(folder, {report.name for report in reports}))


def _verify_description(folder: Path) -> tuple[list[FileReport], str | None]:
    """Verify environment.json and the files whose checksums it has; return them and the run's id.

    The id is None if it is not known.
    """
    if not (folder / "environment.json").exists():  # stopped before it was written, or removed
        return [], None
    report = _verify_file(folder, "environment.json", None)
    if report.state == "damaged":
        return [report], None
    sums = read_json(folder / "environment.json").get("files", {})
    if not isinstance(sums, dict) or any(Path(name).name != name for name in sums):
        reason = "it lists files of other folders"
        return [FileReport(report.name, "damaged", reason)], None

    def compare(name: str) -> None:
        if file_checksums(folder, [name])[name] != sums[name]:
            raise CorruptFileError("changed or corrupted since the run was started")

    reports = [_report(folder, name, partial(compare, name)) for name in sums]
    return [report, *reports], table_checksum(sums) if sums else None


def _verify_file(
    folder: Path, name: str, run_id: str | None, checksum: str | None = None
) -> FileReport:
    """Verify a file that has its own checksum."""
    path = folder / name
    if path.suffix == ".json":
        return _report(folder, name, lambda: read_json(path))
    return _report(folder, name, lambda: read_tensors(path, checksum, run_id))


def _report(folder: Path, name: str, read: Callable[[], object]) -> FileReport:
    try:
        read()
    except (UserError, OSError) as error:
        message = error.strerror if isinstance(error, OSError) else str(error)
        reason = (message or type(error).__name__).removeprefix(f"{folder / name}: ")
        return FileReport(name, "damaged", reason)
    return FileReport(name, "intact")


def _verify_checkpoint(
    folder: Path, checkpoint: Path, run_id: str | None
) -> tuple[list[FileReport], dict[str, Any]]:
    """Verify the files of a checkpoint; return its state, which is empty if it is damaged."""
    prefix = f"checkpoints/{checkpoint.name}"
    if checkpoint.is_symlink() or not checkpoint.is_dir():
        reason = "a symbolic link or a file: expected a folder"
        return [FileReport(prefix, "damaged", reason)], {}
    report = _verify_file(folder, f"{prefix}/state.json", None)
    present = {p.name for p in checkpoint.iterdir() if not p.name.startswith(".")} - {"state.json"}
    if report.state == "damaged":  # the tensors have checksums of their own
        names = sorted(name for name in present if name.endswith(".safetensors"))
        return [report, *(_verify_file(folder, f"{prefix}/{n}", run_id) for n in names)], {}
    state = read_json(checkpoint / "state.json")
    sums = state.get("tensors")
    if not isinstance(sums, dict) or not all(name.isidentifier() for name in sums):
        reason = "it has no valid list of tensor files"
        return [FileReport(report.name, "damaged", reason)], {}
    if run_id is not None and state.get("run_id", run_id) != run_id:
        report = FileReport(report.name, "damaged", "intact, but it belongs to another run")
    files = {f"{name}.safetensors": str(checksum) for name, checksum in sums.items()}
    reports = [_verify_file(folder, f"{prefix}/{n}", run_id, files[n]) for n in files]
    unknown = sorted(present - set(files))
    reports += [
        FileReport(f"{prefix}/{n}", "damaged", "not part of the checkpoint") for n in unknown
    ]
    return [report, *reports], state


def _verify_log(folder: Path, states: list[dict[str, Any]]) -> list[FileReport]:
    """Verify that each line of the log is a record, and that it is what checkpoints saw."""
    name = "log.jsonl"
    if not (folder / name).exists():
        return []
    try:
        raw = read_bytes(folder / name, MAX_LOG_BYTES)
    except (UserError, OSError) as error:
        message = str(error).removeprefix(f"{folder / name}: ")
        return [FileReport(name, "damaged", message)]
    if damage := find_damage(raw, states):
        return [FileReport(name, "damaged", damage)]
    is_cut = bool(raw) and not raw.endswith(b"\n")
    return [FileReport(name, "intact", INTERRUPTED_LINE if is_cut else "")]


def _find_missing(states: list[dict[str, Any]], names: set[str]) -> Iterator[FileReport]:
    """Report files that are missing, though a later file shows that they were written."""
    progress = [p for state in states if isinstance(p := state.get("progress"), dict)]
    has_best = any(p.get("best_epoch") for p in progress) or "result.json" in names
    expected = {
        "environment.json": bool(names),
        "model.safetensors": has_best,
        "log.jsonl": any(state.get("log_offset") for state in states),
    }
    for name, is_expected in expected.items():
        if is_expected and name not in names:
            yield FileReport(name, "damaged", "missing")


def _list_others(folder: Path, names: set[str]) -> Iterator[FileReport]:
    """Read the files that have no checksum; hidden ones are locks and unfinished writes."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if str(name.as_posix()) in names or any(part.startswith(".") for part in name.parts):
            continue
        if path.is_symlink() or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                while file.read(2**20):
                    pass
        except OSError as error:
            yield FileReport(name.as_posix(), "damaged", error.strerror or str(error))
            continue
        is_set_aside = name.parts[0] == "checkpoints" and name.parts[1].endswith(".corrupt")
        reason = (
            "of a checkpoint that `resume` set aside as damaged" if is_set_aside else NO_CHECKSUM
        )
        yield FileReport(name.as_posix(), "unchecked", reason)


def to_json(reports: list[FileReport]) -> str:
    """Return the states of files as a JSON object."""
    files = [{"name": r.name, "state": r.state, "reason": r.reason} for r in reports]
    return json.dumps({"files": files, "damaged": sum(r.state == "damaged" for r in reports)})
