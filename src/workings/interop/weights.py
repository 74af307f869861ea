"""The weights of a folder in Hugging Face's format: safetensors or `.bin`, one file or several.

A `.bin` file is a pickle, which could run code. torch reads it with `weights_only=True`: an
unpickler that builds tensors and plain containers, and refuses everything else.
"""

import warnings
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from workings.errors import UserError, safe_repr, truncate
from workings.io import open_regular_file, read_json_object
from workings.storage import check_finite, import_tensors

SAFETENSORS_FILE, BIN_FILE = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"
_MAX_INDEX_BYTES = 64 * 2**20


def find_weights_file(folder: Path) -> Path:
    """Return the path of a model's weights, or of the index of several files with weights."""
    names = [name + suffix for name in (SAFETENSORS_FILE, BIN_FILE) for suffix in ("", _INDEX)]
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise UserError(f"{folder}: no weights: expected {SAFETENSORS_FILE} or {BIN_FILE}")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a file, or of all files of an index; refuse NaN and infinity."""
    if path.name.endswith(_INDEX):
        return _read_shards(path)
    return import_tensors(path) if path.suffix == ".safetensors" else _read_bin(path)


def _read_shards(index: Path) -> dict[str, Tensor]:
    """Read the files that an index names; each must have exactly the tensors listed for it."""
    weight_map = read_json_object(index, _MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(f"{index}: expected a weight_map with the file of each tensor")
    suffix = Path(index.name.removesuffix(_INDEX)).suffix
    names_by_file: dict[str, set[str]] = {}
    for name, file_name in weight_map.items():
        # A path would lead out of the folder.
        if not isinstance(file_name, str) or not file_name.endswith(suffix):
            raise UserError(f"{index}: {safe_repr(file_name)} is not the name of a {suffix} file")
        if Path(file_name).name != file_name or "\\" in file_name:
            raise UserError(f"{index}: {safe_repr(file_name)} is not a file of this folder")
        names_by_file.setdefault(file_name, set()).add(name)
    tensors: dict[str, Tensor] = {}
    for file_name, names in names_by_file.items():
        path = index.with_name(file_name)
        shard = read_weights(path)
        if different := sorted(shard.keys() ^ names):
            where = "in the file" if different[0] in shard else "in the index"
            raise UserError(f"{path}: {truncate(different[0])} is only {where}, not in both")
        tensors |= shard
    return tensors


def _read_bin(path: Path) -> dict[str, Tensor]:
    """Read a `.bin` file of named tensors, in torch's current or its first format."""
    try:
        with open_regular_file(path) as file:  # refuse links, pipes and devices
            size = file.seek(0, 2)
            file.seek(0)
            _check_archive(path, size)
            with warnings.catch_warnings(action="ignore"):  # about torch's first format
                table = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except MemoryError:
        raise UserError(f"{path}: it is damaged, or larger than the memory") from None
    except UserError:
        raise
    except Exception:
        # torch's message of several lines suggests to read the file without the safeguard.
        raise UserError(
            f"{path}: not read: it is damaged, or has more than tensors and could run code"
        ) from None
    return _check_tensors(table, size, path)


def _check_archive(path: Path, size: int) -> None:
    """Refuse a zip archive, torch's current format, whose parts take more memory than the file."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        if sum(info.file_size for info in archive.infolist()) > size:
            raise UserError(f"{path}: its parts are larger than the file: torch writes no such one")


def _check_tensors(table: object, size: int, path: Path) -> dict[str, Tensor]:
    """Return the table if it has named dense tensors only, none larger than the file."""
    if not isinstance(table, dict) or not table:
        raise UserError(f"{path}: expected a dictionary of tensors")
    tensors = {}
    for name, tensor in table.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UserError(f"{path}: {safe_repr(name)} is not a named tensor")
        # A view can repeat one number a billion times: it must not be copied.
        if (
            type(tensor) not in (Tensor, torch.nn.Parameter)
            or tensor.layout != torch.strided
            or not tensor.is_cpu
            or tensor.is_quantized
            or tensor.nbytes > size
        ):
            raise UserError(f"{path}: {truncate(name)} is not a tensor of plain numbers")
        tensors[name] = tensor.detach()
    check_finite(tensors, path)
    return tensors
