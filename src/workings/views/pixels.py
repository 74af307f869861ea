"""Small PNGs without any package: an image, or one colour, so far opaque at each pixel."""

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_levels(shares: Sequence[Sequence[float]], colour: str) -> bytes:
    r"""Write a pixel for each share, from 0 (transparent) to 1 (the colour, `#rrggbb`).

    >>> png_levels([[0.0, 1.0]], "#bf5100")[:4]
    b'\x89PNG'
    """
    rows = (b"\0" + bytes(round(255 * share) for share in row) for row in shares)
    palette = {b"PLTE": bytes.fromhex(colour[1:]) * 256, b"tRNS": bytes(range(256))}
    return _written(len(shares[0]), len(shares), 3, palette, b"".join(rows))


def png_rgb(pixels: "NDArray[np.uint8]") -> bytes:
    r"""Write an image: [height, width, 3], red, green and blue.

    >>> import numpy
    >>> png_rgb(numpy.zeros((2, 3, 3), numpy.uint8))[:4]
    b'\x89PNG'
    """
    height, width, _ = pixels.shape
    steps = pixels.copy()
    steps[:, 1:] -= pixels[:, :-1]  # what differs from the pixel before is small, and packs well
    rows = (b"\1" + row.tobytes() for row in steps)
    return _written(width, height, 2, {}, b"".join(rows))


def _written(width: int, height: int, kind: int, palette: dict[bytes, bytes], rows: bytes) -> bytes:
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0),
        **palette,
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in parts.items())


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
