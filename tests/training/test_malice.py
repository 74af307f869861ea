"""Run folders that were made to do harm: nothing runs, nothing leads out, nothing is waited for."""

import json
import os
import pickle
import shutil
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
from damage import LOADED, refused, steps

from workings import storage
from workings.storage import (
    CorruptFileError,
    read_checkpoint,
    read_json,
    read_tensors,
    write_checkpoint,
    write_json,
    write_tensors,
)
from workings.training.runs import load, resume


class Evil:
    """What a pickle would run when it is opened."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (os.mkdir, (str(self.trace),))


@pytest.mark.parametrize("name", LOADED)
def test_nothing_that_is_loaded_can_run(run, tmp_path, name):
    evil = Evil(tmp_path / "ran")
    (run / name).write_bytes(pickle.dumps(evil))
    refused(load, run)
    torch.save({"weight": evil}, run / name)
    refused(load, run)
    assert not (tmp_path / "ran").exists()


def test_no_module_reads_pickles():
    source = Path(storage.__file__).parent
    for file in source.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "pickle" not in text, file
        assert "torch.load" not in text, file


def header(table, length=None, data=b""):
    raw = table if isinstance(table, bytes) else json.dumps(table, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
META = {"__metadata__": {"sha256": "0" * 64}}
ABSURD = {
    "empty": b"",
    "short": b"\1\2\3",
    "no header": header(b"", 0),
    "a header of exabytes": header({}, 2**64 - 1),
    "a header of gigabytes": header({}, 2**31),
    "a header a byte too long": header({}, 9),
    "not JSON": header(b"{{{{{{{{"),
    "deep": header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "deep lists": header(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"),
    "a list": header([1, 2]),
    "a number": header(b"12345678"),
    "a long number": header(b'{"a":' + b"9" * 5000 + b"}"),
    "not UTF-8": header(b'{"\xff\xfe":1}'),
    "half a character": header(b'{"\\ud800":1}'),
    "no sum": header({"a": GOOD}, data=bytes(8)),
    "a sum that is no text": header({"__metadata__": {"sha256": 1}, "a": GOOD}, data=bytes(8)),
    "a wrong sum": header(META | {"a": GOOD}, data=bytes(8)),
    "overlapping": header(META | {"a": GOOD, "b": GOOD}, data=bytes(8)),
    "terabytes": header(META | {"a": {**GOOD, "shape": [2**40], "data_offsets": [0, 2**42]}}),
    "overflowing": header(META | {"a": {**GOOD, "shape": [2**62, 2**62]}}, data=bytes(8)),
    "offsets backwards": header(META | {"a": {**GOOD, "data_offsets": [8, 0]}}, data=bytes(8)),
    "offsets below zero": header(META | {"a": {**GOOD, "data_offsets": [-8, 0]}}, data=bytes(8)),
    "a hole": header(META | {"a": {**GOOD, "data_offsets": [8, 16]}}, data=bytes(16)),
    "an unknown kind": header(META | {"a": {**GOOD, "dtype": "O"}}, data=bytes(8)),
    "kinds of half a byte": header(
        META | {"a": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}}, data=bytes(8)
    ),
    "null": header(META | {"a": None}),
    "the same name twice": header(
        b'{"__metadata__":{"sha256":"0"},"a":' + json.dumps(GOOD).encode() + b',"a":1}'
    ),
}  # fmt: skip


@pytest.mark.parametrize("content", ABSURD.values(), ids=ABSURD)
def test_absurd_headers(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    refused(read_tensors, path)


@pytest.mark.parametrize(
    "state",
    [
        {"tensors": {"../evil": "0"}},
        {"tensors": {"/etc/passwd": "0"}},
        {"tensors": {"": "0"}},
        {"tensors": {"model": None}},
        {"tensors": ["model"]},
        {"tensors": {}},
        {},
    ],
)
def test_absurd_states(run, state, capsys):
    newest = steps(run)[-1]
    write_json(newest / "state.json", state)
    resume(run)
    assert "cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"step": -1}, {"step": 2**70}, {"step": 1.5}, {"step": "9"}, {"step": None}, {"more": 1},
        {"epoch": 10**400}, {"best_metric": float("nan")}, {"seconds": float("inf")}, {"sums": [1]},
        {"sums": {"loss": "x"}}, {"sums": {"loss": float("nan")}}, {"initial_loss": [1]},
    ],
    ids=str,
)  # fmt: skip
def test_absurd_progress(run, change, capsys):
    newest = steps(run)[-1]
    state = read_json(newest / "state.json")
    state["progress"] |= change
    write_json(newest / "state.json", state)
    resume(run)
    assert f"{newest.name} cannot be used (it does not fit" in capsys.readouterr().err


@pytest.mark.parametrize("position", [-1, 0.5, "1", None])
def test_absurd_places_in_the_log(run, position, capsys):
    newest = steps(run)[-1]
    write_json(newest / "state.json", read_json(newest / "state.json") | {"log_offset": position})
    resume(run)
    assert "cannot be used" in capsys.readouterr().err
    assert (run / "log.jsonl").stat().st_size < 10_000


@pytest.mark.parametrize(
    ("file", "name", "make"),
    [
        ("model", "head.bias", lambda t: t[:1]),
        ("model", "head.bias", lambda t: t.double()),
        ("model", "head.bias", lambda t: t * float("nan")),
        ("model", "strange", lambda _: torch.zeros(2)),
        ("optimizer", "0.exp_avg", lambda t: t[:1]),
        ("optimizer", "999.exp_avg", lambda _: torch.zeros(2)),
        ("optimizer", "-1.exp_avg", lambda _: torch.zeros(2)),
        ("optimizer", "x", lambda _: torch.zeros(2)),
        ("average", "ema.head.bias", lambda t: t[:1]),
        ("average", "ema.head.bias", None),
        ("average", "last.x.head.bias", lambda _: torch.zeros(2)),
        ("rng", "0.torch", lambda t: t[:9]),
        ("rng", "0.torch", lambda t: t.float()),
    ],
)  # fmt: skip
def test_tensors_that_are_whole_but_do_not_fit(made, run, file, name, make, capsys):
    newest = steps(run)[-1]
    tensors, state = read_checkpoint(newest)
    if make is None:
        del tensors[file][name]
    else:
        tensors[file][name] = make(tensors[file].get(name)).clone()
    shutil.rmtree(newest)
    write_checkpoint(newest, tensors, {k: v for k, v in state.items() if k != "tensors"})
    resume(run)
    assert "cannot be used" in capsys.readouterr().err
    for name in ("model.safetensors", f"checkpoints/{newest.name}/model.safetensors"):
        assert (run / name).read_bytes() == (made / "run" / name).read_bytes()


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format": 2, "a": ' + "[" * 990 + "]" * 990 + "}"]
)
def test_deep_json(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    refused(read_json, path)


@pytest.mark.parametrize("name", LOADED)
def test_links_are_not_followed(made, run, name):
    (run / name).unlink()
    (run / name).symlink_to(made / "run" / name)  # the very same content, but elsewhere
    assert "link" in refused(load, run)


def test_a_checkpoint_elsewhere_is_not_followed(made, run, capsys):
    before, newest = steps(run)[-2:]
    shutil.rmtree(newest)
    newest.symlink_to(made / "run" / "checkpoints" / newest.name)
    (before / "model.safetensors").unlink()
    (before / "model.safetensors").symlink_to(
        made / "run" / "checkpoints" / before.name / "model.safetensors"
    )
    resume(run)
    assert capsys.readouterr().err.count("cannot be used") == 2
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(made / "run" / "checkpoints")
    assert "link" in refused(resume, run)


@pytest.mark.parametrize("name", ["log.jsonl", ".lock"])
def test_nothing_is_written_through_a_link(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / name).unlink()
    (run / name).symlink_to(victim)
    assert "link" in refused(resume, run)
    assert victim.read_text() == "precious"


def test_no_part_is_written_through_a_link(run, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("model.safetensors", "report.html", "result.json"):
        (run / f".{name}.part").symlink_to(victim)
    for folder in steps(run)[1:]:
        shutil.rmtree(folder)
    resume(run, mode="quiet")
    assert victim.read_text() == "precious"
    assert load(run).labels == ("fruit", "metal")


@pytest.mark.parametrize("name", [*LOADED, "checkpoints/step/state.json"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(run, name):
    path = run / name.replace("step", steps(run)[-1].name)
    path.unlink()
    os.mkfifo(path)
    refused(*((read_checkpoint, path.parent) if path.name == "state.json" else (load, run)))


# -- the format ------------------------------------------------------------------------------------


def test_files_are_what_the_safetensors_package_writes(tmp_path):
    torch.manual_seed(0)
    tensors = {
        "b": torch.randn(3, 2), "a": torch.randn(4).double(), "ü/\"\n": torch.arange(5),
        "empty": torch.zeros(0, 3), "number": torch.tensor(2.5), "yes": torch.tensor([True]),
        "half": torch.randn(3).bfloat16(), "turned": torch.randn(3, 2).T, "bytes": torch.arange(
            7, dtype=torch.uint8),
    }  # fmt: skip
    tensors["tied"] = tensors["b"]
    digest = write_tensors(tmp_path / "a.safetensors", tensors, "run")
    theirs = safetensors.torch.load_file(tmp_path / "a.safetensors")
    ours = read_tensors(tmp_path / "a.safetensors", digest, "run")
    assert theirs.keys() == ours.keys() == tensors.keys()
    for name, t in tensors.items():
        assert t.dtype == theirs[name].dtype == ours[name].dtype
        assert torch.equal(t, theirs[name])
        assert torch.equal(t, ours[name])
    same = {"w": torch.randn(3, 2), "a": torch.randn(3)}
    digest = write_tensors(tmp_path / "b.safetensors", same)
    written = safetensors.torch.save(same, {"sha256": digest})
    assert (tmp_path / "b.safetensors").read_bytes() == written


def test_what_was_read_does_not_change_with_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.zeros(4096)})
    tensors = read_tensors(path)
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\1\2\3\4")
        file.truncate(100)
    assert torch.equal(tensors["a"], torch.zeros(4096))


def test_any_change_of_any_byte_is_noticed(tmp_path):
    """Every byte of two small files, whitespace and padding and names among them."""
    write_tensors(tmp_path / "a.safetensors", {"w": torch.randn(2)}, "mark")
    write_json(tmp_path / "a.json", {"labels": ["a", "ü"], "n": [1, 2.5, None]})
    for name, reading in (("a.safetensors", read_tensors), ("a.json", read_json)):
        path = tmp_path / name
        content = path.read_bytes()
        for i in range(len(content)):
            for change in (0x01, 0x20, 0x2A, 0x80):
                changed = bytearray(content)
                changed[i] ^= change
                path.write_bytes(changed)
                try:
                    reading(path)
                except CorruptFileError:
                    continue
                if name == "a.safetensors":  # the mark is compared with what is expected
                    refused(read_tensors, path, None, "mark")
                    continue
                pytest.fail(f"{name}: byte {i} ^ {change}")
