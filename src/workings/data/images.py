"""Pictures out of files: upright, square, of one size, in red, green and blue.

What cannot be decoded is refused by kind, and what had to be converted is marked, so that both can
be counted. The bytes tell what a file is, not its name.
"""

import os
import warnings
from collections.abc import Iterable, Sequence
from enum import IntFlag
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from workings.data.archives import MAX_MEMBERS, ZipReader
from workings.errors import UserError, install_hint, truncate
from workings.io import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image as Image_

IMAGE_FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
}
"""What is read, and how such files end. Others, some of which run programs, are not tried."""
MAX_PIXELS = 64 * 10**6
"""Of a picture before it is made small."""
MAX_IMAGE_BYTES = 64 * 2**20
"""Bytes of a picture's file."""
MAX_IMAGE_SIZE = 1024
"""Pixels that a picture may be wide and high once it is prepared."""


class ImageIssue(IntFlag):
    """What is to be told of a picture; several things may be."""

    GRAYSCALE = 1
    TRANSPARENT = 2
    MISNAMED = 4
    MISSING = 8
    UNREADABLE = 16
    TRUNCATED = 32
    TOO_LARGE = 64


class UnusableImageError(UserError):
    """A picture that cannot be used, and of which kind that is."""

    def __init__(self, issue: ImageIssue, message: str) -> None:
        super().__init__(message)
        self.issue = issue


# Rows and columns changed round, then rows, then columns turned over: EXIF's eight ways to hold a
# camera.
_ORIENTATION_FLIPS = {
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}
_EXIF_ORIENTATION_TAG = 0x0112
_TOO_LARGE_MESSAGE = f"enormous: more than {MAX_PIXELS:,} pixels"


def read_image(path: Path, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Read one picture as those to learn from are, or say in a line why that cannot be."""
    name = truncate(str(path), 300)
    try:
        raw = read_bytes(
            path.resolve(), MAX_IMAGE_BYTES
        )  # a link of the user's own leads where it should
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    try:
        return preprocess_image(raw, size, path.name)[0]
    except UnusableImageError as error:
        raise UserError(f"{name}: {error}") from None


def preprocess_image(
    raw: bytes, size: int, name: str = ""
) -> tuple[UInt8[np.ndarray, "size size 3"], ImageIssue]:
    """Decode a picture, turn it upright, cut the square in its middle and make that of one size.

    What is transparent lies on white.
    """
    check_image_size(size)
    if len(raw) > MAX_IMAGE_BYTES:
        raise UnusableImageError(
            ImageIssue.TOO_LARGE, f"enormous: more than {MAX_IMAGE_BYTES:,} bytes"
        )
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as missing:
        raise UserError(f"pictures need {missing.name}: {install_hint(missing)}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata, mostly; bombs have a limit below
            with Image.open(BytesIO(raw), formats=list(IMAGE_FORMATS)) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise UnusableImageError(ImageIssue.TOO_LARGE, _TOO_LARGE_MESSAGE)
                oddity = _detect_misnamed(image, name) | _detect_grayscale(image)
                pixels, seen_through = _crop_and_resize(image, size)
                return pixels, oddity | seen_through
    except (UnusableImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        kinds = ", ".join(IMAGE_FORMATS)
        raise UnusableImageError(
            ImageIssue.UNREADABLE, f"not a picture: expected {kinds}"
        ) from None
    except Image.DecompressionBombError:
        raise UnusableImageError(ImageIssue.TOO_LARGE, _TOO_LARGE_MESSAGE) from None
    except Exception as error:  # decoders raise whatever a damaged file leads them to
        told = truncate(str(error) or type(error).__name__, 100)
        if "truncated" in told.lower():
            raise UnusableImageError(ImageIssue.TRUNCATED, f"cut short: {told}") from None
        raise UnusableImageError(ImageIssue.UNREADABLE, f"a damaged picture: {told}") from None


def check_image_size(size: int) -> None:
    """Refuse pictures that are too small to show anything, or too large to learn from."""
    if not 1 <= size <= MAX_IMAGE_SIZE:
        raise UserError(f"size = {size}: from 1 to {MAX_IMAGE_SIZE:,} pixels")


def _detect_misnamed(image: "Image_", name: str) -> ImageIssue:
    """Say whether a file is called like one of another format."""
    own = IMAGE_FORMATS.get(
        image.format or "", IMAGE_FORMATS["JPEG"]
    )  # some cameras' JPEGs are called MPO
    ending = PurePosixPath(name.lower()).suffix
    wrong = ending not in own and any(ending in endings for endings in IMAGE_FORMATS.values())
    return ImageIssue.MISNAMED if wrong else ImageIssue(0)


def _detect_grayscale(image: "Image_") -> ImageIssue:
    grey = image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")
    return ImageIssue.GRAYSCALE if grey else ImageIssue(0)


def _crop_and_resize(
    image: "Image_", size: int
) -> tuple[UInt8[np.ndarray, "size size 3"], ImageIssue]:
    from PIL import Image

    image.draft(None, (2 * size, 2 * size))  # a JPEG at a half, a quarter or an eighth
    image.load()  # before metadata is asked for: what is damaged has to be told
    turn = _read_orientation(image)
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
    oddity = ImageIssue(0)
    if see_through:
        paper = Image.new("RGBA", image.size, "white")
        oddity = ImageIssue.TRANSPARENT if np.asarray(image)[..., 3].min() < 255 else oddity
        image = Image.alpha_composite(paper, image).convert("RGB")
    return _apply_orientation(np.asarray(image), turn), oddity


def _read_orientation(image: "Image_") -> int:
    """How a camera was held, if it says so in a way that can be read."""
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION_TAG, 1))
    except Exception:  # metadata may be damaged where the picture is not
        return 1


def _apply_orientation(
    pixels: UInt8[np.ndarray, "size size 3"], orientation: int
) -> UInt8[np.ndarray, "size size 3"]:
    swap, rows, columns = _ORIENTATION_FLIPS.get(orientation, (False, False, False))
    upright = pixels.swapaxes(0, 1) if swap else pixels
    return np.ascontiguousarray(upright[:: -1 if rows else 1, :: -1 if columns else 1])


class ImageStore:
    """The pictures of a folder and of those in it, or of an archive, by the names in captions.

    A caption may leave out the folders that a picture lies in, if there is one of that name only.
    Names are looked up in a list of what is there and links are not followed: nothing leads out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise UserError(
                f"{truncate(str(path), 300)}: no such folder or zip archive of pictures"
            )
        self._zip = None if path.is_dir() else ZipReader(path)
        self._paths = _index_by_name(self._zip.entries if self._zip else _walk_files(path))

    def __contains__(self, name: str) -> bool:
        return name in self._paths

    def fingerprint(self, name: str) -> str:
        """What changes when the picture does: its checksum; or where it lies, and its time."""
        path = self._paths.get(name)
        if path is None:
            return "missing"
        if self._zip:
            entry = self._zip.entries[path]
            return f"{entry.file_size} {entry.CRC}"
        place = self.path / path
        try:
            status = place.lstat()
        except OSError:
            return "missing"
        # Who may read it is in the second of the times alone.
        return f"{place.absolute()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def read(self, name: str) -> bytes:
        """Give a picture's bytes, or say why not."""
        path = self._paths.get(name)
        if path is None:
            raise UnusableImageError(ImageIssue.MISSING, "no such picture")
        try:
            place = self.path / path
            size = self._zip.entries[path].file_size if self._zip else place.lstat().st_size
            if size > MAX_IMAGE_BYTES:
                raise UnusableImageError(
                    ImageIssue.TOO_LARGE, f"enormous: more than {MAX_IMAGE_BYTES:,} bytes"
                )
            return self._zip.read(path) if self._zip else read_bytes(place, MAX_IMAGE_BYTES)
        except UnusableImageError:
            raise
        except FileNotFoundError:
            raise UnusableImageError(ImageIssue.MISSING, "no such picture") from None
        except (UserError, PermissionError) as error:
            raise UnusableImageError(ImageIssue.UNREADABLE, str(error)) from None
        except OSError as error:  # of the disk, not of the picture: it may be sound the next time
            raise UserError(f"{place}: {error.strerror or error}") from None

    def close(self) -> None:
        """Let an archive go."""
        if self._zip:
            self._zip.close()


class ImageStoreChain:
    """Pictures that lie in several places, each in the first of these that has it."""

    def __init__(self, stores: Sequence[ImageStore]) -> None:
        self._stores = stores

    def _find_store(self, name: str) -> ImageStore:
        return next((place for place in self._stores if name in place), self._stores[0])

    def fingerprint(self, name: str) -> str:
        """What changes when the picture does."""
        return self._find_store(name).fingerprint(name)

    def read(self, name: str) -> bytes:
        """Give a picture's bytes, or say why not."""
        return self._find_store(name).read(name)

    def close(self) -> None:
        """Let archives go."""
        for place in self._stores:
            place.close()


def _walk_files(folder: Path) -> Iterable[str]:
    count = 0
    for place, _, files in os.walk(folder):
        count += len(files)
        if count > MAX_MEMBERS:
            raise UserError(f"{folder}: more than {MAX_MEMBERS:,} files: not a folder of pictures")
        for file in files:
            yield (Path(place) / file).relative_to(folder).as_posix()


def _index_by_name(paths: Iterable[str]) -> dict[str, str]:
    """Find paths by themselves, and by their last part where only one ends so."""
    found: dict[str, str] = {}
    ends: dict[str, str | None] = {}
    for path in paths:
        found[path] = path
        end = path.rpartition("/")[2]
        ends[end] = None if end in ends else path
    return {**{end: path for end, path in ends.items() if path}, **found}
