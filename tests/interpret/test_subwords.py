"""Attention weights of subword tokens joined to words."""

import numpy as np
import pytest

from workings.data.tokenizers.base import train_tokenizer
from workings.interpret.subwords import (
    average_rows_by_word,
    join_pieces,
    sum_columns_by_word,
)


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
def test_pieces_of_bytes_are_joined_to_words(text, words):
    tokenizer = train_tokenizer("byte-pair", ["a cafe x"] * 3, 300, 1, with_eos=True)
    assert join_pieces(tokenizer.split_pieces(text)) == words


def test_rows_are_averaged_and_columns_added():
    pieces = ["a", " flow", "er"]
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(
        average_rows_by_word(weights, pieces), [[0, 1, 2], [4.5, 5.5, 6.5]]
    )
    np.testing.assert_array_equal(sum_columns_by_word(weights, pieces), [[0, 3], [3, 9], [6, 15]])
    assert average_rows_by_word(weights[:0], []).shape == (0, 3)
