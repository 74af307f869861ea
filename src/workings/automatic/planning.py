"""Look at a user's data: find its columns, split it, and describe it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from workings.automatic.choices import Table
from workings.automatic.columns import (
    Row,
    choose_label_columns,
    choose_pair_columns,
    choose_text_column,
    find_label_delimiter,
    find_language,
    has_header,
    is_pair_header,
    profile_columns,
)
from workings.automatic.statistics import (
    CorpusStatistics,
    LabeledStatistics,
    PairStatistics,
    describe_examples,
    describe_pairs,
)
from workings.data.corpora import estimate_characters, list_corpora, read_corpus
from workings.data.datasets import find_split_paths, list_datasets, load_dataset, read_hub_splits
from workings.data.download import ProgressCallback
from workings.data.parallel import list_parallel_datasets, load_pairs
from workings.data.readers import (
    TABLE_FORMATS,
    Record,
    detect_format_by_name,
    is_fasttext,
    read_lines,
    read_records,
    source_name,
)
from workings.data.splits import Splits
from workings.data.tables import HUGGING_FACE_PREFIX, is_saved_dataset
from workings.errors import UserError, truncate

SAMPLE_ROWS = 2000  # of which columns are profiled
SAMPLE_CHARACTERS = 1_000_000  # whose alphabet is counted
TASKS = ("classify", "language", "translate", "caption")


@dataclass(frozen=True)
class Sample:
    """Rows from all over a table, and how many it has."""

    rows: Sequence[Row]
    total: int


@dataclass(frozen=True)
class LabeledData:
    """Labeled texts: the data section that reads them, their splits, and a line about them."""

    section: Table
    splits: Splits
    statistics: LabeledStatistics
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PairData:
    """Sentence pairs: the data section that reads them, and lines about them."""

    section: Table
    statistics: PairStatistics
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CorpusData:
    """A text: the data section that reads it, and lines about it."""

    section: Table
    statistics: CorpusStatistics
    lines: list[str] = field(default_factory=list)


# -- the tasks -------------------------------------------------------------------------------------


def plan_labeled_data(
    data: str, stated: Mapping[str, Any], seed: int = 0, progress: ProgressCallback | None = None
) -> LabeledData:
    """Find the columns of labeled texts; `stated` are keys of the data section that are given."""
    section: Table = {"set": data, "skip_missing": True}
    note, total, has_lists = "", 0, False
    if data not in list_datasets() and (sample := sample_table(data)) is not None:
        total = sample.total
        if not total:
            raise UserError(f"{truncate(data, 300)}: a header, and no rows below it")
        profiles = profile_columns(sample.rows)
        choice = choose_label_columns(profiles, stated.get("text"), stated.get("label"))
        section |= {"text": choice.first, "label": choice.second}
        has_lists = any(p.has_lists for p in profiles if p.name == choice.second)
        note = f"text = {choice.first!r}, label = {choice.second!r} ({choice.reason})"
    else:
        note = "texts and labels as the format has them"
        has_lists = _has_several_labels(data)
    if is_multi_label := bool(stated.get("multi_label", has_lists)):
        section["multi_label"] = True
        section["label_delimiter"] = str(stated.get("label_delimiter", ","))
    names = ("text", "label", "skip_missing", "label_delimiter")
    keys = {k: section[k] for k in names if k in section}
    splits = load_dataset(data, validation=0.0, seed=seed, progress=progress, **keys)
    statistics = describe_examples(splits.train)
    if statistics.classes == len(splits.train) > 2:
        raise UserError(
            f"{truncate(data, 300)}: every row has a label of its own: choose a column whose "
            "values repeat with --data.label NAME"
        )
    missing = _count_missing(data, total, splits)
    name = truncate(Path(data).name or data, 40)
    left_out = f"; {missing:,} rows without text or label left out" if missing else ""
    several = ", several per text" if is_multi_label else ""
    lines = [
        f"data: {name}: {note}{left_out}",
        f"rows: {len(splits.train):,} to train on and {len(splits.test):,} to test on once; "
        f"{statistics.classes:,} labels{several}, the most frequent one {statistics.majority:.0%}; "
        f"{statistics.mean_characters:,.0f} characters on average",
    ]
    if not is_multi_label and (mark := find_label_delimiter(splits.labels)):
        option = "" if mark == "," else f" --data.label_delimiter {mark!r}"
        lines.append(f"labels: several per text, with {mark!r}? --data.multi_label true{option}")
    return LabeledData(section, splits, statistics, lines)


def _has_several_labels(data: str) -> bool:
    """Return True if a file of fastText's has a line with several labels."""
    path = Path(data)
    if not path.exists() or not is_fasttext(find_split_paths(path)["train"]):
        return False
    records = read_records(find_split_paths(path)["train"], format="fasttext")
    return any(isinstance(record.fields["label"], list) for record in records)


def _count_missing(data: str, total: int, splits: Splits) -> int:
    """Return how many rows of a table were left out; 0 if it is not known."""
    if not total or data.startswith(HUGGING_FACE_PREFIX):
        return 0
    paths = find_split_paths(Path(data))
    used = len(splits.train) + (0 if "test" in paths else len(splits.test))
    return max(total - used, 0)


def plan_pairs(
    data: str, stated: Mapping[str, Any], seed: int = 0, progress: ProgressCallback | None = None
) -> PairData:
    """Find the columns, or the files, of sentence pairs."""
    section: Table = {"set": data}
    source, target = stated.get("source"), stated.get("target")
    if data in list_parallel_datasets():
        source, target = source or "en", target or "fr"
        note = f"{source} to {target}"
    elif suffixes := _find_parallel_suffixes(Path(data)):
        free = [s for s in suffixes if s not in (source, target)]
        source = source or free.pop(0)
        target = target or free.pop(0)
        note = f"files in {source!r} and {target!r}"
    elif (sample := sample_table(data, pairs=True)) is not None:
        choice = choose_pair_columns(profile_columns(sample.rows), source, target)
        source, target = choice.first, choice.second
        note = f"from {source!r} to {target!r} ({choice.reason})"
    else:
        raise UserError(
            f"{truncate(data, 300)}: no sentence pairs: expected a table with two columns, or two "
            "files such as corpus.en and corpus.fr (--data corpus)"
        )
    section |= {"source": source, "target": target}
    pairs = load_pairs(
        data, source=source, target=target, validation=0.0, test=0.0, seed=seed, progress=progress
    ).train
    statistics = describe_pairs(pairs)
    lines = [
        f"data: {truncate(Path(data).name or data, 40)}: {note}",
        f"pairs: {len(pairs):,}, {statistics.mean_words:.0f} words in a sentence on average",
    ]
    return PairData(section, statistics, lines)


def plan_corpus(
    data: str, stated: Mapping[str, Any], progress: ProgressCallback | None = None
) -> CorpusData:
    """Find the text of a language model: a file, a folder of files, or a column of a table."""
    section: Table = {"set": data}
    note = "a text"
    if data not in list_corpora() and _is_table(data):
        sample = sample_table(data)
        assert sample is not None
        column = choose_text_column(profile_columns(sample.rows), stated.get("text"))
        section["text"] = column
        note = f"{sample.total:,} rows, text = {column!r}, one text per line"
    characters, alphabet = 0, set[str]()
    expected = estimate_characters(data)
    for chunk in read_corpus(data, section.get("text", "")):
        if progress and expected:
            progress(min(characters, expected), expected)
        if characters < SAMPLE_CHARACTERS:
            alphabet.update(chunk)
        characters += len(chunk)
    if not characters:
        raise UserError(f"{truncate(data, 300)}: empty: no text")
    lines = [
        f"data: {truncate(Path(data).name or data, 40)}: {note}",
        f"text: {characters:,} characters, {len(alphabet):,} different ones",
    ]
    return CorpusData(section, CorpusStatistics(characters, len(alphabet)), lines)


# -- tables ----------------------------------------------------------------------------------------


def sample_table(data: str, *, pairs: bool = False) -> Sample | None:
    """Read rows from all over a table; None if the format has no columns to choose from.

    A CSV or TSV file without a header has columns named by their numbers, from "1".
    """
    if data.startswith(HUGGING_FACE_PREFIX):
        return _take_sample(read_hub_splits(data)["train"])
    path = Path(data)
    if not path.exists():
        raise UserError(f"{truncate(data, 300)}: no such file or folder")
    path = find_split_paths(path)["train"]
    file_format = "folder" if path.is_dir() else detect_format_by_name(path.name)
    if file_format == "text" and pairs:
        file_format = "tsv"
    if file_format in ("csv", "tsv"):
        return _sample_delimited(path, file_format, pairs=pairs)
    if file_format in TABLE_FORMATS or is_saved_dataset(path):
        return _take_sample(read_records(path))
    if file_format == "text" and not is_fasttext(path):
        if _has_tabs(path):
            raise UserError(f"{source_name(path)}: columns with tabs: rename the file to .tsv")
        raise UserError(
            f"{source_name(path)}: a plain text has no labels: expected a table (CSV, TSV, JSONL, "
            "Parquet, Arrow), fastText's __label__, or a folder for each label"
        )
    if file_format is None:
        raise UserError(
            f"{source_name(path)}: unknown file name suffix: expected .csv, .tsv, .jsonl, "
            ".parquet, .arrow or .txt"
        )
    return None


def _is_table(data: str) -> bool:
    if data.startswith(HUGGING_FACE_PREFIX):
        return True
    if not Path(data).exists():
        return False
    path = find_split_paths(Path(data))["train"]
    return is_saved_dataset(path) or detect_format_by_name(path.name) in TABLE_FORMATS


def _sample_delimited(path: Path, file_format: str, *, pairs: bool) -> Sample:
    records = read_records(path, format=file_format, numbered_columns=True)
    first = next(records)
    sample = _take_sample(records)
    header = list(first.fields.values())
    is_header = has_header(header, [list(row.values()) for row in sample.rows])
    if is_header and (not pairs or is_pair_header(header)):
        names = [name.strip() for name in header]
        rows = [dict(zip(names, row.values(), strict=True)) for row in sample.rows]
        return Sample(rows, sample.total)
    return Sample([first.fields, *sample.rows], sample.total + 1)


def _take_sample(records: Iterable[Record]) -> Sample:
    """Keep every n-th row, so that a table that is sorted by label shows all labels."""
    rows: list[Row] = []
    step, total = 1, 0
    for total, record in enumerate(records, start=1):
        if (total - 1) % step == 0:
            rows.append(record.fields)
            if len(rows) == 2 * SAMPLE_ROWS:
                rows, step = rows[::2], 2 * step
    return Sample(rows, total)


def _find_parallel_suffixes(path: Path) -> list[str]:
    """Return the languages of two parallel files: those of `PATH.*`, or of `PATH/train.*`."""
    if path.is_dir() and is_saved_dataset(path):
        return []
    folder, stem = (path, "train") if path.is_dir() else (path.parent, path.name)
    if not folder.is_dir() or path.is_file():
        return []
    names = (p.name.removesuffix(".gz") for p in _list_files(folder))
    suffixes = sorted({n.removeprefix(f"{stem}.") for n in names if n.startswith(f"{stem}.")})
    languages = [suffix for suffix in suffixes if find_language(suffix)]
    # English is the source where it is one of two: most parallel corpora are of it.
    return sorted(languages, key=lambda s: find_language(s) != "en") if len(languages) == 2 else []


def _list_files(folder: Path) -> Iterator[Path]:
    return islice((p for p in folder.iterdir() if p.is_file()), 10_000)


# -- data given instead of a recipe ----------------------------------------------------------------


def check_is_recipe(path: Path) -> None:
    """Raise UserError for a data file or a folder, with the command that trains on it."""
    if path.suffix == ".toml":
        return
    name = truncate(str(path), 200)
    if (path / "config.toml").exists():
        raise UserError(f"{name} is a run, not a recipe: workings train --repeat {name}")
    kind = "a folder" if path.is_dir() else "data"
    command = f"workings train --task {_guess_task(path)} --data {name}"
    raise UserError(f"{name} is {kind}, not a recipe: {command}")


def _has_tabs(path: Path) -> bool:
    """Return True if the first lines of a text have two columns or more."""
    lines = [line for _, line in islice(read_lines(path), 20) if line.strip()]
    return bool(lines) and all("\t" in line.strip() for line in lines)


def _guess_task(path: Path) -> str:
    if path.is_dir():
        if any(p.suffix.lower() in (".jpg", ".jpeg", ".png", ".zip") for p in _list_files(path)):
            return "caption"
        return "translate" if _find_parallel_suffixes(path) else "classify"
    if detect_format_by_name(path.name) not in TABLE_FORMATS:
        if is_fasttext(path):
            return "classify"
        return "translate" if _has_tabs(path) else "language"
    try:
        sample = sample_table(str(path))
        profiles = profile_columns(sample.rows if sample else ())
        choose_label_columns(profiles)
    except UserError:
        return "translate"
    return "classify"
