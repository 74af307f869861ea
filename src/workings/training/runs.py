"""Runs: training a recipe into a folder, resuming, extending, loading and recording it."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar, overload

import torch

from workings import registry
from workings.config import load_table, to_table, to_toml
from workings.data.download import ProgressCallback
from workings.data.sentence_pairs import find_side
from workings.distributed import (
    ProcessGroup,
    init_process_group,
    is_main_process,
    is_restarted,
    launch_id,
)
from workings.errors import UserError, safe_repr
from workings.io import LockHeld, file_lock, make_folder, write_text
from workings.modules import unique_state_dict
from workings.recipes import (
    CaptionRecipe,
    ClassificationRecipe,
    Recipe,
    TranslationRecipe,
    build_recipe,
    change_section,
    read_recipe,
)
from workings.recipes.base import state_plugins
from workings.storage import (
    CorruptFileError,
    file_checksums,
    read_json,
    read_tensors,
    table_checksum,
    write_json,
    write_tensors,
)
from workings.tasks.base import Task
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation
from workings.training.environment import (
    collect_environment,
    diff_environments,
    measure_peak_memory,
)
from workings.training.errors import check_trainable, describe_os_error
from workings.training.extending import extend
from workings.training.finetuning import (
    INITIAL_WEIGHTS,
    PretrainedModel,
    WeightTransfer,
    build_from_initial,
    build_from_pretrained,
    has_initial_weights,
    has_same_start,
    load_pretrained,
)
from workings.training.logging import Log, LogMode, format_metrics, read_epochs, show_data_progress
from workings.training.run_folder import (
    MAX_SAMPLE_LENGTH,
    compute_run_id,
    has_config,
    is_hugging_face_model,
    read_run_recipe,
)
from workings.training.trackers import check_trackers, track
from workings.training.trainer import Trainer, TrainingInterrupt

TASKS: dict[str, type[Task]] = registry.TASKS
TASKS.update(
    caption=Captioning, classify=Classification, language=LanguageModeling, translate=Translation
)
SUMMED = ("parameters", "minutes", "cpu_minutes")  # of the runs of an ensemble
MAX_THREADS = 4096  # a larger number in environment.json is invalid
TaskType = TypeVar("TaskType", bound=Task)


def train_recipe(
    recipe: Recipe,
    folder: str | Path,
    *,
    mode: LogMode = "progress",
    repeat_of: Path | None = None,
    pretrained: PretrainedModel | None = None,
    prepare: Callable[[Task], None] | None = None,
    trackers: Sequence[str] = (),
) -> Task:
    """Train a recipe into a new folder; the processes of a torchrun train together.

    - `repeat_of`: the run that is repeated: the data must be those that it was trained on.
    - `pretrained`: the model of the recipe's `start_from`, if it is loaded already.
    - `trackers`: where the log is written as well: tensorboard, wandb or mlflow.
    """
    check_trackers(trackers)
    if prepare is None:  # before the data are read; `prepare` may add metrics
        TASKS[recipe.task].check_metric(recipe.train.metric)
    with _os_error_hint(Path(folder)):
        return _run(
            state_plugins(absolute_paths(recipe)),
            Path(folder),
            mode,
            repeat_of=repeat_of,
            pretrained=pretrained,
            prepare=prepare,
            trackers=trackers,
        )


def resume(
    folder: str | Path,
    *,
    mode: LogMode = "progress",
    parallelism: str | None = None,
    epochs: int | None = None,
    out: str | Path | None = None,
    trackers: Sequence[str] = (),
) -> Task:
    """Continue a run that was stopped, with any number of processes.

    - `parallelism`: ddp or fsdp, instead of the recipe's.
    - `epochs` and `out`: extend the run to more epochs in a new folder; its learning rate continues
      on the schedule of the longer training.
    - `trackers`: where the log is written as well, as in `train_recipe`.
    """
    check_trackers(trackers)
    if (epochs is None) != (out is None):
        raise UserError(
            "epochs= and out= go together: a run is extended to more epochs in a new folder"
        )
    with _os_error_hint(Path(folder)):
        if epochs is None or out is None:
            return _run(None, Path(folder), mode, parallelism, trackers=trackers)
        with _os_error_hint(Path(out)):
            source = Path(folder), epochs
            return _run(None, Path(out), mode, parallelism, extend_from=source, trackers=trackers)


@overload
def load(folder: str | Path) -> Task: ...
@overload
def load(folder: str | Path, kind: type[TaskType]) -> TaskType: ...
def load(folder: str | Path, kind: type[Task] = Task) -> Task:
    """Load a run: its task with the best weights. Or a model in Hugging Face's format.

    `kind` is the class of task that is expected, such as `Translation`: a run of another task is
    refused, and a type checker knows the result's methods.
    """
    folder = Path(folder)
    if is_hugging_face_model(folder):
        return _read_hugging_face_model(folder, kind)
    recipe = read_run_recipe(folder)
    if kind is not Task:
        _check_task_kind(kind, recipe, f"{folder}: a run")
    if not (folder / "environment.json").exists():
        raise CorruptFileError(f"{folder / 'environment.json'}: missing")
    with _os_error_hint(folder):
        task = TASKS[recipe.task].load(folder, recipe, compute_run_id(folder))
        data_info = read_json(folder / "environment.json").get("data")
        task.data_info = data_info if isinstance(data_info, dict) else {}
        return task


def _read_hugging_face_model(folder: Path, kind: type[Task]) -> Task:
    # Only here: interop is above training, and runs do not need it.
    from workings.interop.conversion import read_model

    task = read_model(folder)
    if kind is not Task:
        _check_task_kind(kind, task.recipe, f"{folder}: a model")
    return task


def load_to_train(folder: Path) -> tuple[Task, tuple[str, ...]]:
    """Load a run or a model in Hugging Face's format, and the names of layers with new weights."""
    if not is_hugging_face_model(folder):
        return load(folder), ()
    from workings.interop.conversion import read_model_to_train

    return read_model_to_train(folder)


def load_by_name(folders: Sequence[str | Path], kind: type[TaskType]) -> dict[str, TaskType]:
    """Load several runs; each is named by its folder, or by its path if two have the same name."""
    names = [Path(folder).name or str(folder) for folder in folders]
    if len(set(names)) < len(names):  # like a/model and b/model
        names = [str(Path(folder)) for folder in folders]
    if len({Path(folder).resolve() for folder in folders}) < len(names):
        raise UserError("the same run is given twice")
    return {name: load(folder, kind) for name, folder in zip(names, folders, strict=True)}


def open_as(kind: type[TaskType], path: str | Path, overrides: Sequence[str] = ()) -> TaskType:
    """Load a run, or build the task of a recipe with new weights."""
    if Path(path).is_dir():
        return load(path, kind)
    recipe = read_recipe(path, overrides)
    _check_task_kind(kind, recipe, f"{path}: a recipe")
    return kind.from_recipe(recipe)


def _check_task_kind(kind: type[Task], recipe: Recipe, label: str) -> None:
    if not issubclass(TASKS[recipe.task], kind):
        expected = next(name for name, task in TASKS.items() if task is kind)
        actual = f"{recipe.task!r}, for `workings {TASKS[recipe.task].verb}`"
        raise UserError(f"{label} of the task {actual}: expected one of the task {expected!r}")


@contextmanager
def _os_error_hint(run: Path) -> Iterator[None]:
    """Turn an OSError about a file of a run into a UserError that says what would help."""
    try:
        yield
    except OSError as error:
        if not error.filename or not Path(str(error.filename)).is_relative_to(run):
            raise  # about standard output, or the data
        raise UserError(describe_os_error(error, run)) from None


def absolute_paths(recipe: Recipe) -> Recipe:
    """Make the paths of a recipe's data absolute, so that the run works from any folder."""
    is_named = recipe.data.set in TASKS[recipe.task].list_datasets()
    paths = {} if is_named else {"set": recipe.data.set}
    if isinstance(recipe, CaptionRecipe):
        paths["images"] = recipe.data.images
    existing = {key: path for key, path in paths.items() if path and _data_exists(path, recipe)}
    absolute = {key: str(Path(path).absolute()) for key, path in existing.items()}
    if recipe.start_from and Path(recipe.start_from).exists():
        recipe = replace(recipe, start_from=str(Path(recipe.start_from).absolute()))
    return change_section(recipe, "data", **absolute)


def _data_exists(path: str, recipe: Recipe) -> bool:
    """Return True if a path is a file, a folder, or the common beginning of two files of pairs."""
    pairs = isinstance(recipe, TranslationRecipe) and find_side(Path(path), recipe.data.source)
    return bool(pairs) or Path(path).exists()


# -- training --------------------------------------------------------------------------------------


def _run(
    new_recipe: Recipe | None,
    folder: Path,
    mode: LogMode,
    parallelism: str | None = None,
    repeat_of: Path | None = None,
    extend_from: tuple[Path, int] | None = None,
    pretrained: PretrainedModel | None = None,
    prepare: Callable[[Task], None] | None = None,
    trackers: Sequence[str] = (),
) -> Task:
    """Train a new recipe, or resume the run of a folder; then test and report the best weights."""
    with init_process_group() as group, ExitStack() as stack:
        recipe: Recipe = new_recipe or ClassificationRecipe()
        with group.raise_on_any_rank():
            if group.is_main_process:
                if extend_from is not None and not _is_restart(folder):
                    _extend_locked(*extend_from, folder)
                recipe = _open_folder(new_recipe, folder, stack)
        recipe = _share_recipe(recipe, group)
        if parallelism is not None:
            recipe = change_section(recipe, "train", parallelism=parallelism)
        with group.raise_on_any_rank():
            group.select_device(recipe.train.device)
            with show_data_progress(mode if group.is_main_process else "quiet") as progress:
                start = _find_start(recipe, folder, repeat_of, pretrained)
                task, transfer = _build_task(recipe, start, progress)
            if prepare is not None:
                prepare(task)
            recipe = task.recipe  # fine-tuning fills in the model and the tokenizer
            task.select_metric(recipe.train.metric)
            check_trainable(task, recipe.train, group.device, distributed=group.world_size > 1)
            if repeat_of is not None:
                _check_repeated_data(repeat_of, task)
        task.recipe = recipe = _share_recipe(recipe, group)  # `prepare` may limit the minutes
        fingerprints = group.all_gather_json(task.fingerprint())
        with group.raise_on_any_rank():
            _check_fingerprints(fingerprints)
            if group.is_main_process:
                _write_description(task, transfer, folder, group)
        log = (
            Log(folder / "log.jsonl", mode, batch_unit=task.batch_unit)
            if group.is_main_process
            else Log(None, "quiet")
        )
        stack.callback(log.close)
        trainer = Trainer(task, recipe.train, folder, log, recipe.seed, group)
        trainer.run_id = group.broadcast_json(
            compute_run_id(folder) if group.is_main_process else ""
        )
        if not trainer.restore(extended=extend_from is not None):
            log.rewind(0)  # a new run, or one that was stopped before its first checkpoint
        _log_start(log, trainer, transfer)
        if group.is_main_process:
            stack.enter_context(track(log, trackers, folder, recipe, trainer.progress.step))
        try:
            trainer.train()
            return _finish(task, trainer, transfer, log)
        except (TrainingInterrupt, KeyboardInterrupt):  # the latter during the test
            log.info(f"stopped; continue with: workings resume {folder}")
            raise


def _share_recipe(recipe: Recipe, group: ProcessGroup) -> Recipe:
    """Return the recipe of the main process."""
    if group.world_size == 1:
        return recipe
    # As a table: only JSON and tensors are sent between processes.
    return build_recipe(group.broadcast_json(to_table(recipe)))


def _find_start(
    recipe: Recipe, folder: Path, repeat_of: Path | None, pretrained: PretrainedModel | None
) -> PretrainedModel | Path | None:
    """Return what a training starts from: nothing, a pretrained model, or a run's initial weights.

    A resumed or repeated run has its initial weights, and does not need the run they came from.
    """
    if not recipe.start_from:
        return None
    if has_initial_weights(folder):
        return folder
    if (
        repeat_of is not None
        and has_initial_weights(repeat_of)
        and has_same_start(recipe, read_run_recipe(repeat_of))
    ):
        return repeat_of
    return pretrained or load_pretrained(recipe.start_from)


def _build_task(
    recipe: Recipe, start: PretrainedModel | Path | None, progress: ProgressCallback | None
) -> tuple[Task, WeightTransfer | None]:
    task_class = TASKS[recipe.task]
    if isinstance(start, Path):
        return build_from_initial(task_class, recipe, start, compute_run_id(start), progress)
    if start is not None:
        return build_from_pretrained(task_class, recipe, start, progress)
    return task_class.from_recipe(recipe, progress), None


def _log_start(log: Log, trainer: Trainer, transfer: WeightTransfer | None) -> None:
    recipe = trainer.task.recipe
    folder, processes = trainer.folder, trainer.process_group.world_size
    ranks = f" · {processes} processes, {recipe.train.parallelism}" if processes > 1 else ""
    log.info(f"{recipe.title or recipe.model.kind} → {folder}{ranks}")
    if filtered := trainer.task.data_info.get("filtered"):
        log.info(f"  {filtered}")
    if transfer is not None:
        log.info(f"  {transfer.describe()}")
    if not trainer.is_finished():
        return
    if trainer.progress.epoch >= recipe.train.epochs:
        log.info(
            "finished: all epochs are done; to train longer: "
            f"workings resume {folder} --epochs N --out OTHER"
        )
    elif trainer.is_out_of_time():
        log.info(f"finished: train.minutes = {recipe.train.minutes} are over")
    else:
        log.info("finished: no improvement for train.patience epochs")


def _open_folder(new_recipe: Recipe | None, folder: Path, stack: ExitStack) -> Recipe:
    """Lock the folder of a new or resumed run until `stack` is closed; return its recipe."""
    if new_recipe is None or _is_restart(folder):
        recipe = read_run_recipe(folder)
        stack.enter_context(_lock_folder(folder))
        _check_resumable(folder)
        _remove_partial_files(folder)
        return recipe
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    if not existing.is_dir():
        raise UserError(f"{existing} is a file: --out needs a folder, new or empty")
    is_new = not folder.exists()
    _check_empty(folder)
    make_folder(folder)
    stack.enter_context(_lock_folder(folder))
    if is_new:  # after the lock, so that the folder of another process is never removed
        stack.callback(_remove_if_unused, folder)
    _check_empty(folder)  # another process may have trained here before the lock was free
    if (launch := launch_id()) is not None:
        write_text(folder / ".launch", launch)
    return new_recipe


def _check_empty(folder: Path) -> None:
    """Refuse a folder that has files; hidden ones do not count."""
    if folder.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty: use `workings resume {folder}`, or another --out")


def _check_resumable(folder: Path) -> None:
    """Refuse to start again from the beginning where there are weights but no checkpoint.

    With corrupt checkpoints (step-N.corrupt) it may: the user has been told.
    """
    if not (folder / "model.safetensors").exists() or any((folder / "checkpoints").glob("*")):
        return
    if not (folder / "log.jsonl").exists():
        raise UserError(
            f"{folder} was not trained here: there is nothing to resume; to train it further: "
            f"workings train --from {folder} --data.set FILE --out OTHER"
        )
    if (folder / "result.json").exists():
        raise UserError(
            f"{folder} has its weights, but no checkpoint to resume from; to train it again: "
            f"workings train --repeat {folder} --out OTHER"
        )


def _remove_partial_files(folder: Path) -> None:
    """Remove what a killed process was writing: the next one may use other temporary names."""
    for part in folder.glob(".*.part"):
        if part.is_file() or part.is_symlink():
            part.unlink(missing_ok=True)


def _is_restart(folder: Path) -> bool:
    """Return True if this torchrun has restarted its processes, and the run is its own."""
    launch = folder / ".launch"
    if not (is_restarted() and has_config(folder) and launch.is_file()):
        return False
    return launch.read_text(encoding="utf-8") == launch_id()


def _remove_if_unused(folder: Path) -> None:
    """Remove the folder of a training that was refused before it began."""
    with suppress(OSError):
        if all(file.name in (".lock", ".launch") for file in folder.iterdir()):
            for file in list(folder.iterdir()):
                file.unlink()
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
    """Check that the data of a repeated run have not changed, unless the recipe has others."""
    before, now = read_run_recipe(run), task.recipe
    is_same = (before.data, before.seed) == (now.data, now.seed)  # the seed selects the test data
    if is_same and read_json(run / "environment.json").get("data") != task.data_info:
        raise UserError(f"{task.recipe.data.set} is not what {run} was trained on: it has changed")


def _check_fingerprints(fingerprints: Sequence[dict[str, Any]]) -> None:
    """Check that all processes have the same data."""
    for rank, fingerprint in enumerate(fingerprints):
        if fingerprint != fingerprints[0]:
            raise UserError(
                f"process {rank} has other data than process 0: {fingerprint}, "
                f"not {fingerprints[0]}"
            )


def _write_description(
    task: Task, transfer: WeightTransfer | None, folder: Path, process_group: ProcessGroup
) -> None:
    """Write recipe, preprocessing and environment; check those of a resumed run.

    A fine-tuned run also gets its initial weights.
    """
    recipe = task.recipe
    if not has_config(folder):  # written first: with it, a run can be resumed
        write_text(folder / "config.toml", to_toml(to_table(recipe)))
    if not (folder / "environment.json").is_file():
        task.save(folder)
        files = file_checksums(folder, ("config.toml", *task.files))
        environment = {
            **collect_environment(),
            "processes": process_group.world_size,
            "data": task.data_info,
            "samples": [text[:MAX_SAMPLE_LENGTH] for text in task.sample_inputs()],
        }
        if transfer is not None:
            weights = unique_state_dict(task.model)
            write_tensors(folder / INITIAL_WEIGHTS, weights, table_checksum(files))
            environment["initialized_from"] = asdict(transfer)
        write_json(folder / "environment.json", {**environment, "files": files})
        return
    before = read_json(folder / "environment.json").get("data")
    if before != task.data_info:
        changes = "; ".join(diff_environments({"data": before}, {"data": task.data_info}))
        raise UserError(f"{recipe.data.set} is not what this run was started with: {changes}")
    if not task.matches_folder(folder):
        raise UserError(
            f"{folder / task.files[0]}: the same data now give another tokenizer or labels"
        )


def _finish(task: Task, trainer: Trainer, transfer: WeightTransfer | None, log: Log) -> Task:
    """Test the best weights, and write result.json and the report."""
    # Only here: the report imports interpret and render, which loading a run does not need.
    from workings.training import report

    folder, recipe, group = trainer.folder, task.recipe, trainer.process_group
    weights = None
    if group.is_main_process:
        weights = read_tensors(folder / "model.safetensors", run_id=trainer.run_id)
    best = task.with_weights(group.broadcast_tensors(weights))
    best.model.to(trainer.device)
    with log.show_evaluation("measuring the held-out data") as best.on_progress:
        metrics = best.test(group)
        limit = recipe.train.eval_tokens
        if limit is not None and best.count_validation_tokens() > limit:
            metrics = {**best.evaluate(group), **metrics}  # all of them; an epoch measured a part
    del best.on_progress
    if not group.is_main_process:
        return best
    best_epoch = trainer.progress.best_epoch
    numbers = {k: v for k, v in metrics.items() if k != "classes"}  # a table: not for curves
    log.record(kind="test", epoch=best_epoch, **numbers)
    write_json(
        folder / "result.json",
        {
            "title": recipe.title,
            "seed": recipe.seed,
            "minutes": round(trainer.progress.seconds / 60, 2),
            "cpu_minutes": round(trainer.progress.cpu_seconds / 60, 2),
            "processes": group.world_size,
            "threads": torch.get_num_threads(),
            "peak_memory_mb": measure_peak_memory(),
            "parameters": sum(p.numel() for p in best.model.parameters()),
            "best_epoch": best_epoch,
            **({} if transfer is None else {"initialized_from": asdict(transfer)}),
            **_select_best_metrics(read_epochs(folder / "log.jsonl"), best_epoch),
            **metrics,
        },
    )
    best.history = read_epochs(folder / "log.jsonl")
    best.model.cpu()  # as a loaded run's, which the report's analyses expect
    report.write_report(folder, best)
    # Of a classifier, the table of classes has precision and recall.
    headline = {k: v for k, v in metrics.items() if "precision" not in k and "recall" not in k}
    summary = format_metrics(headline) or "there are no test data"
    log.info(f"{summary}\n{folder / 'report.html'}")
    return best


def _select_best_metrics(epochs: list[dict[str, Any]], best_epoch: int) -> dict[str, float]:
    """Return the validation metrics of the best epoch."""
    best = [record for record in epochs if record["epoch"] == best_epoch]
    return {k: v for record in best for k, v in record.items() if k.startswith("validation_")}


def write_record(
    folder: Path, path: Path, reevaluated: tuple[Recipe, dict[str, Any]] | None = None
) -> None:
    """Write a run's result, recipe and curves to a file.

    `reevaluated` has a recipe with other search settings, and the metrics with it, which replace
    those at the end of the training.
    """
    if not is_main_process():
        return
    recipe = to_table(reevaluated[0]) if reevaluated else load_table(folder / "config.toml")
    metrics = reevaluated[1] if reevaluated else {}
    result = read_json(folder / "result.json")
    curves = read_epochs(folder / "log.jsonl")
    write_json(path, {**result, **metrics, "recipe": recipe, "curves": curves})


def sum_results(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the title of an ensemble of runs, and the sums of their sizes and minutes."""
    results = [read_json(folder / "result.json") for folder in folders]
    title = " + ".join(str(result["title"]) for result in results)
    return {
        "title": title,
        **{k: sum(r[k] for r in results) for k in SUMMED if all(k in r for r in results)},
    }


def _extend_locked(run: Path, epochs: int, folder: Path) -> None:
    recipe = read_run_recipe(run)
    with _lock_folder(run):
        extend(run, recipe, epochs, folder, launch_id())


# -- environment -----------------------------------------------------------------------------------


def restore_environment(folder: Path) -> list[str]:
    """Set the number of threads of a run; describe what else differs from its environment."""
    read_run_recipe(folder)
    before = read_json(folder / "environment.json")
    torch.set_num_threads(_read_thread_count(folder))
    kept = {key: before[key] for key in ("data", "extended_from") if key in before}
    changes = diff_environments(before, collect_environment() | kept)
    if "extended_from" in before:
        changes.append(f"it was extended from {before['extended_from']}")
    return changes


def restore_threads(folder: Path, cores: int) -> None:
    """Set the number of threads of a run, if this machine has as many cores."""
    is_alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # several processes share the cores
    if is_alone and (folder / "environment.json").exists():
        threads = _read_thread_count(folder)
        if threads <= cores:
            torch.set_num_threads(threads)


def _read_thread_count(folder: Path) -> int:
    """Return the number of threads of a run: with another one, sums would round differently."""
    threads = read_json(folder / "environment.json").get("threads")
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise CorruptFileError(
            f"{folder / 'environment.json'}: threads = {safe_repr(threads)}: "
            f"a whole number from 1 to {MAX_THREADS:,}"
        )
    return threads
