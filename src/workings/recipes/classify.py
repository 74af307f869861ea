"""What a recipe for a classifier may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.common import (
    Bounded,
    CellKind,
    Padding,
    Pooling,
    TokenizerConfig,
    TrainConfig,
    sized,
)


@dataclass(frozen=True, kw_only=True)
class DataConfig(Bounded):
    """What to learn from."""

    set: str = "emoji-languages"
    """a named set, a file (CSV, TSV, JSONL) or a folder"""
    text: str = "text"
    """the column that holds the text"""
    label: str = "label"
    """the column that holds the label"""
    validation: float = 0.1
    """share of the training examples held out for choosing"""
    longest: int = 512
    """tokens read of a text; the rest is cut off"""
    watch_test: bool = False
    """measure the test part after each epoch, too, for the curves; nothing is chosen by it"""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(Bounded):
    """What every classifier has."""

    embedding: int = 128
    """width of a token's vector"""
    dropout: float = 0.0
    """share of features dropped while training"""
    padding: Padding = "excluded"
    """excluded: it never counts; counts: it is read like any token, as in the notes; front: the
    same, but it stands before the text"""


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ClassifierConfig):
    """RNN, GRU or LSTM (the notes' A1 and A2)."""

    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    hidden: int = 64
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
    hidden: tuple[int, ...] = (1024, 128)
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
    hidden: int = 128
    """width of the layer before the classes"""
    pooling: Literal["max", "flatten"] = "max"
    """max: global max pooling; flatten: everything side by side, which needs a fixed length"""
    length: int = 500
    """where pooling is flatten: every text is cut or padded to so many tokens"""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ClassifierConfig):
    """A Transformer encoder (A6)."""

    layers: int = 2
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    hidden: int = 256
    """width of the feed-forward layers"""
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """how a token knows its place"""
    length: int = 512
    """for learned positions: how many there are"""
    pooling: Literal["mean", "max", "stop"] = "mean"
    """what the class is read off: all tokens, or the last one"""


@dataclass(frozen=True, kw_only=True)
class NgramConfig(Bounded):
    """A bag of n-grams with naive-Bayes weights."""

    longest: int = 3
    """n-grams of up to so many tokens"""
    min_count: int = 2
    """n-grams in fewer training texts are left out"""
    dropout: float = 0.0
    """share of the n-grams dropped while training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest > 60:
            raise UserError(f"longest = {self.longest}: n-grams of at most 60 tokens")


@dataclass(frozen=True, kw_only=True)
class ClassifyRecipe(Bounded):
    """A recipe for text classification."""

    task: Literal["classify"] = "classify"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "recurrent"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, model = model_config(self.model)  # a mistake there is told before any data is read
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        learned = getattr(model, "positions", "none") == "learned"
        if learned and self.data.longest > model.length:
            raise UserError(
                f"data.longest = {self.data.longest}: model.length has {model.length} positions"
            )


MODELS: dict[str, type] = {
    "recurrent": RecurrentConfig,
    "perceptron": PerceptronConfig,
    "convolution": ConvolutionConfig,
    "transformer": TransformerConfig,
    "ngrams": NgramConfig,
}


# One dial for each: a size sets a sensible whole, and what a recipe says besides goes before it.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {"embedding": 64, "hidden": 64},
        "medium": {"embedding": 128, "hidden": 128, "bidirectional": True},
        "large": {"embedding": 256, "hidden": 256, "bidirectional": True, "layers": 2},
    },
    "perceptron": {
        "small": {"embedding": 32, "hidden": [64]},
        "medium": {"embedding": 64, "hidden": [256, 64]},
        "large": {"embedding": 128, "hidden": [1024, 128]},
    },
    "convolution": {
        "small": {"embedding": 64, "channels": [64], "hidden": 64},
        "medium": {"embedding": 128, "channels": [128, 128], "hidden": 128},
        "large": {"embedding": 256, "channels": [256, 256, 256], "hidden": 256},
    },
    "transformer": {
        "small": {"embedding": 64, "layers": 1, "heads": 2, "hidden": 128},
        "medium": {"embedding": 128, "layers": 2, "heads": 4, "hidden": 256},
        "large": {"embedding": 256, "layers": 4, "heads": 8, "hidden": 1024},
    },
    "ngrams": {"small": {"longest": 1}, "medium": {"longest": 2}, "large": {"longest": 3}},
}


def model_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read the `[model]` section: which kind, of what size, and its settings.

    >>> model_config({"kind": "transformer", "size": "small", "heads": 4})[1].heads
    4
    """
    return sized(table, "recurrent", MODELS, SIZES)
