"""Marian (OPUS-MT) and Pegasus in Hugging Face's format, read and written; M2M100 (NLLB), read.

Marian is our Transformer translator with normalization after each layer, Pegasus the one with
normalization before it. Names of tensors differ, and queries, keys and values have a matrix each.
The sinusoidal positions are the same features in another order: all sines before all cosines, where
ours alternate. Tokens may have other ids, too. M2M100 is a Pegasus whose positions have other
frequencies, and whose texts begin with a token of their language; a translation's is forced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from workings.errors import UserError, did_you_mean, safe_repr
from workings.interop.huggingface import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    activation_name,
    check_settings,
    check_size,
    check_tensor_names,
    get_tensor,
    read_activation,
    write_json,
)
from workings.interop.weights import find_weights_file, read_weights
from workings.layers.positions import sinusoids
from workings.layers.transformer import EncoderBlock, NormPlacement
from workings.models.seq2seq import build_positions
from workings.models.translation import (
    PAD,
    START,
    TransformerTranslator,
    Translator,
    build_translator,
)
from workings.modules import meta_device
from workings.recipes import TranslatorPositions
from workings.storage import export_tensors

EOS_ID = 3  # in all our tokenizers for translation
HF_MAX_POSITIONS = 1024
"""Positions that Hugging Face's model has; ours has no limit."""
SUPPRESSED_LOGIT_BIAS = -1e4
"""A bias with which a token is never generated."""

_ACTIVATIONS = ("silu", "gelu", "gelu-tanh", "relu")


@dataclass(frozen=True)
class Layout:
    """An architecture of Hugging Face's: its name, its class, and what our model must have."""

    title: str
    architecture: str
    norm: NormPlacement
    required_settings: Mapping[str, Any]
    """Other values of these settings would be another function."""
    positions: TranslatorPositions = "sinusoidal"
    default_settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of settings that a config does not state, where they are not Marian's."""
    suppressed_ids: tuple[int, ...] = (PAD, START)
    """Ids of ours that are never generated if the file's tokens had others."""


LAYOUTS = {
    "marian": Layout(
        "Marian",
        "MarianMTModel",
        "post",
        {
            "model_type": "marian",
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "static_position_embeddings": True,
            "scale_embedding": True,
        },
    ),
    "pegasus": Layout(
        "Pegasus",
        "PegasusForConditionalGeneration",
        "pre",
        {"model_type": "pegasus", "scale_embedding": True},
    ),
}
"""The layouts that are read and written."""
M2M100 = "m2m_100"
IMPORT_LAYOUTS = LAYOUTS | {
    M2M100: Layout(
        "M2M100",
        "M2M100ForConditionalGeneration",
        "pre",
        # Positions are counted from the id after the padding's.
        {"model_type": M2M100, "scale_embedding": True, "pad_token_id": 1},
        "fairseq",
        {
            "vocab_size": 128112,
            "scale_embedding": True,
            "activation_function": "relu",
            "eos_token_id": 2,
            "decoder_start_token_id": 2,
            "pad_token_id": 1,
        },
        suppressed_ids=(START,),  # a copy of the end token, with which its decoder starts
    )
}
MULTILINGUAL_EXPORT_REFUSAL = (
    "an M2M100 or NLLB is imported only: no other layout has its language tokens and positions"
)
_DEFAULT_SETTINGS = {"scale_embedding": False}  # of the others the required value is the default
_DEFAULT_SIZES = {
    "vocab_size": 58101,
    "d_model": 1024,
    "encoder_layers": 12,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
}
_DECODER_SETTINGS = {
    "decoder_layers": "encoder_layers",
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
}


class ImportedTranslator(NamedTuple):
    """A model, its section of a recipe, and the ids of its file in the order of our ids."""

    model: TransformerTranslator
    model_table: dict[str, Any]
    source_order: list[int]
    target_order: list[int]

    @property
    def is_renumbered(self) -> bool:
        """Return True if the token ids of the file differ from ours."""
        return self.target_order != list(range(len(self.target_order)))


class TensorMapping(NamedTuple):
    """A tensor here, and the tensors of Hugging Face's file that it is concatenated from."""

    name: str
    hf_names: tuple[str, ...]
    feature_dim: int | None = None
    """The dimension in which features are reordered."""


def read_translator(folder: Path, config: Mapping[str, Any], unk_id: int = 1) -> ImportedTranslator:
    """Read a model that `save_pretrained` of Hugging Face's Marian or Pegasus wrote.

    `unk_id` is the file's id of the unknown token, which only the vocabulary states.
    """
    layout = get_layout(config)
    config = {**layout.default_settings, **config}
    table, vocab_sizes = convert_config(config)
    path = find_weights_file(folder)
    tensors = _drop_duplicates(read_weights(path), table)
    orders = [_token_order(size, config, unk_id) for size in vocab_sizes]
    source_order, target_order = orders
    target_size = vocab_sizes[1]
    bias = tensors.pop("final_logits_bias", torch.zeros(1, target_size)).flatten()
    get_tensor({"final_logits_bias": bias}, "final_logits_bias", (target_size,), path)
    table["output_bias"] = bool(bias.any()) or target_order != list(range(target_size))
    with meta_device():  # no memory is allocated before all shapes match
        model = build_translator(table, len(source_order), len(target_order))
    assert isinstance(model, TransformerTranslator)
    mappings = list(_map_tensors(table))
    check_tensor_names(tensors, (name for m in mappings for name in m.hf_names), layout.title, path)
    parameters = model.state_dict()
    features = feature_order(table["d_model"])
    weights = {}
    for mapping in mappings:
        rows = source_order if mapping.name == "source_embedding.weight" else target_order
        tensor = _assemble_tensor(tensors, mapping, parameters[mapping.name], path, rows)
        if mapping.feature_dim is not None:
            tensor = tensor.index_select(mapping.feature_dim, features)
        weights[mapping.name] = nn.Parameter(tensor)
    for tied in _tied_names(table):
        weights[tied] = weights["target_embedding.weight"]
    if "head.bias" in parameters:
        weights["head.bias"] = nn.Parameter(bias.float()[target_order])
    model.load_state_dict(weights, assign=True)
    model.positions = build_positions(table["positions"], table["d_model"])
    return ImportedTranslator(model.eval(), table, source_order, target_order)


def write_translator(model: Translator, folder: Path, layout_name: str = "marian") -> None:
    """Write a model as `AutoModelForSeq2SeqLM.from_pretrained` reads it; ids are kept."""
    config = build_config(model, layout_name)
    table, (_, target_size) = convert_config(config)
    parameters, features = model.state_dict(), feature_order(table["d_model"]).argsort()
    tensors: dict[str, Tensor] = {}
    for mapping in _map_tensors(table):
        tensor = parameters[mapping.name]
        if mapping.feature_dim is not None:
            tensor = tensor.index_select(mapping.feature_dim, features.to(tensor.device))
        chunks = tensor.chunk(len(mapping.hf_names))
        tensors |= dict(zip(mapping.hf_names, chunks, strict=True))
    if layout_name == "pegasus":  # it reports these as missing if they are not in the file
        positions = sinusoids(HF_MAX_POSITIONS, table["d_model"]).index_select(1, features)
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_positions.weight"] = positions
        if not table["share_embeddings"]:
            tensors["model.shared.weight"] = tensors["model.encoder.embed_tokens.weight"]
    bias = parameters.get("head.bias", torch.zeros(target_size))
    export_tensors(folder / WEIGHTS_FILE, tensors | {"final_logits_bias": bias.view(1, -1)})
    write_json(folder / CONFIG_FILE, config)


def get_layout(config: Mapping[str, Any]) -> Layout:
    """Return the layout of a config; raise UserError if there is none for its `model_type`."""
    model_type = config.get("model_type", "marian")
    if model_type not in IMPORT_LAYOUTS:
        raise UserError(
            f"{CONFIG_FILE}: model_type = {safe_repr(model_type)} is not supported: "
            f"{did_you_mean(str(model_type), IMPORT_LAYOUTS)}"
        )
    return IMPORT_LAYOUTS[model_type]


def convert_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Return the `[model]` section of a recipe for a model's config, and its vocabulary sizes.

    >>> config = {"d_model": 64, "scale_embedding": True, "activation_function": "swish"}
    >>> table, vocab_sizes = convert_config(config)
    >>> table["d_model"], table["activation"], vocab_sizes
    (64, 'silu', (58101, 58101))
    """
    layout = get_layout(config)
    config = {**layout.default_settings, **config}
    check_settings(config, layout.required_settings, _DEFAULT_SETTINGS)
    sizes = {
        key: check_size(key, config.get(key, default)) for key, default in _DEFAULT_SIZES.items()
    }
    for key, encoder_key in _DECODER_SETTINGS.items():
        value = config.get(key, _DEFAULT_SIZES[encoder_key])
        if value != sizes[encoder_key]:
            raise UserError(
                f"{CONFIG_FILE}: {key} = {safe_repr(value)}, but {encoder_key} = "
                f"{sizes[encoder_key]}: expected the same for encoder and decoder"
            )
    is_shared = config.get("share_encoder_decoder_embeddings", True) is True
    source_size = target_size = sizes["vocab_size"]
    if not is_shared and config.get("decoder_vocab_size") is not None:
        target_size = check_size("decoder_vocab_size", config["decoder_vocab_size"])
    is_tied = bool(config.get("tie_word_embeddings", True))
    table = {
        "kind": "transformer",
        "d_model": sizes["d_model"],
        "layers": sizes["encoder_layers"],
        "heads": sizes["encoder_attention_heads"],
        "d_ff": sizes["encoder_ffn_dim"],
        "norm": layout.norm,
        "positions": layout.positions,
        "activation": read_activation(config, "gelu", _ACTIVATIONS),
        # Hugging Face shares the embeddings only if the head is tied.
        "share_embeddings": is_shared and is_tied,
        "tie_embeddings": is_tied,
    }
    return table, (source_size, target_size)


def feature_order(width: int) -> Int[Tensor, " width"]:
    """Return Marian's index of each of our features: sines and cosines alternate here.

    >>> feature_order(6)
    tensor([0, 3, 1, 4, 2, 5])
    """
    ours = torch.arange(width, device="cpu")
    return ours // 2 + (ours % 2) * ((width + 1) // 2)


def _token_order(size: int, config: Mapping[str, Any], unk_id: int) -> list[int]:
    """Return Marian's id of each of our ids: special tokens first (start may be another's copy)."""
    pad = config.get("pad_token_id", size - 1)
    eos = config.get("eos_token_id", 0)
    start = config.get("decoder_start_token_id", pad)
    specials = [pad, start, unk_id, eos]
    for token_id in specials:
        if type(token_id) is not int or not 0 <= token_id < size:
            raise UserError(
                f"{CONFIG_FILE}: token id {safe_repr(token_id)} is out of range: 0 to {size - 1:,}"
            )
    if unk_id in (start, eos):
        raise UserError(
            f"{CONFIG_FILE}: the start token or eos_token_id and the unknown token must differ"
        )
    others = sorted(set(range(size)) - set(specials))
    return [*specials, *others]


def build_config(model: Translator, layout_name: str) -> dict[str, Any]:
    """Return the config of a model in a layout; raise UserError if it does not fit."""
    layout = LAYOUTS[layout_name]
    if not isinstance(model, TransformerTranslator):
        title = layout.title
        raise UserError(f"{title} is a Transformer: a recurrent model cannot be saved as one")
    block = model.encoder[0]
    assert isinstance(block, EncoderBlock)
    norm = block.attention_residual.norm_placement
    if norm != layout.norm:
        fitting = next(name for name, other in LAYOUTS.items() if other.norm == norm)
        raise UserError(
            f"{layout.title} normalizes {'after' if layout.norm == 'post' else 'before'} each layer"
            f': expected model.norm = "{layout.norm}", or --to {fitting}'
        )
    if model.positions.first:
        raise UserError(f"{layout.title} has no fairseq positions: expected sinusoidal ones")
    source, target = model.source_embedding, model.target_embedding
    is_tied = model.head.weight is target.weight
    vocabulary = {"vocab_size": source.num_embeddings}
    if layout_name == "marian":
        vocabulary["decoder_vocab_size"] = target.num_embeddings
        vocabulary["share_encoder_decoder_embeddings"] = source is target and is_tied
    elif source is not target and (is_tied or source.num_embeddings != target.num_embeddings):
        raise UserError(
            "Pegasus has one embedding for source and target: expected model.share_embeddings = "
            "true and tokenizer.shared_vocab = true"
        )
    sizes = {
        "layers": len(model.encoder),
        "attention_heads": block.attention.heads,
        "ffn_dim": block.feed_forward.inner.out_features,
    }
    return {
        "architectures": [layout.architecture],
        **layout.required_settings,
        **vocabulary,
        "d_model": target.embedding_dim,
        **{f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in sizes.items()},
        "activation_function": activation_name(block.feed_forward.activation),
        "max_position_embeddings": HF_MAX_POSITIONS,
        "tie_word_embeddings": is_tied,
        "pad_token_id": PAD,
        "decoder_start_token_id": START,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": EOS_ID,
    }


def _map_tensors(table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    """Yield all tensors except for copies, the bias of the head and the positions."""
    if table["share_embeddings"]:
        yield TensorMapping("target_embedding.weight", ("model.shared.weight",), 1)
    else:
        for side, hf_side in (("source", "encoder"), ("target", "decoder")):
            hf_name = f"model.{hf_side}.embed_tokens.weight"
            yield TensorMapping(f"{side}_embedding.weight", (hf_name,), 1)
    if not table["tie_embeddings"]:
        yield TensorMapping("head.weight", ("lm_head.weight",), 1)
    for side in ("encoder", "decoder"):
        for k in range(table["layers"]):
            block, hf_block = f"{side}.{k}", f"model.{side}.layers.{k}"
            yield from _map_attention(block, hf_block, "attention", "self_attn")
            if side == "decoder":
                yield from _map_attention(block, hf_block, "cross_attention", "encoder_attn")
            yield from _map_linear(f"{block}.feed_forward.inner", (f"{hf_block}.fc1",), 1)
            yield from _map_linear(f"{block}.feed_forward.outer", (f"{hf_block}.fc2",), 0)
            yield from _map_norm(
                f"{block}.feed_forward_residual.norm", f"{hf_block}.final_layer_norm"
            )
        if table["norm"] == "pre":
            yield from _map_norm(f"{side}_norm", f"model.{side}.layer_norm")


def _map_attention(block: str, hf_block: str, name: str, hf_name: str) -> Iterator[TensorMapping]:
    projections = tuple(f"{hf_block}.{hf_name}.{letter}_proj" for letter in "qkv")
    yield from _map_linear(f"{block}.{name}.qkv", projections, 1)
    yield from _map_linear(f"{block}.{name}.output", (f"{hf_block}.{hf_name}.out_proj",), 0)
    yield from _map_norm(f"{block}.{name}_residual.norm", f"{hf_block}.{hf_name}_layer_norm")


def _map_linear(name: str, hf_names: tuple[str, ...], feature_dim: int) -> Iterator[TensorMapping]:
    """Yield the tensors of a linear layer whose input (1) or output (0) has reordered features."""
    weights = tuple(f"{hf_name}.weight" for hf_name in hf_names)
    yield TensorMapping(f"{name}.weight", weights, feature_dim)
    biases = tuple(f"{hf_name}.bias" for hf_name in hf_names)
    yield TensorMapping(f"{name}.bias", biases, 0 if feature_dim == 0 else None)


def _map_norm(name: str, hf_name: str) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{name}.gamma", (f"{hf_name}.weight",), 0)
    yield TensorMapping(f"{name}.beta", (f"{hf_name}.bias",), 0)


def _tied_names(table: Mapping[str, Any]) -> list[str]:
    """Return our names of the tensors that are the same as the target's embedding."""
    shared = ["source_embedding.weight"] if table["share_embeddings"] else []
    return shared + (["head.weight"] if table["tie_embeddings"] else [])


def _drop_duplicates(tensors: Mapping[str, Tensor], table: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return each tensor once: files may have copies of shared ones, and the positions."""
    unique = {n: t for n, t in tensors.items() if ".embed_positions.weight" not in n}
    if table["tie_embeddings"]:
        unique.pop("lm_head.weight", None)
    names = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if table["share_embeddings"]:
        copies = [unique.pop(name) for name in names if name in unique]
        if copies:
            unique.setdefault("model.shared.weight", copies[0])
    elif (shared := unique.pop("model.shared.weight", None)) is not None:
        for name in names:
            unique.setdefault(name, shared)
    return unique


def _assemble_tensor(
    tensors: Mapping[str, Tensor],
    mapping: TensorMapping,
    expected: Tensor,
    path: Path,
    token_order: Sequence[int],
) -> Tensor:
    """Concatenate the tensors of a mapping; reorder the rows of one that has a row per token."""
    has_tokens = mapping.name.endswith("embedding.weight") or mapping.name == "head.weight"
    rows = len(set(token_order)) if has_tokens else expected.shape[0] // len(mapping.hf_names)
    shape = (rows, *expected.shape[1:])
    tensor = torch.cat([get_tensor(tensors, n, shape, path).float() for n in mapping.hf_names])
    return tensor[list(token_order)] if has_tokens else tensor
