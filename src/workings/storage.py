"""Files of a run: written beside, renamed when whole, read back only if every byte is as it was.

Tensors are in safetensors, everything else in JSON: nothing that is read here can run.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from workings.errors import UserError, safe_repr, truncate
from workings.io import open_regular_file, read_bytes

FORMAT_VERSION = 2
MAX_JSON_BYTES = 64 * 2**20
MAX_HEADER_BYTES = 16 * 2**20  # of a safetensors file: a hundred thousand tensors
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


class CorruptFileError(UserError):
    """A file that is not as it was written, or not the one that belongs there."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a name to write under; the file gets its own when it is whole, and else is gone."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)  # a rest of a killed process, or a link that leads elsewhere
        yield part
        part.replace(path)
        _fsync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file that is whole or not there."""
    with atomic_write(path) as part, part.open("wb") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a table as JSON, with the format's version and a checksum of it all."""
    write_text(path, _encode_json(data))


def _encode_json(data: Mapping[str, Any]) -> str:
    whole = {"format": FORMAT_VERSION, **data}
    canonical = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    told = {**whole, "sum": hashlib.sha256(canonical.encode()).hexdigest()}
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote, and nothing else."""
    raw = _read_content(path, MAX_JSON_BYTES)
    try:
        data = json.loads(raw.decode("utf-8"))
        given = data.pop("format", None) if isinstance(data, dict) else None
        if given != FORMAT_VERSION:
            raise CorruptFileError(
                f"{path}: format {safe_repr(given)}; this version reads format {FORMAT_VERSION}"
            )
        data.pop("sum", None)
        same = raw == _encode_json(data).encode("utf-8")
    except CorruptFileError:
        raise
    except (ValueError, TypeError, RecursionError):
        raise CorruptFileError(f"{path}: not JSON: the file is damaged") from None
    if not same:
        raise CorruptFileError(f"{path}: its checksum does not fit: damaged, or changed by hand")
    return dict(data)


def _read_content(path: Path, max_bytes: int) -> bytes:
    with _wrap_read_errors(path):
        return read_bytes(path, max_bytes)


@contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    """Call a file damaged that is missing, too large or no file; not one that cannot be read."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise CorruptFileError(f"{path}: missing, or not a file") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UserError as error:
        raise CorruptFileError(str(error)) from None


def file_checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each of the small files of a folder."""
    return {n: hashlib.sha256(_read_content(folder / n, 2**30)).hexdigest() for n in names}


def table_checksum(table: Mapping[str, Any]) -> str:
    """The SHA-256 of a table of plain values."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], run_id: str = "") -> str:
    """Write named tensors as safetensors, with a checksum that is returned, too.

    `belongs` is a word that the file is marked with, to tell it from another run's.
    """
    own = _to_cpu(tensors)
    digest = tensors_checksum(own)
    _write_safetensors(path, own, {"sha256": f"{digest} {run_id}".rstrip()})
    return digest


def export_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors, with the mark that other people's programs look for."""
    _write_safetensors(path, _to_cpu(tensors), {"format": "pt"})


def _to_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().cpu().contiguous() for name, t in tensors.items()}


def _write_safetensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    header, order = _build_header(tensors, metadata)
    with atomic_write(path) as part, part.open("wb") as file:
        file.write(header)
        for name in order:
            file.write(_tensor_bytes(tensors[name]))
        file.flush()
        os.fsync(file.fileno())


def _build_header(
    tensors: Mapping[str, Tensor], metadata: dict[str, str]
) -> tuple[bytes, list[str]]:
    """The head of a safetensors file, and in which order the tensors follow it."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": metadata}
    place = 0
    for name in order:
        t = tensors[name]
        header[name] = {
            "dtype": _DTYPE_NAMES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [place, place + t.nbytes],
        }
        place += t.nbytes
    raw = _encode_header(header)
    return len(raw).to_bytes(8, "little") + raw, order


def _encode_header(header: Mapping[str, Any]) -> bytes:
    raw = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return raw + b" " * (-len(raw) % 8)


def read_tensors(
    path: Path, expected: str | None = None, run_id: str | None = None
) -> dict[str, Tensor]:
    """Read named tensors, if they are those that were written (and the `expected` ones)."""
    with _wrap_read_errors(path):
        digest, _, mark = _read_checksum(path).partition(" ")
        with _wrap_format_errors(path):
            tensors = _load_safetensors(path)
            found = tensors_checksum(tensors)
    if found != digest:
        raise CorruptFileError(f"{path}: its checksum is not the one it was written with: damaged")
    if expected not in (None, digest) or (run_id is not None and mark not in ("", run_id)):
        raise CorruptFileError(f"{path}: whole, but not the file that belongs here")
    return tensors


def import_tensors(path: Path) -> dict[str, Tensor]:
    """Read somebody else's named tensors: nothing says whether they are those that were written."""
    with _wrap_read_errors(path):
        open_regular_file(path).close()  # a file, and no link or pipe
        with _wrap_format_errors(path):
            tensors = _load_safetensors(path)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.float().isfinite().all():
            raise UserError(f"{path}: {truncate(name)} has values that are no numbers, or infinite")
    return tensors


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        # Copies: a tensor of the file itself would change, or end the process, with it.
        names = list(file.keys())
        return {name: file.get_tensor(name).clone() for name in names}


@contextmanager
def _wrap_format_errors(path: Path) -> Iterator[None]:
    """Say of whatever goes wrong, except for want of room, that the file is no safetensors file."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise CorruptFileError(
            f"{path}: not a safetensors file: {truncate(str(error), 150)}"
        ) from None


def _read_checksum(path: Path) -> str:
    """Read the head of a safetensors file, and of it what it says of the tensors' checksum."""
    with open_regular_file(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(os.fstat(file.fileno()).st_size - 8, MAX_HEADER_BYTES):
            raise CorruptFileError(f"{path}: not a safetensors file: a header of {length:,} bytes")
        raw = file.read(length)
    try:
        header = json.loads(raw.decode("utf-8"))
        as_written = isinstance(header, dict) and raw == _encode_header(header)
        metadata = header.get("__metadata__") if as_written else None
    except (ValueError, RecursionError):
        raise CorruptFileError(f"{path}: not a safetensors file: its header is not JSON") from None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("sha256"), str):
        raise CorruptFileError(
            f"{path}: its header is not one that was written here: damaged, or foreign"
        )
    return str(metadata["sha256"])


def tensors_checksum(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of tensors with their names, kinds and shapes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name}\0{t.dtype}\0{list(t.shape)}\0".encode())
        digest.update(_tensor_bytes(t))
    return digest.hexdigest()


def _tensor_bytes(t: Tensor) -> memoryview:
    return t.reshape(-1).view(torch.uint8).numpy().data


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> None:
    """Write a folder of tensor files and a state with their checksums; rename it when whole."""
    with atomic_folder(folder) as part:
        sums = {name: write_tensors(part / f"{name}.safetensors", t) for name, t in tensors.items()}
        write_json(part / "state.json", {**state, "tensors": sums})


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder to write into; it gets its own name when it is whole, and else is gone."""
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        part.mkdir()
        yield part
        part.replace(folder)
        _fsync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def read_checkpoint(folder: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Read a checkpoint back, or say in one line why it cannot be trusted."""
    if folder.is_symlink():
        raise CorruptFileError(f"{folder}: a link, which might lead anywhere")
    state = read_json(folder / "state.json")
    sums = state.get("tensors")
    if not isinstance(sums, dict) or not all(name.isidentifier() for name in sums):
        raise CorruptFileError(f"{folder / 'state.json'}: it names no tensors")
    files = {name: folder / f"{name}.safetensors" for name in sums}
    known = {"state.json", *(file.name for file in files.values())}
    if strange := sorted({p.name for p in folder.iterdir() if p.name[0] != "."} - known):
        raise CorruptFileError(f"{folder}: {truncate(strange[0])} in it is not of it")
    return {name: read_tensors(file, str(sums[name])) for name, file in files.items()}, state


def _fsync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
