"""Stack vectors that stand line by line under the words they belong to.

    cat → [1, 0]                 cat: [1, 0] · W_Q = [2, 1]
    sat → [0, 2]                 sat: [0, 2] · W_Q = [0, 4]

The lines become one, with matrices in place of the rows and without the words.
"""

import re
from collections.abc import Callable, Sequence

from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources.base import Grid
from workings.problems.documents.sources.tables import is_symbol
from workings.problems.documents.words import ROLE_WORDS

_MARK = re.compile("\ue000(\\d+)\ue001")
_LABEL = re.compile(
    r"\s*(?:[-*+•]\s+|\d{1,2}[.)]\s+)?[*_`\"'“”‘’«»(]{0,4}"
    r"(?P<label>[^\W\d_][^\W_]*(?:[ -][^\W_]+){0,2}"
    r"|(?:token|word|row|wort|zeile|mot|fila|词)\s*\d{1,2})[.!?]?"
    r"[*_`\"'“”‘’«»)]{0,4}(?:\s*\([^()=\ue000]{0,30}\))?[*_`]{0,3}"
    r"\s*(?:→|⟶|->|-->|=>|⇒|:|：|=|\|)[*_`]{0,3}\s*(?P<rest>.*\S)",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?<=[\w)*]:)[*\s$]*\ue000\d+\ue001(?:\$?\s*(?:,|;|,?\s*\b(?:and|und|et|y)\b)\s*\$?\ue000\d+\ue001)+"
    r"(?=[\s.;$]*$)"
)
_REMARK = re.compile(r"(?:#|//|\()[^\ue000]*$")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?")
_INDEXED = re.compile(r"[^\W\d_]_?\{?\d+")
_MAX_ROWS = 64

AddGrid = Callable[[Rows, int], str]


def stack_labeled_rows(lines: Sequence[str], grids: Sequence[Grid], add_grid: AddGrid) -> list[str]:
    """Return the lines with stacks of labeled vectors as matrices; the others are as they were."""
    out, index = list(lines), 0
    while index < len(out):
        members = _find_stack(out, index, grids)
        if len(members) < 2:
            index += 1
            continue
        out[index] = _join(members, grids, lambda rows, at=index: add_grid(rows, at))  # type: ignore[misc]
        for k, _ in members[1:]:
            out[k] = ""
        index = members[-1][0] + 1
    return out


def join_listed_rows(lines: Sequence[str], grids: Sequence[Grid], add_grid: AddGrid) -> list[str]:
    """Return the lines with listed rows, "Softmax: [0.7, 0.3] and [0.5, 0.5]", as matrices."""

    def join(match: re.Match[str], at: int) -> str:
        rows = [grids[int(index)].rows for index in _MARK.findall(match[0])]
        are_rows = all(len(r) == 1 and len(r[0]) == len(rows[0][0]) > 1 for r in rows if rows[0])
        return add_grid([row[0] for row in rows], at) if are_rows and all(rows) else match[0]

    return [
        _LISTED.sub(lambda match, at=k: join(match, at), line) if "\ue000" in line else line  # type: ignore[misc]
        for k, line in enumerate(lines)
    ]


def _find_stack(lines: Sequence[str], index: int, grids: Sequence[Grid]) -> list[tuple[int, str]]:
    """Return the lines from one on that say the same of several words, without the words."""
    members: list[tuple[int, str]] = []
    labels: set[str] = set()
    k = index
    while k < len(lines) and len(members) < _MAX_ROWS:
        if not lines[k].strip() and members and k - members[-1][0] < 2:
            k += 1
            continue
        match = _LABEL.fullmatch(lines[k]) if "\ue000" in lines[k] else None
        if match is None or is_symbol(match["label"]) or match["label"].lower() in labels:
            break
        if match["label"].lower() in ROLE_WORDS or is_symbol(match["label"].split()[-1]):
            break  # gamma = …, beta = …; we get x = …
        rest = _REMARK.sub("", match["rest"]).strip()
        if not _holds_vectors(rest, grids) or (
            members and not _is_alike(members[0][1], rest, grids)
        ):
            break
        labels.add(match["label"].lower())
        members.append((k, rest))
        k += 1
    return members


def _holds_vectors(text: str, grids: Sequence[Grid]) -> bool:
    """Return True if a text ends with a vector, and has a row of numbers in it."""
    marks = [grids[int(index)] for index in _MARK.findall(text)]
    return bool(marks) and all(grid.rows for grid in marks) and marks[-1].shape[0] == 1


def _is_alike(one: str, other: str, grids: Sequence[Grid]) -> bool:
    """Return True for two texts that are the same but for their numbers."""
    shapes = [[grids[int(index)].shape for index in _MARK.findall(text)] for text in (one, other)]
    names = [_INDEXED.findall(text) for text in (one, other)]
    if names[0] != names[1]:
        return False  # z_1 = …, z_2 = …: their indices number them
    skeletons = [_NUMBER.sub("0", _MARK.sub("\ue000", text)) for text in (one, other)]
    return shapes[0] == shapes[1] and skeletons[0] == skeletons[1]


def _join(
    members: Sequence[tuple[int, str]], grids: Sequence[Grid], add_grid: Callable[[Rows], str]
) -> str:
    """Return the first of several lines with the vectors of all of them as its matrices."""
    first = members[0][1]
    columns = zip(*(_MARK.findall(text) for _, text in members), strict=True)
    marks = []
    for column in columns:
        rows = [grids[int(index)].rows for index in column]
        is_matrix = len(rows[0]) > 1  # the same weights in every line
        marks.append(
            f"\ue000{column[0]}\ue001" if is_matrix else add_grid([row[0] for row in rows])
        )
    remaining = iter(marks)
    return _MARK.sub(lambda _: f" {next(remaining)} ", first)
