"""Comparing recipes with each other and with baselines, and two runs in detail."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import toys

from workings.cli import main
from workings.errors import UserError
from workings.recipes import read_recipe
from workings.render.comparison import (
    curves_chart,
    render_run_diff_text,
    render_runs_page,
    render_runs_text,
)
from workings.tasks.baselines import BASELINES
from workings.training import compare
from workings.training.compare import _evaluate_baselines, _train_run, compare_recipes, diff_runs
from workings.training.runs import train_recipe

# -- recipes ---------------------------------------------------------------------------------------


def write_recipe(folder, name, data, kind):
    path = folder / f"{name}.toml"
    path.write_text(
        f'[data]\nset = "{data.as_posix()}"\n[model]\nkind = "{kind}"\nsize = "small"\n'
        "[train]\nepochs = 2\nlearning_rate = 0.02\n"
    )
    return str(path)


class ThisProcess:
    """Stands in for a process pool, and runs everything in this process."""

    def __init__(self, *_arguments, **_options):
        self.result = None

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def submit(self, function, *arguments):
        value = function(*arguments)
        self.result = lambda: value
        return self


def run_in_this_process(command):
    assert command[1:3] == ["-m", "workings"]
    return main([*command[3:], "--quiet"])


def test_two_recipes_and_two_baselines(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "ProcessPoolExecutor", ThisProcess)
    monkeypatch.setattr(compare, "run_command", run_in_this_process)
    paths = [
        write_recipe(tmp_path, "linear", texts, "ngrams"),
        write_recipe(tmp_path, "net", texts, "recurrent"),
    ]
    messages, out = [], tmp_path / "out"

    def compare_with_batch_size(size):
        overrides = ["--train.batch_size", size]
        return compare_recipes(paths, overrides, out, threads=1, log=messages.append)

    comparison = compare_with_batch_size("16")
    assert [row["name"] for row in comparison["rows"]] == [*BASELINES, "linear", "net"]
    for row in comparison["rows"]:
        assert row["test_accuracy"] > 0.8
        assert row["seconds"] >= 0
        assert row["peak_memory_mb"] > 10
        assert row["parameters"] > 10
    assert len(render_runs_text(comparison).splitlines()) == 6
    assert "<svg" in render_runs_page(comparison)
    assert curves_chart(comparison).svg().count("train") >= 2
    before = (out / "net" / "model.safetensors").stat().st_mtime_ns
    again = compare_with_batch_size("16")
    assert (out / "net" / "model.safetensors").stat().st_mtime_ns == before
    assert any("trained already" in message for message in messages)
    accuracies = [[row["test_accuracy"] for row in c["rows"]] for c in (comparison, again)]
    assert accuracies[0] == accuracies[1]
    assert json.loads((out / "compare.json").read_text())["data"] == texts.as_posix()
    with pytest.raises(UserError, match="another recipe"):
        compare_with_batch_size("8")


def test_baselines_run_in_a_process_of_their_own(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "BASELINES", BASELINES[:1])
    recipe = read_recipe(write_recipe(tmp_path, "linear", texts, "ngrams"))
    (row,) = _evaluate_baselines(recipe, print)
    assert row["name"] == BASELINES[0]
    assert row["test_accuracy"] > 0.8
    assert row["peak_memory_mb"] > 10


def test_different_data_are_not_compared(texts, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(texts.read_text())
    first = write_recipe(tmp_path, "a", texts, "ngrams")
    second = write_recipe(tmp_path, "b", other, "ngrams")
    with pytest.raises(UserError, match="different data"):
        compare_recipes([first, second], [], tmp_path / "out", threads=1, log=print)
    with pytest.raises(UserError, match="same file name"):
        compare_recipes([first, first], [], tmp_path / "out", threads=1, log=print)


def test_different_test_data_are_not_compared(texts, tmp_path):
    paths = [write_recipe(tmp_path, name, texts, "ngrams") for name in ("a", "b")]
    (tmp_path / "b.toml").write_text("seed = 4\n" + (tmp_path / "b.toml").read_text())
    with pytest.raises(UserError, match="tested on different examples"):
        compare_recipes(paths, [], tmp_path / "out", threads=1, log=print)
    assert not (tmp_path / "out").exists()


INTERRUPTED_CHILD = """
import signal, sys, time, pathlib
def stop(*_):
    time.sleep(1)
    pathlib.Path(sys.argv[1]).write_text("saved")
    sys.exit(130)
signal.signal(signal.SIGINT, stop)
pathlib.Path(sys.argv[2]).touch()
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no process groups")
def test_an_interrupted_training_may_finish_its_checkpoint(tmp_path):
    """A terminal sends Ctrl-C to both processes; the child needs a second to stop."""
    saved, ready = tmp_path / "saved", tmp_path / "ready"
    command = [sys.executable, "-c", INTERRUPTED_CHILD, str(saved), str(ready)]
    parent = f"from workings.training.compare import run_command; run_command({command!r})"
    process = subprocess.Popen([sys.executable, "-c", parent], start_new_session=True, stderr=-3)
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) != 0
    assert saved.read_text() == "saved"


def test_a_run_on_data_with_a_relative_path_is_recognized(texts, tmp_path, monkeypatch):
    monkeypatch.chdir(texts.parent)
    recipe = toys.texts_recipe(texts.name, "--train.epochs", "1")
    folder, messages = tmp_path / "run", []
    train_recipe(recipe, folder, mode="quiet")
    assert _train_run(recipe, "recipe.toml", [], folder, None, messages.append)["name"] == "run"
    assert messages == [f"{folder}: trained already"]


# -- two runs --------------------------------------------------------------------------------------


def test_another_learning_rate_gives_another_run(texts, tmp_path, capsys):
    recipe = toys.texts_recipe(texts, "--train.learning_rate", "1e-4")
    train_recipe(recipe, tmp_path / "one", mode="quiet")
    other = replace(recipe, train=replace(recipe.train, learning_rate=0.02))
    train_recipe(other, tmp_path / "two", mode="quiet")
    diff = diff_runs(tmp_path / "one", tmp_path / "two")
    assert diff["configuration"] == {"train.learning_rate": [1e-4, 0.02]}
    assert diff["curves"]["train_loss"]["first_epoch"] == 1
    predictions = diff["predictions"]
    assert predictions["changed"] > 0
    # The texts that only the second predicts, less those that only the first does, are the gain.
    gained = predictions["only_second_correct"] - predictions["only_first_correct"]
    before, after = diff["results"]["test_accuracy"]
    assert gained == round((after - before) * predictions["texts"])
    assert "train.learning_rate" in render_run_diff_text(diff)
    assert main(["diff", str(tmp_path / "one"), str(tmp_path / "two"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(diff))


def test_values_are_printed_as_in_a_recipe(texts, tmp_path):
    recipe = toys.texts_recipe(texts, "--train.epochs", "1", "--train.clip_norm", "none")
    train_recipe(recipe, tmp_path / "one", mode="quiet")
    lines = texts.read_text().splitlines()
    texts.write_text("\n".join(lines[3:]))
    other = toys.texts_recipe(texts, "--train.epochs", "1", "--model.bidirectional", "true")
    train_recipe(other, tmp_path / "two", mode="quiet")
    texts.write_text("\n".join(lines))
    printed = render_run_diff_text(diff_runs(tmp_path / "one", tmp_path / "two"))
    assert re.search(r"model\.bidirectional +– +true\n", printed)
    assert re.search(r'train\.clip_norm +"none" +1\.0\n', printed)
    assert re.search(r"data\.train was \d+, is \d+\n", printed)
    assert not re.search(r"None|True|[{}]", printed)


def test_predictions_that_were_not_compared_are_not_called_the_same(corpus_run, tmp_path):
    printed = render_run_diff_text(diff_runs(corpus_run, corpus_run))
    assert "predictions\nnot compared" in printed
    assert "results: the same" in printed


def test_an_imported_run_is_compared(corpus_run, tmp_path, capsys):
    """It has neither log nor result."""
    text = toys.write_corpus(tmp_path / "text.txt")
    overrides = ["--model.positions", "learned", "--model.max_positions", "16"]
    overrides += ["--model.activation", "gelu-tanh", "--tokenizer.kind", "byte-pair"]
    overrides += ["--tokenizer.vocab_size", "270", "--train.epochs", "1", "--data.sample", "0"]
    trained, imported = tmp_path / "trained", tmp_path / "imported"
    train_recipe(toys.corpus_recipe(text, *overrides), trained, mode="quiet")
    assert main(["export", str(trained), "--to", "gpt2", "--out", str(tmp_path / "gpt2")]) == 0
    assert main(["import", str(tmp_path / "gpt2"), "--out", str(imported)]) == 0
    assert not (imported / "result.json").exists()
    capsys.readouterr()
    assert main(["diff", str(trained), str(imported)]) == 1
    printed = capsys.readouterr().out
    assert "epochs: 1 and 0" in printed
    assert re.search(r"data\.set +\S*text\.txt\" +\"imported\"", printed)
    assert main(["diff", str(imported), str(imported)]) == 0


def test_folders_without_a_finished_run_are_refused(run, tmp_path):
    with pytest.raises(UserError, match="not a run"):
        diff_runs(tmp_path, tmp_path)
    (run / "result.json").unlink()
    with pytest.raises(UserError, match="not a finished run"):
        diff_runs(run, run)
    assert main(["train"]) == 2
    assert main(["train", "--repeat", str(tmp_path)]) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_for_a_recipe_is_not_waited_for(run):
    (run / "config.toml").unlink()
    os.mkfifo(run / "config.toml")
    with pytest.raises(UserError, match="not a run"):
        diff_runs(run, run)
