"""Checkpoints and run folders that are damaged, foreign or malicious: noticed, every time."""

import json
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from workings import storage
from workings.errors import UserError
from workings.storage import (
    Damaged,
    read_checkpoint,
    read_json,
    read_tensors,
    write_checkpoint,
    write_json,
    write_tensors,
)
from workings.train.runs import load, resume, train

Damage = Callable[[Path, Path, random.Random], None]


def _pick(folder: Path, draw: random.Random) -> Path:
    return draw.choice(sorted(p for p in folder.iterdir() if p.is_file()))


def _pick_tensors(folder: Path, draw: random.Random) -> Path:
    return draw.choice(sorted(p for p in folder.glob("*.safetensors") if read_tensors(p)))


def truncate(file: Path, draw: random.Random) -> None:
    with file.open("r+b") as opened:
        opened.truncate(draw.randrange(file.stat().st_size))


def change_a_byte(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    file.write_bytes(content)


def flip_a_bit(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def insert_garbage(file: Path, draw: random.Random) -> None:
    content = file.read_bytes()
    place = draw.choice([0, len(content), draw.randrange(len(content))])
    file.write_bytes(content[:place] + draw.randbytes(draw.randint(1, 20)) + content[place:])


def zero_a_page(file: Path, draw: random.Random) -> None:
    """What a crashed system leaves: a stretch that was never written."""
    content = bytearray(file.read_bytes())
    start = draw.randrange(len(content))
    zeros = bytes(len(content[start : start + 512]))
    same = content[start : start + 512] == zeros
    content[start : start + 512] = b"\xff" * len(zeros) if same else zeros
    file.write_bytes(content)


OF_A_FILE = (truncate, change_a_byte, flip_a_bit, insert_garbage, zero_a_page)


def any_file(folder: Path, other: Path, draw: random.Random) -> None:
    draw.choice(OF_A_FILE)(_pick(folder, draw), draw)


def missing(folder: Path, other: Path, draw: random.Random) -> None:
    _pick(folder, draw).unlink()


def extra(folder: Path, other: Path, draw: random.Random) -> None:
    (folder / f"more.{draw.choice(['safetensors', 'json', 'pkl'])}").write_bytes(draw.randbytes(40))


def of_another(folder: Path, other: Path, draw: random.Random) -> None:
    """A whole file, but of another checkpoint."""
    names = [p.name for p in folder.iterdir() if p.read_bytes() != (other / p.name).read_bytes()]
    name = draw.choice(sorted(names))
    shutil.copy(other / name, folder / name)


def wrong_tensor(folder: Path, other: Path, draw: random.Random) -> None:
    """A whole file with a tensor of another name, shape, kind or value."""
    file = _pick_tensors(folder, draw)
    tensors = {name: t.clone() for name, t in read_tensors(file).items()}
    name = draw.choice(sorted(tensors))
    t = tensors[name]
    way = draw.choice(["name", "shape", "kind", "value", "gone", "more"])
    if way == "name":
        tensors[f"{name}x"] = tensors.pop(name)
    elif way == "shape":
        tensors[name] = t.reshape(1, *t.shape)
    elif way == "kind":
        tensors[name] = t.double() if t.dtype != torch.float64 else t.float()
    elif way == "value":
        tensors[name] = t + 1
    elif way == "gone":
        del tensors[name]
    else:
        tensors["one.more"] = t.clone()
    write_tensors(file, tensors)


def wrong_version(folder: Path, other: Path, draw: random.Random) -> None:
    """A state that says it is of another format, with a checksum that is right."""
    state = read_json(folder / "state.json")
    before, storage.FORMAT = storage.FORMAT, draw.choice([0, 2, 99])
    try:
        write_json(folder / "state.json", state)
    finally:
        storage.FORMAT = before


OF_A_CHECKPOINT: tuple[Damage, ...] = (
    any_file, any_file, any_file, missing, extra, of_another, wrong_tensor, wrong_version
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory, request):
    """A run with three checkpoints, and one of the same recipe but another seed."""
    folder = tmp_path_factory.mktemp("made")
    data = folder / "toy.jsonl"
    data.write_text(
        "\n".join(
            json.dumps({"text": f"{a} {b} {c}", "label": label})
            for label, words in (("fruit", ["fig", "pear", "plum"]), ("metal", ["tin", "iron"]))
            for a in words for b in words for c in words * 2
        )
    )  # fmt: skip
    from workings.config import build
    from workings.recipes import ClassifyRecipe

    for name, seed in (("run", 0), ("other", 1)):
        table = {
            "seed": seed,
            "data": {"set": str(data)},
            "model": {"kind": "recurrent", "embedding": 4, "hidden": 4},
            "train": {"epochs": 3, "batch": 16, "average": "ema", "ema": 0.9, "keep": 3},
        }
        train(build(ClassifyRecipe, table), folder / name, mode="quiet")
    return folder


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


def steps(run):
    found = (p for p in (run / "checkpoints").iterdir() if p.name[5:].isdigit())
    return sorted(found, key=lambda p: int(p.name[5:]))


def refused(reading, *arguments):
    """What an error says, which must be one line of a UserError's and nothing else."""
    with pytest.raises(UserError) as caught:
        reading(*arguments)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    assert len(message) < 600
    return message


def notice(made, tmp_path, rounds):
    before, newest = steps(made / "run")[-2:]
    for seed in range(rounds):
        draw = random.Random(seed)  # noqa: S311
        folder = Path(shutil.copytree(newest, tmp_path / newest.name))
        damage = OF_A_CHECKPOINT[seed % len(OF_A_CHECKPOINT)]
        damage(folder, before, draw)
        try:
            refused(read_checkpoint, folder)
        except BaseException:
            print(seed, damage.__name__)  # noqa: T201
            raise
        shutil.rmtree(folder)


def test_a_damaged_checkpoint_is_noticed(made, tmp_path):
    notice(made, tmp_path, rounds=64)


@pytest.mark.slow
def test_a_thousand_damaged_checkpoints_are_noticed(made, tmp_path):
    notice(made, tmp_path, rounds=1000)


@pytest.mark.parametrize("damage", dict.fromkeys(OF_A_CHECKPOINT), ids=lambda d: d.__name__)
def test_the_one_before_is_used_and_the_end_is_the_same(made, run, damage, capsys):
    before, newest = steps(run)[-2:]
    damage(newest, before, random.Random(5))  # noqa: S311
    resume(run)
    (line,) = [s for s in capsys.readouterr().err.splitlines() if "cannot be used" in s]
    assert line.startswith(f"{newest.name} cannot be used")
    assert (run / "checkpoints" / f"{newest.name}.damaged").is_dir()
    for name in ("model.safetensors", f"checkpoints/{newest.name}/model.safetensors"):
        assert (run / name).read_bytes() == (made / "run" / name).read_bytes()


def test_where_none_can_be_used_the_second_try_begins_anew(made, run):
    for folder in steps(run):
        (folder / "state.json").write_text("{}")
    assert "once more begins from the beginning" in refused(resume, run)
    resume(run, mode="quiet")
    assert (run / "model.safetensors").read_bytes() == (
        made / "run" / "model.safetensors"
    ).read_bytes()


def test_a_whole_checkpoint_of_another_run_is_refused(made, run, capsys):
    newest = steps(run)[-1]
    shutil.rmtree(newest)
    shutil.copytree(made / "other" / "checkpoints" / newest.name, newest)
    resume(run)
    assert "it is of another run" in capsys.readouterr().err


def test_what_a_killed_process_left_is_cleared_up(made, run):
    rest = run / "checkpoints" / ".step-5.part"
    shutil.copytree(steps(run)[0], rest)
    resume(run, mode="quiet")
    assert not rest.exists()


def test_a_run_without_its_environment_says_so(run):
    (run / "environment.json").unlink()
    assert refused(load, run).endswith("environment.json: missing")


def test_one_that_cannot_be_read_for_now_is_not_put_aside(run, monkeypatch):
    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("workings.storage.read_bytes", refuse)
    folder = steps(run)[-1]
    with pytest.raises(UserError) as caught:
        read_checkpoint(folder)
    assert not isinstance(caught.value, Damaged)


# -- what load reads -------------------------------------------------------------------------------

LOADED = ("config.toml", "environment.json", "tokenizer.json", "labels.json", "model.safetensors")


def notice_in_run(made, tmp_path, rounds):
    for seed in range(rounds):
        draw = random.Random(seed)  # noqa: S311
        folder = tmp_path / "loaded"
        folder.mkdir()
        for name in LOADED:
            shutil.copy(made / "run" / name, folder)
        file, damage = folder / LOADED[seed % len(LOADED)], draw.choice([*OF_A_FILE, None, "other"])
        if damage is None:
            file.unlink()
        elif damage == "other" and file.name in ("config.toml", "model.safetensors"):
            shutil.copy(made / "other" / file.name, file)
        else:
            (flip_a_bit if damage == "other" else damage)(file, draw)
        try:
            refused(load, folder)
        except BaseException:
            print(seed, file.name, damage)  # noqa: T201
            raise
        shutil.rmtree(folder)


def test_damage_to_what_is_loaded_is_noticed(made, tmp_path):
    notice_in_run(made, tmp_path, rounds=100)


@pytest.mark.slow
def test_a_thousand_damages_to_what_is_loaded_are_noticed(made, tmp_path):
    notice_in_run(made, tmp_path, rounds=1000)


def test_a_changed_recipe_is_not_resumed(run):
    config = run / "config.toml"
    config.write_text(config.read_text().replace("batch = 16", "batch = 8"))
    assert "config.toml: not what this run began with" in refused(resume, run)


def test_a_run_of_an_older_version_is_still_read(run):
    """Before files had checksums in environment.json, and weights a mark."""
    environment = read_json(run / "environment.json")
    del environment["files"]
    write_json(run / "environment.json", environment)
    write_tensors(run / "model.safetensors", read_tensors(run / "model.safetensors"))
    assert load(run).labels == ("fruit", "metal")


# -- malice ----------------------------------------------------------------------------------------


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
        {"epoch": 10**400}, {"best": float("nan")}, {"seconds": float("inf")}, {"sums": [1]},
        {"sums": {"loss": "x"}}, {"sums": {"loss": float("nan")}}, {"usual_loss": [1]},
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


@pytest.mark.parametrize("position", [-1, 10**15, 0.5, "1", None])
def test_absurd_places_in_the_log(run, position, capsys):
    newest = steps(run)[-1]
    write_json(newest / "state.json", read_json(newest / "state.json") | {"log": position})
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
        ("optimiser", "0.exp_avg", lambda t: t[:1]),
        ("optimiser", "999.exp_avg", lambda _: torch.zeros(2)),
        ("optimiser", "-1.exp_avg", lambda _: torch.zeros(2)),
        ("optimiser", "x", lambda _: torch.zeros(2)),
        ("average", "mean.head.bias", lambda t: t[:1]),
        ("average", "mean.head.bias", None),
        ("average", "last.x.head.bias", lambda _: torch.zeros(2)),
        ("random", "0.torch", lambda t: t[:9]),
        ("random", "0.torch", lambda t: t.float()),
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
    "text", ["[" * 100_000, '{"format": 1, "a": ' + "[" * 990 + "]" * 990 + "}"]
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
                except Damaged:
                    continue
                if name == "a.safetensors":  # the mark is compared with what is expected
                    refused(read_tensors, path, None, "mark")
                    continue
                pytest.fail(f"{name}: byte {i} ^ {change}")
