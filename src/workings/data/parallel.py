"""Sentence pairs: named datasets, built in or downloaded, and the user's files and folders."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workings.data.cache import dataset_folders
from workings.data.datasets import (
    FULLY_QUALIFIED,
    LANGUAGES,
    SKIN_TONES,
    SPLITS,
    clean_emoji_name,
    emoji_family,
    find_split_paths,
    import_emoji,
    normalize_split_name,
    read_hub_splits,
)
from workings.data.download import Mirror, ProgressCallback, locate_file
from workings.data.progress import estimate_file_characters, report_items
from workings.data.sentence_pairs import (
    FilterStats,
    PairSplits,
    SentencePair,
    filter_pairs,
    find_parallel_splits,
    find_side,
    hold_out_pairs,
    list_parallel_stems,
    pair_keys,
    read_columns,
    read_parallel,
    read_parallel_prefix,
    select_columns,
)
from workings.data.splits import check_split_fractions, hold_out_missing_splits, split_size
from workings.data.tables import HUGGING_FACE_PREFIX, is_saved_dataset
from workings.errors import UserError, did_you_mean, safe_repr, truncate

__all__ = [
    "FilterStats",
    "PairSplits",
    "SentencePair",
    "list_parallel_datasets",
    "load_pair_split",
    "load_pairs",
    "load_test_pairs",
]

EMOJI_NAMES = "emoji-names"


def list_parallel_datasets() -> tuple[str, ...]:
    """Return the names of the datasets that `load_pairs` knows.

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
    """Load a named dataset, files or a folder; hold out missing splits, and filter train.

    `source` and `target` are languages of a named dataset; or columns (or keys) of a TSV, CSV or
    JSONL file, by name, or by number from 1 if it has no header; or the suffixes of two parallel
    files: "folder/train" with "de" and "en" is `folder/train.de` and `folder/train.en`, gzipped or
    not. A folder has `train.*`, and may have `validation.*` and `test*.*`.

    Pairs are left out of train if a side is empty or has more than `max_length` words, or if the
    longer side has more than `ratio` times the words of the shorter one (which counts as three
    words at least). The same `seed` holds out the same pairs, and no sentence of either language is
    in two splits.
    """
    _check_options(source, target, validation, test, max_length, ratio)
    name = str(data)
    if name == EMOJI_NAMES:
        splits = load_emoji_names(source, target, validation=validation, test=test, seed=seed)
    elif name in PARALLEL_DATASETS:
        spec = PARALLEL_DATASETS[name]
        splits = {
            split: spec.read(
                split, source, target, allow_download=allow_download, progress=progress
            )
            for split in SPLITS
            if split in spec.splits
        }
    else:
        splits = _read_data(name, source, target, progress)

    def hold_out(
        train: Sequence[SentencePair], fractions: Mapping[str, float]
    ) -> dict[str, list[SentencePair]]:
        return _hold_out_splits(name, train, fractions, seed)

    complete = hold_out_missing_splits(splits, validation, test, hold_out)
    train, stats = filter_pairs(complete["train"], max_length, ratio)
    if not train:
        raise UserError(f"{truncate(name, 300)}: no pair is left to train on: {stats.describe()}")
    return PairSplits(
        name, tuple(train), tuple(complete["validation"]), tuple(complete["test"]), stats
    )


def load_pair_split(
    data: str | Path,
    split: str,
    *,
    source: str,
    target: str,
    allow_download: bool = True,
    progress: ProgressCallback | None = None,
) -> tuple[SentencePair, ...]:
    """Load one split, unfiltered: of a named dataset, or two parallel files of a folder.

    `load_pair_split("multi30k", "test_2017_flickr", source="en", target="de")` is another test set.
    """
    name = str(data)
    if name in PARALLEL_DATASETS:
        spec = PARALLEL_DATASETS[name]
        return tuple(
            spec.read(split, source, target, allow_download=allow_download, progress=progress)
        )
    if not Path(data).is_dir():
        suggestion = did_you_mean(name, PARALLEL_DATASETS)
        raise UserError(
            f"{truncate(name, 300)}: neither a folder nor a named dataset: {suggestion}"
        )
    return tuple(read_parallel_prefix(Path(data) / split, source, target))


def load_test_pairs(
    data: str | Path, *, source: str, target: str, allow_download: bool = True
) -> tuple[SentencePair, ...]:
    """Load pairs to test a translator on, unfiltered.

    These are the test split of a named dataset or another one ("multi30k/test_2017_flickr"), the
    test split of a folder, or all pairs of a file or of two parallel files.
    """
    name, _, split = str(data).partition("/")
    is_path = split and find_side(Path(data), source)  # a folder with the name of a dataset
    if name in PARALLEL_DATASETS and not is_path:
        split = split or ("test" if "test" in PARALLEL_DATASETS[name].splits else "")
        if split:
            return load_pair_split(
                name, split, source=source, target=target, allow_download=allow_download
            )
    if str(data) in list_parallel_datasets():  # hold out what a recipe with default settings would
        return load_pairs(data, source=source, target=target, allow_download=allow_download).test
    splits = _read_data(str(data), source, target)
    if "test" not in splits:
        _check_is_not_training_folder(Path(data), source, target)
    return tuple(splits.get("test", splits["train"]))


def _check_options(
    source: str, target: str, validation: float, test: float, max_length: int, ratio: float
) -> None:
    if source == target:
        raise UserError(f"source and target are both {safe_repr(source)}: they must differ")
    check_split_fractions(validation, test)
    for name, value in (("max_length", max_length), ("ratio", ratio)):
        if not value >= 1:
            raise UserError(f"{name} = {value}: expected at least 1")


def _read_data(
    name: str, source: str, target: str, progress: ProgressCallback | None = None
) -> dict[str, list[SentencePair]]:
    """Read the splits of a dataset of the Hugging Face hub, or of a path."""
    if not name.startswith(HUGGING_FACE_PREFIX):
        return _read_path(Path(name), source, target, progress)
    return {
        split: list(select_columns(records, source, target))
        for split, records in read_hub_splits(name).items()
    }


def _read_path(
    path: Path, source: str, target: str, progress: ProgressCallback | None = None
) -> dict[str, list[SentencePair]]:
    """Read the splits of a folder, or all pairs of a file or of two parallel files as train."""
    sides = find_side(path, source), find_side(path, target)

    def read(pairs: Iterable[SentencePair], *files: Path | None) -> list[SentencePair]:
        expected = sum(estimate_file_characters(file) for file in files if file)
        return list(
            report_items(pairs, expected, progress, lambda p: len(p.source) + len(p.target))
        )

    if is_saved_dataset(path):
        return {
            split: list(read_columns(split_path, source, target))
            for split, split_path in find_split_paths(path).items()
        }
    if path.is_dir() and not all(sides):  # parallel files take precedence over a folder
        return {
            split: list(pairs)
            for split, pairs in find_parallel_splits(path, source, target).items()
        }
    if any(sides):
        return {"train": read(read_parallel_prefix(path, source, target), *sides)}
    if path.is_file():
        _check_not_one_side(path, source, target)
        return {"train": read(read_columns(path, source, target), path)}
    suggestion = did_you_mean(str(path), list_parallel_datasets())
    files = truncate(f"{path.name}.{source} and {path.name}.{target}")
    raise UserError(
        f"{truncate(str(path), 300)}: no such file or folder, no {files}, and no named dataset: "
        f"{suggestion}"
    )


def _check_is_not_training_folder(path: Path, source: str, target: str) -> None:
    """Raise UserError for a folder that has a training split, but no test split."""
    if not path.is_dir() or find_side(path, source) or find_side(path, target):
        return
    splits = {normalize_split_name(stem) for stem in list_parallel_stems(path, source, target)}
    if not splits or "train" in splits:
        files = truncate(f"test.{source} and test.{target}")
        raise UserError(f"{truncate(str(path), 300)}: no test split: expected {files}, or test.tsv")


def _check_not_one_side(path: Path, source: str, target: str) -> None:
    """Raise UserError for a path of one of two parallel files."""
    name = str(path).removesuffix(".gz")
    for suffix in (source, target):
        if name.endswith(f".{suffix}"):
            prefix = name.removesuffix(f".{suffix}")
            message = f"one of two parallel files: give {prefix}"
            raise UserError(f"{truncate(str(path), 300)}: {truncate(message, 300)}")


def _hold_out_splits(
    name: str, train: Sequence[SentencePair], fractions: Mapping[str, float], seed: int
) -> dict[str, list[SentencePair]]:
    if len(train) <= len(fractions):
        pairs = "one pair" if len(train) == 1 else f"{len(train)} pairs"
        raise UserError(
            f"{truncate(name, 300)}: only {pairs}: nothing is left to train on besides "
            + " and ".join(fractions)
        )
    counts = [split_size(fraction, len(train)) for fraction in fractions.values()]
    try:
        rest, *held = hold_out_pairs(train, *counts, seed=seed)
    except UserError as error:
        raise UserError(f"{truncate(name, 300)}: {error}") from None
    return {"train": rest, **dict(zip(fractions, held, strict=True))}


@dataclass(frozen=True)
class ParallelDatasetSpec:
    """A published parallel corpus: its home page, languages, splits and files."""

    name: str
    description: str
    homepage: str
    languages: tuple[str, ...]
    splits: Mapping[str, str]
    """The file of each split, without its language: train, validation, test, and further ones."""
    file_per_language: bool = True
    """Whether each language has a file, with its code as suffix; else languages are columns."""
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    """The mirror of each file that can be downloaded."""

    def read(
        self,
        split: str,
        source: str,
        target: str,
        *,
        allow_download: bool = True,
        progress: ProgressCallback | None = None,
    ) -> list[SentencePair]:
        """Read a split in two languages; download it if it is not on this machine."""
        for language in (source, target):
            if language not in self.languages:
                suggestion = did_you_mean(language, self.languages)
                raise UserError(f"{self.name}: no language {safe_repr(language)}: {suggestion}")
        if split not in self.splits:
            suggestion = did_you_mean(split, self.splits)
            raise UserError(f"{self.name}: no split {safe_repr(split)}: {suggestion}")
        stem = self.splits[split]
        if self.file_per_language:
            source_path, target_path = (
                self._locate_file(f"{stem}.{language}", allow_download, progress)
                for language in (source, target)
            )
            return list(read_parallel(source_path, target_path))
        columns = (str(self.languages.index(language) + 1) for language in (source, target))
        return list(read_columns(self._locate_file(stem, allow_download, progress), *columns))

    def _locate_file(
        self, file: str, allow_download: bool, progress: ProgressCallback | None
    ) -> Path:
        folders = dataset_folders(self.name)
        hint = (
            f"put {file}, gzipped or not, from {self.homepage}, into {folders[-1]}\n"
            f"or set WORKINGS_DATA to a folder with {self.name}/ that has {file}"
        )
        if self.mirrors and file not in self.mirrors:
            hint = "not every split is published in every language"
        return locate_file(
            self.name,
            file,
            folders,
            [self.mirrors[file]] if file in self.mirrors else [],
            hint=hint,
            download_as=f"{file}.gz",
            allow_download=allow_download,
            progress=progress,
        )


_MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
# The home page publishes no digests. These are of files whose MD5 is what torchtext stated.
_MULTI30K_FILES = (
    (
        "test_2016_flickr.cs",
        22_572,
        "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    ),
    (
        "test_2016_flickr.de",
        22_890,
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    ),
    (
        "test_2016_flickr.en",
        21_077,
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    ),
    (
        "test_2016_flickr.fr",
        22_310,
        "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    ),
    (
        "test_2017_flickr.de",
        21_471,
        "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    ),
    (
        "test_2017_flickr.en",
        19_138,
        "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    ),
    (
        "test_2017_flickr.fr",
        20_434,
        "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    ),
    (
        "test_2017_mscoco.de",
        10_230,
        "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    ),
    (
        "test_2017_mscoco.en",
        8_844,
        "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    ),
    (
        "test_2017_mscoco.fr",
        9_751,
        "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0",
    ),
    ("train.cs", 593_827, "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077"),
    ("train.de", 637_044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    ("train.en", 568_929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    ("train.fr", 604_242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
    ("val.cs", 22_096, "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc"),
    ("val.de", 24_681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    ("val.en", 21_650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    ("val.fr", 23_001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
)

PARALLEL_DATASETS = {
    spec.name: spec
    for spec in (
        ParallelDatasetSpec(
            name="multi30k",
            description="31,014 descriptions of photographs in four languages, and three test sets",
            homepage="https://github.com/multi30k/dataset (data/task1/raw)",
            languages=("cs", "de", "en", "fr"),
            splits={
                "train": "train",
                "validation": "val",
                "test": "test_2016_flickr",
                "test_2017_flickr": "test_2017_flickr",  # these two have no Czech
                "test_2017_mscoco": "test_2017_mscoco",
            },
            mirrors={
                file: Mirror(f"{_MULTI30K_URL}/{file}.gz", size, f"sha256:{digest}")
                for file, size, digest in _MULTI30K_FILES
            },
        ),
        ParallelDatasetSpec(
            name="eng-fra",
            description="167,130 short English sentences with French translations, by volunteers",
            # It grows from month to month, so there is no lasting digest.
            homepage="https://www.manythings.org/anki/ (fra-eng.zip)",
            languages=("en", "fr"),
            splits={"train": "fra.txt"},
            file_per_language=False,
        ),
    )
}


# Names of emoji in two languages. An emoji is in one split only, together with its variants of
# gender, direction and skin tone. Names with a skin tone are in train only: five copies of a person
# would count six times in a score. Flags are left out: the name of a country cannot be inferred,
# and English names do not say "flag".
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
    """Build the dataset of emoji names in two languages, by split.

    >>> splits = load_emoji_names("en", "fr")
    >>> SentencePair("grinning face", "visage rieur") in sum(splits.values(), [])
    True
    """
    plain, toned = _collect_name_pairs(source, target)
    counts = (split_size(fraction, len(plain)) for fraction in (test, validation))
    train, test_pairs, validation_pairs = hold_out_pairs(
        [*plain], *counts, seed=seed, keys=[*plain.values()]
    )
    held_out_keys = {key for pair in (*test_pairs, *validation_pairs) for key in plain[pair]}
    train += [pair for pair, keys in toned.items() if held_out_keys.isdisjoint(keys)]
    return {"train": train, "validation": validation_pairs, "test": test_pairs}


def _collect_name_pairs(
    source: str, target: str
) -> tuple[dict[SentencePair, GroupKeys], dict[SentencePair, GroupKeys]]:
    """Return the pairs of names without and with a skin tone, and the keys that group them."""
    for language in (source, target):
        if language not in LANGUAGES:
            suggestion = did_you_mean(language, LANGUAGES)
            raise UserError(f"{EMOJI_NAMES}: no language {safe_repr(language)}: {suggestion}")
    package = import_emoji(EMOJI_NAMES)
    package.config.load_language(["en", source, target])
    plain: dict[SentencePair, GroupKeys] = {}
    toned: dict[SentencePair, GroupKeys] = {}
    for character, data in sorted(package.EMOJI_DATA.items()):
        if data["status"] > FULLY_QUALIFIED or _FLAG.search(character):
            continue
        pair = SentencePair(
            clean_emoji_name(data.get(source, "")), clean_emoji_name(data.get(target, ""))
        )
        if pair.source and pair.target:
            family = emoji_family(character.translate(_REMOVE_SKIN_TONES))
            # Couples with two skin tones consist of other characters than those without: their
            # names show that they belong together.
            name = _SKIN_TONE_NAME.sub("", clean_emoji_name(data["en"]))
            keys = toned if SKIN_TONES & set(character) else plain
            keys[pair] = (
                *keys.get(pair, ()),
                *pair_keys(pair),
                ("family", family),
                ("name", name),
            )
    return plain, toned
