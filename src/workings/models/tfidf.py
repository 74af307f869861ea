"""Naive Bayes and a linear classifier over TF-IDF weighted n-grams of words and of characters."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from workings.errors import UserError
from workings.models.classifier_base import TextClassifier
from workings.ragged import RaggedArray, Row
from workings.trace import tap

Ids = Row

SPACE, LETTER, SYMBOL, SINGLE = range(4)
"""Kinds of characters: a SINGLE one, as of Chinese, is a word by itself."""
MIN_CHARACTERS = 2  # of an n-gram of characters: one character says little
CHUNK_CHARACTERS = 2**20  # of the texts that are counted at a time, to bound the memory
CHUNK_TEXTS = 64  # whose TF-IDF vectors are summed at a time
SMOOTHING = 0.3  # added to the sums of naive Bayes: a text's n-gram has about 0.1
HASH_FACTOR = 0x9E3779B97F4A7C15  # of polynomial hashes, modulo 2**64
WORD_SALT = 0xD6E8FEB86659FD93  # words and the same characters are different n-grams
MIX_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors of the finalizer of SplitMix64."""
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese.
_UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


class Occurrences(NamedTuple):
    """The n-grams of some characters: the hash, first position and length of each."""

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class TfidfClassifier(TextClassifier):
    """A linear classifier over the TF-IDF vectors of a text's n-grams, with naive-Bayes weights.

    The ids are characters. N-grams of words, and of characters within a word and the spaces around
    it, are two vectors of length 1 each; case does not count. Training learns a factor for the
    log-ratio that naive Bayes gives an n-gram for each class (NBSVM, Wang and Manning 2012): with
    few texts this beats both naive Bayes and weights that are learned alone. Call
    `read_vocabulary` and `prepare` before training.

    >>> model = TfidfClassifier(vocab_size=8, num_classes=2, min_count=1)
    >>> model.read_vocabulary(["<pad>", "<s>", "<unk>", "a", "b", "c", " ", "A"])
    >>> model.prepare([[3, 4, 6, 5], [5, 5]], labels=[0, 1])
    >>> model.num_words  # ab, c, "ab c" and cc
    4
    >>> (model.featurize([3, 4]) == model.featurize([7, 4])).all()
    np.True_
    """

    keys: Tensor
    idf: Tensor
    ratios: Tensor

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        *,
        max_words: int = 2,
        max_characters: int = 5,
        min_count: int = 2,
        max_features: int = 500_000,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.num_classes = vocab_size, num_classes
        self.max_words, self.max_characters = max_words, max_characters
        self.min_count, self.max_features, self.dropout = min_count, max_features, dropout
        self._codes = np.zeros(vocab_size, dtype=np.uint64)  # of each id, case folded
        self._kinds = np.full(vocab_size, SYMBOL)
        # Row 0 is padding; then the words, then the characters. `keys` are their sorted hashes.
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("num_word_keys", torch.zeros((), dtype=torch.int64))
        self.register_buffer("idf", torch.zeros(1))
        self.register_buffer("ratios", torch.zeros(1, num_classes))
        self.weights = nn.Parameter(torch.zeros(1, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_classes))

    @property
    def num_words(self) -> int:
        """The number of n-grams of words."""
        return int(self.num_word_keys)

    def read_vocabulary(self, tokens: Sequence[str]) -> None:
        """Note the code point and kind of each character; special tokens separate words."""
        for k, token in enumerate(tokens):
            if len(token) == 1:
                folded = token.casefold()
                self._codes[k] = ord(folded if len(folded) == 1 else token)
                self._kinds[k] = _character_kind(token)
            else:
                self._kinds[k] = LETTER if token == "<unk>" else SPACE  # noqa: S105

    @property
    def character_tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The code point, case folded, and the kind of each id."""
        return self._codes.astype(np.int64), self._kinds

    # -- features ----------------------------------------------------------------------------------

    def prepare(self, texts: Sequence[Ids], labels: ArrayLike) -> None:
        """Count in how many training texts each n-gram is; compute its log-ratios.

        Only the most frequent ones are kept. The labels are classes, or rows with 1 for each label.
        """
        if len(self.keys):
            return  # a resumed run has counted them already
        words, characters = self._count_texts(texts)
        limit = self.max_features // 2  # characters have the rest: they are far more
        words = _select_frequent(words, self.min_count, limit)
        characters = _select_frequent(characters, self.min_count, self.max_features - len(words[0]))
        keys, counts = (np.concatenate(pair) for pair in zip(words, characters, strict=True))
        if not len(keys):
            raise UserError(
                f"too few texts to learn from, {len(texts):,} with {sum(map(len, texts)):,} "
                f"characters: no n-gram is in {self.min_count:,} of them; try a lower "
                "model.min_count"
            )
        idf = np.log((1 + len(texts)) / (1 + counts)) + 1
        self.keys = torch.from_numpy(keys.view(np.int64))
        self.num_word_keys = torch.tensor(len(words[0]))
        self.idf = torch.from_numpy(np.concatenate(([0.0], idf))).float()
        self.ratios = self._compute_ratios(texts, torch.as_tensor(np.asarray(labels)))
        self.weights = nn.Parameter(torch.zeros_like(self.ratios))

    def _compute_ratios(
        self, texts: Sequence[Ids], labels: Int[Tensor, " texts"] | Int[Tensor, "texts classes"]
    ) -> Float[Tensor, "ngrams classes"]:
        """Return the log of how much likelier an n-gram is in a class than in the others."""
        if labels.dim() == 1:
            labels = F.one_hot(labels.long(), self.num_classes)
        sums = torch.zeros(len(self.keys) + 1, self.num_classes)
        totals = torch.zeros(len(self.keys) + 1)
        features = self.featurize_batch(texts)
        for first in range(0, len(features), CHUNK_TEXTS):
            chunk = slice(first, first + CHUNK_TEXTS)
            ids = pad_sequence([torch.from_numpy(f).long() for f in features[chunk]], True)
            tfidf = self.compute_tfidf(ids)
            totals.index_add_(0, ids.flatten(), tfidf.flatten())
            rows, classes = labels[chunk].nonzero(as_tuple=True)
            index = ids[rows], classes[:, None].expand(-1, ids.shape[1])
            sums.index_put_(index, tfidf[rows], accumulate=True)
        inside = sums[1:] + SMOOTHING
        outside = (totals[1:, None] - sums[1:]).clamp_min(0) + SMOOTHING
        ratios = (inside / inside.sum(0)).log() - (outside / outside.sum(0)).log()
        return F.pad(ratios, (0, 0, 1, 0))  # row 0 is padding

    def _count_texts(self, texts: Sequence[Ids]) -> list["KeyCounts"]:
        """Return the n-grams of words and of characters, and in how many texts each is."""
        parts: list[list[KeyCounts]] = [[], []]
        for chunk in _split_chunks(texts):
            characters, owners = _concatenate(chunk)
            for part, occurrences in zip(parts, self._find_ngrams(characters), strict=True):
                keys, inverse = np.unique(occurrences.keys, return_inverse=True)
                base = max(len(keys), 1)
                pairs = _sort_unique(owners[occurrences.starts] * base + inverse)
                part.append((keys, np.bincount(pairs % base, minlength=len(keys))))
        return [_merge_counts(part) for part in parts]

    def _find_ngrams(self, ids: NDArray[np.int64]) -> tuple[Occurrences, Occurrences]:
        """Return the n-grams of words, and those of characters; -1 separates texts."""
        is_separator = ids < 0
        kinds = np.where(is_separator, SPACE, self._kinds[ids])
        codes = np.where(kinds == SPACE, np.uint64(ord(" ")), self._codes[ids])
        return (
            _find_word_ngrams(codes, kinds, np.cumsum(is_separator), self.max_words),
            _find_character_ngrams(codes, kinds, self.max_characters),
        )

    def featurize(self, ids: Ids) -> Any:
        """Return the numbers (from 1) of the known n-grams of a text, each once."""
        return self.featurize_batch([ids])[0]

    def featurize_batch(self, texts: Sequence[Ids]) -> RaggedArray:
        """Return the same for several texts: 20 times faster than one by one."""
        features: list[RaggedArray] = []
        for chunk in _split_chunks(texts):
            characters, owners = _concatenate(chunk)
            numbers, texts_of = [], []
            for occurrences, numbered in self._look_up(characters):
                is_known = numbered > 0
                numbers.append(numbered[is_known])
                texts_of.append(owners[occurrences.starts[is_known]])
            base = len(self.keys) + 1
            pairs = _sort_unique(np.concatenate(texts_of) * base + np.concatenate(numbers))
            ends = np.searchsorted(pairs, np.arange(1, len(chunk) + 1) * base)
            lengths = np.diff(ends, prepend=0)
            features.append(RaggedArray((pairs % base).astype(np.int32), lengths))
        return RaggedArray.concatenate(features, "int32")

    def locate_features(self, ids: Ids) -> tuple[NDArray[np.int64], Occurrences]:
        """Return the numbers of the known n-grams of a text, and where each of them is.

        One that begins with the space before the text starts at -1.
        """
        characters, _ = _concatenate([ids])
        numbers, parts = [], []
        for occurrences, numbered in self._look_up(characters):
            is_known = numbered > 0
            numbers.append(numbered[is_known])
            parts.append([column[is_known] for column in occurrences])
        joined = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        keys, starts, lengths = joined
        return np.concatenate(numbers), Occurrences(keys, starts - 1, lengths)

    def _look_up(
        self, characters: NDArray[np.int64]
    ) -> Iterator[tuple[Occurrences, NDArray[np.int64]]]:
        """Yield the n-grams of words and of characters with their numbers; 0 is unknown."""
        keys = self.keys.cpu().numpy().view(np.uint64)
        split = self.num_words
        parts = self._find_ngrams(characters)
        for occurrences, known, first in zip(
            parts, (keys[:split], keys[split:]), (1, split + 1), strict=True
        ):
            yield occurrences, _look_up_sorted(known, occurrences.keys, first)

    # -- the model ---------------------------------------------------------------------------------

    def forward(
        self,
        ids: Int[Tensor, "batch ngrams"],
        lengths: Int[Tensor, " batch"],  # noqa: ARG002
    ) -> Float[Tensor, "batch classes"]:
        """Return the sum of the evidence of a text's n-grams, weighted by TF-IDF."""
        if self.training and self.dropout:
            ids = ids * (torch.rand(ids.shape, device=ids.device) >= self.dropout)
        tfidf = self.compute_tfidf(ids)
        scores = F.embedding_bag(
            ids, self.evidence, mode="sum", per_sample_weights=tfidf, padding_idx=0
        )
        return tap("scores", scores) + self.bias

    @property
    def evidence(self) -> Float[Tensor, "ngrams classes"]:
        """How much each n-gram adds to the logits of the classes; row 0 is padding."""
        return self.ratios * self.weights

    def compute_tfidf(self, ids: Int[Tensor, "batch ngrams"]) -> Float[Tensor, "batch ngrams"]:
        """Return the inverse document frequencies; words and characters have a norm of 1 each."""
        idf = self.idf[ids]
        is_word = ids <= self.num_word_keys
        normalized = torch.zeros_like(idf)
        for mask in (is_word, ~is_word):
            part = idf * mask
            normalized = normalized + part / part.norm(dim=1, keepdim=True).clamp_min(1e-9)
        return normalized

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Resize the buffers to the number of n-grams in the state dict, then load them."""
        count = state[f"{prefix}keys"].numel()
        rows = (count + 1, self.num_classes)
        shapes = {"keys": (count,), "idf": (count + 1,), "ratios": rows, "weights": rows}
        for name, shape in shapes.items():
            if state[f"{prefix}{name}"].shape != shape:
                raise RuntimeError(f"{name}: expected the shape {shape}")
        if not 0 <= int(state[f"{prefix}num_word_keys"]) <= count:
            raise RuntimeError("num_word_keys: out of range")
        # Keep the parameter if its shape fits: an optimizer may hold it.
        if self.weights.shape != shapes["weights"]:
            for name in ("keys", "idf", "ratios"):
                setattr(self, name, torch.zeros_like(state[f"{prefix}{name}"]))
            self.weights = nn.Parameter(torch.zeros_like(state[f"{prefix}weights"]))
        super()._load_from_state_dict(state, prefix, *rest)


KeyCounts = tuple[NDArray[np.uint64], NDArray[np.int64]]


def _character_kind(character: str) -> int:
    if character.isspace():
        return SPACE
    code = ord(character)
    if any(first <= code <= last for first, last in _UNSPACED_RANGES) and character.isalnum():
        return SINGLE
    if character.isalnum() or unicodedata.category(character)[0] == "M" or character == "_":
        return LETTER
    return SYMBOL


def _split_chunks(texts: Sequence[Ids]) -> Iterator[Sequence[Ids]]:
    """Yield consecutive texts that together have about `CHUNK_CHARACTERS`."""
    first, characters = 0, 0
    for k, text in enumerate(texts):
        characters += len(text)
        if characters >= CHUNK_CHARACTERS or k == len(texts) - 1:
            yield texts[first : k + 1]
            first, characters = k + 1, 0


def _concatenate(texts: Sequence[Ids]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids of all texts with -1 around each, and the text that each id belongs to."""
    ends = np.cumsum([len(text) + 1 for text in texts])
    ids = np.full(ends[-1] + 1, -1, dtype=np.int64)
    for text, end in zip(texts, ends.tolist(), strict=True):
        ids[end - len(text) : end] = text
    owners = np.repeat(np.arange(len(texts)), np.diff(ends, prepend=0))
    return ids, np.append(owners, len(texts) - 1)


def _find_word_ngrams(
    codes: NDArray[np.uint64], kinds: NDArray[np.int64], texts: NDArray[np.int64], max_n: int
) -> Occurrences:
    """Return the n-grams of words: runs of letters, and single characters of unspaced scripts."""
    is_word = (kinds == LETTER) | (kinds == SINGLE)
    before = np.concatenate(([SPACE], kinds[:-1]))
    is_start = is_word & ~((kinds == LETTER) & (before == LETTER))
    starts = np.flatnonzero(is_start)
    if not len(starts) or not max_n:
        return Occurrences(np.zeros(0, np.uint64), *(np.zeros((2, 0), np.int64)))
    word_of = np.cumsum(is_start)[is_word] - 1  # of each character of a word
    positions = np.flatnonzero(is_word)
    within = positions - starts[word_of]
    ends = np.zeros(len(starts), np.int64)
    np.maximum.at(ends, word_of, positions + 1)
    hashes = np.zeros(len(starts), np.uint64)
    np.add.at(hashes, word_of, _mix(codes[positions]) * _powers(within))
    hashes = _mix(hashes + np.uint64(WORD_SALT))
    keys, first, length = [hashes], [starts], [ends - starts]
    joined = hashes
    for n in range(2, max_n + 1):
        if len(starts) < n:
            break
        joined = _mix(joined[:-1] * np.uint64(HASH_FACTOR) + hashes[n - 1 :])
        is_inside = texts[starts[: len(joined)]] == texts[starts[n - 1 :]]
        keys.append(joined[is_inside])
        first.append(starts[: len(joined)][is_inside])
        length.append((ends[n - 1 :] - starts[: len(joined)])[is_inside])
    return Occurrences(np.concatenate(keys), np.concatenate(first), np.concatenate(length))


def _find_character_ngrams(
    codes: NDArray[np.uint64], kinds: NDArray[np.int64], max_n: int
) -> Occurrences:
    """Return the n-grams of characters that have spaces only at their ends."""
    is_space = kinds == SPACE
    # Of adjacent spaces the last one stays: the separator before a text belongs to that text.
    positions = np.flatnonzero(~(is_space & np.append(is_space[1:], False)))
    codes, is_space = codes[positions], is_space[positions]
    spaces = np.concatenate(([0], np.cumsum(is_space)))  # before each position
    keys, starts, lengths = [], [], []
    joined = codes.copy()
    for n in range(2, max_n + 1):
        count = len(codes) - n + 1
        if count < 1:
            break
        joined = _mix(joined[:count] * np.uint64(HASH_FACTOR) + codes[n - 1 :])
        inner = spaces[n - 1 : n - 1 + count] - spaces[1 : count + 1]
        is_valid = (inner == 0) if n > MIN_CHARACTERS else ~(is_space[:-1] & is_space[1:])
        keys.append(joined[is_valid])
        starts.append(positions[:count][is_valid])
        lengths.append(np.full(int(is_valid.sum()), n))
    if not keys:
        return Occurrences(np.zeros(0, np.uint64), *(np.zeros((2, 0), np.int64)))
    return Occurrences(np.concatenate(keys), np.concatenate(starts), np.concatenate(lengths))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash each number, so that similar ones differ in all bits."""
    for shift, factor in MIX_STEPS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values


def _powers(exponents: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the powers of `HASH_FACTOR` modulo 2**64."""
    table = np.full(int(exponents.max(initial=0)) + 1, HASH_FACTOR, np.uint64)
    powers: NDArray[np.uint64] = np.cumprod(table, dtype=np.uint64)[exponents]
    return powers


def _sort_unique(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different values, sorted: np.unique hashes them, which is 20 times slower here."""
    values = np.sort(values)
    is_new = np.append(True, values[1:] != values[:-1])[: len(values)]
    unique: NDArray[np.int64] = values[is_new]
    return unique


def _merge_counts(parts: Sequence[KeyCounts]) -> KeyCounts:
    keys, inverse = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, inverse, np.concatenate([counts for _, counts in parts]))
    return keys, counts


def _select_frequent(counted: KeyCounts, min_count: int, max_keys: int) -> KeyCounts:
    """Return the keys that are in at least `min_count` texts, at most `max_keys`, sorted."""
    keys, counts = counted
    if (counts >= min_count).sum() > max_keys:
        min_count = int(np.partition(counts, -max_keys)[-max_keys]) + 1  # without ties at the limit
    is_frequent = counts >= min_count
    return keys[is_frequent], counts[is_frequent]


def _look_up_sorted(
    known: NDArray[np.uint64], keys: NDArray[np.uint64], first: int
) -> NDArray[np.int64]:
    """Return the index of each key in sorted keys, plus `first`; 0 if it is not there."""
    if not len(known) or not len(keys):
        return np.zeros(len(keys), np.int64)
    index = np.searchsorted(known, keys).clip(max=len(known) - 1)
    return np.where(known[index] == keys, index + first, 0)
