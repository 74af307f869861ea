"""Captioners: an image in, logits of the next token of its caption out.

They use the same decoders as translators, with the cells of a feature grid as the source.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from workings.layers.positions import sinusoids
from workings.layers.transformer import NormPlacement
from workings.models.seq2seq import (
    START,
    ConditionalDecoder,
    RecurrentDecoder,
    RNNDecoderState,
    TransformerDecoder,
)
from workings.models.vision import VisionEncoder, build_vision_encoder
from workings.modules import build_model
from workings.recipes import (
    Activation,
    AttentionKind,
    CaptionerVariant,
    CellKind,
    parse_captioner_config,
)
from workings.registry import MODELS
from workings.trace import tap


class ImageBatch(NamedTuple):
    """A batch of images, and the image of each caption: an image is encoded once."""

    pixels: UInt8[Tensor, "images height width 3"]
    image_index: Int[Tensor, " captions"]

    def start_tokens(self) -> Int[Tensor, " captions"]:
        """Return a start token for each caption."""
        return torch.full_like(self.image_index, START)


class GridEncoder(nn.Module):
    """A vision encoder whose feature grid is projected and given positions. Tap: grid."""

    def __init__(self, width: int, encoder: VisionEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection = nn.Linear(encoder.channels, width)
        self.position_mixer = nn.Linear(width, width)

    def forward(self, source: ImageBatch) -> Float[Tensor, "captions cells width"]:
        """Return the grid cells of each caption's image, row by row."""
        grid = self.encoder(source.pixels)
        rows, columns = grid.shape[2:]
        cells = self.projection(grid.flatten(2).transpose(1, 2))
        positions = grid_position_encoding(rows, columns, cells.shape[-1]).to(cells)
        cells = cells + self.position_mixer(torch.relu(cells + positions))
        return tap("grid", cells)[source.image_index]


def grid_position_encoding(rows: int, columns: int, width: int) -> Float[Tensor, "cells width"]:
    """Return encodings of grid cells, row by row: half of the width per axis.

    >>> grid_position_encoding(2, 3, 4).shape
    torch.Size([6, 4])
    """
    row_encoding, column_encoding = (
        sinusoids(rows, width - width // 2),
        sinusoids(columns, width // 2),
    )
    both = (
        row_encoding.unsqueeze(1).expand(rows, columns, -1),
        column_encoding.unsqueeze(0).expand(rows, columns, -1),
    )
    return torch.cat(both, -1).flatten(0, 1)


class FeatureBatchNorm(nn.BatchNorm1d):
    """Batch norm of image vectors; a batch of one image uses the running statistics.

    It removes what all images have in common. Without it, that part would saturate the tanh that
    follows within a hundred steps, and the vision encoder would get no gradient.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, momentum=0.05)

    def forward(
        self, x: Float[Tensor, "captions width"], num_images: int = 2
    ) -> Float[Tensor, "captions width"]:
        """Normalize each feature by the batch, or by the running mean and variance."""
        uses_batch = self.training and num_images > 1
        assert self.momentum is not None
        return nn.functional.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            uses_batch,
            self.momentum,
            self.eps,
        )


class Captioner(ConditionalDecoder[ImageBatch]):
    """Base class of captioners: a decoder with a grid encoder."""

    grid: GridEncoder


class RecurrentCaptioner(RecurrentDecoder[ImageBatch], Captioner):
    """A recurrent decoder whose initial state is computed from the mean of the image's grid.

    With `attention="none"`, as in Show and Tell, it sees no more of the image than that.

    >>> model = RecurrentCaptioner(vocab_size=100, d_model=16, hidden_size=32)
    >>> images = ImageBatch(torch.zeros(2, 32, 32, 3, dtype=torch.uint8), torch.tensor([0, 1]))
    >>> model(images, torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 100])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        encoder: VisionEncoder | None = None,
        d_model: int = 128,
        cell: CellKind = "lstm",
        hidden_size: int = 256,
        layers: int = 1,
        attention: AttentionKind = "additive",
        dropout: float = 0.1,
        tie_embeddings: bool = True,
        output_bias: bool = False,
    ) -> None:
        super().__init__(
            vocab_size,
            d_model=d_model,
            cell=cell,
            hidden_size=hidden_size,
            layers=layers,
            attention=attention,
            dropout=dropout,
            tie_embeddings=tie_embeddings,
            output_bias=output_bias,
        )
        self.grid = GridEncoder(hidden_size, encoder or build_vision_encoder())
        # With attention, the vision encoder gets its gradient through the attention.
        self.feature_norm = FeatureBatchNorm(hidden_size) if self.attention is None else None
        self.state_projection = nn.Linear(hidden_size, hidden_size * layers)

    def init_state(self, source: ImageBatch) -> RNNDecoderState:
        cells = self.dropout(self.grid(source))
        context = cells.mean(1)
        if self.feature_norm is not None:
            context = self.feature_norm(context, source.pixels.shape[0])
        return self.build_state(self.state_projection(context), cells, None, context)


class TransformerCaptioner(TransformerDecoder[ImageBatch], Captioner):
    """A Transformer decoder with cross-attention to the cells of the image's grid.

    >>> model = TransformerCaptioner(vocab_size=100, d_model=16, layers=1, heads=2)
    >>> images = ImageBatch(torch.zeros(2, 32, 32, 3, dtype=torch.uint8), torch.tensor([0, 1]))
    >>> model(images, torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 100])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        encoder: VisionEncoder | None = None,
        d_model: int = 128,
        layers: int = 2,
        heads: int = 4,
        d_ff: int | None = None,
        norm: NormPlacement = "pre",
        activation: Activation = "relu",
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float | None = None,
        tie_embeddings: bool = True,
        output_bias: bool = False,
    ) -> None:
        super().__init__(
            vocab_size,
            d_model=d_model,
            layers=layers,
            heads=heads,
            d_ff=d_ff,
            norm=norm,
            activation=activation,
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation_dropout=activation_dropout,
            tie_embeddings=tie_embeddings,
            output_bias=output_bias,
        )
        self.grid = GridEncoder(d_model, encoder or build_vision_encoder())

    def encode(self, source: ImageBatch) -> tuple[Tensor, None]:
        return self.dropout(self.grid(source)), None


CAPTIONERS: dict[str, Callable[..., Captioner]] = MODELS.setdefault("caption", {})
CAPTIONERS.update(recurrent=RecurrentCaptioner, transformer=TransformerCaptioner)


def build_captioner(
    model: CaptionerVariant | Mapping[str, Any],
    vocab_size: int,
    *,
    pixels: int = 64,
    pretrained: bool = False,
) -> Captioner:
    """Build the model that a recipe's `[model]` section describes, with new weights.

    - `pixels`: height and width of the images.
    - `pretrained`: load the pretrained weights of the vision encoder if the recipe asks for them.
    """
    config = parse_captioner_config(model)
    settings = config.settings()
    encoder = build_model(
        build_vision_encoder,
        name=settings.pop("encoder"),
        channels=settings.pop("channels"),
        blocks=settings.pop("blocks"),
        image_size=pixels,
        pretrained=settings.pop("pretrained") and pretrained,
    )
    return build_model(CAPTIONERS[config.kind], vocab_size=vocab_size, encoder=encoder, **settings)
