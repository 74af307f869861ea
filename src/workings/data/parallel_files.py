"""Readers of sentence pairs: two parallel files with one sentence per line, or two columns."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from workings.data.datasets import SPLITS, find_split_paths, normalize_split_name
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
_NO_HEADER_HINT = '; if the file has no header, give columns by number: source = "1"'


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation."""

    source: str
    target: str


def read_columns(path: Path, source: str, target: str) -> Iterator[SentencePair]:
    """Read two columns of a TSV or CSV file, or two keys of JSON lines.

    Columns given by number, from 1, are those of a file without a header.
    """
    file_format = detect_format_by_name(path.name)
    if file_format is None:
        raise UserError(
            f"{source_name(path)}: unknown file name suffix: expected .tsv, .csv or .jsonl"
        )
    if file_format == "text":
        file_format = "tsv"  # lines of plain text are pairs if a tab separates the sentences
    is_numbered = file_format != "jsonl" and _is_number(source) and _is_number(target)
    hint = "" if is_numbered or file_format == "jsonl" else _NO_HEADER_HINT
    for record in read_records(path, format=file_format, numbered_columns=is_numbered):
        texts = (get_text(record, column, hint) for column in (source, target))
        yield SentencePair(*map(_to_single_line, texts))


def _is_number(column: str) -> bool:
    return column.isascii() and column.isdecimal()


def read_parallel(source: Path, target: Path) -> Iterator[SentencePair]:
    """Read two files in which equal line numbers are translations of each other."""
    counts = [0, 0]
    for lines in zip_longest(read_lines(source), read_lines(target)):
        counts = [n + (line is not None) for n, line in zip(counts, lines, strict=True)]
        if counts[0] == counts[1]:
            (_, source_line), (_, target_line) = lines
            yield SentencePair(_to_single_line(source_line), _to_single_line(target_line))
    if not all(counts):
        empty = target if counts[0] else source
        raise UserError(f"{source_name(empty)}: empty: no sentences")
    if counts[0] != counts[1]:
        (fewer, shorter), (more, longer) = sorted(zip(counts, (source, target), strict=True))
        raise UserError(
            f"{source_name(longer)} has {more:,} lines, {source_name(shorter)} has {fewer:,}: "
            f"line {fewer + 1:,} has no translation"
        )


def _to_single_line(text: str) -> str:
    """Strip a sentence, and replace line breaks in it by spaces."""
    text = text.strip()
    return _LINE_BREAKS.sub(" ", text) if "\n" in text or "\r" in text else text


def find_side(prefix: Path, suffix: str) -> Path | None:
    """Return the path of `PREFIX.SUFFIX`, gzipped or not, or None if there is no such file.

    >>> find_side(Path("nowhere/train"), "de") is None
    True
    """
    paths = (prefix.parent / f"{prefix.name}.{suffix}{gz}" for gz in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def read_parallel_prefix(prefix: Path, source: str, target: str) -> Iterator[SentencePair]:
    """Read `PREFIX.SOURCE` and `PREFIX.TARGET`; raise UserError if one is missing."""
    paths = {suffix: find_side(prefix, suffix) for suffix in (source, target)}
    source_path, target_path = paths.values()
    if source_path is None or target_path is None:
        missing = " and ".join(f"{prefix.name}.{s}" for s, path in paths.items() if not path)
        raise UserError(f"{truncate(str(prefix.parent), 300)}: no {truncate(missing)} there")
    return read_parallel(source_path, target_path)


def find_parallel_splits(
    folder: Path, source: str, target: str
) -> dict[str, Iterator[SentencePair]]:
    """Find train, validation and test in a folder: parallel files, or files with columns.

    If no file is named "test", the first by name that begins with "test" is taken.
    """
    stems = list_parallel_stems(folder, source, target)
    stem_of: dict[str, str] = {}
    for stem in stems:
        split = normalize_split_name(stem)
        if split == "validation" and split in stem_of:
            raise UserError(
                f"{folder}: both {stem_of[split]}.* and {truncate(stem)}.* are there: "
                "expected one validation split"
            )
        if split in SPLITS:
            stem_of[split] = stem
        elif stem.startswith("test"):
            stem_of.setdefault("test", stem)
    if "train" not in stem_of and len(stems) == 1:
        stem_of = {"train": stems[0]}
    if "train" in stem_of:
        splits = {
            split: read_parallel_prefix(folder / stem, source, target)
            for split, stem in stem_of.items()
        }
        missing = {"validation", "test"} - set(splits)
        return splits | _find_column_splits(folder, source, target, missing)
    paths = find_split_paths(folder)
    if not paths["train"].is_file():
        files = truncate(f"train.{source} and train.{target}")
        raise UserError(f"{folder}: expected {files}, or train.tsv, train.csv or train.jsonl")
    return {split: read_columns(path, source, target) for split, path in paths.items()}


def _find_column_splits(
    folder: Path, source: str, target: str, missing: set[str]
) -> dict[str, Iterator[SentencePair]]:
    """Find missing splits that are files with columns; refuse one of two parallel files.

    Other files, for example the names of images, are ignored.
    """
    splits: dict[str, Iterator[SentencePair]] = {}
    for path in sorted(folder.iterdir()):
        stem, _, suffix = path.name.removesuffix(".gz").partition(".")
        split = "test" if stem.startswith("test") else normalize_split_name(stem)
        if split not in missing or not path.is_file():
            continue
        if suffix in (source, target):
            other = target if suffix == source else source
            raise UserError(
                f"{folder}: {truncate(path.name)} is there, but no {truncate(f'{stem}.{other}')}"
            )
        if suffix in ("tsv", "csv", "jsonl") and normalize_split_name(stem) == split:
            if split in splits:
                raise UserError(f"{folder}: more than one file for {split}: expected one")
            check_inside(path, folder)
            splits[split] = read_columns(path, source, target)
    return splits


def list_parallel_stems(folder: Path, source: str, target: str) -> list[str]:
    """Return the names, without suffix, of the files that are there in both languages."""
    stems: dict[str, None] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".gz")
        stem = name.removesuffix(f".{source}")
        other = find_side(folder / stem, target) if stem and stem != name else None
        if other and path.is_file():
            check_inside(path, folder)
            check_inside(other, folder)
            stems[stem] = None
    return list(stems)
