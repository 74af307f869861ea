"""What an experiment found: words for a terminal, and a page with the picture and its figures."""

import shutil
from collections.abc import Sequence
from typing import Protocol

from workings.plain_text import escape_control, wrap_to_columns
from workings.render.page import escape_html, html_page
from workings.render.picture import Picture
from workings.render.tables import html_table, text_table
from workings.render.training_report import REPORT_CSS

_CSS = """
.workings .found { max-width: 46rem; margin: 0 0 .6rem; }
.workings .otherwise { color: var(--soft); max-width: 46rem; margin: .8rem 0; }
"""


class Told(Protocol):
    """The answer to a question."""

    @property
    def question(self) -> str: ...
    @property
    def lines(self) -> Sequence[str]: ...
    @property
    def caveats(self) -> str: ...
    @property
    def picture(self) -> Picture: ...
    @property
    def header(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[Sequence[str]]: ...


def render_text(finding: Told, *, width: int | None = None, color: bool = False) -> str:
    """Write the question, what was found, the figures, and what would change the answer."""
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


def render_fragment(finding: Told) -> str:
    """Write the same as HTML, with the picture."""
    lines = "".join(f'<p class="found">{escape_html(line)}</p>' for line in finding.lines)
    return f"""<h1>{escape_html(finding.question)}</h1>
{lines}
<div class="scroll">{finding.picture.svg()}</div>
<p class="otherwise">What would change it: {escape_html(finding.caveats)}</p>
<div class="scroll">{html_table(finding.header, finding.rows)}</div>"""


def render_page(finding: Told) -> str:
    """Write it as one file that needs nothing else."""
    return html_page(finding.question, render_fragment(finding), style=REPORT_CSS + _CSS)
