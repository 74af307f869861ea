"""Tokens that were written, put together to words."""

import pytest

from workings.data.tokenizers import train_tokenizer
from workings.lens.pieces import read_pieces, words_of, written_pieces


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a café x", ["a", "café", "x"]),
        ("日本 x", ["日", "本", "x"]),
        ("x é", ["x", "é"]),
        ("猫x。", ["猫", "x。"]),
        ("plain", ["plain"]),
    ],
)
def test_a_letter_of_several_tokens_is_one_letter(text, words):
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, stop=True)
    pieces = written_pieces(tokenizer, tokenizer.encode(text))
    assert words_of(pieces) == words
    assert pieces == read_pieces(text, tokenizer.spans(text))
    assert len(tokenizer.spans(text)) == len(tokenizer.encode(text))


def test_what_ends_in_half_a_letter_has_all_its_tokens():
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, stop=True)
    half = tokenizer.encode("a é")[:-1]
    pieces = written_pieces(tokenizer, half)
    assert len(pieces) == len(half)
    assert "".join(pieces) == tokenizer.decode(half) == "a \ufffd"
