"""A run taken up for more epochs, in a folder of its own: the run itself stays as it is."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, overload

import torch

from workings.config import build, load_table, override, to_table, to_toml
from workings.data.captions import list_caption_datasets
from workings.data.corpora import list_corpora
from workings.data.datasets import list_datasets
from workings.data.parallel import list_parallel_datasets
from workings.data.parallel_files import find_side
from workings.distributed import (
    ProcessGroup,
    init_process_group,
    is_main_process,
    is_restarted,
    launch_id,
)
from workings.errors import UserError, safe_repr
from workings.io import LockHeld, atomic_folder, check_inside, file_lock, write_text
from workings.recipes import (
    CaptionRecipe,
    ClassificationRecipe,
    Recipe,
    TranslationRecipe,
    read_recipe,
)
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
from workings.tasks.base import Task
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation
from workings.threads import count_cores
from workings.training.checkpoints import Checkpoints, raise_mismatch_as_corrupt
from workings.training.environment import (
    collect_environment,
    diff_environments,
    measure_peak_memory,
)
from workings.training.errors import check_trainable, os_error_hint
from workings.training.logging import Log, LogMode, format_metrics, read_log, show_data_progress
from workings.training.report import write_report
from workings.training.trainer import Trainer, TrainingInterrupt, TrainingProgress


def extend(run: Path, recipe: Recipe, epochs: int, folder: Path, launch_id: str | None) -> None:
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
        raise CorruptFileError(
            f"{run / 'environment.json'}: it does not say what files the run began with"
        )
    checkpoints, progress = _read_checkpoints(run, table_checksum(before))
    _check_patience(run, recipe, progress)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as new:
        for name in {*before, "log.jsonl"} - {"config.toml"}:
            shutil.copyfile(run / name, new / name)
        write_text(new / "config.toml", to_toml(to_table(longer)))
        sums = file_checksums(new, before)
        went_on = f"step {progress.step} of a training for {recipe.train.epochs} epochs"
        write_json(
            new / "environment.json", {**environment, "extended_from": went_on, "files": sums}
        )
        belongs = table_checksum(sums)
        for name, (tensors, state) in checkpoints.items():
            write_checkpoint(new / "checkpoints" / name, tensors, {**state, "run_id": belongs})
        if progress.best_epoch and f"step-{progress.best_step}" not in checkpoints:
            # Else they are taken from there: the file may be of an epoch that was not kept.
            best = read_tensors(run / "model.safetensors", run_id=table_checksum(before))
            write_tensors(new / "model.safetensors", best, belongs)
        if launch_id is not None:
            write_text(new / ".launch", launch_id)


def _read_checkpoints(run: Path, run_id: str) -> tuple[dict[str, Any], TrainingProgress]:
    """The newest checkpoint of a run and the best, by name; and how far the newest has got."""
    there = Checkpoints(run, keep=1).list_folders()
    if not there:
        raise UserError(f"{run} has no checkpoint to go on from")
    found = {there[-1].name: read_checkpoint(there[-1])}
    with raise_mismatch_as_corrupt():
        progress: TrainingProgress = build(TrainingProgress, found[there[-1].name][1]["progress"])
    best = there[-1].with_name(f"step-{progress.best_step}")
    if best.is_dir():
        found[best.name] = read_checkpoint(best)
    for name, (_, state) in found.items():
        if state.get("run_id", run_id) != run_id:
            raise CorruptFileError(f"{there[-1].with_name(name)}: it is of another run")
    return found, progress


def _check_patience(run: Path, recipe: Recipe, progress: TrainingProgress) -> None:
    """Refuse a run that would be over at once, since nothing got better for so long."""
    patience = recipe.train.patience
    if patience is not None and progress.epoch - progress.best_epoch >= patience:
        raise UserError(
            f"{run} ended because nothing got better for {patience} epochs: for more patience, "
            f"anew: workings train --repeat {run} --train.patience N"
        )


TASKS: dict[str, Any] = {
    "caption": Captioning,
    "classify": Classification,
    "language": LanguageModeling,
    "translate": Translation,
}
TASK_VERBS = {
    "caption": "caption",
    "classify": "predict",
    "language": "complete",
    "translate": "translate",
}
DATASET_NAMES: dict[str, Any] = {
    "caption": list_caption_datasets,
    "classify": list_datasets,
    "language": list_corpora,
    "translate": list_parallel_datasets,
}
TaskType = TypeVar("TaskType", bound=Task)


def train_recipe(
    recipe: Recipe,
    folder: str | Path,
    *,
    mode: LogMode = "progress",
    repeat_of: Path | None = None,
    prepare: Callable[[Task], None] | None = None,
) -> Task:
    """Train a recipe into a new folder; several processes of torchrun's do it together.

    Where it repeats a run, `like` that one, it must find the data that the run was trained on.
    """
    with os_error_hint(Path(folder)):
        return _run(
            absolute_paths(recipe), Path(folder), mode, repeat_of=repeat_of, prepare=prepare
        )


def absolute_paths(recipe: Recipe) -> Recipe:
    """Write the whole path of its data into a recipe: a run is asked from elsewhere, too."""
    paths = {
        "data.set": None if recipe.data.set in DATASET_NAMES[recipe.task]() else recipe.data.set
    }
    if isinstance(recipe, CaptionRecipe):
        paths["data.images"] = recipe.data.images
    found = {key: Path(path) for key, path in paths.items() if path and _data_exists(path, recipe)}
    changes = [word for key, path in found.items() for word in (f"--{key}", str(path.absolute()))]
    changed: Recipe = build(type(recipe), override(to_table(recipe), changes))
    return changed


def _data_exists(path: str, recipe: Recipe) -> bool:
    """Whether a path leads to data: a file, a folder, or two files of pairs that begin so."""
    pairs = isinstance(recipe, TranslationRecipe) and find_side(Path(path), recipe.data.source)
    return bool(pairs) or Path(path).exists()


def resume(
    folder: str | Path,
    *,
    mode: LogMode = "progress",
    parallelism: str | None = None,
    epochs: int | None = None,
    out: str | Path | None = None,
) -> Task:
    """Go on with a run that was stopped; with as many processes as there are now.

    `how` they hold the weights, ddp or fsdp, may be another way than the recipe's. For
    more `epochs` than the recipe's it goes on in a folder of its own, `out`; the rate takes the
    course of the longer training, at the place where this one has got to.
    """
    if (epochs is None) != (out is None):
        raise UserError("a run goes on for more epochs in a new folder: both are needed")
    with os_error_hint(Path(folder)):
        if epochs is None or out is None:
            return _run(None, Path(folder), mode, parallelism)
        with os_error_hint(Path(out)):
            return _run(None, Path(out), mode, parallelism, extend_from=(Path(folder), epochs))


@overload
def load(folder: str | Path) -> Task: ...
@overload
def load(folder: str | Path, kind: type[TaskType]) -> TaskType: ...
def load(folder: str | Path, kind: type[Task] = Task) -> Task:
    """Load a run: its task with the best weights.

    `kind` is the class of task that is expected, such as `Translation`: a run of another task is
    refused, and a type checker knows the result's methods.
    """
    folder = Path(folder)
    if kind is not Task:
        _check_task_kind(kind, read_run_recipe(folder), f"{folder}: a run")
    recipe = read_run_recipe(folder)
    if not (folder / "environment.json").exists():
        raise CorruptFileError(f"{folder / 'environment.json'}: missing")
    with os_error_hint(folder):
        task: Task = TASKS[recipe.task].load(folder, recipe, _compute_run_id(folder))
        learned_from = read_json(folder / "environment.json").get("data")
        task.data_info = learned_from if isinstance(learned_from, dict) else {}
        return task


def load_as(kind: type[TaskType], folder: str | Path) -> TaskType:
    """Open a run that must be of a kind of task."""
    _check_task_kind(kind, read_run_recipe(Path(folder)), f"{folder}: a run")
    task = load(folder)
    assert isinstance(task, kind)
    return task


def open_as(kind: type[TaskType], path: str | Path, overrides: Sequence[str] = ()) -> TaskType:
    """Open a run; or, given a recipe, the same with fresh weights."""
    if Path(path).is_dir():
        return load_as(kind, path)
    recipe = read_recipe(path, overrides)
    _check_task_kind(kind, recipe, f"{path}: a recipe")
    task = TASKS[recipe.task].from_recipe(recipe)
    assert isinstance(task, kind)
    return task


def _check_task_kind(kind: type[Task], recipe: Recipe, label: str) -> None:
    wanted = next(name for name, task in TASKS.items() if task is kind)
    if recipe.task != wanted:
        found = f"{recipe.task!r}, for `workings {TASK_VERBS[recipe.task]}`"
        raise UserError(f"{label} of the task {found}: one of {wanted!r} is needed here")


def read_run_recipe(folder: Path) -> Recipe:
    """Read the recipe that a run was made by."""
    if not _has_config(folder):
        raise UserError(f"{folder}: not a run: it has no config.toml")
    check_inside(folder / "config.toml", folder)
    _compute_run_id(folder)
    return read_recipe(folder / "config.toml")


def _compute_run_id(folder: Path) -> str:
    """See that a run's files are those that it began with, and give the word for just these."""
    if not (folder / "environment.json").exists():
        return ""  # stopped before it was written
    sums = read_json(folder / "environment.json").get("files", {})
    if not isinstance(sums, dict) or any(Path(name).name != name for name in sums):
        raise CorruptFileError(f"{folder / 'environment.json'}: its files are not of this folder")
    for name, found in file_checksums(folder, sums).items():
        if found != sums[name]:
            raise CorruptFileError(
                f"{folder / name}: not what this run began with: damaged, or changed"
            )
    return table_checksum(sums) if sums else ""


def _has_config(folder: Path) -> bool:
    return (folder / "config.toml").is_file()


def _run(
    new_recipe: Recipe | None,
    folder: Path,
    mode: LogMode,
    parallelism: str | None = None,
    repeat_of: Path | None = None,
    extend_from: tuple[Path, int] | None = None,
    prepare: Callable[[Task], None] | None = None,
) -> Task:
    with init_process_group() as crew, ExitStack() as held:
        recipe: Recipe = new_recipe or ClassificationRecipe()
        with crew.raise_on_any_rank():
            if crew.is_main_process:
                if extend_from is not None and not _is_restart(folder):
                    _extend_locked(*extend_from, folder)
                recipe = _open_folder(new_recipe, folder, held)
        recipe = crew.broadcast_object(recipe)
        if parallelism is not None:
            recipe = build(
                type(recipe), override(to_table(recipe), ["--train.parallelism", parallelism])
            )
        with crew.raise_on_any_rank():
            crew.select_device(recipe.train.device)
            with show_data_progress(mode if crew.is_main_process else "quiet") as progress:
                task: Task = TASKS[recipe.task].from_recipe(recipe, progress)
            if prepare is not None:
                prepare(task)
            check_trainable(task, recipe.train, crew.device, distributed=crew.world_size > 1)
            if repeat_of is not None:
                _check_repeated_data(repeat_of, task)
        notes = crew.all_gather_object(task.fingerprint())
        with crew.raise_on_any_rank():
            _check_fingerprints(notes)
            if crew.is_main_process:
                _write_description(task, recipe, folder, crew)
        log = (
            Log(folder / "log.jsonl", mode, batch_unit=task.batch_unit)
            if crew.is_main_process
            else Log(None, "quiet")
        )
        held.callback(log.close)
        trainer = Trainer(task, recipe.train, folder, log, recipe.seed, crew)
        trainer.run_id = crew.broadcast_object(
            _compute_run_id(folder) if crew.is_main_process else ""
        )
        if not trainer.restore(
            extended=extend_from is not None
        ):  # new, or stopped before there was anything to keep
            log.rewind(0)
        by = (
            f" · {crew.world_size} processes, {recipe.train.parallelism}"
            if crew.world_size > 1
            else ""
        )
        log.info(f"{recipe.title or recipe.model.kind} → {folder}{by}")
        if left_out := task.data_info.get("filtered"):
            log.info(f"  {left_out}")
        if trainer.is_finished():
            log.info(
                f"finished: nothing is left to train; for longer: workings resume {folder} "
                f"--epochs N --out OTHER"
                if trainer.progress.epoch >= recipe.train.epochs
                else "finished: nothing got better for as many epochs as train.patience says"
            )
        try:
            trainer.train()
        except TrainingInterrupt:
            log.info(f"stopped; go on with: workings resume {folder}")
            raise
        return _finish(task, trainer, log)


def _open_folder(new_recipe: Recipe | None, folder: Path, stack: ExitStack) -> Recipe:
    """Take the folder, for a new run or to go on with its own; say what is to be trained."""
    started, by = folder / ".launch", launch_id()
    if new_recipe is None or _is_restart(folder):
        recipe = read_run_recipe(folder)
        stack.enter_context(_lock_folder(folder))
        _check_resumable(folder)
        return recipe
    there = next(p for p in (folder, *folder.parents) if p.exists())
    if not there.is_dir():
        raise UserError(f"{there} is a file: --out wants a folder, new or empty")
    if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty: `workings resume {folder}`, or another --out")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if made:
        stack.callback(_remove_if_unused, folder)
    stack.enter_context(_lock_folder(folder))
    if by is not None:
        write_text(started, by)
    return new_recipe


def _check_resumable(folder: Path) -> None:
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


def _is_restart(folder: Path) -> bool:
    """Tell a training that this very torchrun began, and has started again, from a new one."""
    started = folder / ".launch"
    if not (is_restarted() and _has_config(folder) and started.is_file()):
        return False
    return started.read_text(encoding="utf-8") == launch_id()


def _extend_locked(run: Path, epochs: int, folder: Path) -> None:
    recipe = read_run_recipe(run)
    with _lock_folder(run):
        extend(run, recipe, epochs, folder, launch_id())


def _remove_if_unused(folder: Path) -> None:
    """Leave no folder behind of a training that was refused before it began."""
    with suppress(OSError):
        if all(rest.name in (".lock", ".launch") for rest in folder.iterdir()):
            for rest in list(folder.iterdir()):
                rest.unlink()
            folder.rmdir()


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from training in the same folder."""
    try:
        with file_lock(folder / ".lock", wait=False):
            yield
    except LockHeld:
        raise UserError(
            f"{folder}: another process is training here: wait for it, or stop it"
        ) from None


def _check_repeated_data(run: Path, task: Task) -> None:
    """See that a run's data is what it was, unless other data was asked for."""
    before, now = read_run_recipe(run), task.recipe
    same = (before.data, before.seed) == (now.data, now.seed)  # the seed says what is held out
    if same and read_json(run / "environment.json").get("data") != task.data_info:
        raise UserError(f"{task.recipe.data.set} is not what {run} was trained on: it has changed")


def _check_fingerprints(fingerprints: Sequence[dict[str, Any]]) -> None:
    """See that every process learns from the same."""
    for rank, fingerprint in enumerate(fingerprints):
        if fingerprint != fingerprints[0]:
            raise UserError(
                f"process {rank} has other data than process 0: it has {fingerprint}, "
                f"not {fingerprints[0]}"
            )


def _write_description(
    task: Task, recipe: Recipe, folder: Path, process_group: ProcessGroup
) -> None:
    """Write what is known before training; or see that a run goes on with the data it had."""
    if not _has_config(folder):  # first of all: with it, a run can be resumed
        write_text(folder / "config.toml", to_toml(to_table(recipe)))
    if not (folder / "environment.json").is_file():
        task.save(folder)
        files = file_checksums(folder, ("config.toml", *task.files))
        made_with = {
            **collect_environment(),
            "processes": process_group.world_size,
            "data": task.data_info,
        }
        write_json(folder / "environment.json", {**made_with, "files": files})
        return
    before = read_json(folder / "environment.json").get("data")
    if before != task.data_info:
        changed = "; ".join(diff_environments({"data": before}, {"data": task.data_info}))
        raise UserError(f"{recipe.data.set} is not what this run began with: {changed}")
    if not task.matches_folder(folder):
        raise UserError(f"{folder / 'tokenizer.json'}: the data give another one today")


def _finish(task: Task, trainer: Trainer, log: Log) -> Task:
    """Measure the best weights on the test part, and write what came out."""
    folder, recipe, crew = trainer.folder, task.recipe, trainer.process_group
    weights = (
        read_tensors(folder / "model.safetensors", run_id=trainer.run_id)
        if crew.is_main_process
        else None
    )
    best = task.with_weights(crew.broadcast_tensors(weights))
    best.model.to(trainer.device)
    measured = best.test(crew)
    if not crew.is_main_process:
        return best
    log.record(kind="test", epoch=trainer.progress.best_epoch, **measured)
    chosen = _select_best_metrics(read_log(folder / "log.jsonl"), trainer.progress.best_epoch)
    write_json(
        folder / "result.json",
        {
            "title": recipe.title,
            "seed": recipe.seed,
            "minutes": round(trainer.progress.seconds / 60, 2),
            "processes": crew.world_size,
            "threads": torch.get_num_threads(),
            "peak_memory_mb": measure_peak_memory(),
            "parameters": sum(p.numel() for p in best.model.parameters()),
            "best_epoch": trainer.progress.best_epoch,
            **chosen,
            **measured,
        },
    )
    best.history = [r for r in read_log(folder / "log.jsonl") if r["kind"] == "epoch"]
    best.model.cpu()  # where a run that is loaded is, and all that looks into one works
    write_report(folder, best)
    said = format_metrics(measured) or "nothing was held out: there is nothing to measure on"
    log.info(f"{said}\n{folder / 'report.html'}")
    return best


def _select_best_metrics(records: list[dict[str, Any]], epoch: int) -> dict[str, float]:
    """What the epoch that was chosen had measured on the validation examples."""
    of_epoch = [r for r in records if r["kind"] == "epoch" and r["epoch"] == epoch]
    return {k: v for r in of_epoch for k, v in r.items() if k.startswith("validation_")}


def write_record(
    folder: Path, path: Path, reevaluated: tuple[Recipe, dict[str, Any]] | None = None
) -> None:
    """Write a run's result and its curves, epoch by epoch, to a file that can be kept.

    What was measured `later`, by a recipe that differs in how it searches, takes the place of what
    the training ended with.
    """
    if not is_main_process():
        return
    curves = [r for r in read_log(folder / "log.jsonl") if r["kind"] == "epoch"]
    recipe = to_table(reevaluated[0]) if reevaluated else load_table(folder / "config.toml")
    measured = reevaluated[1] if reevaluated else {}
    result = read_json(folder / "result.json")
    write_json(path, {**result, **measured, "recipe": recipe, "curves": curves})


MAX_THREADS = 4096  # no machine has more to offer


def restore_environment(folder: Path) -> list[str]:
    """Compute with as many threads as a run did; say what else is not as it was then."""
    read_run_recipe(folder)
    before = read_json(folder / "environment.json")
    torch.set_num_threads(_read_thread_count(folder))
    now = collect_environment() | {
        key: before[key] for key in ("data", "extended_from") if key in before
    }
    went_on = [f"it went on from {before['extended_from']}"] if "extended_from" in before else []
    return diff_environments(before, now) + went_on


def _read_thread_count(folder: Path) -> int:
    """How many threads a run was begun with: with another number it would round differently."""
    threads = read_json(folder / "environment.json").get("threads")
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise CorruptFileError(
            f"{folder / 'environment.json'}: threads = {safe_repr(threads)}: not a run's"
        )
    return threads


def restore_threads(folder: Path) -> None:
    """Go on with as many threads as a run was begun with, if this machine has so many cores."""
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # torchrun's: a crew shares the cores
    if alone and (folder / "environment.json").exists():
        threads = _read_thread_count(folder)
        if threads <= count_cores():
            torch.set_num_threads(threads)
