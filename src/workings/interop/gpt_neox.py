"""GPT-NeoX (Pythia) in Hugging Face's format: its settings and tensors."""

from collections.abc import Iterator, Mapping
from typing import Any

from workings.interop.huggingface import (
    activation_name,
    check_number,
    check_settings,
    check_size,
    read_activation,
    read_rotary,
)
from workings.interop.tensor_maps import (
    TensorMapping,
    map_interleaved_qkv,
    map_linear,
    map_norm,
    map_tensor,
)

_DEFAULT_SIZES = {
    "vocab_size": 50432,
    "max_position_embeddings": 2048,
    "hidden_size": 6144,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "intermediate_size": 24576,
}


def convert_gpt_neox_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the `[model]` section of a recipe for a GPT-NeoX's config, and its vocabulary size.

    >>> table, _ = convert_gpt_neox_config({"hidden_size": 64, "rotary_pct": 0.5})
    >>> table["d_model"], table["rotary_fraction"], table["parallel_residual"]
    (64, 0.5, True)
    """
    check_settings(config, {"attention_bias": True}, defaults={})
    sizes = {
        key: check_size(key, config.get(key, default)) for key, default in _DEFAULT_SIZES.items()
    }
    base, fraction = read_rotary(config, "rotary_emb_base", "rotary_pct", 0.25)
    table = {
        "kind": "transformer",
        "d_model": sizes["hidden_size"],
        "layers": sizes["num_hidden_layers"],
        "heads": sizes["num_attention_heads"],
        "d_ff": sizes["intermediate_size"],
        "positions": "rotary",
        "max_positions": sizes["max_position_embeddings"],
        "rotary_base": base,
        "rotary_fraction": fraction,
        "norm": "pre",
        "norm_eps": check_number("layer_norm_eps", config.get("layer_norm_eps", 1e-5)),
        "parallel_residual": bool(config.get("use_parallel_residual", True)),
        "activation": read_activation(config, "gelu", key="hidden_act"),
        "tie_embeddings": bool(config.get("tie_word_embeddings", False)),
    }
    return table, sizes["vocab_size"]


def build_gpt_neox_config(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a GPT-NeoX with the settings of a `[model]` section."""
    return {
        "model_type": "gpt_neox",
        "hidden_size": table["d_model"],
        "num_hidden_layers": table["layers"],
        "num_attention_heads": table["heads"],
        "intermediate_size": table["d_ff"],
        "hidden_act": activation_name(table["activation"]),
        "max_position_embeddings": table["max_positions"],
        "layer_norm_eps": table["norm_eps"],
        "use_parallel_residual": table["parallel_residual"],
        "attention_bias": True,
        # Versions before 5 of transformers read the first two.
        "rotary_emb_base": table["rotary_base"],
        "rotary_pct": table["rotary_fraction"],
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": table["rotary_base"],
            "partial_rotary_factor": table["rotary_fraction"],
        },
    }


def map_gpt_neox_tensors(table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    """Yield our and GPT-NeoX's names of all tensors but the head's."""
    yield map_tensor("embedding.weight", "gpt_neox.embed_in.weight")
    for k in range(table["layers"]):
        block, hf_block = f"blocks.{k}", f"gpt_neox.layers.{k}"
        yield from map_norm(f"{block}.attention_residual.norm", f"{hf_block}.input_layernorm")
        for part in ("weight", "bias"):
            hf_name = f"{hf_block}.attention.query_key_value.{part}"
            yield map_interleaved_qkv(f"{block}.attention.qkv.{part}", hf_name, table["heads"])
        yield from map_linear(f"{block}.attention.output", f"{hf_block}.attention.dense")
        yield from map_norm(
            f"{block}.feed_forward_residual.norm", f"{hf_block}.post_attention_layernorm"
        )
        yield from map_linear(f"{block}.feed_forward.inner", f"{hf_block}.mlp.dense_h_to_4h")
        yield from map_linear(f"{block}.feed_forward.outer", f"{hf_block}.mlp.dense_4h_to_h")
    yield from map_norm("norm", "gpt_neox.final_layer_norm")
