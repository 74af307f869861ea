"""The folder of a run: its recipe and the checksums of its description. Imports no torch."""

from pathlib import Path
from typing import Any

from workings.config import to_table
from workings.errors import UserError
from workings.io import check_inside
from workings.json_files import CorruptFileError, file_checksums, read_json, table_checksum
from workings.recipes import Recipe, read_recipe
from workings.recipes.base import flatten_table

MAX_SAMPLE_LENGTH = 200  # characters of a text that an environment has to begin with


def read_run_recipe(folder: Path) -> Recipe:
    """Read the recipe of a run."""
    if is_hugging_face_model(folder):
        raise UserError(
            f"{folder}: a model in Hugging Face's format, not a run: "
            f"make one with workings import {folder} --out RUN"
        )
    if not has_config(folder):
        raise UserError(f"{folder}: not a run: it has no config.toml")
    check_inside(folder / "config.toml", folder)
    compute_run_id(folder)
    return read_recipe(folder / "config.toml")


def has_config(folder: Path) -> bool:
    """Return True if a folder has the recipe of a run."""
    return (folder / "config.toml").is_file()


def compute_run_id(folder: Path) -> str:
    """Check the files of a run against their checksums; return the run's id, a hash of these."""
    if not (folder / "environment.json").exists():
        return ""  # the run was stopped before it was written
    sums = read_json(folder / "environment.json").get("files", {})
    if not isinstance(sums, dict) or any(Path(name).name != name for name in sums):
        raise CorruptFileError(f"{folder / 'environment.json'}: it lists files of other folders")
    for name, checksum in file_checksums(folder, sums).items():
        if checksum != sums[name]:
            raise CorruptFileError(
                f"{folder / name}: changed or corrupted since the run was started"
            )
    return table_checksum(sums) if sums else ""


def is_hugging_face_model(folder: Path) -> bool:
    """Return True if a folder is no run, but has the config of a model in Hugging Face's format."""
    return not has_config(folder) and (folder / "config.json").is_file()


def diff_configs(first: Path, second: Path) -> dict[str, list[Any]]:
    """Return the settings in which two runs differ, by key; None where a run does not state it."""
    return diff_tables(
        *(dict(flatten_table(to_table(read_run_recipe(run)))) for run in (first, second))
    )


def diff_tables(first: dict[str, Any], second: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the values in which two tables differ, by key."""
    keys = dict.fromkeys((*first, *second))
    return {k: [first.get(k), second.get(k)] for k in keys if first.get(k) != second.get(k)}
