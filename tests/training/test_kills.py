"""Killed trainings of every task, alone and with two processes, resume to the same end."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import toys

from workings.config import to_table
from workings.storage import read_json
from workings.training.verify import verify_run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
DRIVER = Path(__file__).with_name("kill_driver.py")
TASKS = ("classifier", "language-model", "stateful", "translator", "captioner")


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """A recipe of every task, with random numbers and states that a resumed run must restore."""
    folder = tmp_path_factory.mktemp("data")
    texts = toys.write_texts(folder / "texts.jsonl", words=4, last_words=4)
    corpus = toys.write_corpus(folder / "corpus.txt")
    pairs = toys.write_pairs(folder / "pairs.tsv", 100)
    (folder / "squares").mkdir()
    squares = toys.write_squares(folder / "squares")
    often = ("--train.epochs", "3", "--train.save_every", "2")
    subwords = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "270")
    augmented = ("--data.augment", "true", "--model.dropout", "0.1")
    stateful = ("--data.stateful", "true")
    recipes = {
        "classifier": toys.texts_recipe(texts, "--train.batch_size", "8", *often),
        "language-model": toys.corpus_recipe(corpus, *often),
        "without-dropout": toys.corpus_recipe(corpus, "--model.dropout", "0", *often),
        "stateful": toys.recurrent_recipe(corpus, *stateful, *often),
        "translator": toys.pairs_recipe(pairs, *subwords, "--tokenizer.dropout", "0.3", *often),
        "captioner": toys.squares_recipe(squares, *augmented, *often),
    }
    return {name: to_table(recipe) for name, recipe in recipes.items()}


def kill_and_resume(tmp_path, trainings, rounds, attempts):
    """Kill and resume trainings; check how they end, and return the kills of each."""
    plan = {"folder": str(tmp_path), "rounds": rounds, "attempts": attempts}
    (tmp_path / "plan.json").write_text(json.dumps(plan | {"trainings": trainings}))
    done = subprocess.run(
        [sys.executable, DRIVER, tmp_path / "plan.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    (tmp_path / "kills.json").write_text(json.dumps(count(kills)))
    for name in trainings:
        for number in range(rounds):
            check_clean(tmp_path / name / str(number))
    return kills


def count(kills):
    """Return the number of kills of each training, and of those during each moment."""
    moments = Counter(moment for kill in kills for moment in kill["during"] or ["between"])
    return {"kills": Counter(kill["training"] for kill in kills), "during": moments}


def check_clean(run):
    """A run that was killed has no damaged and no partial files."""
    assert [report for report in verify_run(run) if report.state == "damaged"] == []
    hidden = {p.name for p in run.rglob("*") if p.name.startswith(".")}
    assert hidden == {".lock"}


def check_same_end(tmp_path, names, rounds):
    """Log, result, best weights and last checkpoint are those of the uninterrupted run."""
    for name in names:
        expected = final_state(tmp_path / name / "uninterrupted")
        epochs = [r["epoch"] for r in expected[0] if r["kind"] == "epoch"]
        assert epochs == [1, 2, 3]
        for number in range(rounds):
            assert final_state(tmp_path / name / str(number)) == expected, (name, number)


def final_state(run):
    result = read_json(run / "result.json")
    for key in ("minutes", "cpu_minutes", "peak_memory_mb"):
        del result[key]
    last = toys.newest_checkpoint(run)
    tensors = {path.name: path.read_bytes() for path in last.glob("*.safetensors")}
    return toys.log_without_times(run), result, toys.weights(run), last.name, tensors


def test_killed_trainings_resume_to_the_same_end(tmp_path, recipes):
    """The translator has most to restore; the slow tests kill trainings of every task."""
    training = {"recipe": recipes["translator"]}
    assert kill_and_resume(tmp_path, {"translator": training}, rounds=1, attempts=3)
    check_same_end(tmp_path, ["translator"], rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", TASKS)
def test_two_processes_killed_many_times_resume_to_the_same_end(
    tmp_path, recipes, name, parallelism
):
    training = {"recipe": recipes[name], "processes": [2], "parallelism": [parallelism]}
    kills = kill_and_resume(tmp_path, {name: training}, rounds=2, attempts=8)
    assert len(kills) >= 8
    assert {rank for kill in kills for rank in kill["ranks"]} == {0, 1}
    check_same_end(tmp_path, [name], rounds=2)


@pytest.mark.slow
def test_runs_killed_between_one_and_two_processes_stay_intact(tmp_path, recipes):
    """Each attempt chooses the number of processes, and ddp or fsdp (without samples).

    Each process draws its own dropout: without it, their number makes little difference.
    """
    training = {
        "recipe": recipes["without-dropout"],
        "processes": [1, 2],
        "parallelism": ["ddp", "fsdp"],
    }
    kills = kill_and_resume(tmp_path, {"mixed": training}, rounds=2, attempts=8)
    assert {kill["processes"] for kill in kills} == {1, 2}
    expected = final_state(tmp_path / "mixed" / "uninterrupted")
    for number in range(2):
        run = tmp_path / "mixed" / str(number)
        log, result, _, last, _ = final_state(run)
        assert list_measurements(log) == list_measurements(expected[0])
        assert last == expected[3]
        assert result["validation_loss"] == pytest.approx(expected[1]["validation_loss"], abs=1e-3)


def list_measurements(log):
    return [(record["kind"], record["epoch"]) for record in log if record["kind"] != "sample"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_trainings_killed_a_hundred_times_resume_to_the_same_end(tmp_path, recipes, name):
    kills = kill_and_resume(tmp_path, {name: {"recipe": recipes[name]}}, rounds=16, attempts=12)
    assert len(kills) >= 100
    moments = {moment for kill in kills for moment in kill["during"]}
    assert moments >= {"step", "evaluation", "best weights", "checkpoint", "log line", "restore"}
    check_same_end(tmp_path, [name], rounds=16)
