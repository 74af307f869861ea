"""The answer of an experiment: lines with numbers, a figure, a table; and how it is shown."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.display import Renderable
from workings.plain_text import escape_control, wrap_to_columns
from workings.render import register
from workings.render.page import escape_html, html_page
from workings.render.pictures import Picture
from workings.render.tables import html_table, text_table
from workings.render.training_report import REPORT_CSS

_CSS = """
.workings .found { max-width: 46rem; margin: 0 0 .6rem; }
.workings .otherwise { color: var(--soft); max-width: 46rem; margin: .8rem 0; }
"""


@dataclass(frozen=True)
class Finding(Renderable):
    """The answer to a question.

    `lines` state the result with its numbers; `caveats` say what would change it; `rows`, under
    their `header`, are the numbers that the `figure` draws.
    """

    question: str
    lines: Sequence[str]
    caveats: str
    figure: Picture
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as data for JSON."""
        return {
            "question": self.question,
            "findings": list(self.lines),
            "caveats": self.caveats,
            "figures": [dict(zip(self.header, row, strict=True)) for row in self.rows],
        }


def render_text(finding: Finding, *, width: int | None = None, color: bool = False) -> str:
    """Return the question, the answer, the table and the caveats as text."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    question = escape_control(finding.question)
    return "\n".join(
        [
            f"\x1b[1m{question}\x1b[0m" if color else question,
            "",
            *(
                row
                for line in finding.lines
                for row in wrap_to_columns(escape_control(line), columns)
            ),
            "",
            text_table(finding.header, finding.rows),
            "",
            *wrap_to_columns(f"What would change it: {escape_control(finding.caveats)}", columns),
        ]
    )


def render_picture(finding: Finding) -> Picture:
    """Return the figure."""
    return finding.figure


def render_fragment(finding: Finding) -> str:
    """Return the same as a fragment of a page, with the figure."""
    lines = "".join(f'<p class="found">{escape_html(line)}</p>' for line in finding.lines)
    return f"""<h1>{escape_html(finding.question)}</h1>
{lines}
<div class="scroll">{finding.figure.svg()}</div>
<p class="otherwise">What would change it: {escape_html(finding.caveats)}</p>
<div class="scroll">{html_table(finding.header, finding.rows)}</div>"""


def render_page(finding: Finding) -> str:
    """Return one HTML page that needs no other file."""
    return html_page(finding.question, render_fragment(finding), style=REPORT_CSS + _CSS)


register(Finding, __name__)
