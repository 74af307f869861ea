"""What recipes for all that writes about something have in common: translators, captioners."""

from dataclasses import dataclass
from typing import Literal

from workings.errors import UserError
from workings.recipes.common import Bounded, CellKind

STRONGEST = 10
"""Length penalty, of which anything above 2 or so only looks at the length."""
Context = Literal["none", "fixed", "additive", "dot", "general"]


@dataclass(frozen=True, kw_only=True)
class WriterConfig(Bounded):
    """What everything has that writes."""

    embedding: int = 128
    """width of a token's vector"""
    dropout: float = 0.1
    """share of features dropped while training"""
    tied: bool = True
    """what scores the tokens to be written is their embedding, turned over"""
    bias: bool = False
    """tied, it has a bias for each token all the same, as Marian's; untied, it always has"""


@dataclass(frozen=True, kw_only=True)
class RecurrentWriterConfig(WriterConfig):
    """An RNN, GRU or LSTM that writes."""

    cell: CellKind = "gru"
    """rnn, gru or lstm"""
    hidden: int = 256
    """width of the state"""
    layers: int = 1
    """layers on top of each other"""
    context: Context = "additive"
    """what the decoder sees while it writes: none of it; one fixed vector at every step; or what
    attention finds, by this similarity"""


@dataclass(frozen=True, kw_only=True)
class TransformerWriterConfig(WriterConfig):
    """A Transformer decoder."""

    layers: int = 4
    """blocks on top of each other"""
    heads: int = 4
    """attention heads in each"""
    hidden: int | None = None
    """width of the feed-forward layers; none: four times the embedding"""
    norm: Literal["pre", "post"] = "pre"
    """where the norms stand"""
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "relu"
    """of the feed-forward layers"""
    attention_dropout: float = 0.0
    """share of attention weights dropped while training: slow on a CPU"""
    hidden_dropout: float | None = None
    """share of the feed-forward layers' hidden features dropped while training; none: as dropout"""


@dataclass(frozen=True, kw_only=True)
class SearchConfig(Bounded):
    """How texts are found when they are scored."""

    beams: int = 5
    """sequences followed at once; 1: the likeliest token each time"""
    length_penalty: float = 1.0
    """how much longer texts are favoured; 0: not at all"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -STRONGEST <= self.length_penalty <= STRONGEST:
            told = f"a number from -{STRONGEST} to {STRONGEST}"
            raise UserError(f"length_penalty = {self.length_penalty}: {told}")
