"""Tokenizers of imported models, as Hugging Face's `tokenizer.json` defines them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from workings.data.tokenizers.base import FORMAT, VERSION, Span, Tokenizer
from workings.errors import UserError, install_command, safe_repr, truncate
from workings.plain_text import replace_surrogates

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Engine

MAX_TOKENS = 2**24
_ANCHOR = "a"
"""A token is decoded after this one: at the beginning of a text, many decoders strip a space."""


class PretrainedTokenizer(Tokenizer):
    """A tokenizer of Hugging Face's `tokenizers` package: WordPiece, SentencePiece's BPE and so on.

    It keeps the ids of the model that it came with. No text is encoded as a special token. The ids
    that the definition puts before and after each text are `prefix_ids` and `suffix_ids`.

    >>> vocab = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "low": 3, "##er": 4}
    >>> tokenizer = PretrainedTokenizer(define_word_piece(vocab, lowercase=True))
    >>> tokenizer.encode("Lower low"), tokenizer.prefix_ids, tokenizer.suffix_ids
    ([3, 4, 3], (1,), (2,))
    >>> tokenizer.decode([1, 3, 4, 3, 2])
    'lower low'
    """

    kind = "pretrained"
    default_specials: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        definition: Mapping[str, Any],
        *,
        vocab_size: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
    ) -> None:
        """Build a tokenizer of the content of a `tokenizer.json`.

        `vocab_size` is the number of the model's embeddings: rows without a token are unused.
        """
        self.definition = dict(definition)
        self._engine = _build_engine(self.definition)
        count = max(self._engine.get_vocab().values(), default=-1) + 1
        size = count if vocab_size is None else vocab_size
        if not 0 < count <= min(size, MAX_TOKENS):
            raise UserError(f"{count:,} tokens, but the model has {size:,} embeddings")
        for name, token_id in (("bos_id", bos_id), ("eos_id", eos_id), ("pad_id", pad_id)):
            if token_id is not None and not 0 <= token_id < size:
                raise UserError(f"{name} = {token_id} is out of range: 0 to {size - 1:,}")
        names = [self._engine.id_to_token(k) or f"<unused{k}>" for k in range(size)]
        super().__init__(_make_unique(names))
        self.prefix_ids, self.suffix_ids = self._find_frame()
        self._eos_id = eos_id
        self.bos_id = _first_given(bos_id, *self.prefix_ids[:1], eos_id)
        self.pad_id = _first_given(pad_id, eos_id, bos_id)
        unknown = getattr(self._engine.model, "unk_token", None)
        unk_id = self._engine.token_to_id(unknown) if isinstance(unknown, str) else None
        self.unk_id = -1 if unk_id is None else unk_id

    @classmethod
    def train(cls, *_arguments: Any, **_settings: Any) -> "PretrainedTokenizer":
        raise UserError("tokenizer.kind = pretrained: such a tokenizer is imported, not trained")

    @property
    def eos_id(self) -> int | None:
        return self._eos_id

    def _find_frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the special ids that are put before and after a text."""
        with _engine_errors():
            framed = self._engine.encode(_ANCHOR, add_special_tokens=True)
        is_text = [not is_special for is_special in framed.special_tokens_mask]
        if True not in is_text:
            return (), ()
        first, last = is_text.index(True), len(is_text) - 1 - is_text[::-1].index(True)
        return tuple(framed.ids[:first]), tuple(framed.ids[last + 1 :])

    def _encode(self, text: str) -> "Encoding":
        with _engine_errors():
            return self._engine.encode(replace_surrogates(text), add_special_tokens=False)

    def encode(self, text: str) -> list[int]:
        return list(self._encode(text).ids)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, or None if there is no such token."""
        return self._ids.get(token)

    def tokenize(self, text: str) -> list[str]:
        encoding = self._encode(text)
        return [
            text[a:b] or token
            for (a, b), token in zip(encoding.offsets, encoding.tokens, strict=True)
        ]

    def find_spans(self, text: str) -> list[Span]:
        return [(int(a), int(b)) for a, b in self._encode(text).offsets]

    def decode(self, ids: Iterable[int]) -> str:
        with _engine_errors():
            return str(self._engine.decode(list(ids), skip_special_tokens=True))

    def join(self, tokens: Sequence[str]) -> str:
        decoder = self._engine.decoder
        if decoder is None:
            return " ".join(tokens)
        with _engine_errors():
            return str(decoder.decode([_ANCHOR, *tokens]))[len(decoder.decode([_ANCHOR])) :]

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "specials": [],
            "vocabulary": [],  # it is in the definition
            "vocab_size": len(self),
            "bos_id": self.bos_id,
            "eos_id": self.eos_id,
            "pad_id": self.pad_id,
            "definition": self.definition,
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "PretrainedTokenizer":
        ids = {key: table.get(key) for key in ("vocab_size", "bos_id", "eos_id", "pad_id")}
        for key, value in ids.items():
            if value is not None and type(value) is not int:
                raise UserError(f"{key} = {safe_repr(value)}: expected a whole number")
        return cls(table["definition"], **ids)


def define_word_piece(vocabulary: Mapping[str, int], *, lowercase: bool) -> dict[str, Any]:
    """Return the definition of BERT's tokenizer for the tokens of its `vocab.txt`."""
    tokenizers = _import_tokenizers()
    engine = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            dict(vocabulary),
            unk_token="[UNK]",  # noqa: S106 - not a password
            max_input_chars_per_word=100,
        )
    )
    engine.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    engine.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    engine.decoder = tokenizers.decoders.WordPiece()
    frame = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    engine.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=frame
    )
    engine.add_special_tokens(
        [name for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if name in vocabulary]
    )
    definition: dict[str, Any] = json.loads(engine.to_str())
    return definition


def _build_engine(definition: Mapping[str, Any]) -> "Engine":
    """Build the tokenizer of Hugging Face's package that does the work."""
    tokenizers = _import_tokenizers()
    with _engine_errors():
        engine: Engine = tokenizers.Tokenizer.from_str(json.dumps(definition))
    engine.no_truncation()
    engine.no_padding()
    engine.encode_special_tokens = True  # a text that spells a special token stays text
    return engine


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn an error of the engine into a UserError: a definition may be inconsistent."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the package raises plain Exception, and panics
        raise UserError(f"tokenizer: {truncate(str(error), 150)}") from None


def _import_tokenizers() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise UserError(
            f"pretrained tokenizers need tokenizers: {install_command('data')}"
        ) from None
    return tokenizers


def _make_unique(names: Sequence[str]) -> list[str]:
    """Rename tokens that are spelled like an earlier one: an unused row may be."""
    unique: dict[str, None] = {}
    for name in names:
        while name in unique:
            name = f"<{name}>"
        unique[name] = None
    return list(unique)


def _first_given(*ids: int | None) -> int:
    return next((token_id for token_id in ids if token_id is not None), 0)
