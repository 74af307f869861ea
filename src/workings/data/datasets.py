"""Labeled texts: named datasets, downloaded or built in, and the user's files and folders."""

import gzip
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from workings.data.archives import iter_members
from workings.data.cache import dataset_folders
from workings.data.download import Mirror, ProgressCallback, locate_file
from workings.data.progress import estimate_file_characters, report_items, split_progress
from workings.data.readers import (
    TABLE_FORMATS,
    Example,
    Record,
    decode_utf8,
    detect_format_by_name,
    read_examples,
    to_examples,
)
from workings.data.shards import unsharded_name
from workings.data.splits import (
    Splits,
    check_split_fractions,
    hash_to_unit_interval,
    hold_out,
    hold_out_missing_splits,
)
from workings.data.tables import (
    HUGGING_FACE_PREFIX,
    is_saved_dataset,
    list_saved_splits,
    load_hub_dataset,
    read_hub_split,
)
from workings.errors import UserError, did_you_mean, install_command, truncate
from workings.io import atomic_write, check_inside, file_lock

SPLITS = ("train", "validation", "test")
_VALIDATION_NAMES = ("validation", "valid", "val", "dev")


def list_datasets() -> tuple[str, ...]:
    """Return the names of the datasets that `load_dataset` knows.

    >>> list_datasets()
    ('emoji-languages', 'imdb', 'rt-polarity')
    """
    return tuple(sorted([*BUILTIN_DATASETS, *DATASETS]))


def load_dataset(
    data: str | Path,
    *,
    validation: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    format: str | None = None,  # noqa: A002 - the usual name
    text: str = "text",
    label: str | None = "label",
    label_delimiter: str | None = None,
    skip_missing: bool = False,
    allow_download: bool = True,
    progress: ProgressCallback | None = None,
) -> Splits:
    """Load a named dataset, a file or a folder, and hold out the splits that it does not have.

    A folder has `train` and maybe `test` and `validation`, as files or sub-folders; or it has one
    sub-folder per class; or `save_to_disk` of Hugging Face's datasets wrote it, or it is a copy of
    one of their repositories, with `data/train-00000-of-00001.parquet`. `hf:NAME` is
    downloaded from their hub. Missing splits are fractions of the training examples, held out label
    by label; no text is in two splits, and the same `seed` holds out the same texts. A path that is
    equal to the name of a dataset is written `./imdb`.

    With `label_delimiter` a text has any number of labels; then splits are not held out by label.
    """
    check_split_fractions(validation, test)
    name = str(data)
    if name in BUILTIN_DATASETS:
        return BUILTIN_DATASETS[name]()
    if name in DATASETS:
        folder = locate_dataset(name, allow_download=allow_download, progress=progress)
        splits = _read_named_splits(DATASETS[name], folder)
    elif name.startswith(HUGGING_FACE_PREFIX):
        splits = {
            split: tuple(
                to_examples(
                    records,
                    text,
                    label,
                    label_delimiter=label_delimiter,
                    skip_missing=skip_missing,
                )
            )
            for split, records in read_hub_splits(name).items()
        }
    else:
        path = Path(data)
        if not path.exists():
            suggestion = did_you_mean(name, list_datasets())
            raise UserError(f"{name}: neither a file nor a named dataset: {suggestion}")
        paths = find_split_paths(path)
        splits = {}
        for (split, split_path), report in zip(
            paths.items(), split_progress(progress, len(paths)), strict=True
        ):
            examples = read_examples(
                split_path,
                format=format if split_path.is_file() else None,
                text=text,
                label=label,
                label_delimiter=label_delimiter,
                skip_missing=skip_missing,
            )
            expected = estimate_file_characters(split_path) if report else 0
            splits[split] = tuple(
                report_items(examples, expected, report, lambda example: len(example.text))
            )

    def hold_out_examples(
        train: Sequence[Example], fractions: Mapping[str, float]
    ) -> dict[str, list[Example]]:
        held, rest, by_label = {}, list(train), label_delimiter is None
        if "test" in fractions:
            rest, held["test"] = hold_out(rest, fractions["test"], seed=seed, by_label=by_label)
        if "validation" in fractions:
            # The fraction is of all examples, some of which may be in test already.
            fraction = fractions["validation"] * len(train) / len(rest) if rest else 0.0
            rest, held["validation"] = hold_out(rest, fraction, seed=seed + 1, by_label=by_label)
        return {"train": rest, **held}

    complete = hold_out_missing_splits(splits, validation, test, hold_out_examples)
    return Splits(name, *(tuple(complete[split]) for split in SPLITS))


def _read_named_splits(spec: "DatasetSpec", folder: Path) -> dict[str, tuple[Example, ...]]:
    """Read the splits of a downloaded dataset; one that is not split is all `train`."""
    splits = {}
    for split in spec.splits:
        path = _find_split_file(folder, split)
        assert path is not None
        splits[split if split in SPLITS else "train"] = tuple(
            read_examples(path, label_names=spec.labels)
        )
    return splits


def find_split_paths(path: Path) -> dict[str, Path]:
    """Return the splits of a folder; a file, or a folder of classes, is all `train`."""
    if path.is_file():
        return {"train": path}
    if is_saved_dataset(path):
        saved = {normalize_split_name(k): p for k, p in list_saved_splits(path).items()}
        return {split: saved[split] for split in SPLITS if split in saved} or saved
    paths = _find_named_splits(path)
    if "train" not in paths and (inner := _find_table_folder(path)) is not None:
        paths = _find_named_splits(inner)
    return paths if "train" in paths else {"train": path}


def _find_named_splits(path: Path) -> dict[str, Path]:
    """Return the files and sub-folders that are named after splits; of shards, the first one."""
    paths: dict[str, Path] = {}
    for split_path in sorted(path.iterdir()):
        name = unsharded_name(split_path.name) or ""
        split = normalize_split_name(name.partition(".")[0])
        if split not in SPLITS:
            continue
        check_inside(split_path, path)
        if split_path.is_dir() and not any(p.is_dir() for p in split_path.iterdir()):
            continue  # a class whose name is that of a split
        if split in paths:
            both = f"{truncate(paths[split].name)} and {truncate(split_path.name)}"
            raise UserError(f"{path}: both {both} are there: expected one {split} split")
        paths[split] = split_path
    return paths


def _find_table_folder(path: Path) -> Path | None:
    """Return the sub-folder with tables of splits, where repositories of datasets keep them."""
    folders = [
        folder
        for folder in sorted(path.iterdir())
        if folder.is_dir()
        and any(
            (unsharded_name(file.name) or "").partition(".")[0] == "train"
            and detect_format_by_name(file.name) in TABLE_FORMATS
            for file in folder.iterdir()
        )
    ]
    if len(folders) > 1:
        names = truncate(", ".join(folder.name for folder in folders), 200)
        raise UserError(f"{path}: several datasets: give the folder of one of {names}")
    for folder in folders:
        check_inside(folder, path)
        return folder
    return None


def read_hub_splits(name: str) -> dict[str, Iterator[Record]]:
    """Return the records of train, validation and test of a dataset of the Hugging Face hub."""
    splits = {normalize_split_name(k): split for k, split in load_hub_dataset(name).items()}
    if "train" not in splits:
        raise UserError(f"{name}: no train split: it has {', '.join(splits)}")
    return {
        split: (Record(name, fields) for fields in read_hub_split(splits[split]))
        for split in SPLITS
        if split in splits
    }


def normalize_split_name(name: str) -> str:
    """Return "validation" for all its usual names, and other names unchanged.

    >>> normalize_split_name("dev"), normalize_split_name("train")
    ('validation', 'train')
    """
    return "validation" if name in _VALIDATION_NAMES else name


def locate_dataset(
    name: str, *, allow_download: bool = True, progress: ProgressCallback | None = None
) -> Path:
    """Return the folder of a named dataset; download it if it is not on this machine."""
    if name not in DATASETS:
        raise UserError(f"{name}: no dataset of this name: {did_you_mean(name, DATASETS)}")
    spec = DATASETS[name]
    folders = dataset_folders(name)
    for folder in folders:
        if _is_complete(spec, folder):
            return folder
    cache = folders[-1]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with file_lock(cache / ".lock"):
            if not _is_complete(spec, cache):  # another process may have prepared it meanwhile
                _prepare_dataset(spec, folders, allow_download, progress)
    except OSError as error:
        hint = _manual_download_hint(spec, cache)
        raise UserError(f"{cache}: {error.strerror}\n{hint}") from None
    return cache


def _prepare_dataset(
    spec: "DatasetSpec",
    folders: Sequence[Path],
    allow_download: bool,
    progress: ProgressCallback | None,
) -> None:
    """Write the splits into the cache, from the archive in one of the folders or a download."""
    cache = folders[-1]
    was_there = (cache / spec.archive).exists()
    archive = locate_file(
        spec.name,
        spec.archive,
        folders,
        spec.mirrors,
        hint=_manual_download_hint(spec, cache),
        verify=True,
        allow_download=allow_download,
        progress=progress,
    )
    spec.prepare(archive, cache)
    if archive.parent == cache and not was_there:
        archive.unlink()


def _is_complete(spec: "DatasetSpec", folder: Path) -> bool:
    return all(_find_split_file(folder, split) for split in spec.splits)


def _find_split_file(folder: Path, split: str) -> Path | None:
    paths = (folder / f"{split}{suffix}" for suffix in (".jsonl.gz", ".jsonl"))
    return next((path for path in paths if path.is_file()), None)


def _manual_download_hint(spec: "DatasetSpec", cache: Path) -> str:
    files = " and ".join(f"{split}.jsonl.gz" for split in spec.splits)
    return (
        f"put {spec.archive}, from {spec.homepage}, into {cache}\n"
        f"or set WORKINGS_DATA to a folder with {spec.name}/ that has {files} "
        f"(one JSON object per line, with text and label)"
    )


PrepareFunction = Callable[[Path, Path], None]


@dataclass(frozen=True)
class DatasetSpec:
    """A published dataset: its home page, its archive, and its splits."""

    name: str
    description: str
    homepage: str
    splits: tuple[str, ...]
    archive: str
    mirrors: tuple[Mirror, ...]
    prepare: PrepareFunction
    """Writes `SPLIT.jsonl.gz` for each split into a folder, from the archive."""
    labels: Mapping[str, str]
    """The names of the labels, by their values in the files."""


def _prepare_imdb(archive: Path, folder: Path) -> None:
    reviews: dict[str, dict[tuple[str, int], dict[str, Any]]] = {"train": {}, "test": {}}
    for member in iter_members(archive):
        match = re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt", member.name)
        if match:
            split, side, number, rating = match.groups()
            text = decode_utf8(member.read(), f"{archive}: {member.name}")
            reviews[split][side, int(number)] = {
                "id": f"{side}/{number}_{rating}",
                "label": int(side == "pos"),
                "rating": int(rating),
                "text": text,
            }
    for split, records in reviews.items():
        path = folder / f"{split}.jsonl.gz"
        _write_jsonl_gz(path, (records[key] for key in sorted(records)), archive)


def _prepare_rt_polarity(archive: Path, folder: Path) -> None:
    lines_by_side = {}
    for member in iter_members(archive):
        side = member.name.rpartition(".")[2]
        if member.name.rpartition("/")[2] in ("rt-polarity.pos", "rt-polarity.neg"):
            lines_by_side[side] = member.read().decode("cp1252", "replace").splitlines()
    records = (
        {"label": int(side == "pos"), "text": line.strip()}
        for side in ("pos", "neg")
        for line in lines_by_side.get(side, ())
        if line.strip()
    )
    _write_jsonl_gz(folder / "mr.jsonl.gz", records, archive)


def _write_jsonl_gz(path: Path, records: Iterable[dict[str, Any]], archive: Path) -> None:
    """Write gzipped JSON lines, without a time stamp: the same records give the same bytes."""
    is_empty = True
    with (
        atomic_write(path) as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed,
    ):
        for record in records:
            compressed.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            is_empty = False
        if is_empty:
            raise UserError(f"{archive}: the archive has no texts for {path.name}")


_RT_POLARITY_DIGEST = "sha256:a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9"
_SENTIMENT_LABELS = {"0": "negative", "1": "positive"}
DATASETS = {
    spec.name: spec
    for spec in (
        DatasetSpec(
            name="imdb",
            description="50,000 film reviews, positive or negative, half of them for the test",
            homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
            splits=("train", "test"),
            archive="aclImdb_v1.tar.gz",
            mirrors=(
                # The home page publishes no digest; two widely used libraries state this one.
                Mirror(
                    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                    size=84_125_825,
                    digest="sha256:c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
                ),
            ),
            prepare=_prepare_imdb,
            labels=_SENTIMENT_LABELS,
        ),
        DatasetSpec(
            name="rt-polarity",
            description="10,662 sentences of film reviews, positive or negative",
            homepage="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
            splits=("mr",),
            archive="rt-polaritydata.tar.gz",
            mirrors=(
                # The home page publishes no digest. Users of the second copy have published this
                # one; the first has the same size, and is refused if it differs.
                Mirror(
                    "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz",
                    size=487_770,
                    digest=_RT_POLARITY_DIGEST,
                ),
                Mirror(
                    "https://storage.googleapis.com/seldon-datasets/sentence_polarity_v1/rt-polaritydata.tar.gz",
                    size=487_770,
                    digest=_RT_POLARITY_DIGEST,
                ),
            ),
            prepare=_prepare_rt_polarity,
            labels=_SENTIMENT_LABELS,
        ),
    )
}


# The emoji package has the name of every emoji in fourteen languages: about 25,000 short texts.
# An emoji is in one split only, together with its variants of gender and direction: a model cannot
# classify "männer mit hasenohren" because it has seen "frauen mit hasenohren". Skin tones are left
# out, which would repeat every name five times, and so are names that several languages share
# ("shorts" is English, German and Portuguese), which have no correct label. Names are lowercased,
# because only the English ones have capitals.
LANGUAGES = {
    "ar": "Arabic",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fr": "French",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}
SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
FULLY_QUALIFIED = 2  # the package's status of an emoji in its recommended form
_GENDER_AND_DIRECTION = str.maketrans(
    {
        "\N{ZERO WIDTH JOINER}": None,
        "\N{VARIATION SELECTOR-16}": None,
        "\N{FEMALE SIGN}": None,
        "\N{MALE SIGN}": None,
        "\N{BLACK RIGHTWARDS ARROW}": None,
        "\N{MAN}": "\N{ADULT}",
        "\N{WOMAN}": "\N{ADULT}",
    }
)


def load_emoji_languages() -> Splits:
    """Build the dataset of emoji names, labeled with their language.

    >>> splits = load_emoji_languages()
    >>> len(splits.labels), Example("erstauntes gesicht", "German") in splits.train
    (14, True)
    """
    train: list[Example] = []
    validation: list[Example] = []
    test: list[Example] = []
    for character, example in _collect_emoji_names():
        fraction = hash_to_unit_interval(emoji_family(character))
        split = train if fraction < 0.8 else validation if fraction < 0.9 else test
        split.append(example)
    return Splits("emoji-languages", tuple(train), tuple(validation), tuple(test))


BUILTIN_DATASETS: dict[str, Callable[[], Splits]] = {"emoji-languages": load_emoji_languages}


def _collect_emoji_names() -> list[tuple[str, Example]]:
    """Return every emoji with its name in every language, in the order of the emoji."""
    package = import_emoji("emoji-languages")
    package.config.load_language(list(LANGUAGES))
    names: list[tuple[str, str, str]] = []
    languages_by_name: defaultdict[str, set[str]] = defaultdict(set)
    for character, data in sorted(package.EMOJI_DATA.items()):
        if data["status"] > FULLY_QUALIFIED or SKIN_TONES & set(character):
            continue
        for code, language in LANGUAGES.items():
            if code in data and (name := clean_emoji_name(data[code])):
                names.append((character, name, language))
                languages_by_name[name].add(language)
    # Of emoji with the same name the first one remains.
    unique = {
        (name, language): (character, Example(name, language))
        for character, name, language in reversed(names)
        if len(languages_by_name[name]) == 1
    }
    return list(reversed(unique.values()))


def clean_emoji_name(name: str) -> str:
    """Return an emoji's name as text.

    >>> clean_emoji_name(":grinning_face_with_big_eyes:")
    'grinning face with big eyes'
    """
    words = unicodedata.normalize("NFC", name.strip(":").replace("_", " ").lower())
    return " ".join(words.split())


def emoji_family(character: str) -> str:
    """Return a key that is the same for an emoji's variants of gender and direction.

    >>> emoji_family("👨‍🚀") == emoji_family("👩‍🚀") == emoji_family("🧑‍🚀") != emoji_family("👩‍🏫")
    True
    """
    return character.translate(_GENDER_AND_DIRECTION)


def import_emoji(dataset: str) -> ModuleType:
    """Import the emoji package, which the dataset needs."""
    try:
        import emoji
    except ModuleNotFoundError:
        raise UserError(f"{dataset} needs emoji: {install_command('data')}") from None
    return emoji
