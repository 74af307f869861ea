"""What tests of training share: texts of three words, fruit or metal; words in reverse order."""

import json
import shutil
from pathlib import Path

import pytest
import reversing

from workings.cli import main
from workings.config import build, override
from workings.recipes import ClassificationRecipe
from workings.training.runs import train_recipe

WORDS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "fig"],
    "metal": ["iron", "zinc", "tin", "lead", "gold", "copper"],
}


@pytest.fixture
def toy(tmp_path):
    """Texts of three words of a kind: fruit or metal."""
    lines = []
    for label, words in WORDS.items():
        for a in words:
            for b in words:
                lines += [json.dumps({"text": f"{a} {b} {c}", "label": label}) for c in words[:3]]
    path = tmp_path / "toy.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def recipe_for():
    """A recipe for a set, changed as the command line would."""

    def made(data, *changes):
        width = "d_ff" if "transformer" in changes else "hidden_size"
        table = {
            "data": {"set": str(data)},
            "model": {"kind": "recurrent", "d_model": 8, width: 8, "dropout": 0.2},
            "train": {
                "epochs": 3,
                "batch_size": 16,
                "learning_rate": 0.02,
                "average": "ema",
                "ema_decay": 0.9,
            },
        }
        return build(ClassificationRecipe, override(table, changes))

    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with three checkpoints, and one of the same recipe but another seed."""
    folder = tmp_path_factory.mktemp("made")
    data = folder / "toy.jsonl"
    data.write_text(
        "\n".join(
            json.dumps({"text": f"{a} {b} {c}", "label": label})
            for label, words in (("fruit", ["fig", "pear", "plum"]), ("metal", ["tin", "iron"]))
            for a in words for b in words for c in words * 2
        )
    )  # fmt: skip
    for name, seed in (("run", 0), ("other", 1)):
        table = {
            "seed": seed,
            "data": {"set": str(data)},
            "model": {"kind": "recurrent", "d_model": 4, "hidden_size": 4},
            "train": {
                "epochs": 3,
                "batch_size": 16,
                "average": "ema",
                "ema_decay": 0.9,
                "keep_checkpoints": 3,
            },
        }
        train_recipe(build(ClassificationRecipe, table), folder / name, mode="quiet")
    return folder


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A recipe of 28 steps in four epochs, and where it ends undisturbed."""
    folder = tmp_path_factory.mktemp("faults")
    words = {"fruit": ["fig", "pear", "plum", "grape"], "metal": ["tin", "iron", "lead", "zinc"]}
    lines = [
        json.dumps({"text": f"{a} {b} {c}", "label": label})
        for label, some in words.items()
        for a in some for b in some for c in some[:2]
    ]  # fmt: skip
    (folder / "toy.jsonl").write_text("\n".join(lines))
    (folder / "toy.toml").write_text(
        f'seed = 3\n[data]\nset = "{folder / "toy.jsonl"}"\n'
        '[model]\nkind = "recurrent"\nd_model = 64\nhidden_size = 64\ndropout = 0.2\n'
        '[train]\nepochs = 4\nbatch_size = 8\naverage = "ema"\nema_decay = 0.9\nsave_every = 3\n'
    )
    assert main(["train", str(folder / "toy.toml"), "--out", str(folder / "whole"), "--quiet"]) == 0
    return folder


@pytest.fixture
def recipe(place):
    return str(place / "toy.toml")


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A language whose words come in reverse order."""
    return reversing.write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.tsv")


@pytest.fixture(scope="session")
def few_pairs(tmp_path_factory):
    """Too few of them to learn it, enough to see what a training does."""
    return reversing.write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.tsv", 200)


@pytest.fixture(scope="session")
def reverser(pairs, tmp_path_factory):
    """A run that has learned it."""
    folder = tmp_path_factory.mktemp("runs") / "reversed"
    train_recipe(reversing.recipe_for(pairs), folder, mode="quiet")
    return folder
