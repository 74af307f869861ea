"""A run that is killed at any moment goes on to the same log and the same weights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workings.storage import read_json

DRIVER = Path(__file__).with_name("kill_runs.py")
TIMES = ("seconds", "evaluation_seconds")


@pytest.fixture
def recipe(tmp_path):
    words = {"fruit": ["apple", "pear", "plum", "fig"], "metal": ["iron", "zinc", "tin", "lead"]}
    with (tmp_path / "toy.jsonl").open("w") as file:
        for label, some in words.items():
            for a in some:
                for b in some:
                    for c in some:
                        file.write(json.dumps({"text": f"{a} {b} {c}", "label": label}) + "\n")
    path = tmp_path / "toy.toml"
    path.write_text(f"""
seed = 5
[data]
set = "{tmp_path / "toy.jsonl"}"
[model]
kind = "recurrent"
d_model = 8
hidden_size = 8
dropout = 0.3
[train]
epochs = 4
batch_size = 8
average = "ema"
ema_decay = 0.9
schedule = "cosine"
save_every = 3
""")
    return path


def killed(recipe, folder, how, seed, kills):
    command = [sys.executable, str(DRIVER), str(recipe), str(folder), how, str(seed), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def left_behind(folder):
    """The log without its times, the result without them, and the weights."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    result = read_json(folder / "result.json")
    for record in (*log, result):
        for key in (*TIMES, "minutes", "peak_memory_mb"):
            record.pop(key, None)
    return log, result, (folder / "model.safetensors").read_bytes()


def compare_with_killed(recipe, tmp_path, how, rounds, kills):
    assert killed(recipe, tmp_path / "whole", how, seed=0, kills=0) == 0
    expected = left_behind(tmp_path / "whole")
    assert len(expected[0]) == 5  # four epochs and a test, each once
    total = 0
    for seed in range(rounds):
        folder = tmp_path / f"{how}-{seed}"
        total += killed(recipe, folder, how, seed, kills)
        assert left_behind(folder) == expected
    return total


@pytest.mark.parametrize("how", ["when", "where"])
def test_a_handful_of_kills(recipe, tmp_path, how):
    assert compare_with_killed(recipe, tmp_path, how, rounds=2, kills=4) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("how", ["when", "where"])
def test_a_hundred_kills(recipe, tmp_path, how):
    assert compare_with_killed(recipe, tmp_path, how, rounds=15, kills=8) >= 100
