"""Classifiers of n-grams as graphs, which count the n-grams of token ids by themselves.

ONNX has neither sets nor hash tables. A number for each n-gram is looked up by a binary search in
sorted keys, and repeated numbers are neighbors once they are sorted.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from workings.interop.graph_base import BATCH, IDS, MASK, Graph, TensorSpec
from workings.models.classifiers import NgramClassifier
from workings.models.tfidf import (
    HASH_FACTOR,
    LETTER,
    MIX_STEPS,
    SINGLE,
    SPACE,
    WORD_SALT,
    TfidfClassifier,
)

Ids = Int[Tensor, "batch time"]
_SIGN_BIT = -(2**63)
_EXPONENT_BITS = 24  # of positions in a word


class NgramGraph(Graph):
    """A classifier of n-grams of tokens."""

    def __init__(self, model: NgramClassifier) -> None:
        super().__init__([IDS, MASK], [TensorSpec("logits", (BATCH, model.num_classes))])
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        ids, mask = tensors
        time, base = ids.shape[1], self.model.vocab_size + 1
        tokens = F.pad((ids + 1) * mask, (0, self.model.max_n))  # padding is the digit 0
        ngrams, numbers = torch.zeros_like(ids), []
        is_complete = torch.ones_like(ids, dtype=torch.bool)
        for n in range(self.model.max_n):
            last = tokens[:, n : n + time]
            ngrams, is_complete = ngrams * base + last, is_complete & (last > 0)
            numbers.append(_look_up(self.model.keys, ngrams, is_complete))
        evidence = self.model.ratios * self.model.weights
        features = evidence[_keep_unique(numbers)]  # row 0 is zeros
        return (features.sum(1) + self.model.bias,)


class TfidfGraph(Graph):
    """A classifier of TF-IDF vectors: n-grams of words and of characters, by their hashes."""

    codes: Tensor
    kinds: Tensor
    keys: Tensor

    def __init__(self, model: TfidfClassifier) -> None:
        super().__init__([IDS, MASK], [TensorSpec("logits", (BATCH, model.num_classes))])
        self.model, self.num_words = model, model.num_words
        codes, kinds = model.character_tables
        self.register_buffer("codes", torch.from_numpy(codes))
        self.register_buffer("kinds", torch.from_numpy(kinds))
        # Hashes are sorted as unsigned numbers: without their highest bit, signed ones are, too.
        self.register_buffer("keys", model.keys ^ _SIGN_BIT)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        ids, mask = tensors
        kinds = torch.where(mask > 0, self.kinds[ids], SPACE)
        kinds = F.pad(kinds, (1, 1), value=SPACE)
        codes = torch.where(kinds == SPACE, ord(" "), F.pad(self.codes[ids], (1, 1)))
        words = self._number_words(codes, kinds)
        characters = self._number_characters(codes, kinds)
        numbers = _keep_unique([*words, *characters])
        tfidf = self.model.compute_tfidf(numbers).unsqueeze(-1)
        return ((self.model.evidence[numbers] * tfidf).sum(1) + self.model.bias,)

    def _number_words(self, codes: Ids, kinds: Ids) -> list[Ids]:
        """Return the numbers of the n-grams of words."""
        keys = self.keys[: self.num_words]
        if not len(keys):
            return []
        time = kinds.shape[1]
        is_letter = kinds == LETTER
        is_start = (is_letter & ~F.pad(is_letter[:, :-1], (1, 0))) | (kinds == SINGLE)
        starts = _find_positions(is_start)  # then `time`, where there are no more words
        word = (is_start.long().cumsum(1) - 1).clamp(min=0)  # of each character
        within = torch.arange(time, device=kinds.device) - starts.gather(1, word)
        terms = torch.where(is_letter | (kinds == SINGLE), _mix(codes) * _power(within + 1), 0)
        sums = F.pad(terms.cumsum(1), (1, 0))  # before each position
        before = sums.gather(1, starts)
        until = torch.cat((before[:, 1:], sums[:, -1:]), 1)
        hashes = _mix(until - before + _signed(WORD_SALT))
        is_word = is_complete = starts < time
        joined, numbers = hashes, [_look_up(keys, hashes ^ _SIGN_BIT, is_complete)]
        for _ in range(1, self.model.max_words):
            hashes, is_word = _shift(hashes), _shift(is_word)
            joined = _mix(joined * _signed(HASH_FACTOR) + hashes)
            is_complete = is_complete & is_word
            numbers.append(_look_up(keys, joined ^ _SIGN_BIT, is_complete))
        return numbers

    def _number_characters(self, codes: Ids, kinds: Ids) -> list[Ids]:
        """Return the numbers of the n-grams of characters, which have spaces only at their ends."""
        keys = self.keys[self.num_words :]
        if not len(keys):
            return []
        is_space = kinds == SPACE
        # Of adjacent spaces the last one stays.
        positions = _find_positions(~(is_space & F.pad(is_space[:, 1:], (0, 1))))
        codes = F.pad(codes, (0, 1), value=ord(" ")).gather(1, positions)
        is_space = F.pad(is_space, (0, 1), value=True).gather(1, positions)
        last, is_last_space, has_inner_space = codes, is_space, torch.zeros_like(is_space)
        joined, numbers = codes, []
        for n in range(2, self.model.max_characters + 1):
            if n > 2:
                has_inner_space = has_inner_space | is_last_space
            last, is_last_space = _shift(last, fill=ord(" ")), _shift(is_last_space, fill=True)
            joined = _mix(joined * _signed(HASH_FACTOR) + last)
            is_valid = ~(is_space & is_last_space) if n == 2 else ~has_inner_space
            number = _look_up(keys, joined ^ _SIGN_BIT, is_valid)
            numbers.append(torch.where(number > 0, number + self.num_words, 0))
        return numbers


def _look_up(
    keys: Int[Tensor, " ngrams"], values: Ids, is_valid: Bool[Tensor, "batch time"]
) -> Ids:
    """Return the index (from 1) of each valid value in sorted keys, or 0 if it is not there."""
    index, last = torch.zeros_like(values), keys.shape[0] - 1
    for step in (2**k for k in reversed(range(last.bit_length()))):
        candidate = index + step
        is_below = (candidate <= last) & (keys[candidate.clamp(max=last)] <= values)
        index = torch.where(is_below, candidate, index)
    return torch.where((keys[index] == values) & is_valid, index + 1, 0)


def _keep_unique(numbers: list[Ids]) -> Ids:
    """Return all numbers of each text, with 0 in place of repeated ones."""
    ordered = torch.cat(numbers, 1).sort(1).values
    is_repeated = F.pad(ordered[:, 1:] == ordered[:, :-1], (1, 0))
    return ordered.masked_fill(is_repeated, 0)


def _find_positions(is_chosen: Bool[Tensor, "batch time"]) -> Ids:
    """Return the chosen positions of each row in order, then `time` for the others."""
    time = is_chosen.shape[1]
    return torch.where(is_chosen, torch.arange(time, device=is_chosen.device), time).sort(1).values


def _shift(values: Tensor, fill: float = 0) -> Tensor:
    """Return each row one position to the left."""
    return F.pad(values[:, 1:], (0, 1), value=fill)


# -- arithmetic modulo 2**64, with signed numbers --------------------------------------------------


def _signed(value: int) -> int:
    value = int(value) % 2**64
    return value - 2**64 if value >= 2**63 else value


def _mix(values: Tensor) -> Tensor:
    """Hash each number, as `models.tfidf` does."""
    for shift, factor in MIX_STEPS:
        # A signed number is shifted with copies of its sign.
        shifted = (values >> shift) & (2 ** (64 - shift) - 1)
        values = (values ^ shifted) * _signed(factor)
    return values


def _power(exponents: Tensor) -> Tensor:
    """Return the powers of `HASH_FACTOR`."""
    powers = torch.ones_like(exponents)
    for k in range(_EXPONENT_BITS):
        factor = _signed(pow(HASH_FACTOR, 2**k, 2**64))
        powers = powers * torch.where((exponents >> k) & 1 > 0, factor, 1)
    return powers
