"""Byte-level byte-pair encoding (BPE), trained here or imported with a GPT-2, and BPE-dropout."""

import json
import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, islice, pairwise
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from workings.data.tokenizers.base import UNK_TOKEN, Span, Tokenizer
from workings.errors import UserError, install_command, safe_repr, truncate
from workings.plain_text import replace_surrogates
from workings.ragged import RaggedArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

NUM_BYTES = 256
MAX_CACHED_CHUNKS = 2**18
"""Chunks of text whose ids are cached."""
MAX_VARIANTS = 32
"""Splits of a word that are sampled per epoch; more occurrences of the word reuse them.

Most words of a language are rare. With this limit Multi30k takes two to three seconds per epoch.
"""
MAX_WORD_BYTES = 32
"""Longer words are split without dropout: in a text without spaces a sentence is one word."""
# The engine never merges across the beginning of a word or of the spaces between words, so these
# chunks are encoded independently of each other. White space is what the engine regards as such.
_SPACE, _NO_SPACE = r"[^\S\x1c-\x1f]", r"[\S\x1c-\x1f]"
_split_chunks = re.compile(f" ?{_NO_SPACE}+|{_SPACE}+(?!{_NO_SPACE})|{_SPACE}+").findall


def _bytes_to_unicode() -> dict[int, str]:
    """Return GPT-2's printable character for each byte.

    Visible Latin-1 characters stand for themselves, other bytes for the characters from Ā: a space
    is Ġ.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(NUM_BYTES) if byte not in visible]
    return {b: chr(b) for b in visible} | {b: chr(NUM_BYTES + i) for i, b in enumerate(hidden)}


_BYTE_TO_CHARACTER = _bytes_to_unicode()
_CHARACTER_TO_BYTE = {character: byte for byte, character in _BYTE_TO_CHARACTER.items()}


class _Numbering(dict[str, int]):
    """Numbers of texts, in the order in which they are asked for; `new` are the last ones."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, text: str) -> int:
        self.new.append(text)
        return self.setdefault(text, len(self))


class BytePairTokenizer(Tokenizer):
    r"""A byte-level BPE tokenizer: frequent words are one token, rare ones several.

    Every text can be encoded, and decoding returns it unchanged.

    >>> tokenizer = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=264)
    >>> tokenizer.tokenize("lower low"), len(tokenizer)
    (['low', 'e', 'r', ' low'], 264)
    >>> tokenizer.decode(tokenizer.encode("naïve 🙂"))
    'naïve 🙂'
    >>> tokenizer.tokenize("ï"), tokenizer.find_spans("ï")
    (['\\xc3', '\\xaf'], [(0, 1), (0, 1)])
    """

    kind = "byte-pair"

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        merges: Sequence[tuple[str, str]],
        with_eos: bool = False,
    ) -> None:
        super().__init__(vocabulary, with_eos=with_eos)
        self.merges = tuple(merges)
        missing = [c for c in _BYTE_TO_CHARACTER.values() if c not in self._ids]
        if missing:
            raise UserError(f"the vocabulary lacks {len(missing)} of the {NUM_BYTES} bytes")
        for token in vocabulary:
            if not token or not _CHARACTER_TO_BYTE.keys() >= set(token):
                raise UserError(
                    f"the vocabulary has {safe_repr(token)}, which is not a sequence of bytes"
                )
        for a, b in self.merges:  # the engine may panic instead of raising
            if not {a, b, a + b} <= self._ids.keys():
                raise UserError(f"the merges do not fit the vocabulary: {truncate(repr((a, b)))}")
        self._engine = _build_engine(self._ids, list(self.merges))
        self._numbers, self._encodings = _Numbering(), list[list[int]]()

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 20_000,
        min_count: int = 1,
        *,
        with_eos: bool = False,
    ) -> "BytePairTokenizer":
        num_specials = 4 if with_eos else 3
        if vocab_size < num_specials + NUM_BYTES:
            raise UserError(
                f"vocab_size = {vocab_size}: expected at least {num_specials + NUM_BYTES}, "
                "for all bytes and the special tokens"
            )
        engine = _build_engine({}, [])
        from tokenizers import trainers

        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size - num_specials,
            min_frequency=min_count,
            initial_alphabet=list(_BYTE_TO_CHARACTER.values()),
            show_progress=False,
        )
        valid_texts = _CountingIterator(texts)
        engine.train_from_iterator(valid_texts, trainer)
        if not valid_texts.count:
            raise UserError("no texts to build a vocabulary from")
        # The engine does not know the specials: it would find them in texts that spell them.
        model = json.loads(engine.to_str())["model"]
        vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
        return cls(vocabulary, merges=[(a, b) for a, b in model["merges"]], with_eos=with_eos)

    def encode(self, text: str) -> list[int]:
        return list(self._engine.encode(replace_surrogates(text)).ids)

    def encode_array(self, text: str, dtype: str) -> NDArray[np.unsignedinteger[Any]]:
        ids: NDArray[np.unsignedinteger[Any]] = self.encode_rows([text], dtype)[0]
        return ids

    def encode_rows(self, texts: Sequence[str], dtype: str) -> RaggedArray:
        chunks = [_split_chunks(replace_surrogates(text)) for text in texts]
        rows = self._number_chunks(list(chain.from_iterable(chunks)))
        return RaggedArray.build(self._encodings, dtype)[rows].merge(list(map(len, chunks)))

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        ids: list[list[int]] = []
        remaining = iter(texts)
        while batch := [_split_chunks(replace_surrogates(t)) for t in islice(remaining, 256)]:
            rows = iter(self._number_chunks(list(chain.from_iterable(batch))).tolist())
            encodings = self._encodings
            ids += ([i for row in islice(rows, len(c)) for i in encodings[row]] for c in batch)
        return ids

    def _number_chunks(self, chunks: list[str]) -> NDArray[np.intp]:
        """Return where the ids of each chunk are in the cache; most chunks are repetitions."""
        numbers = self._numbers
        if len(numbers) > MAX_CACHED_CHUNKS:
            numbers.clear()
            self._encodings.clear()
        rows = np.fromiter(map(numbers.__getitem__, chunks), np.intp, len(chunks))
        self._encodings += (e.ids for e in self._engine.encode_batch_fast(numbers.new))
        numbers.new.clear()
        return rows

    def pre_tokenize(self, text: str) -> list[str]:
        """Split a text where merges stop, and write each byte as one character.

        >>> BytePairTokenizer.train(["low"], vocab_size=259).pre_tokenize("it's low")
        ['it', "'s", 'Ġlow']
        """
        words = self._engine.pre_tokenizer.pre_tokenize_str(replace_surrogates(text))
        return [word for word, _ in words]

    def tokenize(self, text: str) -> list[str]:
        return [_readable_token(self.id_to_token(i)) for i in self.encode(text)]

    def find_spans(self, text: str) -> list[Span]:
        return [(int(a), int(b)) for a, b in self._engine.encode(replace_surrogates(text)).offsets]

    def join(self, tokens: Sequence[str]) -> str:
        encoded = (
            token.encode() if token == UNK_TOKEN else _token_bytes(token) for token in tokens
        )
        return b"".join(encoded).decode("utf-8", "replace")

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"merges": [list(pair) for pair in self.merges]}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "BytePairTokenizer":
        merges = [(str(a), str(b)) for a, b in table["merges"]]
        return cls(table["vocabulary"], merges=merges, with_eos=len(table["specials"]) > 3)


class GPT2Tokenizer(BytePairTokenizer):
    """GPT-2's tokenizer: byte-level BPE whose only special token separates texts.

    That token begins a text, ends it and pads it. No text is encoded as it, and there is no
    unknown token.
    """

    kind = "gpt2"
    default_specials: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, vocabulary: Sequence[str], *, merges: Sequence[tuple[str, str]], end_of_text_id: int
    ) -> None:
        super().__init__(vocabulary, merges=merges)
        if not 0 <= end_of_text_id < len(vocabulary):
            raise UserError(
                f"end_of_text_id = {end_of_text_id} is out of range: 0 to {len(vocabulary) - 1:,}"
            )
        self.pad_id = self.bos_id = end_of_text_id
        self.unk_id = -1

    def decode(self, ids: Iterable[int]) -> str:
        return super().decode(i for i in ids if i != self.bos_id)

    @property
    def eos_id(self) -> int | None:
        return self.bos_id

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"end_of_text_id": self.bos_id}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "GPT2Tokenizer":
        merges = [(str(a), str(b)) for a, b in table["merges"]]
        return cls(table["vocabulary"], merges=merges, end_of_text_id=int(table["end_of_text_id"]))


class _CountingIterator:
    """An iterator that counts its texts and replaces unpaired surrogates in them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.count = iter(texts), 0

    def __iter__(self) -> "_CountingIterator":
        return self

    def __next__(self) -> str:
        text = next(self.texts)
        self.count += 1
        return replace_surrogates(text)


def _build_engine(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> "Engine":
    """Build the tokenizer of Hugging Face's package that does the work."""
    try:
        from tokenizers import Tokenizer as Engine
        from tokenizers import models, pre_tokenizers
    except ModuleNotFoundError:
        raise UserError(
            f"byte-pair tokenizers need tokenizers: {install_command('data')}"
        ) from None
    try:
        engine = Engine(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the package raises plain Exception
        raise UserError(f"the merges do not fit the vocabulary: {error}") from None
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return engine


def _token_bytes(token: str) -> bytes:
    return bytes(_CHARACTER_TO_BYTE[character] for character in token)


def _readable_token(token: str) -> str:
    return _token_bytes(token).decode("utf-8", "backslashreplace")


class BPEDropout:
    """Texts that are encoded again in every epoch, dropping merges with probability `dropout`.

    Provilkov et al. (2020): in every merge step each candidate pair may be dropped, so that words
    are split into different tokens in every epoch. A model trained on the usual split alone sees a
    rare word in a single spelling.

    >>> tokenizer = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=270)
    >>> texts = BPEDropout(tokenizer, ["lower low"], dropout=0.1, seed="b")
    >>> [[tokenizer.id_to_token(i) for i in texts.sample_epoch(epoch)[0]] for epoch in (0, 1, 0)]
    [['low', 'e', 'r', 'Ġlow'], ['l', 'o', 'w', 'e', 'r', 'Ġlow'], ['low', 'e', 'r', 'Ġlow']]
    """

    def __init__(
        self, tokenizer: BytePairTokenizer, texts: Sequence[str], dropout: float, seed: str
    ) -> None:
        self._tokenizer, self._dropout, self._seed = tokenizer, dropout, seed
        self._ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
        self._ids = {tokenizer.id_to_token(i): i for i in range(len(tokenizer))}
        indices: dict[str, int] = {}
        words = [
            [indices.setdefault(word, len(indices)) for word in tokenizer.pre_tokenize(text)]
            for text in texts
        ]
        self._unique_words = list(indices)
        self._words = np.fromiter(chain.from_iterable(words), np.int64)
        """Indices into the unique words, of all texts."""
        self._ends = np.cumsum([len(text_words) for text_words in words], dtype=np.int64)
        """The end of each text among these words."""
        self._counts = np.minimum(np.bincount(self._words, minlength=len(indices)), MAX_VARIANTS)
        """The number of splits to sample of each unique word."""

    def sample_epoch(self, epoch: int) -> RaggedArray:
        """Return the ids of each text in this epoch; the same epoch gives the same ids."""
        rng = Random(f"{self._seed} {epoch}")  # noqa: S311 - not for cryptography
        ids, lengths = self._sample_variants(rng)
        starts = np.cumsum(lengths) - lengths
        # The stream of this legacy generator is frozen: it is the same in every numpy version.
        uniform = np.random.RandomState(rng.getrandbits(32)).random_sample(len(self._words))
        first_variant = np.cumsum(self._counts) - self._counts
        counts = self._counts[self._words]
        variants = first_variant[self._words] + (uniform * counts).astype(np.int64)
        lengths = lengths[variants]
        ends = np.cumsum(lengths)
        # Index of each output id among the variants' ids: consecutive within a word.
        offsets = np.repeat(starts[variants] - (ends - lengths), lengths)
        text_ends = np.concatenate(([0], ends))[self._ends]
        sampled = ids[offsets + np.arange(len(offsets))]
        return RaggedArray(sampled, np.diff(text_ends, prepend=0))

    def _sample_variants(self, rng: Random) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Sample splits of all unique words; return their ids, concatenated, and their lengths."""
        ids, lengths = array("i"), array("q")
        for word, count in zip(self._unique_words, self._counts.tolist(), strict=True):
            for _ in range(count):
                split = self._sample_split(word, rng)
                ids.extend(split)
                lengths.append(len(split))
        return np.array(ids, np.int32), np.array(lengths, np.int64)

    def _sample_split(self, word: str, rng: Random) -> list[int]:
        """Merge the pair of lowest rank among those not dropped, until there is none."""
        if len(word) > MAX_WORD_BYTES:
            return self._tokenizer.encode(self._tokenizer.join([word]))
        parts, ranks, dropout = list(word), self._ranks, self._dropout
        while len(parts) > 1:
            candidates = (
                (ranks[pair], k)
                for k, pair in enumerate(pairwise(parts))
                if pair in ranks and rng.random() >= dropout
            )
            _, k = min(candidates, default=(0, -1))
            if k < 0:
                break
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
        return [self._ids[part] for part in parts]
