"""Whether a captioner looks at the shape that it names, which is known of scenes drawn here."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from workings.data.captions import Picture
from workings.data.scene_drawing import where
from workings.data.scenes import PARTS, Scene, scenes
from workings.models.captioners import Captioner, Pictures
from workings.models.writers import START
from workings.tasks.alignment import cross_weights

Grid = Float[np.ndarray, "rows columns"]


def scenes_of(pictures: Sequence[Picture], seed: int) -> list[Scene]:
    """The scenes that pictures were drawn from; none, if they are not the first of a part."""
    part = pictures[0].name.partition("/")[0]
    if part not in PARTS:
        return []
    found = list(islice(scenes(part, seed), len(pictures)))
    pairs = zip(found, pictures, strict=True)
    return found if all((s.caption,) == p.captions for s, p in pairs) else []


def on_shapes(
    model: Captioner, about: Pictures, written: Sequence[Sequence[int]], of: Sequence[Scene]
) -> Iterator[bool]:
    """Of each shape that was named rightly: whether its region was the one looked at.

    `written`: a token a word, of captions that are the scenes' own. The region that is looked at
    when a shape's noun is written is all places with at least half of the largest weight; it is
    the shape's if the shape lies in it, in part or as a whole.
    """
    longest = max(map(len, written))
    target = torch.tensor(
        [[START, *ids, *[0] * (longest - len(ids))] for ids in written], device=about.of.device
    )
    layers = cross_weights(model, about, target)
    if not layers:
        return
    weights: Tensor = torch.stack(layers).mean((0, 2)).float().cpu()  # [texts, tokens, places]
    size = about.pixels.shape[1]
    for scene, seen in zip(of, weights, strict=True):
        for noun, mask in zip(scene.nouns, where(scene, size), strict=True):
            side = round(seen.shape[-1] ** 0.5)  # pictures are square, and so are their grids
            yield _covers(seen[noun].view(side, side).numpy(), mask)


def _covers(weights: Grid, mask: NDArray[np.bool_]) -> bool:
    """Say whether a shape lies where the weights are at least half of the largest."""
    rows, columns = np.nonzero(mask)
    scale = len(weights) / len(mask)
    seen = weights[(rows * scale).astype(int), (columns * scale).astype(int)]
    return bool((seen >= weights.max() / 2).any())
