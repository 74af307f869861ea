"""Captioners: a picture in, scores of the next token of what is said of it out.

They are translators' decoders, looking at the places of a grid instead of the words of a sentence.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from workings.errors import UserError, truncate
from workings.layers.positions import sinusoids
from workings.models.seq2seq import (
    START,
    ConditionalDecoder,
    RecurrentDecoder,
    RNNDecoderState,
    TransformerDecoder,
)
from workings.models.vision import VisionEncoder, build_vision_encoder
from workings.recipes import (
    RecurrentCaptionerConfig,
    TransformerCaptionerConfig,
    parse_captioner_config,
)
from workings.trace import tap


class ImageBatch(NamedTuple):
    """A batch of pictures, and of which of them each text tells: a picture is looked at once."""

    pixels: UInt8[Tensor, "pictures high wide 3"]
    image_index: Int[Tensor, " texts"]

    def start_tokens(self) -> Int[Tensor, " texts"]:
        """A start token for each text."""
        return torch.full_like(self.image_index, START)


class GridEncoder(nn.Module):
    """What an eye sees as a list of places, each of which knows where it is."""

    def __init__(self, width: int, encoder: VisionEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection = nn.Linear(encoder.channels, width)
        self.position_mixer = nn.Linear(width, width)

    def forward(self, source: ImageBatch) -> Float[Tensor, "texts places width"]:
        """Look at each picture; the places of its grid, row by row, for each text about it."""
        grid = self.encoder(source.pixels)
        rows, columns = grid.shape[2:]
        places = self.projection(grid.flatten(2).transpose(1, 2))
        where = grid_position_encoding(rows, columns, places.shape[-1]).to(places)
        seen = places + self.position_mixer(torch.relu(places + where))
        return tap("grid", seen)[source.image_index]


def grid_position_encoding(rows: int, columns: int, width: int) -> Float[Tensor, "places width"]:
    """Encode the places of a grid, row by row: half of the width tells the row, half the column.

    >>> grid_position_encoding(2, 3, 4).shape
    torch.Size([6, 4])
    """
    down, across = sinusoids(rows, width - width // 2), sinusoids(columns, width // 2)
    both = (
        down.unsqueeze(1).expand(rows, columns, -1),
        across.unsqueeze(0).expand(rows, columns, -1),
    )
    return torch.cat(both, -1).flatten(0, 1)


class FeatureBatchNorm(nn.BatchNorm1d):
    """What tells a vector from others: batch norm; a picture alone is held against those before.

    What all pictures share says nothing of any; left in, it would drive the tanh behind it to its
    end within a hundred steps, and no gradient would ever come back to the eye.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, momentum=0.05)

    def forward(
        self, x: Float[Tensor, "texts width"], num_images: int = 2
    ) -> Float[Tensor, "texts width"]:
        """Take away the mean, of the batch or in the end of all, and divide by the spread."""
        of_batch = self.training and num_images > 1
        seen = self.running_mean, self.running_var
        assert self.momentum is not None
        return nn.functional.batch_norm(
            x, *seen, self.weight, self.bias, of_batch, self.momentum, self.eps
        )


class RecurrentCaptioner(RecurrentDecoder[ImageBatch]):
    """A recurrent decoder that begins with one vector of the picture, and sees as much as it may.

    `none` is the notes' way: the vector is its first state, and all it knows.
    """

    def __init__(
        self, config: RecurrentCaptionerConfig, vocab_size: int, encoder: VisionEncoder
    ) -> None:
        super().__init__(config, vocab_size)
        self.grid = GridEncoder(config.hidden_size, encoder)
        # With attention the eye gets its gradient elsewhere.
        self.feature_norm = FeatureBatchNorm(config.hidden_size) if self.attention is None else None
        self.state_projection = nn.Linear(config.hidden_size, config.hidden_size * config.layers)

    def init_state(self, source: ImageBatch) -> RNNDecoderState:
        places = self.dropout(self.grid(source))
        whole = places.mean(1)
        if self.feature_norm is not None:
            whole = self.feature_norm(whole, len(source.pixels))
        return self.build_state(self.state_projection(whole), places, None, whole)


class TransformerCaptioner(TransformerDecoder[ImageBatch]):
    """A Transformer decoder with cross-attention over the grid."""

    def __init__(
        self, config: TransformerCaptionerConfig, vocab_size: int, encoder: VisionEncoder
    ) -> None:
        super().__init__(config, vocab_size)
        self.grid = GridEncoder(config.d_model, encoder)

    def encode(self, source: ImageBatch) -> tuple[Tensor, None]:
        return self.dropout(self.grid(source)), None


Captioner = ConditionalDecoder[ImageBatch]


def build_captioner(
    table: dict[str, Any], vocab_size: int, *, pixels: int = 64, pretrained: bool = False
) -> Captioner:
    """Make the model that a recipe's `[model]` section describes, with fresh weights.

    `pixels`: how wide and high the pictures are that it is to see.
    `pretrained`: its eye has the weights of its package, if the recipe asks for them.
    """
    kinds: dict[str, Callable[[Any, int, VisionEncoder], Captioner]] = {
        "recurrent": RecurrentCaptioner,
        "transformer": TransformerCaptioner,
    }
    kind, config = parse_captioner_config(table)
    try:
        eye = build_vision_encoder(
            config, pixels=pixels, pretrained=pretrained and config.pretrained
        )
        return kinds[kind](config, vocab_size, eye)
    except (RuntimeError, MemoryError) as error:
        told = truncate(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
