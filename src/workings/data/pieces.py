"""Somebody else's pieces of words: a unigram model of SentencePiece's, by another engine."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workings.data.byte_pair import whole
from workings.data.folding import SPACE, Folding
from workings.data.tokenizer import Span, Tokenizer
from workings.errors import UserError, brief

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine


class Pieces(Tokenizer):
    """The likeliest pieces of a text, of which each has a log probability; a space is ▁.

    `scored` says how texts are split; ids are the vocabulary's, which may know fewer pieces and
    those of another language. `folding` is SentencePiece's own table of which characters count as
    which. A text may begin with the language that is asked for, `>>fr<<`, which is one piece.

    >>> scored = [("▁", -2.0), ("▁lo", -3.0), ("w", -2.5), ("er", -3.0)]
    >>> pieces = Pieces(["▁lo", "w", "▁"], scored=scored)
    >>> pieces.tokens("low er"), pieces.encode("lower low")
    ([' lo', 'w', ' ', 'er'], [4, 5, 2, 4, 5])
    >>> pieces.decode([4, 5, 4, 5])
    'low low'
    """

    kind = "borrowed pieces"

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        scored: Sequence[tuple[str, float]],
        folding: bytes = b"",
    ) -> None:
        super().__init__(vocabulary, stop=True)
        self.scored, self.folding = tuple(scored), Folding(folding)
        self._engine = _engine(self.scored)

    @classmethod
    def train(cls, *_: Any, **__: Any) -> "Pieces":
        raise UserError("these pieces are borrowed, not trained: byte-pair can be")

    def tokens(self, text: str) -> list[str]:
        return [piece.replace(SPACE, " ") for piece, _ in self._split(text)]

    def encode(self, text: str) -> list[int]:
        known, unknown = self._ids.get, self.unknown
        return [known(piece, unknown) for piece, _ in self._split(text)]

    def spans(self, text: str) -> list[Span]:
        return [span for _, span in self._split(text)]

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE, " ").strip()

    def language(self, text: str) -> str:
        return text[: text.find("<<") + 2] if text.startswith(">>") and "<<" in text else ""

    def _split(self, text: str) -> list[tuple[str, Span]]:
        asked_for = self.language(text)
        begin = len(asked_for)
        folded = self.folding.fold(whole(text[begin:]))
        found = self._engine.encode(folded.text)
        ends = ((folded.spans[a][0], folded.spans[b - 1][1]) for a, b in found.offsets)
        spans = ((first + begin, last + begin) for first, last in ends)
        first = [(asked_for, (0, begin))] if asked_for else []
        return [*first, *zip(found.tokens, spans, strict=True)]

    def to_table(self) -> dict[str, Any]:
        return super().to_table() | {
            "scored": [list(one) for one in self.scored],
            "folding": base64.b64encode(self.folding.table).decode("ascii"),
        }

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "Pieces":
        scored = [(str(piece), float(score)) for piece, score in table["scored"]]
        folding = base64.b64decode(table["folding"], validate=True)
        return cls(table["vocabulary"], scored=scored, folding=folding)


def _engine(scored: Sequence[tuple[str, float]]) -> "Engine":
    try:
        from tokenizers import Tokenizer as Engine
        from tokenizers import models
    except ModuleNotFoundError:
        raise UserError('pieces of words need tokenizers: pip install "workings[data]"') from None
    try:
        return Engine(models.Unigram([("<unk>", 0.0), *scored], unk_id=0))
    except Exception as error:  # the engine raises nothing narrower
        raise UserError(f"the pieces make no model: {brief(str(error))}") from None
