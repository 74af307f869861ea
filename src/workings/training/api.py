"""`workings.train`: train a recipe by name, or a model of your own on data in memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from torch import nn

from workings.config import build, check_choice, to_table
from workings.data.readers import is_missing
from workings.distributed import init_process_group
from workings.errors import UserError, did_you_mean
from workings.io import atomic_write, existing_path, make_folder, write_bytes
from workings.models.classifier_base import TextClassifier
from workings.models.classifiers import NgramClassifier
from workings.models.language import LanguageModel
from workings.models.tfidf import TfidfClassifier
from workings.models.translation import Translator
from workings.modules import Rebuildable, load_unique_state_dict
from workings.recipes import (
    RECIPES,
    ClassificationRecipe,
    LanguageRecipe,
    Recipe,
    TrainConfig,
    TranslationRecipe,
    read_recipe,
)
from workings.registry import MODELS
from workings.storage import read_tensors
from workings.tasks.base import Task
from workings.tasks.custom import CollateFunction, CustomTask, LossFunction
from workings.training.finetuning import PretrainedModel, load_pretrained
from workings.training.logging import Log, LogMode, read_epochs
from workings.training.own_data import DEFAULT_MINUTES, train_own_data
from workings.training.runs import train_recipe
from workings.training.trainer import Trainer

Data: TypeAlias = str | Path | Iterable[Any] | Mapping[str, Iterable[Any]]
Callback: TypeAlias = Callable[[dict[str, Any]], None]

MIN_BYTE_PAIRS = 1000  # of a smaller vocabulary, most entries would be single bytes
COLUMNS = {"classify": ("text", "label"), "translate": ("source", "target")}
"""The columns of tabular training data, in the order of tuples."""


def train(
    model: str | Path | Recipe | nn.Module | None = None,
    data: Data | None = None,
    *,
    task: str | None = None,
    start_from: str | Path | Task | None = None,
    out: str | Path | None = None,
    loss: LossFunction | None = None,
    collate: CollateFunction | None = None,
    validation: float | None = None,
    seed: int | None = None,
    metrics: Mapping[str, Callable[[Any], float]] | None = None,
    callbacks: Sequence[Callback] = (),
    mode: LogMode = "quiet",
    **settings: Any,
) -> Task:
    """Train a model and return its task, with the best weights.

    `model` is a recipe (the name of a built-in one, a file, or a `Recipe`), a model of
    `workings.models`, or any `nn.Module` with a `loss(model, batch)` and a `collate(examples)`.

    `data` may be a file; for language models a text or an iterable of texts; for classifiers and
    translators pairs (text, label) or (source, target), a mapping of columns, or a data frame; for
    other modules a sequence of examples. Recipes know their data already.

    With `task` ("classify", "language", "translate" or "caption") instead of a model, everything is
    chosen from the data and from `minutes` (5 by default): `train(task="classify", data=frame)`.
    `mode="progress"` prints what was chosen and why.

    `start_from` fine-tunes: the training starts from the weights of a run, of a model in Hugging
    Face's format, or of a task. The recipe may be of another task, or left out: then it is that of
    the run. With `task`, a schedule is chosen that keeps what the model has learned.

    `settings` are keys of a recipe's `[train]` section, such as `epochs`, `batch_size`,
    `learning_rate` and `freeze`. `metrics` are functions of the task, computed after each epoch as
    `validation_NAME`. `metric="NAME"` chooses the best epoch by one of them: the highest value,
    unless it is a `workings.registry.Metric` with `higher_is_better=False`. `callbacks` receive the
    record of each epoch. `out` keeps the run in a new folder, for `workings.load`; without it
    nothing is kept on disk.

    >>> from workings import models
    >>> model = models.TransformerLM(vocab_size=100, d_model=16, layers=1, heads=2)
    >>> task = train(model, "hello world, " * 200, epochs=1)
    >>> task.model is model, len(task.history)
    (True, 1)
    """
    with _run_folder(out) as folder:
        if task is not None:
            if any(other is not None for other in (model, loss, collate)):
                raise UserError("task= chooses the model: it goes with data=, not with others")
            start = None if start_from is None else load_pretrained(start_from)
            given = {"seed": seed, "data": {"validation": validation}}
            attach = partial(_attach, metrics=metrics or {}, callbacks=callbacks)
            return _train_task(task, data, folder, given, settings, start, mode, attach)
        if isinstance(model, nn.Module) and not isinstance(
            model, LanguageModel | TextClassifier | Translator
        ):
            if loss is None or collate is None or data is None:
                raise UserError("a module of your own needs data, loss= and collate=")
            custom = CustomTask(
                model,
                _read_examples(data),
                loss,
                collate,
                config=_build_train_config(TrainConfig(), settings),
                validation=0.1 if validation is None else validation,
                seed=seed or 0,
            )
            _attach(custom, metrics or {}, callbacks)
            return _train_custom(custom, folder, mode)
        if loss is not None or collate is not None:
            raise UserError("loss= and collate= are for modules of your own: this model has both")
        pretrained = None if start_from is None else load_pretrained(start_from)
        recipe = _make_recipe(model, pretrained)
        changes: dict[str, Any] = {} if seed is None else {"seed": seed}
        if data is not None:
            changes["data"] = _store_data(recipe, data, folder)
        if validation is not None:
            changes["data"] = replace(changes.get("data", recipe.data), validation=validation)
        recipe = replace(recipe, train=_build_train_config(recipe.train, settings), **changes)

        def prepare(task: Task) -> None:
            is_empty = isinstance(model, NgramClassifier | TfidfClassifier) and not len(model.keys)
            if isinstance(model, nn.Module) and not is_empty:  # else the data have its n-grams
                task.model.load_state_dict(model.state_dict())
            _attach(task, metrics or {}, callbacks)

        trained = train_recipe(recipe, folder, mode=mode, pretrained=pretrained, prepare=prepare)
        if isinstance(model, nn.Module):  # the user's own object has the best weights, too
            model.load_state_dict(trained.model.state_dict())
            trained.model = model.eval()
        return trained


def _attach(
    task: Task, metrics: Mapping[str, Callable[[Any], float]], callbacks: Sequence[Callback]
) -> None:
    task.metrics, task.callbacks = metrics, callbacks


def _train_task(
    task: str,
    data: Data | None,
    folder: Path,
    given: Mapping[str, Any],
    settings: dict[str, Any],
    pretrained: PretrainedModel | None,
    mode: LogMode,
    prepare: Callable[[Task], None],
) -> Task:
    """Train a recipe that is chosen by the data; `settings` are keys of its `[train]` section."""
    check_choice("task", task, RECIPES)
    if data is None:
        raise UserError(f"task={task!r} needs data=")
    minutes = settings.pop("minutes", DEFAULT_MINUTES)
    stated = {"train": settings} if settings else {}
    stated |= {k: v for k, v in given.items() if v is not None and not isinstance(v, dict)}
    if given["data"]["validation"] is not None:
        stated["data"] = given["data"]
    if task == "language" and isinstance(data, str) and not existing_path(data) and " " in data:
        data = data.splitlines()  # a text, not the path of one
    path = data if isinstance(data, str | Path) else _store_rows(task, data, folder)
    return train_own_data(
        task,
        path,
        folder,
        minutes=minutes,
        stated=stated,
        pretrained=pretrained,
        mode=mode,
        prepare=prepare,
    )


def _store_rows(task: str, data: Any, folder: Path) -> Path:
    """Write a data frame, a mapping of columns, rows or pairs into the run, as JSON lines.

    Datasets of Hugging Face, with splits or without, are written in their own format.
    """
    if hasattr(data, "save_to_disk"):
        make_folder(folder / ".data")
        data.save_to_disk(folder / ".data" / "dataset")
        return folder / ".data" / "dataset"
    if hasattr(data, "to_pylist"):  # a table of pyarrow
        data = data.to_pylist()
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = list(data if isinstance(data, Mapping) else data.columns)
        rows: Iterable[Any] = (
            dict(zip(map(str, names), row, strict=True))
            for row in zip(*(data[name] for name in names), strict=True)
        )
    else:
        columns = COLUMNS.get(task, ("text",))
        rows = (row if isinstance(row, Mapping) else _name_columns(row, columns) for row in data)
    path = folder / ".data" / "examples.jsonl"
    make_folder(path.parent)
    with atomic_write(path, unique=True) as file:
        for row in rows:
            values = {str(name): _to_json_value(value) for name, value in row.items()}
            file.write(json.dumps(values, ensure_ascii=False).encode() + b"\n")
    return path


def _name_columns(row: Any, columns: Sequence[str]) -> dict[str, Any]:
    values = [row] if isinstance(row, str) else list(row)
    if len(values) != len(columns):
        raise UserError(f"a training example must have {' and '.join(columns)}")
    return dict(zip(columns, values, strict=True))


def _to_json_value(value: Any) -> Any:
    """Return a value that JSON has; missing ones are null, and dates and other objects text."""
    if hasattr(value, "tolist"):  # a number or an array of numpy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_to_json_value(item) for item in value]
        return sorted(items, key=str) if isinstance(value, set | frozenset) else items
    if is_missing(value):
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)


@contextmanager
def _run_folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with TemporaryDirectory(prefix="workings-") as folder:
        yield Path(folder) / "run"


def _build_train_config(config: TrainConfig, settings: Mapping[str, Any]) -> Any:
    known = {field.name for field in fields(config)}
    for name in settings:
        if name not in known:
            raise UserError(f"{name}: no such key of [train]: {did_you_mean(name, known)}")
    return build(type(config), {**to_table(config), **settings}, "train.")


def _make_recipe(
    model: str | Path | Recipe | nn.Module | None, pretrained: PretrainedModel | None
) -> Recipe:
    """Read a recipe, or make the one that describes a model; with the start of a fine-tuning."""
    start_from = None if pretrained is None else pretrained.name
    if isinstance(model, str | Path):
        return read_recipe(model, start_from=start_from)
    if pretrained is not None and isinstance(model, nn.Module):
        raise UserError("start_from= is for recipes: a model has its own weights to start from")
    if not isinstance(model, nn.Module):
        recipe = model or (pretrained and pretrained.task.recipe)
        if not recipe:
            raise UserError("train needs a recipe or a model, start_from= a run, or task=")
        return recipe if start_from is None else replace(recipe, start_from=start_from)
    assert isinstance(model, Rebuildable)
    arguments = dict(model.init_arguments)
    matches = [
        (task, kind)
        for task, kinds in MODELS.items()
        for kind, constructor in kinds.items()
        if constructor is type(model)
    ]
    if not matches:
        raise UserError(
            f"{type(model).__name__}: a subclass needs loss= and collate= to be trained"
        )
    [(task, kind)] = matches
    recipe_type, configs = RECIPES[task]
    known = {field.name for field in fields(configs[kind])}
    config = configs[kind](**{k: v for k, v in arguments.items() if k in known})
    rows = arguments.get("vocab_size") or arguments["target_vocab_size"]
    if arguments.get("source_vocab_size", rows) != rows:
        raise UserError("source_vocab_size and target_vocab_size must be equal to train on data")
    recipe = recipe_type(model=config)  # type: ignore[arg-type]
    tokenizer = replace(recipe.tokenizer, vocab_size=rows, padded_vocab_size=rows)
    if tokenizer.kind == "byte-pair" and rows < MIN_BYTE_PAIRS:
        tokenizer = replace(tokenizer, kind="words")
    return replace(recipe, tokenizer=tokenizer)  # type: ignore[arg-type]


def _store_data(recipe: Recipe, data: Data, folder: Path) -> Any:
    """Return the data section of a recipe for data in memory, which are written into the run."""
    if isinstance(data, Path) or (isinstance(data, str) and not isinstance(recipe, LanguageRecipe)):
        return replace(recipe.data, set=str(data))
    hidden = folder / ".data"
    if isinstance(recipe, LanguageRecipe):
        text = data if isinstance(data, str) else "\n".join(map(str, data))
        make_folder(hidden)
        write_bytes(hidden / "text.txt", text.encode(), unique=True)
        length = min(recipe.data.context_length, max(len(text) // 20, 1))
        # One epoch is one pass over the text, as for the other tasks.
        steps = max(round(len(text) / (length * recipe.train.batch_size)), 1)
        return replace(
            recipe.data,
            set=str(hidden / "text.txt"),
            context_length=length,
            eval_every=steps,
            sample=0,
        )
    if not isinstance(recipe, ClassificationRecipe | TranslationRecipe):
        raise UserError("a captioner is trained on files: give the path of the captions file")
    columns = COLUMNS[recipe.task]
    make_folder(hidden)
    section: dict[str, Any] = {"set": str(hidden / "examples.jsonl")}
    section |= {column: column for column in columns}
    with atomic_write(hidden / "examples.jsonl", unique=True) as file:
        for row in _read_rows(data, columns):
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            if isinstance(row[columns[1]], list):
                section["multi_label"] = True
    return build(type(recipe.data), {**to_table(recipe.data), **section}, "data.")


def _read_rows(data: Any, columns: tuple[str, str]) -> Iterator[dict[str, str | list[str]]]:
    """Yield rows of two columns from tuples, mappings, a mapping of columns or a data frame.

    Several labels of a text, a list, tuple or set, become a list.
    """
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        missing = [name for name in columns if name not in data]
        if missing:
            raise UserError(
                f"the data have no column {missing[0]!r}: expected {' and '.join(columns)}"
            )
        data = zip(*(data[name] for name in columns), strict=True)
    for row in data:
        values = [row[name] for name in columns] if isinstance(row, Mapping) else list(row)
        if len(values) != 2:
            raise UserError(f"a training example must be a pair: {' and '.join(columns)}")
        is_labels = columns[1] == "label" and isinstance(values[1], list | tuple | set | frozenset)
        second = sorted(map(str, values[1])) if is_labels else str(values[1])
        yield {columns[0]: str(values[0]), columns[1]: second}


def _read_examples(data: Data) -> Sequence[Any]:
    if isinstance(data, str | Path):
        raise UserError("a module of your own is trained on a sequence of examples, not on a file")
    return list(data)


def _train_custom(task: CustomTask, folder: Path, mode: LogMode) -> Task:
    """Train a custom task; its run folder has the log and the best weights, but no recipe."""
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: choose another out=")
    task.select_metric(task.config.metric)
    make_folder(folder)
    with init_process_group() as group:
        group.select_device(task.config.device)
        log = Log(folder / "log.jsonl", mode, batch_unit=task.batch_unit)
        try:
            Trainer(task, task.config, folder, log, task.seed, group).train()
        finally:
            log.close()
    load_unique_state_dict(task.model, read_tensors(folder / "model.safetensors"))
    task.model.cpu().eval()
    task.history = read_epochs(folder / "log.jsonl")
    return task
