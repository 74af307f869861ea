"""Files of a run: written beside, renamed when whole, read back only if their checksums fit."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
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
    """Write a table as JSON, with the format's version."""
    write_text(
        path,
        json.dumps({"format": FORMAT, **data}, indent=1, ensure_ascii=False) + "\n",
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON: the file is damaged") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise UserError(f"{path}: format {found!r}; this version reads format {FORMAT}")
    return data


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors."""
    part = path.with_name(f".{path.name}.part")
    save_file({name: t.detach().contiguous().cpu() for name, t in tensors.items()}, part)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)
    _sync(path.parent)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise
    except Exception as error:  # the reader's errors are Rust's; all of them mean one thing
        raise UserError(f"{path}: not a safetensors file: {error}") from None


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> None:
    """Write a folder of tensor files and a state with their checksums; rename it when whole."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    sums = {}
    for name, named in tensors.items():
        file = part / f"{name}.safetensors"
        write_tensors(file, named)
        sums[file.name] = checksum(file)
    write_json(part / "state.json", {**state, "checksums": sums})
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)
    _sync(folder.parent)


def read_checkpoint(
    folder: Path,
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Read a checkpoint back, or say in one line why it cannot be trusted."""
    state = read_json(folder / "state.json")
    tensors = {}
    for name, expected in state["checksums"].items():
        file = folder / Path(name).name
        if checksum(file) != expected:
            raise UserError(f"{file}: its checksum is not the one it was written with: damaged")
        tensors[file.stem] = read_tensors(file)
    return tensors, state


def _sync(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
