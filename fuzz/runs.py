"""Readers of what is in a run: its recipe, log, tensors, checkpoints, and all that `load` opens.

Checksums keep accidents out, and not malice: what can be made to fit, is made to fit, so that what
lies behind the checksums is fuzzed as well.
"""

import atexit
import json
import shutil
from functools import cache
from pathlib import Path

import torch
from safetensors import safe_open

from readers import JSON, TOML, Reader, desk, put
from workings import storage
from workings.config import build, to_table, to_toml
from workings.crew import Crew
from workings.errors import UserError
from workings.models.classifiers import build_classifier
from workings.recipes import ClassifyRecipe
from workings.storage import file_sums, read_json, read_tensors, tensors_sum, write_json
from workings.tasks.classify import Classifying
from workings.train.checkpoints import Checkpoints
from workings.train.log import Log, read_log
from workings.train.loop import Progress, Trainer
from workings.train.runs import load, read_recipe, train
from workings.views.report import curve_chart, measures

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
        "model": {"kind": "recurrent", "embedding": 2, "hidden": 2},
        "train": {"epochs": 2, "batch": 16, "average": "last", "last": 2},
    }
    train(build(ClassifyRecipe, table), desk() / "made", mode="quiet")
    return desk() / "made"


def _recipe(data: bytes) -> None:
    recipe = read_recipe(put("recipe.toml", data))
    again = read_recipe(put("again.toml", to_toml(to_table(recipe)).encode()))
    assert again == recipe
    with torch.device("meta"):
        build_classifier(recipe.model, 100, 3)


def _recipe_seeds() -> list[bytes]:
    own = (made() / "config.toml").read_bytes()
    return [own, *(p.read_bytes() for p in sorted((ROOT / "recipes").glob("*.toml")))]


def _log(data: bytes) -> None:
    curves = [r for r in read_log(put("log.jsonl", data)) if r["kind"] == "epoch"]
    if curves and (found := measures(curves)):
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
            found = tensors_sum({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except Exception:  # whatever it says: this is only to help
        return data
    return data.replace(before.encode(), found.encode(), 1) if len(before) == 64 else data


def _tensor_seeds() -> list[bytes]:
    whole = [p.read_bytes() for p in sorted(made().rglob("*.safetensors"))]
    return [*whole, *(b"\xff" + raw[1:] for raw in whole)]


@cache
def _trainer() -> Trainer:
    recipe = read_recipe(made() / "config.toml")
    folder = desk() / "trained"
    folder.mkdir()
    log = Log(folder / "log.jsonl", "quiet")
    atexit.register(log.close)
    task = Classifying.from_recipe(recipe)
    trainer = Trainer(task, recipe.train, folder, log, 0, Crew(torch.device("cpu")))
    trainer.checkpoints = Checkpoints(folder, 3)
    log.record(kind="epoch", epoch=1, filler="x" * 2000)
    return trainer


PARTS = ("state.json", "model", "optimiser", "average", "random")


def _checkpoint(data: bytes) -> None:
    """The first byte says which part of a checkpoint the rest is; the others are as they were."""
    trainer = _trainer()
    shutil.rmtree(trainer.checkpoints.folder, ignore_errors=True)
    trainer.checkpoints.folder.mkdir()
    newest = trainer.checkpoints.folder / "step-6"
    (original,) = list((made() / "checkpoints").glob("step-6"))
    shutil.copytree(original, newest)
    part, content = PARTS[data[0] % len(PARTS) if data else 0], data[1:]
    state = read_json(newest / "state.json")
    state["belongs"] = ""
    if part == "state.json":
        state = _changed(state, content)
    else:
        file = newest / f"{part}.safetensors"
        file.write_bytes(_with_its_sum(content))
        try:
            state["tensors"][part] = storage._noted(file).partition(" ")[0]
        except UserError:
            state["tensors"][part] = "0"
    write_json(newest / "state.json", state)
    trainer.average.restore({}, trainer.task.model)
    trainer.checkpoints.newest(trainer._take_up, lambda _line: None)
    trainer.optimiser.zero_grad()
    trainer.progress = Progress()
    trainer._step([trainer.task.batches(0)[0]])  # and what was taken up can be trained


def _changed(state: dict[str, object], content: bytes) -> dict[str, object]:
    try:
        changed = json.loads(content)
        json.dumps(changed, indent=1, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return {**state, **changed} if isinstance(changed, dict) else {"tensors": changed}


def _checkpoint_seeds() -> list[bytes]:
    folder = made() / "checkpoints" / "step-6"
    state = {**read_json(folder / "state.json"), "belongs": ""}
    files = [(folder / f"{part}.safetensors").read_bytes() for part in PARTS[1:]]
    marked = [bytes([k]) + raw for k, raw in enumerate(files, 1)]
    unmeasured = [bytes([k]) + b"\xff" + raw[1:] for k, raw in enumerate(files, 1)]
    return [b"\0" + json.dumps(state).encode(), *marked, *unmeasured]


def _run(data: bytes) -> None:
    """The first byte says which file of a run the rest is, and whether sums are made to fit."""
    folder = desk() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in LOADED:
        shutil.copy(made() / name, folder)
    first, content = data[0] if data else 0, data[1:]
    name = LOADED[first % len(LOADED)]
    if name == "labels.json" and first < 128:
        try:
            write_json(folder / name, {"labels": json.loads(content)})
        except (ValueError, RecursionError):
            return
    else:
        (folder / name).write_bytes(_with_its_sum(content) if "safe" in name else content)
    if name != "environment.json" and first < 128:
        environment = read_json(folder / "environment.json")
        environment["files"] = file_sums(folder, environment["files"])
        write_json(folder / "environment.json", environment)
    weights = read_tensors(folder / "model.safetensors") if first < 128 else None
    if weights is not None:  # without a mark, which would have to be another one now
        storage.write_tensors(folder / "model.safetensors", weights)
    load(folder).predict(["fig pear", ""])


def _run_seeds() -> list[bytes]:
    own = [
        bytes([k + high]) + (made() / name).read_bytes()
        for high in (0, 130)
        for k, name in enumerate(LOADED)
    ]
    return [*own, b"\x03" + b'["fruit", "metal"]']


RUN_READERS: dict[str, Reader] = {
    "recipe": Reader(_recipe, _recipe_seeds, (*TOML, "[model]\n", "kind = ", "[train]\n", "none")),
    "log": Reader(
        _log, lambda: [(made() / "log.jsonl").read_bytes()], (*JSON, '"kind"', '"epoch"', "\n")
    ),
    "tensors": Reader(_tensors, _tensor_seeds, (*JSON, '"F32"', '"F16"', '"BOOL"', '"shape"')),
    "checkpoint": Reader(_checkpoint, _checkpoint_seeds, (*JSON, '"progress"', '"step"', '"F32"')),
    "run": Reader(_run, _run_seeds, (*JSON, *TOML)),
}
