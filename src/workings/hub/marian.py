"""Marian in Hugging Face's layout, `config.json` and `model.safetensors`, read and written.

Marian is our Transformer translator with its norms after the layers. Names differ, queries, keys
and values have a matrix each, and sinusoids are in two halves, sines before cosines, where ours
take turns: the same features in another order. Tokens may be numbered otherwise, too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from workings.errors import UserError, brief, near, shown
from workings.hub.gpt2 import CONFIG, WEIGHTS, weights_file
from workings.layers.blocks import EncoderBlock
from workings.layers.positions import SinusoidalPositions
from workings.models.transformer_translator import TransformerTranslator
from workings.models.translators import PAD, START, Translator, build_translator
from workings.storage import export_tensors, import_tensors, write_text

UNKNOWN, STOP = 2, 3  # of every tokenizer of ours that translates
POSITIONS = 1024
"""What theirs keep sinusoids for; ours go on."""
NEVER = -1e4
"""A bias with which a token is never written."""
_OURS = {"swish": "silu", "silu": "silu", "gelu": "gelu", "gelu_new": "gelu-tanh", "relu": "relu"}
_THEIRS = {"silu": "swish", "gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu"}
# What Marian is when its config.json does not say; other values would be another function.
_FIXED = {
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
_SIZES = {
    "vocab_size": 58101,
    "d_model": 1024,
    "encoder_layers": 12,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
}
_ALIKE = {
    "decoder_layers": "encoder_layers",
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
}


class Marian(NamedTuple):
    """A model that was read, the recipe's section for it, and their number of each of our tokens.

    `renumbered`: those are not just ours.
    """

    model: TransformerTranslator
    table: dict[str, Any]
    source: list[int]
    target: list[int]

    @property
    def renumbered(self) -> bool:
        """Whether their tokens had other numbers."""
        return self.target != list(range(len(self.target)))


class Part(NamedTuple):
    """A tensor of ours, the tensors of theirs it is made of, and its dimension of features."""

    ours: str
    theirs: tuple[str, ...]
    features: int | None = None


def read_marian(folder: Path, config: Mapping[str, Any], unknown: int = 1) -> Marian:
    """Read a model that Hugging Face's `MarianMTModel.save_pretrained` wrote.

    `unknown` is their number of the unknown token, which only the vocabulary tells.
    """
    table, sizes = model_table(config)
    given = _bare(import_tensors(weights_file(folder)), table)
    orders = [_order(size, config, unknown) for size in sizes]
    bias = given.pop("final_logits_bias", torch.zeros(1, sizes[1])).flatten()
    _expect("final_logits_bias", bias, (sizes[1],), folder)
    table["bias"] = bool(bias.any()) or orders[1] != list(range(sizes[1]))
    with torch.device("meta"):  # shapes without numbers: nothing is made before all fits
        model = build_translator(table, *(len(order) for order in orders))
    assert isinstance(model, TransformerTranslator)
    parts = list(_parts(table))
    if strange := sorted(given.keys() - {name for part in parts for name in part.theirs}):
        raise UserError(f"{folder / WEIGHTS}: {brief(strange[0])} is no part of a Marian")
    held = model.state_dict()
    order = features(table["embedding"])
    weights = {}
    for part in parts:
        rows = {"source_embedding.weight": orders[0]}.get(part.ours, orders[1])
        whole = _taken(given, part, held[part.ours], folder, rows)
        if part.features is not None:
            whole = whole.index_select(part.features, order)
        weights[part.ours] = nn.Parameter(whole)
    for tied in _copies(table):
        weights[tied] = weights["target_embedding.weight"]
    if "head.bias" in held:
        weights["head.bias"] = nn.Parameter(bias.float()[orders[1]])
    model.load_state_dict(weights, assign=True)
    model.positions = SinusoidalPositions(table["embedding"])
    return Marian(model.eval(), table, *orders)


def write_marian(model: Translator, folder: Path) -> None:
    """Write a model into a folder as `MarianMTModel.from_pretrained` reads it; tokens keep ids."""
    config = _config_of(model)
    table, sizes = model_table(config)
    held, back = model.state_dict(), features(table["embedding"]).argsort()
    tensors: dict[str, Tensor] = {}
    for part in _parts(table):
        whole = held[part.ours]
        if part.features is not None:
            whole = whole.index_select(part.features, back.to(whole.device))
        tensors |= dict(zip(part.theirs, whole.chunk(len(part.theirs)), strict=True))
    bias = held.get("head.bias", torch.zeros(sizes[1]))
    export_tensors(folder / WEIGHTS, tensors | {"final_logits_bias": bias.view(1, -1)})
    write_text(folder / CONFIG, json.dumps(config, indent=2) + "\n")


def model_table(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Say a Marian's config as a recipe's `[model]` section says it, and how many tokens there are.

    >>> said = {"d_model": 64, "scale_embedding": True, "activation_function": "swish"}
    >>> table, sizes = model_table(said)
    >>> table["embedding"], table["activation"], sizes
    (64, 'silu', (58101, 58101))
    """
    for key, needed in {**_FIXED, "scale_embedding": True}.items():
        usual = False if key == "scale_embedding" else needed
        if config.get(key, usual) != needed:
            told = shown(config.get(key, usual))
            raise UserError(f"{CONFIG}: {key} = {told}: only {needed!r} can be read")
    sizes = {key: config.get(key, usual) for key, usual in _SIZES.items()}
    for key, size in sizes.items():
        if type(size) is not int or not 0 < size < 2**31:
            raise UserError(f"{CONFIG}: {key} = {shown(size)}: expected a whole number")
    for key, like in _ALIKE.items():
        if config.get(key, _SIZES[like]) != sizes[like]:
            told = f"{shown(config.get(key))}, but {like} = {sizes[like]}"
            raise UserError(f"{CONFIG}: {key} = {told}: only one for both can be read")
    activation = config.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in _OURS:
        raise UserError(
            f"{CONFIG}: activation_function = {shown(activation)}: {near(str(activation), _OURS)}"
        )
    shared = config.get("share_encoder_decoder_embeddings", True) is True
    target = sizes["vocab_size"] if shared else config.get("decoder_vocab_size")
    target = sizes["vocab_size"] if target is None else target
    if type(target) is not int or not 0 < target < 2**31:
        raise UserError(f"{CONFIG}: decoder_vocab_size = {shown(target)}: expected a whole number")
    tied = bool(config.get("tie_word_embeddings", True))
    table = {
        "kind": "transformer",
        "embedding": sizes["d_model"],
        "layers": sizes["encoder_layers"],
        "heads": sizes["encoder_attention_heads"],
        "hidden": sizes["encoder_ffn_dim"],
        "norm": "post",
        "activation": _OURS[activation],
        "shared": shared and tied,  # an untied head of theirs unties the embeddings, too
        "tied": tied,
    }
    return table, (sizes["vocab_size"], target)


def features(width: int) -> Int[Tensor, " width"]:
    """Their number of each of our features: sines and cosines in turn.

    >>> features(6)
    tensor([0, 3, 1, 4, 2, 5])
    """
    ours = torch.arange(width, device="cpu")
    return ours // 2 + (ours % 2) * ((width + 1) // 2)


def _order(size: int, config: Mapping[str, Any], unknown: int) -> list[int]:
    """Their number of each of our tokens: the specials first, of which two may be one of theirs."""
    pad = config.get("pad_token_id", size - 1)
    stop = config.get("eos_token_id", 0)
    start = config.get("decoder_start_token_id", pad)
    specials = [pad, start, unknown, stop]
    for number in specials:
        if type(number) is not int or not 0 <= number < size:
            raise UserError(
                f"{CONFIG}: token {shown(number)} is none of the {size:,} that there are"
            )
    if len({start, unknown, stop}) < 3:
        raise UserError(f"{CONFIG}: start, unknown and stop are not three tokens")
    kept = set(specials)
    return [*specials, *(k for k in range(size) if k not in kept)]


def _config_of(model: Translator) -> dict[str, Any]:
    """Say what a Marian of this shape is configured as, if it is one."""
    if not isinstance(model, TransformerTranslator):
        raise UserError("Marian is a Transformer: a recurrent translator cannot be saved as one")
    block = model.encoder[0]
    assert isinstance(block, EncoderBlock)
    if block.around_attention.place != "post":
        raise UserError('Marian has its norms after its layers: only model.norm = "post" fits')
    source, target = model.source_embedding, model.target_embedding
    tied = model.head.weight is target.weight
    heads, hidden = block.attention.heads, block.feed_forward.inner.out_features
    sizes = {"layers": len(model.encoder), "attention_heads": heads, "ffn_dim": hidden}
    return {
        "architectures": ["MarianMTModel"],
        **_FIXED,
        "scale_embedding": True,
        "vocab_size": source.num_embeddings,
        "decoder_vocab_size": target.num_embeddings,
        "d_model": target.embedding_dim,
        **{f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in sizes.items()},
        "activation_function": _THEIRS[block.feed_forward.activation],
        "max_position_embeddings": POSITIONS,
        "share_encoder_decoder_embeddings": source is target and tied,
        "tie_word_embeddings": tied,
        "pad_token_id": PAD,
        "decoder_start_token_id": START,
        "eos_token_id": STOP,
        "forced_eos_token_id": STOP,
    }


def _parts(table: Mapping[str, Any]) -> Iterator[Part]:
    """All tensors but copies, the bias of the head and the positions."""
    if table["shared"]:
        yield Part("target_embedding.weight", ("model.shared.weight",), 1)
    else:
        for ours, theirs in (("source", "encoder"), ("target", "decoder")):
            yield Part(f"{ours}_embedding.weight", (f"model.{theirs}.embed_tokens.weight",), 1)
    if not table["tied"]:
        yield Part("head.weight", ("lm_head.weight",), 1)
    for side in ("encoder", "decoder"):
        for k in range(table["layers"]):
            ours, theirs = f"{side}.{k}", f"model.{side}.layers.{k}"
            yield from _attention(ours, theirs, "attention", "self_attn")
            if side == "decoder":
                yield from _attention(ours, theirs, "cross", "encoder_attn")
            yield from _linear(f"{ours}.feed_forward.inner", (f"{theirs}.fc1",), 1)
            yield from _linear(f"{ours}.feed_forward.outer", (f"{theirs}.fc2",), 0)
            yield from _norm(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm")


def _attention(ours: str, theirs: str, our_name: str, their_name: str) -> Iterator[Part]:
    three = tuple(f"{theirs}.{their_name}.{which}_proj" for which in "qkv")
    yield from _linear(f"{ours}.{our_name}.project", three, 1)
    yield from _linear(f"{ours}.{our_name}.output", (f"{theirs}.{their_name}.out_proj",), 0)
    yield from _norm(f"{ours}.around_{our_name}.norm", f"{theirs}.{their_name}_layer_norm")


def _linear(ours: str, theirs: tuple[str, ...], side: int) -> Iterator[Part]:
    """A linear layer that reads features (1) or writes them (0)."""
    yield Part(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), side)
    bias = tuple(f"{name}.bias" for name in theirs)
    yield Part(f"{ours}.bias", bias, 0 if side == 0 else None)


def _norm(ours: str, theirs: str) -> Iterator[Part]:
    yield Part(f"{ours}.gamma", (f"{theirs}.weight",), 0)
    yield Part(f"{ours}.beta", (f"{theirs}.bias",), 0)


def _copies(table: Mapping[str, Any]) -> list[str]:
    """Our names of what is the target's embedding once more."""
    shared = ["source_embedding.weight"] if table["shared"] else []
    return shared + (["head.weight"] if table["tied"] else [])


def _bare(given: Mapping[str, Tensor], table: Mapping[str, Any]) -> dict[str, Tensor]:
    """Leave out what files may say twice: shared matrices, and sinusoids."""
    kept = {n: t for n, t in given.items() if not n.endswith("embed_positions.weight")}
    if table["tied"]:
        kept.pop("lm_head.weight", None)
    sides = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if table["shared"]:
        copies = [kept.pop(name) for name in sides if name in kept]
        if copies:
            kept.setdefault("model.shared.weight", copies[0])
    elif (shared := kept.pop("model.shared.weight", None)) is not None:
        for name in sides:
            kept.setdefault(name, shared)
    return kept


def _taken(
    given: Mapping[str, Tensor], part: Part, expected: Tensor, folder: Path, rows: Sequence[int]
) -> Tensor:
    """Put a tensor of ours together; one of tokens in our order."""
    of_tokens = part.ours.endswith("embedding.weight") or part.ours == "head.weight"
    height = len(set(rows)) if of_tokens else expected.shape[0] // len(part.theirs)
    for name in part.theirs:
        if name not in given:
            raise UserError(f"{folder / WEIGHTS}: {name} is missing")
        _expect(name, given[name], (height, *expected.shape[1:]), folder)
    whole = torch.cat([given[name].float() for name in part.theirs])
    return whole[list(rows)] if of_tokens else whole


def _expect(name: str, found: Tensor, shape: tuple[int, ...], folder: Path) -> None:
    if tuple(found.shape) != shape or not found.is_floating_point():
        kind = str(found.dtype).removeprefix("torch.")
        raise UserError(
            f"{folder / WEIGHTS}: {name} is of shape {tuple(found.shape)} and {kind}: "
            f"{CONFIG} promises {shape} and floats"
        )
