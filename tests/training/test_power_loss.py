"""Power failures: whatever was not synced is lost, torn or reordered; nothing promised is."""

# ruff: noqa: ARG002 - every scenario has the same methods
import os
import random
import shutil

import numpy as np
import pytest
import toys
from faults import at_step, fault_before
from simulated_disk import SimulatedDisk, write_tree

from workings.data import cache, download
from workings.data.download import Mirror, compute_digest, matches_any_mirror
from workings.io import atomic_write, file_lock
from workings.problems.sheets.folder import read_manifest, write_folder
from workings.recipes import ClassificationRecipe, LanguageRecipe, build_recipe
from workings.storage import read_tensors
from workings.training import api, logging, run_folder, runs
from workings.training.checkpoints import Checkpoints
from workings.training.logging import Log, read_log
from workings.training.trainer import Trainer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX only")


def crash_everywhere(disk, check, tmp_path, num_points=None, num_single=1):
    """Check what a crash leaves at each point, or at some; return the numbers of points and states.

    `check(folder, promises)` gets each different state once, with what was announced before.
    """
    rng = random.Random(0)  # noqa: S311
    points = disk.crash_points()
    if num_points is not None and num_points < len(points):
        points = sorted(rng.sample(points, num_points))
    seen, num_states = set(), 0
    folder = tmp_path / "after the crash"
    for point in points:
        promises = disk.promises(point)
        for tree in disk.states(point, rng, num_single):
            num_states += 1
            key = hash((repr(tree), len(promises)))
            if key in seen:
                continue
            seen.add(key)
            shutil.rmtree(folder, ignore_errors=True)
            write_tree(tree, folder)
            try:
                check(folder, promises)
            except Exception as error:
                raise AssertionError(
                    f"after {disk.operations[point - 1]!r:.200}, with {promises[-1:]} promised, of "
                    f"{sorted(p.relative_to(folder).as_posix() for p in folder.rglob('*'))}"
                ) from error
    return len(points), num_states


# -- files, logs, locks, caches, sheets, downloads -------------------------------------------------


class Scenario:
    """Code that writes under `disk.root`, and the check of what a crash leaves of it."""

    def prepare(self, root, patch): ...
    def write(self, disk): ...
    def check(self, folder, promises): ...


class ReplacedFile(Scenario):
    OLD, NEW = b"old " * 3000, b"new " * 5000

    def prepare(self, root, patch):
        (root / "file").write_bytes(self.OLD)

    def write(self, disk):
        with atomic_write(disk.root / "file") as file:
            for start in range(0, len(self.NEW), 1000):
                file.write(self.NEW[start : start + 1000])
        disk.promise("new")

    def check(self, folder, promises):
        allowed = [self.NEW] if promises else [self.OLD, self.NEW]
        assert (folder / "file").read_bytes() in allowed


class LogLines(Scenario):
    LINES = 60

    def write(self, disk):
        log = Log(disk.root / "log.jsonl", "quiet")
        for number in range(self.LINES):
            log.record(kind="step", number=number, text="é" * (number * 37 % 90))
            if number % 10 == 9:
                log.synced_offset()
                disk.promise(number + 1)
        log.close()

    def check(self, folder, promises):
        if not promises and not (folder / "log.jsonl").exists():
            return
        numbers = [record["number"] for record in read_log(folder / "log.jsonl")]
        num_synced = promises[-1] if promises else 0
        assert numbers[:num_synced] == list(range(num_synced))
        assert numbers == sorted(set(numbers))
        log = Log(folder / "log.jsonl", "quiet")  # a cut line does not damage the next one
        offset = (folder / "log.jsonl").read_bytes().rfind(b"\n") + 1
        log.rewind(offset)
        log.record(kind="step", number=self.LINES)
        log.close()
        assert read_log(folder / "log.jsonl")[-1]["number"] == self.LINES


class Locks(Scenario):
    def write(self, disk):
        for number in range(20):
            with file_lock(disk.root / f".{number}.lock"):
                disk.promise(number)

    def check(self, folder, promises):
        for number in range(20):
            with file_lock(folder / f".{number}.lock", wait=False):
                pass


class CachedTokens(Scenario):
    CONTENT = np.arange(9000, dtype=np.uint16)

    def prepare(self, root, patch):
        self.patch = patch

    def open_at(self, root):
        self.patch.setenv("XDG_CACHE_HOME", str(root))
        array, _ = cache.open_cached_array(
            "tokens", "key", "uint16", lambda: np.split(self.CONTENT, 9)
        )
        return np.array(array)

    def write(self, disk):
        self.open_at(disk.root)

    def check(self, folder, promises):
        assert (self.open_at(folder) == self.CONTENT).all()


class Sheet(Scenario):
    """A sheet that is replaced by another one."""

    def files(self, version, count):
        names = [f"{k}{n:02}.toml" for k in ("", "key/") for n in range(count)]
        manifest = '{"format": "workings sheet", "version": 1, "files": ["%s", "sheet.json"]}'
        return {n: f"# {version} of {n}\n" * 20 for n in names} | {
            "sheet.json": manifest % '", "'.join(names)
        }

    def __init__(self):
        self.old, self.new = self.files("old", 8), self.files("new", 12)

    def write(self, disk):
        write_folder(self.old, disk.root / "sheets" / "sheet")
        disk.promise("old")
        write_folder(self.new, disk.root / "sheets" / "sheet")
        disk.promise("new")

    def check(self, folder, promises):
        sheet = folder / "sheets" / "sheet"
        if sheet.exists():
            assert read_manifest(sheet)["files"]
            assert self.read(sheet) in (self.old, self.new)
        if promises[-1:] == ["new"]:
            assert self.read(sheet) == self.new
        elif promises:  # between two renames, the old sheet has a hidden name
            hidden = (folder / "sheets").glob(".sheet.*.old")
            assert any(self.read(f) in (self.old, self.new) for f in (sheet, *hidden))

    def read(self, folder):
        files = (p for p in folder.rglob("*") if p.is_file())
        return {p.relative_to(folder).as_posix(): p.read_text() for p in files}


class Download(Scenario):
    CONTENT = np.random.default_rng(0).bytes(40_000)

    def prepare(self, root, patch):
        (root / "digest").write_bytes(self.CONTENT)
        digest = compute_digest(root / "digest")
        self.mirror = Mirror("https://example.org/set", len(self.CONTENT), digest)

        def receive(mirror, partial_path, *_):
            with partial_path.open("wb") as file:
                for start in range(0, len(self.CONTENT), 5000):
                    file.write(self.CONTENT[start : start + 5000])

        patch.setattr(download, "_receive", receive)

    def write(self, disk):
        download.download([self.mirror], disk.root / "data" / "set")
        disk.promise("downloaded")

    def check(self, folder, promises):
        path = folder / "data" / "set"
        assert path.exists() or not promises
        assert not path.exists() or matches_any_mirror(path, [self.mirror])


class DataInMemory(Scenario):
    """Data that are given to `workings.train`: a resumed run reads them from its folder."""

    TEXT = "to be or not to be " * 900
    ROWS = tuple((f"text {number}", "ab"[number % 2]) for number in range(300))

    def write(self, disk):
        api._store_data(LanguageRecipe(), self.TEXT, disk.root / "a")
        disk.promise("a/.data/text.txt")
        api._store_data(ClassificationRecipe(), self.ROWS, disk.root / "b")
        disk.promise("b/.data/examples.jsonl")
        self.final = disk.root

    def check(self, folder, promises):
        for name in promises:
            assert (folder / name).read_bytes() == (self.final / name).read_bytes()


SCENARIOS = (ReplacedFile, LogLines, Locks, CachedTokens, Sheet, Download, DataInMemory)


def crash_scenario(scenario, tmp_path, monkeypatch, **options):
    root = tmp_path / "disk"
    root.mkdir()
    scenario.prepare(root, monkeypatch)
    disk = SimulatedDisk(root)
    with disk.record():
        scenario.write(disk)
    return crash_everywhere(disk, scenario.check, tmp_path, **options)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_files_survive_a_power_failure(scenario, tmp_path, monkeypatch):
    num_points, num_states = crash_scenario(scenario(), tmp_path, monkeypatch, num_points=6)
    assert num_states > num_points == 6


class WithoutSync(ReplacedFile):
    """A careless writer: the simulated disk must find it out."""

    def __init__(self, sync_content):
        self.sync_content = sync_content

    def write(self, disk):
        part = disk.root / "part"
        with part.open("wb") as file:
            file.write(self.NEW)
            file.flush()
            if self.sync_content:
                os.fsync(file.fileno())
        part.replace(disk.root / "file")
        disk.promise("new")


@pytest.mark.parametrize("sync_content", [True, False])
def test_simulated_disk_loses_what_was_not_synced(sync_content, tmp_path, monkeypatch):
    with pytest.raises(AssertionError, match="after Promise" if sync_content else "after Link"):
        crash_scenario(WithoutSync(sync_content), tmp_path, monkeypatch)


# -- trainings -------------------------------------------------------------------------------------


def tiny_recipe(data, save_every=2):
    model = {"kind": "recurrent", "d_model": 2, "hidden_size": 2}
    train = {"epochs": 2, "batch_size": 8, "save_every": save_every, "keep_checkpoints": 1}
    return build_recipe({"data": {"set": str(data)}, "model": model, "train": train})


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A disk on which trainings announce their checkpoints, and what they have synced of a log."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = SimulatedDisk(root)
    write, sync = Checkpoints._write, Log.synced_offset

    def write_and_announce(self, step, *arguments):
        write(self, step, *arguments)
        disk.promise((self.run.name, "step", step))

    def sync_and_announce(self):
        offset = sync(self)
        disk.promise((self._path.parent.name, "log", offset))
        return offset

    monkeypatch.setattr(Checkpoints, "_write", write_and_announce)
    monkeypatch.setattr(Log, "synced_offset", sync_and_announce)
    monkeypatch.setattr(logging, "MIN_STEPS_BETWEEN_RECORDS", 1)
    return disk


def find_newest(promises, run, kind):
    return max((p[2] for p in promises if p[:2] == (run.name, kind)), default=0)


def check_run(run, promises, final):
    """Check that a run can be resumed where it was announced; `final` is it at its end."""
    step, offset = find_newest(promises, run, "step"), find_newest(promises, run, "log")
    for name in ("config.toml", "environment.json", "tokenizer.json", "labels.json"):
        if (run / name).exists() or step:
            assert (run / name).read_bytes() == (final / name).read_bytes(), name
    if (run / "model.safetensors").exists():
        read_tensors(run / "model.safetensors")
    if offset:
        whole_log = (final / "log.jsonl").read_bytes()
        assert (run / "log.jsonl").read_bytes().startswith(whole_log[:offset])
    if (run / "log.jsonl").exists():
        read_log(run / "log.jsonl")
    if run.exists():
        with file_lock(run / ".lock", wait=False):
            pass
    if step:
        check_newest_checkpoint(run, step)


def check_newest_checkpoint(run, step):
    run_folder.read_run_recipe(run)
    run_id = run_folder.compute_run_id(run)

    def check(_tensors, state):
        assert state["run_id"] == run_id

    _, state = Checkpoints(run, 1).read_newest_valid(check, lambda _: None)
    assert state["progress"]["step"] >= step
    assert (run / "log.jsonl").stat().st_size >= state["log_offset"]
    if state["progress"]["best_epoch"]:
        read_tensors(run / "model.safetensors", run_id=run_id)


def test_checkpoint_that_was_announced_survives_a_power_failure(disk, tmp_path):
    data = toys.write_texts(tmp_path / "texts.jsonl", words=2)
    run = disk.root / "runs" / "run"
    with disk.record():
        runs.train_recipe(tiny_recipe(data), run, mode="quiet")

    def check(folder, promises):
        check_run(folder / "runs" / "run", promises, run)

    num_points, num_states = crash_everywhere(disk, check, tmp_path, num_points=8)
    assert num_states > num_points == 8


# -- everywhere ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_files_survive_a_power_failure_at_every_operation(scenario, tmp_path, monkeypatch):
    counts = crash_scenario(scenario(), tmp_path, monkeypatch, num_single=12)
    print(scenario.__name__, *counts)  # noqa: T201


@pytest.mark.slow
def test_runs_survive_a_power_failure_at_every_operation(disk, tmp_path, monkeypatch):
    """A training that breaks off, is resumed and extended; some of its states are resumed."""
    data = toys.write_texts(tmp_path / "texts.jsonl", words=3)
    run, longer = disk.root / "runs" / "run", disk.root / "more" / "longer"
    broken_off = pytest.raises(RuntimeError, match="broken off")

    def break_off(_trainer):
        raise RuntimeError("broken off")

    with disk.record():
        with fault_before(monkeypatch, Trainer, "_step", break_off, at_step(6)), broken_off:
            runs.train_recipe(tiny_recipe(data, save_every=1), run, mode="quiet")
        runs.resume(run, mode="quiet")
        runs.resume(run, epochs=3, out=longer, mode="quiet")
    num_checked = num_resumed = 0

    def check(folder, promises):
        nonlocal num_checked, num_resumed
        check_run(folder / "runs" / "run", promises, run)
        check_run(folder / "more" / "longer", promises, longer)
        num_checked += 1
        if num_checked % 200 == 0 and find_newest(promises, run, "step"):
            num_promises = len(disk.operations)
            runs.resume(folder / "runs" / "run", mode="quiet")
            del disk.operations[num_promises:]  # what the resumed run announced
            assert toys.weights(folder / "runs" / "run") == toys.weights(run)
            num_resumed += 1

    counts = crash_everywhere(disk, check, tmp_path, num_single=4)
    assert counts[0] > 800
    assert num_resumed > 10
    print("Runs", *counts, "resumed", num_resumed)  # noqa: T201
