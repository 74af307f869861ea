"""Pictures out of files: upright, square, of one size, in red, green and blue.

What cannot be decoded is refused by kind, and what had to be converted is marked, so that both can
be counted. The bytes tell what a file is, not its name.
"""

import warnings
from enum import IntFlag
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from workings.errors import UserError, brief, extra_of
from workings.files import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image as Image_

FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
}
"""What is read, and how such files end. Others, some of which run programs, are not tried."""
MOST_PIXELS = 64 * 10**6
"""Of a picture before it is made small."""
LARGEST = 64 * 2**20
"""Bytes of a picture's file."""
LARGEST_SIZE = 1024
"""Pixels that a picture may be wide and high once it is prepared."""


class Oddity(IntFlag):
    """What is to be told of a picture; several things may be."""

    GREY = 1
    TRANSPARENT = 2
    MISNAMED = 4
    MISSING = 8
    UNREADABLE = 16
    TRUNCATED = 32
    ENORMOUS = 64


class Unfit(UserError):  # noqa: N818
    """A picture that cannot be used, and of which kind that is."""

    def __init__(self, oddity: Oddity, told: str) -> None:
        super().__init__(told)
        self.oddity = oddity


# Rows and columns changed round, then rows, then columns turned over: EXIF's eight ways to hold a
# camera.
_TURNS = {
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}
_ORIENTATION = 0x0112
_ENORMOUS = f"enormous: more than {MOST_PIXELS:,} pixels"


def read_picture(path: Path, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Read one picture as those to learn from are, or say in a line why that cannot be."""
    name = brief(str(path), 300)
    try:
        raw = read_bytes(path.resolve(), LARGEST)  # a link of the user's own leads where it should
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    try:
        return prepared(raw, size, path.name)[0]
    except Unfit as error:
        raise UserError(f"{name}: {error}") from None


def prepared(
    raw: bytes, size: int, name: str = ""
) -> tuple[UInt8[np.ndarray, "size size 3"], Oddity]:
    """Decode a picture, turn it upright, cut the square in its middle and make that of one size.

    What is transparent lies on white.
    """
    check_size(size)
    if len(raw) > LARGEST:
        raise Unfit(Oddity.ENORMOUS, f"enormous: more than {LARGEST:,} bytes")
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as missing:
        raise UserError(f"pictures need {missing.name}: {extra_of(missing)}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata, mostly; bombs have a limit below
            with Image.open(BytesIO(raw), formats=list(FORMATS)) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Unfit(Oddity.ENORMOUS, _ENORMOUS)
                oddity = _misnamed(image, name) | _grey(image)
                pixels, seen_through = _square(image, size)
                return pixels, oddity | seen_through
    except (Unfit, MemoryError):
        raise
    except UnidentifiedImageError:
        kinds = ", ".join(FORMATS)
        raise Unfit(Oddity.UNREADABLE, f"not a picture: expected {kinds}") from None
    except Image.DecompressionBombError:
        raise Unfit(Oddity.ENORMOUS, _ENORMOUS) from None
    except Exception as error:  # decoders raise whatever a damaged file leads them to
        told = brief(str(error) or type(error).__name__, 100)
        if "truncated" in told.lower():
            raise Unfit(Oddity.TRUNCATED, f"cut short: {told}") from None
        raise Unfit(Oddity.UNREADABLE, f"a damaged picture: {told}") from None


def check_size(size: int) -> None:
    """Refuse pictures that are too small to show anything, or too large to learn from."""
    if not 1 <= size <= LARGEST_SIZE:
        raise UserError(f"size = {size}: from 1 to {LARGEST_SIZE:,} pixels")


def _misnamed(image: "Image_", name: str) -> Oddity:
    """Say whether a file is called like one of another format."""
    own = FORMATS.get(image.format or "", FORMATS["JPEG"])  # some cameras' JPEGs are called MPO
    ending = PurePosixPath(name.lower()).suffix
    wrong = ending not in own and any(ending in endings for endings in FORMATS.values())
    return Oddity.MISNAMED if wrong else Oddity(0)


def _grey(image: "Image_") -> Oddity:
    grey = image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")
    return Oddity.GREY if grey else Oddity(0)


def _square(image: "Image_", size: int) -> tuple[UInt8[np.ndarray, "size size 3"], Oddity]:
    from PIL import Image

    image.draft(None, (2 * size, 2 * size))  # a JPEG at a half, a quarter or an eighth
    image.load()  # before metadata is asked for: what is damaged has to be told
    turn = _turn(image)
    if image.mode.startswith("I"):  # grey of sixteen bits, of which converting would cut the upper
        image = Image.fromarray((np.asarray(image).clip(0, 2**16 - 1) >> 8).astype(np.uint8))
    see_through = image.has_transparency_data
    image = image.convert("RGBA" if see_through else "RGB")
    side = min(image.size)
    left, top = ((length - side) / 2 for length in image.size)
    image = image.resize(
        (size, size),
        Image.Resampling.BICUBIC,
        box=(left, top, left + side, top + side),
        reducing_gap=2.0,
    )
    oddity = Oddity(0)
    if see_through:
        paper = Image.new("RGBA", image.size, "white")
        oddity = Oddity.TRANSPARENT if np.asarray(image)[..., 3].min() < 255 else oddity
        image = Image.alpha_composite(paper, image).convert("RGB")
    return _turned(np.asarray(image), turn), oddity


def _turn(image: "Image_") -> int:
    """How a camera was held, if it says so in a way that can be read."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # metadata may be damaged where the picture is not
        return 1


def _turned(
    pixels: UInt8[np.ndarray, "size size 3"], turn: int
) -> UInt8[np.ndarray, "size size 3"]:
    swap, rows, columns = _TURNS.get(turn, (False, False, False))
    upright = pixels.swapaxes(0, 1) if swap else pixels
    return np.ascontiguousarray(upright[:: -1 if rows else 1, :: -1 if columns else 1])
