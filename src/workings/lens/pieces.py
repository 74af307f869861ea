"""Pieces of words, joined to words, with what they look at."""

import re
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from workings.data.pair_splits import SIGNS
from workings.data.tokenizer import Span, Tokenizer
from workings.data.words import Words

_HALF = "\ufffd"  # how a part of a letter is written
_SIGN = re.compile(f"[{SIGNS}]")


def read_pieces(text: str, spans: Sequence[Span]) -> list[str]:
    """The text that each token adds; that of a word's first one begins with the space before it.

    Of a letter that several tokens make, the first one has it, and the others have nothing.
    """
    ends = [0, *accumulate((end for _, end in spans), max)]
    return [text[before:end] for before, end in pairwise(ends)]


def written_pieces(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    """What each token adds to the text that is written, as `read_pieces` tells it of a text."""
    found, before, first = [""] * len(tokens), "", 0
    for k in range(1, len(tokens) + 1):
        text = tokenizer.decode(tokens[:k])
        half = text.endswith(_HALF) and k < len(tokens)  # which another token makes whole
        added = text.rstrip(_HALF)[len(before) :] if half else text[len(before) :]
        if added:
            found[first] = added
            before += added
        if added or not half:
            first = k
    return found


def names_of(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[str]:
    """What the tokens of pieces are called: words have no part of the blanks between them."""
    return [piece.strip() if isinstance(tokenizer, Words) else piece for piece in pieces]


def words_of(pieces: Sequence[str]) -> list[str]:
    """The words that the pieces are of.

    >>> words_of(["a", " flow", "er"]), words_of(["猫", "が好き", "。"])
    (['a', 'flower'], ['猫', 'が好き', '。'])
    """
    together = groupby(zip(_numbers(pieces), pieces, strict=True), lambda item: item[0])
    return ["".join(piece for _, piece in some).strip() for _, some in together]


def joined_rows(
    weights: Float[Tensor, "pieces places"], of: Sequence[str]
) -> Float[Tensor, "words places"]:
    """What a word looks at is the mean of what its pieces do."""
    looking = _numbers(of)
    total = _summed(weights, looking, 0)
    return total / torch.bincount(torch.tensor(looking, dtype=torch.long)).unsqueeze(1)


def joined_columns(
    weights: Float[Tensor, "rows pieces"], of: Sequence[str]
) -> Float[Tensor, "rows words"]:
    """What a word is looked at is the sum of what its pieces are."""
    return _summed(weights, _numbers(of), 1)


def _summed(weights: Tensor, numbers: Sequence[int], dimension: int) -> Tensor:
    shape = list(weights.shape)
    shape[dimension] = numbers[-1] + 1 if numbers else 0
    index = torch.tensor(numbers, dtype=torch.long)
    return weights.new_zeros(shape).index_add_(dimension, index, weights)


def _numbers(pieces: Sequence[str]) -> list[int]:
    """Which word each piece belongs to; where no blanks part words, each piece is one."""
    found, word, before = [], -1, ""
    for piece in pieces:
        begins = piece[:1].isspace() or _SIGN.match(piece) or _SIGN.match(before)
        word += word < 0 or bool(piece and begins)  # what has nothing ends a letter
        found.append(word)
        before = piece[-1:] or before
    return found
