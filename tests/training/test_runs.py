"""Training runs from beginning to end, on a small set that the test writes itself."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from workings.cli import main
from workings.config import build, override, to_table
from workings.errors import UserError
from workings.recipes import (
    ClassificationRecipe,
    build_recipe,
    parse_classifier_config,
    read_recipe,
)
from workings.recipes.registry import RECIPES
from workings.storage import read_tensors
from workings.tasks.classification import Classification
from workings.training.runs import load, resume, train_recipe
from workings.training.trainer import Trainer, TrainingInterrupt


def test_learns_and_predicts(toy, tmp_path, recipe_for):
    task = train_recipe(recipe_for(toy), tmp_path / "run", mode="quiet")
    message = next(iter(task.predict_sources(["plum fig pear"])))
    assert message["label"] == "fruit"
    assert sum(message["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_accuracy"] == 1.0
    again = load(tmp_path / "run")
    torch.testing.assert_close(again.predict(["iron tin"]), task.predict(["iron tin"]))
    assert again.evaluate_on()["test_accuracy"] == 1.0
    assert again.evaluate_on(str(toy))["test_examples"] == 216


@pytest.mark.parametrize("kind", ["perceptron", "convolution", "transformer", "ngrams"])
def test_every_kind_learns(toy, tmp_path, kind, recipe_for):
    small = {
        "perceptron": ["--model.length", "3", "--model.hidden_sizes", "[32]"],
        "convolution": ["--model.kernel", "2", "--model.stride", "1", "--model.channels", "[8]"],
        "transformer": ["--model.heads", "2", "--model.layers", "1", "--model.d_ff", "16"],
        "ngrams": [],
    }[kind]
    recipe = recipe_for(toy, "--train.epochs", "12")
    table = {"kind": kind} | ({} if kind == "ngrams" else {"d_model": 8})
    recipe = build_recipe({**to_table(recipe), "model": table}, small)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_accuracy"] > 0.9


def test_the_run_folder_can_be_read_by_a_person(toy, tmp_path, recipe_for):
    train_recipe(recipe_for(toy), tmp_path / "run", mode="quiet")
    names = {p.name for p in (tmp_path / "run").iterdir() if p.name != ".lock"}
    assert names == {
        "config.toml", "environment.json", "tokenizer.json", "labels.json", "model.safetensors",
        "log.jsonl", "result.json", "checkpoints", "report.html", "curves.svg", "curves.png",
    }  # fmt: skip
    assert read_recipe(tmp_path / "run" / "config.toml") == recipe_for(toy)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [record["kind"] for record in log] == ["epoch"] * 3 + ["test"]
    kept = {p.name for p in (tmp_path / "run" / "checkpoints").iterdir()}
    assert {"step-22", "step-33"} <= kept  # the last two, and the best
    assert len(kept) <= 3


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    toy, tmp_path, monkeypatch, average, recipe_for
):
    recipe = recipe_for(toy, "--train.average", average)
    train_recipe(recipe, tmp_path / "whole", mode="quiet")
    step = Trainer._step

    def stop_at_fourteen(self, group):
        step(self, group)
        self._stop_signal = 2 * (self.progress.step == 14)  # in the middle of the second epoch

    monkeypatch.setattr(Trainer, "_step", stop_at_fourteen)
    with pytest.raises(TrainingInterrupt):
        train_recipe(recipe, tmp_path / "stopped", mode="quiet")
    monkeypatch.setattr(Trainer, "_step", step)
    resume(tmp_path / "stopped", mode="quiet")
    whole, stopped = (
        read_tensors(tmp_path / n / "model.safetensors") for n in ("whole", "stopped")
    )
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)
    logs = [
        [
            {k: v for k, v in json.loads(line).items() if "seconds" not in k}
            for line in (tmp_path / n / "log.jsonl").read_text().splitlines()
        ]
        for n in ("whole", "stopped")
    ]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("patience", ["none", "1"])
def test_a_finished_run_says_that_it_is_and_writes_its_report_again(
    toy, tmp_path, recipe_for, capsys, patience
):
    recipe = recipe_for(toy, "--train.patience", patience)
    train_recipe(recipe, tmp_path / "run")
    assert "all epochs are done" not in capsys.readouterr().err
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run" / "report.html").unlink()
    assert main(["resume", str(tmp_path / "run")]) == 0
    message = capsys.readouterr().err
    assert "finished: " in message
    log = (tmp_path / "run" / "log.jsonl").read_text()
    to_its_end = log.count('"kind": "epoch"') == recipe.train.epochs
    assert to_its_end or patience == "1"
    assert (f"workings resume {tmp_path / 'run'} --epochs N" in message) == to_its_end
    assert ("no improvement for train.patience epochs" in message) != to_its_end
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert (tmp_path / "run" / "report.html").is_file()
    longer = ["--train.epochs", "4", "--train.patience", "9", "--out", str(tmp_path / "longer")]
    assert main(["train", "--repeat", str(tmp_path / "run"), *longer]) == 0
    assert "epoch 4: " in capsys.readouterr().err


def test_a_damaged_checkpoint_gives_way_to_the_one_before(toy, tmp_path, recipe_for):
    run = tmp_path / "run"
    train_recipe(recipe_for(toy), run, mode="quiet")
    newest = max((run / "checkpoints").iterdir(), key=lambda p: int(p.name[5:]))
    content = bytearray((newest / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (newest / "model.safetensors").write_bytes(content)
    before = read_tensors(run / "model.safetensors")
    resume(run, mode="quiet")  # does the last epoch again
    after = read_tensors(run / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_ctrl_c_leaves_a_checkpoint(toy, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[data]\nset = "{toy.as_posix()}"\n[model]\nkind = "recurrent"\n[train]\nepochs = 100000\n'
    )
    run = tmp_path / "run"
    command = [sys.executable, "-m", "workings", "train", str(recipe), "--out", str(run)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (run / "checkpoints").is_dir() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"workings resume {run}" in message
    assert "Traceback" not in message
    assert any((run / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ('{"text": "a", "label": "x"}\n{"text": "b", "label": "x"}\n' * 9, "at least two"),
        ('{"texts": "a", "label": "x"}\n', "text"),
        ('{"text": "", "label": "x"}\n{"text": " ", "label": "y"}\n' * 9, "all 18 texts are empty"),
    ],
)
def test_data_that_cannot_be_learned_from(tmp_path, content, message, recipe_for):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        train_recipe(recipe_for(path), tmp_path / "run", mode="quiet")


def test_a_text_of_a_million_characters_and_one_of_none(toy, tmp_path, recipe_for):
    task = train_recipe(recipe_for(toy, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    long, empty = task.predict_sources(["iron " * 200_000, ""])
    assert long["label"] == "metal"
    assert empty["label"] in task.labels


def test_a_folder_in_use_is_not_written_over(toy, tmp_path, recipe_for):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not empty"):
        train_recipe(recipe_for(toy), tmp_path / "run", mode="quiet")
    with pytest.raises(UserError, match="not a run"):
        load(tmp_path)


@pytest.mark.parametrize("out", ["thesis.txt", "thesis.txt/run"])
def test_a_file_is_no_place_for_a_run(toy, tmp_path, recipe_for, out):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match=r"thesis\.txt is a file: --out needs a folder"):
        train_recipe(recipe_for(toy), tmp_path / out, mode="quiet")
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_loss_that_explodes_is_told(toy, tmp_path, recipe_for):
    recipe = recipe_for(
        toy,
        "--train.learning_rate",
        "1e38",
        "--train.clip_norm",
        "none",
        "--train.optimizer",
        "sgd",
    )
    with pytest.raises(UserError, match=r"the loss is .* at step"):
        train_recipe(recipe, tmp_path / "run", mode="quiet")


def test_what_is_held_out_of_a_file_is_what_is_measured_later(toy, tmp_path, recipe_for):
    recipe = replace(recipe_for(toy, "--train.epochs", "1"), seed=7)
    trained = train_recipe(recipe, tmp_path / "run", mode="quiet")
    tested = [e.text for e in trained.examples["test"]]
    again = load(tmp_path / "run")
    again.evaluate_on()
    assert [e.text for e in again.examples["test"]] == tested
    assert not {e.text for e in trained.examples["train"]} & set(tested)


def test_texts_in_training_and_test_are_told_with_and_without(tmp_path, recipe_for):
    folder = tmp_path / "set"
    folder.mkdir()
    lines = [
        json.dumps({"text": f"{w} {w}", "label": w[0]}) for w in ("ab", "ba") for _ in range(9)
    ]
    (folder / "train.jsonl").write_text("\n".join(lines))
    # One text of training with its label turned round, and three new ones.
    test = [("ab ab", "b"), ("ab", "a"), ("ba", "b"), ("ab ab ab", "a")]
    (folder / "test.jsonl").write_text(
        "\n".join(json.dumps({"text": t, "label": y}) for t, y in [*test, ("ab", "new")])
    )
    recipe = recipe_for(folder, "--data.validation", "0", "--train.epochs", "20")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_overlap"] == 1
    assert result["test_accuracy"] == 0.75
    assert result["test_accuracy_without_overlap"] == 1.0
    assert result["test_unseen_labels"] == 1
    assert "validation_accuracy" not in result


def test_padding_in_front_is_read_first(toy, tmp_path, recipe_for):
    recipe = recipe_for(toy, "--model.padding", "left", "--data.max_length", "9")
    task = train_recipe(recipe, tmp_path / "run", mode="quiet")
    ids, lengths = task._pad([[5, 6], [7]])
    assert ids.tolist() == [[0] * 7 + [5, 6], [0] * 8 + [7]]
    assert lengths.tolist() == [2, 1]


@pytest.mark.parametrize("clip", ["none", "0.5"])
def test_a_recipe_comes_back_from_its_run_as_it_was(toy, tmp_path, recipe_for, clip):
    recipe = recipe_for(toy, "--train.epochs", "1", "--train.clip_norm", clip)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert read_recipe(tmp_path / "run" / "config.toml") == recipe


def test_half_precision_learns_where_the_device_has_it(toy, tmp_path, recipe_for):
    recipe = recipe_for(toy, "--train.precision", "bfloat16")
    if not torch.cpu._is_avx512_bf16_supported():
        with pytest.raises(UserError, match="float32"):
            train_recipe(recipe, tmp_path / "run", mode="quiet")
        return
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_accuracy"] > 0.9


@pytest.mark.slow  # compiling takes half a minute
def test_a_compiled_model_learns_the_same(toy, tmp_path, recipe_for):
    recipe = recipe_for(toy, "--model.dropout", "0", "--train.epochs", "1")
    recipe = replace(
        recipe, model=parse_classifier_config({"kind": "transformer", "size": "small"})
    )
    plain = train_recipe(recipe, tmp_path / "plain", mode="quiet")
    compiled = replace(recipe, train=replace(recipe.train, compile=True))
    fast = train_recipe(compiled, tmp_path / "compiled", mode="quiet")
    torch.testing.assert_close(
        fast.predict(["iron tin", "fig"]), plain.predict(["iron tin", "fig"]), atol=1e-3, rtol=1e-3
    )


def test_a_run_finds_its_data_from_elsewhere(toy, recipe_for, tmp_path, monkeypatch):
    monkeypatch.chdir(toy.parent)
    train_recipe(recipe_for(toy.name, "--train.epochs", "1"), "run", mode="quiet")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert resume(toy.parent / "run", mode="quiet").recipe.data.set == str(toy)


def test_a_run_goes_on_with_as_many_threads_as_it_began_with(
    toy, recipe_for, tmp_path, monkeypatch
):
    train_recipe(recipe_for(toy, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    message = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert message["threads"] == torch.get_num_threads()
    asked = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    monkeypatch.setattr("workings.threads.count_cores", lambda: 8)
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    assert asked[-1] == message["threads"]
    assert main(["resume", str(tmp_path / "run"), "--quiet", "--threads", "2"]) == 0
    assert asked[-1] == 2


def test_no_text_may_be_longer_than_there_are_positions(toy, recipe_for):
    learned = ("--model.positions", "learned", "--model.max_positions", "64")
    with pytest.raises(
        UserError, match=r"data\.max_length = 512: the model has only model\.max_positions = 64"
    ):
        build(ClassificationRecipe, override({"model": {"kind": "transformer"}}, learned))


def test_another_seed_holds_out_other_texts_and_is_no_change_of_data(toy, recipe_for, tmp_path):
    run, again = str(tmp_path / "run"), ["--out", str(tmp_path / "again"), "--quiet", "--seed", "5"]
    train_recipe(recipe_for(toy, "--train.epochs", "1"), run, mode="quiet")
    assert main(["train", "--repeat", run, *again]) == 0


def test_a_training_that_is_refused_leaves_nothing_behind(recipe_for, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError):
        train_recipe(recipe_for(tmp_path / "empty.jsonl"), tmp_path / "run", mode="quiet")
    assert not (tmp_path / "run").exists()


def test_a_signal_that_comes_while_the_last_epoch_is_measured_is_heeded(
    toy, tmp_path, recipe_for, monkeypatch
):
    recipe, evaluate = recipe_for(toy, "--train.epochs", "1"), Classification.evaluate

    def measured(self, group):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, group)

    with monkeypatch.context() as patch:
        patch.setattr(Classification, "evaluate", measured)
        with pytest.raises(TrainingInterrupt):
            train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert not (tmp_path / "run" / "result.json").exists()
    assert resume(tmp_path / "run", mode="quiet").data_info["train"]
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize("task", RECIPES)
def test_a_model_without_a_kind_is_of_the_usual_one(task):
    kind, _ = RECIPES[task]
    assert build(kind, {"model": {"d_model": 8}}).model.kind in ("recurrent", "transformer")
