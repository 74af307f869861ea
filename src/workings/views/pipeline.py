"""How a text becomes numbers, for a terminal."""

from collections.abc import Sequence
from typing import Protocol

from workings.views.plain import one_line
from workings.views.table import text_table


class Told(Protocol):
    """The stages of one text."""

    @property
    def text(self) -> str: ...
    @property
    def standardised(self) -> str: ...
    @property
    def tokens(self) -> Sequence[str]: ...
    @property
    def ids(self) -> Sequence[int]: ...
    @property
    def vectors(self) -> Sequence[Sequence[float]]: ...
    @property
    def width(self) -> int: ...


def stages(shown: Sequence[Told]) -> str:
    """Write each text's stages below each other."""
    return "\n\n".join(_one(told) for told in shown)


def _one(told: Told) -> str:
    rows = [
        (one_line(token), str(number), _vector(vector, told.width))
        for token, number, vector in zip(told.tokens, told.ids, told.vectors, strict=True)
    ]
    head = ("token", "id", f"vector of {told.width}")
    return (
        f"text          {one_line(told.text)}\n"
        f"standardised  {one_line(told.standardised)}\n"
        f"{text_table(head, rows) if rows else '(no tokens)'}"
    )


def _vector(numbers: Sequence[float], width: int) -> str:
    written = "  ".join(f"{x:6.2f}" for x in numbers)
    return f"{written}  …" if width > len(numbers) else written
