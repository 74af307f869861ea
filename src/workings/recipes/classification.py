"""Recipes for text classification."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from workings.config import Range, Sizes, build_variant, variants
from workings.errors import UserError, safe_repr, truncate
from workings.recipes.base import (
    Activation,
    BaseRecipe,
    BoundedConfig,
    CellKind,
    Count,
    Fraction,
    Length,
    MaxLength,
    ModelConfig,
    NumHeads,
    NumLayers,
    Padding,
    Pooling,
    TokenizerConfig,
    TrainConfig,
    Width,
)
from workings.recipes.language_modeling import (
    DEFAULT_LANGUAGE_MODEL,
    LanguageModelVariant,
    TransformerLanguageModelConfig,
    parse_language_model_config,
)


@dataclass(frozen=True, kw_only=True)
class ClassificationDataConfig(BoundedConfig):
    """Labeled texts."""

    set: str = "emoji-languages"
    """a named dataset, a file (CSV, TSV, JSONL, Parquet, Arrow, fastText) or a folder; hf:NAME: a
    dataset of the Hugging Face hub"""
    text: str = "text"
    """column of the texts: its name, or its number, from 1, in a file without a header"""
    label: str = "label"
    """column of the labels"""
    multi_label: bool = False
    """a text has any number of labels: a list in JSON, or names with a delimiter between them"""
    label_delimiter: str = ","
    """what separates the labels of a text, with multi_label"""
    skip_missing: bool = False
    """leave out rows without a text or a label"""
    validation: Fraction = 0.1
    """fraction of the training examples held out for validation"""
    max_length: MaxLength = 512
    """maximum number of tokens; longer texts are truncated"""
    watch_test: bool = False
    """also evaluate on the test set after each epoch, for the curves only: it selects nothing"""


@dataclass(frozen=True, kw_only=True)
class ClassificationTrainConfig(TrainConfig):
    """Optimization, with the metric and the weights of classes."""

    metric: str = "accuracy"
    """validation metric by which the best epoch is chosen: accuracy, loss, or precision, recall or
    f1 with _macro or _weighted (multi_label: _macro or _micro); or one of a plug-in"""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """weights of classes in the loss: none, balanced (by their frequency), or a table by label; of
    other labels 1"""
    threshold: float = 0.5
    """multi_label: probability from which a text has a label"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold < 1:
            raise UserError(f"threshold = {self.threshold}: expected a number between 0 and 1")
        if isinstance(self.class_weights, dict):
            for label, weight in self.class_weights.items():
                if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
                    raise UserError(
                        f"class_weights.{truncate(label)} = {safe_repr(weight)}: "
                        "expected a number, 0 or more"
                    )


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(ModelConfig):
    """What all classifiers with embeddings have."""

    d_model: Width = 128
    """width of the embeddings"""
    dropout: Fraction = 0.0
    """dropout rate"""
    embedding_dropout: Fraction = 0.0
    """fraction of the vocabulary that is dropped in each training step: such a word is zero at all
    its positions"""
    padding: Padding = "masked"
    """masked: padding is ignored; unmasked: it is read like any token, as in the lecture
    notes; left: unmasked, and before the text"""


@dataclass(frozen=True, kw_only=True)
class RecurrentClassifierConfig(ClassifierConfig):
    """RNN, GRU or LSTM (A1 and A2 in docs/classifiers.md)."""

    kind: ClassVar[str] = "recurrent"
    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 64, "hidden_size": 64},
        "medium": {"d_model": 128, "hidden_size": 128, "bidirectional": True},
        "large": {"d_model": 256, "hidden_size": 256, "bidirectional": True, "layers": 2},
    }
    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    hidden_size: Width = 64
    """width of the hidden state, per direction"""
    layers: NumLayers = 1
    """number of layers"""
    bidirectional: bool = False
    """read the text backwards as well"""
    recurrent_dropout: Fraction = 0.0
    """dropout rate of the hidden-to-hidden weights: one mask per training step"""
    pooling: Pooling = "max"
    """input of the output layer: the last hidden state, the max or mean over all positions, or all
    three (concat)"""


@dataclass(frozen=True, kw_only=True)
class PerceptronConfig(ClassifierConfig):
    """Concatenated embeddings (A3 in docs/classifiers.md) or their mean, then a perceptron."""

    kind: ClassVar[str] = "perceptron"
    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 32, "hidden_sizes": [64]},
        "medium": {"d_model": 64, "hidden_sizes": [256, 64]},
        "large": {"d_model": 128, "hidden_sizes": [1024, 128]},
    }
    pooling: Literal["flatten", "mean"] = "flatten"
    """flatten: concatenate the embeddings, with weights per position; mean: average them"""
    length: Length = 500
    """tokens that texts are truncated or padded to, where pooling is flatten"""
    hidden_sizes: tuple[Width, ...] = (1024, 128)
    """widths of the hidden layers"""


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(ClassifierConfig):
    """1-D convolutions, then flattened or global max pooling (A4 and A5 in docs/classifiers.md)."""

    kind: ClassVar[str] = "convolution"
    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 64, "channels": [64], "hidden_size": 64},
        "medium": {"d_model": 128, "channels": [128, 128], "hidden_size": 128},
        "large": {"d_model": 256, "channels": [256, 256, 256], "hidden_size": 256},
    }
    channels: tuple[Width, ...] = (128, 128)
    """output channels of each convolution"""
    kernel: Annotated[int, Range(1, 10**4)] = 7
    """kernel size"""
    stride: Annotated[int, Range(1, 10**4)] = 3
    """stride"""
    hidden_size: Width = 128
    """width of the hidden layer before the output layer"""
    pooling: Literal["max", "flatten"] = "max"
    """max: global max pooling; flatten: concatenate all positions, which needs a fixed length"""
    length: Length = 500
    """tokens that texts are truncated or padded to, where pooling is flatten"""


@dataclass(frozen=True, kw_only=True)
class RegionConfig(ModelConfig):
    """A convolution over one-hot word regions: a weight for each word at each position."""

    kind: ClassVar[str] = "regions"
    sizes: ClassVar[Sizes] = {
        "small": {"regions": [2], "channels": 50},
        "medium": {"regions": [2, 3], "channels": 200},
        "large": {"regions": [2, 3, 4], "channels": 500},
    }
    regions: tuple[Annotated[int, Range(1, 100)], ...] = (2, 3)
    """sizes of the regions, in tokens: one convolution for each"""
    channels: Width = 200
    """filters of each convolution"""
    dropout: Fraction = 0.5
    """dropout rate of the output layer's input"""
    word_dropout: Fraction = 0.0
    """fraction of the tokens of a text that are read as padding in training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.regions:
            raise UserError("regions = []: expected the size of at least one region")


@dataclass(frozen=True, kw_only=True)
class TransformerClassifierConfig(ClassifierConfig):
    """A Transformer encoder (A6 in docs/classifiers.md)."""

    kind: ClassVar[str] = "transformer"
    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 64, "layers": 1, "heads": 2, "d_ff": 128},
        "medium": {"d_model": 128, "layers": 2, "heads": 4, "d_ff": 256},
        "large": {"d_model": 256, "layers": 4, "heads": 8, "d_ff": 1024},
    }
    layers: NumLayers = 2
    """number of blocks"""
    heads: NumHeads = 4
    """attention heads per block"""
    d_ff: Width = 256
    """width of the feed-forward layers"""
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """positional encoding"""
    max_positions: Length = 512
    """longest sequence with learned positions"""
    pooling: Literal["mean", "max", "last"] = "mean"
    """input of the output layer: the mean or max over all positions, or the last position"""


@dataclass(frozen=True, kw_only=True)
class BertConfig(ModelConfig):
    """A BERT: a post-norm Transformer encoder, pooled at the first token."""

    kind: ClassVar[str] = "bert"
    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 128, "layers": 2, "heads": 2, "d_ff": 512},
        "medium": {"d_model": 512, "layers": 8, "heads": 8, "d_ff": 2048},
        "large": {"d_model": 768, "layers": 12, "heads": 12, "d_ff": 3072},
    }
    d_model: Width = 768
    """width of the embeddings"""
    layers: NumLayers = 12
    """number of blocks"""
    heads: NumHeads = 12
    """attention heads per block"""
    d_ff: Width = 3072
    """width of the feed-forward layers"""
    max_positions: Length = 512
    """longest sequence, with the special tokens around a text"""
    token_types: Annotated[int, Range(0, 1000)] = 2
    """types of tokens, of which texts have the first; 0: none, as in DistilBERT"""
    activation: Activation = "gelu"
    """activation of the feed-forward layers"""
    pooler: Literal["tanh", "relu"] = "tanh"
    """activation of the first token's layer: tanh in BERT, relu in DistilBERT"""
    norm_eps: float = 1e-12
    """added to the variance in a layer norm"""
    dropout: Fraction = 0.1
    """dropout rate"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.norm_eps < math.inf:
            raise UserError(f"norm_eps = {self.norm_eps}: expected a positive number")


@dataclass(frozen=True, kw_only=True)
class LanguageModelClassifierConfig(ModelConfig):
    """The body of a language model, all but its output layer, pooled to one vector."""

    kind: ClassVar[str] = "language-model"
    sizes: ClassVar[Sizes] = {
        size: {"body": {"size": size}} for size in ("small", "medium", "large")
    }
    body: LanguageModelVariant = DEFAULT_LANGUAGE_MODEL
    """the language model, with the keys of its own recipes; with start_from, that of the run"""
    pooling: Pooling = "last"
    """input of the output layer: the last position, the max or mean over all positions, or all
    three (concat)"""
    dropout: Fraction = 0.0
    """dropout rate of the output layer's input"""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "body", parse_language_model_config(self.body))


@dataclass(frozen=True, kw_only=True)
class NgramConfig(ModelConfig):
    """A bag of n-grams, initialized with naive Bayes weights."""

    kind: ClassVar[str] = "ngrams"
    sizes: ClassVar[Sizes] = {
        "small": {"max_n": 1},
        "medium": {"max_n": 2},
        "large": {"max_n": 3},
    }
    max_n: Annotated[int, Range(1, 10**7)] = 3
    """longest n-grams, in tokens"""
    min_count: Count = 2
    """n-grams that occur in fewer training texts are left out"""
    dropout: Fraction = 0.0
    """fraction of the n-grams dropped in training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_n > 60:
            raise UserError(f"max_n = {self.max_n}: n-grams have at most 60 tokens")


@dataclass(frozen=True, kw_only=True)
class TfidfConfig(ModelConfig):
    """TF-IDF of n-grams of words and characters, with naive-Bayes weights; it reads characters."""

    kind: ClassVar[str] = "tf-idf"
    sizes: ClassVar[Sizes] = {
        "small": {"max_words": 1, "max_characters": 3, "max_features": 100_000},
        "medium": {"max_words": 2, "max_characters": 5, "max_features": 500_000},
        "large": {"max_words": 3, "max_characters": 6, "max_features": 2_000_000},
    }
    max_words: Annotated[int, Range(0, 60)] = 2
    """longest n-grams of words; 0: none"""
    max_characters: Annotated[int, Range(0, 60)] = 5
    """longest n-grams of characters within a word and the spaces around it; 0: none"""
    min_count: Count = 2
    """n-grams that occur in fewer training texts are left out"""
    max_features: Count = 500_000
    """largest number of n-grams: the most frequent ones"""
    dropout: Fraction = 0.0
    """fraction of the n-grams dropped in training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.max_words and self.max_characters < 2:
            raise UserError("max_words = 0 and max_characters < 2: no n-grams are left")


# A recipe that does not state its kind of model has the first.
ClassifierVariant: TypeAlias = (
    RecurrentClassifierConfig
    | PerceptronConfig
    | ConvolutionConfig
    | RegionConfig
    | TransformerClassifierConfig
    | BertConfig
    | LanguageModelClassifierConfig
    | NgramConfig
    | TfidfConfig
)
CLASSIFIER_KINDS: dict[str, type[ClassifierVariant]] = variants(ClassifierVariant)


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(BaseRecipe):
    """A recipe for text classification."""

    task: Literal["classify"] = "classify"
    """the kind of recipe"""
    data: ClassificationDataConfig = field(default_factory=ClassificationDataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ClassifierVariant = field(default_factory=lambda: parse_classifier_config({}))
    """kind, size (small, medium, large) and the settings of that kind of model"""
    train: ClassificationTrainConfig = field(default_factory=ClassificationTrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.multi_label and not self.data.label_delimiter:
            raise UserError("data.label_delimiter is empty: expected what separates labels")
        model: ClassifierVariant | LanguageModelVariant = self.model
        key = "model.max_positions"
        if isinstance(model, LanguageModelClassifierConfig):
            model, key = model.body, "model.body.max_positions"
        if isinstance(model, BertConfig) or (
            isinstance(model, TransformerClassifierConfig | TransformerLanguageModelConfig)
            and model.positions == "learned"
        ):
            _check_positions(self.data.max_length, model.max_positions, key)
        if isinstance(self.model, TfidfConfig) and self.tokenizer.kind != "characters":
            raise UserError(
                f"tokenizer.kind = {self.tokenizer.kind!r}: model.kind = 'tf-idf' reads "
                "characters: tokenizer.kind = 'characters'"
            )


def _check_positions(max_length: int, max_positions: int, key: str) -> None:
    """Raise UserError if texts may have more tokens than a model has positions."""
    if max_length > max_positions:
        raise UserError(
            f"data.max_length = {max_length}: the model has only {key} = {max_positions}"
        )


def parse_classifier_config(model: ClassifierVariant | Mapping[str, Any]) -> ClassifierVariant:
    """Return the settings that a `[model]` section states: kind, size and keys of that kind.

    >>> parse_classifier_config({"kind": "transformer", "size": "small", "heads": 4}).heads
    4
    """
    return build_variant(CLASSIFIER_KINDS, model, "model")
