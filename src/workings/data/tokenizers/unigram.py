"""SentencePiece's unigram tokenizer, with its normalization; it is imported, not trained."""

import base64
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workings.data.tokenizers.base import Span, Tokenizer
from workings.errors import UserError, install_command, truncate
from workings.plain_text import replace_surrogates

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

SPACE_SYMBOL = "▁"


class UnigramTokenizer(Tokenizer):
    """A unigram tokenizer: the most probable segmentation into pieces; ▁ is a space.

    `scored_pieces` are the pieces and their log probabilities, by which texts are split. Ids are
    those of `vocabulary`, which may lack some of them and have pieces of another language.
    `charsmap` is SentencePiece's normalization table. A text may begin with a tag of the target
    language, such as `>>fr<<`, which is one token.

    >>> scored_pieces = [("▁", -2.0), ("▁lo", -3.0), ("w", -2.5), ("er", -3.0)]
    >>> tokenizer = UnigramTokenizer(["▁lo", "w", "▁"], scored_pieces=scored_pieces)
    >>> tokenizer.tokenize("low er"), tokenizer.encode("lower low")
    ([' lo', 'w', ' ', 'er'], [4, 5, 2, 4, 5])
    >>> tokenizer.decode([4, 5, 4, 5])
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
            "a unigram tokenizer is imported with its model and cannot be trained: "
            "train a byte-pair tokenizer"
        )

    def tokenize(self, text: str) -> list[str]:
        return [piece.replace(SPACE_SYMBOL, " ") for piece, _ in self._split(text)]

    def encode(self, text: str) -> list[int]:
        get_id, unk_id = self._ids.get, self.unk_id
        return [get_id(piece, unk_id) for piece, _ in self._split(text)]

    def find_spans(self, text: str) -> list[Span]:
        return [span for _, span in self._split(text)]

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE_SYMBOL, " ").strip()

    def extract_language_tag(self, text: str) -> str:
        return text[: text.find("<<") + 2] if text.startswith(">>") and "<<" in text else ""

    def _split(self, text: str) -> list[tuple[str, Span]]:
        """Return the pieces of a text, with their spans in it."""
        tag = self.extract_language_tag(text)
        start = len(tag)
        normalized = self.normalizer.normalize(replace_surrogates(text[start:]))
        encoding = self._engine.encode(normalized.text)
        spans = [
            (start + normalized.spans[first][0], start + normalized.spans[end - 1][1])
            for first, end in encoding.offsets
        ]
        pieces = zip(encoding.tokens, spans, strict=True)
        return [(tag, (0, start)), *pieces] if tag else list(pieces)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "scored_pieces": [list(piece) for piece in self.scored_pieces],
            "charsmap": base64.b64encode(self.normalizer.charsmap).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "UnigramTokenizer":
        scored_pieces = [(str(piece), float(score)) for piece, score in table["scored_pieces"]]
        charsmap = base64.b64decode(table["charsmap"], validate=True)
        return cls(table["vocabulary"], scored_pieces=scored_pieces, charsmap=charsmap)


def _build_engine(scored_pieces: Sequence[tuple[str, float]]) -> "Engine":
    """Build the tokenizer of Hugging Face's package that does the work."""
    try:
        from tokenizers import Tokenizer as Engine
        from tokenizers import models
    except ModuleNotFoundError:
        raise UserError(f"unigram tokenizers need tokenizers: {install_command('data')}") from None
    try:
        return Engine(models.Unigram([("<unk>", 0.0), *scored_pieces], unk_id=0))
    except Exception as error:  # the package raises plain Exception
        raise UserError(f"not a valid unigram model: {truncate(str(error))}") from None


class NormalizedText(NamedTuple):
    """A normalized text, and the span of each of its characters in the original."""

    text: str
    spans: list[Span]


class CharsMapNormalizer:
    """SentencePiece's normalizer: replaces characters by a table, and collapses spaces.

    The table (`precompiled_charsmap`) is a double-array trie in the format of Darts-clone. The
    children of a node are at its index XOR its offset XOR the next byte. The value of a key is an
    index into a list of zero-terminated texts. Without a table only spaces change.

    >>> CharsMapNormalizer().normalize(" a  b ")
    NormalizedText(text='▁a▁b', spans=[(1, 1), (1, 2), (2, 4), (4, 5)])
    """

    def __init__(self, charsmap: bytes = b"") -> None:
        self.charsmap = charsmap
        trie_bytes = int.from_bytes(charsmap[:4], "little")
        if charsmap and (trie_bytes % 4 or not 0 < trie_bytes <= len(charsmap) - 4):
            raise UserError("the normalization table (charsmap) is damaged")
        self._units = struct.unpack(f"<{trie_bytes // 4}I", charsmap[4 : 4 + trie_bytes])
        self._replacements = charsmap[4 + trie_bytes :]

    def normalize(self, text: str) -> NormalizedText:
        """Replace the longest prefix in the table repeatedly, and collapse spaces into ▁.

        Spaces at both ends are removed, and one is put before the text.
        """
        characters: list[tuple[str, int, int]] = []
        start = 0
        while start < len(text):
            length, replacement = self._longest_match(text, start)
            end = start + length
            for character in replacement:
                if character != " ":
                    characters.append((character, start, end))
                elif characters and characters[-1][0] != SPACE_SYMBOL:
                    characters.append((SPACE_SYMBOL, start, end))
                elif characters:
                    characters[-1] = (SPACE_SYMBOL, characters[-1][1], end)
            start = end
        if characters and characters[-1][0] == SPACE_SYMBOL:
            characters.pop()
        if not characters:
            return NormalizedText("", [])
        first = characters[0][1]
        spans = [(first, first), *((start, end) for _, start, end in characters)]
        return NormalizedText(SPACE_SYMBOL + "".join(c for c, _, _ in characters), spans)

    def _longest_match(self, text: str, position: int) -> tuple[int, str]:
        """Return the length of the longest key at a position, and its replacement.

        Where no key matches, one character is replaced by itself.
        """
        best, units = (1, text[position]), self._units
        node = _child_offset(units[0]) if units else len(units)
        for length in range(1, len(text) - position + 1):
            for byte in text[position + length - 1].encode("utf-8"):
                node ^= byte
                if node >= len(units) or units[node] & 0x800000FF != byte:
                    return best
                unit = units[node]
                node ^= _child_offset(unit)
            is_key = unit >> 8 & 1
            if is_key and node < len(units):
                best = length, self._replacement_at(units[node] & 0x7FFFFFFF)
        return best

    def _replacement_at(self, start: int) -> str:
        end = self._replacements.find(b"\0", start)
        return self._replacements[start : end if end >= 0 else None].decode("utf-8", "replace")


def _child_offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)
