"""Faults of memory, numbers and processes, injected for real: one line each, and mended."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from faulty import at_step, before, expect_nothing_half_written, expect_to_go_on, run_and_read_error

from workings.cli import main
from workings.config import build
from workings.recipes import ClassificationRecipe
from workings.storage import read_tensors
from workings.training.runs import train_recipe
from workings.training.trainer import Trainer

resource = pytest.importorskip("resource", reason="only Unix limits what a process may take")


# -- memory ----------------------------------------------------------------------------------------


GREEDY = """
import resource, sys
from pathlib import Path
import workings.training.runs
from workings.cli import main
have = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (have + 400 * 2**20,) * 2)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory so")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ["--model.d_ff", "4096", "--train.batch_size", "200"],
            "out of memory at step 1 with a batch of 160 texts, the longest of 512 tokens: "
            "a smaller train.batch_size",
        ),
        (
            ["--model.d_model", "65536", "--model.d_ff", "65536"],
            "model: cannot be built with these settings",
        ),
    ],
)
def test_out_of_memory(tmp_path, changes, said):
    words = {"fruit": "fig pear plum ", "metal": "tin iron lead "}
    lines = [
        json.dumps({"text": words[label] * (200 + i), "label": label})
        for i in range(100)
        for label in words
    ]
    (tmp_path / "long.jsonl").write_text("\n".join(lines))
    (tmp_path / "long.toml").write_text(
        f'[data]\nset = "{tmp_path / "long.jsonl"}"\n[model]\nkind = "transformer"\nlayers = 1\n'
    )
    arguments = ["train", str(tmp_path / "long.toml"), "--out", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", GREEDY, *arguments, "--threads", "1", *changes],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    expect_nothing_half_written(tmp_path / "run")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory so")
def test_out_of_memory_in_measuring(tmp_path):
    for name, length in (("short", 1), ("long", 200)):
        lines = [
            json.dumps({"text": f"{words * length}{i}", "label": label})
            for i in range(40)
            for label, words in (("fruit", "fig pear plum "), ("metal", "tin iron lead "))
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    model = {"kind": "transformer", "layers": 1, "d_ff": 8192}
    table = {"data": {"set": str(tmp_path / "short.jsonl")}, "model": model, "train": {"epochs": 1}}
    train_recipe(build(ClassificationRecipe, table), tmp_path / "run", mode="quiet")
    arguments = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "long.jsonl")]
    done = subprocess.run(
        [sys.executable, "-c", GREEDY, *arguments, "--threads", "1"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "out of memory while evaluating a batch of 80 texts, the longest of 512 tokens" in line
    assert "need less" in line


# -- numbers ---------------------------------------------------------------------------------------


@torch.no_grad()
def poison(trainer):
    trainer.task.model.head.weight[0, 0] = math.nan


def test_a_weight_that_is_no_number(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    with before(monkeypatch, Trainer, "_step", poison, at_step(14)):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert (
        "the loss is nan at step 14: the weight head.weight was NaN or infinite before this step"
        in line
    )
    assert "try a lower train.learning_rate" in line
    assert f"the last checkpoint with finite weights is {run / 'checkpoints' / 'step-12'}" in line
    expect_to_go_on(run, place)


def test_a_layer_that_makes_no_numbers(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def spoil(trainer):
        def no_numbers(_module, _inputs, output):
            return (output[0] * math.inf, *output[1:])

        trainer.task.model.recurrent.register_forward_hook(no_numbers)

    with before(monkeypatch, Trainer, "_step", spoil, at_step(10)):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert "the loss is nan at step 10: it began in layer recurrent" in line
    assert "the last checkpoint with finite weights is" in line
    assert "step-9" in line
    expect_to_go_on(run, place)


def test_a_poisoned_checkpoint_is_not_called_good(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def when(trainer):
        return trainer.progress.step == 9

    with before(monkeypatch, Trainer, "save", poison, when):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert "at step 10" in line
    assert f"the last checkpoint with finite weights is {run / 'checkpoints' / 'step-7'}" in line
    assert (run / "checkpoints" / "step-9").is_dir()
    expect_to_go_on(run, place)


def test_weights_that_end_as_no_numbers_are_not_kept(recipe, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    with before(monkeypatch, Trainer, "_finish_epoch", poison, lambda t: t.progress.epoch == 3):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert "the weight head.weight is NaN or infinite after step 28" in line
    assert all(t.isfinite().all() for t in read_tensors(run / "model.safetensors").values())


@pytest.mark.parametrize("rate", ["1e3", "1e38"])
def test_a_loss_that_explodes(recipe, tmp_path, capsys, rate):
    changes = [
        "--train.learning_rate",
        rate,
        "--train.clip_norm",
        "none",
        "--train.optimizer",
        "sgd",
    ]
    line = run_and_read_error(capsys, "train", recipe, "--out", tmp_path / "run", *changes)
    assert "the loss is" in line
    assert "at step" in line
    assert "try a lower train.learning_rate" in line
    assert "checkpoint" in line
    if "the loss is inf" not in line:  # what it was, and not once it had exploded
        assert float(line.partition("after ")[2].split(" in the first steps")[0]) < 1


# -- other processes -------------------------------------------------------------------------------


def test_a_scheduler_stops_it(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def terminate(_trainer):
        os.kill(os.getpid(), signal.SIGTERM)

    with before(monkeypatch, Trainer, "_step", terminate, at_step(11)):
        assert main(["train", recipe, "--out", str(run)]) == 143
    told_last = capsys.readouterr().err.splitlines()[-1]
    assert told_last == f"stopped; continue with: workings resume {run}"
    assert (run / "checkpoints" / "step-11").is_dir()
    expect_to_go_on(run, place)


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


HANGING = """
import sys, time
from pathlib import Path
from workings.cli import main
from workings.training.trainer import Trainer
from workings.training.runs import train

step = Trainer._step

def hanging(self, group):
    if self.progress.step == 13:
        self.checkpoints.wait()
        Path(sys.argv[1]).touch()
        time.sleep(600)
    step(self, group)

Trainer._step = hanging
main(sys.argv[2:])
"""


def test_one_process_at_a_time(recipe, place, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = [tmp_path / "hangs", "train", recipe, "--out", run, "--quiet"]
    other = subprocess.Popen([sys.executable, "-c", HANGING, *map(str, arguments)])
    try:
        wait_for((tmp_path / "hangs").exists)
        assert f"{run}: another process is training here" in run_and_read_error(
            capsys, "resume", run
        )
        assert f"workings resume {run}" in run_and_read_error(capsys, "train", recipe, "--out", run)
        assert main(["predict", str(run), "fig"]) == 0  # which may look on
        capsys.readouterr()
    finally:
        other.kill()
        other.wait()
    expect_to_go_on(run, place)


@pytest.mark.slow  # as slow as it is to start Python
def test_the_exit_status_of_a_stopped_process(recipe, tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "workings", "train", recipe, "--out", str(run)]
    process = subprocess.Popen(
        [*command, "--train.epochs", "100000"], stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: (run / "checkpoints").is_dir())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 143
    assert f"workings resume {run}" in said
    assert "Traceback" not in said
    assert any((run / "checkpoints").iterdir())
