"""Runs and recipes for the tests of training."""

import shutil
from pathlib import Path

import pytest
import toys

from workings.cli import main
from workings.recipes import build_recipe
from workings.training.runs import train_recipe


@pytest.fixture
def texts(tmp_path):
    """A file of labeled texts that a test may change."""
    return toys.write_texts(tmp_path / "texts.jsonl")


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory):
    """A folder with `run`, which has three checkpoints, and `other`, of another seed."""
    folder = tmp_path_factory.mktemp("two")
    data = toys.write_texts(folder / "texts.jsonl", words=3)
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
        train_recipe(build_recipe(table), folder / name, mode="quiet")
    return folder


@pytest.fixture
def run(two_runs, tmp_path):
    """A copy of a finished run with three checkpoints."""
    return Path(shutil.copytree(two_runs / "run", tmp_path / "run"))


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """A folder with a recipe of 28 steps in four epochs, and `run`, without a fault."""
    folder = tmp_path_factory.mktemp("faults")
    data = toys.write_texts(folder / "texts.jsonl", words=4, last_words=2)
    (folder / "recipe.toml").write_text(
        f'seed = 3\n[data]\nset = "{data}"\n'
        '[model]\nkind = "recurrent"\nd_model = 64\nhidden_size = 64\ndropout = 0.2\n'
        '[train]\nepochs = 4\nbatch_size = 8\naverage = "ema"\nema_decay = 0.9\nsave_every = 3\n'
    )
    assert main(["train", str(folder / "recipe.toml"), "--out", f"{folder}/run", "--quiet"]) == 0
    return folder


@pytest.fixture
def recipe(reference):
    """The path of the recipe of the reference run."""
    return str(reference / "recipe.toml")
