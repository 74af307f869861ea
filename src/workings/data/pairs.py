"""Sets of pairs to learn translation from, by name or by path, in train, validation and test."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from workings.data.download import Progress
from workings.data.emoji_pairs import NAME as EMOJI_NAMES
from workings.data.emoji_pairs import emoji_names
from workings.data.named_pairs import NAMED_PAIRS
from workings.data.pair_files import (
    Pair,
    folder_parts,
    parallel_part,
    parallel_stems,
    read_columns,
    side,
)
from workings.data.pair_splits import Cleaned, PairSplits, clean, hold_out_pairs, part_size
from workings.data.sets import part_of
from workings.errors import UserError, brief, near, shown

__all__ = [
    "Cleaned",
    "Pair",
    "PairSplits",
    "load_pairs",
    "load_part",
    "load_test",
    "pair_set_names",
]


def pair_set_names() -> tuple[str, ...]:
    """Name the sets that `load_pairs` knows.

    >>> pair_set_names()
    ('emoji-names', 'eng-fra', 'multi30k')
    """
    return tuple(sorted([EMOJI_NAMES, *NAMED_PAIRS]))


def load_pairs(
    data: str | Path,
    *,
    source: str,
    target: str,
    validation: float = 0.05,
    test: float = 0.05,
    longest: int = 100,
    ratio: float = 3.0,
    seed: int = 0,
    fetch: bool = True,
    progress: Progress | None = None,
) -> PairSplits:
    """Load a named set, files or a folder; hold out what is not held out, and clean train alone.

    `source` and `target` are languages of a named set; columns (or keys) of a TSV, CSV or JSONL
    file, by name, or by number from 1 where it has no header; or else the endings of two parallel
    files: "folder/train" with "de" and "en" is `folder/train.de` and `folder/train.en`, gzip'd or
    not. A folder has `train.*`, and may have `validation.*` and `test*.*`. From train are left out:
    empty sides, sides of more than `longest` words, and pairs of which one side has more than
    `ratio` times the other's words, of which it has three at least. The same `seed` holds out the
    same pairs, and no sentence of either language stands on both sides.
    """
    _check(source, target, validation, test, longest, ratio)
    name = str(data)
    if name == EMOJI_NAMES:
        parts = emoji_names(source, target, validation=validation, test=test, seed=seed)
    elif name in NAMED_PAIRS:
        chosen = NAMED_PAIRS[name]
        parts = {
            part: chosen.read(part, source, target, fetch=fetch, progress=progress)
            for part in ("train", "validation", "test")
            if part in chosen.parts
        }
    else:
        parts = _read(Path(data), source, target)
    held = _held_out(name, parts, validation, test, seed)
    train, cleaned = clean(held["train"], longest, ratio)
    if not train:
        raise UserError(f"{brief(name, 300)}: no pair is left to train on: {cleaned.told()}")
    return PairSplits(name, tuple(train), tuple(held["validation"]), tuple(held["test"]), cleaned)


def load_part(
    data: str | Path,
    part: str,
    *,
    source: str,
    target: str,
    fetch: bool = True,
    progress: Progress | None = None,
) -> tuple[Pair, ...]:
    """Load one part, as it stands: of a named set, or two parallel files of a folder.

    `load_part("multi30k", "test_2017_flickr", source="en", target="de")` is another test.
    """
    if str(data) in NAMED_PAIRS:
        chosen = NAMED_PAIRS[str(data)]
        return tuple(chosen.read(part, source, target, fetch=fetch, progress=progress))
    if not Path(data).is_dir():
        known = near(str(data), NAMED_PAIRS)
        raise UserError(f"{brief(str(data), 300)}: neither a folder nor a named set: {known}")
    return tuple(parallel_part(Path(data) / part, source, target))


def load_test(
    data: str | Path, *, source: str, target: str, fetch: bool = True
) -> tuple[Pair, ...]:
    """Load what a translator is tested on, nothing left out.

    A named set's test part, or another part of it ("multi30k/test_2017_flickr"); that of a folder;
    or all pairs of a file, or of two that begin so.
    """
    name, _, part = str(data).partition("/")
    of_a_folder = part and side(Path(data), source)  # one that is called as the set is
    if name in NAMED_PAIRS and (part or "test" in NAMED_PAIRS[name].parts) and not of_a_folder:
        return load_part(name, part or "test", source=source, target=target, fetch=fetch)
    if str(data) in pair_set_names():  # what a recipe that says no more would hold out
        return load_pairs(data, source=source, target=target, fetch=fetch).test
    parts = _read(Path(data), source, target)
    if "test" not in parts:
        _check_not_to_train_on(Path(data), source, target)
    return tuple(parts.get("test", parts["train"]))


def _check(
    source: str, target: str, validation: float, test: float, longest: int, ratio: float
) -> None:
    if source == target:
        raise UserError(f"source and target are both {shown(source)}: they must be two")
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise UserError(f"validation = {validation}, test = {test}: nothing is left to train on")
    for name, value in (("longest", longest), ("ratio", ratio)):
        if not value >= 1:
            raise UserError(f"{name} = {value}: it must be at least 1")


def _read(path: Path, source: str, target: str) -> dict[str, list[Pair]]:
    """Read what a path leads to: a file with columns, a folder, or two files that begin so."""
    sides = side(path, source), side(path, target)
    if path.is_dir() and not all(sides):  # what bears the very name comes first
        return {part: list(some) for part, some in folder_parts(path, source, target).items()}
    if any(sides):
        return {"train": list(parallel_part(path, source, target))}
    if path.is_file():
        _check_not_a_side(path, source, target)
        return {"train": list(read_columns(path, source, target))}
    known = near(str(path), pair_set_names())
    both = brief(f"{path.name}.{source} and {path.name}.{target}")
    told = f"no file, no folder, no {both}, and no named set: {known}"
    raise UserError(f"{brief(str(path), 300)}: {told}")


def _check_not_to_train_on(path: Path, source: str, target: str) -> None:
    """Refuse a folder that has a part to train on, but none to test on."""
    if not path.is_dir() or side(path, source) or side(path, target):
        return
    found = {part_of(stem) for stem in parallel_stems(path, source, target)}
    if not found or "train" in found:
        both = brief(f"test.{source} and test.{target}")
        raise UserError(f"{brief(str(path), 300)}: nothing to test on: no {both}, and no test.tsv")


def _check_not_a_side(path: Path, source: str, target: str) -> None:
    bare = str(path).removesuffix(".gz")
    for ending in (source, target):
        if bare.endswith(f".{ending}"):
            told = f"one side of two: give {bare.removesuffix(f'.{ending}')}"
            raise UserError(f"{brief(str(path), 300)}: {brief(told, 300)}")


def _held_out(
    name: str, parts: Mapping[str, Sequence[Pair]], validation: float, test: float, seed: int
) -> dict[str, Sequence[Pair]]:
    """Hold out of train the parts that are not there: shares of the whole of it."""
    shares = {"test": test, "validation": validation}
    missing = [part for part, share in shares.items() if share and part not in parts]
    whole = len(parts["train"])
    if whole <= len(missing):
        only = "one pair only" if whole == 1 else f"{whole} pairs only"
        beside = " and ".join(missing)
        raise UserError(f"{brief(name, 300)}: {only}: nothing is left to train on beside {beside}")
    counts = (part_size(shares[part], whole) for part in missing)
    try:
        train, *held = hold_out_pairs(parts["train"], *counts, seed=seed)
    except UserError as error:
        raise UserError(f"{brief(name, 300)}: {error}") from None
    empty: dict[str, Sequence[Pair]] = {"validation": (), "test": ()}
    return {**empty, **parts, "train": train, **dict(zip(missing, held, strict=True))}
