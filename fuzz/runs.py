"""Readers of a run's files: recipe, log, tensors, checkpoints, and everything that `load` opens.

Checksums protect against accidents, not against an attacker: they are recomputed for the mutated
files, so that the code after the checksums is fuzzed as well.
"""

import atexit
import json
import os
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors import safe_open

from readers import JSON, TOML, Reader, work_folder, write_file
from workings import storage
from workings.config import build, to_table, to_toml
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translation import build_translator
from workings.recipes import ClassificationRecipe, LanguageRecipe, read_recipe
from workings.render.training_report import curve_chart, measure_names
from workings.storage import file_checksums, read_json, read_tensors, tensors_checksum, write_json
from workings.tasks.language_modeling import LanguageModeling
from workings.training.checkpoints import Checkpoints
from workings.training.logging import Log, read_log
from workings.training.monitor import TrainingStatus
from workings.training.run_folder import compute_run_id
from workings.training.runs import TASKS, load, train_recipe
from workings.training.trainer import Trainer, TrainingProgress

ROOT = Path(__file__).parents[1]
LOADED_FILES = (
    "config.toml",
    "environment.json",
    "tokenizer.json",
    "labels.json",
    "model.safetensors",
)


@cache
def classifier_run() -> Path:
    """Return the folder of a small classifier run."""
    torch.set_num_threads(1)
    words = {"fruit": ["fig", "pear", "plum"], "metal": ["tin", "iron", "lead"]}
    lines = [
        json.dumps({"text": f"{a} {b} {c}", "label": label})
        for label, group in words.items()
        for a in group for b in group for c in group
    ]  # fmt: skip
    table = {
        "data": {"set": str(write_file("toy.jsonl", "\n".join(lines).encode()))},
        "model": {"kind": "recurrent", "d_model": 2, "hidden_size": 2},
        "train": {"epochs": 2, "batch_size": 16, "average": "last", "average_last": 2},
    }
    train_recipe(build(ClassificationRecipe, table), work_folder() / "classifier", mode="quiet")
    return work_folder() / "classifier"


@cache
def language_run() -> Path:
    """Return the folder of a small language model run with stateful training."""
    torch.set_num_threads(1)
    text = "the fig and the pear and the plum\n" * 40
    table = {
        "task": "language",
        "data": {
            "set": str(write_file("toy.txt", text.encode())),
            "context_length": 8,
            "eval_every": 3,
            "stateful": True,
        },
        "model": {"kind": "recurrent", "cell": "lstm", "d_model": 2, "hidden_size": 2},
        "train": {"epochs": 2, "batch_size": 4, "average": "last", "average_last": 2},
    }
    with own_cache():
        train_recipe(build(LanguageRecipe, table), work_folder() / "language", mode="quiet")
    return work_folder() / "language"


def own_cache() -> Any:
    """Patch the environment to use a cache in the working folder, not the user's."""
    return patch.dict(os.environ, XDG_CACHE_HOME=str(work_folder() / "cache"))


def _recipe(data: bytes) -> None:
    recipe = read_recipe(write_file("recipe.toml", data))
    reread = read_recipe(write_file("again.toml", to_toml(to_table(recipe)).encode()))
    assert reread == recipe
    with torch.device("meta"):
        if isinstance(recipe, ClassificationRecipe):
            build_classifier(recipe.model, 100, 3)
        elif isinstance(recipe, LanguageRecipe):
            build_language_model(recipe.model, 100)
        else:
            build_translator(recipe.model, 100, 100)


def _recipe_seeds() -> list[bytes]:
    own = (classifier_run() / "config.toml").read_bytes()
    return [own, *(p.read_bytes() for p in sorted((ROOT / "recipes").glob("*.toml")))]


def _log(data: bytes) -> None:
    records = read_log(write_file("log.jsonl", data))
    status = TrainingStatus(records, 3)
    for metric in status.list_metrics():
        curve_chart(status.curves, metric, train_points=status.train_curve(metric)).svg()
    _ = (
        status.best_metrics(),
        status.state(1.0),
        status.seconds_left,
        status.speed,
        status.fraction_done,
    )
    curves = [r for r in records if r["kind"] == "epoch"]
    if curves and (names := measure_names(curves)):
        curve_chart(curves, names[0]).svg()


def _tensors(data: bytes) -> None:
    read_tensors(write_file("a.safetensors", _fix_checksum(data)))


def _fix_checksum(data: bytes) -> bytes:
    """Replace the checksum in a safetensors file by that of its tensors, if it can be read.

    A first byte of 255 stands for the right length of the header.
    """
    if data[:1] == b"\xff" and len(data) > 8:
        end = data.find(b"}}") + 2
        end += -(end - 8) % 8
        data = (
            (end - 8).to_bytes(8, "little", signed=True) + data[8:end].ljust(end - 8) + data[end:]
        )
    try:
        with safe_open(write_file("sum.safetensors", data), framework="pt") as file:
            before = (file.metadata() or {})["sha256"].partition(" ")[0]
            actual = tensors_checksum({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except Exception:  # an unreadable file stays as it is
        return data
    return data.replace(before.encode(), actual.encode(), 1) if len(before) == 64 else data


def _tensor_seeds() -> list[bytes]:
    files = [p.read_bytes() for run in RUNS for p in sorted(run().rglob("*.safetensors"))]
    return [*files, *(b"\xff" + raw[1:] for raw in files)]


@cache
def _trainer(run: Path) -> Trainer:
    recipe = read_recipe(run / "config.toml")
    folder = work_folder() / f"{run.name}-on"
    folder.mkdir()
    log = Log(folder / "log.jsonl", "quiet")
    atexit.register(log.close)
    with own_cache():
        task = TASKS[recipe.task].from_recipe(recipe)
    trainer = Trainer(task, recipe.train, folder, log, 0, ProcessGroup(torch.device("cpu")))
    trainer.checkpoints = Checkpoints(folder, 3)
    log.record(kind="epoch", epoch=1, filler="x" * 2000)
    return trainer


@cache
def _checkpoint_files(run: Path) -> list[Path]:
    """Return the files of a run's last checkpoint, the state first."""
    folder = run / "checkpoints" / "step-6"
    return [folder / "state.json", *sorted(folder.glob("*.safetensors"))]


def _checkpoint(run: Callable[[], Path], data: bytes) -> None:
    """Load a checkpoint; the first byte chooses which of its files the rest replaces."""
    trainer, files = _trainer(run()), _checkpoint_files(run())
    shutil.rmtree(trainer.checkpoints.folder, ignore_errors=True)
    newest = trainer.checkpoints.folder / "step-6"
    shutil.copytree(files[0].parent, newest)
    chosen, content = files[data[0] % len(files) if data else 0], data[1:]
    state = read_json(newest / "state.json")
    state["run_id"] = ""
    if chosen.name == "state.json":
        state = _merge_state(state, content)
    else:
        file = newest / chosen.name
        file.write_bytes(_fix_checksum(content))
        try:
            state["tensors"][chosen.stem] = storage._read_checksum(file).partition(" ")[0]
        except UserError:
            state["tensors"][chosen.stem] = "0"
    write_json(newest / "state.json", state)
    trainer.average.load_state_dict({}, trainer.task.model)
    trainer.checkpoints.read_newest_valid(trainer._load_checkpoint, lambda _line: None)
    trainer.optimizer.zero_grad()
    trainer.progress = TrainingProgress()
    # A checkpoint that was accepted must be trainable; the first batch would not use the state.
    trainer._step([trainer.task.batches(0)[1]])


def _merge_state(state: dict[str, object], content: bytes) -> dict[str, object]:
    try:
        changed = json.loads(content)
        json.dumps(changed, indent=1, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return {**state, **changed} if isinstance(changed, dict) else {"tensors": changed}


def _checkpoint_seeds(run: Callable[[], Path]) -> list[bytes]:
    first, *rest = _checkpoint_files(run())
    state = {**read_json(first), "run_id": ""}
    files = [file.read_bytes() for file in rest]
    plain = [bytes([k]) + raw for k, raw in enumerate(files, 1)]
    any_length = [bytes([k]) + b"\xff" + raw[1:] for k, raw in enumerate(files, 1)]
    return [b"\0" + json.dumps(state).encode(), *plain, *any_length]


@cache
def _loaded_files(run: Path) -> list[str]:
    return [name for name in LOADED_FILES if (run / name).is_file()]


def _run(run: Callable[[], Path], data: bytes) -> None:
    """Load a run; the first byte chooses the replaced file, and whether checksums are fixed."""
    folder = work_folder() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = _loaded_files(run())
    for name in names:
        shutil.copy(run() / name, folder)
    first, content = data[0] if data else 0, data[1:]
    name = names[first % len(names)]
    if name == "labels.json" and first < 128:
        try:
            write_json(folder / name, {"labels": json.loads(content)})
        except (ValueError, RecursionError):
            return
    else:
        (folder / name).write_bytes(_fix_checksum(content) if "safe" in name else content)
    if name != "environment.json" and first < 128:
        environment = read_json(folder / "environment.json")
        environment["files"] = file_checksums(folder, environment["files"])
        write_json(folder / "environment.json", environment)
    weights = read_tensors(folder / "model.safetensors") if first < 128 else None
    if weights is not None:  # with the run id, which has changed
        storage.write_tensors(folder / "model.safetensors", weights, compute_run_id(folder))
    task = load(folder)
    if isinstance(task, LanguageModeling):
        task.complete("the fig", 3)
    else:
        task.predict(["fig pear", ""])


def _run_seeds(run: Callable[[], Path]) -> list[bytes]:
    names = _loaded_files(run())
    own = [
        bytes([k + high]) + (run() / name).read_bytes()
        for high in (0, 128 + -128 % len(names))
        for k, name in enumerate(names)
    ]
    labels = [bytes([k]) + b'["fruit", "metal"]' for k, n in enumerate(names) if "labels" in n]
    return own + labels


def _checkpoint_reader(run: Callable[[], Path]) -> Reader:
    words = (*JSON, '"progress"', '"step"', '"F32"')
    return Reader(partial(_checkpoint, run), partial(_checkpoint_seeds, run), words)


def _run_reader(run: Callable[[], Path]) -> Reader:
    return Reader(partial(_run, run), partial(_run_seeds, run), (*JSON, *TOML))


RUNS = (classifier_run, language_run)
RUN_READERS: dict[str, Reader] = {
    "recipe": Reader(_recipe, _recipe_seeds, (*TOML, "[model]\n", "kind = ", "[train]\n", "none")),
    "log": Reader(
        _log,
        lambda: [(classifier_run() / "log.jsonl").read_bytes()],
        (*JSON, '"kind"', '"epoch"', "\n"),
    ),
    "tensors": Reader(_tensors, _tensor_seeds, (*JSON, '"F32"', '"F16"', '"BOOL"', '"shape"')),
    "checkpoint": _checkpoint_reader(classifier_run),
    "run": _run_reader(classifier_run),
    "language-checkpoint": _checkpoint_reader(language_run),
    "language-run": _run_reader(language_run),
}
