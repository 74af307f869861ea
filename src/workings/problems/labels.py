"""Claims that name a token: a cell is the word itself, or its number in the vocabulary from 1."""

from typing import Any

from workings.errors import UserError, did_you_mean, safe_repr
from workings.problems.numbers import Number


def read_label(cell: object, where: str, labels: tuple[str, ...]) -> Number | None:
    """Return a token as its number from 1; None for a blank. `where` names the cell in errors.

    A word outranks a number, so that a vocabulary may have digits. The case of letters counts only
    if two tokens differ in nothing else.

    >>> read_label("Cat", "beams", ("the", "cat"))
    Number(text='Cat', value=2.0, places=0, has_exponent=False)
    >>> read_label(1, "beams", ("the", "cat")).value
    1.0
    """
    text = "" if isinstance(cell, bool) or not isinstance(cell, int | str) else str(cell).strip()
    if text in labels:
        return Number(text, labels.index(text) + 1.0, 0)
    if text == "?":
        return None
    if text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= len(labels):
        return Number(labels[int(text) - 1], float(text), 0)
    similar = [k for k, label in enumerate(labels) if label.casefold() == text.casefold()]
    if len(similar) == 1:
        return Number(text, similar[0] + 1.0, 0)
    hint = did_you_mean(text, labels) if text else f"write a word or a number to {len(labels)}"
    raise UserError(f"{where}: {safe_repr(cell, 30)} is not a token: {hint}")


def get_label(value: float, labels: tuple[str, ...]) -> str:
    """Return the label that a number from 1 stands for."""
    return labels[min(max(round(value), 1), len(labels)) - 1]


def split_label_text(value: Any, labels: tuple[str, ...], column_vectors: bool) -> Any:
    """Split texts of several tokens at spaces: "the cat", or a list of such texts.

    Each text is a sequence: a row or, with column vectors, a column.

    >>> split_label_text(["the cat", "a dog"], ("the", "a", "cat", "dog"), column_vectors=True)
    [['the', 'a'], ['cat', 'dog']]
    """

    def is_text(item: object) -> bool:
        return isinstance(item, str) and len(item.split()) > 1 and item not in labels

    if is_text(value):
        return value.split()
    if not isinstance(value, list):
        return [value]
    if not any(map(is_text, value)):
        return value
    rows = [item.split() if isinstance(item, str) else [item] for item in value]
    is_even = len({len(row) for row in rows}) == 1
    return (
        [list(column) for column in zip(*rows, strict=True)] if column_vectors and is_even else rows
    )
