"""Extending a run: a new run of more epochs that continues from its last checkpoint."""

import shutil
from pathlib import Path
from typing import Any

from workings.config import build, to_table, to_toml
from workings.errors import UserError
from workings.io import atomic_folder, write_text
from workings.recipes import Recipe, change_section
from workings.storage import (
    CorruptFileError,
    file_checksums,
    read_checkpoint,
    read_json,
    read_tensors,
    table_checksum,
    write_checkpoint,
    write_json,
    write_tensors,
)
from workings.training.checkpoints import Checkpoints, raise_mismatch_as_corrupt
from workings.training.finetuning import INITIAL_WEIGHTS
from workings.training.trainer import TrainingProgress


def extend(run: Path, recipe: Recipe, epochs: int, folder: Path, launch_id: str | None) -> None:
    """Write a new run of more epochs that continues from the last checkpoint of `run`.

    Its files, weights and checkpoints get the id of the new run; only the learning rate so far was
    that of the shorter schedule. `launch_id` is that of the torchrun, if there is one.
    """
    if epochs <= recipe.train.epochs:
        raise UserError(
            f"--epochs {epochs}: {run} has {recipe.train.epochs} epochs already: more are needed"
        )
    if folder.exists():
        raise UserError(
            f"{folder} exists already: use `workings resume {folder}`, or another --out"
        )
    # The time is over, or nearly so: more epochs are asked for, however long they take.
    extended = change_section(recipe, "train", epochs=epochs, minutes=None)
    environment = read_json(run / "environment.json")
    before = environment.get("files")
    if not before:
        raise CorruptFileError(
            f"{run / 'environment.json'}: it has no checksums of the run's files"
        )
    checkpoints, progress = _read_checkpoints(run, table_checksum(before))
    _check_patience(run, recipe, progress)
    with atomic_folder(folder) as new:
        for name in {*before, "log.jsonl"} - {"config.toml"}:
            shutil.copyfile(run / name, new / name)
        write_text(new / "config.toml", to_toml(to_table(extended)))
        sums = file_checksums(new, before)
        extended_from = f"step {progress.step} of a training for {recipe.train.epochs} epochs"
        write_json(
            new / "environment.json", {**environment, "extended_from": extended_from, "files": sums}
        )
        run_id = table_checksum(sums)
        if (run / INITIAL_WEIGHTS).is_file():
            initial = read_tensors(run / INITIAL_WEIGHTS, run_id=table_checksum(before))
            write_tensors(new / INITIAL_WEIGHTS, initial, run_id)
        for name, (tensors, state) in checkpoints.items():
            write_checkpoint(new / "checkpoints" / name, tensors, {**state, "run_id": run_id})
        if progress.best_epoch and f"step-{progress.best_step}" not in checkpoints:
            # Else they are restored from that checkpoint: the file may be of a later epoch, whose
            # checkpoint was not written.
            best = read_tensors(run / "model.safetensors", run_id=table_checksum(before))
            write_tensors(new / "model.safetensors", best, run_id)
        if launch_id is not None:
            write_text(new / ".launch", launch_id)


def _read_checkpoints(run: Path, run_id: str) -> tuple[dict[str, Any], TrainingProgress]:
    """Return the newest and the best checkpoint of a run by name, and the newest's progress."""
    folders = Checkpoints(run, keep=1).list_folders()
    if not folders:
        raise UserError(f"{run} has no checkpoint to continue from")
    newest = folders[-1]
    checkpoints = {newest.name: read_checkpoint(newest)}
    with raise_mismatch_as_corrupt():
        progress: TrainingProgress = build(
            TrainingProgress, checkpoints[newest.name][1]["progress"]
        )
    best = newest.with_name(f"step-{progress.best_step}")
    if best.is_dir():
        checkpoints[best.name] = read_checkpoint(best)
    for name, (_, state) in checkpoints.items():
        if state.get("run_id", run_id) != run_id:
            raise CorruptFileError(f"{newest.with_name(name)}: it belongs to another run")
    return checkpoints, progress


def _check_patience(run: Path, recipe: Recipe, progress: TrainingProgress) -> None:
    """Refuse to extend a run whose patience has run out: it would stop at once."""
    patience = recipe.train.patience
    if patience is not None and progress.epoch - progress.best_epoch >= patience:
        raise UserError(
            f"{run} stopped because there was no improvement for {patience} epochs; with more "
            f"patience, from the beginning: workings train --repeat {run} --train.patience N"
        )
