"""What a recipe for a captioner may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.base import (
    AttentionKind,
    BoundedConfig,
    DecoderConfig,
    RecurrentDecoderConfig,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
    TransformerDecoderConfig,
    build_model_config,
)
from workings.recipes.language_modeling import ScheduledSamplingConfig

ENCODERS = ("residual", "vgg")


@dataclass(frozen=True, kw_only=True)
class CaptionDataConfig(BoundedConfig):
    """What pictures to learn from, and what is said of them."""

    set: str = "scenes"
    """a named set; or a file of captions: JSONL, CSV, Flickr's or COCO's"""
    images: str = ""
    """the folder or ZIP archive of the pictures; empty: where the captions are"""
    image_size: int = 64
    """height and width that every picture is brought to"""
    validation: float = 0.05
    """share of the pictures held out for choosing, where the set does not"""
    augment: bool = False
    """shift and mirror pictures while training; left and right change places in what is said"""


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(DecoderConfig):
    """What every captioner has."""

    encoder: str = "residual"
    """what looks: residual or vgg, of our own; or torchvision/… or timm/… and a model's name"""
    channels: tuple[int, ...] = (32, 64, 128)
    """features after each stage of our own eyes, of which each halves the picture"""
    blocks: int = 1
    """residual blocks, or a vgg's convolutions, in each stage"""
    pretrained: bool = False
    """begin with the weights that torchvision or timm has for its eye"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrained and self.encoder in ENCODERS:
            raise UserError(f"pretrained: there are no weights for {self.encoder}: another eye")


@dataclass(frozen=True, kw_only=True)
class RecurrentCaptionerConfig(CaptionerConfig, RecurrentDecoderConfig):
    """RNN, GRU or LSTM (the notes' B6)."""

    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    """rnn, gru or lstm"""
    attention: AttentionKind = "additive"
    """what the decoder sees of the picture: none but one vector to begin with; that vector, fixed,
    at every step; or what attention finds in a grid, by this similarity"""


@dataclass(frozen=True, kw_only=True)
class TransformerCaptionerConfig(CaptionerConfig, TransformerDecoderConfig):
    """A Transformer decoder with cross-attention over the grid."""

    layers: int = 2
    """blocks of the decoder"""


@dataclass(frozen=True, kw_only=True)
class CaptionTokenizerConfig(TokenizerConfig):
    """How captions become tokens."""

    vocab_size: int = 10_000
    """at most so many tokens, the specials among them"""


@dataclass(frozen=True, kw_only=True)
class CaptionSearchConfig(SearchConfig):
    """How captions are found when they are scored."""

    beams: int = 3
    """sequences followed at once; 1: the likeliest token each time"""
    max_length: int = 40
    """tokens of a caption"""


@dataclass(frozen=True, kw_only=True)
class CaptionTrainConfig(TrainConfig):
    """How to train, in batches of pictures."""

    batch_size: int = 64
    """pictures in a step, with all that is said of each"""
    metric: Literal["loss", "bleu", "exact"] = "loss"
    """by which of these, on the validation pictures, the best epoch is chosen: BLEU-4, or the
    share of captions that are a reference word for word; searched for greedily"""


@dataclass(frozen=True, kw_only=True)
class CaptionRecipe(BoundedConfig):
    """A recipe for a captioner."""

    task: Literal["caption"] = "caption"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: CaptionDataConfig = field(default_factory=CaptionDataConfig)
    tokenizer: CaptionTokenizerConfig = field(default_factory=CaptionTokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "recurrent"})
    """kind, size (small, medium) and the settings of that kind of model"""
    scheduled_sampling: ScheduledSamplingConfig = field(default_factory=ScheduledSamplingConfig)
    search: CaptionSearchConfig = field(default_factory=CaptionSearchConfig)
    train: CaptionTrainConfig = field(default_factory=CaptionTrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, config = parse_captioner_config(self.model)
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        if kind != "recurrent" and self.scheduled_sampling.rate:
            raise UserError(f"scheduled_sampling is for recurrent models, not a {kind}")
        if self.train.batch_size < 2 and getattr(config, "attention", "") in ("none", "fixed"):
            raise UserError(
                "train.batch_size = 1: one vector is told from others': 2 pictures or more"
            )
        smallest = 2 ** len(config.channels)
        if config.encoder in ENCODERS and self.data.image_size < smallest:
            raise UserError(
                f"data.image_size = {self.data.image_size}: {len(config.channels)} stages need "
                f"{smallest} at least"
            )


CAPTIONER_KINDS: dict[str, type] = {
    "recurrent": RecurrentCaptionerConfig,
    "transformer": TransformerCaptionerConfig,
}

_ENCODER_SIZES: dict[str, dict[str, Any]] = {
    "small": {"channels": [32, 64, 128], "blocks": 1},
    "medium": {"channels": [32, 64, 128, 256], "blocks": 2},
}
CAPTIONER_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {**_ENCODER_SIZES["small"], "d_model": 128, "hidden_size": 256},
        "medium": {**_ENCODER_SIZES["medium"], "d_model": 256, "hidden_size": 512},
    },
    "transformer": {
        "small": {**_ENCODER_SIZES["small"], "d_model": 128, "layers": 2, "heads": 4},
        "medium": {**_ENCODER_SIZES["medium"], "d_model": 256, "layers": 4, "heads": 8},
    },
}


def parse_captioner_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read a `[model]` section: its kind, and the settings of that kind.

    >>> parse_captioner_config({"kind": "recurrent", "hidden_size": 64})[1].hidden_size
    64
    """
    return build_model_config(table, "recurrent", CAPTIONER_KINDS, CAPTIONER_SIZES)
