"""Images from files: decoded, upright, cropped to a square, resized, in RGB.

Images that cannot be decoded are rejected with an issue, and those that had to be converted are
flagged, so that both can be counted. The format is detected from the content, not the file name.
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
"""Supported formats and their suffixes. Pillow has others, some of which run programs."""
MAX_PIXELS = 64 * 10**6
"""Limit of an image before it is resized."""
MAX_IMAGE_BYTES = 64 * 2**20
MAX_IMAGE_SIZE = 1024
"""Limit of the width and height, in pixels, after resizing."""

# For each EXIF orientation: whether to swap rows and columns, then flip rows, then flip columns.
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


class ImageIssue(IntFlag):
    """What is unusual about an image; flags can be combined."""

    GRAYSCALE = 1
    TRANSPARENT = 2
    MISNAMED = 4
    MISSING = 8
    UNREADABLE = 16
    TRUNCATED = 32
    TOO_LARGE = 64


class UnusableImageError(UserError):
    """An image that cannot be used, with the issue."""

    def __init__(self, issue: ImageIssue, message: str) -> None:
        super().__init__(message)
        self.issue = issue


def read_image(path: Path, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Read and preprocess one image like those of a dataset; raise UserError if it is unusable."""
    name = truncate(str(path), 300)
    try:
        raw = read_bytes(path.resolve(), MAX_IMAGE_BYTES)  # a user's path may be a link
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    try:
        return preprocess_image(raw, size, path.name)[0]
    except UnusableImageError as error:
        raise UserError(f"{name}: {error}") from None


def preprocess_image(
    raw: bytes, size: int, name: str = ""
) -> tuple[UInt8[np.ndarray, "size size 3"], ImageIssue]:
    """Decode an image, apply its EXIF orientation, crop the center square and resize it.

    Transparent pixels are blended with white.
    """
    check_image_size(size)
    if len(raw) > MAX_IMAGE_BYTES:
        raise _too_many_bytes()
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as missing:
        raise UserError(f"images need {missing.name}: {install_hint(missing)}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mostly about metadata; the size is checked below
            with Image.open(BytesIO(raw), formats=list(IMAGE_FORMATS)) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise _too_many_pixels()
                issue = _detect_misnamed(image, name) | _detect_grayscale(image)
                pixels, transparency = _crop_and_resize(image, size)
                return pixels, issue | transparency
    except (UnusableImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        formats = ", ".join(IMAGE_FORMATS)
        raise UnusableImageError(
            ImageIssue.UNREADABLE, f"not an image: expected {formats}"
        ) from None
    except Image.DecompressionBombError:
        raise _too_many_pixels() from None
    except Exception as error:  # decoders raise many exceptions for damaged files
        reason = truncate(str(error) or type(error).__name__, 100)
        if "truncated" in reason.lower():
            raise UnusableImageError(ImageIssue.TRUNCATED, f"a truncated image: {reason}") from None
        raise UnusableImageError(ImageIssue.UNREADABLE, f"a damaged image: {reason}") from None


def _too_many_pixels() -> UnusableImageError:
    return UnusableImageError(ImageIssue.TOO_LARGE, f"too large: more than {MAX_PIXELS:,} pixels")


def _too_many_bytes() -> UnusableImageError:
    return UnusableImageError(
        ImageIssue.TOO_LARGE, f"too large: more than {MAX_IMAGE_BYTES:,} bytes"
    )


def check_image_size(size: int) -> None:
    """Raise UserError unless images can be resized to `size` pixels."""
    if not 1 <= size <= MAX_IMAGE_SIZE:
        raise UserError(f"image size {size}: expected 1 to {MAX_IMAGE_SIZE:,} pixels")


def _detect_misnamed(image: "Image_", name: str) -> ImageIssue:
    """Return MISNAMED if a file has the suffix of another format."""
    # Pillow calls the JPEGs of some cameras MPO.
    suffixes = IMAGE_FORMATS.get(image.format or "", IMAGE_FORMATS["JPEG"])
    suffix = PurePosixPath(name.lower()).suffix
    is_misnamed = suffix not in suffixes and any(
        suffix in others for others in IMAGE_FORMATS.values()
    )
    return ImageIssue.MISNAMED if is_misnamed else ImageIssue(0)


def _detect_grayscale(image: "Image_") -> ImageIssue:
    is_grayscale = image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")
    return ImageIssue.GRAYSCALE if is_grayscale else ImageIssue(0)


def _crop_and_resize(
    image: "Image_", size: int
) -> tuple[UInt8[np.ndarray, "size size 3"], ImageIssue]:
    from PIL import Image

    image.draft(None, (2 * size, 2 * size))  # decodes a JPEG at a half, a quarter or an eighth
    image.load()  # before reading metadata, so that errors in the pixels are raised
    orientation = _read_orientation(image)
    if image.mode.startswith("I"):  # 16-bit grayscale, which `convert` would clip to 8 bits
        image = Image.fromarray((np.asarray(image).clip(0, 2**16 - 1) >> 8).astype(np.uint8))
    has_alpha = image.has_transparency_data
    image = image.convert("RGBA" if has_alpha else "RGB")
    side = min(image.size)
    left, top = ((length - side) / 2 for length in image.size)
    image = image.resize(
        (size, size),
        Image.Resampling.BICUBIC,
        box=(left, top, left + side, top + side),
        reducing_gap=2.0,
    )
    issue = ImageIssue(0)
    if has_alpha:
        if np.asarray(image)[..., 3].min() < 255:
            issue = ImageIssue.TRANSPARENT
        background = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(background, image).convert("RGB")
    return _apply_orientation(np.asarray(image), orientation), issue


def _read_orientation(image: "Image_") -> int:
    """Return the EXIF orientation, or 1 (upright) if there is none that can be read."""
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION_TAG, 1))
    except Exception:  # the metadata may be damaged while the pixels are not
        return 1


def _apply_orientation(
    pixels: UInt8[np.ndarray, "size size 3"], orientation: int
) -> UInt8[np.ndarray, "size size 3"]:
    swap, flip_rows, flip_columns = _ORIENTATION_FLIPS.get(orientation, (False, False, False))
    upright = pixels.swapaxes(0, 1) if swap else pixels
    return np.ascontiguousarray(upright[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1])


class ImageStore:
    """The images of a folder and its sub-folders, or of a zip archive, by name.

    Names are paths; the folders may be left out if the file name is unique. Names are looked up in
    a listing, and links are not followed, so that no name leads out of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise UserError(f"{truncate(str(path), 300)}: no such folder or zip archive of images")
        self._zip = None if path.is_dir() else ZipReader(path)
        self._paths = _index_by_name(self._zip.entries if self._zip else _walk_files(path))

    def __contains__(self, name: str) -> bool:
        return name in self._paths

    def fingerprint(self, name: str) -> str:
        """Return a text that changes with the image: its checksum, or its path and time."""
        path = self._paths.get(name)
        if path is None:
            return "missing"
        if self._zip:
            entry = self._zip.entries[path]
            return f"{entry.file_size} {entry.CRC}"
        file = self.path / path
        try:
            status = file.lstat()
        except OSError:
            return "missing"
        # Of the two times, only ctime changes with the permissions.
        return f"{file.absolute()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def read(self, name: str) -> bytes:
        """Return the bytes of an image; raise UnusableImageError if it cannot be read."""
        path = self._paths.get(name)
        if path is None:
            raise UnusableImageError(ImageIssue.MISSING, "no such image")
        file = self.path / path
        try:
            size = self._zip.entries[path].file_size if self._zip else file.lstat().st_size
            if size > MAX_IMAGE_BYTES:
                raise _too_many_bytes()
            return self._zip.read(path) if self._zip else read_bytes(file, MAX_IMAGE_BYTES)
        except UnusableImageError:
            raise
        except FileNotFoundError:
            raise UnusableImageError(ImageIssue.MISSING, "no such image") from None
        except (UserError, PermissionError) as error:
            raise UnusableImageError(ImageIssue.UNREADABLE, str(error)) from None
        except OSError as error:  # an error of the disk, not of the image: do not skip the image
            raise UserError(f"{file}: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the archive, if it is one."""
        if self._zip:
            self._zip.close()


class ImageStoreChain:
    """Several image stores; an image is read from the first one that has it."""

    def __init__(self, stores: Sequence[ImageStore]) -> None:
        self._stores = stores

    def _find_store(self, name: str) -> ImageStore:
        return next((store for store in self._stores if name in store), self._stores[0])

    def fingerprint(self, name: str) -> str:
        """Return a text that changes with the image."""
        return self._find_store(name).fingerprint(name)

    def read(self, name: str) -> bytes:
        """Return the bytes of an image; raise UnusableImageError if it cannot be read."""
        return self._find_store(name).read(name)

    def close(self) -> None:
        """Close the archives."""
        for store in self._stores:
            store.close()


def _walk_files(folder: Path) -> Iterable[str]:
    """Yield the paths of all files below a folder, relative to it."""
    count = 0
    for parent, _, files in os.walk(folder):
        count += len(files)
        if count > MAX_MEMBERS:
            raise UserError(f"{folder}: more than {MAX_MEMBERS:,} files: expected fewer images")
        for file in files:
            yield (Path(parent) / file).relative_to(folder).as_posix()


def _index_by_name(paths: Iterable[str]) -> dict[str, str]:
    """Map each path to itself, and each file name that is unique to its path."""
    by_path: dict[str, str] = {}
    by_file_name: dict[str, str | None] = {}
    for path in paths:
        by_path[path] = path
        name = path.rpartition("/")[2]
        by_file_name[name] = None if name in by_file_name else path
    return {**{name: path for name, path in by_file_name.items() if path}, **by_path}
