"""What all models have in common in Hugging Face's format: config, weights and byte pairs."""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import read_json_object, write_text

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
MAX_JSON_BYTES = 256 * 2**20  # several times the size of a large tokenizer

_ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "swish": "silu",
    "silu": "silu",
}
"""Our name of each of Hugging Face's activation functions; of several, the first is written."""


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a model."""
    return read_json_object(folder / CONFIG_FILE, MAX_JSON_BYTES)


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a JSON file with indentation, as Hugging Face does."""
    write_text(path, json.dumps(table, indent=2) + "\n")


def check_settings(
    config: Mapping[str, Any], required: Mapping[str, Any], defaults: Mapping[str, Any]
) -> None:
    """Raise UserError if a setting, or its default, is not the required value."""
    for key, value in required.items():
        actual = config.get(key, defaults.get(key, value))
        if actual != value:
            raise UserError(
                f"{CONFIG_FILE}: {key} = {safe_repr(actual)} is not supported: expected {value!r}"
            )


def check_size(key: str, value: object) -> int:
    """Return a size of a config; raise UserError unless it is a positive integer."""
    if type(value) is not int or not 0 < value < 2**31:
        raise UserError(f"{CONFIG_FILE}: {key} = {safe_repr(value)}: expected a positive integer")
    return value


def check_number(key: str, value: object) -> float:
    """Return a number of a config; raise UserError unless it is positive and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UserError(f"{CONFIG_FILE}: {key} = {safe_repr(value)}: expected a positive number")
    return float(value)


def read_rotary(
    config: Mapping[str, Any], base_key: str, fraction_key: str, default_fraction: float
) -> tuple[float, float]:
    """Return base and fraction of a config's rotary positions; refuse scaled angles.

    Version 5 of transformers has them in `rope_parameters`, earlier ones under keys that differ
    from model to model.
    """
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise UserError(f"{CONFIG_FILE}: rope_parameters: expected a table")
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        raise UserError(
            f"{CONFIG_FILE}: rope_type = {safe_repr(kind)} is not supported: expected 'default'"
        )
    base = rope.get("rope_theta", config.get(base_key, 10_000.0))
    fraction = rope.get("partial_rotary_factor", config.get(fraction_key, default_fraction))
    base, fraction = check_number(base_key, base), check_number(fraction_key, fraction)
    if fraction > 1:
        raise UserError(f"{CONFIG_FILE}: {fraction_key} = {fraction}: expected at most 1")
    return base, fraction


def read_activation(
    config: Mapping[str, Any],
    default: str,
    supported: Collection[str] = frozenset(_ACTIVATIONS.values()),
    *,
    key: str = "activation_function",
) -> str:
    """Return our name of a config's activation function, which must be one of `supported`."""
    name = config.get(key, default)
    choices = [theirs for theirs, ours in _ACTIVATIONS.items() if ours in supported]
    if name not in choices:
        raise UserError(
            f"{CONFIG_FILE}: {key} = {safe_repr(name)}: {did_you_mean(str(name), choices)}"
        )
    return _ACTIVATIONS[name]


def activation_name(activation: str) -> str:
    """Return Hugging Face's name of our activation function.

    >>> activation_name("gelu-tanh"), activation_name("silu")
    ('gelu_new', 'swish')
    """
    return next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == activation)


def check_tensor_names(
    tensors: Mapping[str, Tensor], expected: Iterable[str], model: str, path: Path
) -> None:
    """Raise UserError if there is a tensor that the model does not have."""
    if unexpected := sorted(tensors.keys() - set(expected)):
        raise UserError(f"{path}: {truncate(unexpected[0])} is not a tensor of a {model}")


def get_tensor(
    tensors: Mapping[str, Tensor], name: str, shape: Sequence[int], path: Path
) -> Tensor:
    """Return a tensor; raise UserError if it is missing, of another shape, or not of floats."""
    if name not in tensors:
        raise UserError(f"{path}: {name} is missing")
    tensor = tensors[name]
    if tuple(tensor.shape) != tuple(shape) or not tensor.is_floating_point():
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise UserError(
            f"{path}: {name} is of shape {tuple(tensor.shape)} and {dtype}: "
            f"expected {tuple(shape)} and floats, by {CONFIG_FILE}"
        )
    return tensor


def read_byte_pairs(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Read the vocabulary and the merges of a byte-level BPE tokenizer, a `tokenizer.json`."""
    table = read_json_object(path, MAX_JSON_BYTES)
    model, pre_tokenizer = table.get("model"), table.get("pre_tokenizer")
    if (
        not isinstance(model, dict)
        or model.get("type") != "BPE"
        or not _is_byte_level(pre_tokenizer)
    ):
        raise UserError(f"{path}: this tokenizer is not supported: expected GPT-2's byte-level BPE")
    ids, merges, added = model.get("vocab"), model.get("merges"), table.get("added_tokens", [])
    if not isinstance(ids, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise UserError(f"{path}: expected a vocabulary and merges")
    added_ids = {str(t.get("content")): t.get("id") for t in added if isinstance(t, dict)}
    return ids | added_ids, [parse_merge(merge, path) for merge in merges]


def _is_byte_level(pre_tokenizer: object) -> bool:
    """Return True if texts are split by GPT-2's pattern."""
    return (
        isinstance(pre_tokenizer, dict)
        and pre_tokenizer.get("type") == "ByteLevel"
        and not pre_tokenizer.get("add_prefix_space", True)
        and bool(pre_tokenizer.get("use_regex", True))
    )


def parse_merge(merge: object, path: Path) -> tuple[str, str]:
    """Return a merge, which files have as a string with a space or as two strings."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(p, str) for p in parts):
        raise UserError(f"{path}: {truncate(safe_repr(merge))} is not a merge of two tokens")
    return parts[0], parts[1]


def read_token_ids(path: Path) -> dict[str, int]:
    """Read a `vocab.json`: an id for each token."""
    return check_token_ids(read_json_object(path, MAX_JSON_BYTES), path)


def check_token_ids(table: dict[str, Any], path: Path) -> dict[str, int]:
    """Return the ids of a file's tokens; raise UserError unless each token has one of its own."""
    if any(type(n) is not int or n < 0 for n in table.values()):
        raise UserError(f"{path}: expected an id of at least 0 for each token")
    if len(set(table.values())) != len(table):
        raise UserError(f"{path}: two tokens have the same id")
    return table
