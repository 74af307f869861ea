"""What an experiment found: words for a terminal, and a page with the picture and its figures."""

import shutil
from collections.abc import Sequence
from typing import Protocol

from workings.views.page import harmless, whole_page
from workings.views.picture import Picture
from workings.views.plain import printable, wrap
from workings.views.report import STYLE
from workings.views.table import html_table, text_table

_RULES = """
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
    def otherwise(self) -> str: ...
    @property
    def picture(self) -> Picture: ...
    @property
    def head(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[Sequence[str]]: ...


def text(told: Told, *, width: int | None = None, color: bool = False) -> str:
    """Write the question, what was found, the figures, and what would change the answer."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    question = printable(told.question)
    return "\n".join(
        [
            f"\x1b[1m{question}\x1b[0m" if color else question,
            "",
            *(row for line in told.lines for row in wrap(printable(line), columns)),
            "",
            text_table(told.head, told.rows),
            "",
            *wrap(f"What would change it: {printable(told.otherwise)}", columns),
        ]
    )


def fragment(told: Told) -> str:
    """Write the same as HTML, with the picture."""
    lines = "".join(f'<p class="found">{harmless(line)}</p>' for line in told.lines)
    return f"""<h1>{harmless(told.question)}</h1>
{lines}
<div class="scroll">{told.picture.svg()}</div>
<p class="otherwise">What would change it: {harmless(told.otherwise)}</p>
<div class="scroll">{html_table(told.head, told.rows)}</div>"""


def page(told: Told) -> str:
    """Write it as one file that needs nothing else."""
    return whole_page(told.question, fragment(told), style=STYLE + _RULES)
