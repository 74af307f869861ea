"""The vocabularies beside an imported translator: OPUS-MT's, M2M100's, or those we exported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config import build
from workings.data.tokenizers.base import UNK_TOKEN, TokenizerPair
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.errors import UserError
from workings.interop.huggingface import (
    CONFIG_FILE,
    MAX_JSON_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    read_token_ids,
    write_json,
)
from workings.interop.marian import M2M100
from workings.interop.multilingual import MultilingualVocabulary, read_multilingual_vocabulary
from workings.interop.sentencepiece import SentencePieceModel, read_sentencepiece_model
from workings.interop.tokenizer_files import NUM_SPECIALS, read_tokenizer
from workings.io import read_json_object
from workings.recipes import TranslationTokenizerConfig

UNK_ID = 2  # in all our tokenizers for translation
SOURCE_VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
SOURCE_SENTENCEPIECE_FILE, TARGET_SENTENCEPIECE_FILE = "source.spm", "target.spm"


@dataclass(frozen=True)
class SentencePieceVocabularies:
    """The ids of both languages' tokens, the models that split texts, and the languages."""

    token_ids: tuple[dict[str, int], dict[str, int]]
    models: tuple[SentencePieceModel, SentencePieceModel]
    unk_id: int
    languages: tuple[str, str]

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Return the `[tokenizer]` section of a recipe."""
        return TranslationTokenizerConfig(
            kind="pretrained", vocab_size=len(tokenizers.target), shared_vocab=False
        )

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Return our tokenizers, given Marian's id of each of our ids."""
        source, target = (
            self._build_tokenizer(token_ids, model, order)
            for token_ids, model, order in zip(
                self.token_ids, self.models, (source_order, target_order), strict=True
            )
        )
        return TokenizerPair(source, target)

    @staticmethod
    def _build_tokenizer(
        token_ids: Mapping[str, int], model: SentencePieceModel, order: Sequence[int]
    ) -> UnigramTokenizer:
        names = {token_id: name for name, token_id in token_ids.items()}
        vocabulary = [names.get(k, f"<unused {k}>") for k in order[NUM_SPECIALS:]]
        return UnigramTokenizer(
            vocabulary, scored_pieces=model.scored_pieces, charsmap=model.charsmap
        )


@dataclass(frozen=True)
class ExportedVocabularies:
    """The files of tokenizers as `workings export` writes them: one, or two."""

    paths: tuple[Path, ...]
    languages: tuple[str, str]
    unk_id: int = UNK_ID

    def to_tokenizer_config(self, tokenizers: TokenizerPair) -> TranslationTokenizerConfig:
        """Return the `[tokenizer]` section of a recipe."""
        table = {
            "kind": tokenizers.target.kind,
            "vocab_size": len(tokenizers.target),
            "shared_vocab": len(self.paths) == 1,
            "lower": tokenizers.lower,
        }
        return build(TranslationTokenizerConfig, table)

    def build_tokenizers(
        self, source_order: Sequence[int], target_order: Sequence[int]
    ) -> TokenizerPair:
        """Return our tokenizers, given Marian's id of each of our ids."""
        source_path, target_path = self.paths * 2 if len(self.paths) == 1 else self.paths
        source, lowers_source = read_tokenizer(source_path)
        target, lowers_target = read_tokenizer(target_path)
        for path, tokenizer, order in (
            (source_path, source, source_order),
            (target_path, target, target_order),
        ):
            if list(order) != list(range(len(tokenizer))):
                raise UserError(f"{path}: its ids do not fit {CONFIG_FILE}")
        if lowers_source != lowers_target:
            raise UserError(
                f"{source_path} and {target_path}: expected that both lowercase texts, or neither"
            )
        return TokenizerPair(source, target, lowers_source)


def read_vocabularies(
    folder: Path,
    config: Mapping[str, Any],
    languages: tuple[str | None, str | None] = (None, None),
) -> SentencePieceVocabularies | ExportedVocabularies | MultilingualVocabulary:
    """Read the vocabularies beside a translator: a published one's, or those we exported.

    `languages` chooses the pair of a model for many languages, and names that of any other.
    """
    if config.get("model_type") == M2M100:
        return read_multilingual_vocabulary(folder, languages)
    stated = _read_languages(folder)
    pair = languages[0] or stated[0], languages[1] or stated[1]
    if not (folder / SOURCE_VOCABULARY_FILE).exists():
        separate = tuple(folder / side / TOKENIZER_FILE for side in ("source", "target"))
        for paths in ((folder / TOKENIZER_FILE,), separate):
            if all(path.exists() for path in paths):
                return ExportedVocabularies(paths, pair)
    source_ids = target_ids = read_token_ids(folder / SOURCE_VOCABULARY_FILE)
    if config.get("share_encoder_decoder_embeddings", True) is not True:
        target_ids = read_token_ids(folder / TARGET_VOCABULARY_FILE)
    unk_id = source_ids.get(UNK_TOKEN)
    if unk_id is None or target_ids.get(UNK_TOKEN) != unk_id:
        raise UserError(f"{folder}: expected {UNK_TOKEN} with the same id in both vocabularies")
    models = (
        read_sentencepiece_model(folder / SOURCE_SENTENCEPIECE_FILE),
        read_sentencepiece_model(folder / TARGET_SENTENCEPIECE_FILE),
    )
    return SentencePieceVocabularies((source_ids, target_ids), models, unk_id, pair)


def _read_languages(folder: Path) -> tuple[str, str]:
    """Return source and target language of a tokenizer's config, or "source" and "target"."""
    settings = _read_tokenizer_config(folder)
    source, target = (settings.get(f"{side}_lang") for side in ("source", "target"))
    return (
        source if isinstance(source, str) and source else "source",
        target if isinstance(target, str) and target else "target",
    )


def write_languages(folder: Path, languages: tuple[str, str]) -> None:
    """Add source and target language to a tokenizer's config."""
    source, target = languages
    settings = _read_tokenizer_config(folder) | {"source_lang": source, "target_lang": target}
    write_json(folder / TOKENIZER_CONFIG_FILE, settings)


def _read_tokenizer_config(folder: Path) -> dict[str, Any]:
    path = folder / TOKENIZER_CONFIG_FILE
    return read_json_object(path, MAX_JSON_BYTES) if path.exists() else {}
