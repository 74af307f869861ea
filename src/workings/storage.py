"""Files of a run: written beside, renamed when whole, read back only if their checksums fit."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from workings.errors import UserError

FORMAT = 1


def write_text(path: Path, text: str) -> None:
    """Write a file that is whole or not there."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _sync(path.parent)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a table as JSON, with the format's version and a checksum of it all."""
    whole = {"format": FORMAT, **data}
    write_text(path, json.dumps({**whole, "sum": _sum(whole)}, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON: the file is damaged") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise UserError(f"{path}: format {found!r}; this version reads format {FORMAT}")
    given = data.pop("sum", None)
    if given != _sum(data):
        raise UserError(f"{path}: its checksum does not fit: damaged, or changed by hand")
    del data["format"]
    return data


def _sum(data: Mapping[str, Any]) -> str:
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write named tensors as safetensors, with a checksum that is returned, too."""
    own = _apart(tensors)
    digest = tensors_sum(own)
    part = path.with_name(f".{path.name}.part")
    save_file(own, part, metadata={"sha256": digest})
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)
    _sync(path.parent)
    return digest


def read_tensors(path: Path, expected: str | None = None) -> dict[str, Tensor]:
    """Read named tensors, if they are those that were written (and the `expected` ones)."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise UserError(f"{path}: not a safetensors file: {error}") from None
    if tensors_sum(tensors) != metadata.get("sha256"):
        raise UserError(f"{path}: its checksum is not the one it was written with: damaged")
    if expected is not None and metadata["sha256"] != expected:
        raise UserError(f"{path}: whole, but not the file that belongs here")
    return tensors


def tensors_sum(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of tensors with their names, kinds and shapes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name}\0{t.dtype}\0{list(t.shape)}\0".encode())
        digest.update(t.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Bring tensors to the CPU, each with memory of its own: tied ones would be refused."""
    own: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, t in tensors.items():
        here = t.detach().cpu().contiguous()
        place = here.untyped_storage().data_ptr()
        own[name] = here.clone() if place in places else here
        places.add(place)
    return own


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> None:
    """Write a folder of tensor files and a state with their checksums; rename it when whole."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    sums = {name: write_tensors(part / f"{name}.safetensors", t) for name, t in tensors.items()}
    write_json(part / "state.json", {**state, "tensors": sums})
    part.replace(folder)
    _sync(folder.parent)


def read_checkpoint(folder: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Read a checkpoint back, or say in one line why it cannot be trusted."""
    state = read_json(folder / "state.json")
    sums = state.get("tensors")
    if not isinstance(sums, dict):
        raise UserError(f"{folder / 'state.json'}: it names no tensors")
    tensors = {}
    for name, expected in sums.items():
        file = folder / f"{Path(name).name}.safetensors"  # and never outside of the folder
        if not file.is_file():
            raise UserError(f"{file}: missing")
        tensors[name] = read_tensors(file, expected)
    return tensors, state


def _sync(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
