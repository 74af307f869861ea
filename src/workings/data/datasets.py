"""A set that needs no download: which language is this? From the names of emoji.

The `emoji` package carries the name of every emoji in fourteen languages: some 25,000 short, real
strings. An emoji is wholly in train, in validation or in test, together with those that differ from
it in gender or direction only: a model cannot answer "männer mit hasenohren" by having learnt
"frauen mit hasenohren". Skin tones are left out: they would repeat every name five times. So is a
name that stands in several languages ("shorts" is English, German and Portuguese), since it has no
right answer. Names are lower-cased, because only English ones have capitals.
"""

import gzip
import json
import os
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from workings.data.archives import iter_members
from workings.data.download import Mirror, ProgressCallback, download, matches_any_mirror
from workings.data.readers import Example, decode_utf8, read_examples
from workings.data.splits import Splits, hash_to_unit_interval, hold_out
from workings.errors import UserError, did_you_mean, truncate
from workings.io import check_inside, file_lock

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
FULLY_QUALIFIED = 2  # the package's word for an emoji as one should write it


def load_emoji_languages() -> Splits:
    """Make the set: names of emoji, each with the language that it is in.

    >>> splits = load_emoji_languages()
    >>> len(splits.labels), Example("erstauntes gesicht", "German") in splits.train
    (14, True)
    """
    parts: tuple[list[Example], list[Example], list[Example]] = ([], [], [])
    for character, example in _collect_emoji_names():
        drawn = hash_to_unit_interval(emoji_family(character))
        parts[0 if drawn < 0.8 else 1 if drawn < 0.9 else 2].append(example)
    return Splits("emoji-languages", *(tuple(part) for part in parts))


def _collect_emoji_names() -> list[tuple[str, Example]]:
    """Every emoji with its name in every language, one emoji after the other."""
    package = import_emoji("emoji-languages")
    package.config.load_language(list(LANGUAGES))
    found: list[tuple[str, str, str]] = []
    languages: defaultdict[str, set[str]] = defaultdict(set)
    for character, data in sorted(package.EMOJI_DATA.items()):
        if data["status"] > FULLY_QUALIFIED or SKIN_TONES & set(character):
            continue
        for code, language in LANGUAGES.items():
            if code in data and (name := clean_emoji_name(data[code])):
                found.append((character, name, language))
                languages[name].add(language)
    unique = {(n, l): (c, n, l) for c, n, l in reversed(found) if len(languages[n]) == 1}
    return [(c, Example(n, l)) for c, n, l in reversed(unique.values())]


def clean_emoji_name(name: str) -> str:
    """Write an emoji's name as people would.

    >>> clean_emoji_name(":grinning_face_with_big_eyes:")
    'grinning face with big eyes'
    """
    bare = unicodedata.normalize("NFC", name.strip(":").replace("_", " ").lower())
    return " ".join(bare.split())


def emoji_family(character: str) -> str:
    """Name what an emoji has in common with its variants of gender and direction.

    >>> emoji_family("👨‍🚀") == emoji_family("👩‍🚀") == emoji_family("🧑‍🚀") != emoji_family("👩‍🏫")
    True
    """
    return character.translate(_GENDER_AND_DIRECTION)


def import_emoji(dataset: str) -> ModuleType:
    """Import the package that the set of this name is made from."""
    try:
        import emoji
    except ModuleNotFoundError:
        raise UserError(f'{dataset} needs emoji: pip install "workings[data]"') from None
    return emoji


PrepareFunction = Callable[[Path, Path], None]
_SENTIMENT_LABELS = {"0": "negative", "1": "positive"}


@dataclass(frozen=True)
class DatasetSpec:
    """A published set: its home, its archive there, and its files once they are prepared."""

    name: str
    description: str
    homepage: str
    splits: tuple[str, ...]
    archive: str
    mirrors: tuple[Mirror, ...]
    prepare: PrepareFunction
    """Writes the parts into a folder, `PART.jsonl.gz` each, from the archive."""
    labels: Mapping[str, str]
    """The names of the labels, by how the files write them."""


def _prepare_imdb(archive: Path, folder: Path) -> None:
    reviews: dict[str, dict[tuple[str, int], dict[str, Any]]] = {"train": {}, "test": {}}
    for member in iter_members(archive):
        found = re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/(\d+)_(\d+)\.txt", member.name)
        if found:
            part, side, number, rating = found.groups()
            text = decode_utf8(member.read(), f"{archive}: {member.name}")
            reviews[part][side, int(number)] = {
                "id": f"{side}/{number}_{rating}",
                "label": int(side == "pos"),
                "rating": int(rating),
                "text": text,
            }
    for part, records in reviews.items():
        _write_jsonl_gz(
            folder / f"{part}.jsonl.gz", (records[key] for key in sorted(records)), archive
        )


def _prepare_rt_polarity(archive: Path, folder: Path) -> None:
    sides = {}
    for member in iter_members(archive):
        side = member.name.rpartition(".")[2]
        if member.name.rpartition("/")[2] in ("rt-polarity.pos", "rt-polarity.neg"):
            sides[side] = member.read().decode("cp1252", "replace").splitlines()
    records = (
        {"label": int(side == "pos"), "text": line.strip()}
        for side in ("pos", "neg")
        for line in sides.get(side, ())
        if line.strip()
    )
    _write_jsonl_gz(folder / "mr.jsonl.gz", records, archive)


def _write_jsonl_gz(path: Path, records: Iterable[dict[str, Any]], archive: Path) -> None:
    """Write JSON lines, gzip'd, the same bytes whenever it is done."""
    part = path.with_name(f"{path.name}.part")
    count = 0
    with part.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for line in _encode_json_lines(records):
            packed.write(line)
            count += 1
    if not count:
        part.unlink()
        raise UserError(f"{archive}: holds nothing for {path.name}")
    part.replace(path)


def _encode_json_lines(records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for record in records:
        yield json.dumps(record, ensure_ascii=False).encode() + b"\n"


DATASETS = {
    s.name: s
    for s in (
        DatasetSpec(
            name="imdb",
            description="50,000 film reviews, positive or negative, half of them for the test",
            homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
            splits=("train", "test"),
            archive="aclImdb_v1.tar.gz",
            mirrors=(
                # The home publishes no digest; two widely used libraries state this one.
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
                # The archive's home publishes no digest: these are the ones that users of the two
                # copies have published, an MD5 of the first and a SHA-256 of the second.
                Mirror(
                    "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz",
                    size=487_770,
                    digest="md5:50c1c2c047b4225e148e97aa7708c34e",
                ),
                Mirror(
                    "https://storage.googleapis.com/seldon-datasets/sentence_polarity_v1/rt-polaritydata.tar.gz",
                    size=487_770,
                    digest="sha256:a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9",
                ),
            ),
            prepare=_prepare_rt_polarity,
            labels=_SENTIMENT_LABELS,
        ),
    )
}


BUILTIN_DATASETS: dict[str, Callable[[], Splits]] = {"emoji-languages": load_emoji_languages}

_VALIDATION_NAMES = ("validation", "valid", "val", "dev")


def list_datasets() -> tuple[str, ...]:
    """Name the sets that `load_set` knows.

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
    format: str | None = None,  # noqa: A002 - the word that people look for
    text: str = "text",
    label: str | None = "label",
    allow_download: bool = True,
    progress: ProgressCallback | None = None,
) -> Splits:
    """Load a named set, a file, or a folder, and hold out what it does not hold out itself.

    A folder may have `train` and `test` (and `validation`) as files or sub-folders; or it is a
    class a sub-folder. Shares of the training examples are held out, label by label and never a
    text on both sides, for the parts that are not there; the same `seed` holds out the same texts.
    A path that is spelt like a named set is written `./imdb`.
    """
    if min(validation, test) < 0 or validation + test >= 1:
        raise UserError(f"validation = {validation}, test = {test}: nothing is left to train on")
    if str(data) in BUILTIN_DATASETS:
        return BUILTIN_DATASETS[str(data)]()
    if str(data) in DATASETS:
        chosen = DATASETS[str(data)]
        folder = locate_dataset(chosen.name, allow_download=allow_download, progress=progress)
        parts = {part: _read_named_split(chosen, folder, part) for part in chosen.splits}
        return _make_splits(chosen.name, parts, validation, test, seed)
    path = Path(data)
    if not path.exists():
        known = list_datasets()
        raise UserError(f"{data}: neither a file nor a named set: {did_you_mean(str(data), known)}")
    parts = {
        part: tuple(
            read_examples(place, format=format if place.is_file() else None, text=text, label=label)
        )
        for part, place in find_split_paths(path).items()
    }
    return _make_splits(str(data), parts, validation, test, seed)


def _make_splits(
    name: str,
    examples_by_split: Mapping[str, tuple[Example, ...]],
    validation: float,
    test: float,
    seed: int,
) -> Splits:
    train: list[Example] = list(
        examples_by_split["train"]
        if "train" in examples_by_split
        else next(iter(examples_by_split.values()))
    )
    tested: list[Example] = list(examples_by_split.get("test", ()))
    valid: list[Example] = list(examples_by_split.get("validation", ()))
    whole = len(train)
    if "test" not in examples_by_split:
        train, tested = hold_out(train, test, seed=seed)
    if "validation" not in examples_by_split:
        # A share of the whole, which the test examples may have left already.
        share = validation * whole / len(train) if len(train) else 0.0
        train, valid = hold_out(train, share, seed=seed + 1)
    return Splits(name, tuple(train), tuple(valid), tuple(tested))


def _read_named_split(spec: DatasetSpec, folder: Path, split: str) -> tuple[Example, ...]:
    place = _find_split_file(folder, split)
    assert place is not None
    return tuple(read_examples(place, label_names=spec.labels))


def find_split_paths(path: Path) -> dict[str, Path]:
    """Find the parts that a folder holds; a file, or a folder of classes, is all `train`."""
    if path.is_file():
        return {"train": path}
    found: dict[str, Path] = {}
    for place in sorted(path.iterdir()):
        part = normalize_split_name(place.name.partition(".")[0])
        if part not in ("train", "validation", "test"):
            continue
        check_inside(place, path)
        if place.is_dir() and not any(p.is_dir() for p in place.iterdir()):
            continue  # a class that happens to have such a name
        if part in found:
            both = f"{truncate(found[part].name)} and {truncate(place.name)}"
            raise UserError(f"{path}: both {both}: which one?")
        found[part] = place
    return found if "train" in found else {"train": path}


def normalize_split_name(stem: str) -> str:
    """Tell the part of a set that files of this name hold; validation has many names.

    >>> normalize_split_name("dev"), normalize_split_name("train")
    ('validation', 'train')
    """
    return "validation" if stem in _VALIDATION_NAMES else stem


def locate_dataset(
    name: str, *, allow_download: bool = True, progress: ProgressCallback | None = None
) -> Path:
    """Find the folder of a named set, downloading it first where need be and `fetch` allows."""
    if name not in DATASETS:
        raise UserError(f"{name}: no named set that is downloaded: {did_you_mean(name, DATASETS)}")
    chosen = DATASETS[name]
    places = dataset_folders(name)
    cache = places[-1]
    for place in places:
        if _is_complete(chosen, place):
            return place
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with file_lock(cache / ".lock"):
            if not _is_complete(chosen, cache):  # else another process was faster
                _prepare_dataset(chosen, cache, places, allow_download, progress)
    except OSError as error:
        raise UserError(
            f"{cache}: {error.strerror}\n{_manual_download_hint(chosen, cache)}"
        ) from None
    return cache


def dataset_folders(name: str) -> list[Path]:
    """List where a named set may be: under WORKINGS_DATA, if that is set, and in the cache."""
    given = os.environ.get("WORKINGS_DATA")
    return [*([Path(given) / name] if given else []), cache_folder() / "data" / name]


def _prepare_dataset(
    spec: DatasetSpec,
    cache: Path,
    folders: list[Path],
    allow_download: bool,
    progress: ProgressCallback | None,
) -> None:
    """Prepare a set from its archive: one that somebody put there, or else a fresh one."""
    for place in folders:
        if matches_any_mirror(place / spec.archive, spec.mirrors):
            spec.prepare(place / spec.archive, cache)
            return
    if not allow_download:
        raise UserError(f"{spec.name}: not on this machine\n{_manual_download_hint(spec, cache)}")
    try:
        archive = download(spec.mirrors, cache / spec.archive, progress=progress)
    except UserError as error:
        raise UserError(f"{spec.name}: {error}\n{_manual_download_hint(spec, cache)}") from None
    spec.prepare(archive, cache)
    archive.unlink()  # its texts now stand beside it


def _is_complete(spec: DatasetSpec, folder: Path) -> bool:
    return all(_find_split_file(folder, part) for part in spec.splits)


def _find_split_file(folder: Path, split: str) -> Path | None:
    return next(
        (p for end in (".jsonl.gz", ".jsonl") if (p := folder / f"{split}{end}").is_file()), None
    )


def _manual_download_hint(spec: DatasetSpec, cache: Path) -> str:
    files = " and ".join(f"{part}.jsonl.gz" for part in spec.splits)
    return (
        f"put {spec.archive}, from {spec.homepage}, into {cache}\n"
        f"or set WORKINGS_DATA to a folder with {spec.name}/ in it that holds {files} "
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
