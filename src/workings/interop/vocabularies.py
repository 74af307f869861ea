"""The vocabularies beside an imported translator: OPUS-MT's, or those that `export` wrote."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config import build
from workings.data.tokenizers.base import UNK_TOKEN, TokenizerPair
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.errors import UserError, truncate
from workings.interop.huggingface import (
    CONFIG_FILE,
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    write_json,
)
from workings.interop.tokenizer_files import NUM_SPECIALS, read_tokenizer
from workings.io import read_bytes, read_json_object
from workings.recipes import TranslationTokenizerConfig

UNK_ID = 2  # in all our tokenizers for translation
SOURCE_VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
SOURCE_SENTENCEPIECE_FILE, TARGET_SENTENCEPIECE_FILE = "source.spm", "target.spm"
# Of SentencePiece's protobuf messages.
_UNIGRAM_MODEL = 1
_NORMAL_PIECE, _NON_TEXT_PIECES = 1, (2, 3, 5)  # unknown, control, unused


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
class ExportedVocabularies:
    """The files of tokenizers as `workings export` writes them: one, or two."""

    paths: tuple[Path, ...]
    languages: tuple[str, str]
    unk_id: int = UNK_ID

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Return the `[tokenizer]` section of a recipe."""
        table = {
            "kind": tokenizers.target.kind,
            "vocab_size": len(tokenizers.target),
            "shared_vocab": len(self.paths) == 1,
            "lower": tokenizers.lower,
        }
        return build(TranslationTokenizerConfig, table)

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Return our tokenizers, given Marian's id of each of our ids."""
        source_path, target_path = self.paths * 2 if len(self.paths) == 1 else self.paths
        source, lowers_source = read_tokenizer(source_path)
        target, lowers_target = read_tokenizer(target_path)
        for path, tokenizer, order in (
            (source_path, source, source_order),
            (target_path, target, target_order),
        ):
            if list(order) != list(range(len(tokenizer))):
                raise UserError(f"{path}: its ids do not fit {CONFIG_FILE}")
        if lowers_source != lowers_target:
            raise UserError(
                f"{source_path} and {target_path}: expected that both lowercase texts, or neither"
            )
        return TokenizerPair(source, target, lowers_source)


def read_vocabularies(
    folder: Path, config: Mapping[str, Any]
) -> SentencePieceVocabularies | ExportedVocabularies:
    """Read the vocabularies beside a Marian: OPUS-MT's, or those that `workings export` wrote."""
    if not (folder / SOURCE_VOCABULARY_FILE).exists():
        separate = tuple(folder / side / TOKENIZER_FILE for side in ("source", "target"))
        for paths in ((folder / TOKENIZER_FILE,), separate):
            if all(path.exists() for path in paths):
                return ExportedVocabularies(paths, _read_languages(folder))
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
