"""Readers of what is in a run: its recipe, log, tensors, checkpoints, and all that `load` opens.

Checksums keep accidents out, and not malice: what can be made to fit, is made to fit, so that what
lies behind the checksums is fuzzed as well.
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

from readers import JSON, TOML, Reader, desk, put
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
from workings.training.runs import TASKS, load, train_recipe
from workings.training.trainer import Trainer, TrainingProgress

ROOT = Path(__file__).parents[1]
LOADED = ("config.toml", "environment.json", "tokenizer.json", "labels.json", "model.safetensors")


@cache
def made() -> Path:
    """A small run, kept as it is."""
    torch.set_num_threads(1)
    words = {"fruit": ["fig", "pear", "plum"], "metal": ["tin", "iron", "lead"]}
    lines = [
        json.dumps({"text": f"{a} {b} {c}", "label": label})
        for label, some in words.items()
        for a in some for b in some for c in some
    ]  # fmt: skip
    table = {
        "data": {"set": str(put("toy.jsonl", "\n".join(lines).encode()))},
        "model": {"kind": "recurrent", "d_model": 2, "hidden_size": 2},
        "train": {"epochs": 2, "batch_size": 16, "average": "last", "average_last": 2},
    }
    train_recipe(build(ClassificationRecipe, table), desk() / "made", mode="quiet")
    return desk() / "made"


@cache
def carrying() -> Path:
    """A small run of a language model whose state is carried from batch to batch."""
    torch.set_num_threads(1)
    text = "the fig and the pear and the plum\n" * 40
    table = {
        "task": "language",
        "data": {
            "set": str(put("toy.txt", text.encode())),
            "context_length": 8,
            "eval_every": 3,
            "stateful": True,
        },
        "model": {"kind": "recurrent", "cell": "lstm", "d_model": 2, "hidden_size": 2},
        "train": {"epochs": 2, "batch_size": 4, "average": "last", "average_last": 2},
    }
    with own_cache():
        train_recipe(build(LanguageRecipe, table), desk() / "carrying", mode="quiet")
    return desk() / "carrying"


def own_cache() -> Any:
    """Let texts become tokens on the desk, not in the user's cache."""
    return patch.dict(os.environ, XDG_CACHE_HOME=str(desk() / "cache"))


def _recipe(data: bytes) -> None:
    recipe = read_recipe(put("recipe.toml", data))
    again = read_recipe(put("again.toml", to_toml(to_table(recipe)).encode()))
    assert again == recipe
    with torch.device("meta"):
        if isinstance(recipe, ClassificationRecipe):
            build_classifier(recipe.model, 100, 3)
        elif isinstance(recipe, LanguageRecipe):
            build_language_model(recipe.model, 100)
        else:
            build_translator(recipe.model, 100, 100)


def _recipe_seeds() -> list[bytes]:
    own = (made() / "config.toml").read_bytes()
    return [own, *(p.read_bytes() for p in sorted((ROOT / "recipes").glob("*.toml")))]


def _log(data: bytes) -> None:
    records = read_log(put("log.jsonl", data))
    watched = TrainingStatus(records, 3)
    for what in watched.list_metrics():
        curve_chart(watched.curves, what, train_points=watched.train_curve(what)).svg()
    _ = (
        watched.best_metrics(),
        watched.state(1.0),
        watched.seconds_left,
        watched.speed,
        watched.fraction_done,
    )
    curves = [r for r in records if r["kind"] == "epoch"]
    if curves and (found := measure_names(curves)):
        curve_chart(curves, found[0]).svg()


def _tensors(data: bytes) -> None:
    read_tensors(put("a.safetensors", _with_its_sum(data)))


def _with_its_sum(data: bytes) -> bytes:
    """Give a file the checksum of what is in it, where the package can read it and there is room.

    A first byte of 255 stands for the right length of the header.
    """
    if data[:1] == b"\xff" and len(data) > 8:
        end = data.find(b"}}") + 2
        end += -(end - 8) % 8
        data = (
            (end - 8).to_bytes(8, "little", signed=True) + data[8:end].ljust(end - 8) + data[end:]
        )
    try:
        with safe_open(put("sum.safetensors", data), framework="pt") as file:
            before = (file.metadata() or {})["sha256"].partition(" ")[0]
            found = tensors_checksum({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except Exception:  # whatever it says: this is only to help
        return data
    return data.replace(before.encode(), found.encode(), 1) if len(before) == 64 else data


def _tensor_seeds() -> list[bytes]:
    whole = [p.read_bytes() for run in RUNS for p in sorted(run().rglob("*.safetensors"))]
    return [*whole, *(b"\xff" + raw[1:] for raw in whole)]


@cache
def _trainer(run: Path) -> Trainer:
    recipe = read_recipe(run / "config.toml")
    folder = desk() / f"{run.name}-on"
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
def _parts(run: Path) -> list[Path]:
    """The files of a run's last checkpoint, its state first."""
    folder = run / "checkpoints" / "step-6"
    return [folder / "state.json", *sorted(folder.glob("*.safetensors"))]


def _checkpoint(run: Callable[[], Path], data: bytes) -> None:
    """The first byte says which part of a checkpoint the rest is; the others are as they were."""
    trainer, parts = _trainer(run()), _parts(run())
    shutil.rmtree(trainer.checkpoints.folder, ignore_errors=True)
    newest = trainer.checkpoints.folder / "step-6"
    shutil.copytree(parts[0].parent, newest)
    part, content = parts[data[0] % len(parts) if data else 0], data[1:]
    state = read_json(newest / "state.json")
    state["run_id"] = ""
    if part.name == "state.json":
        state = _changed(state, content)
    else:
        file = newest / part.name
        file.write_bytes(_with_its_sum(content))
        try:
            state["tensors"][part.stem] = storage._read_checksum(file).partition(" ")[0]
        except UserError:
            state["tensors"][part.stem] = "0"
    write_json(newest / "state.json", state)
    trainer.average.load_state_dict({}, trainer.task.model)
    trainer.checkpoints.read_newest_valid(trainer._load_checkpoint, lambda _line: None)
    trainer.optimizer.zero_grad()
    trainer.progress = TrainingProgress()
    # And what was taken up can be trained: not by the first batch, which carries nothing on.
    trainer._step([trainer.task.batches(0)[1]])


def _changed(state: dict[str, object], content: bytes) -> dict[str, object]:
    try:
        changed = json.loads(content)
        json.dumps(changed, indent=1, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return {**state, **changed} if isinstance(changed, dict) else {"tensors": changed}


def _checkpoint_seeds(run: Callable[[], Path]) -> list[bytes]:
    first, *rest = _parts(run())
    state = {**read_json(first), "run_id": ""}
    files = [file.read_bytes() for file in rest]
    marked = [bytes([k]) + raw for k, raw in enumerate(files, 1)]
    unmeasured = [bytes([k]) + b"\xff" + raw[1:] for k, raw in enumerate(files, 1)]
    return [b"\0" + json.dumps(state).encode(), *marked, *unmeasured]


@cache
def _loaded(run: Path) -> list[str]:
    return [name for name in LOADED if (run / name).is_file()]


def _run(run: Callable[[], Path], data: bytes) -> None:
    """The first byte says which file of a run the rest is, and whether sums are made to fit."""
    folder = desk() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = _loaded(run())
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
        (folder / name).write_bytes(_with_its_sum(content) if "safe" in name else content)
    if name != "environment.json" and first < 128:
        environment = read_json(folder / "environment.json")
        environment["files"] = file_checksums(folder, environment["files"])
        write_json(folder / "environment.json", environment)
    weights = read_tensors(folder / "model.safetensors") if first < 128 else None
    if weights is not None:  # without a mark, which would have to be another one now
        storage.write_tensors(folder / "model.safetensors", weights)
    task = load(folder)
    if isinstance(task, LanguageModeling):
        task.complete("the fig", 3)
    else:
        task.predict(["fig pear", ""])


def _run_seeds(run: Callable[[], Path]) -> list[bytes]:
    names = _loaded(run())
    own = [
        bytes([k + high]) + (run() / name).read_bytes()
        for high in (0, 128 + -128 % len(names))
        for k, name in enumerate(names)
    ]
    labels = [bytes([k]) + b'["fruit", "metal"]' for k, n in enumerate(names) if "labels" in n]
    return own + labels


def _checkpoints_of(run: Callable[[], Path]) -> Reader:
    words = (*JSON, '"progress"', '"step"', '"F32"')
    return Reader(partial(_checkpoint, run), partial(_checkpoint_seeds, run), words)


def _run_of(run: Callable[[], Path]) -> Reader:
    return Reader(partial(_run, run), partial(_run_seeds, run), (*JSON, *TOML))


RUNS = (made, carrying)
RUN_READERS: dict[str, Reader] = {
    "recipe": Reader(_recipe, _recipe_seeds, (*TOML, "[model]\n", "kind = ", "[train]\n", "none")),
    "log": Reader(
        _log, lambda: [(made() / "log.jsonl").read_bytes()], (*JSON, '"kind"', '"epoch"', "\n")
    ),
    "tensors": Reader(_tensors, _tensor_seeds, (*JSON, '"F32"', '"F16"', '"BOOL"', '"shape"')),
    "checkpoint": _checkpoints_of(made),
    "run": _run_of(made),
    "language-checkpoint": _checkpoints_of(carrying),
    "language-run": _run_of(carrying),
}
