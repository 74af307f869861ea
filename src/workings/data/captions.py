"""Image captioning datasets: captions, and pixels that are decoded once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workings.data.cache import dataset_folders, open_cached_array
from workings.data.caption_files import CaptionedImage, find_captions_file, read_caption_splits
from workings.data.datasets import SPLITS
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
from workings.data.scenes import SCENES, Scene, draw_scene, generate_scenes
from workings.data.splits import (
    check_split_fractions,
    compute_checksum,
    hash_to_unit_interval,
    hold_out_missing_splits,
    split_size,
)
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.file_array import FileArray

__all__ = [
    "CaptionDataset",
    "CaptionedImage",
    "ImageStats",
    "list_caption_datasets",
    "load_captions",
    "load_test_captions",
    "read_image",
]

PREPROCESSING_VERSION = 1
"""To be raised when preprocessing or scenes change: files cached before are not used then."""
SCENES_PER_SPLIT = {"train": 8000, "validation": 500, "test": 1000, "combinations": 500}

_MANUAL_DOWNLOADS = {
    "flickr8k": (
        "Flickr8k.token.txt, Flickr_8k.trainImages.txt, Flickr_8k.devImages.txt, "
        "Flickr_8k.testImages.txt and Flickr8k_Dataset.zip as it is",
        "https://hockenmaier.cs.illinois.edu/8k-pictures.html (for research, by a form)",
    )
}
_EXCLUDING_ISSUES = {
    ImageIssue.MISSING: "missing",
    ImageIssue.UNREADABLE: "unreadable",
    ImageIssue.TRUNCATED: "truncated",
    ImageIssue.TOO_LARGE: "too large",
}
_CONVERTED_ISSUES = {
    ImageIssue.GRAYSCALE: "grayscale",
    ImageIssue.TRANSPARENT: "transparent",
    ImageIssue.MISNAMED: "misnamed",
}

StepCallback = Callable[[], None]


@dataclass(frozen=True)
class ImageStats:
    """How many images are used, and the names of those left out or converted, by reason."""

    num_used: int
    names_by_issue: Mapping[str, tuple[str, ...]]

    @property
    def counts(self) -> dict[str, int]:
        """The number of images by reason."""
        return {issue: len(names) for issue, names in self.names_by_issue.items()}

    def describe(self) -> str:
        """Return the counts as one line, with the first names.

        >>> ImageStats(99, {"missing": ("a.jpg",), "grayscale": ("b.png", "c.png")}).describe()
        '99 images; left out: 1 missing (a.jpg); converted: 2 grayscale (b.png, c.png)'
        >>> ImageStats(100, {}).describe()
        '100 images; none left out'
        """
        converted: dict[str, tuple[str, ...]] = {}
        excluded: dict[str, tuple[str, ...]] = {}
        for issue, names in self.names_by_issue.items():
            (converted if issue in _CONVERTED_ISSUES.values() else excluded)[issue] = names
        parts = [
            f"{self.num_used:,} images",
            f"left out: {_format_issues(excluded)}" if excluded else "none left out",
        ]
        if converted:
            parts.append(f"converted: {_format_issues(converted)}")
        return "; ".join(parts)


def _format_issues(names_by_issue: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for issue, names in names_by_issue.items():
        first = ", ".join(truncate(name, 40) for name in names[:3])
        parts.append(f"{len(names):,} {issue} ({first}{', …' if len(names) > 3 else ''})")
    return ", ".join(parts)


@dataclass(frozen=True)
class CaptionDataset:
    """Captioned images by split, their pixels in the same order, and statistics."""

    name: str
    images: Mapping[str, tuple[CaptionedImage, ...]]
    pixels: Mapping[str, FileArray]
    """`[image, size, size, 3]` of bytes for each split."""
    image_stats: ImageStats
    sha256: str

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(images):,} {split}" for split, images in self.images.items())
        return f"CaptionDataset({self.name!r}: {counts})"


def list_caption_datasets() -> tuple[str, ...]:
    """Return the names of the datasets that `load_captions` knows.

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
    """Load a named dataset, a caption file or a folder with one, and preprocess its images.

    Images are resized to `image_size` pixels. They are in the folder or zip archive `images`; or in
    the folder of the caption file, its sub-folders or zip archives. Splits that the captions do not
    state are fractions of the images, held out by name and seed. `max_images` limits the training
    images; of scenes it is their number.
    """
    check_image_size(image_size)
    check_split_fractions(validation, test)
    if max_images is not None and max_images < 1:
        raise UserError(f"max_images = {max_images}: expected at least 1")
    name = str(data)
    if name == SCENES:
        counts = {split: SCENES_PER_SPLIT[split] for split in SPLITS}
        if max_images:
            counts["train"] = max_images
        return build_scene_dataset(name, counts, image_size, seed, progress)
    path = _find_captions(name)

    def hold_out(
        train: Sequence[CaptionedImage], fractions: Mapping[str, float]
    ) -> dict[str, list[CaptionedImage]]:
        held, rest = {}, list(train)
        for split, fraction in fractions.items():
            held[split], rest = _sample_images(rest, split_size(fraction, len(train)), seed)
        return {"train": rest, **held}

    splits = hold_out_missing_splits(read_caption_splits(path), validation, test, hold_out)
    if max_images:
        splits["train"], _ = _sample_images(splits["train"], max_images, seed)
    with closing(_open_image_stores(path, images, splits)) as stores:
        dataset = build_image_dataset(name, splits, stores, image_size, progress)
    return _check_not_empty(dataset, "train")


def load_test_captions(
    data: str | Path,
    *,
    image_size: int = 64,
    images: Path | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> CaptionDataset:
    """Load captioned images to test on, as the split "test".

    These are the test split of a named dataset, or another one ("scenes/combinations"); or the test
    split of a caption file, or all of it if it states no splits.
    """
    check_image_size(image_size)
    name, _, split = str(data).partition("/")
    if name == SCENES:
        if images is not None:
            raise UserError(f"{SCENES} are generated: leave out the folder of images")
        split = split or "test"
        _check_split(SCENES, split, SCENES_PER_SPLIT)
        counts = {split: SCENES_PER_SPLIT[split]}
        return _rename_to_test_split(
            build_scene_dataset(str(data), counts, image_size, seed, progress)
        )
    if name not in _MANUAL_DOWNLOADS:
        name, split = str(data), ""
    path = _find_captions(name)
    splits = read_caption_splits(path)
    if split:
        _check_split(name, split, splits)
        test = splits[split]
    elif "test" in splits:
        test = splits["test"]
    else:
        used = (images for name, images in splits.items() if name != "unused")
        test = list(chain.from_iterable(used))
    only_test = {"test": test}
    with closing(_open_image_stores(path, images, only_test)) as stores:
        dataset = build_image_dataset(str(data), only_test, stores, image_size, progress)
    return _check_not_empty(dataset, "test")


def _check_split(name: str, split: str, splits: Iterable[str]) -> None:
    if split not in splits:
        raise UserError(f"{name}: no split {safe_repr(split)}: {did_you_mean(split, splits)}")


def _rename_to_test_split(dataset: CaptionDataset) -> CaptionDataset:
    """Return a dataset of one split with that split as "test"."""
    (images,), (pixels,) = dataset.images.values(), dataset.pixels.values()
    return CaptionDataset(
        dataset.name, {"test": images}, {"test": pixels}, dataset.image_stats, dataset.sha256
    )


def _check_not_empty(dataset: CaptionDataset, split: str) -> CaptionDataset:
    if not dataset.images[split]:
        raise UserError(
            f"{truncate(dataset.name, 300)}: no image is left to {split} on: "
            f"{dataset.image_stats.describe()}"
        )
    return dataset


def _find_captions(name: str) -> Path:
    """Return the caption file of a named dataset, a folder or a path."""
    if name in _MANUAL_DOWNLOADS:
        folders = dataset_folders(name)
        for folder in folders:
            if folder.is_dir() and (file := find_captions_file(folder)):
                return file
        files, homepage = _MANUAL_DOWNLOADS[name]
        raise UserError(
            f"{name} is not on this machine\nput {files}, from {homepage}, into {folders[-1]}\n"
            f"or set WORKINGS_DATA to a folder with {name}/ that has them"
        )
    path = Path(name)
    if path.is_dir():
        file = find_captions_file(path)
        if file is None:
            expected = "captions.jsonl, captions.txt, results.csv or captions_train*.json"
            raise UserError(f"{truncate(name, 300)}: no captions there: expected {expected}")
        return file
    if not path.is_file():
        suggestion = did_you_mean(name, list_caption_datasets())
        raise UserError(
            f"{truncate(name, 300)}: no such file or folder, and no named dataset: {suggestion}"
        )
    return path


def _open_image_stores(
    captions_path: Path,
    images: Path | None,
    images_by_split: Mapping[str, Sequence[CaptionedImage]],
) -> ImageStoreChain:
    """Open the given folder or archive of images, or all beside the captions that have any."""
    folder = images or captions_path.parent
    if images is None and folder.name == "annotations":  # COCO's images are beside this folder
        folder = folder.parent
    names = [image.name for split_images in images_by_split.values() for image in split_images]
    stores, broken = [], ""
    for path in [folder, *sorted(folder.glob("*.zip"))]:
        try:
            store = ImageStore(path)
        except UserError as error:
            if path == folder:
                raise
            broken += f" ({error})"  # this archive may be unrelated
            continue
        if any(name in store for name in names):
            stores.append(store)
        else:
            store.close()
    if stores or images is not None:
        return ImageStoreChain(stores or [ImageStore(folder)])
    raise UserError(
        f"{truncate(str(captions_path), 300)}: none of its images is in its folder, nor in a zip "
        f"archive there: give the folder of the images{broken}"
    )


def _sample_images(
    images: Sequence[CaptionedImage], count: int, seed: int
) -> tuple[list[CaptionedImage], list[CaptionedImage]]:
    """Sample images by a hash of name and seed: (sampled, the rest), in their order."""
    order = sorted(images, key=lambda i: (hash_to_unit_interval(i.name, str(seed)), i.name))
    sampled = {image.name for image in order[:count]}
    rest = [i for i in images if i.name not in sampled]
    return [i for i in images if i.name in sampled], rest


def build_scene_dataset(
    name: str, counts: Mapping[str, int], size: int, seed: int, progress: ProgressCallback | None
) -> CaptionDataset:
    """Draw the first scenes that `generate_scenes(split, seed)` yields, `counts[split]` of each."""
    on_step = _make_step_callback(sum(counts.values()), progress)
    images: dict[str, tuple[CaptionedImage, ...]] = {}
    pixels: dict[str, PixelCache] = {}
    for split, split_count in counts.items():
        scenes = list(islice(generate_scenes(split, seed), split_count))
        pixels[split] = render_scenes(scenes, size, on_step)
        images[split] = tuple(
            CaptionedImage(f"{split}/{k}", (scene.caption,)) for k, scene in enumerate(scenes, 1)
        )
    return _assemble_dataset(name, images, pixels, {})


def build_image_dataset(
    name: str,
    images_by_split: Mapping[str, Sequence[CaptionedImage]],
    store: ImageStoreChain,
    size: int,
    progress: ProgressCallback | None,
) -> CaptionDataset:
    """Preprocess the images of each split, or load them from the cache.

    Images without captions, those of the split "unused", and those that cannot be decoded are left
    out.
    """
    issues: dict[str, list[str]] = {}
    for images in images_by_split.values():
        _add_issue(issues, "without captions", (i.name for i in images if not i.captions))
    unused = images_by_split.get("unused", ())
    _add_issue(issues, "in no split", (i.name for i in unused if i.captions))
    captioned = {
        split: [i for i in images if i.captions]
        for split, images in images_by_split.items()
        if split != "unused"
    }
    on_step = _make_step_callback(sum(map(len, captioned.values())), progress)
    used: dict[str, tuple[CaptionedImage, ...]] = {}
    pixels: dict[str, PixelCache] = {}
    for split, images in captioned.items():
        pixels[split] = load_pixels(store, [i.name for i in images], size, on_step)
        flagged = list(zip(images, pixels[split].issues, strict=True))
        used[split] = tuple(
            image for image, flags in flagged if not any(flags & f for f in _EXCLUDING_ISSUES)
        )
        for flag, issue in (_EXCLUDING_ISSUES | _CONVERTED_ISSUES).items():
            _add_issue(issues, issue, (image.name for image, flags in flagged if flags & flag))
    return _assemble_dataset(name, used, pixels, issues)


def _add_issue(names_by_issue: dict[str, list[str]], issue: str, names: Iterable[str]) -> None:
    """Add names to an issue, which is created only if there are any."""
    for name in names:
        names_by_issue.setdefault(issue, []).append(name)


def _assemble_dataset(
    name: str,
    images: Mapping[str, tuple[CaptionedImage, ...]],
    pixels: Mapping[str, "PixelCache"],
    names_by_issue: Mapping[str, Sequence[str]],
) -> CaptionDataset:
    stats = ImageStats(
        sum(map(len, images.values())),
        {issue: tuple(names) for issue, names in names_by_issue.items()},
    )
    captions = (((i.name, c) for i in split for c in i.captions) for split in images.values())
    checksums = [compute_checksum(captions), *(cache.sha256 for cache in pixels.values())]
    checksum = sha256(" ".join(checksums).encode()).hexdigest()
    pixels_by_split = {split: cache.pixels for split, cache in pixels.items()}
    return CaptionDataset(name, images, pixels_by_split, stats, checksum)


def _make_step_callback(total: int, progress: ProgressCallback | None) -> StepCallback:
    steps = count(1)
    return lambda: progress(next(steps), total) if progress else None


@dataclass(frozen=True)
class PixelCache:
    """The pixels of usable images, the issues of all requested images, and a checksum."""

    pixels: FileArray
    """`[used, size, size, 3]`"""
    issues: tuple[ImageIssue, ...]
    sha256: str


def load_pixels(
    store: ImageStoreChain, names: Sequence[str], size: int, on_step: StepCallback
) -> PixelCache:
    """Preprocess images, or load them from the cache; unusable ones are left out."""
    fingerprints = "".join(f"\n{name}\0{store.fingerprint(name)}" for name in names)
    chunks = _decode_images(store, names, size, on_step)
    return _open_pixel_cache(f"images {fingerprints}", size, len(names), chunks)


def _decode_images(
    store: ImageStoreChain, names: Sequence[str], size: int, on_step: StepCallback
) -> Iterator[NDArray[np.uint8]]:
    issues = []
    for name in names:
        try:
            pixels, issue = preprocess_image(store.read(name), size, name)
            yield pixels
        except UnusableImageError as error:
            issue = error.issue
        issues.append(issue)
        on_step()
    yield np.array(issues, dtype=np.uint8)


def render_scenes(scenes: Sequence[Scene], size: int, on_step: StepCallback) -> PixelCache:
    """Draw scenes, or load them from the cache; the key is their repr, which is complete."""

    def draw() -> Iterator[NDArray[np.uint8]]:
        for scene in scenes:
            yield draw_scene(scene, size)
            on_step()
        yield np.zeros(len(scenes), dtype=np.uint8)

    digest = sha256(repr(scenes).encode()).hexdigest()
    return _open_pixel_cache(f"scenes {digest}", size, len(scenes), draw())


def _open_pixel_cache(
    key: str, size: int, count: int, chunks: Iterator[NDArray[np.uint8]]
) -> PixelCache:
    """Open a cached array of the pixels of usable images, followed by a byte of issues for each."""
    full_key = f"{PREPROCESSING_VERSION} {size} {count} {key}"
    raw, digest = open_cached_array("images", full_key, "uint8", lambda: chunks)
    pixels = raw.split_rows((len(raw) - count) // (3 * size * size), (size, size, 3))
    issues = tuple(ImageIssue(int(flags)) for flags in raw[len(raw) - count :])
    return PixelCache(pixels, issues, digest)
