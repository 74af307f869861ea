"""Subword tokens: the text that each adds, and attention weights joined to whole words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import numpy as np

from workings.data.sentence_pairs import CJK_RANGES
from workings.data.tokenizers.base import Span, Tokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.interpret.results import Weights
from workings.tasks.seq2seq import Generation

_REPLACEMENT_CHARACTER = "\ufffd"  # stands for an incomplete character
_CJK_CHARACTER = re.compile(f"[{CJK_RANGES}]")


@dataclass(frozen=True)
class TargetText:
    """A translation or caption: its tokens, and the text that each of them adds."""

    text: str
    tokens: Sequence[int]
    pieces: Sequence[str]


def build_target(tokenizer: Tokenizer, target: Generation | str) -> TargetText:
    """Return the tokens and pieces of a target.

    A generation has the tokens that the model chose; a text is encoded. They can differ: a model
    may generate other tokens for a word than its tokenizer would.
    """
    if isinstance(target, Generation):
        return TargetText(target.text, target.tokens, decode_pieces(tokenizer, target.tokens))
    pieces = split_pieces(target, tokenizer.find_spans(target))
    return TargetText(target, tokenizer.encode(target), pieces)


def split_pieces(text: str, spans: Sequence[Span]) -> list[str]:
    """Return the text that each token adds, from the end of the token before it.

    If several tokens make up one character, the first has it and the others are empty.
    """
    ends = [0, *accumulate((end for _, end in spans), max)]
    return [text[start:end] for start, end in pairwise(ends)]


def decode_pieces(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    """Return the text that each token adds when the tokens are decoded from left to right."""
    pieces, decoded, first = [""] * len(tokens), "", 0
    for k in range(1, len(tokens) + 1):
        text = tokenizer.decode(tokens[:k])
        # The next token may complete the last character.
        is_incomplete = text.endswith(_REPLACEMENT_CHARACTER) and k < len(tokens)
        if is_incomplete:
            text = text.rstrip(_REPLACEMENT_CHARACTER)
        added = text[len(decoded) :]
        if added:
            pieces[first] = added
            decoded += added
        if added or not is_incomplete:
            first = k
    return pieces


def label_pieces(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[str]:
    """Return the labels of tokens: words without the spaces between them, other pieces as is."""
    return [piece.strip() if isinstance(tokenizer, WordTokenizer) else piece for piece in pieces]


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
