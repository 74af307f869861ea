"""What a recipe for a language model may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.base import (
    BoundedConfig,
    CellKind,
    TokenizerConfig,
    TrainConfig,
    build_model_config,
)


@dataclass(frozen=True, kw_only=True)
class LanguageDataConfig(BoundedConfig):
    """What text to learn from, and in what pieces."""

    set: str = "python-source"
    """a named text, or a file of plain text, gzip'd or not"""
    validation: float = 0.1
    """share of the text, at its end, that is held out for measuring"""
    context_length: int = 64
    """tokens in a training sequence"""
    eval_every: int = 200
    """steps between measurements: what is called an epoch"""
    stateful: bool = False
    """recurrent models only: windows follow each other, and the state is carried over"""
    sample: int = 120
    """tokens written after each epoch, to see what it has learned; 0: none"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.validation < 1:
            raise UserError(f"validation = {self.validation}: above 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class LanguageTokenizerConfig(TokenizerConfig):
    """How text becomes tokens: letter by letter, where a recipe does not say."""

    kind: Literal["words", "characters", "byte-pair"] = "characters"
    """characters, byte-pair or words (basic English)"""
    vocab_size: int = 1000
    """at most so many tokens, the specials among them"""


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(BoundedConfig):
    """What every language model has."""

    d_model: int = 128
    """width of a token's vector"""
    dropout: float = 0.0
    """share of features dropped while training"""
    tie_embeddings: bool = False
    """the head is the embedding, turned over"""


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageModelConfig(LanguageModelConfig):
    """RNN, GRU or LSTM."""

    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    hidden_size: int = 256
    """width of the state"""
    layers: int = 1
    """layers on top of each other"""
    chrono_init: int | None = None
    """lstm: steps that cells remember to begin with, from one to so many; none: about two"""


@dataclass(frozen=True, kw_only=True)
class TransformerLanguageModelConfig(LanguageModelConfig):
    """A decoder-only Transformer."""

    layers: int = 4
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    kv_heads: int | None = None
    """key and value heads, each for several query heads; none: as many as heads"""
    d_ff: int | None = None
    """width of the feed-forward layers; none: four times the embedding"""
    positions: Literal["learned", "sinusoidal", "rotary"] = "rotary"
    """how a token knows its place"""
    max_positions: int = 256
    """for learned positions: how many there are"""
    norm: Literal["pre", "post"] = "pre"
    """where the norms stand"""
    activation: Literal["gelu", "gelu-tanh", "relu"] = "gelu"
    """of the feed-forward layers; gelu-tanh: nearly gelu, as in GPT-2"""
    tie_embeddings: bool = True
    """the head is the embedding, turned over"""


@dataclass(frozen=True, kw_only=True)
class ScheduledSamplingConfig(BoundedConfig):
    """Student forcing: feeding a recurrent model its own predictions while it trains."""

    rate: float = 0.0
    """share of the inputs that are the model's own, at its highest"""
    from_epoch: int = 0
    """epochs of teacher forcing before it begins"""
    ramp_epochs: int = 1
    """epochs over which the share rises"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate <= 1:
            raise UserError(f"rate = {self.rate}: from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(BoundedConfig):
    """A recipe for a language model."""

    task: Literal["language"] = "language"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: LanguageDataConfig = field(default_factory=LanguageDataConfig)
    tokenizer: LanguageTokenizerConfig = field(default_factory=LanguageTokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    scheduled_sampling: ScheduledSamplingConfig = field(default_factory=ScheduledSamplingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, model = parse_language_model_config(self.model)
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        if kind != "recurrent" and (self.data.stateful or self.scheduled_sampling.rate):
            raise UserError(
                f"data.stateful and scheduled_sampling are for recurrent models, not a {kind}"
            )
        if self.data.stateful and self.scheduled_sampling.rate:
            raise UserError(
                "data.stateful and scheduled_sampling.rate: a student begins every window anew"
            )
        learned = getattr(model, "positions", "none") == "learned"
        if learned and self.data.context_length > model.max_positions:
            raise UserError(
                f"data.context_length = {self.data.context_length}: model.max_positions has {model.max_positions} positions"
            )


LANGUAGE_KINDS: dict[str, type] = {
    "recurrent": RecurrentLanguageModelConfig,
    "transformer": TransformerLanguageModelConfig,
}

LANGUAGE_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {"d_model": 64, "hidden_size": 128},
        "medium": {"d_model": 128, "hidden_size": 512},
        "large": {"d_model": 256, "hidden_size": 1024, "layers": 2},
    },
    "transformer": {
        "small": {"d_model": 128, "layers": 4, "heads": 4},
        "medium": {"d_model": 384, "layers": 6, "heads": 6},
        "large": {"d_model": 768, "layers": 12, "heads": 12},
    },
}


def parse_language_model_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read a language model's `[model]` section."""
    return build_model_config(table, "transformer", LANGUAGE_KINDS, LANGUAGE_SIZES)
