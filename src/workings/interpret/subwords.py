"""Pieces of words, joined to words, with what they look at."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from workings.data.parallel_splits import CJK_RANGES
from workings.data.tokenizers.base import Span, Tokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.tasks.seq2seq import Generation
from workings.tasks.translation import Translation

_REPLACEMENT_CHARACTER = "\ufffd"  # how a part of a letter is written
_CJK_CHARACTER = re.compile(f"[{CJK_RANGES}]")


def split_pieces(text: str, spans: Sequence[Span]) -> list[str]:
    """The text that each token adds; that of a word's first one begins with the space before it.

    Of a letter that several tokens make, the first one has it, and the others have nothing.
    """
    ends = [0, *accumulate((end for _, end in spans), max)]
    return [text[before:end] for before, end in pairwise(ends)]


def decode_pieces(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    """What each token adds to the text that is written, as `read_pieces` tells it of a text."""
    found, before, first = [""] * len(tokens), "", 0
    for k in range(1, len(tokens) + 1):
        text = tokenizer.decode(tokens[:k])
        half = text.endswith(_REPLACEMENT_CHARACTER) and k < len(
            tokens
        )  # which another token makes whole
        added = text.rstrip(_REPLACEMENT_CHARACTER)[len(before) :] if half else text[len(before) :]
        if added:
            found[first] = added
            before += added
        if added or not half:
            first = k
    return found


def label_pieces(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[str]:
    """What the tokens of pieces are called: words have no part of the blanks between them."""
    return [piece.strip() if isinstance(tokenizer, WordTokenizer) else piece for piece in pieces]


def join_pieces(pieces: Sequence[str]) -> list[str]:
    """The words that the pieces are of.

    >>> join_pieces(["a", " flow", "er"]), join_pieces(["猫", "が好き", "。"])
    (['a', 'flower'], ['猫', 'が好き', '。'])
    """
    together = groupby(
        zip(_compute_word_indices(pieces), pieces, strict=True), lambda item: item[0]
    )
    return ["".join(piece for _, piece in some).strip() for _, some in together]


def average_rows_by_word(
    weights: Float[Tensor, "pieces places"], pieces: Sequence[str]
) -> Float[Tensor, "words places"]:
    """What a word looks at is the mean of what its pieces do."""
    looking = _compute_word_indices(pieces)
    total = _sum_by_index(weights, looking, 0)
    return total / torch.bincount(torch.tensor(looking, dtype=torch.long)).unsqueeze(1)


def sum_columns_by_word(
    weights: Float[Tensor, "rows pieces"], pieces: Sequence[str]
) -> Float[Tensor, "rows words"]:
    """What a word is looked at is the sum of what its pieces are."""
    return _sum_by_index(weights, _compute_word_indices(pieces), 1)


def _sum_by_index(weights: Tensor, indices: Sequence[int], dimension: int) -> Tensor:
    shape = list(weights.shape)
    shape[dimension] = indices[-1] + 1 if indices else 0
    index = torch.tensor(indices, dtype=torch.long)
    return weights.new_zeros(shape).index_add_(dimension, index, weights)


def _compute_word_indices(pieces: Sequence[str]) -> list[int]:
    """Which word each piece belongs to; where no blanks part words, each piece is one."""
    found, word, before = [], -1, ""
    for piece in pieces:
        begins = piece[:1].isspace() or _CJK_CHARACTER.match(piece) or _CJK_CHARACTER.match(before)
        word += word < 0 or bool(piece and begins)  # what has nothing ends a letter
        found.append(word)
        before = piece[-1:] or before
    return found


@dataclass(frozen=True)
class TargetText:
    """A translation or a caption: its tokens, and what each of them adds to the text."""

    text: str
    tokens: Sequence[int]
    pieces: Sequence[str]


def build_target(tokenizer: Tokenizer, target: Generation | str) -> TargetText:
    """What a model wrote, by the tokens that it chose; somebody's text, by those it is read in.

    The two can differ: a model may spell a word otherwise than its tokenizer would.
    """
    if isinstance(target, Generation):
        return TargetText(target.text, target.tokens, decode_pieces(tokenizer, target.tokens))
    return TargetText(
        target, tokenizer.encode(target), split_pieces(target, tokenizer.find_spans(target))
    )


def build_translation_target(
    task: Translation, source: str, target: Generation | str | None
) -> TargetText:
    """A translation to look into: the model's own, where none is given."""
    if isinstance(target, str):
        target = task.tokenizers.normalize_case(target)
    return build_target(
        task.tokenizers.target, task.translate_one(source) if target is None else target
    )
