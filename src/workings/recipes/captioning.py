"""Recipes for image captioners."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from workings.config import Range, Sizes, build_variant, variants
from workings.errors import UserError
from workings.recipes.base import (
    AttentionKind,
    BaseRecipe,
    BatchSize,
    BoundedConfig,
    CellKind,
    DecoderConfig,
    Fraction,
    MaxLength,
    NumLayers,
    RecurrentDecoderConfig,
    ScheduledSamplingConfig,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
    TransformerDecoderConfig,
    VocabSize,
    Width,
)

ENCODERS = ("residual", "vgg")
_SMALL_ENCODER: dict[str, Any] = {"channels": [32, 64, 128], "blocks": 1}
_MEDIUM_ENCODER: dict[str, Any] = {"channels": [32, 64, 128, 256], "blocks": 2}


@dataclass(frozen=True, kw_only=True)
class CaptionDataConfig(BoundedConfig):
    """Images and their captions."""

    set: str = "scenes"
    """a named dataset; or a file of captions: JSONL, CSV, Flickr's or COCO's format"""
    images: str = ""
    """folder or ZIP archive of the images; empty: the folder of the captions"""
    image_size: Annotated[int, Range(1, 1024)] = 64
    """height and width that all images are resized to"""
    validation: Fraction = 0.05
    """fraction of the images held out for validation, where the dataset has no validation split"""
    augment: bool = False
    """shift and mirror images in training; mirroring swaps left and right in the captions"""


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(DecoderConfig):
    """What all captioners have."""

    encoder: str = "residual"
    """image encoder: residual or vgg, trained from scratch; or torchvision/NAME or timm/NAME"""
    channels: tuple[Width, ...] = (32, 64, 128)
    """channels of each stage of residual and vgg; each stage halves height and width"""
    blocks: NumLayers = 1
    """residual blocks, or convolutions of a vgg, per stage"""
    pretrained: bool = False
    """start from the pretrained weights of a torchvision or timm encoder"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrained and self.encoder in ENCODERS:
            raise UserError(
                f"pretrained: there are no weights for {self.encoder}: choose another encoder"
            )


@dataclass(frozen=True, kw_only=True)
class RecurrentCaptionerConfig(CaptionerConfig, RecurrentDecoderConfig):
    """A vision encoder, then an RNN, GRU or LSTM decoder."""

    sizes: ClassVar[Sizes] = {
        "small": {**_SMALL_ENCODER, "d_model": 128, "hidden_size": 256},
        "medium": {**_MEDIUM_ENCODER, "d_model": 256, "hidden_size": 512},
    }
    cell: CellKind = "lstm"
    """rnn, gru or lstm"""
    attention: AttentionKind = "additive"
    """how the decoder sees the image: none: by its initial state alone; fixed: one vector at every
    step; or by attention over a grid, with additive, dot or general scores"""


@dataclass(frozen=True, kw_only=True)
class TransformerCaptionerConfig(CaptionerConfig, TransformerDecoderConfig):
    """A Transformer decoder with cross-attention over a grid of image features."""

    sizes: ClassVar[Sizes] = {
        "small": {**_SMALL_ENCODER, "d_model": 128, "layers": 2, "heads": 4},
        "medium": {**_MEDIUM_ENCODER, "d_model": 256, "layers": 4, "heads": 8},
    }
    layers: NumLayers = 2
    """blocks of the decoder"""


# A recipe that does not state its kind of model has the first.
CaptionerVariant: TypeAlias = RecurrentCaptionerConfig | TransformerCaptionerConfig
CAPTIONER_KINDS: dict[str, type[CaptionerVariant]] = variants(CaptionerVariant)


@dataclass(frozen=True, kw_only=True)
class CaptionTokenizerConfig(TokenizerConfig):
    """How captions are split into tokens."""

    vocab_size: VocabSize = 10_000
    """largest number of tokens, special ones included"""


@dataclass(frozen=True, kw_only=True)
class CaptionSearchConfig(SearchConfig):
    """Beam search for captions."""

    beams: Annotated[int, Range(1, 1000)] = 3
    """beam size; 1: greedy decoding"""
    max_length: MaxLength = 40
    """longest caption, in tokens"""


@dataclass(frozen=True, kw_only=True)
class CaptionTrainConfig(TrainConfig):
    """Optimization, with batches counted in images."""

    batch_size: BatchSize = 64
    """images in a batch, each with all of its captions"""
    metric: str = "loss"
    """validation metric by which the best epoch is chosen: loss; bleu (BLEU-4) or exact (percentage
    of captions that equal a reference), by greedy decoding; or one of a plug-in"""


@dataclass(frozen=True, kw_only=True)
class CaptionRecipe(BaseRecipe):
    """A recipe for an image captioner."""

    task: Literal["caption"] = "caption"
    """the kind of recipe"""
    data: CaptionDataConfig = field(default_factory=CaptionDataConfig)
    tokenizer: CaptionTokenizerConfig = field(default_factory=CaptionTokenizerConfig)
    model: CaptionerVariant = field(default_factory=lambda: parse_captioner_config({}))
    """kind, size (small, medium) and the settings of that kind of model"""
    scheduled_sampling: ScheduledSamplingConfig = field(default_factory=ScheduledSamplingConfig)
    search: CaptionSearchConfig = field(default_factory=CaptionSearchConfig)
    train: CaptionTrainConfig = field(default_factory=CaptionTrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scheduled_sampling.check_model(self.model.kind)
        if (
            self.train.batch_size < 2
            and isinstance(self.model, RecurrentCaptionerConfig)
            and self.model.attention in ("none", "fixed")
        ):
            raise UserError(
                f"train.batch_size = 1: model.attention = {self.model.attention!r} normalizes the "
                "image vector over the batch, which needs 2 images or more"
            )
        smallest = 2 ** len(self.model.channels)
        if self.model.encoder in ENCODERS and self.data.image_size < smallest:
            raise UserError(
                f"data.image_size = {self.data.image_size}: {len(self.model.channels)} stages need "
                f"{smallest} at least"
            )


def parse_captioner_config(model: CaptionerVariant | Mapping[str, Any]) -> CaptionerVariant:
    """Return the settings that a `[model]` section states: kind, size and keys of that kind.

    >>> parse_captioner_config({"kind": "transformer", "heads": 2}).kind
    'transformer'
    """
    return build_variant(CAPTIONER_KINDS, model, "model")
