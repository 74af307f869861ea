"""A run taken up for more epochs, in a folder of its own: the run itself stays as it is."""

import shutil
from contextlib import suppress
from pathlib import Path

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
from workings.train.checkpoints import Checkpoints


def lengthen(run: Path, recipe: Recipe, epochs: int, folder: Path) -> None:
    """Write a run of more epochs that stands where `run`, made by `recipe`, has got to.

    Its files, weights and newest checkpoint carry the mark of the new recipe, as if it had been
    theirs from the beginning; only the rate was another's until here.
    """
    if epochs <= recipe.train.epochs:
        raise UserError(f"--epochs {epochs}: {run} is of {recipe.train.epochs}; more are wanted")
    if folder.exists():
        raise UserError(f"{folder} is there already: another --out")
    longer: Recipe = build(
        type(recipe), override(to_table(recipe), ["--train.epochs", str(epochs)])
    )
    checkpoint = _newest(run)
    tensors, state = read_checkpoint(checkpoint)
    environment = read_json(run / "environment.json")
    before = environment.get("files")
    if not before:
        raise Damaged(f"{run / 'environment.json'}: it does not say what files the run began with")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_beside(folder) as new:
        for name in {*before, "log.jsonl"} - {"config.toml"}:
            shutil.copyfile(run / name, new / name)
        write_text(new / "config.toml", to_toml(to_table(longer)))
        sums = file_sums(new, before)
        write_json(new / "environment.json", {**environment, "files": sums})
        belongs = table_sum(sums)
        write_checkpoint(
            new / "checkpoints" / checkpoint.name, tensors, {**state, "belongs": belongs}
        )
        if (run / "model.safetensors").exists():  # else stopped in the first epoch
            best = read_tensors(run / "model.safetensors", belongs=table_sum(before))
            write_tensors(new / "model.safetensors", best, belongs)


def _newest(run: Path) -> Path:
    """The newest checkpoint of a run that is whole."""
    for folder in reversed(Checkpoints(run, keep=1).all()):
        with suppress(Damaged):
            read_checkpoint(folder)
            return folder
    raise UserError(f"{run} has no checkpoint to go on from")
