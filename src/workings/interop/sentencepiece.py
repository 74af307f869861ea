"""SentencePiece models: protobuf messages of pieces with scores, and a normalization table."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import UserError, truncate
from workings.interop.huggingface import MAX_JSON_BYTES
from workings.io import read_bytes

UNIGRAM, BYTE_PAIR = "unigram", "byte-pair"
_MODEL_TYPES = {UNIGRAM: 1, BYTE_PAIR: 2}
_NORMAL_PIECE, _NON_TEXT_PIECES = 1, (2, 3, 5)  # unknown, control, unused


@dataclass(frozen=True)
class SentencePieceModel:
    """The pieces of a model with their scores, and its normalization table."""

    scored_pieces: list[tuple[str, float]]
    charsmap: bytes


def read_sentencepiece_model(path: Path, model_type: str = UNIGRAM) -> SentencePieceModel:
    """Read a model of SentencePiece, which is a protobuf message."""
    try:
        message = read_bytes(path, MAX_JSON_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    try:
        return _parse_model(message, model_type)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, struct.error, LookupError, AttributeError, TypeError):
        raise UserError(f"{path}: not a SentencePiece model") from None


def _parse_model(message: bytes, model_type: str) -> SentencePieceModel:
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
            actual, expected = dict(_parse_fields(value)).get(3, 1), _MODEL_TYPES[model_type]
            if actual != expected:
                raise UserError(
                    f"model type {actual} is not supported: expected {model_type} ({expected})"
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
