"""Pictures in a file that is mapped into memory: decoded once, then a matter of copying bytes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from workings.data.mapped_file import mapped_file
from workings.data.picture_files import PicturePlaces
from workings.data.pictures import Oddity, Unfit, prepared
from workings.data.scene_drawing import draw
from workings.data.scenes import Scene

PREPARATION = 1
"""To be raised when pictures or scenes come out otherwise: files made before are not used then."""

Told = Callable[[], None]


@dataclass(frozen=True)
class Pixels:
    """The pictures that could be used, what there is to tell of all, and their checksum."""

    kept: UInt8[np.ndarray, "kept size size 3"]
    oddities: tuple[Oddity, ...]
    """Of each picture that was asked for."""
    sha256: str


def decoded(files: PicturePlaces, names: Sequence[str], size: int, told: Told) -> Pixels:
    """Prepare pictures in their order; those that cannot be used are left out."""
    stamps = "".join(f"\n{name}\0{files.stamp(name)}" for name in names)
    return _mapped(f"pictures {stamps}", size, len(names), _decoded(files, names, size, told))


def _decoded(
    files: PicturePlaces, names: Sequence[str], size: int, told: Told
) -> Iterator[NDArray[np.uint8]]:
    oddities = []
    for name in names:
        try:
            pixels, oddity = prepared(files.read(name), size, name)
            yield pixels
        except Unfit as error:
            oddity = error.oddity
        oddities.append(oddity)
        told()
    yield np.array(oddities, dtype=np.uint8)


def drawn(scenes: Sequence[Scene], size: int, told: Told) -> Pixels:
    """Draw scenes. All that is drawn is in their names, so that a file never shows other ones."""

    def made() -> Iterator[NDArray[np.uint8]]:
        for scene in scenes:
            yield draw(scene, size)
            told()
        yield np.zeros(len(scenes), dtype=np.uint8)

    every = sha256(repr(scenes).encode()).hexdigest()
    return _mapped(f"scenes {every}", size, len(scenes), made())


def _mapped(key: str, size: int, count: int, pieces: Iterator[NDArray[np.uint8]]) -> Pixels:
    """Map what pieces hold: pictures, and after them a byte for each that was asked for."""
    whole = f"{PREPARATION} {size} {count} {key}"
    raw, digest = mapped_file("pictures", whole, "uint8", lambda: pieces)
    kept: NDArray[Any] = raw[: len(raw) - count].reshape(-1, size, size, 3)
    oddities = tuple(Oddity(int(mark)) for mark in raw[len(raw) - count :])
    return Pixels(kept, oddities, digest)
