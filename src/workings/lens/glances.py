"""Where in a picture a captioner looked for each word that it wrote."""

from collections.abc import Collection
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from workings.errors import UserError
from workings.lens.attention_maps import chosen_heads
from workings.lens.pieces import joined_rows, words_of, written_pieces
from workings.models.writers import START
from workings.tasks.alignment import cross_weights
from workings.tasks.caption import Captioning, pictured
from workings.tasks.writing import Written
from workings.views.captioned import Captioned

Photo = UInt8[np.ndarray, "size size 3"]


def glances(
    task: Captioning,
    picture: Photo,
    caption: Written,
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
    caption: Written,
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
    chosen = chosen_heads(found, layers, heads).values()
    return torch.stack(list(chosen)).mean(0)[: len(caption.tokens)]
