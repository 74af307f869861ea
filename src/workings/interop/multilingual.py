"""The tokenizers of M2M100 and NLLB, read for a pair of their languages.

M2M100 has `vocab.json` and `sentencepiece.bpe.model`, NLLB a `tokenizer.json`. Both are byte-pair
encodings of SentencePiece, and have a token for each language.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.tokenizers.base import BOS_TOKEN, EOS_TOKEN, PAD_TOKEN, UNK_TOKEN, TokenizerPair
from workings.data.tokenizers.multilingual import MultilingualTokenizer
from workings.errors import UserError, did_you_mean, truncate
from workings.interop.huggingface import (
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    check_token_ids,
    parse_merge,
    read_token_ids,
)
from workings.interop.sentencepiece import BYTE_PAIR, read_sentencepiece_model
from workings.interop.tokenizer_files import NUM_SPECIALS
from workings.io import read_json_object
from workings.recipes import TranslationTokenizerConfig

VOCABULARY_FILE, SENTENCEPIECE_FILE = "vocab.json", "sentencepiece.bpe.model"
_SPECIAL_TOKENS = (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN)
# Their tokens follow the pieces in this order; the files of M2M100 do not have it.
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga "
    "gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}


@dataclass(frozen=True)
class MultilingualVocabulary:
    """The ids of all tokens, the merges that split texts, and the pair of languages."""

    token_ids: Mapping[str, int]
    merges: Sequence[tuple[str, str]]
    special_tokens: Sequence[str]
    charsmap: bytes
    languages: tuple[str, str]

    @property
    def unk_id(self) -> int:
        """The file's id of the unknown token."""
        return self.token_ids[UNK_TOKEN]

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Return the `[tokenizer]` section of a recipe."""
        return TranslationTokenizerConfig(
            kind="pretrained", vocab_size=len(tokenizers.target), shared_vocab=False
        )

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Return our tokenizers, given the file's id of each of our ids."""
        names = {k: name for name, k in self.token_ids.items() if name not in _SPECIAL_TOKENS}
        source, target = (
            MultilingualTokenizer(
                [names.get(k, f"<unused {k}>") for k in order[NUM_SPECIALS:]],
                merges=self.merges,
                language=self._find_token(language),
                special_tokens=self.special_tokens,
                charsmap=self.charsmap,
            )
            for order, language in zip((source_order, target_order), self.languages, strict=True)
        )
        return TokenizerPair(source, target)

    def _find_token(self, language: str) -> str:
        """Return the token of a language: `__fr__` of M2M100, `fra_Latn` of NLLB."""
        for name in (language, f"__{language}__"):
            if name in self.special_tokens:
                return name
        codes = [name.strip("_") for name in self.special_tokens]
        raise UserError(f"language {truncate(language)!r}: {did_you_mean(language, codes)}")


def read_multilingual_vocabulary(
    folder: Path, languages: tuple[str | None, str | None]
) -> MultilingualVocabulary:
    """Read the vocabulary beside an M2M100 or NLLB.

    Languages that are not given are those of the tokenizer's settings.
    """
    path = folder / TOKENIZER_CONFIG_FILE
    settings = read_json_object(path, MAX_JSON_BYTES) if path.exists() else {}
    source, target = (
        given or settings.get(key)
        for given, key in zip(languages, ("src_lang", "tgt_lang"), strict=True)
    )
    if not isinstance(source, str) or not isinstance(target, str):
        raise UserError(
            f"{folder}: a translator of many languages: say which two, as in "
            "`workings import FOLDER --source en --target fr --out RUN`"
        )
    if settings.get("legacy_behaviour") is True:
        raise UserError(
            f"{path}: legacy_behaviour puts the language after a text: expected it before"
        )
    if (folder / TOKENIZER_FILE).exists():
        return _read_tokenizer_file(folder / TOKENIZER_FILE, (source, target))
    return _read_m2m100_files(folder, settings, (source, target))


def _read_m2m100_files(
    folder: Path, settings: Mapping[str, Any], languages: tuple[str, str]
) -> MultilingualVocabulary:
    token_ids = read_token_ids(folder / VOCABULARY_FILE)
    codes = _LANGUAGES.get(str(settings.get("language_codes", "m2m100")))
    if codes is None:
        raise UserError(
            f"{folder / TOKENIZER_CONFIG_FILE}: language_codes: expected one of "
            f"{', '.join(_LANGUAGES)}"
        )
    names = [f"__{code}__" for code in codes.split()]
    token_ids |= {name: len(token_ids) + k for k, name in enumerate(names)}
    model = read_sentencepiece_model(folder / SENTENCEPIECE_FILE, BYTE_PAIR)
    pieces = [piece for piece, _ in sorted(model.scored_pieces, key=lambda p: -p[1])]
    merges = list(_find_merges(pieces))
    return _check_vocabulary(
        folder / VOCABULARY_FILE,
        MultilingualVocabulary(token_ids, merges, names, model.charsmap, languages),
    )


def _find_merges(pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of pieces that make up a piece, the best piece first."""
    known = set(pieces)
    for piece in pieces:
        for k in range(1, len(piece)):
            if piece[:k] in known and piece[k:] in known:
                yield piece[:k], piece[k:]


def _read_tokenizer_file(path: Path, languages: tuple[str, str]) -> MultilingualVocabulary:
    table = read_json_object(path, MAX_JSON_BYTES)
    model, added = table.get("model"), table.get("added_tokens")
    if not isinstance(model, dict) or model.get("type") != "BPE" or not isinstance(added, list):
        raise UserError(f"{path}: expected the byte-pair encoding of an NLLB")
    specials = {
        str(token.get("content")): token.get("id") for token in added if isinstance(token, dict)
    }
    token_ids, merges = model.get("vocab"), model.get("merges")
    if not isinstance(token_ids, dict) or not isinstance(merges, list):
        raise UserError(f"{path}: expected a vocabulary and merges")
    check_token_ids(token_ids | specials, path)
    vocabulary = MultilingualVocabulary(
        token_ids | specials,
        [parse_merge(merge, path) for merge in merges],
        [name for name in specials if name not in _SPECIAL_TOKENS],
        _find_charsmap(table.get("normalizer"), path),
        languages,
    )
    return _check_vocabulary(path, vocabulary)


def _find_charsmap(normalizer: object, path: Path) -> bytes:
    """Return SentencePiece's normalization table; b"" if there is none."""
    if not isinstance(normalizer, dict):
        return b""
    steps = normalizer.get("normalizers", [normalizer])
    kinds = {step.get("type") for step in steps if isinstance(step, dict)}
    if kinds - {"Precompiled", "Replace"}:  # the latter collapses spaces, as ours does
        raise UserError(f"{path}: its normalizer is not supported: expected SentencePiece's table")
    tables = [step.get("precompiled_charsmap") for step in steps if "precompiled_charsmap" in step]
    try:
        return base64.b64decode(tables[0], validate=True) if tables else b""
    except (binascii.Error, TypeError, ValueError):
        raise UserError(f"{path}: precompiled_charsmap is damaged") from None


def _check_vocabulary(path: Path, vocabulary: MultilingualVocabulary) -> MultilingualVocabulary:
    """Raise UserError if special tokens are missing, or no languages are among the tokens."""
    for name in _SPECIAL_TOKENS:
        if name not in vocabulary.token_ids:
            raise UserError(f"{path}: {name} is missing")
    for language in vocabulary.languages:
        vocabulary._find_token(language)
    return vocabulary
