"""Pictures and what is said of them, by name or by path, in train, validation and test."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from workings.data.caption_files import Picture, caption_parts, captions_file
from workings.data.caption_set import CaptionSet, Skipped, picture_set, scene_set
from workings.data.download import Progress
from workings.data.pair_splits import part_size
from workings.data.picture_files import PictureFiles, PicturePlaces
from workings.data.pictures import check_size, read_picture
from workings.data.scenes import NAME as SCENES
from workings.data.sets import set_folders
from workings.data.splits import fraction
from workings.errors import UserError, brief, near, shown

__all__ = [
    "CaptionSet",
    "Picture",
    "Skipped",
    "caption_set_names",
    "load_caption_test",
    "load_captions",
    "read_picture",
]

SCENE_COUNTS = {"train": 8000, "validation": 500, "test": 1000, "combinations": 500}
_HOMES = {
    "flickr8k": (
        "Flickr8k.token.txt, Flickr_8k.trainImages.txt, Flickr_8k.devImages.txt, "
        "Flickr_8k.testImages.txt and Flickr8k_Dataset.zip as it is",
        "https://hockenmaier.cs.illinois.edu/8k-pictures.html (for research, by a form)",
    )
}


def caption_set_names() -> tuple[str, ...]:
    """Name the sets that `load_captions` knows.

    >>> caption_set_names()
    ('flickr8k', 'scenes')
    """
    return tuple(sorted([SCENES, *_HOMES]))


def load_captions(
    data: str | Path,
    *,
    size: int = 64,
    validation: float = 0.05,
    test: float = 0.1,
    images: Path | None = None,
    most: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CaptionSet:
    """Load a named set, a file of captions or a folder with one; prepare its pictures once.

    Pictures become `size` pixels wide and high. They are in the folder or zip archive `images`, or
    else beside the captions: in that folder, in one of those in it, or in a zip archive there.
    Parts that the captions do not tell are held out by picture, by the seed, as shares of all.
    `most` is how many pictures to train on at most; of scenes, of which there is no end, how many.
    """
    check_size(size)
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise UserError(f"validation = {validation}, test = {test}: nothing is left to train on")
    if most is not None and most < 1:
        raise UserError(f"most = {most}: at least one picture to train on")
    name = str(data)
    if name == SCENES:
        counts = {part: SCENE_COUNTS[part] for part in ("train", "validation", "test")}
        return scene_set(name, counts | ({"train": most} if most else {}), size, seed, progress)
    path = _captions_path(name)
    parts = _held_out(caption_parts(path), validation, test, seed)
    if most:
        parts["train"], _ = _drawn(parts["train"], most, seed)
    with closing(_beside(path, images, parts)) as files:
        loaded = picture_set(name, parts, files, size, progress)
    return _checked(loaded, "train")


def load_caption_test(
    data: str | Path,
    *,
    size: int = 64,
    images: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CaptionSet:
    """Load what captions are tested on, as one part, "test".

    A named set's test part, or another part of it ("scenes/combinations"); of a file, the test part
    that it tells, or all of it.
    """
    check_size(size)
    name, _, part = str(data).partition("/")
    if name == SCENES and images is not None:
        raise UserError(f"{SCENES} are drawn here: there is no place where they are")
    if name == SCENES:
        part = part or "test"
        _check_part(SCENES, part, SCENE_COUNTS)
        counts = {part: SCENE_COUNTS[part]}
        return _as_test(scene_set(str(data), counts, size, seed, progress))
    if name not in _HOMES:
        name, part = str(data), ""
    path = _captions_path(name)
    parts = caption_parts(path)
    if part:
        _check_part(name, part, parts)
    told = part or ("test" if "test" in parts else "")
    all_of_it = [p for name, some in parts.items() if name != "unused" for p in some]
    only = {"test": parts[told] if told else all_of_it}
    with closing(_beside(path, images, only)) as files:
        loaded = picture_set(str(data), only, files, size, progress)
    return _checked(loaded, "test")


def _check_part(name: str, part: str, parts: Iterable[str]) -> None:
    if part not in parts:
        raise UserError(f"{name}: no part {shown(part)}: {near(part, parts)}")


def _as_test(loaded: CaptionSet) -> CaptionSet:
    """Call the one part of a set its test."""
    (pictures,), (pixels,) = loaded.pictures.values(), loaded.pixels.values()
    return CaptionSet(
        loaded.name, {"test": pictures}, {"test": pixels}, loaded.skipped, loaded.sha256
    )


def _checked(loaded: CaptionSet, part: str) -> CaptionSet:
    if not loaded.pictures[part]:
        told = f"no picture is left to {part} on: {loaded.skipped.told()}"
        raise UserError(f"{brief(loaded.name, 300)}: {told}")
    return loaded


def _captions_path(name: str) -> Path:
    """Find the file of captions that a name or a path leads to."""
    if name in _HOMES:
        folders = set_folders(name)
        for folder in folders:
            if folder.is_dir() and (found := captions_file(folder)):
                return found
        files, home = _HOMES[name]
        raise UserError(
            f"{name}: not on this machine\nput {files}, from {home}, into {folders[-1]}\n"
            f"or set WORKINGS_DATA to a folder with {name}/ in it that holds them"
        )
    path = Path(name)
    if path.is_dir():
        file = captions_file(path)
        if file is None:
            expected = "captions.jsonl, captions.txt, results.csv or captions_train*.json"
            raise UserError(f"{brief(name, 300)}: no captions in it: expected {expected}")
        return file
    if not path.is_file():
        known = near(name, caption_set_names())
        raise UserError(f"{brief(name, 300)}: no file, no folder and no named set: {known}")
    return path


def _beside(
    captions: Path, images: Path | None, parts: Mapping[str, Sequence[Picture]]
) -> PicturePlaces:
    """Open where the pictures are: as told, or every place that has any, beside the captions."""
    folder = images or captions.parent
    if images is None and folder.name == "annotations":  # COCO's lie beside folders of pictures
        folder = folder.parent
    names = [picture.name for some in parts.values() for picture in some]
    found, broken = [], ""
    for place in [folder, *sorted(folder.glob("*.zip"))]:
        try:
            files = PictureFiles(place)
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
        return PicturePlaces(found or [PictureFiles(folder)])
    told = "none of its pictures is in its folder, nor in a zip archive there"
    raise UserError(f"{brief(str(captions), 300)}: {told}: say where they are{broken}")


def _held_out(
    parts: Mapping[str, list[Picture]], validation: float, test: float, seed: int
) -> dict[str, list[Picture]]:
    """Hold out of train the parts that are not there: shares of the whole of it."""
    held = {"train": [], "validation": [], "test": [], **parts}
    whole = len(held["train"])
    for part, share in (("test", test), ("validation", validation)):
        if part not in parts:
            held[part], held["train"] = _drawn(held["train"], part_size(share, whole), seed)
    return held


def _drawn(
    pictures: Sequence[Picture], number: int, seed: int
) -> tuple[list[Picture], list[Picture]]:
    """Draw so many pictures: those and the others, in their order, by name and seed alone."""
    order = sorted(pictures, key=lambda p: (fraction(p.name, str(seed)), p.name))
    first = {picture.name for picture in order[:number]}
    rest = [p for p in pictures if p.name not in first]
    return [p for p in pictures if p.name in first], rest
