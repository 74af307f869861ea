"""What every recipe may say, whatever its task: tokenizer and training."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from workings.config import build
from workings.errors import UserError, did_you_mean, safe_repr

CellKind: TypeAlias = Literal["rnn", "gru", "lstm"]
Padding: TypeAlias = Literal["masked", "unmasked", "left"]
Pooling: TypeAlias = Literal["last", "max", "mean"]


# What a setting may be, whichever section it is in: enough for any model, and an end to slips.
_INT_RANGES = {
    "seed": (0, 2**53),
    "max_length": (1, 10**7),
    "max_n": (1, 10**7),
    "vocab_size": (1, 10**8),
    "min_count": (1, 10**9),
    "d_model": (1, 2**16),
    "hidden_size": (1, 2**16),
    "hidden_sizes": (1, 2**16),
    "d_ff": (1, 2**16),
    "channels": (1, 2**16),
    "layers": (1, 1000),
    "heads": (1, 2**12),
    "kv_heads": (1, 2**12),
    "length": (1, 10**6),
    "max_positions": (1, 10**6),
    "kernel": (1, 10**4),
    "stride": (1, 10**4),
    "epochs": (1, 10**9),
    "batch_size": (1, 10**7),
    "accumulate": (1, 10**6),
    "average_last": (1, 1000),
    "keep_checkpoints": (1, 10**6),
    "save_every": (1, 10**9),
    "patience": (1, 10**9),
    "context_length": (1, 10**6),
    "eval_every": (1, 10**9),
    "sample": (0, 10**5),
    "from_epoch": (0, 10**9),
    "ramp_epochs": (1, 10**9),
    "beams": (1, 1000),
    "chrono_init": (1, 10**6),
    "image_size": (1, 1024),
    "blocks": (1, 1000),
}
_FRACTION_KEYS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "min_lr_ratio",
    "warmup",
    "label_smoothing",
    "ema_decay",
    "momentum",
    "validation",
)


class BoundedConfig:
    """Settings that are refused where no model could be made with them."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            values = value if isinstance(value, tuple) else (value,)
            if name in _INT_RANGES:
                least, most = _INT_RANGES[name]
                if not values:
                    raise UserError(f"{name} = []: at least one is needed")
                for number in values:
                    if number is not None and not least <= number <= most:
                        raise UserError(
                            f"{name} = {safe_repr(number)}: a whole number from {least} to {most:,}"
                        )
            elif name in _FRACTION_KEYS and value is not None and not 0 <= value < 1:
                raise UserError(f"{name} = {value}: from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(BoundedConfig):
    """How text becomes tokens."""

    kind: Literal["words", "characters", "byte-pair"] = "words"
    """words (basic English), characters or byte-pair"""
    vocab_size: int = 20_000
    """at most so many tokens, the specials among them"""
    min_count: int = 1
    """rarer tokens are unknown"""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(BoundedConfig):
    """How to train."""

    epochs: int = 5
    """passes over the training data"""
    batch_size: int = 64
    """examples in a step"""
    accumulate: int = 1
    """batches whose gradients are added up before a step"""
    optimizer: Literal["adamw", "muon", "adam", "sgd"] = "adamw"
    """how a step is made from gradients; muon: orthogonal steps for matrices, adamw for the rest"""
    learning_rate: float = 1e-3
    """the learning rate at its highest"""
    weight_decay: float = 0.01
    """weight decay, on matrices only"""
    momentum: float = 0.9
    """of sgd"""
    betas: tuple[float, ...] = (0.9, 0.999)
    """of adam, adamw and muon (whose momentum is the first)"""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] = "constant"
    """how the rate goes on after the warm-up"""
    min_lr_ratio: float = 0.0
    """where linear and cosine end: this share of the rate"""
    warmup: float = 0.0
    """share of all steps during which the rate rises"""
    clip_norm: float | None = 1.0
    """longest gradient; none: as long as it likes"""
    label_smoothing: float = 0.0
    """label smoothing: the share of certainty given to the other classes"""
    average: Literal["none", "ema", "last"] = "none"
    """evaluate and keep averaged weights: an exponential mean, or the mean of the last epochs"""
    ema_decay: float = 0.999
    """how much of the exponential mean is kept at each step"""
    average_last: int = 3
    """over how many epochs the last ones are averaged"""
    patience: int | None = None
    """stop after so many epochs without a better validation; none: never"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """of the arithmetic, where the device has it"""
    device: str = "auto"
    """cpu, cuda, mps; auto: the best there is"""
    compile: bool = False
    """compile the model first (torch.compile)"""
    keep_checkpoints: int = 2
    """checkpoints to keep beside the best"""
    save_every: int | None = None
    """steps between checkpoints; none: one at the end of each epoch"""
    parallelism: Literal["ddp", "fsdp"] = "ddp"
    """with torchrun: every process holds all weights (DDP), or a part of them (FSDP2)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate <= 0:
            raise UserError(f"learning_rate = {self.learning_rate}: it must be positive")
        if self.weight_decay < 0:
            raise UserError(f"weight_decay = {self.weight_decay}: it must not be negative")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise UserError(f"clip_norm = {self.clip_norm}: it must be positive, or none")
        if len(self.betas) != 2 or not all(0 <= b < 1 for b in self.betas):
            raise UserError(f"betas = {safe_repr(list(self.betas))}: two numbers from 0 to below 1")


def check_choice(key: str, value: object, choices: Iterable[str]) -> str:
    """Read a name that must be one of several."""
    if not isinstance(value, str) or value not in choices:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{key} = {safe_repr(value)}: {did_you_mean(word, choices)}")
    return value


def build_model_config(
    table: dict[str, Any],
    default_kind: str,
    kinds: dict[str, type],
    sizes: dict[str, dict[str, dict[str, Any]]],
) -> tuple[str, Any]:
    """Read a `[model]` section whose kind has a class of settings, and perhaps sizes."""
    kind = check_choice("model.kind", table.get("kind", default_kind), kinds)
    size, dial = table.get("size"), sizes.get(kind, {})
    if size is not None and not dial:
        raise UserError(f"model.size: {kind} has no sizes to choose from")
    if size is not None:
        check_choice("model.size", size, dial)
    settings = {key: value for key, value in table.items() if key not in ("kind", "size")}
    return kind, build(kinds[kind], {**dial.get(size or "", {}), **settings}, "model.")


MAX_LENGTH_PENALTY = 10
"""Length penalty, of which anything above 2 or so only looks at the length."""
AttentionKind = Literal["none", "fixed", "additive", "dot", "general"]


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(BoundedConfig):
    """What everything has that writes."""

    d_model: int = 128
    """width of a token's vector"""
    dropout: float = 0.1
    """share of features dropped while training"""
    tie_embeddings: bool = True
    """what scores the tokens to be written is their embedding, turned over"""
    output_bias: bool = False
    """tied, it has a bias for each token all the same, as Marian's; untied, it always has"""


@dataclass(frozen=True, kw_only=True)
class RecurrentDecoderConfig(DecoderConfig):
    """An RNN, GRU or LSTM that writes."""

    cell: CellKind = "gru"
    """rnn, gru or lstm"""
    hidden_size: int = 256
    """width of the state"""
    layers: int = 1
    """layers on top of each other"""
    attention: AttentionKind = "additive"
    """what the decoder sees while it writes: none of it; one fixed vector at every step; or what
    attention finds, by this similarity"""


@dataclass(frozen=True, kw_only=True)
class TransformerDecoderConfig(DecoderConfig):
    """A Transformer decoder."""

    layers: int = 4
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    d_ff: int | None = None
    """width of the feed-forward layers; none: four times the embedding"""
    norm: Literal["pre", "post"] = "pre"
    """where the norms stand"""
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "relu"
    """of the feed-forward layers"""
    attention_dropout: float = 0.0
    """share of attention weights dropped while training: slow on a CPU"""
    activation_dropout: float | None = None
    """share of the feed-forward layers' hidden features dropped while training; none: as dropout"""


@dataclass(frozen=True, kw_only=True)
class SearchConfig(BoundedConfig):
    """How texts are found when they are scored."""

    beams: int = 5
    """sequences followed at once; 1: the likeliest token each time"""
    length_penalty: float = 1.0
    """how much longer texts are favoured; 0: not at all"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -MAX_LENGTH_PENALTY <= self.length_penalty <= MAX_LENGTH_PENALTY:
            told = f"a number from -{MAX_LENGTH_PENALTY} to {MAX_LENGTH_PENALTY}"
            raise UserError(f"length_penalty = {self.length_penalty}: {told}")
