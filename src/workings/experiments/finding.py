"""What an experiment found: a few lines with their numbers, a picture, the figures behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.render import finding
from workings.render.picture import Picture


@dataclass(frozen=True)
class Finding:
    """The answer to a question.

    `lines` say what was found, with numbers; `otherwise` says what would change the answer;
    the `rows` under their `head` are the figures that the `picture` draws.
    """

    question: str
    lines: Sequence[str]
    caveats: str
    picture: Picture
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        return finding.render_text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as a page."""
        return finding.render_page(self)

    def to_picture(self) -> Picture:
        """Draw it."""
        return self.picture

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "question": self.question,
            "findings": list(self.lines),
            "caveats": self.caveats,
            "figures": [dict(zip(self.header, row, strict=True)) for row in self.rows],
        }

    def _repr_html_(self) -> str:
        return finding.render_fragment(self)
