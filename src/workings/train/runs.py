"""Runs, folders that a person can read: `train` makes one, `resume` and `load` take it up."""

import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from workings import __version__
from workings.config import build, load_table, override, to_table, to_toml
from workings.errors import UserError, near
from workings.recipes import ClassifyRecipe
from workings.storage import read_json, write_json, write_text
from workings.tasks.classify import Classifying
from workings.train.log import Log, Mode, read_log, told
from workings.train.loop import Interrupted, Trainer
from workings.train.report import write_report

TASKS = {"classify": (ClassifyRecipe, Classifying)}


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> ClassifyRecipe:
    """Read a recipe and change it as the command line says: `--train.epochs 3`."""
    table = override(load_table(path), changes)
    task = table.get("task", "classify")
    if task not in TASKS:
        raise UserError(f"task = {task!r}: {near(str(task), TASKS)}")
    return build(TASKS[task][0], table)


def train(recipe: ClassifyRecipe, folder: str | Path, *, mode: Mode = "progress") -> Classifying:
    """Train a recipe into a new folder."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: `workings resume {folder}`, or another --out")
    folder.mkdir(parents=True, exist_ok=True)
    task = TASKS[recipe.task][1].from_recipe(recipe)
    write_text(folder / "config.toml", to_toml(to_table(recipe)))
    write_json(folder / "environment.json", environment())
    task.save(folder)
    return _run(task, recipe, folder, mode, fresh=True)


def resume(folder: str | Path, *, mode: Mode = "progress") -> Classifying:
    """Go on with a run that was stopped."""
    folder = Path(folder)
    recipe = recipe_of(folder)
    task = TASKS[recipe.task][1].from_recipe(recipe)
    return _run(task, recipe, folder, mode, fresh=False)


def load(folder: str | Path) -> Classifying:
    """Open a run: something that predicts."""
    folder = Path(folder)
    recipe = recipe_of(folder)
    return TASKS[recipe.task][1].load(folder, recipe)


def recipe_of(folder: Path) -> ClassifyRecipe:
    """Read the recipe that a run was made by."""
    if not (folder / "config.toml").is_file():
        raise UserError(f"{folder}: not a run: it has no config.toml")
    return read_recipe(folder / "config.toml")


def _run(
    task: Classifying, recipe: ClassifyRecipe, folder: Path, mode: Mode, *, fresh: bool
) -> Classifying:
    log = Log(folder / "log.jsonl", mode)
    try:
        trainer = Trainer(task, recipe.train, folder, log, recipe.seed)
        if not fresh:
            trainer.restore()
        log.say(f"{recipe.title or recipe.model['kind']} → {folder}")
        try:
            trainer.train()
        except Interrupted:
            log.say(f"stopped; go on with: workings resume {folder}")
            raise
        best = load(folder)
        best.model.to(trainer.device)
        best.borrow(task)
        measured = best.test(trainer.device)
        log.record(kind="test", epoch=trainer.progress.best_epoch, **measured)
        chosen = _chosen(read_log(folder / "log.jsonl"), trainer.progress.best_epoch)
        write_json(
            folder / "result.json",
            {
                "title": recipe.title,
                "seed": recipe.seed,
                "minutes": round(trainer.progress.seconds / 60, 2),
                "threads": torch.get_num_threads(),
                "peak_memory_mb": peak_memory(),
                "parameters": sum(p.numel() for p in best.model.parameters()),
                "best_epoch": trainer.progress.best_epoch,
                **chosen,
                **measured,
            },
        )
        write_report(folder, best)
        log.say(f"{told(measured)}\n{folder / 'report.html'}")
        return best
    finally:
        log.close()


def _chosen(records: list[dict[str, Any]], epoch: int) -> dict[str, float]:
    """What the epoch that was chosen had measured on the validation examples."""
    of_epoch = [r for r in records if r["kind"] == "epoch" and r["epoch"] == epoch]
    return {k: v for r in of_epoch for k, v in r.items() if k.startswith("validation_")}


def environment() -> dict[str, Any]:
    """What a run was made with."""
    packages = {}
    for name in ("torch", "numpy", "safetensors", "tokenizers", "emoji"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "workings": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "packages": packages,
        "command": ["workings", *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def peak_memory() -> int | None:
    """The most memory that this process ever held, in MB; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10))


def record(folder: Path, path: Path) -> None:
    """Write a run's result and its curves, epoch by epoch, to a file that can be kept."""
    curves = [r for r in read_log(folder / "log.jsonl") if r["kind"] == "epoch"]
    recipe = load_table(folder / "config.toml")
    result = read_json(folder / "result.json")
    write_json(path, {**result, "recipe": recipe, "curves": curves})
