"""Where in a picture a captioner looked for each word that it wrote."""

from collections.abc import Collection, Iterator
from itertools import islice
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from workings.data.scene_drawing import where
from workings.data.scenes import scenes
from workings.errors import UserError
from workings.lens.attention_maps import check_number
from workings.lens.pieces import joined_rows, words_of, written_pieces
from workings.models.writers import START
from workings.tasks.alignment import cross_weights
from workings.tasks.caption import Caption, Captioning, pictured
from workings.views.captioned import Captioned

Photo = UInt8[np.ndarray, "size size 3"]


def glances(
    task: Captioning,
    picture: Photo,
    caption: Caption,
    name: str,
    *,
    layers: Collection[int] = (),
    heads: Collection[int] = (),
) -> Captioned:
    """A picture, its caption, and what was looked at for each word: by all heads, or by some.

    Where the model does not look while it writes, there are just the picture and the caption.
    """
    parts = written_pieces(task.tokenizer, caption.tokens)
    seen = _seen(task, picture, caption, layers, heads)
    weights = None
    if seen is not None:
        places = joined_rows(seen, parts)
        side = isqrt(places.shape[-1])  # pictures are square, and so are their grids
        weights = places.numpy().reshape(-1, side, side)
    return Captioned(picture, words_of(parts), weights, caption.log_probability, name)


def _seen(
    task: Captioning,
    picture: Photo,
    caption: Caption,
    layers: Collection[int],
    heads: Collection[int],
) -> Float[Tensor, "tokens places"] | None:
    """The mean of the chosen heads' weights for each token of a caption."""
    about = pictured([picture], task.model)
    target = torch.tensor([[START, *caption.tokens]], device=about.of.device)
    found = [w[0].float().cpu() for w in cross_weights(task.model, about, target)]
    if not found:
        if layers or heads:
            raise UserError("this captioner looks at nothing while it writes (model.context)")
        return None
    check_number("layer", layers, len(found))
    check_number("head", heads, len(found[0]))
    chosen = [
        weights
        for layer, step in enumerate(found, start=1)
        for head, weights in enumerate(step, start=1)
        if (not layers or layer in layers) and (not heads or head in heads)
    ]
    return torch.stack(chosen).mean(0)[: len(caption.tokens)]


def looked_at_shapes(task: Captioning, count: int) -> Iterator[tuple[str, bool]]:
    """For test scenes that are described rightly, each shape's noun, and if its place was seen.

    That is: the place of the grid with the largest weight, when the noun was written, lies on the
    shape, at least in part.
    """
    some = list(islice(scenes("test", task.recipe.seed), count))
    pixels = task.test_set().pixels["test"][:count]
    for scene, picture, found in zip(some, pixels, task.caption(pixels), strict=True):
        if found[0].text != scene.caption:
            continue
        told = glances(task, picture, found[0], scene.caption)
        for noun, mask in zip(scene.nouns, where(scene, len(picture)), strict=True):
            look = told.looks()[noun]
            row, column = look.cell
            size = len(picture) // len(look.grid)
            cell = mask[row * size : (row + 1) * size, column * size : (column + 1) * size]
            yield told.words[noun], bool(cell.any())
