"""Pictures in a file that is mapped into memory: decoded once, then a matter of copying bytes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from workings.data.cache import open_cached_array
from workings.data.caption_files import CaptionedImage, find_captions_file, read_caption_splits
from workings.data.datasets import dataset_folders
from workings.data.download import ProgressCallback
from workings.data.images import (
    ImageIssue,
    ImageStore,
    ImageStoreChain,
    UnusableImageError,
    check_image_size,
    preprocess_image,
    read_image,
)
from workings.data.parallel_splits import split_size
from workings.data.scenes import SCENES as SCENES
from workings.data.scenes import Scene, draw_scene, generate_scenes
from workings.data.splits import compute_checksum, hash_to_unit_interval
from workings.errors import UserError, did_you_mean, safe_repr, truncate

PREPROCESSING_VERSION = 1
"""To be raised when pictures or scenes come out otherwise: files made before are not used then."""

StepCallback = Callable[[], None]


@dataclass(frozen=True)
class PixelCache:
    """The pictures that could be used, what there is to tell of all, and their checksum."""

    pixels: UInt8[np.ndarray, "kept size size 3"]
    issues: tuple[ImageIssue, ...]
    """Of each picture that was asked for."""
    sha256: str


def load_pixels(
    store: ImageStoreChain, names: Sequence[str], size: int, on_step: StepCallback
) -> PixelCache:
    """Prepare pictures in their order; those that cannot be used are left out."""
    stamps = "".join(f"\n{name}\0{store.fingerprint(name)}" for name in names)
    return _open_pixel_cache(
        f"pictures {stamps}", size, len(names), _decode_images(store, names, size, on_step)
    )


def _decode_images(
    store: ImageStoreChain, names: Sequence[str], size: int, on_step: StepCallback
) -> Iterator[NDArray[np.uint8]]:
    oddities = []
    for name in names:
        try:
            pixels, oddity = preprocess_image(store.read(name), size, name)
            yield pixels
        except UnusableImageError as error:
            oddity = error.issue
        oddities.append(oddity)
        on_step()
    yield np.array(oddities, dtype=np.uint8)


def render_scenes(scenes: Sequence[Scene], size: int, on_step: StepCallback) -> PixelCache:
    """Draw scenes. All that is drawn is in their names, so that a file never shows other ones."""

    def made() -> Iterator[NDArray[np.uint8]]:
        for scene in scenes:
            yield draw_scene(scene, size)
            on_step()
        yield np.zeros(len(scenes), dtype=np.uint8)

    every = sha256(repr(scenes).encode()).hexdigest()
    return _open_pixel_cache(f"scenes {every}", size, len(scenes), made())


def _open_pixel_cache(
    key: str, size: int, count: int, chunks: Iterator[NDArray[np.uint8]]
) -> PixelCache:
    """Map what pieces hold: pictures, and after them a byte for each that was asked for."""
    whole = f"{PREPROCESSING_VERSION} {size} {count} {key}"
    raw, digest = open_cached_array("pictures", whole, "uint8", lambda: chunks)
    kept: NDArray[Any] = raw[: len(raw) - count].reshape(-1, size, size, 3)
    oddities = tuple(ImageIssue(int(mark)) for mark in raw[len(raw) - count :])
    return PixelCache(kept, oddities, digest)


_EXCLUDING_ISSUES = {
    ImageIssue.MISSING: "missing",
    ImageIssue.UNREADABLE: "unreadable",
    ImageIssue.TRUNCATED: "truncated",
    ImageIssue.TOO_LARGE: "enormous",
}
_CONVERTED_ISSUES = {
    ImageIssue.GRAYSCALE: "grey",
    ImageIssue.TRANSPARENT: "transparent",
    ImageIssue.MISNAMED: "wrongly named",
}


@dataclass(frozen=True)
class ImageStats:
    """What became of the pictures: how many are used, and the names of the odd ones by kind."""

    num_used: int
    names_by_issue: Mapping[str, tuple[str, ...]]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind, left out or converted."""
        return {kind: len(some) for kind, some in self.names_by_issue.items()}

    def describe(self) -> str:
        """Say it in a line.

        >>> ImageStats(99, {"missing": ("a.jpg",), "grey": ("b.png", "c.png")}).describe()
        '99 pictures; left out: 1 missing (a.jpg); converted: 2 grey (b.png, c.png)'
        >>> ImageStats(100, {}).describe()
        '100 pictures; none left out'
        """
        changed = {
            k: some for k, some in self.names_by_issue.items() if k in _CONVERTED_ISSUES.values()
        }
        gone = {k: some for k, some in self.names_by_issue.items() if k not in changed}
        left_out = f"left out: {_format_issues(gone)}" if gone else "none left out"
        converted = [f"converted: {_format_issues(changed)}"] if changed else []
        return "; ".join([f"{self.num_used:,} pictures", left_out, *converted])


def _format_issues(names_by_issue: Mapping[str, Sequence[str]]) -> str:
    told = []
    for kind, names in names_by_issue.items():
        first = ", ".join(truncate(name, 40) for name in names[:3])
        told.append(f"{len(names):,} {kind} ({first}{', …' if len(names) > 3 else ''})")
    return ", ".join(told)


@dataclass(frozen=True)
class CaptionDataset:
    """Pictures by part, their pixels in the same order, and what was left out."""

    name: str
    images: Mapping[str, tuple[CaptionedImage, ...]]
    pixels: Mapping[str, NDArray[np.uint8]]
    """[picture, size, size, 3] of each part, mapped into memory and not to be written to."""
    image_stats: ImageStats
    sha256: str

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(some):,} {part}" for part, some in self.images.items())
        return f"CaptionSet({self.name!r}: {counts})"


def build_scene_dataset(
    name: str, counts: Mapping[str, int], size: int, seed: int, progress: ProgressCallback | None
) -> CaptionDataset:
    """Draw so many scenes of each part: the first that `scenes(part, seed)` gives."""
    told = _make_step_callback(sum(counts.values()), progress)
    pictures: dict[str, tuple[CaptionedImage, ...]] = {}
    pixels: dict[str, PixelCache] = {}
    for part, most in counts.items():
        some = list(islice(generate_scenes(part, seed), most))
        pixels[part] = render_scenes(some, size, told)
        pictures[part] = tuple(
            CaptionedImage(f"{part}/{k}", (s.caption,)) for k, s in enumerate(some, 1)
        )
    return _assemble_dataset(name, pictures, pixels, {})


def build_image_dataset(
    name: str,
    images_by_split: Mapping[str, Sequence[CaptionedImage]],
    store: ImageStoreChain,
    size: int,
    progress: ProgressCallback | None,
) -> CaptionDataset:
    """Decode the pictures of each part, or take them as they were decoded before.

    Pictures without captions, those of a part "unused", and those that cannot be decoded are left
    out.
    """
    odd: dict[str, list[str]] = {}
    _add_issue(
        odd,
        "without captions",
        (p.name for some in images_by_split.values() for p in some if not p.captions),
    )
    _add_issue(odd, "in no part", (p.name for p in images_by_split.get("unused", ()) if p.captions))
    wanted = {
        k: [p for p in some if p.captions] for k, some in images_by_split.items() if k != "unused"
    }
    told = _make_step_callback(sum(map(len, wanted.values())), progress)
    kept: dict[str, tuple[CaptionedImage, ...]] = {}
    pixels: dict[str, PixelCache] = {}
    for part, pictures in wanted.items():
        pixels[part] = load_pixels(store, [p.name for p in pictures], size, told)
        both = list(zip(pictures, pixels[part].issues, strict=True))
        kept[part] = tuple(
            p for p, oddity in both if not any(oddity & flag for flag in _EXCLUDING_ISSUES)
        )
        for flag, kind in (_EXCLUDING_ISSUES | _CONVERTED_ISSUES).items():
            _add_issue(odd, kind, (p.name for p, oddity in both if oddity & flag))
    return _assemble_dataset(name, kept, pixels, odd)


def _add_issue(names_by_issue: dict[str, list[str]], issue: str, names: Iterable[str]) -> None:
    """Add names to a kind, which is there only if it has any."""
    for name in names:
        names_by_issue.setdefault(issue, []).append(name)


def _assemble_dataset(
    name: str,
    images: Mapping[str, tuple[CaptionedImage, ...]],
    pixels: Mapping[str, PixelCache],
    names_by_issue: Mapping[str, Sequence[str]],
) -> CaptionDataset:
    skipped = ImageStats(
        sum(map(len, images.values())),
        {kind: tuple(names) for kind, names in names_by_issue.items()},
    )
    said = (((p.name, c) for p in some for c in p.captions) for some in images.values())
    sums = [compute_checksum(said), *(some.sha256 for some in pixels.values())]
    whole = sha256(" ".join(sums).encode()).hexdigest()
    kept = {part: some.pixels for part, some in pixels.items()}
    return CaptionDataset(name, images, kept, skipped, whole)


def _make_step_callback(total: int, progress: ProgressCallback | None) -> StepCallback:
    done = count(1)
    return lambda: progress(next(done), total) if progress else None


__all__ = [
    "CaptionDataset",
    "CaptionedImage",
    "ImageStats",
    "list_caption_datasets",
    "load_captions",
    "load_test_captions",
    "read_image",
]

SCENES_PER_SPLIT = {"train": 8000, "validation": 500, "test": 1000, "combinations": 500}
_MANUAL_DOWNLOADS = {
    "flickr8k": (
        "Flickr8k.token.txt, Flickr_8k.trainImages.txt, Flickr_8k.devImages.txt, "
        "Flickr_8k.testImages.txt and Flickr8k_Dataset.zip as it is",
        "https://hockenmaier.cs.illinois.edu/8k-pictures.html (for research, by a form)",
    )
}


def list_caption_datasets() -> tuple[str, ...]:
    """Name the sets that `load_captions` knows.

    >>> list_caption_datasets()
    ('flickr8k', 'scenes')
    """
    return tuple(sorted([SCENES, *_MANUAL_DOWNLOADS]))


def load_captions(
    data: str | Path,
    *,
    image_size: int = 64,
    validation: float = 0.05,
    test: float = 0.1,
    images: Path | None = None,
    max_images: int | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> CaptionDataset:
    """Load a named set, a file of captions or a folder with one; prepare its pictures once.

    Pictures become `size` pixels wide and high. They are in the folder or zip archive `images`, or
    else beside the captions: in that folder, in one of those in it, or in a zip archive there.
    Parts that the captions do not tell are held out by picture, by the seed, as shares of all.
    `most` is how many pictures to train on at most; of scenes, of which there is no end, how many.
    """
    check_image_size(image_size)
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise UserError(f"validation = {validation}, test = {test}: nothing is left to train on")
    if max_images is not None and max_images < 1:
        raise UserError(f"most = {max_images}: at least one picture to train on")
    name = str(data)
    if name == SCENES:
        counts = {part: SCENES_PER_SPLIT[part] for part in ("train", "validation", "test")}
        return build_scene_dataset(
            name, counts | ({"train": max_images} if max_images else {}), image_size, seed, progress
        )
    path = _find_captions(name)
    parts = _hold_out_missing_splits(read_caption_splits(path), validation, test, seed)
    if max_images:
        parts["train"], _ = _sample_images(parts["train"], max_images, seed)
    with closing(_open_image_stores(path, images, parts)) as files:
        loaded = build_image_dataset(name, parts, files, image_size, progress)
    return _check_not_empty(loaded, "train")


def load_test_captions(
    data: str | Path,
    *,
    image_size: int = 64,
    images: Path | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> CaptionDataset:
    """Load what captions are tested on, as one part, "test".

    A named set's test part, or another part of it ("scenes/combinations"); of a file, the test part
    that it tells, or all of it.
    """
    check_image_size(image_size)
    name, _, part = str(data).partition("/")
    if name == SCENES and images is not None:
        raise UserError(f"{SCENES} are drawn here: there is no place where they are")
    if name == SCENES:
        part = part or "test"
        _check_split(SCENES, part, SCENES_PER_SPLIT)
        counts = {part: SCENES_PER_SPLIT[part]}
        return _rename_to_test_split(
            build_scene_dataset(str(data), counts, image_size, seed, progress)
        )
    if name not in _MANUAL_DOWNLOADS:
        name, part = str(data), ""
    path = _find_captions(name)
    parts = read_caption_splits(path)
    if part:
        _check_split(name, part, parts)
    told = part or ("test" if "test" in parts else "")
    all_of_it = [p for name, some in parts.items() if name != "unused" for p in some]
    only = {"test": parts[told] if told else all_of_it}
    with closing(_open_image_stores(path, images, only)) as files:
        loaded = build_image_dataset(str(data), only, files, image_size, progress)
    return _check_not_empty(loaded, "test")


def _check_split(name: str, split: str, splits: Iterable[str]) -> None:
    if split not in splits:
        raise UserError(f"{name}: no part {safe_repr(split)}: {did_you_mean(split, splits)}")


def _rename_to_test_split(dataset: CaptionDataset) -> CaptionDataset:
    """Call the one part of a set its test."""
    (pictures,), (pixels,) = dataset.images.values(), dataset.pixels.values()
    return CaptionDataset(
        dataset.name, {"test": pictures}, {"test": pixels}, dataset.image_stats, dataset.sha256
    )


def _check_not_empty(dataset: CaptionDataset, split: str) -> CaptionDataset:
    if not dataset.images[split]:
        told = f"no picture is left to {split} on: {dataset.image_stats.describe()}"
        raise UserError(f"{truncate(dataset.name, 300)}: {told}")
    return dataset


def _find_captions(name: str) -> Path:
    """Find the file of captions that a name or a path leads to."""
    if name in _MANUAL_DOWNLOADS:
        folders = dataset_folders(name)
        for folder in folders:
            if folder.is_dir() and (found := find_captions_file(folder)):
                return found
        files, home = _MANUAL_DOWNLOADS[name]
        raise UserError(
            f"{name}: not on this machine\nput {files}, from {home}, into {folders[-1]}\n"
            f"or set WORKINGS_DATA to a folder with {name}/ in it that holds them"
        )
    path = Path(name)
    if path.is_dir():
        file = find_captions_file(path)
        if file is None:
            expected = "captions.jsonl, captions.txt, results.csv or captions_train*.json"
            raise UserError(f"{truncate(name, 300)}: no captions in it: expected {expected}")
        return file
    if not path.is_file():
        known = did_you_mean(name, list_caption_datasets())
        raise UserError(f"{truncate(name, 300)}: no file, no folder and no named set: {known}")
    return path


def _open_image_stores(
    captions_path: Path,
    images: Path | None,
    images_by_split: Mapping[str, Sequence[CaptionedImage]],
) -> ImageStoreChain:
    """Open where the pictures are: as told, or every place that has any, beside the captions."""
    folder = images or captions_path.parent
    if images is None and folder.name == "annotations":  # COCO's lie beside folders of pictures
        folder = folder.parent
    names = [picture.name for some in images_by_split.values() for picture in some]
    found, broken = [], ""
    for place in [folder, *sorted(folder.glob("*.zip"))]:
        try:
            files = ImageStore(place)
        except UserError as error:
            if place == folder:
                raise
            broken += f" ({error})"  # an archive that may have nothing to do with it
            continue
        if any(name in files for name in names):
            found.append(files)
        else:
            files.close()
    if found or images is not None:
        return ImageStoreChain(found or [ImageStore(folder)])
    told = "none of its pictures is in its folder, nor in a zip archive there"
    raise UserError(f"{truncate(str(captions_path), 300)}: {told}: say where they are{broken}")


def _hold_out_missing_splits(
    images_by_split: Mapping[str, list[CaptionedImage]], validation: float, test: float, seed: int
) -> dict[str, list[CaptionedImage]]:
    """Hold out of train the parts that are not there: shares of the whole of it."""
    held = {"train": [], "validation": [], "test": [], **images_by_split}
    whole = len(held["train"])
    for part, share in (("test", test), ("validation", validation)):
        if part not in images_by_split:
            held[part], held["train"] = _sample_images(
                held["train"], split_size(share, whole), seed
            )
    return held


def _sample_images(
    images: Sequence[CaptionedImage], count: int, seed: int
) -> tuple[list[CaptionedImage], list[CaptionedImage]]:
    """Draw so many pictures: those and the others, in their order, by name and seed alone."""
    order = sorted(images, key=lambda p: (hash_to_unit_interval(p.name, str(seed)), p.name))
    first = {picture.name for picture in order[:count]}
    rest = [p for p in images if p.name not in first]
    return [p for p in images if p.name in first], rest
