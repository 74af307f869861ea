"""A finished run that is trained for more epochs."""

import json
import shutil

import pytest
import torch

from workings.cli import main
from workings.errors import UserError
from workings.storage import read_json, read_tensors, table_checksum, write_tensors
from workings.training.runs import load, read_run_recipe, resume, train_recipe
from workings.training.trainer import Trainer, TrainingInterrupt


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def epochs_of(folder):
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(r["kind"], r["epoch"], r.get("train_loss")) for r in log if r["kind"] != "sample"]


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_a_longer_training_ends_where_one_of_that_length_does(toy, tmp_path, recipe_for, average):
    evenly = ["--train.schedule", "constant", "--train.warmup", "0", "--train.average", average]
    train_recipe(recipe_for(toy, *evenly, "--train.epochs", "2"), tmp_path / "run", mode="quiet")
    before = contents(tmp_path / "run")
    resume(tmp_path / "run", mode="quiet", epochs=4, out=tmp_path / "new" / "longer")
    train_recipe(recipe_for(toy, *evenly, "--train.epochs", "4"), tmp_path / "whole", mode="quiet")
    longer, whole = tmp_path / "new" / "longer", tmp_path / "whole"
    found, expected = (read_tensors(run / "model.safetensors") for run in (longer, whole))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert epochs_of(longer) == epochs_of(whole)
    assert read_run_recipe(longer) == read_run_recipe(whole)
    assert load(longer).evaluate_on() == load(whole).evaluate_on()
    assert contents(tmp_path / "run") == before


def test_a_falling_rate_takes_the_longer_course(toy, tmp_path, recipe_for, capsys):
    """At the end of two epochs the rate is 0; with four in all it is half way down."""
    linear = ["--train.schedule", "linear", "--train.warmup", "0", "--train.epochs", "2"]
    train_recipe(recipe_for(toy, *linear), tmp_path / "run", mode="quiet")
    arguments = ["resume", str(tmp_path / "run"), "--epochs", "4", "--quiet"]
    assert main(arguments) == 0
    first, longer = (
        read_tensors(tmp_path / n / "model.safetensors") for n in ("run", "run-extended")
    )
    assert any(not torch.equal(first[name], longer[name]) for name in first)
    assert main(arguments) == 2
    assert f"{tmp_path / 'run-extended'} exists already" in capsys.readouterr().err


def test_a_longer_training_that_was_stopped_goes_on(toy, tmp_path, recipe_for, monkeypatch):
    train_recipe(recipe_for(toy, "--train.epochs", "2"), tmp_path / "run", mode="quiet")
    resume(tmp_path / "run", mode="quiet", epochs=4, out=tmp_path / "whole")
    step = Trainer._step

    def stopping(self, group):
        step(self, group)
        self._stop_signal = 2 * (self.progress.step == 30)  # in the middle of the third epoch

    monkeypatch.setattr(Trainer, "_step", stopping)
    with pytest.raises(TrainingInterrupt):
        resume(tmp_path / "run", mode="quiet", epochs=4, out=tmp_path / "longer")
    monkeypatch.setattr(Trainer, "_step", step)
    resume(tmp_path / "longer", mode="quiet")
    assert epochs_of(tmp_path / "longer") == epochs_of(tmp_path / "whole")
    found, expected = (
        read_tensors(tmp_path / n / "model.safetensors") for n in ("longer", "whole")
    )
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_what_patience_ended_is_not_taken_up(toy, tmp_path, recipe_for):
    recipe = recipe_for(
        toy, "--train.epochs", "9", "--train.patience", "1", "--train.learning_rate", "0.3"
    )
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert len(epochs_of(tmp_path / "run")) < 10  # with the test's line
    with pytest.raises(UserError, match="no improvement for 1 epochs"):
        resume(tmp_path / "run", mode="quiet", epochs=20, out=tmp_path / "longer")
    assert not (tmp_path / "longer").exists()


def test_checkpoints_of_others_and_damaged_ones_are_not_certified(toy, tmp_path, recipe_for):
    for name, seed in (("run", "1"), ("other", "2")):
        changes = ["--train.epochs", "1", "--seed", seed]
        train_recipe(recipe_for(toy, *changes), tmp_path / name, mode="quiet")
    (newest,) = (tmp_path / "run" / "checkpoints").iterdir()
    shutil.rmtree(newest)
    shutil.copytree(tmp_path / "other" / "checkpoints" / newest.name, newest)
    with pytest.raises(UserError, match="belongs to another run"):
        resume(tmp_path / "run", mode="quiet", epochs=2, out=tmp_path / "longer")
    (newest / "state.json").write_text("{}")
    with pytest.raises(UserError, match=r"state\.json"):
        resume(tmp_path / "run", mode="quiet", epochs=2, out=tmp_path / "longer")
    assert not (tmp_path / "longer").exists()


def test_a_repetition_says_that_the_rate_took_another_course(toy, tmp_path, recipe_for, capsys):
    train_recipe(recipe_for(toy, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    resume(tmp_path / "run", mode="quiet", epochs=2, out=tmp_path / "longer")
    again = ["train", "--repeat", str(tmp_path / "longer"), "--out", str(tmp_path / "again")]
    assert main([*again, "--quiet"]) == 0
    assert "it was extended from step 11 of a training for 1 epochs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "2"], "has 2 epochs already: more are needed"),
        (["--out", "run-elsewhere"], "--out needs --epochs N"),
    ],
)
def test_what_is_no_longer_training_is_refused(
    toy, tmp_path, recipe_for, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    train_recipe(recipe_for(toy, "--train.epochs", "2"), tmp_path / "run", mode="quiet")
    assert main(["resume", str(tmp_path / "run"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir() if "run" in p.name] == ["run"]


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(toy, tmp_path, recipe_for):
    train_recipe(recipe_for(toy, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint to continue from"):
        resume(tmp_path / "run", mode="quiet", epochs=2, out=tmp_path / "longer")
    assert not (tmp_path / "longer").exists()


@pytest.mark.parametrize("average", ["none", "ema"])
def test_best_weights_of_an_epoch_that_was_not_kept_are_not_taken(
    toy, tmp_path, recipe_for, monkeypatch, average
):
    """Killed between its weights and its checkpoint, a run has weights that its log knows not."""
    run, longer = tmp_path / "run", tmp_path / "longer"
    few = ["--train.epochs", "2", "--train.average", average]
    train_recipe(recipe_for(toy, *few), run, mode="quiet")
    best = read_tensors(run / "model.safetensors")
    mark = table_checksum(read_json(run / "environment.json")["files"])
    strange = {name: torch.zeros_like(t) for name, t in best.items()}
    write_tensors(run / "model.safetensors", strange, mark)
    monkeypatch.setattr(Trainer, "_is_better", lambda *_: False)
    resume(run, mode="quiet", epochs=3, out=longer)
    found = read_tensors(longer / "model.safetensors")
    assert all(torch.equal(found[name], best[name]) for name in best)


@pytest.mark.parametrize(
    ("lost", "message"),
    [([], "no checkpoint to resume from"), (["result.json", "log.jsonl"], "was not trained here")],
    ids=["trained", "imported"],
)
def test_weights_without_a_checkpoint_are_not_trained_over(
    toy, tmp_path, recipe_for, lost, message
):
    run = tmp_path / "run"
    train_recipe(recipe_for(toy, "--train.epochs", "1"), run, mode="quiet")
    shutil.rmtree(run / "checkpoints")
    for name in lost:
        (run / name).unlink()
    before = contents(run)
    with pytest.raises(UserError, match=message):
        resume(run, mode="quiet")
    assert contents(run) == before
