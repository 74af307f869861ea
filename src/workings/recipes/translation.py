"""Recipes for translators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from workings.config import Sizes, build_variant, variants
from workings.errors import UserError
from workings.recipes.base import (
    AttentionKind,
    BaseRecipe,
    BatchSize,
    BoundedConfig,
    DecoderConfig,
    Fraction,
    MaxLength,
    NumLayers,
    RecurrentDecoderConfig,
    ScheduledSamplingConfig,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
    TransformerDecoderConfig,
    VocabSize,
)

TranslatorPositions: TypeAlias = Literal["sinusoidal", "fairseq"]


@dataclass(frozen=True, kw_only=True)
class TranslationDataConfig(BoundedConfig):
    """Sentence pairs."""

    set: str = "emoji-names"
    """a named dataset; a file with two columns (TSV, CSV, JSONL); the common beginning of two
    files, one per language, such as corpus/train; or their folder"""
    source: str = "en"
    """source language: its code, its column, or the suffix of its file"""
    target: str = "fr"
    """target language"""
    validation: Fraction = 0.05
    """fraction of the pairs held out for validation, where the dataset has no validation split"""
    test: Fraction = 0.05
    """fraction of the pairs held out for the test, where the dataset has no test split"""
    max_length: MaxLength = 100
    """longest training sentence, in words: pairs with a longer one are left out"""
    ratio: float = 3.0
    """largest ratio of the lengths of a pair, in words: other pairs are left out; a sentence of
    fewer than three words counts as three"""


@dataclass(frozen=True, kw_only=True)
class TranslationTokenizerConfig(TokenizerConfig):
    """How sentences are split into tokens."""

    kind: str = "byte-pair"
    """byte-pair, words (lowercased), characters or one of a plug-in; pretrained: those of an
    imported model"""
    vocab_size: VocabSize = 4000
    """largest number of tokens, special ones included; of each language, without shared_vocab"""
    shared_vocab: bool = True
    """one vocabulary for both languages"""
    lower: bool = False
    """lowercase all text"""
    dropout: Fraction = 0.0
    """BPE-dropout: probability that a merge is skipped in training, so that words are split
    differently in each epoch"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropout and self.kind != "byte-pair":
            raise UserError(
                f"dropout = {self.dropout}: only byte-pair has merges to drop; with {self.kind}, 0"
            )


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(DecoderConfig):
    """What all translators have."""

    share_embeddings: bool = False
    """one embedding for both languages, which needs tokenizer.shared_vocab"""


@dataclass(frozen=True, kw_only=True)
class RecurrentTranslatorConfig(TranslatorConfig, RecurrentDecoderConfig):
    """Recurrent encoder and decoder: RNN, GRU or LSTM."""

    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 128, "hidden_size": 256},
        "medium": {"d_model": 256, "hidden_size": 512},
        "large": {"d_model": 512, "hidden_size": 1024, "layers": 2},
    }
    bidirectional: bool = True
    """encode the source backwards as well"""
    attention: AttentionKind = "additive"
    """how the decoder sees the source: none: by its initial state alone; fixed: the encoder's last
    state at every step; or by attention with additive, dot or general scores"""


@dataclass(frozen=True, kw_only=True)
class TransformerTranslatorConfig(TranslatorConfig, TransformerDecoderConfig):
    """Transformer encoder and decoder."""

    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 128, "d_ff": 256, "layers": 4, "heads": 4},
        "medium": {"d_model": 256, "d_ff": 1024, "layers": 4, "heads": 8},
        "large": {"d_model": 512, "d_ff": 2048, "layers": 6, "heads": 8},
    }
    layers: NumLayers = 4
    """blocks of the encoder, and of the decoder"""
    share_embeddings: bool = True
    """one embedding for both languages, which needs tokenizer.shared_vocab"""
    positions: TranslatorPositions = "sinusoidal"
    """sinusoidal: those of the paper; fairseq: other frequencies, from position 2 on, as in
    M2M100"""


# A recipe that does not state its kind of model has the first.
TranslatorVariant: TypeAlias = TransformerTranslatorConfig | RecurrentTranslatorConfig
TRANSLATOR_KINDS: dict[str, type[TranslatorVariant]] = variants(TranslatorVariant)


@dataclass(frozen=True, kw_only=True)
class TranslationTrainConfig(TrainConfig):
    """Optimization, with batches counted in tokens."""

    batch_size: BatchSize = 4096
    """tokens in a batch, padding included, on the longer side"""
    metric: str = "loss"
    """validation metric by which the best epoch is chosen: loss, bleu (decoding is greedy), or one
    of a plug-in"""


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe(BaseRecipe):
    """A recipe for a translator."""

    task: Literal["translate"] = "translate"
    """the kind of recipe"""
    data: TranslationDataConfig = field(default_factory=TranslationDataConfig)
    tokenizer: TranslationTokenizerConfig = field(default_factory=TranslationTokenizerConfig)
    model: TranslatorVariant = field(default_factory=lambda: parse_translator_config({}))
    """kind, size (small, medium, large) and the settings of that kind of model"""
    scheduled_sampling: ScheduledSamplingConfig = field(default_factory=ScheduledSamplingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    train: TranslationTrainConfig = field(default_factory=TranslationTrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scheduled_sampling.check_model(self.model.kind)
        # The two tokenizers of an imported model may share one vocabulary.
        one_vocabulary = self.tokenizer.shared_vocab or self.tokenizer.kind == "pretrained"
        if self.model.share_embeddings and not one_vocabulary:
            raise UserError(
                "model.share_embeddings = true: one embedding needs one vocabulary: "
                "tokenizer.shared_vocab = true, or model.share_embeddings = false"
            )


def parse_translator_config(model: TranslatorVariant | Mapping[str, Any]) -> TranslatorVariant:
    """Return the settings that a `[model]` section states: kind, size and keys of that kind.

    >>> parse_translator_config({"kind": "recurrent", "hidden_size": 64}).kind
    'recurrent'
    """
    return build_variant(TRANSLATOR_KINDS, model, "model")
