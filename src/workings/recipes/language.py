"""What a recipe for a language model may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.common import Bounded, CellKind, TokenizerConfig, TrainConfig, sized


@dataclass(frozen=True, kw_only=True)
class TextConfig(Bounded):
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
        super().__post_init__()
        if not 0 < self.held_out < 1:
            raise UserError(f"held_out = {self.held_out}: above 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class TextTokenizerConfig(TokenizerConfig):
    """How text becomes tokens: letter by letter, where a recipe does not say."""

    kind: Literal["words", "characters", "byte-pair"] = "characters"
    """characters, byte-pair or words (basic English)"""
    size: int = 1000
    """at most so many tokens, the specials among them"""


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(Bounded):
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
    memory: int | None = None
    """lstm: steps that cells remember to begin with, from one to so many; none: about two"""


@dataclass(frozen=True, kw_only=True)
class TransformerLanguageConfig(LanguageConfig):
    """A decoder-only Transformer."""

    layers: int = 4
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    shared_heads: int | None = None
    """key and value heads, each for several query heads; none: as many as heads"""
    hidden: int | None = None
    """width of the feed-forward layers; none: four times the embedding"""
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
class ForcingConfig(Bounded):
    """Student forcing: feeding a recurrent model its own predictions while it trains."""

    student: float = 0.0
    """share of the inputs that are the model's own, at its highest"""
    from_epoch: int = 0
    """epochs of teacher forcing before it begins"""
    over: int = 1
    """epochs over which the share rises"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.student <= 1:
            raise UserError(f"student = {self.student}: from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(Bounded):
    """A recipe for a language model."""

    task: Literal["language"] = "language"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: TextConfig = field(default_factory=TextConfig)
    tokenizer: TextTokenizerConfig = field(default_factory=TextTokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    forcing: ForcingConfig = field(default_factory=ForcingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, model = language_config(self.model)
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        if kind != "recurrent" and (self.data.carry or self.forcing.student):
            raise UserError(f"data.carry and forcing are for recurrent models, not a {kind}")
        if self.data.carry and self.forcing.student:
            raise UserError("data.carry and forcing.student: a student begins every window anew")
        learned = getattr(model, "positions", "none") == "learned"
        if learned and self.data.window > model.length:
            raise UserError(
                f"data.window = {self.data.window}: model.length has {model.length} positions"
            )


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
    return sized(table, "transformer", LANGUAGE_KINDS, LANGUAGE_SIZES)
