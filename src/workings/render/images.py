"""Small PNGs without any package: an image, or one colour, so far opaque at each pixel."""

import os
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode_png_alpha(opacities: Sequence[Sequence[float]], color: str) -> bytes:
    r"""Write a pixel for each share, from 0 (transparent) to 1 (the colour, `#rrggbb`).

    >>> encode_png_alpha([[0.0, 1.0]], "#bf5100")[:4]
    b'\x89PNG'
    """
    rows = (b"\0" + bytes(round(255 * share) for share in row) for row in opacities)
    palette = {b"PLTE": bytes.fromhex(color[1:]) * 256, b"tRNS": bytes(range(256))}
    return _encode_png(len(opacities[0]), len(opacities), 3, palette, b"".join(rows))


def encode_png_rgb(pixels: "NDArray[np.uint8]") -> bytes:
    r"""Write an image: [height, width, 3], red, green and blue.

    >>> import numpy
    >>> encode_png_rgb(numpy.zeros((2, 3, 3), numpy.uint8))[:4]
    b'\x89PNG'
    """
    height, width, _ = pixels.shape
    steps = pixels.copy()
    steps[:, 1:] -= pixels[:, :-1]  # what differs from the pixel before is small, and packs well
    rows = (b"\1" + row.tobytes() for row in steps)
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


MIN_SMOOTH_SIDE = 64  # pixels of a grid's longer side, at least, when it is made smooth


def resize(values: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Bring an image or a grid [height, width, …] to a size: a pixel is the mean of what it covers.

    >>> resize(np.array([[[0] * 3, [100] * 3]], np.uint8), 1, 1)
    array([[[50., 50., 50.]]])
    """
    down, across = _area_weights(values.shape[0], height), _area_weights(values.shape[1], width)
    sized: NDArray[np.float64] = np.einsum(
        "hi,ij...,wj->hw...", down, values, across, optimize=True
    )
    return sized


def shrink_to_fit(image: NDArray[np.uint8], max_side: int) -> NDArray[np.uint8]:
    """Make an image smaller if a side has more than so many pixels."""
    if max(image.shape[:2]) <= max_side:
        return image
    return np.rint(resize(image, *fitted_size(image, max_side))).astype(np.uint8)


def fitted_size(image: NDArray[np.uint8], side: int) -> tuple[int, int]:
    """Height and width of an image whose longer side has so many pixels.

    >>> fitted_size(np.zeros((30, 60, 3), np.uint8), 20)
    (10, 20)
    """
    height, width = image.shape[:2]
    times = side / max(height, width)
    return max(1, round(height * times)), max(1, round(width * times))


def smooth_upsample(grid: NDArray[np.floating]) -> NDArray[np.float64]:
    """Enlarge a grid so that its values flow into each other, none higher than there was one.

    An odd number of pixels to a cell: the one in the middle has the cell's own value, and so
    the largest stays the largest and where it was.

    >>> smooth_upsample(np.array([[0.0, 1.0]])).shape
    (33, 66)
    """
    cells = np.asarray(grid, np.float64)
    times = -(-MIN_SMOOTH_SIDE // max(cells.shape)) | 1
    down, across = (_smoothstep_weights(n, times) for n in cells.shape)
    sized: NDArray[np.float64] = down @ cells @ across.T
    return sized


def _area_weights(size_in: int, size_out: int) -> NDArray[np.float64]:
    """The share that each of `before` pixels has in each of `after` ones: [after, before]."""
    edges = np.arange(size_out + 1) * size_in / size_out
    starts = np.arange(size_in)
    upper = np.minimum(edges[1:, None], starts + 1)
    lower = np.maximum(edges[:-1, None], starts)
    shares: NDArray[np.float64] = np.clip(upper - lower, 0, None) * size_out / size_in
    return shares


def _smoothstep_weights(cells: int, factor: int) -> NDArray[np.float64]:
    """The share of each cell in each pixel, from one cell's middle to the next: [pixels, cells]."""
    places = (np.arange(cells * factor) + 0.5) / factor - 0.5  # in cells, from the first's middle
    away = np.clip(np.abs(np.clip(places, 0, cells - 1)[:, None] - np.arange(cells)), 0, 1)
    shares: NDArray[np.float64] = 1 - away**2 * (3 - 2 * away)  # flat at middles: no creases
    return shares


_SHADES = " ░▒▓█"
_COLOR_CUBE = np.array(
    [0, 95, 135, 175, 215, 255]
)  # the levels of red, green and blue among 256 colours
_GRAYS = np.arange(8, 239, 10)


def shade_blocks(fractions: Sequence[float], cell_width: int = 2) -> str:
    """Write shares from 0 to 1 as shades; two characters each make about a square.

    >>> shade_blocks([0, 0.5, 1])
    '  ▒▒██'
    """
    return "".join(cell_width * _SHADES[round((len(_SHADES) - 1) * share)] for share in fractions)


def half_blocks(rows: Sequence[Sequence[str]]) -> list[str]:
    """Draw two rows on one line: the upper half of a character, and the ground below it.

    A colour is what its code ends in: `2;red;green;blue`, or `5;number`.
    """
    lines = []
    for k in range(0, len(rows), 2):
        below = (
            [f"48;{code}" for code in rows[k + 1]] if k + 1 < len(rows) else ["49"] * len(rows[k])
        )
        cells = (f"\x1b[38;{upper};{lower}m▀" for upper, lower in zip(rows[k], below, strict=True))
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def ansi_colors(pixels: NDArray[np.uint8], *, true_color: bool) -> list[list[str]]:
    """The codes of an image's colours [height, width, 3], of all there are or the nearest of 256.

    >>> ansi_colors(np.array([[[255, 0, 4], [10, 8, 9]]], np.uint8), true_color=False)
    [['5;196', '5;232']]
    """
    if true_color:
        return [[f"2;{r};{g};{b}" for r, g, b in row] for row in pixels.tolist()]
    wanted = pixels.astype(np.int64)
    sides = np.abs(wanted[..., None] - _COLOR_CUBE).argmin(-1)
    grey = np.abs(wanted.mean(-1)[..., None] - _GRAYS).argmin(-1)
    far = ((wanted - _COLOR_CUBE[sides]) ** 2).sum(-1)
    grey_far = ((wanted - _GRAYS[grey][..., None]) ** 2).sum(-1)
    numbers = np.where(grey_far < far, 232 + grey, 16 + sides @ [36, 6, 1])
    return [[f"5;{number}" for number in row] for row in numbers.tolist()]


def has_true_color() -> bool:
    """Say whether the terminal tells that it has more than 256 colours."""
    return os.environ.get("COLORTERM") in ("truecolor", "24bit")
