"""Recipes for language models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from workings.config import Range, Sizes, build_variant, variants
from workings.errors import UserError
from workings.recipes.base import (
    Activation,
    BaseRecipe,
    BoundedConfig,
    CellKind,
    Count,
    Fraction,
    Length,
    ModelConfig,
    NumHeads,
    NumLayers,
    ScheduledSamplingConfig,
    TokenizerConfig,
    TrainConfig,
    TransformerConfig,
    VocabSize,
    Width,
)


@dataclass(frozen=True, kw_only=True)
class LanguageDataConfig(BoundedConfig):
    """A text, and how it is cut into training sequences."""

    set: str = "python-source"
    """a named corpus; a plain text file, gzipped or not; a folder of .txt files; or a table"""
    text: str = ""
    """column of the texts, if the file is a table (CSV, TSV, JSONL, Parquet, Arrow); each is a line
    of the training text"""
    validation: Fraction = 0.1
    """fraction of the text, at its end, held out for validation"""
    context_length: Length = 64
    """tokens in a training sequence"""
    eval_every: Count = 200
    """training steps in an epoch, after which the model is evaluated"""
    stateful: bool = False
    """recurrent models only: sequences follow each other, and each starts from the hidden state
    at the end of the one before"""
    sample: Annotated[int, Range(0, 10**5)] = 120
    """tokens generated after each epoch as a sample; 0: none"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.validation < 1:
            raise UserError(
                f"validation = {self.validation}: expected a fraction above 0 and below 1"
            )


@dataclass(frozen=True, kw_only=True)
class LanguageTokenizerConfig(TokenizerConfig):
    """How text is split into tokens."""

    kind: str = "characters"
    """characters, byte-pair, words (basic English) or one of a plug-in; pretrained: that of an
    imported model"""
    vocab_size: VocabSize = 1000
    """largest number of tokens, special ones included"""


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(ModelConfig):
    """What all language models have."""

    d_model: Width = 128
    """width of the embeddings"""
    dropout: Fraction = 0.0
    """dropout rate"""
    tie_embeddings: bool = False
    """use the embedding as output projection"""


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageModelConfig(LanguageModelConfig):
    """RNN, GRU or LSTM."""

    kind: ClassVar[str] = "recurrent"
    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 64, "hidden_size": 128},
        "medium": {"d_model": 128, "hidden_size": 512},
        "large": {"d_model": 256, "hidden_size": 1024, "layers": 2},
    }
    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    hidden_size: Width = 256
    """width of the hidden state"""
    layers: NumLayers = 1
    """number of layers"""
    chrono_init: Length | None = None
    """lstm: longest memory, in steps, that the gate biases are initialized for (chrono
    initialization; Tallec and Ollivier, 2018); none: about two steps"""


@dataclass(frozen=True, kw_only=True)
class TransformerLanguageModelConfig(TransformerConfig, LanguageModelConfig):
    """A decoder-only Transformer."""

    sizes: ClassVar[Sizes] = {
        "small": {"d_model": 128, "layers": 4, "heads": 4},
        "medium": {"d_model": 384, "layers": 6, "heads": 6},
        "large": {"d_model": 768, "layers": 12, "heads": 12},
    }
    kv_heads: NumHeads | None = None
    """key and value heads, each shared by several query heads; none: as many as heads"""
    positions: Literal["learned", "sinusoidal", "rotary"] = "rotary"
    """positional encoding"""
    max_positions: Length = 256
    """longest sequence with learned positions"""
    rotary_base: float = 10_000.0
    """base of the angles of rotary positions: larger for longer texts"""
    rotary_fraction: float = 1.0
    """fraction of the features of each head that rotary positions rotate"""
    norm_kind: Literal["layer", "rms"] = "layer"
    """layer norm, or root mean square norm as in Llama: without mean and bias"""
    norm_eps: float = 1e-5
    """added to the variance in a norm"""
    parallel_residual: bool = False
    """attention and feed-forward of a block both read its input, as in GPT-NeoX"""
    activation: Activation = "gelu"
    """activation of the feed-forward layers; gelu-tanh: the approximation of gelu in GPT-2"""
    gated: bool = False
    """gated feed-forward layers: with silu, SwiGLU as in Llama"""
    bias: bool = True
    """biases in the linear layers of the blocks"""
    tie_embeddings: bool = True
    """use the embedding as output projection"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rotary_fraction <= 1:
            raise UserError(
                f"rotary_fraction = {self.rotary_fraction}: expected a number above 0, at most 1"
            )
        for name in ("rotary_base", "norm_eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} = {getattr(self, name)}: expected a positive number")
        if self.parallel_residual and self.norm != "pre":
            raise UserError('parallel_residual = true: expected norm = "pre"')


# A recipe that does not state its kind of model has the first.
LanguageModelVariant: TypeAlias = TransformerLanguageModelConfig | RecurrentLanguageModelConfig
LANGUAGE_KINDS: dict[str, type[LanguageModelVariant]] = variants(LanguageModelVariant)


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(BaseRecipe):
    """A recipe for a language model."""

    task: Literal["language"] = "language"
    """the kind of recipe"""
    data: LanguageDataConfig = field(default_factory=LanguageDataConfig)
    tokenizer: LanguageTokenizerConfig = field(default_factory=LanguageTokenizerConfig)
    model: LanguageModelVariant = field(default_factory=lambda: parse_language_model_config({}))
    """kind, size (small, medium, large) and the settings of that kind of model"""
    scheduled_sampling: ScheduledSamplingConfig = field(default_factory=ScheduledSamplingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scheduled_sampling.check_model(self.model.kind)
        if self.data.stateful and self.model.kind != "recurrent":
            raise UserError(f"data.stateful is for recurrent models, not a {self.model.kind}")
        if self.data.stateful and self.scheduled_sampling.rate:
            raise UserError(
                "data.stateful and scheduled_sampling.rate exclude each other: with scheduled "
                "sampling every sequence starts from a zero hidden state"
            )
        if (
            isinstance(self.model, TransformerLanguageModelConfig)
            and self.model.positions == "learned"
            and self.data.context_length > self.model.max_positions
        ):
            raise UserError(
                f"data.context_length = {self.data.context_length}: the model has only "
                f"model.max_positions = {self.model.max_positions}"
            )


def parse_language_model_config(
    model: LanguageModelVariant | Mapping[str, Any],
) -> LanguageModelVariant:
    """Return the settings that a `[model]` section states: kind, size and keys of that kind."""
    return build_variant(LANGUAGE_KINDS, model, "model")


DEFAULT_LANGUAGE_MODEL = parse_language_model_config({})
