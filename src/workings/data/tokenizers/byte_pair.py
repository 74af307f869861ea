"""Byte-level byte-pair encoding (BPE), trained here or imported with a GPT-2."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from workings.data.tokenizers.base import UNK_TOKEN, Span, Tokenizer
from workings.data.unicode import replace_surrogates
from workings.errors import UserError, safe_repr, truncate

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

NUM_BYTES = 256
MAX_CACHED_CHUNKS = 2**18
"""Chunks of text whose ids are cached by `encode_batch`."""
# The engine never merges across the space between two words, so the chunks between these points
# are encoded independently of each other.
_split_chunks = re.compile(r"(?<=\S)(?= \S)").split


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
        self._cached_ids: dict[str, list[int]] = {}

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

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        ids: list[list[int]] = []
        remaining = iter(texts)
        while batch := [_split_chunks(replace_surrogates(t)) for t in islice(remaining, 256)]:
            self._cache_chunks({chunk for chunks in batch for chunk in chunks})
            cache = self._cached_ids
            ids += ([i for chunk in chunks for i in cache[chunk]] for chunks in batch)
        return ids

    def _cache_chunks(self, chunks: set[str]) -> None:
        """Encode the chunks that are not cached yet; most chunks of a text are repetitions."""
        if len(self._cached_ids) > MAX_CACHED_CHUNKS:
            self._cached_ids.clear()
        new = [chunk for chunk in chunks if chunk not in self._cached_ids]
        for chunk, encoding in zip(new, self._engine.encode_batch_fast(new), strict=True):
            self._cached_ids[chunk] = encoding.ids

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
    """An iterator over texts without unpaired surrogates that counts them."""

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
            'byte-pair tokenizers need tokenizers: pip install "workings[data]"'
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
