"""Marian (OPUS-MT) in Hugging Face's format, read and written.

Marian is our Transformer translator with normalization after each layer. Names of tensors differ,
and queries, keys and values have a matrix each. The sinusoidal positions are the same features in
another order: all sines before all cosines, where ours alternate. Tokens may have other ids, too.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from workings.data.tokenizers.base import UNK_TOKEN, Tokenizer, TokenizerPair
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.errors import UserError, safe_repr, truncate
from workings.interop.huggingface import (
    CONFIG_FILE,
    LOWERCASE_NORMALIZER,
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    activation_name,
    check_settings,
    check_size,
    check_tensor_names,
    get_tensor,
    read_activation,
    read_byte_pairs,
    write_json,
)
from workings.interop.weights import find_weights_file, read_weights
from workings.io import read_bytes, read_json_object
from workings.layers.positions import SinusoidalPositions
from workings.layers.transformer import EncoderBlock
from workings.models.translation import (
    PAD,
    START,
    TransformerTranslator,
    Translator,
    build_translator,
)
from workings.modules import meta_device
from workings.recipes import TranslationTokenizerConfig
from workings.storage import export_tensors

UNK_ID, EOS_ID = 2, 3  # in all our tokenizers for translation
NUM_SPECIALS = 4
HF_MAX_POSITIONS = 1024
"""Positions that Hugging Face's model has; ours has no limit."""
SUPPRESSED_LOGIT_BIAS = -1e4
"""A bias with which a token is never generated."""
SOURCE_VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
SOURCE_SENTENCEPIECE_FILE, TARGET_SENTENCEPIECE_FILE = "source.spm", "target.spm"

_ACTIVATIONS = ("silu", "gelu", "gelu-tanh", "relu")
# Other values of these settings would be another function.
_REQUIRED_SETTINGS = {
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "scale_embedding": True,
}
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
# Of SentencePiece's protobuf messages.
_UNIGRAM_MODEL = 1
_NORMAL_PIECE, _NON_TEXT_PIECES = 1, (2, 3, 5)  # unknown, control, unused


class ImportedMarian(NamedTuple):
    """A model, its section of a recipe, and the ids of Marian in the order of our ids."""

    model: TransformerTranslator
    model_table: dict[str, Any]
    source_order: list[int]
    target_order: list[int]

    @property
    def is_renumbered(self) -> bool:
        """Return True if Marian's token ids differ from ours."""
        return self.target_order != list(range(len(self.target_order)))


class TensorMapping(NamedTuple):
    """A tensor here, and the tensors of Hugging Face's file that it is concatenated from."""

    name: str
    hf_names: tuple[str, ...]
    feature_dim: int | None = None
    """The dimension in which features are reordered."""


def read_marian(folder: Path, config: Mapping[str, Any], unk_id: int = 1) -> ImportedMarian:
    """Read a model that Hugging Face's `MarianMTModel.save_pretrained` wrote.

    `unk_id` is Marian's id of the unknown token, which only the vocabulary states.
    """
    table, vocab_sizes = convert_marian_config(config)
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
    check_tensor_names(tensors, (name for m in mappings for name in m.hf_names), "Marian", path)
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
    model.positions = SinusoidalPositions(table["d_model"])
    return ImportedMarian(model.eval(), table, source_order, target_order)


def write_marian(model: Translator, folder: Path) -> None:
    """Write a model into a folder as `MarianMTModel.from_pretrained` reads it; ids are kept."""
    config = _build_config(model)
    table, (_, target_size) = convert_marian_config(config)
    parameters, features = model.state_dict(), feature_order(table["d_model"]).argsort()
    tensors: dict[str, Tensor] = {}
    for mapping in _map_tensors(table):
        tensor = parameters[mapping.name]
        if mapping.feature_dim is not None:
            tensor = tensor.index_select(mapping.feature_dim, features.to(tensor.device))
        chunks = tensor.chunk(len(mapping.hf_names))
        tensors |= dict(zip(mapping.hf_names, chunks, strict=True))
    bias = parameters.get("head.bias", torch.zeros(target_size))
    export_tensors(folder / WEIGHTS_FILE, tensors | {"final_logits_bias": bias.view(1, -1)})
    write_json(folder / CONFIG_FILE, config)


def convert_marian_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Return the `[model]` section of a recipe for a Marian's config, and its vocabulary sizes.

    >>> config = {"d_model": 64, "scale_embedding": True, "activation_function": "swish"}
    >>> table, vocab_sizes = convert_marian_config(config)
    >>> table["d_model"], table["activation"], vocab_sizes
    (64, 'silu', (58101, 58101))
    """
    check_settings(config, _REQUIRED_SETTINGS, _DEFAULT_SETTINGS)
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
        "norm": "post",
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
    """Return Marian's id of each of our ids: special tokens first (padding may also be start)."""
    pad = config.get("pad_token_id", size - 1)
    eos = config.get("eos_token_id", 0)
    start = config.get("decoder_start_token_id", pad)
    specials = [pad, start, unk_id, eos]
    for token_id in specials:
        if type(token_id) is not int or not 0 <= token_id < size:
            raise UserError(
                f"{CONFIG_FILE}: token id {safe_repr(token_id)} is out of range: 0 to {size - 1:,}"
            )
    if len({start, unk_id, eos}) < 3:
        raise UserError(
            f"{CONFIG_FILE}: decoder_start_token_id, eos_token_id and the unknown token must differ"
        )
    others = sorted(set(range(size)) - set(specials))
    return [*specials, *others]


def _build_config(model: Translator) -> dict[str, Any]:
    """Return the config of a model as a Marian; raise UserError if it is not one."""
    if not isinstance(model, TransformerTranslator):
        raise UserError("Marian is a Transformer: a recurrent model cannot be saved as one")
    block = model.encoder[0]
    assert isinstance(block, EncoderBlock)
    if block.attention_residual.norm_placement != "post":
        raise UserError('Marian normalizes after each layer: expected model.norm = "post"')
    source, target = model.source_embedding, model.target_embedding
    is_tied = model.head.weight is target.weight
    sizes = {
        "layers": len(model.encoder),
        "attention_heads": block.attention.heads,
        "ffn_dim": block.feed_forward.inner.out_features,
    }
    return {
        "architectures": ["MarianMTModel"],
        **_REQUIRED_SETTINGS,
        "vocab_size": source.num_embeddings,
        "decoder_vocab_size": target.num_embeddings,
        "d_model": target.embedding_dim,
        **{f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in sizes.items()},
        "activation_function": activation_name(block.feed_forward.activation),
        "max_position_embeddings": HF_MAX_POSITIONS,
        "share_encoder_decoder_embeddings": source is target and is_tied,
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
    unique = {n: t for n, t in tensors.items() if not n.endswith("embed_positions.weight")}
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


@dataclass(frozen=True)
class SentencePieceModel:
    """The pieces of a SentencePiece model with their scores, and its normalization table."""

    scored_pieces: list[tuple[str, float]]
    charsmap: bytes


@dataclass(frozen=True)
class SentencePieceVocabularies:
    """The ids of both languages' tokens, the models that split texts, and the languages."""

    token_ids: tuple[dict[str, int], dict[str, int]]
    models: tuple[SentencePieceModel, SentencePieceModel]
    unk_id: int
    languages: tuple[str, str]

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Return the `[tokenizer]` section of a recipe."""
        return TranslationTokenizerConfig(
            kind="pretrained", vocab_size=len(tokenizers.target), shared_vocab=False
        )

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Return our tokenizers, given Marian's id of each of our ids."""
        source, target = (
            self._build_tokenizer(token_ids, model, order)
            for token_ids, model, order in zip(
                self.token_ids, self.models, (source_order, target_order), strict=True
            )
        )
        return TokenizerPair(source, target)

    @staticmethod
    def _build_tokenizer(
        token_ids: Mapping[str, int], model: SentencePieceModel, order: Sequence[int]
    ) -> UnigramTokenizer:
        names = {token_id: name for name, token_id in token_ids.items()}
        vocabulary = [names.get(k, f"<unused {k}>") for k in order[NUM_SPECIALS:]]
        return UnigramTokenizer(
            vocabulary, scored_pieces=model.scored_pieces, charsmap=model.charsmap
        )


@dataclass(frozen=True)
class BytePairVocabularies:
    """The files of byte-pair tokenizers as `workings export` writes them: one, or two."""

    paths: tuple[Path, ...]
    languages: tuple[str, str]
    unk_id: int = UNK_ID

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Return the `[tokenizer]` section of a recipe."""
        return TranslationTokenizerConfig(
            kind="byte-pair",
            vocab_size=len(tokenizers.target),
            shared_vocab=len(self.paths) == 1,
            lower=tokenizers.lower,
        )

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Return our tokenizers, given Marian's id of each of our ids."""
        source_path, target_path = self.paths * 2 if len(self.paths) == 1 else self.paths
        source, lowers_source = _read_byte_pair_tokenizer(source_path, source_order)
        target, lowers_target = _read_byte_pair_tokenizer(target_path, target_order)
        if lowers_source != lowers_target:
            raise UserError(
                f"{source_path} and {target_path}: expected that both lowercase texts, or neither"
            )
        return TokenizerPair(source, target, lowers_source)


def _read_byte_pair_tokenizer(path: Path, order: Sequence[int]) -> tuple[Tokenizer, bool]:
    """Return a tokenizer, and whether it lowercases texts."""
    ids, merges = read_byte_pairs(path)
    normalizer = read_json_object(path, MAX_JSON_BYTES).get("normalizer")
    are_integers = all(type(token_id) is int for token_id in ids.values())
    if not are_integers or not sorted(ids.values()) == list(order) == list(range(len(ids))):
        raise UserError(
            f"{path}: of byte-pair tokenizers, only those that `workings export` writes can be read"
        )
    if normalizer not in (None, LOWERCASE_NORMALIZER):
        raise UserError(
            f"{path}: its normalizer is not supported: expected {safe_repr(LOWERCASE_NORMALIZER)}"
        )
    vocabulary = sorted(ids, key=ids.__getitem__)[NUM_SPECIALS:]
    try:
        tokenizer = BytePairTokenizer(vocabulary, merges=merges, with_eos=True)
    except UserError as error:
        raise UserError(f"{path}: {truncate(str(error), 150)}") from None
    return tokenizer, normalizer is not None


def read_vocabularies(
    folder: Path, config: Mapping[str, Any]
) -> SentencePieceVocabularies | BytePairVocabularies:
    """Read the vocabularies beside a Marian: OPUS-MT's, or those that `workings export` wrote."""
    if not (folder / SOURCE_VOCABULARY_FILE).exists():
        separate = tuple(folder / side / TOKENIZER_FILE for side in ("source", "target"))
        for paths in ((folder / TOKENIZER_FILE,), separate):
            if all(path.exists() for path in paths):
                return BytePairVocabularies(paths, _read_languages(folder))
    source_ids = target_ids = _read_token_ids(folder / SOURCE_VOCABULARY_FILE)
    if config.get("share_encoder_decoder_embeddings", True) is not True:
        target_ids = _read_token_ids(folder / TARGET_VOCABULARY_FILE)
    unk_id = source_ids.get(UNK_TOKEN)
    if unk_id is None or target_ids.get(UNK_TOKEN) != unk_id:
        raise UserError(f"{folder}: expected {UNK_TOKEN} with the same id in both vocabularies")
    models = (
        read_sentencepiece_model(folder / SOURCE_SENTENCEPIECE_FILE),
        read_sentencepiece_model(folder / TARGET_SENTENCEPIECE_FILE),
    )
    return SentencePieceVocabularies(
        (source_ids, target_ids), models, unk_id, _read_languages(folder)
    )


def _read_languages(folder: Path) -> tuple[str, str]:
    """Return source and target language of a tokenizer's config, or "source" and "target"."""
    settings = _read_tokenizer_config(folder)
    source, target = (settings.get(f"{side}_lang") for side in ("source", "target"))
    return (
        source if isinstance(source, str) and source else "source",
        target if isinstance(target, str) and target else "target",
    )


def write_languages(folder: Path, languages: tuple[str, str]) -> None:
    """Add source and target language to a tokenizer's config."""
    source, target = languages
    settings = _read_tokenizer_config(folder) | {"source_lang": source, "target_lang": target}
    write_json(folder / TOKENIZER_CONFIG_FILE, settings)


def _read_tokenizer_config(folder: Path) -> dict[str, Any]:
    path = folder / TOKENIZER_CONFIG_FILE
    return read_json_object(path, MAX_JSON_BYTES) if path.exists() else {}


def _read_token_ids(path: Path) -> dict[str, int]:
    table = read_json_object(path, MAX_JSON_BYTES)
    if any(type(n) is not int or n < 0 for n in table.values()):
        raise UserError(f"{path}: expected an id of at least 0 for each token")
    if len(set(table.values())) != len(table):
        raise UserError(f"{path}: two tokens have the same id")
    return table


def read_sentencepiece_model(path: Path) -> SentencePieceModel:
    """Read a unigram model of SentencePiece, which is a protobuf message."""
    try:
        message = read_bytes(path, MAX_JSON_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    try:
        return _parse_model(message)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, struct.error, LookupError, AttributeError, TypeError):
        raise UserError(f"{path}: not a SentencePiece model") from None


def _parse_model(message: bytes) -> SentencePieceModel:
    """Parse a ModelProto: field 1 is a piece, 2 the trainer's and 3 the normalizer's settings."""
    scored_pieces, kinds, charsmap = [], set(), b""
    for field, value in _parse_fields(message):
        if field == 1:
            piece = dict(_parse_fields(value))
            kind = piece.get(3, _NORMAL_PIECE)
            kinds.add(kind)
            if kind == _NORMAL_PIECE:
                scored_pieces.append((piece[1].decode("utf-8"), float(piece.get(2, 0.0))))
        elif field == 2:
            model_type = dict(_parse_fields(value)).get(3, _UNIGRAM_MODEL)
            if model_type != _UNIGRAM_MODEL:
                raise UserError(
                    f"model type {model_type} is not supported: expected unigram ({_UNIGRAM_MODEL})"
                )
        elif field == 3:
            settings = dict(_parse_fields(value))
            charsmap = settings.get(2, b"")
            # add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces
            if not all(settings.get(key, 1) for key in (3, 4, 5)):
                raise UserError("its settings for spaces are not supported: expected the defaults")
    if unsupported := kinds - {_NORMAL_PIECE, *_NON_TEXT_PIECES}:
        raise UserError(f"pieces of type {truncate(str(sorted(unsupported)))} are not supported")
    if not scored_pieces:
        raise ValueError
    return SentencePieceModel(scored_pieces, charsmap)


def _parse_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: a number, and an integer, a float or bytes."""
    position = 0
    while position < len(message):
        key, position = _parse_varint(message, position)
        field, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _parse_varint(message, position)
            yield field, value
        elif wire_type in (1, 5):
            size, number_format = (8, "<d") if wire_type == 1 else (4, "<f")
            yield field, struct.unpack_from(number_format, message, position)[0]
            position += size
        elif wire_type == 2:
            size, position = _parse_varint(message, position)
            if position + size > len(message):
                raise ValueError
            yield field, message[position : position + size]
            position += size
        else:
            raise ValueError


def _parse_varint(message: bytes, position: int) -> tuple[int, int]:
    """Return an integer of variable length, seven bits in each byte, and its end."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError
