"""Marian in Hugging Face's layout, `config.json` and `model.safetensors`, read and written.

Marian is our Transformer translator with its norms after the layers. Names differ, queries, keys
and values have a matrix each, and sinusoids are in two halves, sines before cosines, where ours
take turns: the same features in another order. Tokens may be numbered otherwise, too.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.interop.gpt2 import (
    CONFIG_FILE,
    LOWERCASE_NORMALIZER,
    MAX_JSON_BYTES,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    find_weights_file,
    read_byte_pairs,
    read_json_object,
)
from workings.io import read_bytes, write_text
from workings.layers.positions import SinusoidalPositions
from workings.layers.transformer import EncoderBlock
from workings.models.translation import (
    PAD,
    START,
    TransformerTranslator,
    Translator,
    build_translator,
)
from workings.recipes import TranslationTokenizerConfig
from workings.storage import export_tensors, import_tensors
from workings.tasks.translation import TokenizerPair

UNK_ID, EOS_ID = 2, 3  # of every tokenizer of ours that translates
HF_MAX_POSITIONS = 1024
"""What theirs keep sinusoids for; ours go on."""
SUPPRESSED_LOGIT_BIAS = -1e4
"""A bias with which a token is never written."""
_ACTIVATION_FROM_HF = {
    "swish": "silu",
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "relu": "relu",
}
_ACTIVATION_TO_HF = {"silu": "swish", "gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu"}
# What Marian is when its config.json does not say; other values would be another function.
_REQUIRED_SETTINGS = {
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
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


class ImportedMarian(NamedTuple):
    """A model that was read, the recipe's section for it, and their number of each of our tokens.

    `renumbered`: those are not just ours.
    """

    model: TransformerTranslator
    model_table: dict[str, Any]
    source_order: list[int]
    target_order: list[int]

    @property
    def is_renumbered(self) -> bool:
        """Whether their tokens had other numbers."""
        return self.target_order != list(range(len(self.target_order)))


class TensorMapping(NamedTuple):
    """A tensor of ours, the tensors of theirs it is made of, and its dimension of features."""

    name: str
    hf_names: tuple[str, ...]
    feature_dim: int | None = None


def read_marian(folder: Path, config: Mapping[str, Any], unk_id: int = 1) -> ImportedMarian:
    """Read a model that Hugging Face's `MarianMTModel.save_pretrained` wrote.

    `unknown` is their number of the unknown token, which only the vocabulary tells.
    """
    table, sizes = convert_marian_config(config)
    given = _drop_duplicates(import_tensors(find_weights_file(folder)), table)
    orders = [_token_order(size, config, unk_id) for size in sizes]
    bias = given.pop("final_logits_bias", torch.zeros(1, sizes[1])).flatten()
    _check_tensor("final_logits_bias", bias, (sizes[1],), folder)
    table["output_bias"] = bool(bias.any()) or orders[1] != list(range(sizes[1]))
    with torch.device("meta"):  # shapes without numbers: nothing is made before all fits
        model = build_translator(table, *(len(order) for order in orders))
    assert isinstance(model, TransformerTranslator)
    parts = list(_map_tensors(table))
    if strange := sorted(given.keys() - {name for part in parts for name in part.hf_names}):
        raise UserError(f"{folder / WEIGHTS_FILE}: {truncate(strange[0])} is no part of a Marian")
    held = model.state_dict()
    order = feature_order(table["d_model"])
    weights = {}
    for part in parts:
        rows = {"source_embedding.weight": orders[0]}.get(part.name, orders[1])
        whole = _assemble_tensor(given, part, held[part.name], folder, rows)
        if part.feature_dim is not None:
            whole = whole.index_select(part.feature_dim, order)
        weights[part.name] = nn.Parameter(whole)
    for tied in _tied_names(table):
        weights[tied] = weights["target_embedding.weight"]
    if "head.bias" in held:
        weights["head.bias"] = nn.Parameter(bias.float()[orders[1]])
    model.load_state_dict(weights, assign=True)
    model.positions = SinusoidalPositions(table["d_model"])
    return ImportedMarian(model.eval(), table, *orders)


def write_marian(model: Translator, folder: Path) -> None:
    """Write a model into a folder as `MarianMTModel.from_pretrained` reads it; tokens keep ids."""
    config = _build_config(model)
    table, sizes = convert_marian_config(config)
    held, back = model.state_dict(), feature_order(table["d_model"]).argsort()
    tensors: dict[str, Tensor] = {}
    for part in _map_tensors(table):
        whole = held[part.name]
        if part.feature_dim is not None:
            whole = whole.index_select(part.feature_dim, back.to(whole.device))
        tensors |= dict(zip(part.hf_names, whole.chunk(len(part.hf_names)), strict=True))
    bias = held.get("head.bias", torch.zeros(sizes[1]))
    export_tensors(folder / WEIGHTS_FILE, tensors | {"final_logits_bias": bias.view(1, -1)})
    write_text(folder / CONFIG_FILE, json.dumps(config, indent=2) + "\n")


def convert_marian_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Say a Marian's config as a recipe's `[model]` section says it, and how many tokens there are.

    >>> said = {"d_model": 64, "scale_embedding": True, "activation_function": "swish"}
    >>> model_table, sizes = convert_marian_config(said)
    >>> model_table["d_model"], model_table["activation"], sizes
    (64, 'silu', (58101, 58101))
    """
    for key, needed in {**_REQUIRED_SETTINGS, "scale_embedding": True}.items():
        usual = False if key == "scale_embedding" else needed
        if config.get(key, usual) != needed:
            told = safe_repr(config.get(key, usual))
            raise UserError(f"{CONFIG_FILE}: {key} = {told}: only {needed!r} can be read")
    sizes = {key: config.get(key, usual) for key, usual in _DEFAULT_SIZES.items()}
    for key, size in sizes.items():
        if type(size) is not int or not 0 < size < 2**31:
            raise UserError(f"{CONFIG_FILE}: {key} = {safe_repr(size)}: expected a whole number")
    for key, like in _DECODER_SETTINGS.items():
        if config.get(key, _DEFAULT_SIZES[like]) != sizes[like]:
            told = f"{safe_repr(config.get(key))}, but {like} = {sizes[like]}"
            raise UserError(f"{CONFIG_FILE}: {key} = {told}: only one for both can be read")
    activation = config.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATION_FROM_HF:
        raise UserError(
            f"{CONFIG_FILE}: activation_function = {safe_repr(activation)}: {did_you_mean(str(activation), _ACTIVATION_FROM_HF)}"
        )
    shared = config.get("share_encoder_decoder_embeddings", True) is True
    target = sizes["vocab_size"] if shared else config.get("decoder_vocab_size")
    target = sizes["vocab_size"] if target is None else target
    if type(target) is not int or not 0 < target < 2**31:
        raise UserError(
            f"{CONFIG_FILE}: decoder_vocab_size = {safe_repr(target)}: expected a whole number"
        )
    tied = bool(config.get("tie_word_embeddings", True))
    table = {
        "kind": "transformer",
        "d_model": sizes["d_model"],
        "layers": sizes["encoder_layers"],
        "heads": sizes["encoder_attention_heads"],
        "d_ff": sizes["encoder_ffn_dim"],
        "norm": "post",
        "activation": _ACTIVATION_FROM_HF[activation],
        "share_embeddings": shared and tied,  # an untied head of theirs unties the embeddings, too
        "tie_embeddings": tied,
    }
    return table, (sizes["vocab_size"], target)


def feature_order(width: int) -> Int[Tensor, " width"]:
    """Their number of each of our features: sines and cosines in turn.

    >>> feature_order(6)
    tensor([0, 3, 1, 4, 2, 5])
    """
    ours = torch.arange(width, device="cpu")
    return ours // 2 + (ours % 2) * ((width + 1) // 2)


def _token_order(size: int, config: Mapping[str, Any], unk_id: int) -> list[int]:
    """Their number of each of our tokens: the specials first, of which two may be one of theirs."""
    pad = config.get("pad_token_id", size - 1)
    stop = config.get("eos_token_id", 0)
    start = config.get("decoder_start_token_id", pad)
    specials = [pad, start, unk_id, stop]
    for number in specials:
        if type(number) is not int or not 0 <= number < size:
            raise UserError(
                f"{CONFIG_FILE}: token {safe_repr(number)} is none of the {size:,} that there are"
            )
    if len({start, unk_id, stop}) < 3:
        raise UserError(f"{CONFIG_FILE}: start, unknown and stop are not three tokens")
    kept = set(specials)
    return [*specials, *(k for k in range(size) if k not in kept)]


def _build_config(model: Translator) -> dict[str, Any]:
    """Say what a Marian of this shape is configured as, if it is one."""
    if not isinstance(model, TransformerTranslator):
        raise UserError("Marian is a Transformer: a recurrent translator cannot be saved as one")
    block = model.encoder[0]
    assert isinstance(block, EncoderBlock)
    if block.attention_residual.norm_placement != "post":
        raise UserError('Marian has its norms after its layers: only model.norm = "post" fits')
    source, target = model.source_embedding, model.target_embedding
    tied = model.head.weight is target.weight
    heads, hidden = block.attention.heads, block.feed_forward.inner.out_features
    sizes = {"layers": len(model.encoder), "attention_heads": heads, "ffn_dim": hidden}
    return {
        "architectures": ["MarianMTModel"],
        **_REQUIRED_SETTINGS,
        "scale_embedding": True,
        "vocab_size": source.num_embeddings,
        "decoder_vocab_size": target.num_embeddings,
        "d_model": target.embedding_dim,
        **{f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in sizes.items()},
        "activation_function": _ACTIVATION_TO_HF[block.feed_forward.activation],
        "max_position_embeddings": HF_MAX_POSITIONS,
        "share_encoder_decoder_embeddings": source is target and tied,
        "tie_word_embeddings": tied,
        "pad_token_id": PAD,
        "decoder_start_token_id": START,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": EOS_ID,
    }


def _map_tensors(table: Mapping[str, Any]) -> Iterator[TensorMapping]:
    """All tensors but copies, the bias of the head and the positions."""
    if table["share_embeddings"]:
        yield TensorMapping("target_embedding.weight", ("model.shared.weight",), 1)
    else:
        for ours, theirs in (("source", "encoder"), ("target", "decoder")):
            yield TensorMapping(
                f"{ours}_embedding.weight", (f"model.{theirs}.embed_tokens.weight",), 1
            )
    if not table["tie_embeddings"]:
        yield TensorMapping("head.weight", ("lm_head.weight",), 1)
    for side in ("encoder", "decoder"):
        for k in range(table["layers"]):
            ours, theirs = f"{side}.{k}", f"model.{side}.layers.{k}"
            yield from _map_attention(ours, theirs, "attention", "self_attn")
            if side == "decoder":
                yield from _map_attention(ours, theirs, "cross_attention", "encoder_attn")
            yield from _map_linear(f"{ours}.feed_forward.inner", (f"{theirs}.fc1",), 1)
            yield from _map_linear(f"{ours}.feed_forward.outer", (f"{theirs}.fc2",), 0)
            yield from _map_norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm")


def _map_attention(prefix: str, hf_prefix: str, name: str, hf_name: str) -> Iterator[TensorMapping]:
    three = tuple(f"{hf_prefix}.{hf_name}.{which}_proj" for which in "qkv")
    yield from _map_linear(f"{prefix}.{name}.qkv", three, 1)
    yield from _map_linear(f"{prefix}.{name}.output", (f"{hf_prefix}.{hf_name}.out_proj",), 0)
    yield from _map_norm(f"{prefix}.{name}_residual.norm", f"{hf_prefix}.{hf_name}_layer_norm")


def _map_linear(
    name_prefix: str, hf_prefixes: tuple[str, ...], feature_dim: int
) -> Iterator[TensorMapping]:
    """A linear layer that reads features (1) or writes them (0)."""
    yield TensorMapping(
        f"{name_prefix}.weight", tuple(f"{name}.weight" for name in hf_prefixes), feature_dim
    )
    bias = tuple(f"{name}.bias" for name in hf_prefixes)
    yield TensorMapping(f"{name_prefix}.bias", bias, 0 if feature_dim == 0 else None)


def _map_norm(name_prefix: str, hf_prefix: str) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{name_prefix}.gamma", (f"{hf_prefix}.weight",), 0)
    yield TensorMapping(f"{name_prefix}.beta", (f"{hf_prefix}.bias",), 0)


def _tied_names(table: Mapping[str, Any]) -> list[str]:
    """Our names of what is the target's embedding once more."""
    shared = ["source_embedding.weight"] if table["share_embeddings"] else []
    return shared + (["head.weight"] if table["tie_embeddings"] else [])


def _drop_duplicates(tensors: Mapping[str, Tensor], table: Mapping[str, Any]) -> dict[str, Tensor]:
    """Leave out what files may say twice: shared matrices, and sinusoids."""
    kept = {n: t for n, t in tensors.items() if not n.endswith("embed_positions.weight")}
    if table["tie_embeddings"]:
        kept.pop("lm_head.weight", None)
    sides = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if table["share_embeddings"]:
        copies = [kept.pop(name) for name in sides if name in kept]
        if copies:
            kept.setdefault("model.shared.weight", copies[0])
    elif (shared := kept.pop("model.shared.weight", None)) is not None:
        for name in sides:
            kept.setdefault(name, shared)
    return kept


def _assemble_tensor(
    tensors: Mapping[str, Tensor],
    mapping: TensorMapping,
    expected: Tensor,
    folder: Path,
    token_order: Sequence[int],
) -> Tensor:
    """Put a tensor of ours together; one of tokens in our order."""
    of_tokens = mapping.name.endswith("embedding.weight") or mapping.name == "head.weight"
    height = len(set(token_order)) if of_tokens else expected.shape[0] // len(mapping.hf_names)
    for name in mapping.hf_names:
        if name not in tensors:
            raise UserError(f"{folder / WEIGHTS_FILE}: {name} is missing")
        _check_tensor(name, tensors[name], (height, *expected.shape[1:]), folder)
    whole = torch.cat([tensors[name].float() for name in mapping.hf_names])
    return whole[list(token_order)] if of_tokens else whole


def _check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], folder: Path) -> None:
    if tuple(tensor.shape) != shape or not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise UserError(
            f"{folder / WEIGHTS_FILE}: {name} is of shape {tuple(tensor.shape)} and {kind}: "
            f"{CONFIG_FILE} promises {shape} and floats"
        )


SOURCE_VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
_UNK_TOKEN = "<unk>"
_UNIGRAM_MODEL = 1
_NORMAL_PIECE, _NON_TEXT_PIECES = 1, (2, 3, 5)  # unknown, control, unused


@dataclass(frozen=True)
class SentencePieceModel:
    """What a SentencePiece model splits by: pieces and their scores, and a table of characters."""

    scored_pieces: list[tuple[str, float]]
    charsmap: bytes


@dataclass(frozen=True)
class SentencePieceVocabularies:
    """The numbers of both languages' tokens, how each is split, and what the languages are."""

    token_ids: tuple[dict[str, int], dict[str, int]]
    models: tuple[SentencePieceModel, SentencePieceModel]
    unk_id: int
    languages: tuple[str, str]

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Say what they are as a recipe says it."""
        return TranslationTokenizerConfig(
            kind="pretrained", vocab_size=len(tokenizers.target), shared_vocab=False
        )

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Our vocabularies, given their number of each of our tokens."""
        made = []
        for numbers, model, order in zip(
            self.token_ids, self.models, (source_order, target_order), strict=True
        ):
            names = {number: name for name, number in numbers.items()}
            some = [names.get(number, f"<unused {number}>") for number in order[4:]]
            made.append(
                UnigramTokenizer(some, scored_pieces=model.scored_pieces, charsmap=model.charsmap)
            )
        return TokenizerPair(made[0], made[1])


@dataclass(frozen=True)
class BytePairVocabularies:
    """Byte pairs of ours, where we wrote them: under our numbers, one file for both, or two."""

    paths: tuple[Path, ...]
    languages: tuple[str, str]
    unk_id: int = 2

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Say what they are as a recipe says it."""
        joint = len(self.paths) == 1
        return TranslationTokenizerConfig(
            kind="byte-pair",
            vocab_size=len(tokenizers.target),
            shared_vocab=joint,
            lower=tokenizers.lower,
        )

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Our vocabularies, given their number of each of our tokens."""
        places = self.paths * 2 if len(self.paths) == 1 else self.paths
        (one, lower), (other, too) = map(
            _read_byte_pair_tokenizer, places, (source_order, target_order)
        )
        if lower != too:
            raise UserError(f"{places[0]}: in small letters, or not, unlike {places[1]}")
        return TokenizerPair(one, other, lower)


def _read_byte_pair_tokenizer(path: Path, order: Sequence[int]) -> tuple[Tokenizer, bool]:
    """A tokenizer of ours, and whether it makes small letters of capitals."""
    ids, merges = read_byte_pairs(path)
    folds = read_json_object(path).get("normalizer")
    whole = all(type(number) is int for number in ids.values())
    if not whole or not sorted(ids.values()) == list(order) == list(range(len(ids))):
        raise UserError(f"{path}: byte pairs of a Marian are read as `workings export` writes them")
    if folds not in (None, LOWERCASE_NORMALIZER):
        raise UserError(
            f"{path}: its normalizer cannot be read, only {safe_repr(LOWERCASE_NORMALIZER)}"
        )
    try:
        pieces = BytePairTokenizer(
            sorted(ids, key=ids.__getitem__)[4:], merges=merges, with_eos=True
        )
    except UserError as error:
        raise UserError(f"{path}: {truncate(str(error), 150)}") from None
    return pieces, folds is not None


def read_vocabularies(
    folder: Path, config: Mapping[str, Any]
) -> SentencePieceVocabularies | BytePairVocabularies:
    """Read the tokens that lie beside a Marian, as OPUS-MT's models have them, or as ours."""
    if not (folder / SOURCE_VOCABULARY_FILE).exists():
        apart = tuple(folder / side / TOKENIZER_FILE for side in ("source", "target"))
        for places in ((folder / TOKENIZER_FILE,), apart):
            if all(place.exists() for place in places):
                return BytePairVocabularies(places, _read_languages(folder))
    numbers = [_read_token_ids(folder / SOURCE_VOCABULARY_FILE)]
    two = config.get("share_encoder_decoder_embeddings", True) is not True
    numbers.append(_read_token_ids(folder / TARGET_VOCABULARY_FILE) if two else numbers[0])
    unknown = {some.get(_UNK_TOKEN, -1) for some in numbers}
    if len(unknown) != 1 or -1 in unknown:
        raise UserError(f"{folder}: its vocabularies have no {_UNK_TOKEN}, or not under one number")
    models = [read_sentencepiece_model(folder / name) for name in ("source.spm", "target.spm")]
    return SentencePieceVocabularies(
        (numbers[0], numbers[1]), (models[0], models[1]), unknown.pop(), _read_languages(folder)
    )


def _read_languages(folder: Path) -> tuple[str, str]:
    """What is translated into what, where somebody has written it down."""
    told = (
        read_json_object(folder / TOKENIZER_CONFIG_FILE)
        if (folder / TOKENIZER_CONFIG_FILE).exists()
        else {}
    )
    source, target = (
        name if isinstance(name := told.get(f"{side}_lang"), str) and name else side
        for side in ("source", "target")
    )
    return source, target


def write_languages(folder: Path, languages: tuple[str, str]) -> None:
    """Write down what is translated into what."""
    told = (
        read_json_object(folder / TOKENIZER_CONFIG_FILE)
        if (folder / TOKENIZER_CONFIG_FILE).exists()
        else {}
    )
    told |= dict(zip(("source_lang", "target_lang"), languages, strict=True))
    write_text(folder / TOKENIZER_CONFIG_FILE, json.dumps(told, indent=2) + "\n")


def _read_token_ids(path: Path) -> dict[str, int]:
    table = read_json_object(path)
    if any(type(n) is not int or n < 0 for n in table.values()):
        raise UserError(f"{path}: its tokens are not numbered")
    if len(set(table.values())) != len(table):
        raise UserError(f"{path}: two of its tokens have one number")
    return table


def read_sentencepiece_model(path: Path) -> SentencePieceModel:
    """Read a unigram model of SentencePiece's, which is a message of protobuf's."""
    try:
        message = read_bytes(path, MAX_JSON_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    try:
        return _parse_model(message)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, struct.error, LookupError, AttributeError, TypeError):
        raise UserError(f"{path}: not a model of SentencePiece's") from None


def _parse_model(message: bytes) -> SentencePieceModel:
    scored, kinds, folding = [], set(), b""
    for field, value in _parse_fields(message):
        if field == 1:
            piece = dict(_parse_fields(value))
            kind = piece.get(3, _NORMAL_PIECE)
            kinds.add(kind)
            if kind == _NORMAL_PIECE:
                scored.append((piece[1].decode("utf-8"), float(piece.get(2, 0.0))))
        elif (
            field == 2
            and (found := dict(_parse_fields(value)).get(3, _UNIGRAM_MODEL)) != _UNIGRAM_MODEL
        ):
            raise UserError(
                f"a model of kind {found}: only unigrams ({_UNIGRAM_MODEL}) can be read"
            )
        elif field == 3:
            settings = dict(_parse_fields(value))
            folding = settings.get(2, b"")
            if not all(settings.get(key, 1) for key in (3, 4, 5)):
                raise UserError("it treats spaces otherwise than usual, which cannot be read")
    if strange := kinds - {_NORMAL_PIECE, *_NON_TEXT_PIECES}:
        raise UserError(f"pieces of kind {truncate(str(sorted(strange)))}: they cannot be read")
    if not scored:
        raise ValueError
    return SentencePieceModel(scored, folding)


def _parse_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: a number, and an integer, a float or bytes."""
    place = 0
    while place < len(message):
        key, place = _parse_varint(message, place)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _parse_varint(message, place)
            yield field, value
        elif wire in (1, 5):
            size, form = (8, "<d") if wire == 1 else (4, "<f")
            yield field, struct.unpack_from(form, message, place)[0]
            place += size
        elif wire == 2:
            size, place = _parse_varint(message, place)
            if place + size > len(message):
                raise ValueError
            yield field, message[place : place + size]
            place += size
        else:
            raise ValueError


def _parse_varint(message: bytes, position: int) -> tuple[int, int]:
    """An integer in as many bytes as it needs, seven bits in each, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError
