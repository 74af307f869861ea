"""Tokens that were written, put together to words."""

import pytest

from workings.data.tokenizers.registry import train_tokenizer
from workings.interpret.subwords import decode_pieces, join_pieces, split_pieces


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
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, with_eos=True)
    pieces = decode_pieces(tokenizer, tokenizer.encode(text))
    assert join_pieces(pieces) == words
    assert pieces == split_pieces(text, tokenizer.find_spans(text))
    assert len(tokenizer.find_spans(text)) == len(tokenizer.encode(text))


def test_what_ends_in_half_a_letter_has_all_its_tokens():
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, with_eos=True)
    half = tokenizer.encode("a é")[:-1]
    pieces = decode_pieces(tokenizer, half)
    assert len(pieces) == len(half)
    assert "".join(pieces) == tokenizer.decode(half) == "a \ufffd"
