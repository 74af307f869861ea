"""Tokens that were written, put together to words."""

import pytest

from workings.data.tokenizers import train_tokenizer
from workings.lens.pieces import read_pieces, words_of, written_pieces


@pytest.mark.parametrize("text", ["a café x", "日本 x", "x é", "plain"])
def test_a_letter_of_several_tokens_is_one_letter(text):
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, stop=True)
    pieces = written_pieces(tokenizer, tokenizer.encode(text))
    assert "".join(pieces).strip() == text
    assert words_of(pieces) == text.split()
    assert words_of(read_pieces(text, tokenizer.spans(text))) == text.split()
    assert len(tokenizer.spans(text)) == len(tokenizer.encode(text))
