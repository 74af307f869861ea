"""Byte pairs as tokens: pieces of words, as frequent as they come, over an alphabet of bytes."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from workings.data.tokenizer import UNKNOWN, Span, Tokenizer
from workings.errors import UserError, brief

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

BYTES = 256
MOST_KNOWN = 2**18
"""Pieces of text whose ids are remembered."""
# A space between two words goes with the second: the engine never looks across that point, so what
# stands between two of them is always encoded alike.
_PIECES = re.compile(r"(?<=\S)(?= \S)").split
_HALVES = re.compile("[\ud800-\udfff]")


def _letters() -> dict[int, str]:
    """The printable letter that stands for each byte in byte-level vocabularies.

    Visible Latin-1 characters stand for themselves, and the rest take the letters from Ā onwards:
    a space is Ġ.
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(BYTES) if byte not in shown]
    return {b: chr(b) for b in shown} | {b: chr(BYTES + i) for i, b in enumerate(hidden)}


_LETTER = _letters()
_BYTE = {letter: byte for byte, letter in _LETTER.items()}


class BytePair(Tokenizer):
    r"""A token for every frequent piece of a word; what is rare falls apart, down to its bytes.

    Nothing is unknown and nothing lost: decoding what was encoded gives the text back.

    >>> pieces = BytePair.train(["low lower lowest"] * 10, size=264)
    >>> pieces.tokens("lower low"), len(pieces)
    (['low', 'e', 'r', ' low'], 264)
    >>> pieces.decode(pieces.encode("naïve 🙂"))
    'naïve 🙂'
    >>> pieces.tokens("ï"), pieces.spans("ï")
    (['\\xc3', '\\xaf'], [(0, 1), (0, 1)])
    """

    kind = "byte-pair"

    def __init__(
        self, vocabulary: Sequence[str], *, merges: Sequence[tuple[str, str]], stop: bool = False
    ) -> None:
        super().__init__(vocabulary, stop=stop)
        self.merges = tuple(merges)
        missing = [letter for letter in _LETTER.values() if letter not in self._ids]
        if missing:
            raise UserError(f"the vocabulary lacks {len(missing)} of the {BYTES} bytes")
        if strange := next((t for t in vocabulary if not t or not _BYTE.keys() >= set(t)), None):
            raise UserError(f"the vocabulary holds {strange!r}, which spells no bytes")
        lost = ((a, b) for a, b in self.merges if not {a, b, a + b} <= self._ids.keys())
        if pair := next(lost, None):  # the engine may panic
            raise UserError(f"the merges do not fit the vocabulary: {brief(repr(pair))}")
        self._engine = _engine(self._ids, list(self.merges))
        self._known: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls, texts: Iterable[str], size: int = 20_000, min_count: int = 1, *, stop: bool = False
    ) -> "BytePair":
        room = size - (4 if stop else 3)
        if room < BYTES:
            raise UserError(f"size = {size}: the bytes and specials take {size - room + BYTES}")
        engine = _engine({}, [])
        from tokenizers import trainers

        trainer = trainers.BpeTrainer(
            vocab_size=room,
            min_frequency=min_count,
            initial_alphabet=list(_LETTER.values()),
            show_progress=False,
        )
        counted = _Counted(texts)
        engine.train_from_iterator(counted, trainer)
        if not counted.count:
            raise UserError("no texts to make a vocabulary from")
        # The specials are not the engine's: it would find them in texts that merely spell them.
        model = json.loads(engine.to_str())["model"]
        vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
        return cls(vocabulary, merges=[(a, b) for a, b in model["merges"]], stop=stop)

    def encode(self, text: str) -> list[int]:
        return list(self._engine.encode(whole(text)).ids)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        found: list[list[int]] = []
        rest = iter(texts)
        while some := [_PIECES(whole(text)) for text in islice(rest, 256)]:
            self._learn({piece for pieces in some for piece in pieces})
            known = self._known
            found += ([i for piece in pieces for i in known[piece]] for pieces in some)
        return found

    def _learn(self, pieces: set[str]) -> None:
        """Encode the pieces that are new: most of a text has been seen before."""
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        new = [piece for piece in pieces if piece not in self._known]
        for piece, encoded in zip(new, self._engine.encode_batch_fast(new), strict=True):
            self._known[piece] = encoded.ids

    def words(self, text: str) -> list[str]:
        """The stretches of a text across whose ends nothing is merged, a letter for each byte.

        >>> BytePair.train(["low"], size=259).words("it's low")
        ['it', "'s", 'Ġlow']
        """
        return [word for word, _ in self._engine.pre_tokenizer.pre_tokenize_str(whole(text))]

    def tokens(self, text: str) -> list[str]:
        return [_readable(self.token(i)) for i in self.encode(text)]

    def spans(self, text: str) -> list[Span]:
        return [(int(a), int(b)) for a, b in self._engine.encode(whole(text)).offsets]

    def join(self, tokens: Sequence[str]) -> str:
        known = (token.encode() if token == UNKNOWN else _bytes(token) for token in tokens)
        return b"".join(known).decode("utf-8", "replace")

    def to_table(self) -> dict[str, Any]:
        return super().to_table() | {"merges": [list(pair) for pair in self.merges]}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "BytePair":
        merges = [(str(a), str(b)) for a, b in table["merges"]]
        return cls(table["vocabulary"], merges=merges, stop=len(table["specials"]) > 3)


class _Counted:
    """Passes texts on, made whole, and counts them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.count = iter(texts), 0

    def __iter__(self) -> "_Counted":
        return self

    def __next__(self) -> str:
        text = next(self.texts)
        self.count += 1
        return whole(text)


def _engine(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> "Engine":
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


def whole(text: str) -> str:
    """Put � for halves of characters, which a broken command line or file name may hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _HALVES.sub("�", text)
    return text


def _bytes(token: str) -> bytes:
    return bytes(_BYTE[letter] for letter in token)


def _readable(token: str) -> str:
    return _bytes(token).decode("utf-8", "backslashreplace")
