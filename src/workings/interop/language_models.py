"""Decoder-only Transformers in Hugging Face's format, read and written: GPT-2, GPT-NeoX, Llama.

Each of these layouts is a table of settings and one of tensors. Reading and writing are the same.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workings.config import toml_value
from workings.errors import UserError, did_you_mean
from workings.interop.gpt2 import build_gpt2_config, convert_gpt2_config, map_gpt2_tensors
from workings.interop.gpt_neox import (
    build_gpt_neox_config,
    convert_gpt_neox_config,
    map_gpt_neox_tensors,
)
from workings.interop.huggingface import CONFIG_FILE, WEIGHTS_FILE, write_json
from workings.interop.llama import build_llama_config, convert_llama_config, map_llama_tensors
from workings.interop.tensor_maps import TensorMapping, join_tensors, map_tensor, split_tensors
from workings.interop.weights import find_weights_file, read_weights
from workings.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from workings.layers.transformer import EncoderBlock, RMSNorm
from workings.models.language import LanguageModel, TransformerLM, build_language_model
from workings.modules import meta_device
from workings.storage import export_tensors


@dataclass(frozen=True)
class Layout:
    """A kind of language model in Hugging Face's format."""

    title: str
    architecture: str
    prefix: str
    """of the names of all tensors but the head's; older files lack it"""
    head: str
    """name of the head's matrix, which a tied model lacks"""
    last_block: str
    """name of a tensor of the block with a number"""
    required: Mapping[str, Any]
    """settings of our `[model]` that such a model has"""
    convert_config: Callable[[Mapping[str, Any]], tuple[dict[str, Any], int]]
    """returns the `[model]` section for a config, and its vocabulary size"""
    build_config: Callable[[Mapping[str, Any]], dict[str, Any]]
    """returns the config for a `[model]` section"""
    map_tensors: Callable[[Mapping[str, Any]], Iterator[TensorMapping]]
    """yields all tensors but the head's, with the prefix"""


LAYOUTS = {
    "gpt2": Layout(
        "GPT-2",
        "GPT2LMHeadModel",
        "transformer.",
        "lm_head.weight",
        "transformer.h.{}.ln_1.weight",
        {
            "positions": "learned",
            "norm": "pre",
            "norm_kind": "layer",
            "parallel_residual": False,
            "kv_heads": None,
            "gated": False,
            "bias": True,
        },
        convert_gpt2_config,
        build_gpt2_config,
        map_gpt2_tensors,
    ),
    "gpt-neox": Layout(
        "GPT-NeoX",
        "GPTNeoXForCausalLM",
        "gpt_neox.",
        "embed_out.weight",
        "gpt_neox.layers.{}.input_layernorm.weight",
        {
            "positions": "rotary",
            "norm": "pre",
            "norm_kind": "layer",
            "kv_heads": None,
            "gated": False,
            "bias": True,
        },
        convert_gpt_neox_config,
        build_gpt_neox_config,
        map_gpt_neox_tensors,
    ),
    "llama": Layout(
        "Llama",
        "LlamaForCausalLM",
        "model.",
        "lm_head.weight",
        "model.layers.{}.input_layernorm.weight",
        {
            "positions": "rotary",
            "rotary_fraction": 1.0,
            "norm": "pre",
            "norm_kind": "rms",
            "parallel_residual": False,
            "gated": True,
        },
        convert_llama_config,
        build_llama_config,
        map_llama_tensors,
    ),
}
"""The layouts by the name that `workings export --to` has."""
MODEL_TYPES = {"gpt2": "gpt2", "gpt_neox": "gpt-neox", "llama": "llama"}
"""The layout of each `model_type` of a config."""

DEFAULT_MAX_POSITIONS = 2048
"""Of a model with rotary positions, which has no limit here."""

# Buffers that files of older versions have: attention masks and the angles of rotary positions.
_BUFFERS = (".attn.bias", ".attn.masked_bias", "attention.bias", ".masked_bias", ".inv_freq")


def find_layout(config: Mapping[str, Any]) -> Layout:
    """Return the layout of a config."""
    model_type = config.get("model_type", "gpt2")
    if not isinstance(model_type, str) or model_type not in MODEL_TYPES:
        name = model_type if isinstance(model_type, str) else ""
        raise UserError(
            f"{CONFIG_FILE}: model_type = {name!r} is not supported: "
            f"{did_you_mean(name, MODEL_TYPES)}"
        )
    return LAYOUTS[MODEL_TYPES[model_type]]


def read_language_model(folder: Path, config: Mapping[str, Any]) -> TransformerLM:
    """Read a model that `save_pretrained` of one of Hugging Face's language models wrote."""
    layout = find_layout(config)
    table, vocab_size = layout.convert_config(config)
    path = find_weights_file(folder)
    tensors = _normalize_names(read_weights(path), layout)
    layers, is_tied = table["layers"], table["tie_embeddings"]
    if is_tied:
        tensors.pop(layout.head, None)  # a copy of the embedding
    if layout.last_block.format(layers - 1) not in tensors:
        raise UserError(f"{path}: fewer than the {layers:,} layers of {CONFIG_FILE}")
    with meta_device():  # no memory is allocated before all shapes match
        model = build_language_model(table, vocab_size)
    assert isinstance(model, TransformerLM)
    weights = join_tensors(model, _map_all(layout, table), tensors, layout.title, path)
    if is_tied:
        weights["head.weight"] = weights["embedding.weight"]
    else:  # ours has a bias, theirs has none
        weights["head.bias"] = nn.Parameter(torch.zeros(vocab_size))
    model.load_state_dict(weights, assign=True)
    _rebuild_buffers(model)
    return model.eval()


def write_language_model(
    model: LanguageModel,
    folder: Path,
    layout_name: str,
    *,
    max_positions: int = DEFAULT_MAX_POSITIONS,
    bos_id: int | None = None,
    eos_id: int | None = None,
) -> None:
    """Write a model into a folder as `AutoModelForCausalLM.from_pretrained` reads it.

    `max_positions` is the longest text for a model without learned positions.
    `bos_id` and `eos_id` are the ids that begin and end a text, if there are any.
    """
    layout, table = LAYOUTS[layout_name], check_language_model(model, layout_name)
    export_tensors(
        folder / WEIGHTS_FILE, split_tensors(model.state_dict(), _map_all(layout, table))
    )
    config = {
        "architectures": [layout.architecture],
        **layout.build_config({"max_positions": max_positions, **table}),
        "vocab_size": model.embedding.num_embeddings,
        "tie_word_embeddings": table["tie_embeddings"],
        "bos_token_id": bos_id,
        "eos_token_id": eos_id,
    }
    write_json(folder / CONFIG_FILE, config)


def check_language_model(model: LanguageModel, layout_name: str) -> dict[str, Any]:
    """Return a model's `[model]` section; raise UserError if it does not fit a layout.

    A model on the meta device stands for a trained one, whose output layer has a bias.
    """
    layout = LAYOUTS[layout_name]
    if not isinstance(model, TransformerLM):
        raise UserError(
            f"{layout.title} is a Transformer: a recurrent model cannot be saved as one"
        )
    table = read_settings(model)
    for key, value in layout.required.items():
        if table[key] != value:
            raise UserError(
                f"a {layout.title} has model.{key} = {_format(value)}, not {_format(table[key])}"
            )
    bias = model.head.bias
    if not table["tie_embeddings"] and (bias.is_meta or bool(bias.any())):
        raise UserError(
            f"a {layout.title} has no bias in its output layer: "
            "expected model.tie_embeddings = true"
        )
    return table


def read_settings(model: TransformerLM) -> dict[str, Any]:
    """Return a model's `[model]` section; max_positions only with learned positions."""
    block, positions = model.blocks[0], model.positions
    assert isinstance(block, EncoderBlock)
    attention, feed_forward, norm = (
        block.attention,
        block.feed_forward,
        block.attention_residual.norm,
    )
    table: dict[str, Any] = {
        "d_model": attention.d_model,
        "layers": len(model.blocks),
        "heads": attention.heads,
        "kv_heads": None if attention.kv_heads == attention.heads else attention.kv_heads,
        "d_ff": feed_forward.inner.out_features,
        "positions": "rotary",
        "norm": block.attention_residual.norm_placement,
        "norm_kind": "rms" if isinstance(norm, RMSNorm) else "layer",
        "norm_eps": norm.eps,
        "parallel_residual": block.is_parallel,
        "activation": feed_forward.activation,
        "gated": feed_forward.gate is not None,
        "bias": attention.qkv.bias is not None,
        "tie_embeddings": model.head.weight is model.embedding.weight,
    }
    if isinstance(positions, LearnedPositions):
        table |= {"positions": "learned", "max_positions": len(positions.table)}
    elif isinstance(positions, SinusoidalPositions):
        table["positions"] = "sinusoidal"
    elif attention.rotary is not None:
        table["rotary_base"] = attention.rotary.base
        table["rotary_fraction"] = attention.rotary.width / attention.d_head
    return table


def _map_all(layout: Layout, table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    yield from layout.map_tensors(table)
    if not table["tie_embeddings"]:
        yield map_tensor("head.weight", layout.head)


def _normalize_names(tensors: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Add the prefix that older files lack, and leave out their buffers."""
    return {
        name if name.startswith(layout.prefix) or name == layout.head else layout.prefix + name: t
        for name, t in tensors.items()
        if not name.endswith(_BUFFERS)
    }


def _rebuild_buffers(model: TransformerLM) -> None:
    """Compute the angles of rotary positions, which a model on the meta device lacks."""
    for block in model.blocks:
        assert isinstance(block, EncoderBlock)
        if block.attention.rotary is not None:
            rotary = block.attention.rotary
            block.attention.rotary = RotaryPositions(rotary.width, base=rotary.base)


def _format(value: Any) -> str:
    return "none" if value is None else toml_value(value)
