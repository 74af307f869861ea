"""Sets of examples, by name or by path, taken apart into train, validation and test.

A named set is looked for under `WORKINGS_DATA`, then in the user's cache, and is otherwise
downloaded into that cache from where it was published.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from workings.data.builtin import emoji_languages
from workings.data.download import Progress, download, is_good
from workings.data.named import NAMED, NamedSet
from workings.data.readers import Example, read
from workings.data.splits import Splits, hold_out
from workings.errors import UserError, brief, near
from workings.files import check_inside
from workings.locks import locked

BUILT_IN: dict[str, Callable[[], Splits]] = {"emoji-languages": emoji_languages}

_VALIDATION = ("validation", "valid", "val", "dev")


def set_names() -> tuple[str, ...]:
    """Name the sets that `load_set` knows.

    >>> set_names()
    ('emoji-languages', 'imdb', 'rt-polarity')
    """
    return tuple(sorted([*BUILT_IN, *NAMED]))


def load_set(
    data: str | Path,
    *,
    validation: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    format: str | None = None,  # noqa: A002 - the word that people look for
    text: str = "text",
    label: str | None = "label",
    fetch: bool = True,
    progress: Progress | None = None,
) -> Splits:
    """Load a named set, a file, or a folder, and hold out what it does not hold out itself.

    A folder may have `train` and `test` (and `validation`) as files or sub-folders; or it is a
    class a sub-folder. Shares of the training examples are held out, label by label and never a
    text on both sides, for the parts that are not there; the same `seed` holds out the same texts.
    A path that is spelt like a named set is written `./imdb`.
    """
    if min(validation, test) < 0 or validation + test >= 1:
        raise UserError(f"validation = {validation}, test = {test}: nothing is left to train on")
    if str(data) in BUILT_IN:
        return BUILT_IN[str(data)]()
    if str(data) in NAMED:
        chosen = NAMED[str(data)]
        folder = locate(chosen.name, fetch=fetch, progress=progress)
        parts = {part: _named_part(chosen, folder, part) for part in chosen.parts}
        return _splits(chosen.name, parts, validation, test, seed)
    path = Path(data)
    if not path.exists():
        known = set_names()
        raise UserError(f"{data}: neither a file nor a named set: {near(str(data), known)}")
    parts = {
        part: tuple(read(place, format=format if place.is_file() else None, text=text, label=label))
        for part, place in part_places(path).items()
    }
    return _splits(str(data), parts, validation, test, seed)


def _splits(
    name: str, parts: Mapping[str, tuple[Example, ...]], validation: float, test: float, seed: int
) -> Splits:
    train: list[Example] = list(parts["train"] if "train" in parts else next(iter(parts.values())))
    tested: list[Example] = list(parts.get("test", ()))
    valid: list[Example] = list(parts.get("validation", ()))
    whole = len(train)
    if "test" not in parts:
        train, tested = hold_out(train, test, seed=seed)
    if "validation" not in parts:
        # A share of the whole, which the test examples may have left already.
        share = validation * whole / len(train) if len(train) else 0.0
        train, valid = hold_out(train, share, seed=seed + 1)
    return Splits(name, tuple(train), tuple(valid), tuple(tested))


def _named_part(chosen: NamedSet, folder: Path, part: str) -> tuple[Example, ...]:
    place = _file(folder, part)
    assert place is not None
    return tuple(read(place, names=chosen.labels))


def part_places(path: Path) -> dict[str, Path]:
    """Find the parts that a folder holds; a file, or a folder of classes, is all `train`."""
    if path.is_file():
        return {"train": path}
    found: dict[str, Path] = {}
    for place in sorted(path.iterdir()):
        part = part_of(place.name.partition(".")[0])
        if part not in ("train", "validation", "test"):
            continue
        check_inside(place, path)
        if place.is_dir() and not any(p.is_dir() for p in place.iterdir()):
            continue  # a class that happens to have such a name
        if part in found:
            both = f"{brief(found[part].name)} and {brief(place.name)}"
            raise UserError(f"{path}: both {both}: which one?")
        found[part] = place
    return found if "train" in found else {"train": path}


def part_of(stem: str) -> str:
    """Tell the part of a set that files of this name hold; validation has many names.

    >>> part_of("dev"), part_of("train")
    ('validation', 'train')
    """
    return "validation" if stem in _VALIDATION else stem


def locate(name: str, *, fetch: bool = True, progress: Progress | None = None) -> Path:
    """Find the folder of a named set, downloading it first where need be and `fetch` allows."""
    if name not in NAMED:
        raise UserError(f"{name}: no named set that is downloaded: {near(name, NAMED)}")
    chosen = NAMED[name]
    places = set_folders(name)
    cache = places[-1]
    for place in places:
        if _complete(chosen, place):
            return place
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / ".lock"):
            if not _complete(chosen, cache):  # else another process was faster
                _obtain(chosen, cache, places, fetch, progress)
    except OSError as error:
        raise UserError(f"{cache}: {error.strerror}\n{_advice(chosen, cache)}") from None
    return cache


def set_folders(name: str) -> list[Path]:
    """List where a named set may be: under WORKINGS_DATA, if that is set, and in the cache."""
    given = os.environ.get("WORKINGS_DATA")
    return [*([Path(given) / name] if given else []), cache_folder() / "data" / name]


def _obtain(
    chosen: NamedSet, cache: Path, places: list[Path], fetch: bool, progress: Progress | None
) -> None:
    """Prepare a set from its archive: one that somebody put there, or else a fresh one."""
    for place in places:
        if is_good(place / chosen.archive, chosen.mirrors):
            chosen.prepare(place / chosen.archive, cache)
            return
    if not fetch:
        raise UserError(f"{chosen.name}: not on this machine\n{_advice(chosen, cache)}")
    try:
        archive = download(chosen.mirrors, cache / chosen.archive, progress=progress)
    except UserError as error:
        raise UserError(f"{chosen.name}: {error}\n{_advice(chosen, cache)}") from None
    chosen.prepare(archive, cache)
    archive.unlink()  # its texts now stand beside it


def _complete(chosen: NamedSet, folder: Path) -> bool:
    return all(_file(folder, part) for part in chosen.parts)


def _file(folder: Path, part: str) -> Path | None:
    return next(
        (p for end in (".jsonl.gz", ".jsonl") if (p := folder / f"{part}{end}").is_file()), None
    )


def _advice(chosen: NamedSet, cache: Path) -> str:
    files = " and ".join(f"{part}.jsonl.gz" for part in chosen.parts)
    return (
        f"put {chosen.archive}, from {chosen.home}, into {cache}\n"
        f"or set WORKINGS_DATA to a folder with {chosen.name}/ in it that holds {files} "
        f"(a JSON object a line: text, label)"
    )


def cache_folder() -> Path:
    """Where the system wants programs to keep what they can get again."""
    if sys.platform == "win32":
        given = os.environ.get("LOCALAPPDATA")
        return (Path(given) if given else Path.home() / "AppData" / "Local") / "workings" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "workings"
    given = os.environ.get("XDG_CACHE_HOME")
    # The standard says that a relative path is to be ignored.
    base = Path(given) if given and Path(given).is_absolute() else Path.home() / ".cache"
    return base / "workings"
