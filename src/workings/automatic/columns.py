"""Choose the columns of a table by their names, and by their contents where names do not decide."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from workings.automatic.names import (
    LABEL_NAMES,
    LANGUAGE_CODES,
    LANGUAGE_NAMES,
    OTHER_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
)
from workings.data.readers import is_missing
from workings.errors import UserError, truncate

MAX_HEADER_CHARACTERS = 60
MAX_LABELS = 200
MIN_ROWS_PER_LABEL = 1.5
"""A column whose values repeat less often on average has no labels."""
MAX_SINGLE_ROWS = 10  # of a table whose labels may be numbers that never repeat

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ColumnProfile:
    """What the values of a column are like, in a sample of rows."""

    name: str
    rows: int
    """rows with a value"""
    distinct: int
    mean_characters: float
    mean_words: float
    numeric: float
    """fraction of the values that are numbers"""
    has_lists: bool = False
    """True if values are lists, whose items the other figures describe"""

    @property
    def repeats(self) -> float:
        """The average number of rows with the same value."""
        return self.rows / max(self.distinct, 1)

    @property
    def can_be_label(self) -> bool:
        """True if there are few different values, short ones, and each several times."""
        return (
            2 <= self.distinct <= MAX_LABELS
            and self.repeats >= MIN_ROWS_PER_LABEL
            and self.mean_characters <= 60
        )

    @property
    def can_be_text(self) -> bool:
        """True if the values are words or sentences, most of them different."""
        return self.numeric < 0.5 and self.mean_characters >= 1 and not self.has_lists


@dataclass(frozen=True)
class ColumnChoice:
    """Two columns, and why."""

    first: str
    second: str
    reason: str


def profile_columns(rows: Sequence[Row]) -> list[ColumnProfile]:
    """Profile every column of a sample of rows."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [_profile(name, [row.get(name) for row in rows]) for name in names]


def _profile(name: str, values: Iterable[Any]) -> ColumnProfile:
    present = [value for value in values if not is_missing(value)]
    items = [item for value in present for item in (value if isinstance(value, list) else [value])]
    texts = [str(item).strip() for item in items]
    count = max(len(texts), 1)
    return ColumnProfile(
        name,
        len(texts),
        len(set(texts)),
        sum(map(len, texts)) / count,
        sum(len(text.split()) for text in texts) / count,
        sum(map(_is_number, texts)) / count,
        any(isinstance(value, list) for value in present),
    )


def choose_label_columns(
    profiles: Sequence[ColumnProfile], text: str | None = None, label: str | None = None
) -> ColumnChoice:
    """Choose the columns of the texts and of the labels; given ones stay as they are."""
    for name in (text, label):
        _check_column(name, profiles)
    text_reason = label_reason = "given"
    if text is None:
        others = [p for p in profiles if p.name != label]
        text, text_reason = _choose_text(others)
    if label is None:
        others = [p for p in profiles if p.name != text]
        label, label_reason = _choose_label(others, text)
    reasons = f"text by {text_reason}, label by {label_reason}"
    if text_reason == label_reason:
        reasons = "both given" if text_reason == "given" else f"both by {text_reason}"
    return ColumnChoice(text, label, reasons.replace("by given", "given"))


def _choose_text(profiles: Sequence[ColumnProfile]) -> tuple[str, str]:
    candidates = [p for p in profiles if p.can_be_text and not _is_other(p.name)]
    candidates = candidates or [p for p in profiles if p.can_be_text]
    if not candidates:
        raise UserError(
            f"no column has texts: the columns are {_list_names(profiles)}: choose one with "
            "--data.text NAME"
        )
    # A name such as "text" may belong to a code: the longest column has far more then.
    longest = max(candidates, key=lambda p: p.mean_characters * min(p.distinct, 100))
    for profile in _match_names(candidates, TEXT_NAMES):
        if profile.mean_characters * 20 >= longest.mean_characters:
            return profile.name, "name"
    return longest.name, "content: the longest texts"


def _choose_label(profiles: Sequence[ColumnProfile], text: str) -> tuple[str, str]:
    candidates = [p for p in profiles if p.can_be_label and not _is_other(p.name)]
    for profile in _match_names(candidates, LABEL_NAMES):
        return profile.name, "name"
    if candidates:
        # Few classes are likelier labels than many: a column of cities comes with one of ratings.
        best = min(candidates, key=lambda p: (p.distinct, p.numeric))
        return best.name, "content: few different values"
    for profile in _match_names(profiles, LABEL_NAMES):
        if profile.distinct == 1:
            raise UserError(
                f"column {profile.name!r} has the same label in every row: at least two labels are "
                "needed: choose another column with --data.label NAME"
            )
        if profile.numeric == 1 and profile.distinct == profile.rows > MAX_SINGLE_ROWS:
            raise UserError(
                f"column {profile.name!r} has another number in each row: a class has several "
                "rows: choose another column with --data.label NAME"
            )
        if profile.distinct >= 2:  # a small table, or classes with one row each
            return profile.name, "name"
    others = _list_names(profiles)
    raise UserError(
        f"no column beside {text!r} has labels, that is short values which repeat: the other "
        f"columns are {others}: choose one with --data.label NAME"
    )


def choose_pair_columns(
    profiles: Sequence[ColumnProfile], source: str | None = None, target: str | None = None
) -> ColumnChoice:
    """Choose the columns of source and target sentences; given ones stay as they are."""
    for name in (source, target):
        _check_column(name, profiles)
    if source is not None and target is not None:
        return ColumnChoice(source, target, "both given")
    texts = [p for p in profiles if p.can_be_text and not _is_other(p.name)]
    rest = [p for p in texts if p.name not in (source, target)]
    given = source, target
    by_name = [
        next((p.name for p in _match_names(rest, names)), None)
        for names in (SOURCE_NAMES, TARGET_NAMES)
    ]
    languages = [p.name for p in rest if find_language(p.name)]
    if source is None and target is None and all(by_name) and by_name[0] != by_name[1]:
        return ColumnChoice(str(by_name[0]), str(by_name[1]), "both by name")
    ordered = languages if len(languages) >= given.count(None) else [p.name for p in rest]
    if len(ordered) < given.count(None):
        raise UserError(
            f"two columns of sentences are needed: the columns are {_list_names(profiles)}: choose "
            "with --data.source NAME --data.target NAME"
        )
    names = iter(ordered)
    chosen = [name or next(names) for name in given]
    reason = "by language" if ordered is languages else "by content: the first texts"
    return ColumnChoice(chosen[0], chosen[1], reason)


def choose_text_column(profiles: Sequence[ColumnProfile], text: str | None = None) -> str:
    """Choose the column of the texts that a language model learns."""
    _check_column(text, profiles)
    return text or _choose_text(profiles)[0]


def find_label_delimiter(labels: Sequence[str]) -> str | None:
    """Return the mark that seems to separate several labels: parts occur in several labels.

    >>> find_label_delimiter(["sport", "sport|news", "news"])
    '|'
    >>> find_label_delimiter(["Lyon, France", "Rome, Italy"]) is None
    True
    """
    for mark in ",;|":
        split = [{part.strip() for part in label.split(mark)} for label in labels]
        counts = Counter(part for parts in split for part in parts)
        if counts and any(len(parts) > 1 for parts in split) and min(counts.values()) > 1:
            return mark
    return None


def find_language(column: str) -> str | None:
    """Return the code of the language that a column is named after, or None.

    >>> find_language("translation.en"), find_language("French"), find_language("text")
    ('en', 'fr', None)
    """
    name = re.split(r"[.:/]", column.strip().lower())[-1].strip()
    for part in (name, *re.split(r"[_-]", name)):
        if part in LANGUAGE_CODES:
            return part
        if part in LANGUAGE_NAMES:
            return LANGUAGE_NAMES[part]
    return None


def has_header(first_row: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row of a table names its columns.

    It does if all are usual names, of texts and labels among them. Else it does not if it has a
    number, an empty or a long text, the same text twice, or a value that is in its column below.

    >>> has_header(["review", "sentiment"], [["Good.", "positive"], ["Bad.", "negative"]])
    True
    >>> has_header(["Good.", "positive"], [["Fine.", "positive"], ["Bad.", "negative"]])
    False
    """
    cells = [cell.strip() for cell in first_row]
    # An index column without a name is written by pandas.
    named = cells[1:] if cells and not cells[0] else cells
    if _are_usual_names(named):
        return True
    if not named or not all(named) or len(set(cells)) < len(cells):
        return False
    if any(len(cell) > MAX_HEADER_CHARACTERS or _is_number(cell) for cell in named):
        return False
    columns = zip(*(row for row in rows if len(row) == len(cells)), strict=False)
    counts = [Counter(value.strip() for value in column) for column in columns]
    return not any(count[cell] > 0 for cell, count in zip(cells, counts, strict=False) if cell)


def _are_usual_names(cells: Sequence[str]) -> bool:
    names = {_normalize(cell) for cell in cells}
    usual = {*TEXT_NAMES, *LABEL_NAMES, *OTHER_NAMES}
    return names <= usual and not names.isdisjoint(TEXT_NAMES) and not names.isdisjoint(LABEL_NAMES)


def is_pair_header(first_row: Sequence[str]) -> bool:
    """Return True if the first row of a table of sentence pairs names its columns.

    A short sentence looks like a name: at least one must be that of a language or of a side.

    >>> is_pair_header(["id", "English", "French"]), is_pair_header(["Go.", "Va !"])
    (True, False)
    """
    names = {*SOURCE_NAMES, *TARGET_NAMES, *TEXT_NAMES}
    return any(_normalize(cell) in names or find_language(cell) for cell in first_row)


def _match_names(
    profiles: Sequence[ColumnProfile], names: Sequence[str]
) -> Iterable[ColumnProfile]:
    """Yield the columns whose name is one of these, best first; then those that contain one."""
    for matches in (_equals, _contains):
        for name in names:
            yield from (p for p in profiles if matches(_normalize(p.name), name))


def _equals(column: str, name: str) -> bool:
    return column == name


def _contains(column: str, name: str) -> bool:
    """Return True if a name is one word of a column's name, or several that follow each other."""
    words = re.split(r"[_ ]+", column)
    pairs = ["_".join(pair) for pair in pairwise(words)]
    return name in words or name in pairs


def _normalize(column: str) -> str:
    """Return a name in snake case: "Review Text" and "reviewText" are "review_text"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[\W_]+", "_", spaced.lower()).strip("_")


def _is_other(column: str) -> bool:
    name = _normalize(column)
    words = name.split("_")
    return (
        not column.strip()
        or name in OTHER_NAMES
        or words[-1] in ("id", "url", "date", "unnamed")
        or (words[0] == "unnamed")
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _check_column(name: str | None, profiles: Sequence[ColumnProfile]) -> None:
    if name is not None and name not in (p.name for p in profiles):
        raise UserError(f"no column {name!r}: the columns are {_list_names(profiles)}")


def _list_names(profiles: Sequence[ColumnProfile]) -> str:
    return truncate(", ".join(p.name for p in profiles), 200) or "none"
