"""Pairs that need no download: the names of emoji in one language, and in another.

An emoji is wholly in train, in validation or in test, together with those that differ from it in
gender, direction or skin tone only. Names with a skin tone are in train alone: five more copies of
a person would count it six times in a score. Flags are left out: a country's name is known or it is
not, and English does not say "flag".
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workings.data.datasets import (
    FULLY_QUALIFIED,
    LANGUAGES,
    SKIN_TONES,
    clean_emoji_name,
    dataset_folders,
    emoji_family,
    import_emoji,
    normalize_split_name,
)
from workings.data.download import Mirror, ProgressCallback, download
from workings.data.parallel_files import (
    SentencePair,
    find_parallel_splits,
    find_side,
    list_parallel_stems,
    read_columns,
    read_parallel,
    read_parallel_prefix,
)
from workings.data.parallel_splits import (
    FilterStats,
    PairSplits,
    filter_pairs,
    hold_out_pairs,
    pair_keys,
    split_size,
)
from workings.errors import UserError, did_you_mean, safe_repr, truncate

EMOJI_NAMES = "emoji-names"

_FLAG = re.compile("[\U0001f1e6-\U0001f1ff\U000e0020-\U000e007f]")
_REMOVE_SKIN_TONES = str.maketrans(dict.fromkeys(SKIN_TONES))
_SKIN_TONE_NAME = re.compile(r" (?:medium-light|medium-dark|light|medium|dark) skin tone")

GroupKeys = tuple[Hashable, ...]


def load_emoji_names(
    source: str = "en",
    target: str = "fr",
    *,
    validation: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
) -> dict[str, list[SentencePair]]:
    """Make the set: names of emoji in two languages, in parts.

    >>> parts = load_emoji_names("en", "fr")
    >>> SentencePair("grinning face", "visage rieur") in sum(parts.values(), [])
    True
    """
    plain, toned = _collect_name_pairs(source, target)
    counts = (split_size(share, len(plain)) for share in (test, validation))
    train, tested, valid = hold_out_pairs([*plain], *counts, seed=seed, keys=[*plain.values()])
    held = {key for pair in (*tested, *valid) for key in plain[pair]}
    train += [pair for pair, keys in toned.items() if held.isdisjoint(keys)]
    return {"train": train, "validation": valid, "test": tested}


def _collect_name_pairs(
    source: str, target: str
) -> tuple[dict[SentencePair, GroupKeys], dict[SentencePair, GroupKeys]]:
    """Every pair of names, without a skin tone and with one, with what it shares with others."""
    for language in (source, target):
        if language not in LANGUAGES:
            told = f"no language {safe_repr(language)}: {did_you_mean(language, LANGUAGES)}"
            raise UserError(f"{EMOJI_NAMES}: {told}")
    package = import_emoji(EMOJI_NAMES)
    package.config.load_language(["en", source, target])
    found: tuple[dict[SentencePair, GroupKeys], dict[SentencePair, GroupKeys]] = ({}, {})
    for character, data in sorted(package.EMOJI_DATA.items()):
        if data["status"] > FULLY_QUALIFIED or _FLAG.search(character):
            continue
        pair = SentencePair(
            clean_emoji_name(data.get(source, "")), clean_emoji_name(data.get(target, ""))
        )
        if pair.source and pair.target:
            bare = emoji_family(character.translate(_REMOVE_SKIN_TONES))
            # Couples of two tones are spelt otherwise than those of none: their names tell.
            name = _SKIN_TONE_NAME.sub("", clean_emoji_name(data["en"]))
            some = found[bool(SKIN_TONES & set(character))]
            some[pair] = (*some.get(pair, ()), *pair_keys(pair), ("family", bare), ("name", name))
    return found


@dataclass(frozen=True)
class ParallelDatasetSpec:
    """A published set of pairs: its home, its languages, its files there."""

    name: str
    description: str
    homepage: str
    languages: tuple[str, ...]
    splits: Mapping[str, str]
    """The files of train, validation and test, as far as the set has them, and of further parts."""
    file_per_language: bool = True
    """A file a language, which its ending tells; else the languages are columns of one file."""
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    """Where a file is to be had, if it can be downloaded as it is."""

    def read(
        self,
        split: str,
        source: str,
        target: str,
        *,
        allow_download: bool = True,
        progress: ProgressCallback | None = None,
    ) -> list[SentencePair]:
        """Read a part in two languages, downloading it first where need be and `fetch` allows."""
        for language in (source, target):
            if language not in self.languages:
                raise UserError(
                    f"{self.name}: no language {safe_repr(language)}: {did_you_mean(language, self.languages)}"
                )
        if split not in self.splits:
            raise UserError(
                f"{self.name}: no part {safe_repr(split)}: {did_you_mean(split, self.splits)}"
            )
        stem = self.splits[split]
        if self.file_per_language:
            one, other = (
                self._locate_file(f"{stem}.{language}", allow_download, progress)
                for language in (source, target)
            )
            return list(read_parallel(one, other))
        columns = (str(self.languages.index(language) + 1) for language in (source, target))
        return list(read_columns(self._locate_file(stem, allow_download, progress), *columns))

    def _locate_file(
        self, file: str, allow_download: bool, progress: ProgressCallback | None
    ) -> Path:
        """Find a file: under WORKINGS_DATA, in the cache, or download it."""
        folders = dataset_folders(self.name)
        for folder in folders:
            for end in (".gz", ""):
                if (folder / f"{file}{end}").is_file():
                    return folder / f"{file}{end}"
        if self.mirrors and file not in self.mirrors:
            raise UserError(f"{self.name}: there is no {file}: not every part has every language")
        kept = folders[-1]
        advice = (
            f"put {file}, gzip'd or not, from {self.homepage}, into {kept}\n"
            f"or set WORKINGS_DATA to a folder with {self.name}/ in it that holds {file}"
        )
        mirror = self.mirrors.get(file)
        if mirror is None or not allow_download:
            raise UserError(f"{self.name}: {file} is not on this machine\n{advice}")
        try:
            return download([mirror], kept / f"{file}.gz", progress=progress)
        except UserError as error:
            raise UserError(f"{self.name}: {error}\n{advice}") from None
        except OSError as error:
            raise UserError(f"{kept}: {error.strerror}\n{advice}") from None


_MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
# The home publishes no digests; these are the ones that torchtext stated for these addresses.
_MULTI30K_FILES = (
    ("test_2016_flickr.cs", 22_572, "3104872229daa1bef3b401d44dd2220b"),
    ("test_2016_flickr.de", 22_890, "efd67d314d98489b716b145475101932"),
    ("test_2016_flickr.en", 21_077, "ff2c0fcb4893a13bd73414306bc250ae"),
    ("test_2016_flickr.fr", 22_310, "08dc7cd4a662f31718412de95ca9bfe3"),
    ("test_2017_flickr.de", 21_471, "6a8d5c87f6ae19e3d35681aa6fd16571"),
    ("test_2017_flickr.en", 19_138, "005396bac545d880abe6f00bbb7dbbb4"),
    ("test_2017_flickr.fr", 20_434, "cb09af7d2b501f9112f2d6a59fa1360d"),
    ("test_2017_mscoco.de", 10_230, "e8cd6ec2bc8a11fc846fa48a46e3d0bb"),
    ("test_2017_mscoco.en", 8_844, "a7b684e0edbef1d4a23660c8e8e743fd"),
    ("test_2017_mscoco.fr", 9_751, "4995d10954a804d3cdfd907b9fd093e8"),
    ("train.cs", 593_827, "d9a5fc268917725a2b0efce3a0cc8607"),
    ("train.de", 637_044, "81ff90b99829c0cd4b1b587d394afd39"),
    ("train.en", 568_929, "0065d13af80720a55ca8153d126e6627"),
    ("train.fr", 604_242, "6cb767741dcad3931f966fefbc05203f"),
    ("val.cs", 22_096, "83cdc082f646b769095615384cf5c0ca"),
    ("val.de", 24_681, "6e0e229eb049e3fc99a1ef02fb2d5f91"),
    ("val.en", 21_650, "2b69aa9253948ac9f67e94917272dd40"),
    ("val.fr", 23_001, "93fc564584b7e5ba410c761ea5a1c682"),
)

PARALLEL_DATASETS = {
    s.name: s
    for s in (
        ParallelDatasetSpec(
            name="multi30k",
            description="31,014 descriptions of photographs in four languages, and three tests of them",
            homepage="https://github.com/multi30k/dataset (data/task1/raw)",
            languages=("cs", "de", "en", "fr"),
            splits={
                "train": "train",
                "validation": "val",
                "test": "test_2016_flickr",
                "test_2017_flickr": "test_2017_flickr",  # these two without Czech
                "test_2017_mscoco": "test_2017_mscoco",
            },
            mirrors={
                file: Mirror(f"{_MULTI30K_URL}/{file}.gz", size, f"md5:{digest}")
                for file, size, digest in _MULTI30K_FILES
            },
        ),
        ParallelDatasetSpec(
            name="eng-fra",
            description="167,130 short English sentences and French ones, by volunteers",
            # It grows there from month to month, so that no digest holds for long.
            homepage="https://www.manythings.org/anki/ (fra-eng.zip)",
            languages=("en", "fr"),
            splits={"train": "fra.txt"},
            file_per_language=False,
        ),
    )
}


__all__ = [
    "FilterStats",
    "PairSplits",
    "SentencePair",
    "list_parallel_datasets",
    "load_pair_split",
    "load_pairs",
    "load_test_pairs",
]


def list_parallel_datasets() -> tuple[str, ...]:
    """Name the sets that `load_pairs` knows.

    >>> list_parallel_datasets()
    ('emoji-names', 'eng-fra', 'multi30k')
    """
    return tuple(sorted([EMOJI_NAMES, *PARALLEL_DATASETS]))


def load_pairs(
    data: str | Path,
    *,
    source: str,
    target: str,
    validation: float = 0.05,
    test: float = 0.05,
    max_length: int = 100,
    ratio: float = 3.0,
    seed: int = 0,
    allow_download: bool = True,
    progress: ProgressCallback | None = None,
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
    _check_options(source, target, validation, test, max_length, ratio)
    name = str(data)
    if name == EMOJI_NAMES:
        parts = load_emoji_names(source, target, validation=validation, test=test, seed=seed)
    elif name in PARALLEL_DATASETS:
        chosen = PARALLEL_DATASETS[name]
        parts = {
            part: chosen.read(
                part, source, target, allow_download=allow_download, progress=progress
            )
            for part in ("train", "validation", "test")
            if part in chosen.splits
        }
    else:
        parts = _read_path(Path(data), source, target)
    held = _hold_out_missing_splits(name, parts, validation, test, seed)
    train, cleaned = filter_pairs(held["train"], max_length, ratio)
    if not train:
        raise UserError(f"{truncate(name, 300)}: no pair is left to train on: {cleaned.describe()}")
    return PairSplits(name, tuple(train), tuple(held["validation"]), tuple(held["test"]), cleaned)


def load_pair_split(
    data: str | Path,
    split: str,
    *,
    source: str,
    target: str,
    allow_download: bool = True,
    progress: ProgressCallback | None = None,
) -> tuple[SentencePair, ...]:
    """Load one part, as it stands: of a named set, or two parallel files of a folder.

    `load_part("multi30k", "test_2017_flickr", source="en", target="de")` is another test.
    """
    if str(data) in PARALLEL_DATASETS:
        chosen = PARALLEL_DATASETS[str(data)]
        return tuple(
            chosen.read(split, source, target, allow_download=allow_download, progress=progress)
        )
    if not Path(data).is_dir():
        known = did_you_mean(str(data), PARALLEL_DATASETS)
        raise UserError(f"{truncate(str(data), 300)}: neither a folder nor a named set: {known}")
    return tuple(read_parallel_prefix(Path(data) / split, source, target))


def load_test_pairs(
    data: str | Path, *, source: str, target: str, allow_download: bool = True
) -> tuple[SentencePair, ...]:
    """Load what a translator is tested on, nothing left out.

    A named set's test part, or another part of it ("multi30k/test_2017_flickr"); that of a folder;
    or all pairs of a file, or of two that begin so.
    """
    name, _, part = str(data).partition("/")
    of_a_folder = part and find_side(Path(data), source)  # one that is called as the set is
    if (
        name in PARALLEL_DATASETS
        and (part or "test" in PARALLEL_DATASETS[name].splits)
        and not of_a_folder
    ):
        return load_pair_split(
            name, part or "test", source=source, target=target, allow_download=allow_download
        )
    if str(data) in list_parallel_datasets():  # what a recipe that says no more would hold out
        return load_pairs(data, source=source, target=target, allow_download=allow_download).test
    parts = _read_path(Path(data), source, target)
    if "test" not in parts:
        _check_has_test_split(Path(data), source, target)
    return tuple(parts.get("test", parts["train"]))


def _check_options(
    source: str, target: str, validation: float, test: float, max_length: int, ratio: float
) -> None:
    if source == target:
        raise UserError(f"source and target are both {safe_repr(source)}: they must be two")
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise UserError(f"validation = {validation}, test = {test}: nothing is left to train on")
    for name, value in (("max_length", max_length), ("ratio", ratio)):
        if not value >= 1:
            raise UserError(f"{name} = {value}: it must be at least 1")


def _read_path(path: Path, source: str, target: str) -> dict[str, list[SentencePair]]:
    """Read what a path leads to: a file with columns, a folder, or two files that begin so."""
    sides = find_side(path, source), find_side(path, target)
    if path.is_dir() and not all(sides):  # what bears the very name comes first
        return {
            part: list(some) for part, some in find_parallel_splits(path, source, target).items()
        }
    if any(sides):
        return {"train": list(read_parallel_prefix(path, source, target))}
    if path.is_file():
        _check_not_one_side(path, source, target)
        return {"train": list(read_columns(path, source, target))}
    known = did_you_mean(str(path), list_parallel_datasets())
    both = truncate(f"{path.name}.{source} and {path.name}.{target}")
    told = f"no file, no folder, no {both}, and no named set: {known}"
    raise UserError(f"{truncate(str(path), 300)}: {told}")


def _check_has_test_split(path: Path, source: str, target: str) -> None:
    """Refuse a folder that has a part to train on, but none to test on."""
    if not path.is_dir() or find_side(path, source) or find_side(path, target):
        return
    found = {normalize_split_name(stem) for stem in list_parallel_stems(path, source, target)}
    if not found or "train" in found:
        both = truncate(f"test.{source} and test.{target}")
        raise UserError(
            f"{truncate(str(path), 300)}: nothing to test on: no {both}, and no test.tsv"
        )


def _check_not_one_side(path: Path, source: str, target: str) -> None:
    bare = str(path).removesuffix(".gz")
    for ending in (source, target):
        if bare.endswith(f".{ending}"):
            told = f"one side of two: give {bare.removesuffix(f'.{ending}')}"
            raise UserError(f"{truncate(str(path), 300)}: {truncate(told, 300)}")


def _hold_out_missing_splits(
    name: str,
    pairs_by_split: Mapping[str, Sequence[SentencePair]],
    validation: float,
    test: float,
    seed: int,
) -> dict[str, Sequence[SentencePair]]:
    """Hold out of train the parts that are not there: shares of the whole of it."""
    shares = {"test": test, "validation": validation}
    missing = [part for part, share in shares.items() if share and part not in pairs_by_split]
    whole = len(pairs_by_split["train"])
    if whole <= len(missing):
        only = "one pair only" if whole == 1 else f"{whole} pairs only"
        beside = " and ".join(missing)
        raise UserError(
            f"{truncate(name, 300)}: {only}: nothing is left to train on beside {beside}"
        )
    counts = (split_size(shares[part], whole) for part in missing)
    try:
        train, *held = hold_out_pairs(pairs_by_split["train"], *counts, seed=seed)
    except UserError as error:
        raise UserError(f"{truncate(name, 300)}: {error}") from None
    empty: dict[str, Sequence[SentencePair]] = {"validation": (), "test": ()}
    return {**empty, **pairs_by_split, "train": train, **dict(zip(missing, held, strict=True))}
