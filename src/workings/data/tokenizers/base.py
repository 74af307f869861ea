"""Tokenizers: their base class, pairs of them, and training, saving and loading them by kind."""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workings import registry
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import read_json_object, write_bytes

if TYPE_CHECKING:  # numpy is imported in functions: the command line starts faster without it
    import numpy as np
    from numpy.typing import NDArray

    from workings.ragged import RaggedArray

PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN = "<pad>", "<s>", "<unk>", "</s>"
REPLACEMENT_CHARACTER = "\ufffd"  # stands for an incomplete character
FORMAT = "workings tokenizer"
VERSION = 2
MAX_TOKEN_CHARACTERS = 32  # long texts are tokenized in parts of this many characters per token
_SENTENCE_ENDS = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")
MAX_FILE_BYTES = 256 * 2**20

# Module and class of each kind. The modules import this one, so they are imported when needed.
TOKENIZERS = {
    "characters": "characters.CharacterTokenizer",
    "words": "words.WordTokenizer",
    "byte-pair": "byte_pair.BytePairTokenizer",
}
"""The kinds that can be trained."""
LOADABLE_TOKENIZERS = TOKENIZERS | {
    "gpt2": "byte_pair.GPT2Tokenizer",
    "pretrained": "pretrained.PretrainedTokenizer",
    "multilingual": "multilingual.MultilingualTokenizer",
    "unigram": "unigram.UnigramTokenizer",
}
"""These, and the kinds that come with imported models."""

Span = tuple[int, int]


class Tokenizer(ABC):
    """A mapping from text to token ids and back.

    The first ids are special tokens: 0 is padding, 1 begins a text, 2 is the unknown token and, in
    a vocabulary that has it, 3 ends a text. No text is encoded as a special token: "<pad>" in a
    review becomes five characters or an unknown word, never padding.
    """

    kind: ClassVar[str]
    default_specials: ClassVar[tuple[str, ...]] = (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN)
    pad_id: int = 0
    bos_id: int = 1
    unk_id: int = 2
    prefix_ids: tuple[int, ...] = ()
    """the ids that an imported model expects before each text, like Llama's <s>"""
    suffix_ids: tuple[int, ...] = ()
    """the ids that an imported model expects after each text, like BERT's [SEP]"""

    def __init__(self, vocabulary: Sequence[str], *, with_eos: bool = False) -> None:
        self._specials = (*self.default_specials, EOS_TOKEN) if with_eos else self.default_specials
        self._tokens: tuple[str, ...] = (*self._specials, *vocabulary)
        self._ids = {token: i for i, token in enumerate(vocabulary, len(self._specials))}
        if len(self._ids) != len(vocabulary):
            raise UserError("the vocabulary has a token twice")

    @classmethod
    @abstractmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 20_000,
        min_count: int = 1,
        *,
        with_eos: bool = False,
    ) -> "Tokenizer":
        """Build a tokenizer from texts, with at most `vocab_size` ids including the specials."""

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Split a text into readable tokens, in the vocabulary or not."""

    @abstractmethod
    def find_spans(self, text: str) -> list[Span]:
        """Return start and end of each token in the text: `text[start:end]`."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens of the vocabulary into a text."""

    def extract_language_tag(self, text: str) -> str:  # noqa: ARG002 - for subclasses
        """Return the tag at the start of a text that selects the target language, or ""."""
        return ""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without the tokens that begin and end it."""
        get_id, unk_id = self._ids.get, self.unk_id
        return [get_id(token, unk_id) for token in self.tokenize(text)]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text."""
        return [self.encode(text) for text in texts]

    def encode_array(self, text: str, dtype: str) -> "NDArray[np.unsignedinteger[Any]]":
        """Return the ids of a long text as an array of unsigned integers."""
        import numpy as np

        return np.asarray(self.encode(text), dtype=dtype)

    def encode_rows(self, texts: Sequence[str], dtype: str) -> "RaggedArray":
        """Return the ids of many short texts as one array."""
        from workings.ragged import RaggedArray

        return RaggedArray.build([self.encode_array(text, dtype) for text in texts], dtype)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, without special tokens except for the unknown token."""
        num_specials = len(self._specials)
        tokens = [(i, self.id_to_token(i)) for i in ids]
        return self.join([token for i, token in tokens if i >= num_specials or token == UNK_TOKEN])

    def id_to_token(self, token_id: int) -> str:
        """Return the token of an id."""
        if not 0 <= token_id < len(self._tokens):
            raise UserError(f"token id {token_id} is out of range: 0 to {len(self._tokens) - 1:,}")
        return self._tokens[token_id]

    def token_to_text(self, token: str) -> str:
        """Return the text of a token, or its name if it is special or part of a character."""
        text = token if token in self._specials else self.join([token])
        return text if text and REPLACEMENT_CHARACTER not in text else token

    def name_spans(self, text: str, ids: Sequence[int], spans: Sequence[Span]) -> list[str]:
        """Return the text of each token, or the name of one without text, like <s>."""
        return [text[a:b] or self.id_to_token(i) for i, (a, b) in zip(ids, spans, strict=True)]

    def split_pieces(self, text: str) -> list[str]:
        """Return the text that each token adds, from the end of the token before it.

        If several tokens make up one character, the first has it and the others are empty.
        """
        ends = [0, *accumulate((end for _, end in self.find_spans(text)), max)]
        return [text[start:end] for start, end in pairwise(ends)]

    def decode_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text that each token adds when the tokens are decoded from left to right."""
        pieces, decoded, first = [""] * len(ids), "", 0
        for k in range(1, len(ids) + 1):
            text = self.decode(ids[:k])
            # The next token may complete the last character.
            is_incomplete = text.endswith(REPLACEMENT_CHARACTER) and k < len(ids)
            if is_incomplete:
                text = text.rstrip(REPLACEMENT_CHARACTER)
            added = text[len(decoded) :]
            if added:
                pieces[first] = added
                decoded += added
            if added or not is_incomplete:
                first = k
        return pieces

    def add_prefix_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces of a text after the names of its prefix tokens, words of their own."""
        names = [self.id_to_token(k) for k in self.prefix_ids]
        return [*names, *(f" {piece}" for piece in pieces[:1]), *pieces[1:]] if names else [*pieces]

    def label_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the labels of pieces, such as words without the spaces between them."""
        return list(pieces)

    def split_long_text(self, text: str, max_tokens: int) -> list[str]:
        """Split a text of more than `max_tokens` into sentences, and long ones between words.

        If the text begins with a target language tag, each part does.
        """
        language, max_characters = (
            self.extract_language_tag(text),
            max_tokens * MAX_TOKEN_CHARACTERS,
        )
        rest, max_tokens = text[len(language) :], max_tokens - bool(language)
        if self._fit_prefix(rest, max_tokens, max_characters) == len(rest):
            return [text]
        parts = []
        for sentence in map(str.strip, _SENTENCE_ENDS.split(rest)):
            while sentence:
                end = self._fit_prefix(sentence, max_tokens, max_characters)
                parts.append(language + sentence[:end])
                sentence = sentence[end:].lstrip()
        return parts or [text]

    def _fit_prefix(self, text: str, max_tokens: int, max_characters: int) -> int:
        """Return the length of the longest prefix that fits, of whole words if possible."""
        if len(text.encode("utf-8", "replace")) <= max_tokens:  # a token has at least one byte
            return len(text)
        spans = self.find_spans(text[:max_characters])
        if len(spans) <= max_tokens and len(text) <= max_characters:
            return len(text)
        cut = spans[max_tokens][0] if len(spans) > max_tokens else max_characters
        return max((k for k in range(cut // 2, cut) if text[k].isspace()), default=cut)

    @property
    def eos_id(self) -> int | None:
        """The id that ends a text, or None if the vocabulary has none."""
        return 3 if EOS_TOKEN in self._specials else None

    @property
    def specials(self) -> tuple[str, ...]:
        """The special tokens, which have the first ids."""
        return self._specials

    def __len__(self) -> int:
        return len(self._tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.kind, self._tokens))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} tokens)"

    def to_dict(self) -> dict[str, Any]:
        """Return the tokenizer as JSON values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "specials": list(self._specials),
            "vocabulary": list(self._tokens[len(self._specials) :]),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "Tokenizer":
        """Build the tokenizer that `to_dict` described."""
        return cls(table["vocabulary"], with_eos=EOS_TOKEN in table["specials"])

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON, atomically."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=0)
        # A character of the vocabulary may be an unpaired surrogate, if a training text had one.
        write_bytes(Path(path), text.encode("utf-8", "surrogatepass") + b"\n", unique=True)


def get_stop_id(tokenizer: Tokenizer) -> int:
    """Return the id of the end-of-sequence token."""
    assert tokenizer.eos_id is not None
    return tokenizer.eos_id


def select_vocabulary(
    counts: Counter[str], vocab_size: int, min_count: int, *, with_eos: bool = False
) -> list[str]:
    """Return the most frequent tokens first, and equally frequent ones in alphabetical order.

    `vocab_size` includes the specials.

    >>> select_vocabulary(Counter("abracadabra"), vocab_size=6, min_count=2)
    ['a', 'b', 'r']
    """
    num_specials = 4 if with_eos else 3
    if vocab_size <= num_specials:
        raise UserError(
            f"vocab_size = {vocab_size}: expected more than the {num_specials} special tokens"
        )
    if not counts:
        raise UserError("no texts to build a vocabulary from")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    # A token spelled like a special one would be ambiguous: it stays unknown.
    reserved = (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN)
    candidates = [(token, count) for token, count in ranked if token not in reserved]
    max_tokens = vocab_size - num_specials
    return [token for token, count in candidates[:max_tokens] if count >= min_count]


def train_tokenizer(
    kind: str,
    texts: Iterable[str],
    vocab_size: int = 20_000,
    min_count: int = 1,
    *,
    with_eos: bool = False,
    pad_to: int | None = None,
) -> Tokenizer:
    """Train a tokenizer of this kind on texts.

    >>> train_tokenizer("words", ["We are learning AI", "AI is a CS topic"])
    WordTokenizer(11 tokens)
    """
    names = (*TOKENIZERS, *registry.TOKENIZERS)
    if kind not in names:
        raise UserError(f"tokenizer = {kind!r}: {did_you_mean(kind, names)}")
    tokenizer = _import_class(kind).train(texts, vocab_size, min_count, with_eos=with_eos)
    return tokenizer if pad_to is None else pad_vocabulary(tokenizer, pad_to)


def pad_vocabulary(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """Return a tokenizer with unused tokens added, so that a model of a given size fits it.

    >>> pad_vocabulary(train_tokenizer("characters", ["abc"]), 8)
    CharacterTokenizer(8 tokens)
    """
    if size < len(tokenizer):
        raise UserError(f"padded_vocab_size = {size}: the tokenizer has {len(tokenizer)} tokens")
    table = tokenizer.to_dict()
    unused = [f"<unused{k}>" for k in range(size - len(tokenizer))]
    return type(tokenizer).from_dict({**table, "vocabulary": [*table["vocabulary"], *unused]})


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load a tokenizer that `Tokenizer.save` wrote.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train_tokenizer("characters", ["hello"]).save(f"{folder}/tokenizer.json")
    ...     load_tokenizer(f"{folder}/tokenizer.json")
    CharacterTokenizer(7 tokens)
    """
    path = Path(path)
    table = read_json_object(path, MAX_FILE_BYTES)
    version = table.get("version")
    if table.get("format") != FORMAT or not isinstance(version, int):
        raise UserError(f"{path}: not a tokenizer of this program")
    if version > VERSION:
        raise UserError(
            f"{path}: version {safe_repr(version)} is newer than this program's {VERSION}"
        )
    kind = table.get("kind")
    names = (*LOADABLE_TOKENIZERS, *registry.TOKENIZERS)
    if not isinstance(kind, str) or kind not in names:
        name = kind if isinstance(kind, str) else ""
        raise UserError(f"{path}: kind = {safe_repr(kind)}: {did_you_mean(name, names)}")
    vocabulary = table.get("vocabulary")
    if not isinstance(vocabulary, list) or not all(isinstance(t, str) for t in vocabulary):
        raise UserError(f"{path}: the vocabulary is not a list of texts")
    tokenizer_class = _import_class(kind)
    specials = list(tokenizer_class.default_specials)
    if table.get("specials") not in (specials, [*specials, EOS_TOKEN]):
        expected = ", ".join(specials) or "none"
        raise UserError(
            f"{path}: expected the special tokens {expected}, with or without {EOS_TOKEN}"
        )
    try:
        return tokenizer_from_dict(table)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a broken tokenizer: {truncate(str(error), 150)}") from None


def tokenizer_from_dict(table: dict[str, Any]) -> Tokenizer:
    """Build the tokenizer that `Tokenizer.to_dict` described."""
    return _import_class(table["kind"]).from_dict(table)


def _import_class(kind: str) -> type[Tokenizer]:
    if kind in registry.TOKENIZERS:
        return registry.TOKENIZERS[kind]
    module, _, name = LOADABLE_TOKENIZERS[kind].partition(".")
    tokenizer_class: type[Tokenizer] = getattr(import_module(f"{__package__}.{module}"), name)
    return tokenizer_class


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target; `lower`: they read lowercased text."""

    source: Tokenizer
    target: Tokenizer
    lower: bool = False

    def normalize_case(self, text: str) -> str:
        """Return a text as the tokenizers read it, lowercased if they are."""
        return text.lower() if self.lower else text

    def encode_source(self, text: str) -> list[int]:
        """Return the ids of a source sentence and the stop token."""
        ids = self.source.encode(self.normalize_case(text))
        return [*self.source.prefix_ids, *ids, get_stop_id(self.source)]

    def encode_target(self, text: str) -> list[int]:
        """Return the ids of a target sentence, without start and stop tokens."""
        return [*self.target.prefix_ids, *self.target.encode(self.normalize_case(text))]


def load_tokenizer_pair(folder: Path, *, shared: bool, lower: bool) -> TokenizerPair:
    """Load the tokenizers of source and target, or a shared one, from a run's folder."""
    if shared:
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        return TokenizerPair(tokenizer, tokenizer, lower)
    source, target = (load_tokenizer(folder / f"{side}.json") for side in ("source", "target"))
    return TokenizerPair(source, target, lower)
