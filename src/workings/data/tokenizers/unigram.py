"""Which characters count as which, by a table of SentencePiece's; and spaces as one.

The table is a trie in one array (Darts-clone's): a node's children stand at its place, exclusive-or
its offset and the next byte. What a key leads to is a place in a list of texts that end with zeros.
"""

import base64
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workings.data.tokenizers.base import Span, Tokenizer
from workings.data.tokenizers.byte_pair import replace_surrogates
from workings.errors import UserError, truncate

SPACE_SYMBOL = "▁"


class NormalizedText(NamedTuple):
    """A text as it counts, and where each of its characters stands in the original."""

    text: str
    spans: list[tuple[int, int]]


class CharsMapNormalizer:
    """Replaces the longest prefix that the table knows, again and again; nothing, by no table.

    >>> CharsMapNormalizer().normalize(" a  b ")
    NormalizedText(text='▁a▁b', spans=[(1, 1), (1, 2), (2, 4), (4, 5)])
    """

    def __init__(self, charsmap: bytes = b"") -> None:
        self.charsmap = charsmap
        size = int.from_bytes(charsmap[:4], "little")
        if charsmap and (size % 4 or not 0 < size <= len(charsmap) - 4):
            raise UserError("the table of characters is damaged")
        self._units = struct.unpack(f"<{size // 4}I", charsmap[4 : 4 + size])
        self._replacements = charsmap[4 + size :]

    def normalize(self, text: str) -> NormalizedText:
        """Replace characters, leave out spaces at the ends, make one of many, put one before."""
        found: list[tuple[str, int, int]] = []
        place = 0
        while place < len(text):
            count, replaced = self._longest_match(text, place)
            for character in replaced:
                if character != " ":
                    found.append((character, place, place + count))
                elif found and found[-1][0] != SPACE_SYMBOL:
                    found.append((SPACE_SYMBOL, place, place + count))
                elif found:
                    found[-1] = (SPACE_SYMBOL, found[-1][1], place + count)
            place += count
        if found and found[-1][0] == SPACE_SYMBOL:
            found.pop()
        if not found:
            return NormalizedText("", [])
        first = found[0][1]
        spans = [(first, first), *((begin, end) for _, begin, end in found)]
        return NormalizedText(SPACE_SYMBOL + "".join(character for character, _, _ in found), spans)

    def _longest_match(self, text: str, position: int) -> tuple[int, str]:
        """How many characters are replaced here, and by what: one by itself, if none is known."""
        best, units = (1, text[position]), self._units
        node = _child_offset(units[0]) if units else len(units)
        for count in range(1, len(text) - position + 1):
            for byte in text[position + count - 1].encode("utf-8"):
                node ^= byte
                if node >= len(units) or units[node] & 0x800000FF != byte:
                    return best
                unit = units[node]
                node ^= _child_offset(unit)
            if unit >> 8 & 1 and node < len(units):  # a key ends here
                best = count, self._replacement_at(units[node] & 0x7FFFFFFF)
        return best

    def _replacement_at(self, start: int) -> str:
        end = self._replacements.find(b"\0", start)
        return self._replacements[start : end if end >= 0 else None].decode("utf-8", "replace")


def _child_offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine


class UnigramTokenizer(Tokenizer):
    """The likeliest pieces of a text, of which each has a log probability; a space is ▁.

    `scored` says how texts are split; ids are the vocabulary's, which may know fewer pieces and
    those of another language. `folding` is SentencePiece's own table of which characters count as
    which. A text may begin with the language that is asked for, `>>fr<<`, which is one piece.

    >>> scored_pieces = [("▁", -2.0), ("▁lo", -3.0), ("w", -2.5), ("er", -3.0)]
    >>> pieces = UnigramTokenizer(["▁lo", "w", "▁"], scored_pieces=scored_pieces)
    >>> pieces.tokenize("low er"), pieces.encode("lower low")
    ([' lo', 'w', ' ', 'er'], [4, 5, 2, 4, 5])
    >>> pieces.decode([4, 5, 4, 5])
    'low low'
    """

    kind = "unigram"

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        scored_pieces: Sequence[tuple[str, float]],
        charsmap: bytes = b"",
    ) -> None:
        super().__init__(vocabulary, with_eos=True)
        self.scored_pieces, self.normalizer = tuple(scored_pieces), CharsMapNormalizer(charsmap)
        self._engine = _build_engine(self.scored_pieces)

    @classmethod
    def train(cls, *_: Any, **__: Any) -> "UnigramTokenizer":
        raise UserError(
            "a unigram tokenizer is imported with its model, not trained: train a byte-pair tokenizer"
        )

    def tokenize(self, text: str) -> list[str]:
        return [piece.replace(SPACE_SYMBOL, " ") for piece, _ in self._split(text)]

    def encode(self, text: str) -> list[int]:
        known, unknown = self._ids.get, self.unk_id
        return [known(piece, unknown) for piece, _ in self._split(text)]

    def find_spans(self, text: str) -> list[Span]:
        return [span for _, span in self._split(text)]

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE_SYMBOL, " ").strip()

    def extract_language_tag(self, text: str) -> str:
        return text[: text.find("<<") + 2] if text.startswith(">>") and "<<" in text else ""

    def _split(self, text: str) -> list[tuple[str, Span]]:
        asked_for = self.extract_language_tag(text)
        begin = len(asked_for)
        folded = self.normalizer.normalize(replace_surrogates(text[begin:]))
        found = self._engine.encode(folded.text)
        ends = ((folded.spans[a][0], folded.spans[b - 1][1]) for a, b in found.offsets)
        spans = ((first + begin, last + begin) for first, last in ends)
        first = [(asked_for, (0, begin))] if asked_for else []
        return [*first, *zip(found.tokens, spans, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "scored_pieces": [list(one) for one in self.scored_pieces],
            "charsmap": base64.b64encode(self.normalizer.charsmap).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "UnigramTokenizer":
        scored = [(str(piece), float(score)) for piece, score in table["scored_pieces"]]
        charsmap = base64.b64decode(table["charsmap"], validate=True)
        return cls(table["vocabulary"], scored_pieces=scored, charsmap=charsmap)


def _build_engine(scored_pieces: Sequence[tuple[str, float]]) -> "Engine":
    try:
        from tokenizers import Tokenizer as Engine
        from tokenizers import models
    except ModuleNotFoundError:
        raise UserError('pieces of words need tokenizers: pip install "workings[data]"') from None
    try:
        return Engine(models.Unigram([("<unk>", 0.0), *scored_pieces], unk_id=0))
    except Exception as error:  # the engine raises nothing narrower
        raise UserError(f"the pieces make no model: {truncate(str(error))}") from None
