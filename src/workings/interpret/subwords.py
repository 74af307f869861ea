"""Attention weights of subword tokens, joined to whole words."""

import re
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from workings.data.sentence_pairs import CJK_RANGES
from workings.interpret.results import Weights

_CJK_CHARACTER = re.compile(f"[{CJK_RANGES}]")


def join_pieces(pieces: Sequence[str]) -> list[str]:
    """Return the words that the pieces make up.

    >>> join_pieces(["a", " flow", "er"]), join_pieces(["猫", "が好き", "。"])
    (['a', 'flower'], ['猫', 'が好き', '。'])
    """
    indexed = zip(_compute_word_indices(pieces), pieces, strict=True)
    groups = groupby(indexed, lambda item: item[0])
    return ["".join(piece for _, piece in group).strip() for _, group in groups]


def average_rows_by_word(weights: Weights, pieces: Sequence[str]) -> Weights:
    """Return one row per word: the mean of the rows of its pieces."""
    indices = _compute_word_indices(pieces)
    counts = np.bincount(np.asarray(indices, dtype=np.int64)).astype(np.float32)
    means: Weights = _sum_by_index(weights, indices) / counts[:, None]
    return means


def sum_columns_by_word(weights: Weights, pieces: Sequence[str]) -> Weights:
    """Return one column per word: the sum of the columns of its pieces."""
    sums: Weights = _sum_by_index(weights.T, _compute_word_indices(pieces)).T
    return sums


def _sum_by_index(rows: Weights, indices: Sequence[int]) -> Weights:
    sums = np.zeros((indices[-1] + 1 if indices else 0, rows.shape[1]), rows.dtype)
    np.add.at(sums, np.asarray(indices, dtype=np.int64), rows)
    return sums


def _compute_word_indices(pieces: Sequence[str]) -> list[int]:
    """Return the index of the word of each piece; without spaces (CJK) each piece is a word."""
    indices, word, last = [], -1, ""
    for piece in pieces:
        is_start = piece[:1].isspace() or _CJK_CHARACTER.match(piece) or _CJK_CHARACTER.match(last)
        # An empty piece completes the character before it.
        word += word < 0 or bool(piece and is_start)
        indices.append(word)
        last = piece[-1:] or last
    return indices
