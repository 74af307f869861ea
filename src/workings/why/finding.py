"""What an experiment found: a few lines with their numbers, a picture, the figures behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.views import found
from workings.views.picture import Picture


@dataclass(frozen=True)
class Finding:
    """The answer to a question.

    `lines` say what was found, with numbers; `otherwise` says what would change the answer;
    the `rows` under their `head` are the figures that the `picture` draws.
    """

    question: str
    lines: Sequence[str]
    otherwise: str
    picture: Picture
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        return found.text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as a page."""
        return found.page(self)

    def to_picture(self) -> Picture:
        """Draw it."""
        return self.picture

    def to_table(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "question": self.question,
            "found": list(self.lines),
            "otherwise": self.otherwise,
            "figures": [dict(zip(self.head, row, strict=True)) for row in self.rows],
        }

    def _repr_html_(self) -> str:
        return found.fragment(self)
