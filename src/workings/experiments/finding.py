"""The result of an experiment: sentences with numbers, a picture, and the figures behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.render import finding
from workings.render.picture import Picture


@dataclass(frozen=True)
class Finding:
    """The answer to a question.

    `lines` state what was measured; `caveats` says what would change the answer; `rows` under
    their `header` are the figures that the `picture` draws.
    """

    question: str
    lines: Sequence[str]
    caveats: str
    picture: Picture
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Render it for a terminal."""
        return finding.render_text(self, width=width, color=color)

    def to_html(self) -> str:
        """Render it as a self-contained HTML page."""
        return finding.render_page(self)

    def to_picture(self) -> Picture:
        """Return the picture."""
        return self.picture

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dictionary for JSON."""
        return {
            "question": self.question,
            "findings": list(self.lines),
            "caveats": self.caveats,
            "figures": [dict(zip(self.header, row, strict=True)) for row in self.rows],
        }

    def _repr_html_(self) -> str:
        return finding.render_fragment(self)
