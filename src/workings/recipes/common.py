"""What every recipe may say, whatever its task: tokenizer and training."""

from collections.abc import Iterable
from dataclasses import dataclass
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
    "window": (1, 10**6),
    "steps": (1, 10**9),
    "sample": (0, 10**5),
    "shared_heads": (1, 2**12),
    "from_epoch": (0, 10**9),
    "over": (1, 10**9),
    "beams": (1, 1000),
    "memory": (1, 10**6),
    "pixels": (1, 1024),
    "blocks": (1, 1000),
}
_SHARES = (
    "dropout",
    "attention_dropout",
    "hidden_dropout",
    "floor",
    "warmup",
    "smoothing",
    "ema",
    "momentum",
    "validation",
    "held_out",
)


class Bounded:
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
            elif name in _SHARES and value is not None and not 0 <= value < 1:
                raise UserError(f"{name} = {value}: from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Bounded):
    """How text becomes tokens."""

    kind: Literal["words", "characters", "byte-pair"] = "words"
    """words (basic English), characters or byte-pair"""
    size: int = 20_000
    """at most so many tokens, the specials among them"""
    min_count: int = 1
    """rarer tokens are unknown"""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Bounded):
    """How to train."""

    epochs: int = 5
    """passes over the training data"""
    batch: int = 64
    """examples in a step"""
    accumulate: int = 1
    """batches whose gradients are added up before a step"""
    optimizer: Literal["adamw", "muon", "adam", "sgd"] = "adamw"
    """how a step is made from gradients; muon: orthogonal steps for matrices, adamw for the rest"""
    rate: float = 1e-3
    """the learning rate at its highest"""
    decay: float = 0.01
    """weight decay, on matrices only"""
    momentum: float = 0.9
    """of sgd"""
    betas: tuple[float, ...] = (0.9, 0.999)
    """of adam, adamw and muon (whose momentum is the first)"""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] = "constant"
    """how the rate goes on after the warm-up"""
    floor: float = 0.0
    """where linear and cosine end: this share of the rate"""
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


def chosen(key: str, value: object, choices: Iterable[str]) -> str:
    """Read a name that must be one of several."""
    if not isinstance(value, str) or value not in choices:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{key} = {shown(value)}: {near(word, choices)}")
    return value


def sized(
    table: dict[str, Any],
    usual: str,
    kinds: dict[str, type],
    sizes: dict[str, dict[str, dict[str, Any]]],
) -> tuple[str, Any]:
    """Read a `[model]` section whose kind has a class of settings, and perhaps sizes."""
    kind = chosen("model.kind", table.get("kind", usual), kinds)
    size, dial = table.get("size"), sizes.get(kind, {})
    if size is not None and not dial:
        raise UserError(f"model.size: {kind} has no sizes to choose from")
    if size is not None:
        chosen("model.size", size, dial)
    settings = {key: value for key, value in table.items() if key not in ("kind", "size")}
    return kind, build(kinds[kind], {**dial.get(size or "", {}), **settings}, "model.")
