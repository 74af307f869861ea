"""Byte pairs as tokens: pieces of words, as frequent as they come, over an alphabet of bytes."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from workings.data.tokenizers.base import UNK_TOKEN, Span, Tokenizer
from workings.errors import UserError, truncate

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

NUM_BYTES = 256
MAX_CACHED_CHUNKS = 2**18
"""Pieces of text whose ids are remembered."""
# A space between two words goes with the second: the engine never looks across that point, so what
# stands between two of them is always encoded alike.
_split_chunks = re.compile(r"(?<=\S)(?= \S)").split
_SURROGATES = re.compile("[\ud800-\udfff]")


def _bytes_to_unicode() -> dict[int, str]:
    """The printable letter that stands for each byte in byte-level vocabularies.

    Visible Latin-1 characters stand for themselves, and the rest take the letters from Ā onwards:
    a space is Ġ.
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(NUM_BYTES) if byte not in shown]
    return {b: chr(b) for b in shown} | {b: chr(NUM_BYTES + i) for i, b in enumerate(hidden)}


_BYTE_TO_CHARACTER = _bytes_to_unicode()
_CHARACTER_TO_BYTE = {letter: byte for byte, letter in _BYTE_TO_CHARACTER.items()}


class BytePairTokenizer(Tokenizer):
    r"""A token for every frequent piece of a word; what is rare falls apart, down to its bytes.

    Nothing is unknown and nothing lost: decoding what was encoded gives the text back.

    >>> chunks = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=264)
    >>> chunks.tokenize("lower low"), len(chunks)
    (['low', 'e', 'r', ' low'], 264)
    >>> chunks.decode(chunks.encode("naïve 🙂"))
    'naïve 🙂'
    >>> chunks.tokenize("ï"), chunks.find_spans("ï")
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
        missing = [letter for letter in _BYTE_TO_CHARACTER.values() if letter not in self._ids]
        if missing:
            raise UserError(f"the vocabulary lacks {len(missing)} of the {NUM_BYTES} bytes")
        if strange := next(
            (t for t in vocabulary if not t or not _CHARACTER_TO_BYTE.keys() >= set(t)), None
        ):
            raise UserError(f"the vocabulary holds {strange!r}, which spells no bytes")
        lost = ((a, b) for a, b in self.merges if not {a, b, a + b} <= self._ids.keys())
        if pair := next(lost, None):  # the engine may panic
            raise UserError(f"the merges do not fit the vocabulary: {truncate(repr(pair))}")
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
        room = vocab_size - (4 if with_eos else 3)
        if room < NUM_BYTES:
            raise UserError(
                f"size = {vocab_size}: the bytes and specials take {vocab_size - room + NUM_BYTES}"
            )
        engine = _build_engine({}, [])
        from tokenizers import trainers

        trainer = trainers.BpeTrainer(
            vocab_size=room,
            min_frequency=min_count,
            initial_alphabet=list(_BYTE_TO_CHARACTER.values()),
            show_progress=False,
        )
        counted = _CountingIterator(texts)
        engine.train_from_iterator(counted, trainer)
        if not counted.count:
            raise UserError("no texts to make a vocabulary from")
        # The specials are not the engine's: it would find them in texts that merely spell them.
        model = json.loads(engine.to_str())["model"]
        vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
        return cls(vocabulary, merges=[(a, b) for a, b in model["merges"]], with_eos=with_eos)

    def encode(self, text: str) -> list[int]:
        return list(self._engine.encode(replace_surrogates(text)).ids)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        found: list[list[int]] = []
        rest = iter(texts)
        while some := [_split_chunks(replace_surrogates(text)) for text in islice(rest, 256)]:
            self._cache_chunks({piece for pieces in some for piece in pieces})
            known = self._cached_ids
            found += ([i for piece in pieces for i in known[piece]] for pieces in some)
        return found

    def _cache_chunks(self, chunks: set[str]) -> None:
        """Encode the pieces that are new: most of a text has been seen before."""
        if len(self._cached_ids) > MAX_CACHED_CHUNKS:
            self._cached_ids.clear()
        new = [piece for piece in chunks if piece not in self._cached_ids]
        for piece, encoded in zip(new, self._engine.encode_batch_fast(new), strict=True):
            self._cached_ids[piece] = encoded.ids

    def pre_tokenize(self, text: str) -> list[str]:
        """The stretches of a text across whose ends nothing is merged, a letter for each byte.

        >>> BytePairTokenizer.train(["low"], vocab_size=259).pre_tokenize("it's low")
        ['it', "'s", 'Ġlow']
        """
        return [
            word
            for word, _ in self._engine.pre_tokenizer.pre_tokenize_str(replace_surrogates(text))
        ]

    def tokenize(self, text: str) -> list[str]:
        return [_readable_token(self.id_to_token(i)) for i in self.encode(text)]

    def find_spans(self, text: str) -> list[Span]:
        return [(int(a), int(b)) for a, b in self._engine.encode(replace_surrogates(text)).offsets]

    def join(self, tokens: Sequence[str]) -> str:
        known = (token.encode() if token == UNK_TOKEN else _token_bytes(token) for token in tokens)
        return b"".join(known).decode("utf-8", "replace")

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"merges": [list(pair) for pair in self.merges]}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "BytePairTokenizer":
        merges = [(str(a), str(b)) for a, b in table["merges"]]
        return cls(table["vocabulary"], merges=merges, with_eos=len(table["specials"]) > 3)


class _CountingIterator:
    """Passes texts on, made whole, and counts them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.count = iter(texts), 0

    def __iter__(self) -> "_CountingIterator":
        return self

    def __next__(self) -> str:
        text = next(self.texts)
        self.count += 1
        return replace_surrogates(text)


def _build_engine(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> "Engine":
    try:
        from tokenizers import Tokenizer as Engine
        from tokenizers import models, pre_tokenizers
    except ModuleNotFoundError:
        raise UserError('byte pairs need tokenizers: pip install "workings[data]"') from None
    try:
        engine = Engine(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the engine raises nothing narrower
        raise UserError(f"the merges do not fit the vocabulary: {error}") from None
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return engine


def replace_surrogates(text: str) -> str:
    """Put � for halves of characters, which a broken command line or file name may hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATES.sub("�", text)
    return text


def _token_bytes(token: str) -> bytes:
    return bytes(_CHARACTER_TO_BYTE[letter] for letter in token)


def _readable_token(token: str) -> str:
    return _token_bytes(token).decode("utf-8", "backslashreplace")


class GPT2Tokenizer(BytePairTokenizer):
    """Byte pairs as GPT-2 has them: no specials of ours, and one token that parts texts.

    That token begins a text, ends it and fills up what is shorter. No text can spell it, and
    nothing is unknown.
    """

    kind = "gpt2"
    default_specials: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, vocabulary: Sequence[str], *, merges: Sequence[tuple[str, str]], end_of_text_id: int
    ) -> None:
        super().__init__(vocabulary, merges=merges)
        if not 0 <= end_of_text_id < len(vocabulary):
            raise UserError(
                f"id {end_of_text_id} is to part texts: the vocabulary has {len(vocabulary):,}"
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
