"""Runs, folders that a person can read: `train` makes one, `resume` and `load` take it up."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from workings.config import build, load_table, override, to_table, to_toml
from workings.crew import Crew, am_chief, assembled, launch, restarted
from workings.data.captions import caption_set_names
from workings.data.pair_files import side
from workings.data.pairs import pair_set_names
from workings.data.sets import set_names
from workings.data.texts import text_names
from workings.errors import UserError
from workings.files import check_inside
from workings.locks import Taken, locked
from workings.recipes import (
    CaptionRecipe,
    ClassifyRecipe,
    Recipe,
    TranslateRecipe,
    read_recipe,
)
from workings.storage import (
    Damaged,
    file_sums,
    read_json,
    read_tensors,
    table_sum,
    write_json,
    write_text,
)
from workings.tasks.caption import Captioning
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.tasks.task import Task
from workings.tasks.translate import Translating
from workings.train.environment import differences, environment, peak_memory
from workings.train.faults import check, system_errors_told
from workings.train.log import Log, Mode, getting_ready, read_log, told
from workings.train.longer import lengthen
from workings.train.loop import Interrupted, Trainer
from workings.train.report import write_report

TASKS: dict[str, Any] = {
    "caption": Captioning,
    "classify": Classifying,
    "language": Modelling,
    "translate": Translating,
}
ASKED_BY = {
    "caption": "caption",
    "classify": "predict",
    "language": "complete",
    "translate": "translate",
}
NAMES: dict[str, Any] = {
    "caption": caption_set_names,
    "classify": set_names,
    "language": text_names,
    "translate": pair_set_names,
}
Kind = TypeVar("Kind", bound=Task)


def train(
    recipe: Recipe, folder: str | Path, *, mode: Mode = "progress", like: Path | None = None
) -> Task:
    """Train a recipe into a new folder; several processes of torchrun's do it together.

    Where it repeats a run, `like` that one, it must find the data that the run was trained on.
    """
    with system_errors_told(Path(folder)):
        return _run(at_home(recipe), Path(folder), mode, like=like)


def at_home(recipe: Recipe) -> Recipe:
    """Write the whole path of its data into a recipe: a run is asked from elsewhere, too."""
    paths = {"data.set": None if recipe.data.set in NAMES[recipe.task]() else recipe.data.set}
    if isinstance(recipe, CaptionRecipe):
        paths["data.images"] = recipe.data.images
    found = {key: Path(path) for key, path in paths.items() if path and _is_there(path, recipe)}
    changes = [word for key, path in found.items() for word in (f"--{key}", str(path.absolute()))]
    changed: Recipe = build(type(recipe), override(to_table(recipe), changes))
    return changed


def _is_there(path: str, recipe: Recipe) -> bool:
    """Whether a path leads to data: a file, a folder, or two files of pairs that begin so."""
    pairs = isinstance(recipe, TranslateRecipe) and side(Path(path), recipe.data.source)
    return bool(pairs) or Path(path).exists()


def resume(
    folder: str | Path,
    *,
    mode: Mode = "progress",
    how: str | None = None,
    epochs: int | None = None,
    out: str | Path | None = None,
) -> Task:
    """Go on with a run that was stopped; with as many processes as there are now.

    `how` they hold the weights, replicated or sharded, may be another way than the recipe's. For
    more `epochs` than the recipe's it goes on in a folder of its own, `out`; the rate takes the
    course of the longer training, at the place where this one has got to.
    """
    if (epochs is None) != (out is None):
        raise UserError("a run goes on for more epochs in a new folder: both are needed")
    with system_errors_told(Path(folder)):
        if epochs is None or out is None:
            return _run(None, Path(folder), mode, how)
        with system_errors_told(Path(out)):
            return _run(None, Path(out), mode, how, longer=(Path(folder), epochs))


def load(folder: str | Path) -> Task:
    """Open a run: something that predicts, or goes on with a text."""
    folder = Path(folder)
    recipe = recipe_of(folder)
    if not (folder / "environment.json").exists():
        raise Damaged(f"{folder / 'environment.json'}: missing")
    with system_errors_told(folder):
        task: Task = TASKS[recipe.task].load(folder, recipe, _mark(folder))
        learned_from = read_json(folder / "environment.json").get("data")
        task.data_told = learned_from if isinstance(learned_from, dict) else {}
        return task


def load_as(kind: type[Kind], folder: str | Path) -> Kind:
    """Open a run that must be of a kind of task."""
    _expect(kind, recipe_of(Path(folder)), f"{folder}: a run")
    task = load(folder)
    assert isinstance(task, kind)
    return task


def open_as(kind: type[Kind], path: str | Path, changes: Sequence[str] = ()) -> Kind:
    """Open a run; or, given a recipe, the same with fresh weights."""
    if Path(path).is_dir():
        return load_as(kind, path)
    recipe = read_recipe(path, changes)
    _expect(kind, recipe, f"{path}: a recipe")
    task = TASKS[recipe.task].from_recipe(recipe)
    assert isinstance(task, kind)
    return task


def _expect(kind: type[Task], recipe: Recipe, what: str) -> None:
    wanted = next(name for name, task in TASKS.items() if task is kind)
    if recipe.task != wanted:
        found = f"{recipe.task!r}, for `workings {ASKED_BY[recipe.task]}`"
        raise UserError(f"{what} of the task {found}: one of {wanted!r} is needed here")


def recipe_of(folder: Path) -> Recipe:
    """Read the recipe that a run was made by."""
    if not _begun(folder):
        raise UserError(f"{folder}: not a run: it has no config.toml")
    check_inside(folder / "config.toml", folder)
    _mark(folder)
    return read_recipe(folder / "config.toml")


def _mark(folder: Path) -> str:
    """See that a run's files are those that it began with, and give the word for just these."""
    if not (folder / "environment.json").exists():
        return ""  # stopped before it was written
    sums = read_json(folder / "environment.json").get("files", {})
    if not isinstance(sums, dict) or any(Path(name).name != name for name in sums):
        raise Damaged(f"{folder / 'environment.json'}: its files are not of this folder")
    for name, found in file_sums(folder, sums).items():
        if found != sums[name]:
            raise Damaged(f"{folder / name}: not what this run began with: damaged, or changed")
    return table_sum(sums) if sums else ""


def _begun(folder: Path) -> bool:
    return (folder / "config.toml").is_file()


def _run(
    new: Recipe | None,
    folder: Path,
    mode: Mode,
    how: str | None = None,
    like: Path | None = None,
    longer: tuple[Path, int] | None = None,
) -> Task:
    with assembled() as crew, ExitStack() as held:
        recipe: Recipe = new or ClassifyRecipe()
        with crew.together():
            if crew.is_chief:
                if longer is not None and not _taken_up(folder):
                    _lengthen(*longer, folder)
                recipe = _opened(new, folder, held)
        recipe = crew.chiefs(recipe)
        if how is not None:
            recipe = build(type(recipe), override(to_table(recipe), ["--train.crew", how]))
        with crew.together():
            crew.settle(recipe.train.device)
            with getting_ready(mode if crew.is_chief else "quiet") as progress:
                task: Task = TASKS[recipe.task].from_recipe(recipe, progress)
            check(task, recipe.train, crew.device, crowded=crew.size > 1)
            if like is not None:
                _expect_data_of(like, task)
        notes = crew.everyones(task.fingerprint())
        with crew.together():
            _compare(notes)
            if crew.is_chief:
                _describe(task, recipe, folder, crew)
        log = (
            Log(folder / "log.jsonl", mode, unit=task.unit) if crew.is_chief else Log(None, "quiet")
        )
        held.callback(log.close)
        trainer = Trainer(task, recipe.train, folder, log, recipe.seed, crew)
        trainer.belongs = crew.chiefs(_mark(folder) if crew.is_chief else "")
        if not trainer.restore(
            lengthened=longer is not None
        ):  # new, or stopped before there was anything to keep
            log.rewind(0)
        by = f" · {crew.size} processes, {recipe.train.crew}" if crew.size > 1 else ""
        log.say(f"{recipe.title or recipe.model['kind']} → {folder}{by}")
        if left_out := task.data_told.get("pictures", task.data_told.get("cleaned")):
            log.say(f"  {left_out}")
        if trainer.is_over():
            log.say(
                f"finished: nothing is left to train; for longer: workings resume {folder} "
                f"--epochs N --out OTHER"
                if trainer.progress.epoch >= recipe.train.epochs
                else "finished: nothing got better for as many epochs as train.patience says"
            )
        try:
            trainer.train()
        except Interrupted:
            log.say(f"stopped; go on with: workings resume {folder}")
            raise
        return _finish(task, trainer, log)


def _opened(new: Recipe | None, folder: Path, held: ExitStack) -> Recipe:
    """Take the folder, for a new run or to go on with its own; say what is to be trained."""
    started, by = folder / ".launch", launch()
    if new is None or _taken_up(folder):
        recipe = recipe_of(folder)
        held.enter_context(_claimed(folder))
        _expect_way_on(folder)
        return recipe
    there = next(p for p in (folder, *folder.parents) if p.exists())
    if not there.is_dir():
        raise UserError(f"{there} is a file: --out wants a folder, new or empty")
    if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty: `workings resume {folder}`, or another --out")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if made:
        held.callback(_remove_if_unused, folder)
    held.enter_context(_claimed(folder))
    if by is not None:
        write_text(started, by)
    return new


def _expect_way_on(folder: Path) -> None:
    """Refuse to begin again where a training has ended, or none has been: weights would be lost.

    Whoever has checkpoints, damaged ones put aside, was told what becomes of it.
    """
    if not (folder / "model.safetensors").exists() or any((folder / "checkpoints").glob("*")):
        return
    if not (folder / "log.jsonl").exists():
        raise UserError(f"{folder} was not trained here: there is nothing to go on with")
    if (folder / "result.json").exists():
        raise UserError(
            f"{folder} has its weights, but no checkpoint to go on from; anew: "
            f"workings train --repeat {folder} --out OTHER"
        )


def _taken_up(folder: Path) -> bool:
    """Tell a training that this very torchrun began, and has started again, from a new one."""
    started = folder / ".launch"
    if not (restarted() and _begun(folder) and started.is_file()):
        return False
    return started.read_text(encoding="utf-8") == launch()


def _lengthen(run: Path, epochs: int, folder: Path) -> None:
    recipe = recipe_of(run)
    with _claimed(run):
        lengthen(run, recipe, epochs, folder, launch())


def _remove_if_unused(folder: Path) -> None:
    """Leave no folder behind of a training that was refused before it began."""
    with suppress(OSError):
        if all(rest.name in (".lock", ".launch") for rest in folder.iterdir()):
            for rest in list(folder.iterdir()):
                rest.unlink()
            folder.rmdir()


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Keep other processes from training in the same folder."""
    try:
        with locked(folder / ".lock", wait=False):
            yield
    except Taken:
        raise UserError(
            f"{folder}: another process is training here: wait for it, or stop it"
        ) from None


def _expect_data_of(run: Path, task: Task) -> None:
    """See that a run's data is what it was, unless other data was asked for."""
    before, now = recipe_of(run), task.recipe
    same = (before.data, before.seed) == (now.data, now.seed)  # the seed says what is held out
    if same and read_json(run / "environment.json").get("data") != task.data_told:
        raise UserError(f"{task.recipe.data.set} is not what {run} was trained on: it has changed")


def _compare(fingerprints: Sequence[dict[str, Any]]) -> None:
    """See that every process learns from the same."""
    for rank, fingerprint in enumerate(fingerprints):
        if fingerprint != fingerprints[0]:
            raise UserError(
                f"process {rank} has other data than process 0: it has {fingerprint}, "
                f"not {fingerprints[0]}"
            )


def _describe(task: Task, recipe: Recipe, folder: Path, crew: Crew) -> None:
    """Write what is known before training; or see that a run goes on with the data it had."""
    if not _begun(folder):  # first of all: with it, a run can be resumed
        write_text(folder / "config.toml", to_toml(to_table(recipe)))
    if not (folder / "environment.json").is_file():
        task.save(folder)
        files = file_sums(folder, ("config.toml", *task.files))
        made_with = {**environment(), "processes": crew.size, "data": task.data_told}
        write_json(folder / "environment.json", {**made_with, "files": files})
        return
    before = read_json(folder / "environment.json").get("data")
    if before != task.data_told:
        changed = "; ".join(differences({"data": before}, {"data": task.data_told}))
        raise UserError(f"{recipe.data.set} is not what this run began with: {changed}")
    if not task.agrees(folder):
        raise UserError(f"{folder / 'tokenizer.json'}: the data give another one today")


def _finish(task: Task, trainer: Trainer, log: Log) -> Task:
    """Measure the best weights on the test part, and write what came out."""
    folder, recipe, crew = trainer.folder, task.recipe, trainer.crew
    weights = (
        read_tensors(folder / "model.safetensors", belongs=trainer.belongs)
        if crew.is_chief
        else None
    )
    best = task.twin(crew.chiefs_tensors(weights))
    best.model.to(trainer.device)
    measured = best.test(crew)
    if not crew.is_chief:
        return best
    log.record(kind="test", epoch=trainer.progress.best_epoch, **measured)
    chosen = _chosen(read_log(folder / "log.jsonl"), trainer.progress.best_epoch)
    write_json(
        folder / "result.json",
        {
            "title": recipe.title,
            "seed": recipe.seed,
            "minutes": round(trainer.progress.seconds / 60, 2),
            "processes": crew.size,
            "threads": torch.get_num_threads(),
            "peak_memory_mb": peak_memory(),
            "parameters": sum(p.numel() for p in best.model.parameters()),
            "best_epoch": trainer.progress.best_epoch,
            **chosen,
            **measured,
        },
    )
    best.model.cpu()  # where a run that is loaded is, and all that looks into one works
    write_report(folder, best)
    said = told(measured) or "nothing was held out: there is nothing to measure on"
    log.say(f"{said}\n{folder / 'report.html'}")
    return best


def _chosen(records: list[dict[str, Any]], epoch: int) -> dict[str, float]:
    """What the epoch that was chosen had measured on the validation examples."""
    of_epoch = [r for r in records if r["kind"] == "epoch" and r["epoch"] == epoch]
    return {k: v for r in of_epoch for k, v in r.items() if k.startswith("validation_")}


def record(folder: Path, path: Path, later: tuple[Recipe, dict[str, Any]] | None = None) -> None:
    """Write a run's result and its curves, epoch by epoch, to a file that can be kept.

    What was measured `later`, by a recipe that differs in how it searches, takes the place of what
    the training ended with.
    """
    if not am_chief():
        return
    curves = [r for r in read_log(folder / "log.jsonl") if r["kind"] == "epoch"]
    recipe = to_table(later[0]) if later else load_table(folder / "config.toml")
    measured = later[1] if later else {}
    result = read_json(folder / "result.json")
    write_json(path, {**result, **measured, "recipe": recipe, "curves": curves})
