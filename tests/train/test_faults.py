"""Faults, injected for real: each ends in one line that says what would help, and is mended."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from workings.cli import main
from workings.config import build
from workings.recipes import ClassifyRecipe
from workings.storage import read_tensors
from workings.train.checkpoints import Checkpoints
from workings.train.log import Log, read_log
from workings.train.loop import Trainer
from workings.train.runs import train

resource = pytest.importorskip("resource", reason="only Unix limits what a process may take")
NOBODY = 65534


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A recipe of 28 steps in four epochs, and where it ends undisturbed."""
    folder = tmp_path_factory.mktemp("faults")
    words = {"fruit": ["fig", "pear", "plum", "grape"], "metal": ["tin", "iron", "lead", "zinc"]}
    lines = [
        json.dumps({"text": f"{a} {b} {c}", "label": label})
        for label, some in words.items()
        for a in some for b in some for c in some[:2]
    ]  # fmt: skip
    (folder / "toy.jsonl").write_text("\n".join(lines))
    (folder / "toy.toml").write_text(
        f'seed = 3\n[data]\nset = "{folder / "toy.jsonl"}"\n'
        '[model]\nkind = "recurrent"\nembedding = 64\nhidden = 64\ndropout = 0.2\n'
        '[train]\nepochs = 4\nbatch = 8\naverage = "ema"\nema = 0.9\nsave_every = 3\n'
    )
    assert main(["train", str(folder / "toy.toml"), "--out", str(folder / "whole"), "--quiet"]) == 0
    return folder


@pytest.fixture
def recipe(place):
    return str(place / "toy.toml")


def told(capsys, *arguments, status=2):
    """Run the command line: the one line that it ends with."""
    assert main([str(a) for a in (*arguments, "--quiet")]) == status
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("workings: ")
    return lines[0]


def expect_nothing_half_written(run):
    assert [p for p in run.rglob("*") if p.name.startswith(".") and p.name != ".lock"] == []


def expect_to_go_on(run, place):
    """The run is resumed, to the same weights and the same log as if nothing had happened."""
    assert main(["resume", str(run), "--quiet"]) == 0
    whole = place / "whole"
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    newest = "checkpoints/step-28/model.safetensors"
    assert (run / newest).read_bytes() == (whole / newest).read_bytes()
    logs = [
        [{k: v for k, v in r.items() if "seconds" not in k} for r in read_log(f / "log.jsonl")]
        for f in (run, whole)
    ]
    assert logs[0] == logs[1]
    assert [r["kind"] for r in logs[0]] == ["epoch"] * 4 + ["test"]
    expect_nothing_half_written(run)


@contextmanager
def before(monkeypatch, cls, method, fault, when=lambda _self: True):
    """Let something happen just before a method does its work, once."""
    original, done = getattr(cls, method), []

    def with_fault(self, *arguments, **options):
        if not done and when(self):
            done.append(True)
            fault(self)
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(cls, method, with_fault)
        yield
    assert done


def at_step(number):
    return lambda trainer: trainer.progress.step + 1 == number


# -- the disk --------------------------------------------------------------------------------------


class Disk:
    """A small file system of its own."""

    def __init__(self, folder, megabytes=8):
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "workings", str(folder)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"no file system may be mounted here: {made.stderr.strip()}")

    def fill(self, *_):
        with (self.folder / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self):
        (self.folder / "ballast").unlink()

    def remount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path):
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    made = Disk(tmp_path / "disk")
    yield made
    subprocess.run(["umount", str(made.folder)], check=True)


@pytest.mark.parametrize("step", [2, 3, 9])
def test_a_full_disk_during_a_checkpoint(recipe, place, disk, capsys, monkeypatch, step):
    run = disk.folder / "run"
    writes = []  # checkpoints are written at steps 3, 6, 7, 9, 12, 14, …

    def often_enough(_checkpoints):
        writes.append(True)
        return len(writes) == step

    with before(monkeypatch, Checkpoints, "_write", disk.fill, often_enough):
        line = told(capsys, "train", recipe, "--out", run)
    assert "the checkpoint could not be written" in line
    assert "No space left on device" in line
    assert f"make room, then workings resume {run}" in line
    assert "the last whole one is step-" in line
    expect_nothing_half_written(run)
    disk.free()
    expect_to_go_on(run, place)


def test_a_full_disk_during_the_first_checkpoint(recipe, place, disk, capsys, monkeypatch):
    with before(monkeypatch, Checkpoints, "_write", disk.fill):
        line = told(capsys, "train", recipe, "--out", disk.folder / "run")
    assert "there is none before it" in line
    disk.free()
    expect_to_go_on(disk.folder / "run", place)


def test_a_full_disk_during_the_log(recipe, place, disk, capsys, monkeypatch):
    run = disk.folder / "run"
    with before(monkeypatch, Log, "epoch", disk.fill):
        line = told(capsys, "train", recipe, "--out", run)
    assert f"{run / 'log.jsonl'}: No space left on device: make room" in line
    expect_nothing_half_written(run)
    disk.free()
    expect_to_go_on(run, place)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("workings.train.loop.write_tensors", "model.safetensors"),
        ("workings.train.runs.write_text", "config.toml"),
        ("workings.train.runs.write_report", "report.html"),
        ("workings.train.report.write_text", "report.html"),
    ],
)
def test_a_full_disk_during_anything_else(recipe, place, disk, capsys, monkeypatch, function, name):
    run = disk.folder / "run"
    module, _, attribute = function.rpartition(".")
    original = getattr(sys.modules[module], attribute)

    def on_a_full_disk(*arguments):
        disk.fill()
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(function, on_a_full_disk)
        line = told(capsys, "train", recipe, "--out", run)
    assert f"{run / name}: No space left on device: make room" in line
    disk.free()
    if name == "config.toml":  # nothing has begun: the same command once more
        assert not (run / "config.toml").exists()
        assert main(["train", recipe, "--out", str(run), "--quiet"]) == 0
    expect_to_go_on(run, place)


def test_files_that_may_not_grow(recipe, place, tmp_path, capsys):
    """The same, where no file system may be mounted: by a limit of the process."""
    run = tmp_path / "run"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        line = told(capsys, "train", recipe, "--out", run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in line
    assert f"workings resume {run}" in line
    expect_nothing_half_written(run)
    expect_to_go_on(run, place)


def test_a_record_that_fits_only_in_part(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = Log(tmp_path / "log.jsonl", "quiet")
    log.record(kind="first", x=1)
    position = log.position()
    resource.setrlimit(resource.RLIMIT_FSIZE, (position + 10, limits[1]))
    try:
        with pytest.raises(OSError, match=r"log\.jsonl"):
            log.record(kind="second", x=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [r["kind"] for r in read_log(tmp_path / "log.jsonl")] == ["first"]
    log.rewind(position)
    log.record(kind="third", x=3)
    log.close()
    assert [r["kind"] for r in read_log(tmp_path / "log.jsonl")] == ["first", "third"]


def test_a_file_system_that_can_only_be_read(recipe, place, disk, capsys):
    run = disk.folder / "run"
    shutil.copytree(place / "whole", run)
    disk.remount("ro")
    line = told(capsys, "train", recipe, "--out", disk.folder / "new")
    assert f"{disk.folder / 'new'}: Read-only file system" in line
    assert "another --out" in line
    assert "Read-only file system" in told(capsys, "resume", run)
    assert main(["predict", str(run), "fig pear"]) == 0  # which writes nothing
    assert json.loads(capsys.readouterr().out)["label"] == "fruit"
    disk.remount("rw")
    expect_to_go_on(run, place)


@contextmanager
def a_folder_that_is_shut(place):
    """As root, become somebody else for a while; else shut it for oneself."""
    folder = Path(tempfile.mkdtemp(prefix="workings-"))
    (folder / "inside").mkdir()
    for name in ("toy.toml", "toy.jsonl"):
        shutil.copy(place / name, folder)
    text = (folder / "toy.toml").read_text().replace(str(place), str(folder))
    (folder / "toy.toml").write_text(text)
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


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="no users here")
def test_permission_denied(place, capsys):
    with a_folder_that_is_shut(place) as folder:
        line = told(capsys, "train", folder / "toy.toml", "--out", folder / "inside" / "run")
    assert f"{folder / 'inside' / 'run'}: Permission denied" in line
    assert "another --out" in line


@pytest.mark.parametrize("step", [2, 8])
def test_a_folder_that_vanishes(recipe, place, tmp_path, capsys, monkeypatch, step):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def move_away(_trainer):
        run.rename(elsewhere)

    with before(monkeypatch, Trainer, "_step", move_away, at_step(step)):
        line = told(capsys, "train", recipe, "--out", run)
    assert f"{run}: the run's folder is gone: moved, or removed?" in line
    assert not run.exists()  # and nothing has made it again
    elsewhere.rename(run)
    expect_to_go_on(run, place)


# -- memory ----------------------------------------------------------------------------------------


GREEDY = """
import resource, sys
from pathlib import Path
import workings.train.runs
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
            ["--model.hidden", "4096", "--train.batch", "200"],
            "out of memory at step 1 with a batch of 160 texts, the longest of 512 tokens: "
            "a smaller train.batch",
        ),
        (
            ["--model.embedding", "65536", "--model.hidden", "65536"],
            "model: it cannot be made like this",
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
    model = {"kind": "transformer", "layers": 1, "hidden": 8192}
    table = {"data": {"set": str(tmp_path / "short.jsonl")}, "model": model, "train": {"epochs": 1}}
    train(build(ClassifyRecipe, table), tmp_path / "run", mode="quiet")
    arguments = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "long.jsonl")]
    done = subprocess.run(
        [sys.executable, "-c", GREEDY, *arguments, "--threads", "1"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "out of memory in measuring on a batch of 80 texts, the longest of 512 tokens" in line
    assert "need less" in line


# -- numbers ---------------------------------------------------------------------------------------


@torch.no_grad()
def poison(trainer):
    trainer.task.model.head.weight[0, 0] = math.nan


def test_a_weight_that_is_no_number(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    with before(monkeypatch, Trainer, "_step", poison, at_step(14)):
        line = told(capsys, "train", recipe, "--out", run)
    assert "the loss is nan at step 14: the weights head.weight were no numbers" in line
    assert "try a lower train.rate" in line
    assert f"the last good checkpoint is {run / 'checkpoints' / 'step-12'}" in line
    expect_to_go_on(run, place)


def test_a_layer_that_makes_no_numbers(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def spoil(trainer):
        def no_numbers(_module, _inputs, output):
            return (output[0] * math.inf, *output[1:])

        trainer.task.model.recurrent.register_forward_hook(no_numbers)

    with before(monkeypatch, Trainer, "_step", spoil, at_step(10)):
        line = told(capsys, "train", recipe, "--out", run)
    assert "the loss is nan at step 10: it began in layer recurrent" in line
    assert "the last good checkpoint is" in line
    assert "step-9" in line
    expect_to_go_on(run, place)


def test_a_poisoned_checkpoint_is_not_called_good(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def when(trainer):
        return trainer.progress.step == 9

    with before(monkeypatch, Trainer, "save", poison, when):
        line = told(capsys, "train", recipe, "--out", run)
    assert "at step 10" in line
    assert f"the last good checkpoint is {run / 'checkpoints' / 'step-7'}" in line
    assert (run / "checkpoints" / "step-9").is_dir()
    expect_to_go_on(run, place)


def test_weights_that_end_as_no_numbers_are_not_kept(recipe, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    with before(monkeypatch, Trainer, "_finish_epoch", poison, lambda t: t.progress.epoch == 3):
        line = told(capsys, "train", recipe, "--out", run)
    assert "the weights head.weight are no numbers after step 28" in line
    assert all(t.isfinite().all() for t in read_tensors(run / "model.safetensors").values())


@pytest.mark.parametrize("rate", ["1e3", "1e38"])
def test_a_loss_that_explodes(recipe, tmp_path, capsys, rate):
    changes = ["--train.rate", rate, "--train.clip", "none", "--train.optimizer", "sgd"]
    line = told(capsys, "train", recipe, "--out", tmp_path / "run", *changes)
    assert "the loss is" in line
    assert "at step" in line
    assert "try a lower train.rate" in line
    assert "checkpoint" in line
    if "the loss is inf" not in line:  # what it was, and not once it had exploded
        assert float(line.partition("after ")[2].split(" in the beginning")[0]) < 1


# -- other processes -------------------------------------------------------------------------------


def test_a_scheduler_stops_it(recipe, place, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"

    def terminate(_trainer):
        os.kill(os.getpid(), signal.SIGTERM)

    with before(monkeypatch, Trainer, "_step", terminate, at_step(11)):
        assert main(["train", recipe, "--out", str(run)]) == 143
    told_last = capsys.readouterr().err.splitlines()[-1]
    assert told_last == f"stopped; go on with: workings resume {run}"
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
from workings.train.loop import Trainer
from workings.train.runs import train

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
        assert f"{run}: another process is training here" in told(capsys, "resume", run)
        assert f"workings resume {run}" in told(capsys, "train", recipe, "--out", run)
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
