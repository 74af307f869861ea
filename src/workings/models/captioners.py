"""Captioners: a picture in, scores of the next token of what is said of it out.

They are translators' decoders, looking at the places of a grid instead of the words of a sentence.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from workings.errors import UserError, brief
from workings.layers.positions import sinusoids
from workings.models.eyes import Eye, build_eye
from workings.models.recurrent_writer import Decoding, RecurrentWriter
from workings.models.transformer_writer import TransformerWriter
from workings.models.writers import START, Writer
from workings.recipes import (
    RecurrentCaptionerConfig,
    TransformerCaptionerConfig,
    captioner_config,
)
from workings.trace import tap


class Pictures(NamedTuple):
    """A batch of pictures, and of which of them each text tells: a picture is looked at once."""

    pixels: UInt8[Tensor, "pictures high wide 3"]
    of: Int[Tensor, " texts"]

    def starts(self) -> Int[Tensor, " texts"]:
        """A start token for each text."""
        return torch.full_like(self.of, START)


class Grid(nn.Module):
    """What an eye sees as a list of places, each of which knows where it is."""

    def __init__(self, width: int, eye: Eye) -> None:
        super().__init__()
        self.eye = eye
        self.project = nn.Linear(eye.channels, width)
        self.mix = nn.Linear(width, width)

    def forward(self, about: Pictures) -> Float[Tensor, "texts places width"]:
        """Look at each picture; the places of its grid, row by row, for each text about it."""
        grid = self.eye(about.pixels)
        rows, columns = grid.shape[2:]
        places = self.project(grid.flatten(2).transpose(1, 2))
        where = placed(rows, columns, places.shape[-1]).to(places)
        seen = places + self.mix(torch.relu(places + where))
        return tap("grid", seen)[about.of]


def placed(rows: int, columns: int, width: int) -> Float[Tensor, "places width"]:
    """Encode the places of a grid, row by row: half of the width tells the row, half the column.

    >>> placed(2, 3, 4).shape
    torch.Size([6, 4])
    """
    down, across = sinusoids(rows, width - width // 2), sinusoids(columns, width // 2)
    both = (
        down.unsqueeze(1).expand(rows, columns, -1),
        across.unsqueeze(0).expand(rows, columns, -1),
    )
    return torch.cat(both, -1).flatten(0, 1)


class Distinct(nn.BatchNorm1d):
    """What tells a vector from others: batch norm; a picture alone is held against those before.

    What all pictures share says nothing of any; left in, it would drive the tanh behind it to its
    end within a hundred steps, and no gradient would ever come back to the eye.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, momentum=0.05)

    def forward(
        self, x: Float[Tensor, "texts width"], pictures: int = 2
    ) -> Float[Tensor, "texts width"]:
        """Take away the mean, of the batch or in the end of all, and divide by the spread."""
        of_batch = self.training and pictures > 1
        seen = self.running_mean, self.running_var
        assert self.momentum is not None
        return nn.functional.batch_norm(
            x, *seen, self.weight, self.bias, of_batch, self.momentum, self.eps
        )


class RecurrentCaptioner(RecurrentWriter[Pictures]):
    """A recurrent decoder that begins with one vector of the picture, and sees as much as it may.

    `none` is the notes' way: the vector is its first state, and all it knows.
    """

    def __init__(self, config: RecurrentCaptionerConfig, vocabulary: int, eye: Eye) -> None:
        super().__init__(config, vocabulary)
        self.grid = Grid(config.hidden, eye)
        # With attention the eye gets its gradient elsewhere.
        self.distinct = Distinct(config.hidden) if self.look is None else None
        self.first = nn.Linear(config.hidden, config.hidden * config.layers)

    def begin(self, about: Pictures) -> Decoding:
        places = self.dropout(self.grid(about))
        whole = places.mean(1)
        if self.distinct is not None:
            whole = self.distinct(whole, len(about.pixels))
        return self.opened(self.first(whole), places, None, whole)


class TransformerCaptioner(TransformerWriter[Pictures]):
    """A Transformer decoder with cross-attention over the grid."""

    def __init__(self, config: TransformerCaptionerConfig, vocabulary: int, eye: Eye) -> None:
        super().__init__(config, vocabulary)
        self.grid = Grid(config.embedding, eye)

    def read(self, about: Pictures) -> tuple[Tensor, None]:
        return self.dropout(self.grid(about)), None


Captioner = Writer[Pictures]


def build_captioner(
    table: dict[str, Any], vocabulary: int, *, pixels: int = 64, pretrained: bool = False
) -> Captioner:
    """Make the model that a recipe's `[model]` section describes, with fresh weights.

    `pixels`: how wide and high the pictures are that it is to see.
    `pretrained`: its eye has the weights of its package, if the recipe asks for them.
    """
    kinds: dict[str, Callable[[Any, int, Eye], Captioner]] = {
        "recurrent": RecurrentCaptioner,
        "transformer": TransformerCaptioner,
    }
    kind, config = captioner_config(table)
    try:
        eye = build_eye(config, pixels=pixels, pretrained=pretrained and config.pretrained)
        return kinds[kind](config, vocabulary, eye)
    except (RuntimeError, MemoryError) as error:
        told = brief(str(error) or "out of memory", 150)
        raise UserError(f"model: it cannot be made like this: {told}") from None
