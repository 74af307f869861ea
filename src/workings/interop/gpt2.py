"""GPT-2 in Hugging Face's format, read and written.

The two models compute the same function. Names of tensors differ, and Hugging Face stores the
matrices of linear layers transposed. One table of names serves both directions.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from workings.data.tokenizers.byte_pair import GPT2Tokenizer
from workings.errors import UserError, truncate
from workings.interop.huggingface import (
    CONFIG_FILE,
    MAX_JSON_BYTES,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    activation_name,
    check_settings,
    check_size,
    check_tensor_names,
    get_tensor,
    parse_merge,
    read_activation,
    read_byte_pairs,
    read_config,
    write_json,
)
from workings.interop.weights import find_weights_file, read_weights
from workings.io import read_bytes, read_json_object
from workings.layers.positions import LearnedPositions
from workings.layers.transformer import EncoderBlock, LayerNorm
from workings.models.language import LanguageModel, TransformerLM, build_language_model
from workings.modules import meta_device
from workings.storage import export_tensors

VOCABULARY_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_END_OF_TEXT = "<|endoftext|>"
_ACTIVATIONS = ("gelu-tanh", "gelu", "relu", "silu")
# The defaults of GPT-2's config; other values would be another function.
_REQUIRED_SETTINGS = {
    "model_type": "gpt2",
    "layer_norm_epsilon": 1e-5,
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


class TensorMapping(NamedTuple):
    """The name of a tensor here, in Hugging Face's file, and whether it is transposed there."""

    name: str
    hf_name: str
    is_transposed: bool = False


def read_gpt2(folder: Path) -> TransformerLM:
    """Read a model that Hugging Face's `GPT2LMHeadModel.save_pretrained` wrote."""
    table, vocab_size = convert_gpt2_config(read_config(folder))
    is_tied, layers = table["tie_embeddings"], table["layers"]
    path = find_weights_file(folder)
    tensors = _strip_prefix(read_weights(path))
    if is_tied:
        tensors.pop("lm_head.weight", None)  # a copy of the embedding
    else:
        tensors.setdefault("lm_head.bias", torch.zeros(vocab_size))  # GPT-2 has none
    if f"h.{layers - 1}.ln_1.weight" not in tensors:
        raise UserError(f"{path}: fewer than the {layers:,} layers of {CONFIG_FILE}")
    mappings = list(_map_tensors(layers, is_tied=is_tied))
    check_tensor_names(tensors, (m.hf_name for m in mappings), "GPT-2", path)
    with meta_device():  # no memory is allocated before all shapes match
        model = build_language_model(table, vocab_size)
    assert isinstance(model, TransformerLM)
    parameters = model.state_dict()
    weights = {}
    for name, hf_name, is_transposed in mappings:
        expected = parameters[name].T if is_transposed else parameters[name]
        tensor = get_tensor(tensors, hf_name, expected.shape, path)
        tensor = tensor.T if is_transposed else tensor
        weights[name] = nn.Parameter(tensor.float().contiguous())
    if is_tied:
        weights["head.weight"] = weights["embedding.weight"]
    model.load_state_dict(weights, assign=True)
    return model.eval()


def write_gpt2(
    model: LanguageModel, folder: Path, *, bos_id: int | None = None, eos_id: int | None = None
) -> None:
    """Write a model into a folder as `GPT2LMHeadModel.from_pretrained` reads it.

    `bos_id` and `eos_id` are the ids that begin and end a text, if there are any.
    """
    config = _build_config(model)
    parameters = model.state_dict()
    tensors = {}
    for name, hf_name, is_transposed in _map_tensors(
        config["n_layer"], is_tied=config["tie_word_embeddings"]
    ):
        if hf_name != "lm_head.bias":  # only zeros
            prefix = "" if hf_name.startswith("lm_head.") else "transformer."
            tensor = parameters[name]
            tensors[prefix + hf_name] = tensor.T if is_transposed else tensor
    export_tensors(folder / WEIGHTS_FILE, tensors)
    write_json(folder / CONFIG_FILE, {**config, "bos_token_id": bos_id, "eos_token_id": eos_id})


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
        "activation": read_activation(config, "gelu_new", _ACTIVATIONS),
        "tie_embeddings": bool(config.get("tie_word_embeddings", True)),
    }
    return table, sizes["vocab_size"]


def _build_config(model: LanguageModel) -> dict[str, Any]:
    """Return the config of a model as a GPT-2; raise UserError if it is not one."""
    if not isinstance(model, TransformerLM):
        raise UserError("GPT-2 is a Transformer: a recurrent model cannot be saved as one")
    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    attention, feed_forward = block.attention, block.feed_forward
    if not isinstance(model.positions, LearnedPositions):
        raise UserError('GPT-2 has learned positions: expected model.positions = "learned"')
    if not isinstance(model.norm, LayerNorm):
        raise UserError('GPT-2 normalizes before each layer: expected model.norm = "pre"')
    if attention.kv_heads != attention.heads:
        raise UserError("GPT-2 has keys and values for every head: expected no model.kv_heads")
    is_tied = model.head.weight is model.embedding.weight
    if not is_tied and bool(model.head.bias.any()):
        raise UserError("GPT-2's head has no bias: expected model.tie_embeddings = true")
    return {
        "architectures": ["GPT2LMHeadModel"],
        **_REQUIRED_SETTINGS,
        "vocab_size": model.embedding.num_embeddings,
        "n_positions": len(model.positions.table),
        "n_embd": model.embedding.embedding_dim,
        "n_layer": len(model.blocks),
        "n_head": attention.heads,
        "n_inner": feed_forward.inner.out_features,
        "activation_function": activation_name(feed_forward.activation),
        "tie_word_embeddings": is_tied,
    }


def _map_tensors(layers: int, *, is_tied: bool) -> Iterator[TensorMapping]:
    """Yield our and Hugging Face's names of all tensors; a tied head has no tensor of its own."""
    yield TensorMapping("embedding.weight", "wte.weight")
    yield TensorMapping("positions.table", "wpe.weight")
    for k in range(layers):
        block, hf_block = f"blocks.{k}", f"h.{k}"
        yield from _map_norm(f"{block}.attention_residual.norm", f"{hf_block}.ln_1")
        yield from _map_linear(f"{block}.attention.qkv", f"{hf_block}.attn.c_attn")
        yield from _map_linear(f"{block}.attention.output", f"{hf_block}.attn.c_proj")
        yield from _map_norm(f"{block}.feed_forward_residual.norm", f"{hf_block}.ln_2")
        yield from _map_linear(f"{block}.feed_forward.inner", f"{hf_block}.mlp.c_fc")
        yield from _map_linear(f"{block}.feed_forward.outer", f"{hf_block}.mlp.c_proj")
    yield from _map_norm("norm", "ln_f")
    if not is_tied:
        yield TensorMapping("head.weight", "lm_head.weight")
        yield TensorMapping("head.bias", "lm_head.bias")


def _map_linear(name: str, hf_name: str) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{name}.weight", f"{hf_name}.weight", is_transposed=True)
    yield TensorMapping(f"{name}.bias", f"{hf_name}.bias")


def _map_norm(name: str, hf_name: str) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{name}.gamma", f"{hf_name}.weight")
    yield TensorMapping(f"{name}.beta", f"{hf_name}.bias")


def _strip_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove the prefix, which older files lack, and the attention masks that some of them have."""
    stripped = {name.removeprefix("transformer."): t for name, t in tensors.items()}
    masks = (".attn.bias", ".attn.masked_bias")
    return {name: t for name, t in stripped.items() if not name.endswith(masks)}


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
