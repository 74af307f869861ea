"""What a recipe for a classifier may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.base import (
    BoundedConfig,
    CellKind,
    Padding,
    Pooling,
    TokenizerConfig,
    TrainConfig,
    build_model_config,
)


@dataclass(frozen=True, kw_only=True)
class ClassificationDataConfig(BoundedConfig):
    """What to learn from."""

    set: str = "emoji-languages"
    """a named set, a file (CSV, TSV, JSONL) or a folder"""
    text: str = "text"
    """the column that holds the text"""
    label: str = "label"
    """the column that holds the label"""
    validation: float = 0.1
    """share of the training examples held out for choosing"""
    max_length: int = 512
    """tokens read of a text; the rest is cut off"""
    watch_test: bool = False
    """measure the test part after each epoch, too, for the curves; nothing is chosen by it"""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(BoundedConfig):
    """What every classifier has."""

    d_model: int = 128
    """width of a token's vector"""
    dropout: float = 0.0
    """share of features dropped while training"""
    padding: Padding = "masked"
    """masked: padding never counts; unmasked: it is read like any token, as in the notes; left:
    unmasked, and before the text"""


@dataclass(frozen=True, kw_only=True)
class RecurrentClassifierConfig(ClassifierConfig):
    """RNN, GRU or LSTM (the notes' A1 and A2)."""

    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    hidden_size: int = 64
    """width of the state, each way"""
    layers: int = 1
    """layers on top of each other"""
    bidirectional: bool = False
    """read backwards as well"""
    pooling: Pooling = "max"
    """what the class is read off: the last state, or the largest or mean over all positions"""


@dataclass(frozen=True, kw_only=True)
class PerceptronConfig(ClassifierConfig):
    """All vectors side by side (A3) or their mean, then a multilayer perceptron."""

    pooling: Literal["flatten", "mean"] = "flatten"
    """flatten: every place has weights of its own; mean: of a text's vectors, wherever they are"""
    length: int = 500
    """flatten: every text is cut or padded to so many tokens"""
    hidden_sizes: tuple[int, ...] = (1024, 128)
    """widths of the hidden layers"""


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(ClassifierConfig):
    """Convolutions, then all positions side by side (A4) or the largest of each feature (A5)."""

    channels: tuple[int, ...] = (128, 128)
    """features of each convolution"""
    kernel: int = 7
    """positions a window sees"""
    stride: int = 3
    """positions between windows"""
    hidden_size: int = 128
    """width of the layer before the classes"""
    pooling: Literal["max", "flatten"] = "max"
    """max: global max pooling; flatten: everything side by side, which needs a fixed length"""
    length: int = 500
    """where pooling is flatten: every text is cut or padded to so many tokens"""


@dataclass(frozen=True, kw_only=True)
class TransformerClassifierConfig(ClassifierConfig):
    """A Transformer encoder (A6)."""

    layers: int = 2
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    d_ff: int = 256
    """width of the feed-forward layers"""
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """how a token knows its place"""
    max_positions: int = 512
    """for learned positions: how many there are"""
    pooling: Literal["mean", "max", "last"] = "mean"
    """what the class is read off: all tokens, or the last one"""


@dataclass(frozen=True, kw_only=True)
class NgramConfig(BoundedConfig):
    """A bag of n-grams with naive-Bayes weights."""

    max_n: int = 3
    """n-grams of up to so many tokens"""
    min_count: int = 2
    """n-grams in fewer training texts are left out"""
    dropout: float = 0.0
    """share of the n-grams dropped while training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_n > 60:
            raise UserError(f"max_n = {self.max_n}: n-grams of at most 60 tokens")


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(BoundedConfig):
    """A recipe for text classification."""

    task: Literal["classify"] = "classify"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: ClassificationDataConfig = field(default_factory=ClassificationDataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "recurrent"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, model = parse_classifier_config(
            self.model
        )  # a mistake there is told before any data is read
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        learned = getattr(model, "positions", "none") == "learned"
        if learned and self.data.max_length > model.max_positions:
            raise UserError(
                f"data.max_length = {self.data.max_length}: model.max_positions has {model.max_positions} positions"
            )


CLASSIFIER_KINDS: dict[str, type] = {
    "recurrent": RecurrentClassifierConfig,
    "perceptron": PerceptronConfig,
    "convolution": ConvolutionConfig,
    "transformer": TransformerClassifierConfig,
    "ngrams": NgramConfig,
}


# One dial for each: a size sets a sensible whole, and what a recipe says besides goes before it.
CLASSIFIER_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {"d_model": 64, "hidden_size": 64},
        "medium": {"d_model": 128, "hidden_size": 128, "bidirectional": True},
        "large": {"d_model": 256, "hidden_size": 256, "bidirectional": True, "layers": 2},
    },
    "perceptron": {
        "small": {"d_model": 32, "hidden_sizes": [64]},
        "medium": {"d_model": 64, "hidden_sizes": [256, 64]},
        "large": {"d_model": 128, "hidden_sizes": [1024, 128]},
    },
    "convolution": {
        "small": {"d_model": 64, "channels": [64], "hidden_size": 64},
        "medium": {"d_model": 128, "channels": [128, 128], "hidden_size": 128},
        "large": {"d_model": 256, "channels": [256, 256, 256], "hidden_size": 256},
    },
    "transformer": {
        "small": {"d_model": 64, "layers": 1, "heads": 2, "d_ff": 128},
        "medium": {"d_model": 128, "layers": 2, "heads": 4, "d_ff": 256},
        "large": {"d_model": 256, "layers": 4, "heads": 8, "d_ff": 1024},
    },
    "ngrams": {"small": {"max_n": 1}, "medium": {"max_n": 2}, "large": {"max_n": 3}},
}


def parse_classifier_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read the `[model]` section: which kind, of what size, and its settings.

    >>> parse_classifier_config({"kind": "transformer", "size": "small", "heads": 4})[1].heads
    4
    """
    return build_model_config(table, "recurrent", CLASSIFIER_KINDS, CLASSIFIER_SIZES)
