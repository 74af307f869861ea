"""GPT-2 in Hugging Face's format: its settings, tensors and tokenizer."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workings.data.tokenizers.byte_pair import GPT2Tokenizer
from workings.errors import UserError, truncate
from workings.interop.huggingface import (
    CONFIG_FILE,
    MAX_JSON_BYTES,
    TOKENIZER_FILE,
    activation_name,
    check_number,
    check_settings,
    check_size,
    parse_merge,
    read_activation,
    read_byte_pairs,
)
from workings.interop.tensor_maps import TensorMapping, map_norm, map_tensor, map_transposed
from workings.io import read_bytes, read_json_object

VOCABULARY_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_END_OF_TEXT = "<|endoftext|>"
# The defaults of GPT-2's config; other values would be another function.
_REQUIRED_SETTINGS = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_DEFAULT_SIZES = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
}


def convert_gpt2_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the `[model]` section of a recipe for a GPT-2's config, and its vocabulary size.

    >>> table, vocab_size = convert_gpt2_config({"n_embd": 64, "n_head": 2, "n_layer": 1})
    >>> table["d_model"], table["activation"], vocab_size
    (64, 'gelu-tanh', 50257)
    """
    check_settings(config, _REQUIRED_SETTINGS, defaults={})
    sizes = {
        key: check_size(key, config.get(key, default)) for key, default in _DEFAULT_SIZES.items()
    }
    if config.get("n_inner") is None:
        d_ff = 4 * sizes["n_embd"]
    else:
        d_ff = check_size("n_inner", config["n_inner"])
    table = {
        "kind": "transformer",
        "d_model": sizes["n_embd"],
        "layers": sizes["n_layer"],
        "heads": sizes["n_head"],
        "d_ff": d_ff,
        "positions": "learned",
        "max_positions": sizes["n_positions"],
        "norm": "pre",
        "norm_eps": check_number("layer_norm_epsilon", config.get("layer_norm_epsilon", 1e-5)),
        "activation": read_activation(config, "gelu_new"),
        "tie_embeddings": bool(config.get("tie_word_embeddings", True)),
    }
    return table, sizes["vocab_size"]


def build_gpt2_config(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a GPT-2 with the settings of a `[model]` section."""
    return {
        **_REQUIRED_SETTINGS,
        "layer_norm_epsilon": table["norm_eps"],
        "n_positions": table["max_positions"],
        "n_embd": table["d_model"],
        "n_layer": table["layers"],
        "n_head": table["heads"],
        "n_inner": table["d_ff"],
        "activation_function": activation_name(table["activation"]),
    }


def map_gpt2_tensors(table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    """Yield our and GPT-2's names of all tensors but the head's.

    Hugging Face stores the matrices of linear layers transposed.
    """
    yield map_tensor("embedding.weight", "transformer.wte.weight")
    yield map_tensor("positions.table", "transformer.wpe.weight")
    for k in range(table["layers"]):
        block, hf_block = f"blocks.{k}", f"transformer.h.{k}"
        yield from map_norm(f"{block}.attention_residual.norm", f"{hf_block}.ln_1")
        yield from map_norm(f"{block}.feed_forward_residual.norm", f"{hf_block}.ln_2")
        for name, hf_name in (
            ("attention.qkv", "attn.c_attn"),
            ("attention.output", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.outer", "mlp.c_proj"),
        ):
            yield map_transposed(f"{block}.{name}.weight", f"{hf_block}.{hf_name}.weight")
            yield map_tensor(f"{block}.{name}.bias", f"{hf_block}.{hf_name}.bias")
    yield from map_norm("norm", "transformer.ln_f")


def read_gpt2_tokenizer(folder: Path, config: Mapping[str, Any], vocab_size: int) -> GPT2Tokenizer:
    """Read the tokenizer beside a model with `vocab_size` embeddings."""
    if (folder / TOKENIZER_FILE).exists():
        path = folder / TOKENIZER_FILE
        ids, merges = read_byte_pairs(path)
    elif (folder / VOCABULARY_FILE).exists():
        path = folder / VOCABULARY_FILE
        ids, merges = read_json_object(path, MAX_JSON_BYTES), _read_merges(folder / MERGES_FILE)
    else:
        raise UserError(
            f"{folder}: no tokenizer: expected {TOKENIZER_FILE}, "
            f"or {VOCABULARY_FILE} and {MERGES_FILE}"
        )
    values = list(ids.values())
    if any(type(i) is not int for i in values) or sorted(values) != list(range(len(ids))):
        raise UserError(f"{path}: expected the ids 0 to {len(ids) - 1:,}, each of one token")
    if len(ids) > vocab_size:
        raise UserError(f"{path}: {len(ids):,} tokens, but the model has {vocab_size:,} embeddings")
    vocabulary = sorted(ids, key=ids.__getitem__)
    # Embeddings may be padded to a multiple of a power of two.
    vocabulary += [f"<|unused{k}|>" for k in range(len(ids), vocab_size)]
    end_of_text_id = config.get("eos_token_id", 50256)
    if end_of_text_id is None:  # a model trained without one: texts have a beginning only
        end_of_text_id = config.get("bos_token_id")
    if type(end_of_text_id) is not int or not 0 <= end_of_text_id < vocab_size:
        if _END_OF_TEXT not in ids:
            raise UserError(
                f"{path}: no end-of-text token: expected eos_token_id in {CONFIG_FILE}, "
                f"or the token {_END_OF_TEXT}"
            )
        end_of_text_id = ids[_END_OF_TEXT]
    try:
        return GPT2Tokenizer(vocabulary, merges=merges, end_of_text_id=end_of_text_id)
    except UserError as error:
        raise UserError(f"{path}: {truncate(str(error), 150)}") from None


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        text = read_bytes(path, MAX_JSON_BYTES).decode("utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].startswith("#version"):
        del lines[0]
    return [parse_merge(line, path) for line in lines if line]
