"""Files of a run: JSON and tensors with checksums, written atomically and verified when read.

Tensors are stored as safetensors, everything else as JSON: reading cannot run code.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from workings.errors import UserError, truncate
from workings.io import atomic_folder, atomic_write, open_regular_file, resolve_cache_link
from workings.json_files import (
    CorruptFileError,
    file_checksums,
    read_json,
    table_checksum,
    wrap_read_errors,
    write_json,
)

__all__ = [
    "CorruptFileError",
    "check_finite",
    "export_tensors",
    "file_checksums",
    "import_tensors",
    "read_checkpoint",
    "read_json",
    "read_tensors",
    "table_checksum",
    "tensors_checksum",
    "write_checkpoint",
    "write_json",
    "write_tensors",
]

MAX_HEADER_BYTES = 16 * 2**20  # of a safetensors file: room for a hundred thousand tensors
_DTYPE_NAMES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


# -- tensors ---------------------------------------------------------------------------------------


def write_tensors(path: Path, tensors: Mapping[str, Tensor], run_id: str = "") -> str:
    """Write named tensors as safetensors; return their checksum, which is in the file as well.

    `run_id` marks the file, so that the weights of another run are not taken for it.
    """
    on_cpu = _to_cpu(tensors)
    checksum = tensors_checksum(on_cpu)
    _write_safetensors(path, on_cpu, {"sha256": f"{checksum} {run_id}".rstrip()})
    return checksum


def export_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors with the metadata that Hugging Face expects."""
    _write_safetensors(path, _to_cpu(tensors), {"format": "pt"})


def _to_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().cpu().contiguous() for name, t in tensors.items()}


def _write_safetensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    header, order = _build_header(tensors, metadata)
    with atomic_write(path) as file:
        file.write(header)
        for name in order:
            file.write(_tensor_bytes(tensors[name]))


def _build_header(
    tensors: Mapping[str, Tensor], metadata: dict[str, str]
) -> tuple[bytes, list[str]]:
    """Return the header of a safetensors file, and the order in which the tensors follow it."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name in order:
        t = tensors[name]
        header[name] = {
            "dtype": _DTYPE_NAMES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [offset, offset + t.nbytes],
        }
        offset += t.nbytes
    raw = _encode_header(header)
    return len(raw).to_bytes(8, "little") + raw, order


def _encode_header(header: Mapping[str, Any]) -> bytes:
    raw = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return raw + b" " * (-len(raw) % 8)


def read_tensors(
    path: Path, expected: str | None = None, run_id: str | None = None
) -> dict[str, Tensor]:
    """Read named tensors and verify their checksum.

    Raise CorruptFileError if it differs, is not the `expected` one, or the file is not marked with
    the run's id.
    """
    with wrap_read_errors(path):
        checksum, _, mark = _read_checksum(path).partition(" ")
        with _wrap_format_errors(path):
            tensors = _load_safetensors(path)
            actual = tensors_checksum(tensors)
    if actual != checksum:
        raise CorruptFileError(f"{path}: wrong checksum: the file is damaged")
    if expected not in (None, checksum) or run_id not in (None, mark):
        raise CorruptFileError(f"{path}: intact, but it belongs to another checkpoint or run")
    return tensors


def import_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors of a foreign file, which has no checksum; refuse NaN and infinity."""
    with wrap_read_errors(path):
        open_regular_file(path).close()  # refuse links, pipes and devices
        with _wrap_format_errors(path):
            tensors = _load_safetensors(resolve_cache_link(path))
    check_finite(tensors, path)
    return tensors


def check_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise UserError if a tensor of a foreign file has NaN or infinite values."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        extremes = tensor.float().aminmax()  # NaN if any value is: one pass, without a copy
        if not all(map(math.isfinite, (extremes.min.item(), extremes.max.item()))):
            raise UserError(f"{path}: {truncate(name)} has NaN or infinite values")


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        # Clone: a memory-mapped tensor would change with the file, or crash if it is truncated.
        names = list(file.keys())
        return {name: file.get_tensor(name).clone() for name in names}


@contextmanager
def _wrap_format_errors(path: Path) -> Iterator[None]:
    """Report every error but OSError and MemoryError as an invalid safetensors file."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if "Cannot allocate memory" in str(error):
            raise UserError(f"{path}: too little memory to read it") from None
        raise CorruptFileError(
            f"{path}: not a safetensors file: {truncate(str(error), 150)}"
        ) from None


def _read_checksum(path: Path) -> str:
    """Read the checksum, and the run id behind it, from the header of a safetensors file."""
    with open_regular_file(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(os.fstat(file.fileno()).st_size - 8, MAX_HEADER_BYTES):
            raise CorruptFileError(f"{path}: not a safetensors file: a header of {length:,} bytes")
        raw = file.read(length)
    try:
        header = json.loads(raw.decode("utf-8"))
        is_unchanged = isinstance(header, dict) and raw == _encode_header(header)
        metadata = header.get("__metadata__") if is_unchanged else None
    except (ValueError, RecursionError):
        raise CorruptFileError(f"{path}: not a safetensors file: its header is not JSON") from None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("sha256"), str):
        raise CorruptFileError(
            f"{path}: the header has no checksum: damaged, or not written by workings"
        )
    return str(metadata["sha256"])


def tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors with their names, dtypes and shapes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name}\0{t.dtype}\0{list(t.shape)}\0".encode())
        digest.update(_tensor_bytes(t))
    return digest.hexdigest()


def _tensor_bytes(t: Tensor) -> memoryview:
    return t.reshape(-1).view(torch.uint8).numpy().data


# -- checkpoints -----------------------------------------------------------------------------------


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> None:
    """Write a checkpoint atomically: a folder of tensor files, and a state with their checksums.

    The tensor files carry the run's id as well, if the state has it.
    """
    run_id = str(state.get("run_id", ""))
    with atomic_folder(folder) as part:
        sums = {
            name: write_tensors(part / f"{name}.safetensors", named, run_id)
            for name, named in tensors.items()
        }
        write_json(part / "state.json", {**state, "tensors": sums})


def read_checkpoint(folder: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Read the tensors and the state of a checkpoint; refuse it if any file differs."""
    if folder.is_symlink():
        raise CorruptFileError(f"{folder}: a symbolic link: expected a folder")
    state = read_json(folder / "state.json")
    sums = state.get("tensors")
    if not isinstance(sums, dict) or not all(name.isidentifier() for name in sums):
        raise CorruptFileError(f"{folder / 'state.json'}: has no valid list of tensor files")
    files = {name: folder / f"{name}.safetensors" for name in sums}
    known = {"state.json", *(file.name for file in files.values())}
    if unknown := sorted({p.name for p in folder.iterdir() if p.name[0] != "."} - known):
        raise CorruptFileError(f"{folder}: {truncate(unknown[0])} is not part of the checkpoint")
    return {name: read_tensors(file, str(sums[name])) for name, file in files.items()}, state
