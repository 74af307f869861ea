"""One cell, derived, as one HTML page."""

from workings.views.derived import Derived, Formula, differences, numbers
from workings.views.notation import MathML, Text
from workings.views.page import harmless, whole_page
from workings.views.plain import one_line
from workings.views.table import html_table

_RULES = """
.workings table.plain { font-size: .97rem; margin: 1rem 0; }
.workings table.plain th { text-align: right; padding: .15rem .7rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .7rem; white-space: pre; }
.workings table.plain .word { text-align: left; }
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings .derived { overflow-x: auto; overflow-y: hidden; margin: .6rem 0; padding: .2rem 0; }
"""


def page(told: Derived) -> str:
    """Write a whole page."""
    parts = [
        f'<h1 dir="auto">{harmless(told.title)}</h1>',
        f"<h2>{harmless(told.name)}</h2>",
        f'<p dir="auto">{harmless(told.says)}</p>' if told.says else "",
        _math(told, told.formula),
        *(_math(told, before) for before in told.before),
        f'<div class="scroll">{_sum(told)}</div>' if told.lines else "",
        _math(told, told.working),
        f'<div class="scroll">{_elsewhere(told)}</div>' if told.elsewhere else "",
        *(f'<p class="what">{harmless(note)}</p>' for note in told.notes),
    ]
    return whole_page(told.title, "\n".join(part for part in parts if part), style=_RULES)


def _math(told: Derived, formula: Formula) -> str:
    """Write a formula, with the line of text for whoever cannot see it."""
    written, spoken = formula(MathML(told.decimals)), formula(Text(told.decimals))
    return (
        f'<div class="derived"><math displaystyle="true" alttext="{harmless(spoken)}">'
        f"{written}</math></div>"
    )


def _sum(told: Derived) -> str:
    names = [f"{'▸ ' if line.marked else ''}{one_line(line.name)}" for line in told.lines]
    # A space as wide as a digit keeps points in line.
    figures = [[number.replace(" ", "\u2007") for number in row] for row in numbers(told)]
    rows = [[name, *row] for name, row in zip(names, figures, strict=True)]
    return html_table(told.head, rows)


def _elsewhere(told: Derived) -> str:
    return html_table(("where", told.name, ""), differences(told))
