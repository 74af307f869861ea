"""Recipes side by side."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from workings.errors import UserError
from workings.render.comparison import curves_chart, render_runs_page, render_runs_text
from workings.tasks.baselines import BASELINES
from workings.training.compare import _train_run, compare_recipes
from workings.training.runs import train_recipe


def recipe_file(folder, name, data, kind):
    path = folder / f"{name}.toml"
    path.write_text(
        f'[data]\nset = "{data.as_posix()}"\n[model]\nkind = "{kind}"\nsize = "small"\n'
        "[train]\nepochs = 2\nlearning_rate = 0.02\n"
    )
    return str(path)


def test_two_recipes_and_two_baselines(toy, tmp_path):
    paths = [
        recipe_file(tmp_path, "linear", toy, "ngrams"),
        recipe_file(tmp_path, "net", toy, "recurrent"),
    ]
    said = []
    out = tmp_path / "out"
    compared = compare_recipes(paths, ["--train.batch_size", "16"], out, threads=1, log=said.append)
    assert [row["name"] for row in compared["rows"]] == [*BASELINES, "linear", "net"]
    for row in compared["rows"]:
        assert row["test_accuracy"] > 0.8
        assert row["seconds"] >= 0
        assert row["peak_memory_mb"] > 10
        assert row["parameters"] > 10
    assert len(render_runs_text(compared).splitlines()) == 6
    assert "<svg" in render_runs_page(compared)
    assert curves_chart(compared).svg().count("train") >= 2
    before = (out / "net" / "model.safetensors").stat().st_mtime_ns
    again = compare_recipes(paths, ["--train.batch_size", "16"], out, threads=1, log=said.append)
    assert (out / "net" / "model.safetensors").stat().st_mtime_ns == before
    assert any("trained already" in line for line in said)
    assert [r["test_accuracy"] for r in again["rows"]] == [
        r["test_accuracy"] for r in compared["rows"]
    ]
    assert json.loads((out / "compare.json").read_text())["data"] == toy.as_posix()
    with pytest.raises(UserError, match="another recipe"):
        compare_recipes(paths, ["--train.batch_size", "8"], out, threads=1, log=said.append)


def test_different_data_cannot_be_compared(toy, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(toy.read_text())
    paths = [recipe_file(tmp_path, "a", toy, "ngrams"), recipe_file(tmp_path, "b", other, "ngrams")]
    with pytest.raises(UserError, match="different data"):
        compare_recipes(paths, [], tmp_path / "out", threads=1, log=print)
    with pytest.raises(UserError, match="same file name"):
        compare_recipes([paths[0], paths[0]], [], tmp_path / "out", threads=1, log=print)


def test_what_would_be_tested_on_different_texts_cannot_be_compared(toy, tmp_path):
    paths = [recipe_file(tmp_path, name, toy, "ngrams") for name in ("a", "b")]
    (tmp_path / "b.toml").write_text("seed = 4\n" + (tmp_path / "b.toml").read_text())
    with pytest.raises(UserError, match="tested on different examples"):
        compare_recipes(paths, [], tmp_path / "out", threads=1, log=print)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_a_training_that_is_interrupted_has_the_time_to_end(tmp_path):
    """Both processes are told at once, as by a terminal; one of them needs a while."""
    child = (
        "import signal, sys, time, pathlib\n"
        "def stop(*_):\n"
        "    time.sleep(1)\n"
        "    pathlib.Path(sys.argv[1]).write_text('kept')\n"
        "    sys.exit(130)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "pathlib.Path(sys.argv[2]).touch()\n"
        "time.sleep(60)\n"
    )
    kept, ready = tmp_path / "kept", tmp_path / "ready"
    command = [sys.executable, "-c", child, str(kept), str(ready)]
    parent = f"from workings.training.compare import run_command; run_command({command!r})"
    process = subprocess.Popen([sys.executable, "-c", parent], start_new_session=True, stderr=-3)
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) != 0
    assert kept.read_text() == "kept"


def test_a_run_on_data_named_from_here_is_known_again(toy, tmp_path, recipe_for, monkeypatch):
    monkeypatch.chdir(toy.parent)
    recipe, folder, said = recipe_for(toy.name, "--train.epochs", "1"), tmp_path / "run", []
    train_recipe(recipe, folder, mode="quiet")
    assert _train_run(recipe, "recipe.toml", [], folder, None, said.append)["name"] == "run"
    assert said == [f"{folder}: trained already"]
