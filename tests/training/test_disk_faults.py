"""Disks that are full, shut or gone: one line that says what would help, and a run that goes on."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from faulty import at_step, before, expect_nothing_half_written, expect_to_go_on, run_and_read_error

from workings.cli import main
from workings.training.checkpoints import Checkpoints
from workings.training.logging import Log, read_log
from workings.training.trainer import Trainer

resource = pytest.importorskip("resource", reason="only Unix limits what a process may take")
NOBODY = 65534


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


@pytest.fixture
def saved_at_once(monkeypatch):
    """Checkpoints are waited for: else a disk that fills up later may be full for them, too."""
    save = Checkpoints.save

    def save_at_once(checkpoints, *arguments):
        save(checkpoints, *arguments)
        checkpoints.wait()

    monkeypatch.setattr(Checkpoints, "save", save_at_once)


@pytest.mark.parametrize("step", [2, 3, 9])
def test_a_full_disk_during_a_checkpoint(recipe, place, disk, capsys, monkeypatch, step):
    run = disk.folder / "run"
    writes = []  # checkpoints are written at steps 3, 6, 7, 9, 12, 14, …

    def often_enough(_checkpoints):
        writes.append(True)
        return len(writes) == step

    with before(monkeypatch, Checkpoints, "_write", disk.fill, often_enough):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert "the checkpoint could not be written" in line
    assert "No space left on device" in line
    assert f"free some space, then workings resume {run}" in line
    assert "the last complete checkpoint is step-" in line
    expect_nothing_half_written(run)
    disk.free()
    expect_to_go_on(run, place)


def test_a_full_disk_during_the_first_checkpoint(recipe, place, disk, capsys, monkeypatch):
    with before(monkeypatch, Checkpoints, "_write", disk.fill):
        line = run_and_read_error(capsys, "train", recipe, "--out", disk.folder / "run")
    assert "there is no earlier checkpoint" in line
    disk.free()
    expect_to_go_on(disk.folder / "run", place)


@pytest.mark.usefixtures("saved_at_once")
def test_a_full_disk_during_the_log(recipe, place, disk, capsys, monkeypatch):
    run = disk.folder / "run"
    with before(monkeypatch, Log, "log_epoch", disk.fill):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert f"{run / 'log.jsonl'}: No space left on device: free some space" in line
    expect_nothing_half_written(run)
    disk.free()
    expect_to_go_on(run, place)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("workings.training.trainer.write_tensors", "model.safetensors"),
        ("workings.training.runs.write_text", "config.toml"),
        ("workings.training.report.write_report", "report.html"),
        ("workings.training.report.write_text", "report.html"),
    ],
)
@pytest.mark.usefixtures("saved_at_once")
def test_a_full_disk_during_anything_else(recipe, place, disk, capsys, monkeypatch, function, name):
    run = disk.folder / "run"
    module, _, attribute = function.rpartition(".")
    original = getattr(sys.modules[module], attribute)

    def on_a_full_disk(*arguments):
        disk.fill()
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(function, on_a_full_disk)
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert f"{run / name}: No space left on device: free some space" in line
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
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
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
    position = log.synced_offset()
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
    line = run_and_read_error(capsys, "train", recipe, "--out", disk.folder / "new")
    assert f"{disk.folder / 'new'}: Read-only file system" in line
    assert "another --out" in line
    assert "Read-only file system" in run_and_read_error(capsys, "resume", run)
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
        line = run_and_read_error(
            capsys, "train", folder / "toy.toml", "--out", folder / "inside" / "run"
        )
    assert f"{folder / 'inside' / 'run'}: Permission denied" in line
    assert "another --out" in line


@pytest.mark.parametrize("step", [2, 8])
def test_a_folder_that_vanishes(recipe, place, tmp_path, capsys, monkeypatch, step):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def move_away(_trainer):
        run.rename(elsewhere)

    with before(monkeypatch, Trainer, "_step", move_away, at_step(step)):
        line = run_and_read_error(capsys, "train", recipe, "--out", run)
    assert f"{run}: the run's folder was moved or removed" in line
    assert not run.exists()  # and nothing has made it again
    elsewhere.rename(run)
    expect_to_go_on(run, place)
