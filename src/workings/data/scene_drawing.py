"""Scenes as pictures, and where in them each shape is."""

import math

import numpy as np
from jaxtyping import Bool, Float, UInt8

from workings.data.scenes import Scene, Shape

FINE = 4
"""Points a pixel is looked at, across and down: edges are drawn in between colours."""
STAR = math.cos(0.4 * math.pi)
"""How far from a star's middle its lines are, if its points are at 1."""

Patch = tuple[slice, slice]


def draw(scene: Scene, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Draw a scene as a picture, so many pixels wide and high.

    >>> from workings.data.scenes import scenes
    >>> draw(next(scenes("train")), 64).shape
    (64, 64, 3)
    """
    start, end = (np.array(colour, dtype=np.float32) for colour in scene.background)
    middles = (np.arange(size, dtype=np.float32) + 0.5) / size
    slope = (middles[:, None] + middles) / 2
    canvas = start + slope[..., None] * (end - start)
    for shape in scene.shapes:
        patch, covered = _coverage(shape, size)
        canvas[patch] += covered[..., None] * (
            np.array(shape.rgb, dtype=np.float32) - canvas[patch]
        )
    return np.rint(canvas).astype(np.uint8)


def where(scene: Scene, size: int) -> list[Bool[np.ndarray, "size size"]]:
    """Tell of each shape, in the order in which they are named, which pixels it covers."""
    masks = []
    for shape in scene.shapes:
        mask = np.zeros((size, size), dtype=bool)
        patch, covered = _coverage(shape, size)
        mask[patch] = covered > 0.5
        masks.append(mask)
    return masks


def _coverage(shape: Shape, size: int) -> tuple[Patch, Float[np.ndarray, "rows columns"]]:
    """How much of each pixel a shape covers, in the part of the picture that it lies in."""
    half = shape.width / 2
    ends = [
        (math.floor((middle - half) * size), math.ceil((middle + half) * size))
        for middle in (shape.y, shape.x)
    ]
    v, u = (
        (np.arange(first * FINE, last * FINE, dtype=np.float32) + 0.5) / (size * FINE) - middle
        for (first, last), middle in zip(ends, (shape.y, shape.x), strict=True)
    )
    inside = _inside(shape.kind, u[None, :] / half, v[:, None] / half)
    rows, columns = (last - first for first, last in ends)
    covered = inside.reshape(rows, FINE, columns, FINE).mean(axis=(1, 3), dtype=np.float32)
    return (slice(*ends[0]), slice(*ends[1])), covered


def _inside(
    kind: str, u: Float[np.ndarray, "1 columns"], v: Float[np.ndarray, "rows 1"]
) -> Bool[np.ndarray, "rows columns"]:
    """Say which points are in a shape; it reaches from -1 to 1, and v grows downwards."""
    near, far = np.minimum(abs(u), abs(v)), np.maximum(abs(u), abs(v))
    inside: Bool[np.ndarray, "rows columns"]
    if kind == "circle":
        inside = u**2 + v**2 <= 1
    elif kind == "square":
        inside = far <= 0.9
    elif kind == "cross":
        inside = (near <= 0.3) & (far <= 1)
    elif kind == "triangle":
        inside = (abs(u) <= (v + 1) / 2) & (v <= 0.9)
    else:  # a star's middle lies within five lines, and each of its points beyond one of them
        turns = [math.pi * (0.5 + 0.4 * k) for k in range(5)]
        beyond = [u * math.cos(a) - v * math.sin(a) > STAR for a in turns]
        inside = np.sum(beyond, axis=0) <= 1
    return inside
