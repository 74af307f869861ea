"""Sentence pairs: read from two parallel files or two columns, filtered, and split.

One English sentence may have ten French translations, each of which has other English ones: pairs
that share a sentence, directly or through other pairs, are in the same split. Sentences that differ
in case and punctuation only count as equal: having seen "Run!", a model knows "Run.".
"""

import re
import unicodedata
from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from workings.data.datasets import SPLITS, find_split_paths, normalize_split_name
from workings.data.readers import (
    Record,
    detect_format_by_name,
    get_text,
    read_lines,
    read_records,
    source_name,
)
from workings.data.splits import compute_checksum, hash_to_unit_interval
from workings.errors import UserError, truncate
from workings.io import check_inside

if TYPE_CHECKING:
    from workings.ragged import RaggedArray

MIN_RATIO_WORDS = 3
"""A shorter side counts as this many words in the length ratio: "Help!", "À l'aide !"."""

CJK_RANGES = "\u3040-\u30ff\u3400-\u9fff"
"""Chinese and Japanese characters, which are written without spaces between words."""
_WORD = re.compile(f"[{CJK_RANGES}]|[^\\s{CJK_RANGES}]+")
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
    file_format = "folder" if path.is_dir() else detect_format_by_name(path.name)
    if file_format is None:
        raise UserError(
            f"{source_name(path)}: unknown file name suffix: expected .tsv, .csv, .jsonl, .parquet "
            "or .arrow"
        )
    if file_format == "text":
        file_format = "tsv"  # lines of plain text are pairs if a tab separates the sentences
    has_header = file_format in ("csv", "tsv")
    is_numbered = has_header and _is_number(source) and _is_number(target)
    hint = _NO_HEADER_HINT if has_header and not is_numbered else ""
    records = read_records(path, format=file_format, numbered_columns=is_numbered)
    return select_columns(records, source, target, hint)


def select_columns(
    records: Iterable[Record], source: str, target: str, hint: str = ""
) -> Iterator[SentencePair]:
    """Select both sides of each record; the hint ends the error about a missing column."""
    for record in records:
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


# -- filters and splits ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterStats:
    """How many training pairs were kept, and how many were left out for which reason."""

    num_kept: int
    num_empty: int = 0
    num_too_long: int = 0
    num_uneven: int = 0
    max_length: int = 100

    def describe(self) -> str:
        """Return the counts as one line.

        >>> FilterStats(29_000, num_empty=3, num_too_long=12, num_uneven=5).describe()
        '29,000 pairs; left out: 3 empty, 12 longer than 100 words, 5 uneven'
        >>> FilterStats(29_000).describe()
        '29,000 pairs; none left out'
        """
        counts = {
            "empty": self.num_empty,
            f"longer than {self.max_length:,} words": self.num_too_long,
            "uneven": self.num_uneven,
        }
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        suffix = f"left out: {left_out}" if left_out else "none left out"
        return f"{self.num_kept:,} pairs; {suffix}"


@dataclass(frozen=True)
class PairSplits:
    """Sentence pairs to train on, to validate on (and select the best epoch by), to test on."""

    name: str
    train: tuple[SentencePair, ...]
    validation: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]
    filter_stats: FilterStats

    @property
    def checksum(self) -> str:
        """The SHA-256 of all sentences in their order."""
        splits = (self.train, self.validation, self.test)
        return compute_checksum(((p.source, p.target) for p in split) for split in splits)

    def __repr__(self) -> str:
        counts = (len(self.train), len(self.validation), len(self.test))
        return "PairSplits({!r}: {:,} train, {:,} validation, {:,} test)".format(self.name, *counts)


def count_words(text: str) -> int:
    """Count words between spaces; each Chinese or Japanese character counts as one.

    >>> count_words("Zwei junge Männer"), count_words("两个年轻人")
    (3, 5)
    """
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def filter_pairs(
    pairs: Iterable[SentencePair], max_length: int, ratio: float
) -> tuple[list[SentencePair], FilterStats]:
    """Leave out pairs with an empty or too long side, or sides of too different lengths."""
    filtered: list[SentencePair] = []
    num_empty = num_too_long = num_uneven = 0
    for pair in pairs:
        shorter, longer = sorted((count_words(pair.source), count_words(pair.target)))
        if not shorter:
            num_empty += 1
        elif longer > max_length:
            num_too_long += 1
        elif longer > ratio * max(shorter, MIN_RATIO_WORDS):
            num_uneven += 1
        else:
            filtered.append(pair)
    return filtered, FilterStats(len(filtered), num_empty, num_too_long, num_uneven, max_length)


class _PunctuationTable(dict[int, int]):
    """A translation table that maps punctuation to spaces, filled in as characters occur."""

    def __missing__(self, code: int) -> int:
        is_punctuation = unicodedata.category(chr(code))[0] in "PZC"
        return self.setdefault(code, ord(" ") if is_punctuation else code)


_PUNCTUATION_TO_SPACE = _PunctuationTable()


def sentence_key(text: str) -> str:
    """Return a key that ignores case, punctuation and spacing.

    >>> sentence_key("Va !") == sentence_key("« va. »") != sentence_key("Vas")
    True
    """
    normalized = text if text.isascii() else unicodedata.normalize("NFKC", text)
    words = normalized.casefold().translate(_PUNCTUATION_TO_SPACE)
    return " ".join(words.split()) or text


def pair_keys(pair: SentencePair) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the keys of both sentences, which no two splits may share."""
    return ("source", sentence_key(pair.source)), ("target", sentence_key(pair.target))


def group_by_shared_keys(keys: Iterable[Iterable[Hashable]]) -> list[int]:
    """Return group numbers such that items that share a key, directly or not, are in one group.

    >>> group_by_shared_keys([["a"], ["b"], ["c"], ["a", "c"]])
    [0, 1, 0, 0]
    """
    import numpy as np

    hashes, owners, count = array("q"), array("q"), 0  # the keys of millions of pairs take too much
    for count, item_keys in enumerate(keys, 1):
        for key in item_keys:
            hashes.append(hash(key))
            owners.append(count - 1)
    parent = array("q", range(count))  # union-find

    def find_root(item: int) -> int:
        while parent[item] != item:
            parent[item] = item = parent[parent[item]]
        return item

    values = np.frombuffer(hashes, np.int64)
    order = np.argsort(values, kind="stable")
    is_shared = values[order][1:] == values[order][:-1]
    sharers = np.frombuffer(owners, np.int64)[order]
    pairs = zip(sharers[:-1][is_shared].tolist(), sharers[1:][is_shared].tolist(), strict=True)
    for item, other in pairs:
        a, b = find_root(item), find_root(other)
        parent[max(a, b)] = min(a, b)
    return [find_root(item) for item in range(count)]


def hold_out_pairs(
    pairs: Sequence[SentencePair],
    *counts: int,
    seed: int = 0,
    keys: Sequence[Iterable[Hashable]] | None = None,
) -> tuple[list[SentencePair], ...]:
    """Hold out up to `counts` pairs: (the rest, held out, …), each in the order of `pairs`.

    The choice depends on the sentences and the seed only. No sentence is in two of the lists: pairs
    that share one are held out together, if they fit into what is left of the count, or not at all.
    Pairs with an empty side are never held out. `keys` replaces the sentences of each pair as what
    must not be in two lists.

    >>> sentences = [("go", "va"), ("go", "pars"), ("leave", "pars"), ("run", "cours")]
    >>> hold_out_pairs([SentencePair(*s) for s in sentences], 1)[1]
    [SentencePair(source='run', target='cours')]
    """
    list_of = bytearray(len(pairs))
    remaining = list(counts)
    groups = _group_pairs(pairs if any(counts) else (), seed, keys)
    for group in groups:
        if not any(remaining):
            break
        number = next((k for k, count in enumerate(remaining, 1) if count >= len(group)), 0)
        if number:
            remaining[number - 1] -= len(group)
            for i in group:
                list_of[i] = number
    if any(count and count == left for count, left in zip(counts, remaining, strict=True)):
        if not len(groups):
            raise UserError(f"all {len(pairs):,} pairs have an empty side")
        requested = " and ".join(f"{count:,}" for count in counts if count)
        raise UserError(
            f"cannot hold out {requested} of {len(pairs):,} pairs: the smallest group of pairs "
            f"that share sentences has {groups.lengths.min():,}: "
            "hold out a larger fraction, or give validation and test files"
        )
    lists: tuple[list[SentencePair], ...] = tuple([] for _ in range(len(counts) + 1))
    for number, pair in zip(list_of, pairs, strict=True):
        lists[number].append(pair)
    return lists


def _group_pairs(
    pairs: Sequence[SentencePair], seed: int, keys: Sequence[Iterable[Hashable]] | None
) -> "RaggedArray":
    """Return the indices of pairs that share keys as groups, in an order given by the seed."""
    import numpy as np

    from workings.ragged import RaggedArray

    complete = [i for i, p in enumerate(pairs) if p.source.strip() and p.target.strip()]
    shared = (pair_keys(pairs[i]) if keys is None else keys[i] for i in complete)
    numbers = np.array(group_by_shared_keys(shared), np.int64)
    order = np.argsort(numbers, kind="stable")
    lengths = np.unique(numbers, return_counts=True)[1]
    groups = RaggedArray(np.array(complete, np.int64)[order], lengths)
    names = (min(f"{pairs[i].source}\0{pairs[i].target}" for i in g.tolist()) for g in groups)
    hashes = np.fromiter((hash_to_unit_interval(name, str(seed)) for name in names), np.float64)
    return groups[np.argsort(hashes, kind="stable")]
