"""A run taken up for more epochs, in a folder of its own: the run itself stays as it is."""

import shutil
from pathlib import Path
from typing import Any

from workings.config import build, override, to_table, to_toml
from workings.errors import UserError
from workings.recipes import Recipe
from workings.storage import (
    Damaged,
    file_sums,
    folder_beside,
    read_checkpoint,
    read_json,
    read_tensors,
    table_sum,
    write_checkpoint,
    write_json,
    write_tensors,
    write_text,
)
from workings.train.checkpoints import Checkpoints, misfits_told
from workings.train.loop import Progress


def lengthen(run: Path, recipe: Recipe, epochs: int, folder: Path, by: str | None) -> None:
    """Write a run of more epochs that stands where `run`, made by `recipe`, has got to.

    `by` names the torchrun that asks for it, if one does.

    Its files, weights and newest checkpoint carry the mark of the new recipe, as if it had been
    theirs from the beginning; only the rate was another's until here.
    """
    if epochs <= recipe.train.epochs:
        raise UserError(f"--epochs {epochs}: {run} is of {recipe.train.epochs}; more are wanted")
    if folder.exists():
        raise UserError(f"{folder} is there already: `workings resume {folder}`, or another --out")
    longer: Recipe = build(
        type(recipe), override(to_table(recipe), ["--train.epochs", str(epochs)])
    )
    environment = read_json(run / "environment.json")
    before = environment.get("files")
    if not before:
        raise Damaged(f"{run / 'environment.json'}: it does not say what files the run began with")
    checkpoints, progress = _checkpoints(run, table_sum(before))
    _check_patience(run, recipe, progress)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_beside(folder) as new:
        for name in {*before, "log.jsonl"} - {"config.toml"}:
            shutil.copyfile(run / name, new / name)
        write_text(new / "config.toml", to_toml(to_table(longer)))
        sums = file_sums(new, before)
        went_on = f"step {progress.step} of a training for {recipe.train.epochs} epochs"
        write_json(new / "environment.json", {**environment, "went_on": went_on, "files": sums})
        belongs = table_sum(sums)
        for name, (tensors, state) in checkpoints.items():
            write_checkpoint(new / "checkpoints" / name, tensors, {**state, "belongs": belongs})
        if progress.best_epoch and f"step-{progress.best_step}" not in checkpoints:
            # Else they are taken from there: the file may be of an epoch that was not kept.
            best = read_tensors(run / "model.safetensors", belongs=table_sum(before))
            write_tensors(new / "model.safetensors", best, belongs)
        if by is not None:
            write_text(new / ".launch", by)


def _checkpoints(run: Path, belongs: str) -> tuple[dict[str, Any], Progress]:
    """The newest checkpoint of a run and the best, by name; and how far the newest has got."""
    there = Checkpoints(run, keep=1).all()
    if not there:
        raise UserError(f"{run} has no checkpoint to go on from")
    found = {there[-1].name: read_checkpoint(there[-1])}
    with misfits_told():
        progress: Progress = build(Progress, found[there[-1].name][1]["progress"])
    best = there[-1].with_name(f"step-{progress.best_step}")
    if best.is_dir():
        found[best.name] = read_checkpoint(best)
    for name, (_, state) in found.items():
        if state.get("belongs", belongs) != belongs:
            raise Damaged(f"{there[-1].with_name(name)}: it is of another run")
    return found, progress


def _check_patience(run: Path, recipe: Recipe, progress: Progress) -> None:
    """Refuse a run that would be over at once, since nothing got better for so long."""
    patience = recipe.train.patience
    if patience is not None and progress.epoch - progress.best_epoch >= patience:
        raise UserError(
            f"{run} ended because nothing got better for {patience} epochs: for more patience, "
            f"anew: workings train --repeat {run} --train.patience N"
        )
