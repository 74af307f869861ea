"""What can happen to a run's files: truncated, flipped, zeroed, swapped, of another version."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from workings import storage
from workings.errors import UserError
from workings.storage import read_json, read_tensors, write_json, write_tensors

LOADED = ("config.toml", "environment.json", "tokenizer.json", "labels.json", "model.safetensors")

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
    before, storage.FORMAT_VERSION = storage.FORMAT_VERSION, draw.choice([0, 1, 99])
    try:
        write_json(folder / "state.json", state)
    finally:
        storage.FORMAT_VERSION = before


OF_A_CHECKPOINT: tuple[Damage, ...] = (
    any_file, any_file, any_file, missing, extra, of_another, wrong_tensor, wrong_version
)  # fmt: skip


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
