"""Runs repeated, and told apart."""

import json
import os
import re
from dataclasses import replace

import pytest

from workings.cli import main
from workings.config import build
from workings.errors import UserError
from workings.recipes import LanguageRecipe
from workings.render.comparison import render_run_diff_text
from workings.storage import read_json, write_json
from workings.training.compare import diff_runs
from workings.training.environment import diff_environments
from workings.training.runs import resume, train_recipe


def test_a_repeated_run_has_the_same_weights(toy, tmp_path, recipe_for, capsys):
    train_recipe(recipe_for(toy), tmp_path / "one", mode="quiet")
    again = ["train", "--repeat", str(tmp_path / "one"), "--out", str(tmp_path / "two"), "--quiet"]
    assert main(again) == 0
    one, two = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("one", "two"))
    assert one == two
    assert main(["diff", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    told = capsys.readouterr().out
    for what in ("configuration", "results", "environment", "curves", "predictions"):
        assert f"{what}: the same" in told


def test_another_rate_is_another_run(toy, tmp_path, recipe_for, capsys):
    recipe = recipe_for(toy, "--train.learning_rate", "1e-4")
    train_recipe(recipe, tmp_path / "one", mode="quiet")
    train_recipe(
        replace(recipe, seed=0, train=replace(recipe.train, learning_rate=0.02)),
        tmp_path / "two",
        mode="quiet",
    )
    found = diff_runs(tmp_path / "one", tmp_path / "two")
    assert found["configuration"] == {"train.learning_rate": [1e-4, 0.02]}
    assert found["curves"]["train_loss"]["first_epoch"] == 1
    predictions = found["predictions"]
    assert predictions["changed"] > 0
    # What only the second has right, less what only the first has, is what the accuracy gained.
    gained = predictions["only_second_correct"] - predictions["only_first_correct"]
    before, after = found["results"]["test_accuracy"]
    assert gained == round((after - before) * predictions["texts"])
    assert "train.learning_rate" in render_run_diff_text(found)
    assert main(["diff", str(tmp_path / "one"), str(tmp_path / "two"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))


@pytest.mark.parametrize("threads", [None, 0, 10**9, True, "two", [1]])
def test_a_number_of_threads_that_no_run_had(toy, tmp_path, recipe_for, capsys, threads):
    train_recipe(recipe_for(toy, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    made = read_json(tmp_path / "run" / "environment.json")
    write_json(tmp_path / "run" / "environment.json", made | {"threads": threads})
    again = ["train", "--repeat", str(tmp_path / "run"), "--out", str(tmp_path / "again")]
    assert main(again) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "environment.json: threads = " in line


def test_packages_that_are_no_table_are_a_difference():
    assert diff_environments({"packages": ["torch"]}, {"packages": {"torch": "2"}}) == [
        "torch was missing, is 2"
    ]


def test_values_are_written_as_a_recipe_would(toy, tmp_path, recipe_for):
    quick = recipe_for(toy, "--train.epochs", "1", "--train.clip_norm", "none")
    train_recipe(quick, tmp_path / "one", mode="quiet")
    lines = toy.read_text().splitlines()
    toy.write_text("\n".join(lines[3:]))
    other = recipe_for(toy, "--train.epochs", "1", "--model.bidirectional", "true")
    train_recipe(other, tmp_path / "two", mode="quiet")
    with pytest.raises(UserError, match=r"started with: data\.train was \d+, is \d+; "):
        resume(tmp_path / "one", mode="quiet")
    toy.write_text("\n".join(lines))
    told = render_run_diff_text(diff_runs(tmp_path / "one", tmp_path / "two"))
    assert re.search(r"model\.bidirectional +– +true\n", told)
    assert re.search(r'train\.clip_norm +"none" +1\.0\n', told)
    assert re.search(r"data\.train was \d+, is \d+\n", told)
    assert not re.search(r"None|True|[{}]", told)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_for_a_recipe_is_not_waited_for(toy, tmp_path, recipe_for):
    train_recipe(recipe_for(toy, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    (tmp_path / "run" / "config.toml").unlink()
    os.mkfifo(tmp_path / "run" / "config.toml")
    with pytest.raises(UserError, match="not a run"):
        diff_runs(tmp_path / "run", tmp_path / "run")


def test_what_was_not_compared_is_not_called_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("hello world, yellow fellow\n" * 30)
    table = {
        "data": {
            "set": str(tmp_path / "text.txt"),
            "context_length": 8,
            "eval_every": 2,
            "sample": 0,
        },
        "model": {"kind": "recurrent", "d_model": 4, "hidden_size": 4},
        "train": {"epochs": 1, "batch_size": 4},
    }
    for seed, name in enumerate(("one", "two")):
        train_recipe(build(LanguageRecipe, table | {"seed": seed}), tmp_path / name, mode="quiet")
    told = render_run_diff_text(diff_runs(tmp_path / "one", tmp_path / "two"))
    assert "predictions\nnot compared" in told
    assert "validation_loss" in told


def test_what_is_no_finished_run(toy, tmp_path):
    with pytest.raises(UserError, match="not a run"):
        diff_runs(tmp_path, tmp_path)
    assert main(["train"]) == 2
    assert main(["train", "--repeat", str(tmp_path)]) == 2
