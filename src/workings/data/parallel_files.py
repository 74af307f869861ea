"""Pairs out of files: two parallel ones, a sentence a line, or two columns of one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from workings.data.datasets import find_split_paths, normalize_split_name
from workings.data.readers import (
    detect_format_by_name,
    get_text,
    read_lines,
    read_records,
    source_name,
)
from workings.errors import UserError, truncate
from workings.io import check_inside

_LINE_BREAKS = re.compile(r"[^\S\r\n]*[\r\n]\s*")
_NO_HEADER_HINT = '; if that is no header, give it one, or train by numbers: source = "1"'


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence, and what it is in the other language."""

    source: str
    target: str


def read_columns(path: Path, source: str, target: str) -> Iterator[SentencePair]:
    """Read two columns of a TSV or CSV file, or two keys of JSON lines.

    Columns that are asked for by number, from 1, are those of a file without a header.
    """
    form = detect_format_by_name(path.name)
    if form is None:
        raise UserError(
            f"{source_name(path)}: its name tells no format: expected .tsv, .csv or .jsonl"
        )
    form = "tsv" if form == "text" else form  # a line of plain text holds no pair, but a tab may
    numbered = form != "jsonl" and _is_number(source) and _is_number(target)
    advice = "" if numbered or form == "jsonl" else _NO_HEADER_HINT
    for row in read_records(path, format=form, numbered_columns=numbered):
        one, other = (get_text(row, column, advice) for column in (source, target))
        yield SentencePair(_to_single_line(one), _to_single_line(other))


def _is_number(column: str) -> bool:
    return column.isascii() and column.isdecimal()


def read_parallel(source: Path, target: Path) -> Iterator[SentencePair]:
    """Read two files whose lines belong together, the first with the first and so on."""
    sides = read_lines(source), read_lines(target)
    counts = [0, 0]
    for both in zip_longest(*sides):
        counts = [number + (line is not None) for number, line in zip(counts, both, strict=True)]
        if counts[0] == counts[1]:
            (_, one), (_, other) = both
            yield SentencePair(_to_single_line(one), _to_single_line(other))
    if not all(counts):
        empty = target if counts[0] else source
        raise UserError(f"{source_name(empty)}: empty: no sentences in it")
    if counts[0] != counts[1]:
        shorter, longer = sorted(zip(counts, (source, target), strict=True), key=lambda s: s[0])
        raise UserError(
            f"{source_name(longer[1])} has {longer[0]:,} lines, {source_name(shorter[1])} {shorter[0]:,}: "
            f"line {shorter[0] + 1:,} has no partner"
        )


def _to_single_line(text: str) -> str:
    """Put a sentence onto one line; what it has inside it otherwise keeps."""
    text = text.strip()
    return _LINE_BREAKS.sub(" ", text) if "\n" in text or "\r" in text else text


def find_side(prefix: Path, suffix: str) -> Path | None:
    """Find one of two parallel files, gzip'd or not.

    >>> find_side(Path("nowhere/train"), "de") is None
    True
    """
    places = (prefix.parent / f"{prefix.name}.{suffix}{packed}" for packed in ("", ".gz"))
    return next((place for place in places if place.is_file()), None)


def read_parallel_prefix(prefix: Path, source: str, target: str) -> Iterator[SentencePair]:
    """Read `PREFIX.SOURCE` and `PREFIX.TARGET`, or say which of the two is missing."""
    places = {ending: find_side(prefix, ending) for ending in (source, target)}
    one, other = places.values()
    if one is None or other is None:
        missing = " and ".join(f"{prefix.name}.{e}" for e, place in places.items() if not place)
        raise UserError(f"{truncate(str(prefix.parent), 300)}: no {truncate(missing)} in it")
    return read_parallel(one, other)


def find_parallel_splits(
    folder: Path, source: str, target: str
) -> dict[str, Iterator[SentencePair]]:
    """Find train, validation and test in a folder: parallel files, or files with columns.

    Where several parts begin with "test" and none is called just so, the first by name is taken.
    """
    stems = list_parallel_stems(folder, source, target)
    found: dict[str, str] = {}
    for stem in stems:
        part = normalize_split_name(stem)
        if part == "validation" and part in found:
            raise UserError(f"{folder}: both {found[part]}.* and {truncate(stem)}.*: which one?")
        if part in ("train", "validation", "test"):
            found[part] = stem
        elif stem.startswith("test"):
            found.setdefault("test", stem)
    if "train" not in found and len(stems) == 1:
        found = {"train": stems[0]}
    if "train" in found:
        parts = {
            p: read_parallel_prefix(folder / stem, source, target) for p, stem in found.items()
        }
        missing = {"validation", "test"} - set(parts)
        return parts | _find_column_splits(folder, source, target, missing)
    places = find_split_paths(folder)
    if not places["train"].is_file():
        both = truncate(f"train.{source} and train.{target}")
        raise UserError(f"{folder}: expected {both} in it, or train.tsv, train.csv or train.jsonl")
    return {part: read_columns(place, source, target) for part, place in places.items()}


def _find_column_splits(
    folder: Path, source: str, target: str, missing: set[str]
) -> dict[str, Iterator[SentencePair]]:
    """Find parts that are files with columns, and refuse one side of two: it would be passed over.

    What else there is, the names of the pictures say, has nothing to do with the pairs.
    """
    found: dict[str, Iterator[SentencePair]] = {}
    for place in sorted(folder.iterdir()):
        stem, _, ending = place.name.removesuffix(".gz").partition(".")
        part = "test" if stem.startswith("test") else normalize_split_name(stem)
        if part not in missing or not place.is_file():
            continue
        if ending in (source, target):
            other = target if ending == source else source
            raise UserError(
                f"{folder}: {truncate(place.name)}, but no {truncate(f'{stem}.{other}')}"
            )
        if ending in ("tsv", "csv", "jsonl") and normalize_split_name(stem) == part:
            if part in found:
                raise UserError(f"{folder}: more than one file for {part}: which one?")
            check_inside(place, folder)
            found[part] = read_columns(place, source, target)
    return found


def list_parallel_stems(folder: Path, source: str, target: str) -> list[str]:
    """Name the files of a folder, without their endings, that are there in both languages."""
    found: dict[str, None] = {}
    for place in sorted(folder.iterdir()):
        bare = place.name.removesuffix(".gz")
        stem = bare.removesuffix(f".{source}")
        other = find_side(folder / stem, target) if stem and stem != bare else None
        if other and place.is_file():
            check_inside(place, folder)
            check_inside(other, folder)
            found[stem] = None
    return list(found)
