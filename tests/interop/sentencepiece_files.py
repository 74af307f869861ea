"""SentencePiece models, which are protobuf messages, written by hand."""

import struct

PIECES = {"▁": -2.0, "▁the": -2.5, "▁le": -2.6, "▁cat": -3.0, "▁chat": -3.1, "s": -3.0, "e": -4.0}


def encode_varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + encode_varint(n >> 7)


def encode_message(*fields):
    parts = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts.append(encode_varint(number << 3 | 2) + encode_varint(len(value)) + value)
        elif isinstance(value, float):
            parts.append(encode_varint(number << 3 | 5) + struct.pack("<f", value))
        else:
            parts.append(encode_varint(number << 3) + encode_varint(value))
    return b"".join(parts)


def make_sentencepiece_model(model_type=1, piece_type=1, add_dummy_prefix=1, pieces=PIECES):
    unknown = encode_message((1, b"<unk>"), (2, 0.0), (3, 2))
    end = encode_message((1, b"</s>"), (3, 3))
    scored = [
        encode_message((1, piece.encode()), (2, score), (3, piece_type))
        for piece, score in pieces.items()
    ]
    return encode_message(
        *((1, piece) for piece in (unknown, end, *scored)),
        (2, encode_message((3, model_type))),
        (3, encode_message((3, add_dummy_prefix))),
    )
