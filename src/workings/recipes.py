"""What a recipe may say: every section and key, with its help. Knows no torch."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from workings.config import build
from workings.errors import UserError, near, shown

CellKind: TypeAlias = Literal["rnn", "gru", "lstm"]
Padding: TypeAlias = Literal["excluded", "counts", "front"]
Pooling: TypeAlias = Literal["last", "max", "mean"]


# What a setting may be, whichever section it is in: enough for any model, and an end to slips.
_WHOLE = {
    "seed": (0, 2**53),
    "longest": (1, 10**7),
    "size": (1, 10**8),
    "min_count": (1, 10**9),
    "embedding": (1, 2**16),
    "hidden": (1, 2**16),
    "channels": (1, 2**16),
    "layers": (1, 1000),
    "heads": (1, 2**12),
    "length": (1, 10**6),
    "kernel": (1, 10**4),
    "stride": (1, 10**4),
    "epochs": (1, 10**9),
    "batch": (1, 10**7),
    "accumulate": (1, 10**6),
    "last": (1, 1000),
    "keep": (1, 10**6),
    "save_every": (1, 10**9),
    "patience": (1, 10**9),
}
_SHARES = ("dropout", "warmup", "smoothing", "ema", "momentum", "validation")


class _Bounded:
    """Settings that are refused where no model could be made with them."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            values = value if isinstance(value, tuple) else (value,)
            if name in _WHOLE:
                least, most = _WHOLE[name]
                if not values:
                    raise UserError(f"{name} = []: at least one is needed")
                for number in values:
                    if number is not None and not least <= number <= most:
                        raise UserError(
                            f"{name} = {shown(number)}: a whole number from {least} to {most:,}"
                        )
            elif name in _SHARES and not 0 <= value < 1:
                raise UserError(f"{name} = {value}: from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class DataConfig(_Bounded):
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
class TokenizerConfig(_Bounded):
    """How text becomes tokens."""

    kind: Literal["words", "characters", "byte-pair"] = "words"
    """words (basic English), characters or byte-pair"""
    size: int = 20_000
    """at most so many tokens, the specials among them"""
    min_count: int = 1
    """rarer tokens are unknown"""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(_Bounded):
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
    """All vectors side by side, then a multilayer perceptron (A3)."""

    length: int = 500
    """every text is cut or padded to so many tokens"""
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
class NgramConfig(_Bounded):
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
class TrainConfig(_Bounded):
    """How to train."""

    epochs: int = 5
    """passes over the training data"""
    batch: int = 64
    """examples in a step"""
    accumulate: int = 1
    """batches whose gradients are added up before a step"""
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    """how a step is made from gradients"""
    rate: float = 1e-3
    """the learning rate at its highest"""
    decay: float = 0.01
    """weight decay, on matrices only"""
    momentum: float = 0.9
    """of sgd"""
    betas: tuple[float, ...] = (0.9, 0.999)
    """of adam and adamw"""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] = "constant"
    """how the rate goes on after the warm-up"""
    warmup: float = 0.0
    """share of all steps during which the rate rises"""
    clip: float | None = 1.0
    """longest gradient; none: as long as it likes"""
    smoothing: float = 0.0
    """label smoothing: the share of certainty given to the other classes"""
    average: Literal["none", "ema", "last"] = "none"
    """evaluate and keep averaged weights: an exponential mean, or the mean of the last epochs"""
    ema: float = 0.999
    """how much of the exponential mean is kept at each step"""
    last: int = 3
    """over how many epochs the last ones are averaged"""
    patience: int | None = None
    """stop after so many epochs without a better validation; none: never"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """of the arithmetic, where the device has it"""
    device: str = "auto"
    """cpu, cuda, mps; auto: the best there is"""
    compile: bool = False
    """compile the model first (torch.compile)"""
    keep: int = 2
    """checkpoints to keep beside the best"""
    save_every: int | None = None
    """steps between checkpoints; none: one at the end of each epoch"""
    crew: Literal["replicated", "sharded"] = "replicated"
    """with torchrun: every process holds all weights (DDP), or a part of them (FSDP2)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate <= 0:
            raise UserError(f"rate = {self.rate}: it must be positive")
        if self.decay < 0:
            raise UserError(f"decay = {self.decay}: it must not be negative")
        if self.clip is not None and self.clip <= 0:
            raise UserError(f"clip = {self.clip}: it must be positive, or none")
        if len(self.betas) != 2 or not all(0 <= b < 1 for b in self.betas):
            raise UserError(f"betas = {shown(list(self.betas))}: two numbers from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class ClassifyRecipe(_Bounded):
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
        model_config(self.model)  # a mistake there is told before any data is read


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


def chosen(key: str, value: object, choices: Iterable[str]) -> str:
    """Read a name that must be one of several."""
    if not isinstance(value, str) or value not in choices:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{key} = {shown(value)}: {near(word, choices)}")
    return value


def model_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read the `[model]` section: which kind, of what size, and its settings.

    >>> model_config({"kind": "transformer", "size": "small", "heads": 4})[1].heads
    4
    """
    return _sized(table, "recurrent", MODELS, SIZES)


def _sized(
    table: dict[str, Any],
    usual: str,
    kinds: dict[str, type],
    sizes: dict[str, dict[str, dict[str, Any]]],
) -> tuple[str, Any]:
    kind = chosen("model.kind", table.get("kind", usual), kinds)
    size = table.get("size")
    if size is not None:
        chosen("model.size", size, sizes[kind])
    settings = {key: value for key, value in table.items() if key not in ("kind", "size")}
    return kind, build(kinds[kind], {**sizes[kind].get(size or "", {}), **settings}, "model.")


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """What text to learn from, and in what pieces."""

    set: str = "python-source"
    """a named text, or a file of plain text, gzip'd or not"""
    held_out: float = 0.1
    """share of the text, at its end, that is held out for measuring"""
    window: int = 64
    """tokens in a training sequence"""
    steps: int = 200
    """steps between measurements: what is called an epoch"""
    carry: bool = False
    """recurrent models only: windows follow each other, and the state is carried over"""
    sample: int = 120
    """tokens written after each epoch, to see what it has learned; 0: none"""

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("steps", 1), ("sample", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{name} = {getattr(self, name)}: at least {least}")
        if not 0 < self.held_out < 1:
            raise UserError(f"held_out = {self.held_out}: above 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    """What every language model has."""

    embedding: int = 128
    """width of a token's vector"""
    dropout: float = 0.0
    """share of features dropped while training"""
    tied: bool = False
    """the head is the embedding, turned over"""


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageConfig(LanguageConfig):
    """RNN, GRU or LSTM."""

    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    hidden: int = 256
    """width of the state"""
    layers: int = 1
    """layers on top of each other"""


@dataclass(frozen=True, kw_only=True)
class TransformerLanguageConfig(LanguageConfig):
    """A decoder-only Transformer."""

    layers: int = 4
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    shared_heads: int | None = None
    """key and value heads, each for several query heads; none: as many as heads"""
    hidden: int = 0
    """width of the feed-forward layers; 0: four times the embedding"""
    positions: Literal["learned", "sinusoidal", "rotary"] = "rotary"
    """how a token knows its place"""
    length: int = 256
    """for learned positions: how many there are"""
    norm: Literal["pre", "post"] = "pre"
    """where the norms stand"""
    activation: Literal["gelu", "gelu-tanh", "relu"] = "gelu"
    """of the feed-forward layers; gelu-tanh: nearly gelu, as in GPT-2"""
    tied: bool = True
    """the head is the embedding, turned over"""


@dataclass(frozen=True, kw_only=True)
class ForcingConfig:
    """Student forcing: feeding a recurrent model its own predictions while it trains."""

    student: float = 0.0
    """share of the inputs that are the model's own, at its highest"""
    from_epoch: int = 0
    """epochs of teacher forcing before it begins"""
    over: int = 1
    """epochs over which the share rises"""


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe:
    """A recipe for a language model."""

    task: Literal["language"] = "language"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: TextConfig = field(default_factory=TextConfig)
    tokenizer: TokenizerConfig = field(
        default_factory=lambda: TokenizerConfig(kind="characters", size=1000)
    )
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    forcing: ForcingConfig = field(default_factory=ForcingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        kind, _ = language_config(self.model)
        if kind != "recurrent" and (self.data.carry or self.forcing.student):
            raise UserError(f"data.carry and forcing are for recurrent models, not a {kind}")


LANGUAGE_KINDS: dict[str, type] = {
    "recurrent": RecurrentLanguageConfig,
    "transformer": TransformerLanguageConfig,
}

LANGUAGE_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {"embedding": 64, "hidden": 128},
        "medium": {"embedding": 128, "hidden": 512},
        "large": {"embedding": 256, "hidden": 1024, "layers": 2},
    },
    "transformer": {
        "small": {"embedding": 128, "layers": 4, "heads": 4},
        "medium": {"embedding": 384, "layers": 6, "heads": 6},
        "large": {"embedding": 768, "layers": 12, "heads": 12},
    },
}


def language_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read a language model's `[model]` section."""
    return _sized(table, "transformer", LANGUAGE_KINDS, LANGUAGE_SIZES)
