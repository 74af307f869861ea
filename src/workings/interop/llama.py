"""Llama in Hugging Face's format: its settings and tensors."""

from collections.abc import Iterator, Mapping
from typing import Any

from workings.errors import UserError
from workings.interop.huggingface import (
    CONFIG_FILE,
    activation_name,
    check_number,
    check_size,
    read_activation,
    read_rotary,
)
from workings.interop.tensor_maps import TensorMapping, map_linear, map_norm, map_qkv, map_tensor

_DEFAULT_SIZES = {
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
}


def convert_llama_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the `[model]` section of a recipe for a Llama's config, and its vocabulary size.

    >>> table, _ = convert_llama_config({"num_attention_heads": 32, "num_key_value_heads": 8})
    >>> table["kv_heads"], table["norm_kind"], table["bias"]
    (8, 'rms', False)
    """
    sizes = {
        key: check_size(key, config.get(key, default)) for key, default in _DEFAULT_SIZES.items()
    }
    heads, d_model = sizes["num_attention_heads"], sizes["hidden_size"]
    kv_heads = config.get("num_key_value_heads")
    kv_heads = heads if kv_heads is None else check_size("num_key_value_heads", kv_heads)
    if config.get("head_dim") not in (None, d_model // heads):
        raise UserError(f"{CONFIG_FILE}: head_dim: expected hidden_size / num_attention_heads")
    bias = bool(config.get("attention_bias", False))
    if bias != bool(config.get("mlp_bias", False)):
        raise UserError(f"{CONFIG_FILE}: attention_bias and mlp_bias: expected the same value")
    base, fraction = read_rotary(config, "rope_theta", "partial_rotary_factor", 1.0)
    table = {
        "kind": "transformer",
        "d_model": d_model,
        "layers": sizes["num_hidden_layers"],
        "heads": heads,
        "kv_heads": None if kv_heads == heads else kv_heads,
        "d_ff": sizes["intermediate_size"],
        "positions": "rotary",
        "max_positions": sizes["max_position_embeddings"],
        "rotary_base": base,
        "rotary_fraction": fraction,
        "norm": "pre",
        "norm_kind": "rms",
        "norm_eps": check_number("rms_norm_eps", config.get("rms_norm_eps", 1e-6)),
        "activation": read_activation(config, "silu", key="hidden_act"),
        "gated": True,
        "bias": bias,
        "tie_embeddings": bool(config.get("tie_word_embeddings", False)),
    }
    return table, sizes["vocab_size"]


def build_llama_config(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a Llama with the settings of a `[model]` section."""
    return {
        "model_type": "llama",
        "hidden_size": table["d_model"],
        "num_hidden_layers": table["layers"],
        "num_attention_heads": table["heads"],
        "num_key_value_heads": table["kv_heads"] or table["heads"],
        "intermediate_size": table["d_ff"],
        "hidden_act": activation_name(table["activation"]),
        "max_position_embeddings": table["max_positions"],
        "rms_norm_eps": table["norm_eps"],
        "attention_bias": table["bias"],
        "mlp_bias": table["bias"],
        # Versions before 5 of transformers read the first.
        "rope_theta": table["rotary_base"],
        "rope_parameters": {"rope_type": "default", "rope_theta": table["rotary_base"]},
    }


def map_llama_tensors(table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    """Yield our and Llama's names of all tensors but the head's."""
    d_model, bias = table["d_model"], table["bias"]
    kv_width = d_model // table["heads"] * (table["kv_heads"] or table["heads"])
    yield map_tensor("embedding.weight", "model.embed_tokens.weight")
    for k in range(table["layers"]):
        block, hf_block = f"blocks.{k}", f"model.layers.{k}"
        yield from map_norm(
            f"{block}.attention_residual.norm", f"{hf_block}.input_layernorm", bias=False
        )
        projections = [f"{hf_block}.self_attn.{letter}_proj" for letter in "qkv"]
        sizes = (d_model, kv_width, kv_width)
        yield from map_qkv(f"{block}.attention.qkv", projections, sizes, bias=bias)
        yield from map_norm(
            f"{block}.feed_forward_residual.norm",
            f"{hf_block}.post_attention_layernorm",
            bias=False,
        )
        for name, hf_name in (
            ("attention.output", "self_attn.o_proj"),
            ("feed_forward.gate", "mlp.gate_proj"),
            ("feed_forward.inner", "mlp.up_proj"),
            ("feed_forward.outer", "mlp.down_proj"),
        ):
            yield from map_linear(f"{block}.{name}", f"{hf_block}.{hf_name}", bias=bias)
    yield from map_norm("norm", "model.norm", bias=False)
