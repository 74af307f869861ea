"""Run folders: what training writes, loading, repeating, resuming and extending."""

import json
import os
import pickle
import random
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
import toys
from damage import FILE_DAMAGES, RUN_FILES, error_message, flip_a_bit
from faults import check_resumes, error_line

from workings.cli import main
from workings.errors import UserError
from workings.io import file_lock
from workings.recipes import build_recipe, read_recipe
from workings.storage import (
    read_checkpoint,
    read_json,
    read_tensors,
    table_checksum,
    write_json,
    write_tensors,
)
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.training import runs
from workings.training.run_folder import read_run_recipe
from workings.training.runs import load, resume, train_recipe
from workings.training.trainer import Trainer, TrainingInterrupt


def read_files(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def read_epochs(run):
    log = toys.log_without_times(run)
    return [(r["kind"], r["epoch"], r.get("train_loss")) for r in log]


def copy_run(run, folder):
    return Path(shutil.copytree(run, folder / "run"))


# -- training --------------------------------------------------------------------------------------


def test_the_loser_of_a_race_for_a_new_folder_leaves_it(tmp_path, monkeypatch):
    folder, lock_folder = tmp_path / "run", runs._lock_folder
    with ExitStack() as winner:

        def lose(folder):  # another process locks the folder just before this one
            winner.enter_context(file_lock(folder / ".lock"))
            return lock_folder(folder)

        monkeypatch.setattr(runs, "_lock_folder", lose)
        with pytest.raises(UserError, match="another process is training here"):
            train_recipe(build_recipe({}), folder, mode="quiet")
        assert (folder / ".lock").exists()


def test_a_folder_that_another_process_filled_before_the_lock_is_refused(tmp_path, monkeypatch):
    folder, lock_folder = tmp_path / "run", runs._lock_folder

    def lock_late(folder):
        (folder / "config.toml").write_text("")
        return lock_folder(folder)

    monkeypatch.setattr(runs, "_lock_folder", lock_late)
    with pytest.raises(UserError, match="is not empty"):
        train_recipe(build_recipe({}), folder, mode="quiet")
    assert (folder / "config.toml").exists()


def test_files_of_a_run(texts_run):
    names = {p.name for p in texts_run.iterdir() if p.name != ".lock"}
    assert names == {
        "config.toml", "environment.json", "tokenizer.json", "labels.json", "model.safetensors",
        "log.jsonl", "result.json", "checkpoints", "report.html", "curves.svg", "curves.png",
    }  # fmt: skip
    kinds = [record["kind"] for record in toys.log_without_times(texts_run)]
    assert kinds == ["epoch"] * 3 + ["test"]
    checkpoints = {p.name for p in (texts_run / "checkpoints").iterdir()}
    assert {"step-22", "step-33"} <= checkpoints  # the last two, and the best
    assert len(checkpoints) <= 3


@pytest.mark.parametrize("clip", ["none", "0.5"])
def test_the_recipe_of_a_run_is_the_one_it_was_trained_with(texts, tmp_path, clip):
    recipe = toys.texts_recipe(texts, "--train.epochs", "1", "--train.clip_norm", clip)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert read_recipe(tmp_path / "run" / "config.toml") == recipe


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ('{"text": "a", "label": "x"}\n{"text": "b", "label": "x"}\n' * 9, "at least two"),
        ('{"texts": "a", "label": "x"}\n', "text"),
        ('{"text": "", "label": "x"}\n{"text": " ", "label": "y"}\n' * 9, "all 18 texts are empty"),
    ],
)
def test_unusable_data_are_refused_and_leave_no_folder(tmp_path, content, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        train_recipe(toys.texts_recipe(path), tmp_path / "run", mode="quiet")
    assert not (tmp_path / "run").exists()


def test_a_folder_with_files_is_refused(texts, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not empty"):
        train_recipe(toys.texts_recipe(texts), tmp_path / "run", mode="quiet")
    with pytest.raises(UserError, match="not a run"):
        load(tmp_path)


@pytest.mark.parametrize("out", ["thesis.txt", "thesis.txt/run"])
def test_a_file_instead_of_a_folder_is_refused(texts, tmp_path, out):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match=r"thesis\.txt is a file: --out needs a folder"):
        train_recipe(toys.texts_recipe(texts), tmp_path / out, mode="quiet")
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_data_are_found_from_another_folder(texts, tmp_path, monkeypatch):
    monkeypatch.chdir(texts.parent)
    train_recipe(toys.texts_recipe(texts.name, "--train.epochs", "1"), "run", mode="quiet")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert resume(texts.parent / "run", mode="quiet").recipe.data.set == str(texts)


def test_pairs_in_two_files_are_found_from_another_folder(few_pairs, tmp_path, monkeypatch):
    lines = [line.split("\t") for line in few_pairs.read_text().splitlines()[1:]]
    monkeypatch.chdir(tmp_path)
    for suffix, sentences in zip(("en", "fr"), zip(*lines, strict=True), strict=True):
        (tmp_path / f"some.{suffix}").write_text("\n".join(sentences) + "\n")
    train_recipe(toys.pairs_recipe("some", "--train.epochs", "1"), "run", mode="quiet")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load(tmp_path / "run").load_train_pairs()


def test_a_folder_in_which_another_process_trains_is_locked(
    recipe, reference, tmp_path, capsys, monkeypatch
):
    run = tmp_path / "run"
    stopped = {"at": 13}

    def stop(self, micro_batches, original=Trainer._step):
        original(self, micro_batches)
        self._stop_signal = 2 * (self.progress.step == stopped["at"])

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", stop)
        assert main(["train", recipe, "--out", str(run), "--quiet"]) == 130
    with file_lock(run / ".lock", wait=False):
        assert f"{run}: another process is training here" in error_line(capsys, "resume", run)
        assert f"workings resume {run}" in error_line(capsys, "train", recipe, "--out", run)
        assert main(["predict", str(run), "fig"]) == 0  # reads only
        capsys.readouterr()
    check_resumes(run, reference)


# -- loading ---------------------------------------------------------------------------------------


def test_loading_a_run_imports_no_report():
    """Neither does training, until the report is written."""
    import subprocess
    import sys

    script = (
        "import sys, workings.training.runs, workings.training.compare\n"
        "print([m for m in sys.modules if m.startswith(('workings.interpret', 'workings.render', "
        "'workings.training.report', 'rich'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_run_of_another_task_is_refused(corpus_run):
    message = "of the task 'language', for `workings complete`: expected one of the task 'classify'"
    with pytest.raises(UserError, match=message):
        load(corpus_run, Classification)
    assert isinstance(load(corpus_run), LanguageModeling)
    assert read_recipe(corpus_run / "config.toml").task == "language"


def test_a_run_without_environment_is_refused(run):
    (run / "environment.json").unlink()
    assert error_message(load, run).endswith("environment.json: missing")


def test_a_run_without_checksums_is_loaded(run):
    environment = read_json(run / "environment.json")
    del environment["files"]
    write_json(run / "environment.json", environment)
    write_tensors(run / "model.safetensors", read_tensors(run / "model.safetensors"))
    assert load(run).labels == ("fruit", "metal")


def check_damage_is_noticed(two_runs, tmp_path, rounds):
    for seed in range(rounds):
        rng = random.Random(seed)  # noqa: S311
        folder = tmp_path / "loaded"
        folder.mkdir()
        for name in RUN_FILES:
            shutil.copy(two_runs / "run" / name, folder)
        file = folder / RUN_FILES[seed % len(RUN_FILES)]
        damage = rng.choice([*FILE_DAMAGES, "missing", "swapped"])
        if damage == "missing":
            file.unlink()
        elif damage == "swapped" and file.name in ("config.toml", "model.safetensors"):
            shutil.copy(two_runs / "other" / file.name, file)
        else:
            (flip_a_bit if damage == "swapped" else damage)(file, rng)
        try:
            error_message(load, folder)
        except BaseException:
            print(seed, file.name, damage)  # noqa: T201
            raise
        shutil.rmtree(folder)


def test_damage_to_the_files_of_a_run_is_noticed(two_runs, tmp_path):
    check_damage_is_noticed(two_runs, tmp_path, rounds=100)


@pytest.mark.slow
def test_a_thousand_damages_to_the_files_of_a_run_are_noticed(two_runs, tmp_path):
    check_damage_is_noticed(two_runs, tmp_path, rounds=1000)


class Malicious:
    """An object whose pickle creates a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (os.mkdir, (str(self.folder),))


@pytest.mark.parametrize("name", RUN_FILES)
def test_no_file_of_a_run_is_unpickled(run, tmp_path, name):
    malicious = Malicious(tmp_path / "created")
    (run / name).write_bytes(pickle.dumps(malicious))
    error_message(load, run)
    torch.save({"weight": malicious}, run / name)
    error_message(load, run)
    assert not (tmp_path / "created").exists()


@pytest.mark.parametrize("name", RUN_FILES)
def test_links_are_not_followed_in_reading(two_runs, run, name):
    (run / name).unlink()
    (run / name).symlink_to(two_runs / "run" / name)  # the same content
    assert "link" in error_message(load, run)


@pytest.mark.parametrize("name", ["log.jsonl", ".lock"])
def test_links_are_not_followed_in_writing(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / name).unlink()
    (run / name).symlink_to(victim)
    assert "link" in error_message(resume, run)
    assert victim.read_text() == "precious"


def test_partial_files_are_not_written_through_links(run, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("model.safetensors", "report.html", "result.json"):
        (run / f".{name}.part").symlink_to(victim)
    for folder in toys.list_checkpoints(run)[1:]:
        shutil.rmtree(folder)
    resume(run, mode="quiet")
    assert victim.read_text() == "precious"
    assert load(run).labels == ("fruit", "metal")


@pytest.mark.parametrize("name", [*RUN_FILES, "checkpoints/step/state.json"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_named_pipes_are_not_waited_for(run, name):
    path = run / name.replace("step", toys.newest_checkpoint(run).name)
    path.unlink()
    os.mkfifo(path)
    if path.name == "state.json":
        error_message(read_checkpoint, path.parent)
    else:
        error_message(load, run)


# -- resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", ["none", "1"])
def test_resume_of_a_finished_run_writes_its_report_again(texts, tmp_path, capsys, patience):
    recipe, run = toys.texts_recipe(texts, "--train.patience", patience), tmp_path / "run"
    train_recipe(recipe, run)
    assert "all epochs are done" not in capsys.readouterr().err
    before = toys.weights(run)
    (run / "report.html").unlink()
    assert main(["resume", str(run)]) == 0
    printed = capsys.readouterr().err
    assert "finished: " in printed
    epochs = [r for r in toys.log_without_times(run) if r["kind"] == "epoch"]
    is_complete = len(epochs) == recipe.train.epochs
    assert is_complete or patience == "1"
    assert (f"workings resume {run} --epochs N" in printed) == is_complete
    assert ("no improvement for train.patience epochs" in printed) != is_complete
    assert toys.weights(run) == before
    assert (run / "report.html").is_file()
    longer = ["--train.epochs", "4", "--train.patience", "9", "--out", str(tmp_path / "longer")]
    assert main(["train", "--repeat", str(run), *longer]) == 0
    assert "epoch 4: " in capsys.readouterr().err


def test_resume_uses_the_number_of_threads_of_the_run(texts_run, tmp_path, monkeypatch):
    run = copy_run(texts_run, tmp_path)
    environment = json.loads((run / "environment.json").read_text())
    assert environment["threads"] == torch.get_num_threads()
    threads = []
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    monkeypatch.setattr("workings.cli.count_cores", lambda: 8)
    assert main(["resume", str(run), "--quiet"]) == 0
    assert threads[-1] == environment["threads"]
    assert main(["resume", str(run), "--quiet", "--threads", "2"]) == 0
    assert threads[-1] == 2


@pytest.mark.parametrize("threads", [None, 0, "two", True, 10**9, [1]])
def test_an_invalid_number_of_threads_is_refused(run, tmp_path, capsys, threads):
    environment = read_json(run / "environment.json") | {"threads": threads}
    write_json(run / "environment.json", environment)
    for words in (["resume", run], ["train", "--repeat", run, "--out", tmp_path / "again"]):
        assert "environment.json: threads = " in error_line(capsys, *words)


def test_a_changed_recipe_is_not_resumed(run):
    config = run / "config.toml"
    config.write_text(config.read_text().replace("batch_size = 16", "batch_size = 8"))
    assert "config.toml: changed or corrupted" in error_message(resume, run)


def test_changed_data_are_not_resumed(texts, tmp_path):
    train_recipe(toys.texts_recipe(texts, "--train.epochs", "1"), tmp_path / "run", mode="quiet")
    texts.write_text("\n".join(texts.read_text().splitlines()[3:]))
    with pytest.raises(UserError, match=r"started with: data\.train was \d+, is \d+; "):
        resume(tmp_path / "run", mode="quiet")


@pytest.mark.parametrize(
    ("removed", "message"),
    [([], "no checkpoint to resume from"), (["result.json", "log.jsonl"], "was not trained here")],
    ids=["trained", "imported"],
)
def test_weights_without_a_checkpoint_are_not_overwritten(run, removed, message):
    shutil.rmtree(run / "checkpoints")
    for name in removed:
        (run / name).unlink()
    before = read_files(run)
    with pytest.raises(UserError, match=message):
        resume(run, mode="quiet")
    assert read_files(run) == before


# -- repeating -------------------------------------------------------------------------------------


def test_a_repeated_run_has_the_same_weights(texts_run, tmp_path, capsys):
    repeat = ["train", "--repeat", str(texts_run), "--out", str(tmp_path / "two"), "--quiet"]
    assert main(repeat) == 0
    assert toys.weights(texts_run) == toys.weights(tmp_path / "two")
    assert main(["diff", str(texts_run), str(tmp_path / "two")]) == 0
    printed = capsys.readouterr().out
    for part in ("configuration", "results", "environment", "curves", "predictions"):
        assert f"{part}: the same" in printed


def test_a_run_may_be_repeated_with_another_seed(texts_run, tmp_path):
    """The seed selects other test data, which is no change of the data."""
    words = ["--repeat", str(texts_run), "--out", str(tmp_path / "again"), "--seed", "5"]
    assert main(["train", *words, "--train.epochs", "1", "--quiet"]) == 0


def write_names(path, swapped=False):
    """Write a CSV file with two columns; `swapped`: the labels are exchanged."""
    words = {"fruit": ["apple", "pear", "plum", "fig"], "metal": ["iron", "zinc", "tin", "lead"]}
    labels, rows = list(words), ["name,kind"]
    for k, label in enumerate(labels):
        column = labels[1 - k] if swapped else label
        rows += [f"{a} {b} {c},{column}" for a in words[label] for b in words[label] for c in "xyz"]
    path.write_text("\n".join(rows) + "\n")


def test_changed_data_are_neither_evaluated_nor_repeated(tmp_path, capsys):
    names, run = tmp_path / "names.csv", str(tmp_path / "run")
    write_names(names)
    columns = ("--data.text", "name", "--data.label", "kind", "--train.epochs", "1")
    train_recipe(toys.texts_recipe(names, *columns), run, mode="quiet")
    assert main(["predict", run, str(names)]) == 0  # reads the recipe's column
    assert len(capsys.readouterr().out.splitlines()) == 96
    assert main(["predict", run, "nosuch.csv"]) == 2
    assert "nosuch.csv: no such file" in capsys.readouterr().err
    assert main(["evaluate", run]) == 0
    assert main(["train", "--repeat", run, "--out", str(tmp_path / "same"), "--quiet"]) == 0
    write_names(names, swapped=True)
    capsys.readouterr()
    assert main(["evaluate", run]) == 2
    assert "is not what this run was trained on" in capsys.readouterr().err
    assert main(["train", "--repeat", run, "--out", str(tmp_path / "other"), "--quiet"]) == 2
    assert f"is not what {run} was trained on" in capsys.readouterr().err
    assert main(["evaluate", run, "--data", str(names)]) == 0


# -- extending -------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_an_extended_run_ends_like_a_longer_one(texts, tmp_path, average):
    constant = ["--train.schedule", "constant", "--train.average", average, "--train.epochs"]
    run, extended, longer = tmp_path / "run", tmp_path / "new" / "extended", tmp_path / "longer"
    train_recipe(toys.texts_recipe(texts, *constant, "2"), run, mode="quiet")
    before = read_files(run)
    resume(run, mode="quiet", epochs=4, out=extended)
    train_recipe(toys.texts_recipe(texts, *constant, "4"), longer, mode="quiet")
    found, expected = (read_tensors(folder / "model.safetensors") for folder in (extended, longer))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert read_epochs(extended) == read_epochs(longer)
    assert read_run_recipe(extended) == read_run_recipe(longer)
    assert load(extended).evaluate_on() == load(longer).evaluate_on()
    assert read_files(run) == before


def test_a_decaying_learning_rate_continues_on_the_longer_schedule(texts, tmp_path, capsys):
    """After two of two epochs the rate is 0; after two of four it is half way down."""
    linear = ["--train.schedule", "linear", "--train.epochs", "2"]
    train_recipe(toys.texts_recipe(texts, *linear), tmp_path / "run", mode="quiet")
    command = ["resume", str(tmp_path / "run"), "--epochs", "4", "--quiet"]
    assert main(command) == 0
    assert toys.weights(tmp_path / "run") != toys.weights(tmp_path / "run-extended")
    assert main(command) == 2
    assert f"{tmp_path / 'run-extended'} exists already" in capsys.readouterr().err


def test_an_extended_run_that_was_stopped_resumes(texts_run, tmp_path, monkeypatch):
    resume(texts_run, mode="quiet", epochs=4, out=tmp_path / "longer")
    step = Trainer._step

    def stopping(self, micro_batches):
        step(self, micro_batches)
        self._stop_signal = 2 * (self.progress.step == 40)  # in the middle of the fourth epoch

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", stopping)
        with pytest.raises(TrainingInterrupt):
            resume(texts_run, mode="quiet", epochs=4, out=tmp_path / "extended")
    resume(tmp_path / "extended", mode="quiet")
    assert read_epochs(tmp_path / "extended") == read_epochs(tmp_path / "longer")
    assert toys.weights(tmp_path / "extended") == toys.weights(tmp_path / "longer")


def test_a_run_whose_patience_ran_out_is_not_extended(texts, tmp_path):
    overrides = ("--train.epochs", "9", "--train.patience", "1", "--train.learning_rate", "0.3")
    train_recipe(toys.texts_recipe(texts, *overrides), tmp_path / "run", mode="quiet")
    assert len(read_epochs(tmp_path / "run")) < 10  # with the test's record
    with pytest.raises(UserError, match="no improvement for 1 epochs"):
        resume(tmp_path / "run", mode="quiet", epochs=20, out=tmp_path / "extended")
    assert not (tmp_path / "extended").exists()


def test_foreign_and_corrupt_checkpoints_are_not_extended(two_runs, run, tmp_path):
    newest = toys.newest_checkpoint(run)
    shutil.rmtree(newest)
    shutil.copytree(two_runs / "other" / "checkpoints" / newest.name, newest)
    with pytest.raises(UserError, match="belongs to another run"):
        resume(run, mode="quiet", epochs=4, out=tmp_path / "extended")
    (newest / "state.json").write_text("{}")
    with pytest.raises(UserError, match=r"state\.json"):
        resume(run, mode="quiet", epochs=4, out=tmp_path / "extended")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint to continue from"):
        resume(run, mode="quiet", epochs=4, out=tmp_path / "extended")
    assert not (tmp_path / "extended").exists()


def test_repeating_an_extended_run_notes_its_schedule(texts_run, tmp_path, capsys):
    resume(texts_run, mode="quiet", epochs=4, out=tmp_path / "extended")
    repeat = ["train", "--repeat", str(tmp_path / "extended"), "--out", str(tmp_path / "again")]
    assert main([*repeat, "--quiet"]) == 0
    note = "it was extended from step 33 of a training for 3 epochs"
    assert note in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "3"], "has 3 epochs already: more are needed"),
        (["--out", "run-elsewhere"], "--out needs --epochs N"),
    ],
)
def test_invalid_extensions_are_refused(run, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["resume", str(run), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir() if "run" in p.name] == ["run"]


@pytest.mark.parametrize("average", ["none", "ema"])
def test_weights_of_an_epoch_without_checkpoint_are_not_extended(
    texts, tmp_path, monkeypatch, average
):
    """A run that was killed between writing weights and checkpoint has such weights."""
    run, extended = tmp_path / "run", tmp_path / "extended"
    overrides = ["--train.epochs", "2", "--train.average", average]
    train_recipe(toys.texts_recipe(texts, *overrides), run, mode="quiet")
    best = read_tensors(run / "model.safetensors")
    run_id = table_checksum(read_json(run / "environment.json")["files"])
    zeros = {name: torch.zeros_like(t) for name, t in best.items()}
    write_tensors(run / "model.safetensors", zeros, run_id)
    monkeypatch.setattr(Trainer, "_is_better", lambda *_: False)
    resume(run, mode="quiet", epochs=3, out=extended)
    found = read_tensors(extended / "model.safetensors")
    assert all(torch.equal(found[name], best[name]) for name in best)
