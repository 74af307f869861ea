"""Faults of memory, numbers and disks: an error of one line, and a run that can be resumed."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
import toys
from faults import at_step, check_no_partial_files, check_resumes, error_line, fault_before

from workings.cli import main
from workings.errors import UserError
from workings.recipes import build_recipe
from workings.storage import read_tensors
from workings.tasks.captioning import Captioning
from workings.training.checkpoints import Checkpoints
from workings.training.errors import check_trainable
from workings.training.logging import Log
from workings.training.runs import train_recipe
from workings.training.trainer import Trainer

resource = pytest.importorskip("resource", reason="only Unix limits the memory of a process")
NOBODY = 65534


def test_metrics_that_need_the_full_model_are_refused_with_fsdp(squares):
    overrides = ("--train.metric", "exact", "--train.parallelism", "fsdp")
    recipe = toys.squares_recipe(squares, *overrides)
    task, device = Captioning.from_recipe(recipe), torch.device("cpu")
    check_trainable(task, recipe.train, device)
    with pytest.raises(UserError, match=r"train\.parallelism = 'ddp'"):
        check_trainable(task, recipe.train, device, distributed=True)


# -- memory ----------------------------------------------------------------------------------------


WITH_LITTLE_MEMORY = """
import json, resource, sys
from pathlib import Path
import workings.training.report, workings.training.runs
from workings.cli import main
commands = json.loads(sys.argv[1])
have = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (have + 400 * 2**20,) * 2)
print([main([*command, "--threads", "1"]) for command in commands])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits address space this way")
def test_out_of_memory(tmp_path):
    for name, length in (("short", 1), ("long", 200)):
        lines = [
            json.dumps({"text": f"{words * length}{i}", "label": label})
            for i in range(100)
            for label, words in (("fruit", "fig pear plum "), ("metal", "tin iron lead "))
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    model = {"kind": "transformer", "layers": 1, "d_ff": 4096}
    data = {"set": str(tmp_path / "short.jsonl")}
    recipe = build_recipe({"data": data, "model": model, "train": {"epochs": 1}})
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    (tmp_path / "long.toml").write_text(
        f'[data]\nset = "{tmp_path / "long.jsonl"}"\n'
        '[model]\nkind = "transformer"\nlayers = 1\nd_ff = 4096\n[train]\nbatch_size = 200\n'
    )
    training = ["train", str(tmp_path / "long.toml"), "--quiet", "--out"]
    commands = [
        ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "long.jsonl")],
        [*training, str(tmp_path / "step")],
        [*training, str(tmp_path / "model"), "--model.d_model", "65536", "--model.d_ff", "65536"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITH_LITTLE_MEMORY, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "[2, 2, 2]\n", done.stderr
    in_evaluation, in_step, in_model = done.stderr.splitlines()
    assert (
        "out of memory at step 1 with a batch of 160 texts, the longest of 512 tokens: "
        "a smaller train.batch_size" in in_step
    )
    assert "model: cannot be built with these settings" in in_model
    assert "out of memory while evaluating a batch of 128 texts" in in_evaluation
    assert "need less" in in_evaluation
    check_no_partial_files(tmp_path / "step")


# -- numbers ---------------------------------------------------------------------------------------


@torch.no_grad()
def set_a_weight_to_nan(trainer):
    trainer.task.model.head.weight[0, 0] = math.nan


def test_a_weight_that_is_nan(recipe, reference, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    with fault_before(monkeypatch, Trainer, "_step", set_a_weight_to_nan, at_step(14)):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert "the loss is nan at step 14: the weight head.weight was NaN or infinite before" in line
    assert "try a lower train.learning_rate" in line
    last = run / "checkpoints" / "step-12"
    assert f"the last checkpoint with finite weights is {last}" in line
    check_resumes(run, reference)


def test_a_layer_whose_output_is_infinite(recipe, reference, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def make_output_infinite(trainer):
        def hook(_module, _inputs, output):
            return (output[0] * math.inf, *output[1:])

        trainer.task.model.recurrent.register_forward_hook(hook)

    with fault_before(monkeypatch, Trainer, "_step", make_output_infinite, at_step(10)):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert "the loss is nan at step 10: it began in layer recurrent" in line
    assert "the last checkpoint with finite weights is" in line
    assert "step-9" in line
    check_resumes(run, reference)


def test_a_checkpoint_with_nan_is_not_suggested(recipe, reference, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def is_step_nine(trainer):
        return trainer.progress.step == 9

    with fault_before(monkeypatch, Trainer, "save", set_a_weight_to_nan, is_step_nine):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert "at step 10" in line
    assert f"the last checkpoint with finite weights is {run / 'checkpoints' / 'step-7'}" in line
    assert (run / "checkpoints" / "step-9").is_dir()
    check_resumes(run, reference)


def test_weights_that_are_nan_after_the_last_step_are_not_saved(
    recipe, tmp_path, capsys, monkeypatch
):
    run = tmp_path / "run"

    def is_last_epoch(trainer):
        return trainer.progress.epoch == 3

    with fault_before(monkeypatch, Trainer, "_finish_epoch", set_a_weight_to_nan, is_last_epoch):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert "the weight head.weight is NaN or infinite after step 28" in line
    assert all(t.isfinite().all() for t in read_tensors(run / "model.safetensors").values())


@pytest.mark.parametrize("rate", ["1e3", "1e38"])
def test_a_loss_that_diverges(recipe, tmp_path, capsys, rate):
    overrides = ["--train.clip_norm", "none", "--train.optimizer", "sgd"]
    overrides += ["--train.learning_rate", rate]
    line = error_line(capsys, "train", recipe, "--out", tmp_path / "run", *overrides)
    assert "the loss is" in line
    assert "at step" in line
    assert "try a lower train.learning_rate" in line
    assert "checkpoint" in line
    if "the loss is inf" not in line:  # the initial loss is the lowest of the first steps
        assert float(line.partition("after ")[2].split(" in the first steps")[0]) < 1


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_not_finite(recipe, reference, tmp_path, capsys, monkeypatch, value):
    run = tmp_path / "run"

    def spoil_evaluation(trainer):
        evaluate = trainer.task.evaluate
        monkeypatch.setattr(
            trainer.task,
            "evaluate",
            lambda group: evaluate(group) | {"validation_accuracy": value},
        )

    with fault_before(monkeypatch, Trainer, "_step", spoil_evaluation, at_step(8)):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert f"the validation accuracy is {value} after step 14" in line
    assert f"finite weights is {run / 'checkpoints' / 'step-12'}" in line
    check_resumes(run, reference)


# -- disks -----------------------------------------------------------------------------------------


class Disk:
    """A small file system of its own."""

    def __init__(self, folder, megabytes=8):
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "workings", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")

    def fill(self, *_):
        with (self.folder / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self):
        (self.folder / "ballast").unlink()

    def remount(self, option):
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path):
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    mounted = Disk(tmp_path / "disk")
    yield mounted
    subprocess.run(["umount", str(mounted.folder)], check=True)


@pytest.fixture
def synchronous_checkpoints(monkeypatch):
    """Wait for each checkpoint, so that a disk that is filled later cannot be full for it."""
    save = Checkpoints.save

    def save_and_wait(checkpoints, *arguments):
        save(checkpoints, *arguments)
        checkpoints.wait()

    monkeypatch.setattr(Checkpoints, "save", save_and_wait)


@pytest.mark.parametrize("number", [2, 3, 9])
def test_a_full_disk_while_a_checkpoint_is_written(
    recipe, reference, disk, capsys, monkeypatch, number
):
    run = disk.folder / "run"
    writes = []  # checkpoints are written at steps 3, 6, 7, 9, 12, 14, …

    def is_write_number(_checkpoints):
        writes.append(True)
        return len(writes) == number

    with fault_before(monkeypatch, Checkpoints, "_write", disk.fill, is_write_number):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert "the checkpoint could not be written" in line
    assert "No space left on device" in line
    assert f"free some space, then workings resume {run}" in line
    assert "the last complete checkpoint is step-" in line
    check_no_partial_files(run)
    disk.free()
    check_resumes(run, reference)


def test_a_full_disk_while_the_first_checkpoint_is_written(
    recipe, reference, disk, capsys, monkeypatch
):
    with fault_before(monkeypatch, Checkpoints, "_write", disk.fill):
        line = error_line(capsys, "train", recipe, "--out", disk.folder / "run")
    assert "there is no earlier checkpoint" in line
    disk.free()
    check_resumes(disk.folder / "run", reference)


@pytest.mark.usefixtures("synchronous_checkpoints")
def test_a_full_disk_while_the_log_is_written(recipe, reference, disk, capsys, monkeypatch):
    run = disk.folder / "run"
    with fault_before(monkeypatch, Log, "log_epoch", disk.fill):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert f"{run / 'log.jsonl'}: No space left on device: free some space" in line
    check_no_partial_files(run)
    disk.free()
    check_resumes(run, reference)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("workings.training.trainer.write_tensors", "model.safetensors"),
        ("workings.training.runs.write_text", "config.toml"),
        ("workings.training.report.write_report", "report.html"),
    ],
)
@pytest.mark.usefixtures("synchronous_checkpoints")
def test_a_full_disk_while_another_file_is_written(
    recipe, reference, disk, capsys, monkeypatch, function, name
):
    run = disk.folder / "run"
    module, _, attribute = function.rpartition(".")
    original = getattr(sys.modules[module], attribute)

    def on_a_full_disk(*arguments):
        disk.fill()
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(function, on_a_full_disk)
        line = error_line(capsys, "train", recipe, "--out", run)
    assert f"{run / name}: No space left on device: free some space" in line
    disk.free()
    if name == "config.toml":  # nothing has begun: the same command works again
        assert not (run / "config.toml").exists()
        assert main(["train", recipe, "--out", str(run), "--quiet"]) == 0
    check_resumes(run, reference)


def test_a_limit_on_the_size_of_files(recipe, reference, tmp_path, capsys):
    """Like a full disk, where no file system can be mounted."""
    run = tmp_path / "run"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        line = error_line(capsys, "train", recipe, "--out", run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in line
    assert f"workings resume {run}" in line
    check_no_partial_files(run)
    check_resumes(run, reference)


def test_a_read_only_file_system(recipe, reference, disk, capsys):
    run = disk.folder / "run"
    shutil.copytree(reference / "run", run)
    disk.remount("ro")
    line = error_line(capsys, "train", recipe, "--out", disk.folder / "new")
    assert f"{disk.folder / 'new'}: Read-only file system" in line
    assert "another --out" in line
    assert "Read-only file system" in error_line(capsys, "resume", run)
    assert main(["predict", str(run), "fig pear"]) == 0  # writes nothing
    assert json.loads(capsys.readouterr().out)["label"] == "fruit"
    disk.remount("rw")
    check_resumes(run, reference)


@contextmanager
def folder_without_permission(reference):
    """Root becomes another user for a while; others make the folder read-only."""
    folder = Path(tempfile.mkdtemp(prefix="workings-"))
    (folder / "inside").mkdir()
    for name in ("recipe.toml", "texts.jsonl"):
        shutil.copy(reference / name, folder)
    text = (folder / "recipe.toml").read_text().replace(str(reference), str(folder))
    (folder / "recipe.toml").write_text(text)
    try:
        if os.geteuid():
            (folder / "inside").chmod(0o555)
        else:
            folder.chmod(0o755)
            os.seteuid(NOBODY)
        yield folder
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        (folder / "inside").chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no users")
def test_permission_denied(reference, capsys):
    with folder_without_permission(reference) as folder:
        run = folder / "inside" / "run"
        line = error_line(capsys, "train", folder / "recipe.toml", "--out", run)
    assert f"{run}: Permission denied" in line
    assert "another --out" in line


@pytest.mark.parametrize("step", [2, 8])
def test_a_folder_that_is_moved_away(recipe, reference, tmp_path, capsys, monkeypatch, step):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def move_away(_trainer):
        run.rename(elsewhere)

    with fault_before(monkeypatch, Trainer, "_step", move_away, at_step(step)):
        line = error_line(capsys, "train", recipe, "--out", run)
    assert f"{run}: the run's folder was moved or removed" in line
    assert not run.exists()  # it is not created again
    elsewhere.rename(run)
    check_resumes(run, reference)
