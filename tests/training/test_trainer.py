"""The training loop: schedule, resuming to the same weights, signals, memory."""

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch
import toys
from faults import at_step, check_resumes, fault_before

from workings.cli import main
from workings.errors import UserError
from workings.recipes import parse_classifier_config
from workings.tasks import classification
from workings.tasks.classification import Classification
from workings.tasks.translation import Translation
from workings.training import report
from workings.training import trainer as trainer_module
from workings.training.logging import Log
from workings.training.optimizers import learning_rate_at
from workings.training.runs import resume, train_recipe
from workings.training.trainer import Trainer, TrainingInterrupt, keep_freed_memory


def stop_at(patch, step):
    """Stop trainings as by a signal, after so many steps."""
    original = Trainer._step

    def stopping(self, micro_batches):
        original(self, micro_batches)
        self._stop_signal = 2 * (self.progress.step == step)

    patch.setattr(Trainer, "_step", stopping)


def check_resumes_exactly(recipe, folder, step):
    """A stopped and resumed training ends with the weights and log of an uninterrupted one."""
    train_recipe(recipe, folder / "uninterrupted", mode="quiet")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, step)
        with pytest.raises(TrainingInterrupt):
            train_recipe(recipe, folder / "stopped", mode="quiet")
    resume(folder / "stopped", mode="quiet")
    assert toys.weights(folder / "uninterrupted") == toys.weights(folder / "stopped")
    assert toys.log_without_times(folder / "uninterrupted") == toys.log_without_times(
        folder / "stopped"
    )


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return toys.write_corpus(tmp_path / "text.txt")


# -- the schedule ----------------------------------------------------------------------------------


class DroppingBatches(Classification):
    """Texts whose epochs differ in length: 11, 10, 9, … batches."""

    def batches(self, epoch):
        return super().batches(epoch)[epoch:]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_schedule_fits_epochs_of_different_lengths(texts, tmp_path, monkeypatch, accumulate):
    overrides = ("--train.schedule", "linear", "--train.warmup", "0.1")
    recipe = toys.texts_recipe(texts, *overrides, "--train.accumulate", str(accumulate))
    rates, total_steps = [], []

    def record(step, steps, config):
        rates.append(learning_rate_at(step, steps, config))
        return rates[-1]

    monkeypatch.setattr(trainer_module, "learning_rate_at", record)
    monkeypatch.setattr(Log, "log_step", lambda _self, _progress, steps: total_steps.append(steps))
    task = DroppingBatches.from_recipe(recipe)
    log = Log(None, "quiet")
    Trainer(task, recipe.train, tmp_path, log, recipe.seed, task.local_group).train()
    lengths = [-(-len(task.batches(epoch)) // accumulate) for epoch in range(3)]
    assert len(set(lengths)) > 1
    assert len(rates) == len(total_steps) == sum(lengths)
    assert total_steps[-1] == sum(lengths)
    # Each epoch is a third of the schedule, whatever its length; the last step is right before 0.
    starts = [sum(lengths[:k]) for k in range(3)]
    for epoch, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        for k in range(length):
            expected = learning_rate_at(epoch * length + k, 3 * length, recipe.train)
            assert rates[start + k] == expected
    assert 0 < rates[-1] < recipe.train.learning_rate / lengths[-1]


def test_number_of_batches_of_translations_differs_between_epochs(few_pairs):
    """BPE-dropout is where epochs differ in practice."""
    overrides = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "270")
    overrides += ("--tokenizer.dropout", "0.3", "--train.batch_size", "60")
    recipe = toys.pairs_recipe(few_pairs, *overrides)
    task = Translation.from_recipe(recipe)
    assert len({len(task.batches(epoch)) for epoch in range(6)}) > 1


# -- resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_resume_continues_with_the_same_weights(texts, tmp_path, average):
    recipe = toys.texts_recipe(texts, "--train.average", average)
    check_resumes_exactly(recipe, tmp_path, step=14)  # in the middle of the second epoch


@pytest.mark.parametrize(
    ("cell", "overrides"),
    [
        (None, ()),
        (None, ("--train.optimizer", "muon")),
        ("lstm", ("--data.stateful", "true")),
        ("gru", ("--scheduled_sampling.rate", "0.5")),
    ],
)
def test_resume_continues_language_models_with_the_same_weights(corpus, tmp_path, cell, overrides):
    if cell is None:
        recipe = toys.corpus_recipe(corpus, "--train.epochs", "2", *overrides)
    else:
        recipe = toys.recurrent_recipe(corpus, "--train.epochs", "2", *overrides, cell=cell)
    check_resumes_exactly(recipe, tmp_path, step=17)  # in the middle of the second epoch


def test_resume_continues_captioners_with_the_same_weights(squares, tmp_path):
    overrides = ("--train.epochs", "2", "--data.augment", "true", "--model.dropout", "0.1")
    check_resumes_exactly(toys.squares_recipe(squares, *overrides), tmp_path, step=11)


def test_resume_continues_in_the_middle_of_an_epoch_with_its_bpe_dropout(few_pairs, tmp_path):
    overrides = ("--tokenizer.kind", "byte-pair", "--tokenizer.vocab_size", "270")
    overrides += ("--tokenizer.dropout", "0.3", "--train.epochs", "2")
    check_resumes_exactly(toys.pairs_recipe(few_pairs, *overrides), tmp_path, step=13)


def test_equal_metrics_are_compared_by_the_loss(texts_run):
    epochs = [r for r in toys.log_without_times(texts_run) if r["kind"] == "epoch"]
    best = max(epochs, key=lambda r: (r["validation_accuracy"], -r["validation_loss"]))
    assert toys.result(texts_run)["best_epoch"] == best["epoch"]


def test_without_validation_data_the_last_weights_are_saved(few_pairs, tmp_path):
    recipe = toys.pairs_recipe(few_pairs, "--data.validation", "0", "--train.epochs", "3")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert toys.result(tmp_path / "run")["best_epoch"] == 3


def test_bfloat16_learns_where_the_device_supports_it(texts, tmp_path):
    recipe = toys.texts_recipe(texts, "--train.precision", "bfloat16")
    if not torch.cpu._is_avx512_bf16_supported():
        with pytest.raises(UserError, match="float32"):
            train_recipe(recipe, tmp_path / "run", mode="quiet")
        return
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert toys.result(tmp_path / "run")["test_accuracy"] > 0.9


@pytest.mark.slow  # compiling takes half a minute
def test_a_compiled_model_learns_the_same(texts, tmp_path):
    recipe = toys.texts_recipe(texts, "--model.dropout", "0", "--train.epochs", "1")
    small = parse_classifier_config({"kind": "transformer", "size": "small"})
    recipe = replace(recipe, model=small)
    plain = train_recipe(recipe, tmp_path / "plain", mode="quiet")
    recipe = replace(recipe, train=replace(recipe.train, compile=True))
    compiled = train_recipe(recipe, tmp_path / "compiled", mode="quiet")
    texts = ["iron tin", "fig"]
    torch.testing.assert_close(compiled.predict(texts), plain.predict(texts), atol=1e-3, rtol=1e-3)


# -- signals ---------------------------------------------------------------------------------------


def send(number):
    """Return a fault that sends a signal to this process."""
    return lambda _trainer: os.kill(os.getpid(), number)


needs_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")


@pytest.mark.parametrize(
    ("name", "status"), [("SIGTERM", 143), pytest.param("SIGHUP", 129, marks=needs_posix)]
)
def test_a_signal_stops_after_the_current_step(
    recipe, reference, tmp_path, capsys, monkeypatch, name, status
):
    run = tmp_path / "run"
    with fault_before(monkeypatch, Trainer, "_step", send(signal.Signals[name]), at_step(11)):
        assert main(["train", recipe, "--out", str(run)]) == status
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line == f"stopped; continue with: workings resume {run}"
    assert (run / "checkpoints" / "step-11").is_dir()
    check_resumes(run, reference)


def record_saved_steps(patch):
    saved, save = [], Trainer.save

    def recording(self):
        saved.append(self.progress.step)
        save(self)

    patch.setattr(Trainer, "save", recording)
    return saved


@needs_posix
def test_sigusr1_saves_and_goes_on(recipe, reference, tmp_path, monkeypatch):
    saved, run = record_saved_steps(monkeypatch), tmp_path / "run"
    with fault_before(monkeypatch, Trainer, "_step", send(signal.SIGUSR1), at_step(11)):
        assert main(["train", recipe, "--out", str(run), "--quiet"]) == 0
    assert saved == [3, 6, 7, 9, 11, 12, 14, 15, 18, 21, 24, 27, 28]
    assert toys.weights(run) == toys.weights(reference / "run")


@needs_posix
def test_sigusr1_before_the_first_step_and_after_the_last_is_ignored(recipe, tmp_path, monkeypatch):
    run, keys = tmp_path / "run", ["--train.epochs", "1"]
    before = signal.getsignal(signal.SIGUSR1)
    early = fault_before(monkeypatch, Trainer, "__init__", send(signal.SIGUSR1))
    late = fault_before(monkeypatch, report, "write_report", send(signal.SIGUSR1))
    with early, late:
        assert main(["train", recipe, "--out", str(run), "--quiet", *keys]) == 0
    assert (run / "report.html").exists()
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_training_in_a_thread_leaves_signals_alone(recipe, tmp_path):
    """Only the main thread receives them."""
    run, statuses = tmp_path / "run", []
    command = ["train", recipe, "--out", str(run), "--quiet", "--train.epochs", "1"]
    thread = threading.Thread(target=lambda: statuses.append(main(command)))
    thread.start()
    thread.join()
    assert statuses == [0]


@needs_posix
def test_sighup_is_ignored_under_nohup(recipe, reference, tmp_path, monkeypatch):
    run, before = tmp_path / "run", signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with fault_before(monkeypatch, Trainer, "_step", send(signal.SIGHUP), at_step(11)):
            assert main(["train", recipe, "--out", str(run), "--quiet"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert toys.weights(run) == toys.weights(reference / "run")


def test_without_save_every_checkpoints_are_saved_by_time(recipe, reference, tmp_path, monkeypatch):
    clock = iter(range(10**6))  # each look at it is a second later
    monkeypatch.setattr(trainer_module.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(trainer_module, "SAVE_SECONDS", 3)
    saved, run = record_saved_steps(monkeypatch), tmp_path / "run"
    keys = ["--train.save_every", "none", "--train.epochs", "1"]
    assert main(["train", recipe, "--out", str(run), "--quiet", *keys]) == 0
    assert saved == [3, 6, 7]


def test_a_training_outlives_its_terminal(tmp_path):
    """As after `disown`: the terminal is gone, and SIGHUP does not arrive."""
    controller, terminal = pytest.importorskip("pty").openpty()
    with os.fdopen(terminal, "w") as stream:
        log = Log(tmp_path / "log.jsonl", stream=stream)
        os.close(controller)
        log.info("an epoch is over")
        log.info("another one, too")
        log.close()


def test_a_signal_during_the_last_evaluation_stops_before_the_test(texts, tmp_path, monkeypatch):
    recipe, evaluate = toys.texts_recipe(texts, "--train.epochs", "1"), Classification.evaluate

    def interrupted(self, process_group):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, process_group)

    with monkeypatch.context() as patch:
        patch.setattr(Classification, "evaluate", interrupted)
        with pytest.raises(TrainingInterrupt):
            train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert not (tmp_path / "run" / "result.json").exists()
    assert resume(tmp_path / "run", mode="quiet").data_info["train"]
    assert (tmp_path / "run" / "result.json").exists()


def test_a_signal_during_an_evaluation_stops_it_after_a_batch(texts, tmp_path, monkeypatch):
    overrides = ("--train.average", "last", "--train.average_last", "2", "--train.epochs", "3")
    recipe = toys.texts_recipe(texts, *overrides)
    train_recipe(recipe, tmp_path / "uninterrupted", mode="quiet")
    monkeypatch.setattr(classification, "EVAL_BATCH_SIZE", 2)
    batches, forward = [], Classification._collate

    def interrupted(self, split, batch, device):
        if split == "validation":
            batches.append(batch)
            if len(batches) == 15:
                os.kill(os.getpid(), signal.SIGINT)
        return forward(self, split, batch, device)

    with monkeypatch.context() as patch:
        patch.setattr(Classification, "_collate", interrupted)
        with pytest.raises(TrainingInterrupt):
            train_recipe(recipe, tmp_path / "stopped", mode="quiet")
    assert len(batches) == 15
    monkeypatch.undo()
    resume(tmp_path / "stopped", mode="quiet")
    assert toys.weights(tmp_path / "uninterrupted") == toys.weights(tmp_path / "stopped")


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_exit_status_of_a_process_that_is_stopped(recipe, tmp_path, number, status):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "workings", "train", recipe, "--out", str(run)]
    process = subprocess.Popen(
        [*command, "--train.epochs", "100000"], stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not (run / "checkpoints").is_dir() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == status
    assert f"workings resume {run}" in printed
    assert "Traceback" not in printed
    assert any((run / "checkpoints").iterdir())


# -- memory ----------------------------------------------------------------------------------------


PAGE_FAULTS = """
import resource
import numpy as np
from workings.training.trainer import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(2**26, dtype=np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), faults(), faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_freed_memory_is_kept():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    command = [sys.executable, "-c", PAGE_FAULTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    is_kept, first, second = done.stdout.split()
    assert is_kept == "True"
    assert int(second) < int(first) / 10


def test_settings_of_the_allocator_are_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert not keep_freed_memory()
