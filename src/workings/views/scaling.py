"""Images and grids made larger or smaller: each side by a matrix, how much of what goes where."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FINE = 64  # pixels of a grid's longer side, at least, when it is made smooth


def resized(values: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Bring an image or a grid [height, width, …] to a size: a pixel is the mean of what it covers.

    >>> resized(np.array([[[0] * 3, [100] * 3]], np.uint8), 1, 1)
    array([[[50., 50., 50.]]])
    """
    down, across = _covering(values.shape[0], height), _covering(values.shape[1], width)
    sized: NDArray[np.float64] = np.einsum(
        "hi,ij...,wj->hw...", down, values, across, optimize=True
    )
    return sized


def reduced(image: NDArray[np.uint8], most: int) -> NDArray[np.uint8]:
    """Make an image smaller if a side has more than so many pixels."""
    if max(image.shape[:2]) <= most:
        return image
    return np.rint(resized(image, *fitting(image, most))).astype(np.uint8)


def fitting(image: NDArray[np.uint8], side: int) -> tuple[int, int]:
    """Height and width of an image whose longer side has so many pixels.

    >>> fitting(np.zeros((30, 60, 3), np.uint8), 20)
    (10, 20)
    """
    height, width = image.shape[:2]
    times = side / max(height, width)
    return max(1, round(height * times)), max(1, round(width * times))


def smoothed(grid: NDArray[np.floating]) -> NDArray[np.float64]:
    """Enlarge a grid so that its values flow into each other, none higher than there was one.

    An odd number of pixels to a cell: the one in the middle has the cell's own value, and so
    the largest stays the largest and where it was.

    >>> smoothed(np.array([[0.0, 1.0]])).shape
    (33, 66)
    """
    cells = np.asarray(grid, np.float64)
    times = -(-FINE // max(cells.shape)) | 1
    down, across = (_flowing(n, times) for n in cells.shape)
    sized: NDArray[np.float64] = down @ cells @ across.T
    return sized


def _covering(before: int, after: int) -> NDArray[np.float64]:
    """The share that each of `before` pixels has in each of `after` ones: [after, before]."""
    edges = np.arange(after + 1) * before / after
    starts = np.arange(before)
    upper = np.minimum(edges[1:, None], starts + 1)
    lower = np.maximum(edges[:-1, None], starts)
    shares: NDArray[np.float64] = np.clip(upper - lower, 0, None) * after / before
    return shares


def _flowing(cells: int, times: int) -> NDArray[np.float64]:
    """The share of each cell in each pixel, from one cell's middle to the next: [pixels, cells]."""
    places = (np.arange(cells * times) + 0.5) / times - 0.5  # in cells, from the first's middle
    away = np.clip(np.abs(np.clip(places, 0, cells - 1)[:, None] - np.arange(cells)), 0, 1)
    shares: NDArray[np.float64] = 1 - away**2 * (3 - 2 * away)  # flat at middles: no creases
    return shares
