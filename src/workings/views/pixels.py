"""A small PNG without any package: one colour, so far opaque at each pixel."""

import struct
import zlib
from collections.abc import Sequence

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_levels(shares: Sequence[Sequence[float]], colour: str) -> bytes:
    r"""Write a pixel for each share, from 0 (transparent) to 1 (the colour, `#rrggbb`).

    >>> png_levels([[0.0, 1.0]], "#bf5100")[:4]
    b'\x89PNG'
    """
    size = struct.pack(">IIBBBBB", len(shares[0]), len(shares), 8, 3, 0, 0, 0)  # by a palette
    palette = bytes.fromhex(colour[1:]) * 256
    rows = (b"\0" + bytes(round(255 * share) for share in row) for row in shares)
    parts = {
        b"IHDR": size,
        b"PLTE": palette,
        b"tRNS": bytes(range(256)),
        b"IDAT": zlib.compress(b"".join(rows), 9),
        b"IEND": b"",
    }
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts.items())


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
