"""Ways to damage the files of a run: truncated, changed, zeroed, swapped, of another version."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from workings import json_files, storage
from workings.errors import UserError
from workings.storage import read_json, read_tensors, write_json, write_tensors

# The files that `load` reads.
RUN_FILES = (
    "config.toml",
    "environment.json",
    "tokenizer.json",
    "labels.json",
    "model.safetensors",
)

Damage = Callable[[Path, Path, random.Random], None]


def truncate(file: Path, rng: random.Random) -> None:
    with file.open("r+b") as opened:
        opened.truncate(rng.randrange(file.stat().st_size))


def change_a_byte(file: Path, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    file.write_bytes(content)


def flip_a_bit(file: Path, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def insert_garbage(file: Path, rng: random.Random) -> None:
    content = file.read_bytes()
    offset = rng.choice([0, len(content), rng.randrange(len(content))])
    file.write_bytes(content[:offset] + rng.randbytes(rng.randint(1, 20)) + content[offset:])


def zero_a_page(file: Path, rng: random.Random) -> None:
    """Zero 512 bytes, as a crashed system may leave pages that were never written."""
    content = bytearray(file.read_bytes())
    start = rng.randrange(len(content))
    page = content[start : start + 512]
    zeros = bytes(len(page))
    content[start : start + 512] = b"\xff" * len(page) if page == zeros else zeros
    file.write_bytes(content)


FILE_DAMAGES = (truncate, change_a_byte, flip_a_bit, insert_garbage, zero_a_page)


def damage_any_file(folder: Path, other: Path, rng: random.Random) -> None:
    rng.choice(FILE_DAMAGES)(_pick_file(folder, rng), rng)


def remove_a_file(folder: Path, other: Path, rng: random.Random) -> None:
    _pick_file(folder, rng).unlink()


def add_a_file(folder: Path, other: Path, rng: random.Random) -> None:
    suffix = rng.choice(["safetensors", "json", "pkl"])
    (folder / f"more.{suffix}").write_bytes(rng.randbytes(40))


def swap_a_file(folder: Path, other: Path, rng: random.Random) -> None:
    """Replace a file by an intact one of another checkpoint."""
    names = [p.name for p in folder.iterdir() if p.read_bytes() != (other / p.name).read_bytes()]
    name = rng.choice(sorted(names))
    shutil.copy(other / name, folder / name)


def change_a_tensor(folder: Path, other: Path, rng: random.Random) -> None:
    """Write an intact file with a tensor of another name, shape, type or value."""
    file = rng.choice(sorted(p for p in folder.glob("*.safetensors") if read_tensors(p)))
    tensors = {name: t.clone() for name, t in read_tensors(file).items()}
    name = rng.choice(sorted(tensors))
    t = tensors[name]
    change = rng.choice(["name", "shape", "type", "value", "missing", "additional"])
    if change == "name":
        tensors[f"{name}x"] = tensors.pop(name)
    elif change == "shape":
        tensors[name] = t.reshape(1, *t.shape)
    elif change == "type":
        tensors[name] = t.double() if t.dtype != torch.float64 else t.float()
    elif change == "value":
        tensors[name] = t + 1
    elif change == "missing":
        del tensors[name]
    else:
        tensors["one.more"] = t.clone()
    write_tensors(file, tensors, read_mark(file))


def read_mark(file: Path) -> str:
    """Return the id of the run that a file with tensors belongs to."""
    return storage._read_checksum(file).partition(" ")[2]


def change_the_version(folder: Path, other: Path, rng: random.Random) -> None:
    """Write a state of another format version, with a correct checksum."""
    state = read_json(folder / "state.json")
    version, json_files.FORMAT_VERSION = json_files.FORMAT_VERSION, rng.choice([0, 1, 99])
    try:
        write_json(folder / "state.json", state)
    finally:
        json_files.FORMAT_VERSION = version


CHECKPOINT_DAMAGES: tuple[Damage, ...] = (
    damage_any_file, damage_any_file, damage_any_file, remove_a_file, add_a_file, swap_a_file,
    change_a_tensor, change_the_version,
)  # fmt: skip


def _pick_file(folder: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(p for p in folder.iterdir() if p.is_file()))


def error_message(function, *arguments):
    """Call a function that must raise a UserError of one line; return its message."""
    with pytest.raises(UserError) as caught:
        function(*arguments)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    assert len(message) < 600
    return message
