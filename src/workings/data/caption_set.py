"""Pictures with captions and pixels, in parts, and what became of those that could not be used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from workings.data.caption_files import Picture
from workings.data.download import Progress
from workings.data.picture_files import PicturePlaces
from workings.data.pictures import Oddity
from workings.data.pixel_file import Pixels, Told, decoded, drawn
from workings.data.scenes import scenes
from workings.data.splits import checksum_of
from workings.errors import brief

_LEFT_OUT = {
    Oddity.MISSING: "missing",
    Oddity.UNREADABLE: "unreadable",
    Oddity.TRUNCATED: "truncated",
    Oddity.ENORMOUS: "enormous",
}
_CONVERTED = {
    Oddity.GREY: "grey",
    Oddity.TRANSPARENT: "transparent",
    Oddity.MISNAMED: "wrongly named",
}


@dataclass(frozen=True)
class Skipped:
    """What became of the pictures: how many are used, and the names of the odd ones by kind."""

    kept: int
    names: Mapping[str, tuple[str, ...]]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind, left out or converted."""
        return {kind: len(some) for kind, some in self.names.items()}

    def told(self) -> str:
        """Say it in a line.

        >>> Skipped(99, {"missing": ("a.jpg",), "grey": ("b.png", "c.png")}).told()
        '99 pictures; left out: 1 missing (a.jpg); converted: 2 grey (b.png, c.png)'
        >>> Skipped(100, {}).told()
        '100 pictures; none left out'
        """
        changed = {k: some for k, some in self.names.items() if k in _CONVERTED.values()}
        gone = {k: some for k, some in self.names.items() if k not in changed}
        left_out = f"left out: {_listed(gone)}" if gone else "none left out"
        converted = [f"converted: {_listed(changed)}"] if changed else []
        return "; ".join([f"{self.kept:,} pictures", left_out, *converted])


def _listed(kinds: Mapping[str, Sequence[str]]) -> str:
    told = []
    for kind, names in kinds.items():
        first = ", ".join(brief(name, 40) for name in names[:3])
        told.append(f"{len(names):,} {kind} ({first}{', …' if len(names) > 3 else ''})")
    return ", ".join(told)


@dataclass(frozen=True)
class CaptionSet:
    """Pictures by part, their pixels in the same order, and what was left out."""

    name: str
    pictures: Mapping[str, tuple[Picture, ...]]
    pixels: Mapping[str, NDArray[np.uint8]]
    """[picture, size, size, 3] of each part, mapped into memory and not to be written to."""
    skipped: Skipped
    sha256: str

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(some):,} {part}" for part, some in self.pictures.items())
        return f"CaptionSet({self.name!r}: {counts})"


def scene_set(
    name: str, counts: Mapping[str, int], size: int, seed: int, progress: Progress | None
) -> CaptionSet:
    """Draw so many scenes of each part: the first that `scenes(part, seed)` gives."""
    told = _counter(sum(counts.values()), progress)
    pictures: dict[str, tuple[Picture, ...]] = {}
    pixels: dict[str, Pixels] = {}
    for part, most in counts.items():
        some = list(islice(scenes(part, seed), most))
        pixels[part] = drawn(some, size, told)
        pictures[part] = tuple(Picture(f"{part}/{k}", (s.caption,)) for k, s in enumerate(some, 1))
    return _assembled(name, pictures, pixels, {})


def picture_set(
    name: str,
    parts: Mapping[str, Sequence[Picture]],
    files: PicturePlaces,
    size: int,
    progress: Progress | None,
) -> CaptionSet:
    """Decode the pictures of each part, or take them as they were decoded before.

    Pictures without captions, those of a part "unused", and those that cannot be decoded are left
    out.
    """
    odd: dict[str, list[str]] = {}
    _note(
        odd, "without captions", (p.name for some in parts.values() for p in some if not p.captions)
    )
    _note(odd, "in no part", (p.name for p in parts.get("unused", ()) if p.captions))
    wanted = {k: [p for p in some if p.captions] for k, some in parts.items() if k != "unused"}
    told = _counter(sum(map(len, wanted.values())), progress)
    kept: dict[str, tuple[Picture, ...]] = {}
    pixels: dict[str, Pixels] = {}
    for part, pictures in wanted.items():
        pixels[part] = decoded(files, [p.name for p in pictures], size, told)
        both = list(zip(pictures, pixels[part].oddities, strict=True))
        kept[part] = tuple(p for p, oddity in both if not any(oddity & flag for flag in _LEFT_OUT))
        for flag, kind in (_LEFT_OUT | _CONVERTED).items():
            _note(odd, kind, (p.name for p, oddity in both if oddity & flag))
    return _assembled(name, kept, pixels, odd)


def _note(odd: dict[str, list[str]], kind: str, names: Iterable[str]) -> None:
    """Add names to a kind, which is there only if it has any."""
    for name in names:
        odd.setdefault(kind, []).append(name)


def _assembled(
    name: str,
    pictures: Mapping[str, tuple[Picture, ...]],
    pixels: Mapping[str, Pixels],
    odd: Mapping[str, Sequence[str]],
) -> CaptionSet:
    skipped = Skipped(
        sum(map(len, pictures.values())), {kind: tuple(names) for kind, names in odd.items()}
    )
    said = (((p.name, c) for p in some for c in p.captions) for some in pictures.values())
    sums = [checksum_of(said), *(some.sha256 for some in pixels.values())]
    whole = sha256(" ".join(sums).encode()).hexdigest()
    kept = {part: some.kept for part, some in pixels.items()}
    return CaptionSet(name, pictures, kept, skipped, whole)


def _counter(total: int, progress: Progress | None) -> Told:
    done = count(1)
    return lambda: progress(next(done), total) if progress else None
