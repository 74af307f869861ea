"""The tokenizer of one model for many languages, such as M2M100 or NLLB; imported, not trained."""

import base64
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from workings.data.tokenizers.base import UNK_TOKEN, Span, Tokenizer
from workings.data.tokenizers.unigram import SPACE_SYMBOL, CharsMapNormalizer
from workings.errors import UserError, install_command, truncate
from workings.plain_text import replace_surrogates

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine


class MultilingualTokenizer(Tokenizer):
    """SentencePiece's byte-pair encoding, with a token of the language before each text.

    Pairs of pieces are merged in the order of `merges`; ▁ is a space. Ids are those of
    `vocabulary`, which may lack some pieces. `charsmap` is SentencePiece's normalization table.
    `language` and `special_tokens`, among them those of all languages, are never a text.

    >>> tokenizer = MultilingualTokenizer(
    ...     ["__en__", "▁", "l", "o", "▁lo", "w"],
    ...     merges=[("l", "o"), ("▁", "lo")],
    ...     language="__en__",
    ...     special_tokens=["__en__"],
    ... )
    >>> tokenizer.tokenize("low loo"), tokenizer.encode("low x"), tokenizer.prefix_ids
    ([' lo', 'w', ' lo', 'o'], [8, 9, 5, 2], (4,))
    >>> tokenizer.decode([4, 8, 9, 8, 9])
    'low low'
    """

    kind = "multilingual"

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        merges: Sequence[tuple[str, str]],
        language: str,
        special_tokens: Collection[str],
        charsmap: bytes = b"",
    ) -> None:
        super().__init__(vocabulary, with_eos=True)
        if language not in self._ids:
            raise UserError(f"no token of the language {truncate(language)}")
        self.merges, self.language = tuple(merges), language
        self.special_tokens = tuple(special_tokens)
        self._special_names = frozenset(special_tokens)
        self.prefix_ids = (self._ids[language],)
        self.normalizer = CharsMapNormalizer(charsmap)
        pieces = [piece for piece in vocabulary if piece not in self._special_names]
        self._engine = _build_engine(pieces, self.merges)

    @classmethod
    def train(cls, *_: Any, **__: Any) -> "MultilingualTokenizer":
        raise UserError(
            "a multilingual tokenizer is imported with its model and cannot be trained: "
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

    def decode(self, ids: Iterable[int]) -> str:
        names = self._special_names
        return super().decode(i for i in ids if self.id_to_token(i) not in names)

    def _split(self, text: str) -> list[tuple[str, Span]]:
        """Return the pieces of a text, with their spans in it."""
        normalized = self.normalizer.normalize(replace_surrogates(text))
        encoding = self._engine.encode(normalized.text)
        spans = [
            (normalized.spans[first][0], normalized.spans[end - 1][1])
            for first, end in encoding.offsets
        ]
        pieces = [
            normalized.text[first:end] if token == UNK_TOKEN else token
            for token, (first, end) in zip(encoding.tokens, encoding.offsets, strict=True)
        ]
        return list(zip(pieces, spans, strict=True))

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "merges": [list(pair) for pair in self.merges],
            "language": self.language,
            "special_tokens": list(self.special_tokens),
            "charsmap": base64.b64encode(self.normalizer.charsmap).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "MultilingualTokenizer":
        return cls(
            table["vocabulary"],
            merges=[(str(left), str(right)) for left, right in table["merges"]],
            language=str(table["language"]),
            special_tokens=[str(name) for name in table["special_tokens"]],
            charsmap=base64.b64decode(table["charsmap"], validate=True),
        )


def _build_engine(pieces: Sequence[str], merges: Sequence[tuple[str, str]]) -> "Engine":
    """Build the tokenizer of Hugging Face's package that does the work."""
    try:
        from tokenizers import Tokenizer as Engine
        from tokenizers import models
    except ModuleNotFoundError:
        raise UserError(
            f"multilingual tokenizers need tokenizers: {install_command('data')}"
        ) from None
    # A piece that is merged may have no id: then it is unknown.
    names = dict.fromkeys([UNK_TOKEN, *pieces, *(name for pair in merges for name in pair)])
    names |= dict.fromkeys(left + right for left, right in merges)
    ids = {name: k for k, name in enumerate(names)}
    try:
        return Engine(models.BPE(ids, list(merges), unk_token=UNK_TOKEN, fuse_unk=True))
    except Exception as error:  # the package raises plain Exception
        raise UserError(f"not a valid byte-pair model: {truncate(str(error))}") from None
