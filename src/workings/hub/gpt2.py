"""GPT-2 in Hugging Face's layout, `config.json` and `model.safetensors`, read and written.

The two models are the same function; only names differ, and that Hugging Face keeps the matrices of
its linear layers turned over. One table of names serves both ways.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workings.errors import UserError, brief, near, shown
from workings.files import read_bytes
from workings.layers.blocks import EncoderBlock
from workings.layers.norms import LayerNorm
from workings.layers.positions import LearnedPositions
from workings.models.language import (
    LanguageModel,
    TransformerLanguageModel,
    build_language_model,
)
from workings.storage import export_tensors, import_tensors, write_text

WEIGHTS, CONFIG = "model.safetensors", "config.json"
LARGEST_JSON = 256 * 2**20  # a tokenizer's, with room to spare
_EPSILON = 1e-5
_OURS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
}
_THEIRS = {"gelu-tanh": "gelu_new", "gelu": "gelu", "relu": "relu"}
# What GPT-2 is when its config.json does not say; other values would be another function.
_FIXED = {
    "model_type": "gpt2",
    "layer_norm_epsilon": _EPSILON,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_SIZES = {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}


def read_gpt2(folder: Path) -> TransformerLanguageModel:
    """Read a model that Hugging Face's `GPT2LMHeadModel.save_pretrained` wrote."""
    table, vocabulary = model_table(read_config(folder))
    given = _bare(import_tensors(weights_file(folder)))
    if not table["tied"]:
        given.setdefault("lm_head.bias", torch.zeros(vocabulary))  # they have none
    else:
        given.pop("lm_head.weight", None)  # the embedding once more
    layers = table["layers"]
    if f"h.{layers - 1}.ln_1.weight" not in given:
        raise UserError(f"{folder / WEIGHTS}: it has not the {layers:,} layers of {CONFIG}")
    with torch.device("meta"):  # shapes without numbers: nothing is made before all fits
        model = build_language_model(table, vocabulary)
    assert isinstance(model, TransformerLanguageModel)
    names = dict(_names(layers, tied=table["tied"]))
    if strange := sorted(given.keys() - {theirs for theirs, _ in names.values()}):
        raise UserError(f"{folder / WEIGHTS}: {brief(strange[0])} is no part of a GPT-2")
    weights = {}
    for ours, expected in model.state_dict().items():
        if ours == "head.weight" and table["tied"]:
            continue
        theirs, turned = names[ours]
        weights[ours] = _fitting(given, theirs, turned, expected, folder / WEIGHTS)
    if table["tied"]:
        weights["head.weight"] = weights["embedding.weight"]
    model.load_state_dict(weights, assign=True)
    return model.eval()


def write_gpt2(
    model: LanguageModel, folder: Path, *, start: int | None = None, stop: int | None = None
) -> None:
    """Write a model into a folder as `GPT2LMHeadModel.from_pretrained` reads it.

    `start` and `stop` are the ids that begin and end a text, where there are such.
    """
    config = _config_of(model)
    held = model.state_dict()
    tied = config["tie_word_embeddings"]
    tensors = {
        theirs if theirs.startswith("lm_head.") else f"transformer.{theirs}": (
            held[ours].T if turned else held[ours]
        )
        for ours, (theirs, turned) in _names(config["n_layer"], tied=tied)
        if theirs != "lm_head.bias"  # nothing but zeros
    }
    export_tensors(folder / WEIGHTS, tensors)
    ends = {"bos_token_id": start, "eos_token_id": stop}
    write_text(folder / CONFIG, json.dumps(config | ends, indent=2) + "\n")


def read_config(folder: Path) -> dict[str, Any]:
    """Read a model's `config.json`."""
    return read_table(folder / CONFIG)


def read_table(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a table."""
    try:
        table = json.loads(read_bytes(path, LARGEST_JSON).decode("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UserError:
        raise
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON") from None
    if not isinstance(table, dict):
        raise UserError(f"{path}: not a table of settings")
    return table


def model_table(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Say a GPT-2's config as a recipe's `[model]` section says it, and how many tokens there are.

    >>> table, vocabulary = model_table({"n_embd": 64, "n_head": 2, "n_layer": 1})
    >>> table["embedding"], table["activation"], vocabulary
    (64, 'gelu-tanh', 50257)
    """
    for key, needed in _FIXED.items():
        if config.get(key, needed) != needed:
            raise UserError(f"{CONFIG}: {key} = {shown(config[key])}: only {needed!r} can be read")
    sizes = {key: config.get(key, usual) for key, usual in _SIZES.items()}
    if config.get("n_inner") is not None:
        sizes["n_inner"] = config["n_inner"]
    for key, size in sizes.items():
        if type(size) is not int or not 0 < size < 2**31:
            raise UserError(f"{CONFIG}: {key} = {shown(size)}: expected a whole number")
    activation = config.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in _OURS:
        raise UserError(
            f"{CONFIG}: activation_function = {shown(activation)}: {near(str(activation), _OURS)}"
        )
    table = {
        "kind": "transformer",
        "embedding": sizes["n_embd"],
        "layers": sizes["n_layer"],
        "heads": sizes["n_head"],
        "hidden": sizes.get("n_inner", 4 * sizes["n_embd"]),
        "positions": "learned",
        "length": sizes["n_positions"],
        "norm": "pre",
        "activation": _OURS[activation],
        "tied": bool(config.get("tie_word_embeddings", True)),
    }
    return table, sizes["vocab_size"]


def _config_of(model: LanguageModel) -> dict[str, Any]:
    """Say what a GPT-2 of this shape is configured as, if it is one."""
    if not isinstance(model, TransformerLanguageModel):
        raise UserError("GPT-2 is a Transformer: a recurrent language model cannot be saved as one")
    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    attention, feed_forward = block.attention, block.feed_forward
    if not isinstance(model.positions, LearnedPositions):
        raise UserError('GPT-2 has learned positions: only model.positions = "learned" fits')
    if not isinstance(model.norm, LayerNorm):
        raise UserError('GPT-2 has its norms before its layers: only model.norm = "pre" fits')
    if attention.shared_heads != attention.heads:
        raise UserError("GPT-2 has keys and values for every head: model.shared_heads does not fit")
    tied = model.head.weight is model.embedding.weight
    if not tied and bool(model.head.bias.any()):
        raise UserError("GPT-2's head has no bias: only model.tied = true fits a trained model")
    return {
        "architectures": ["GPT2LMHeadModel"],
        **_FIXED,
        "vocab_size": model.embedding.num_embeddings,
        "n_positions": len(model.positions.table),
        "n_embd": model.embedding.embedding_dim,
        "n_layer": len(model.blocks),
        "n_head": attention.heads,
        "n_inner": feed_forward.inner.out_features,
        "activation_function": _THEIRS[feed_forward.activation],
        "tie_word_embeddings": tied,
    }


def _names(layers: int, *, tied: bool) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Our name of each tensor, theirs, and whether theirs is turned over."""
    yield "embedding.weight", ("wte.weight", False)
    yield "positions.table", ("wpe.weight", False)
    for k in range(layers):
        ours, theirs = f"blocks.{k}", f"h.{k}"
        yield from _norm(f"{ours}.around_attention.norm", f"{theirs}.ln_1")
        yield from _linear(f"{ours}.attention.project", f"{theirs}.attn.c_attn")
        yield from _linear(f"{ours}.attention.output", f"{theirs}.attn.c_proj")
        yield from _norm(f"{ours}.around_feed_forward.norm", f"{theirs}.ln_2")
        yield from _linear(f"{ours}.feed_forward.inner", f"{theirs}.mlp.c_fc")
        yield from _linear(f"{ours}.feed_forward.outer", f"{theirs}.mlp.c_proj")
    yield from _norm("norm", "ln_f")
    if not tied:
        yield "head.weight", ("lm_head.weight", False)
        yield "head.bias", ("lm_head.bias", False)


def _linear(ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    yield f"{ours}.weight", (f"{theirs}.weight", True)
    yield f"{ours}.bias", (f"{theirs}.bias", False)


def _norm(ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    yield f"{ours}.gamma", (f"{theirs}.weight", False)
    yield f"{ours}.beta", (f"{theirs}.bias", False)


def _bare(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Leave out the prefix, which older files lack, and the masks that some of those have."""
    named = {name.removeprefix("transformer."): t for name, t in given.items()}
    masks = (".attn.bias", ".attn.masked_bias")
    return {name: t for name, t in named.items() if not name.endswith(masks)}


def _fitting(
    given: Mapping[str, Tensor], name: str, turned: bool, expected: Tensor, path: Path
) -> nn.Parameter:
    """Take a tensor, the right way up and in the shape that is expected."""
    if name not in given:
        raise UserError(f"{path}: {name} is missing")
    found = given[name]
    shape = tuple(expected.T.shape if turned else expected.shape)
    if tuple(found.shape) != shape or not found.is_floating_point():
        kind = str(found.dtype).removeprefix("torch.")
        raise UserError(
            f"{path}: {name} is of shape {tuple(found.shape)} and {kind}: "
            f"{CONFIG} promises {shape} and floats"
        )
    return nn.Parameter((found.T if turned else found).float().contiguous())


def weights_file(folder: Path) -> Path:
    """Find the weights of a model in Hugging Face's layout: one file, of tensors alone."""
    if (folder / WEIGHTS).exists():
        return folder / WEIGHTS
    if any(folder.glob("*.bin")):
        raise UserError(
            f"{folder}: its weights are a .bin file, and reading one can run anything: save them "
            "as safetensors, model.save_pretrained(folder, safe_serialization=True)"
        )
    if (folder / f"{WEIGHTS}.index.json").exists():
        raise UserError(
            f"{folder}: its weights are in several files: save them in one, "
            'model.save_pretrained(folder, max_shard_size="100GB")'
        )
    raise UserError(f"{folder}: it has no {WEIGHTS}")
