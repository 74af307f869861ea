"""Images as arrays: encode them as PNG or as colors of a terminal, resize and smooth them.

No imaging package is needed.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_SMOOTH_SIDE = 64  # pixels of the longer side of a smoothed grid, at least
_COLOR_CUBE = np.array([0, 95, 135, 175, 215, 255])  # levels per channel in the 256-color palette
_GRAYS = np.arange(8, 239, 10)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode_png_alpha(opacities: Sequence[Sequence[float]], color: str) -> bytes:
    r"""Encode one pixel per opacity, from 0 (transparent) to 1 (the color, `#rrggbb`).

    >>> encode_png_alpha([[0.0, 1.0]], "#bf5100")[:4]
    b'\x89PNG'
    """
    rows = (b"\0" + bytes(round(255 * opacity) for opacity in row) for row in opacities)
    palette = {b"PLTE": bytes.fromhex(color[1:]) * 256, b"tRNS": bytes(range(256))}
    return _encode_png(len(opacities[0]), len(opacities), 3, palette, b"".join(rows))


def encode_png_rgb(pixels: NDArray[np.uint8]) -> bytes:
    r"""Encode an RGB image [height, width, 3].

    >>> encode_png_rgb(np.zeros((2, 3, 3), np.uint8))[:4]
    b'\x89PNG'
    """
    height, width, _ = pixels.shape
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]  # PNG filter 1 (Sub): neighboring pixels compress well
    rows = (b"\1" + row.tobytes() for row in differences)
    return _encode_png(width, height, 2, {}, b"".join(rows))


def _encode_png(
    width: int, height: int, color_type: int, palette: dict[bytes, bytes], rows: bytes
) -> bytes:
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0),
        **palette,
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    return _PNG_SIGNATURE + b"".join(_png_chunk(name, data) for name, data in parts.items())


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def ansi_colors(pixels: NDArray[np.uint8], *, true_color: bool) -> list[list[str]]:
    """Return the color codes of an image [height, width, 3]: exact, or the nearest of 256 colors.

    >>> ansi_colors(np.array([[[255, 0, 4], [10, 8, 9]]], np.uint8), true_color=False)
    [['5;196', '5;232']]
    """
    if true_color:
        return [[f"2;{r};{g};{b}" for r, g, b in row] for row in pixels.tolist()]
    rgb = pixels.astype(np.int64)
    levels = np.abs(rgb[..., None] - _COLOR_CUBE).argmin(-1)
    gray = np.abs(rgb.mean(-1)[..., None] - _GRAYS).argmin(-1)
    cube_distance = ((rgb - _COLOR_CUBE[levels]) ** 2).sum(-1)
    gray_distance = ((rgb - _GRAYS[gray][..., None]) ** 2).sum(-1)
    codes = np.where(gray_distance < cube_distance, 232 + gray, 16 + levels @ [36, 6, 1])
    return [[f"5;{code}" for code in row] for row in codes.tolist()]


def resize(values: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Resize an image or a grid [height, width, …] by averaging over the area of each new pixel.

    >>> resize(np.array([[[0] * 3, [100] * 3]], np.uint8), 1, 1)
    array([[[50., 50., 50.]]])
    """
    rows, columns = _area_weights(values.shape[0], height), _area_weights(values.shape[1], width)
    resized: NDArray[np.float64] = np.einsum(
        "hi,ij...,wj->hw...", rows, values, columns, optimize=True
    )
    return resized


def shrink_to_fit(image: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    """Shrink an image whose longer side has more than `max_side` pixels; return others as is."""
    if max(image.shape[:2]) <= max_side:
        return image
    return np.rint(resize(image, *fitted_size(image, max_side))).astype(np.uint8)


def fitted_size(image: NDArray[np.uint8], side: int) -> tuple[int, int]:
    """Return height and width of an image scaled so that its longer side has `side` pixels.

    >>> fitted_size(np.zeros((30, 60, 3), np.uint8), 20)
    (10, 20)
    """
    height, width = image.shape[:2]
    scale = side / max(height, width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def smooth_upsample(grid: NDArray[np.floating]) -> NDArray[np.float64]:
    """Upsample a grid with smooth transitions; the maximum keeps its value and its place.

    A cell has an odd number of pixels per side: the one in the middle has the value of the cell.

    >>> smooth_upsample(np.array([[0.0, 1.0]])).shape
    (33, 66)
    """
    cells = np.asarray(grid, np.float64)
    factor = -(-MIN_SMOOTH_SIDE // max(cells.shape)) | 1
    rows, columns = (_smoothstep_weights(n, factor) for n in cells.shape)
    smooth: NDArray[np.float64] = rows @ cells @ columns.T
    return smooth


def max_pool(
    values: Sequence[Sequence[float]], max_rows: int, max_columns: int
) -> list[list[float]]:
    """Pool a matrix to at most this many rows and columns; each cell is the maximum of its block.

    >>> max_pool([[0.1, 0.5, 0.2], [0.0, 0.3, 0.9]], 1, 2)
    [[0.5, 0.9]]
    """
    height, width = -(-len(values) // max_rows), -(-len(values[0]) // max_columns)
    return [
        [
            max(value for row in values[i : i + height] for value in row[j : j + width])
            for j in range(0, len(values[0]), width)
        ]
        for i in range(0, len(values), height)
    ]


def _area_weights(size_in: int, size_out: int) -> NDArray[np.float64]:
    """Return the weight of each old pixel in each new one: [size_out, size_in]."""
    edges = np.arange(size_out + 1) * size_in / size_out
    starts = np.arange(size_in)
    upper = np.minimum(edges[1:, None], starts + 1)
    lower = np.maximum(edges[:-1, None], starts)
    weights: NDArray[np.float64] = np.clip(upper - lower, 0, None) * size_out / size_in
    return weights


def _smoothstep_weights(cells: int, factor: int) -> NDArray[np.float64]:
    """Return the weight of each cell in each pixel, by smoothstep: [cells * factor, cells]."""
    positions = (np.arange(cells * factor) + 0.5) / factor - 0.5  # in cells; 0: center of the first
    distance = np.abs(np.clip(positions, 0, cells - 1)[:, None] - np.arange(cells))
    distance = np.clip(distance, 0, 1)
    weights: NDArray[np.float64] = 1 - distance**2 * (3 - 2 * distance)
    return weights
