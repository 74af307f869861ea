"""Fine-tuning: a training that starts from the weights of another run.

The recipe's `start_from` names the run. Its model replaces that of the recipe, and so does its
tokenizer with `tokenizer.reuse`. The body of a language model becomes a classifier with a new head.
The initial weights are kept in the new run, which can be resumed and repeated without the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workings.config import Variant, build, to_table
from workings.data.download import ProgressCallback
from workings.data.tokenizers.base import Tokenizer
from workings.errors import UserError
from workings.modules import load_unique_state_dict, unique_state_dict
from workings.recipes import RECIPES, LanguageModelClassifierConfig, Recipe, build_recipe
from workings.storage import (
    CorruptFileError,
    read_json,
    read_tensors,
    table_checksum,
    tensors_checksum,
)
from workings.tasks.base import IMPORTED, Task

INITIAL_WEIGHTS = "initial.safetensors"
MAX_UNKNOWN_RATE = 0.5  # of a text with more unknown tokens, little is left to learn from
NOTED_UNKNOWN_RATE = 0.01
BODY = "body."  # prefix of the weights of a classifier's language model
FREE_MODEL_KEYS = {"dropout", "attention_dropout", "activation_dropout", "pooling", "chrono_init"}
"""Keys of `[model]` that may differ from the run's: the trained weights do not depend on them."""


@dataclass(frozen=True)
class PretrainedModel:
    """A trained task, the name of its folder, and the id of its run."""

    task: Task
    name: str
    run_id: str = ""
    new_layers: tuple[str, ...] = ()
    """names of layers that were not trained"""


@dataclass(frozen=True)
class WeightTransfer:
    """Which weights of a new model come from a pretrained one; written to environment.json."""

    name: str
    """folder of the pretrained model"""
    run_id: str
    weights_sha256: str
    copied: int = 0
    """tensors that are copied"""
    tokens: dict[str, list[int]] = field(default_factory=dict)
    """of tensors with a row per token: rows that are copied, and all rows"""
    new: tuple[str, ...] = ()
    """tensors with new weights"""
    unknown_rate: float = 0.0
    """fraction of the new training tokens that the tokenizer does not know"""

    def describe(self) -> str:
        """Return one line: how many tensors are copied, and which are new."""
        total = self.copied + len(self.tokens) + len(self.new)
        parts = [f"{self.copied} of {total} tensors from {self.name}"]
        parts += [f"{name}: {a:,} of {b:,} tokens" for name, (a, b) in self.tokens.items()]
        if self.new:
            parts.append(f"new: {', '.join(self.new)}")
        if self.unknown_rate > NOTED_UNKNOWN_RATE:
            parts.append(f"its tokenizer does not know {self.unknown_rate:.0%} of the new tokens")
        return "; ".join(parts)


# -- the pretrained model --------------------------------------------------------------------------


def load_pretrained(source: str | Path | Task) -> PretrainedModel:
    """Load a run, or convert a model in Hugging Face's format; a task is taken as it is."""
    from workings.training.run_folder import is_hugging_face_model
    from workings.training.runs import load_to_train  # which imports this module

    if isinstance(source, Task):
        return PretrainedModel(source, "a model in memory")
    folder = Path(source)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run: expected the folder of a run, or of a model")
    task, new_layers = load_to_train(folder)
    if is_hugging_face_model(folder):
        return PretrainedModel(task, str(source), new_layers=new_layers)
    files = read_json(folder / "environment.json").get("files", {})
    return PretrainedModel(task, str(source), table_checksum(files))


def read_start_recipe(source: str | Path | Task, overrides: Sequence[str] = ()) -> Recipe:
    """Return the recipe with which a model is trained further: its own, with overrides."""
    pretrained = load_pretrained(source)
    table = {**to_table(pretrained.task.recipe), "start_from": pretrained.name}
    return build_recipe(table, overrides)


def check_can_learn(task: str, pretrained: PretrainedModel) -> None:
    """Raise UserError if a pretrained model cannot be fine-tuned for a task."""
    parent, name = pretrained.task.recipe, pretrained.name
    if task != parent.task and (parent.task, task) != ("language", "classify"):
        raise UserError(
            f"{name}: a {pretrained.task.noun} cannot be fine-tuned for the task {task!r}: "
            f"expected {parent.task!r}{' or classify' * (parent.task == 'language')}"
        )
    if parent.model.kind in ("ngrams", "tf-idf"):
        raise UserError(f"{name}: n-grams are counted, not fine-tuned: train a new model instead")


def adapt_recipe(recipe: Recipe, pretrained: PretrainedModel) -> Recipe:
    """Return a recipe with the model of a pretrained one, and with its tokenizer if it is reused.

    Raise UserError if the model cannot do the recipe's task, or if the recipe states another one.
    """
    parent, name = pretrained.task.recipe, pretrained.name
    if recipe.data.set == IMPORTED:
        raise UserError(f"{name} is an imported model without training data: --data.set FILE")
    check_can_learn(recipe.task, pretrained)
    is_same_task = recipe.task == parent.task
    table = to_table(recipe)
    table["plugins"] = list(dict.fromkeys((*recipe.plugins, *parent.plugins)))
    if _reuses_tokenizer(recipe):
        known = {f.name for f in fields(recipe.tokenizer)} - {"dropout", "reuse"}
        kept = {k: v for k, v in to_table(parent.tokenizer).items() if k in known}
        table["tokenizer"] = {**table["tokenizer"], **kept}
    default_kind = next(iter(RECIPES[recipe.task][1]))
    if recipe.model.to_table() == {"kind": default_kind}:  # the recipe has no [model]
        table["model"] = {"kind": parent.model.kind, **parent.model.full_table()}
        if not is_same_task:
            table["model"] = {"kind": "language-model", "body": table["model"]}
    elif is_same_task:
        table["model"] = _merge_model(recipe.model, parent.model, name)
    else:
        table["model"] = _merge_body(recipe.model, parent.model, name)
    return build(type(recipe), table)


def _merge_model(own: Variant, parent: Variant, name: str, where: str = "model") -> dict[str, Any]:
    """Return the settings of a pretrained model with those that a recipe may change."""
    stated = _stated_settings(own)
    if own.kind != parent.kind:
        raise UserError(f"{where}.kind = {own.kind!r}: {name} is a {parent.kind}")
    merged = parent.full_table()
    for key, value in stated.items():
        if isinstance(body := getattr(own, key), Variant):
            merged[key] = _merge_model(body, getattr(parent, key), name, f"{where}.{key}")
        elif key in FREE_MODEL_KEYS:
            merged[key] = value
        elif body != getattr(parent, key):
            raise UserError(
                f"{where}.{key} = {value}: {name} has {merged[key]}, which its weights need"
            )
    return {"kind": parent.kind, **merged}


def _merge_body(own: Variant, parent: Variant, name: str) -> dict[str, Any]:
    """Return the settings of a classifier whose body is a pretrained language model."""
    if not isinstance(own, LanguageModelClassifierConfig):
        raise UserError(
            f"model.kind = {own.kind!r}: {name} is a language model, from which a classifier of "
            "kind 'language-model' starts"
        )
    stated, body = _stated_settings(own), {"kind": parent.kind, **parent.full_table()}
    if "body" in stated:
        body = _merge_model(own.body, parent, name, "model.body")
    return {**stated, "kind": "language-model", "body": body}


def _stated_settings(model: Variant) -> dict[str, Any]:
    """Return the settings that a recipe states, those of its `size` included."""
    table = model.to_table()
    del table["kind"]
    return {**model.sizes.get(table.pop("size", ""), {}), **table}


def _reuses_tokenizer(recipe: Recipe) -> bool:
    """Return True if the tokenizer is kept; the task of a plug-in may have none."""
    return hasattr(recipe, "tokenizer") and recipe.tokenizer.reuse


# -- the new task ----------------------------------------------------------------------------------


def build_from_pretrained(
    task_class: type[Task],
    recipe: Recipe,
    pretrained: PretrainedModel,
    progress: ProgressCallback | None = None,
) -> tuple[Task, WeightTransfer]:
    """Build the task of a recipe, and copy the weights of a pretrained model into it."""
    recipe = adapt_recipe(recipe, pretrained)
    parent, unknown_rate = pretrained.task, 0.0
    if not _reuses_tokenizer(recipe):
        task = task_class.from_recipe(recipe, progress)
    else:
        task = task_class.from_recipe(recipe, progress, tokenizer=parent.preprocessing[0])
        unknown_rate = task.measure_unknown_rate()
        if unknown_rate > MAX_UNKNOWN_RATE:
            raise UserError(
                f"{recipe.data.set}: {unknown_rate:.0%} of its tokens are unknown to the tokenizer "
                f"of {pretrained.name}: --tokenizer.reuse false trains a new one"
            )
    weights = unique_state_dict(parent.model)
    transfer = WeightTransfer(
        pretrained.name,
        pretrained.run_id,
        tensors_checksum({name: t.detach().cpu() for name, t in weights.items()}),
        unknown_rate=round(unknown_rate, 4),
    )
    layers = tuple(f"{layer}." for layer in pretrained.new_layers)
    trained = {name: t for name, t in weights.items() if not name.startswith(layers)}
    return task, _copy_weights(task, parent, trained, transfer)


@torch.no_grad()
def _copy_weights(
    task: Task, parent: Task, weights: Mapping[str, Tensor], transfer: WeightTransfer
) -> WeightTransfer:
    """Copy the weights of a pretrained model into the model of a task; count them."""
    copied, tokens, new = 0, {}, []
    tokenizers, parent_tokenizers = task.token_tables(), parent.token_tables()
    for name, tensor in unique_state_dict(task.model).items():
        origin = _find_origin(name, task, parent)
        source = None if origin is None else weights.get(origin)
        if origin is None or source is None:
            new.append(name)
            continue
        own, other = tokenizers.get(name), parent_tokenizers.get(origin)
        if own is not None and other is not None and own != other:
            tokens[name] = [_copy_token_rows(tensor, source, own, other), len(tensor)]
        elif tensor.shape == source.shape:
            tensor.copy_(source)
            copied += 1
        elif name.startswith("head."):  # another pooling
            new.append(name)
        else:
            raise UserError(
                f"{transfer.name}: {origin} is of shape {tuple(source.shape)}: the new model has "
                f"{tuple(tensor.shape)}"
            )
    counts: dict[str, Any] = {"copied": copied, "tokens": tokens, "new": new}
    return WeightTransfer(**{**asdict(transfer), **counts})


def _find_origin(name: str, task: Task, parent: Task) -> str | None:
    """Return the name of the pretrained weight that a new weight starts from, if there is one."""
    if task.recipe.task != parent.recipe.task:  # a classifier from a language model
        return name.removeprefix(BODY) if name.startswith(BODY) else None
    is_other_head = name.startswith("head.") and task.labels != parent.labels
    return None if is_other_head else name


def _copy_token_rows(tensor: Tensor, source: Tensor, tokenizer: Tokenizer, other: Tokenizer) -> int:
    """Copy the rows of the tokens that both vocabularies have; return their number."""
    ids = {other.id_to_token(k): k for k in range(len(other))}
    tokens = [tokenizer.id_to_token(k) for k in range(len(tokenizer))]
    pairs = [(k, ids[token]) for k, token in enumerate(tokens) if token in ids]
    rows, source_rows = (torch.tensor(side, dtype=torch.long) for side in zip(*pairs, strict=True))
    tensor[rows] = source[source_rows].to(tensor)
    return len(pairs)


# -- starting again --------------------------------------------------------------------------------


def build_from_initial(
    task_class: type[Task],
    recipe: Recipe,
    run: Path,
    run_id: str,
    progress: ProgressCallback | None = None,
) -> tuple[Task, WeightTransfer]:
    """Build the task of a fine-tuned run with the weights that its training started from."""
    table = read_json(run / "environment.json").get("initialized_from")
    try:
        transfer = build(WeightTransfer, table if isinstance(table, dict) else {})
    except UserError:
        raise CorruptFileError(
            f"{run / 'environment.json'}: it does not say what the training started from"
        ) from None
    if _reuses_tokenizer(recipe):
        tokenizer = task_class.load_preprocessing(run, recipe)[0]
        task = task_class.from_recipe(recipe, progress, tokenizer=tokenizer)
    else:
        task = task_class.from_recipe(recipe, progress)
    weights = read_tensors(run / INITIAL_WEIGHTS, run_id=run_id)
    try:
        load_unique_state_dict(task.model, weights)
    except RuntimeError:
        raise CorruptFileError(f"{run / INITIAL_WEIGHTS}: not of this run's model") from None
    return task, transfer


def has_initial_weights(run: Path) -> bool:
    """Return True if a run has been described, together with the weights it started from."""
    return (run / "environment.json").is_file() and (run / INITIAL_WEIGHTS).is_file()


def has_same_start(recipe: Recipe, other: Recipe) -> bool:
    """Return True if two recipes give the same initial weights: all but `[train]` is equal."""
    tables = [to_table(each) for each in (recipe, other)]
    for table in tables:
        for key in ("title", "train", "search"):
            table.pop(key, None)
    return tables[0] == tables[1]
