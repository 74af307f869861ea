"""The cells of a model that track properties of a text, as one HTML page."""

from workings.views.coloured import coloured_css, coloured_html, number
from workings.views.colours import scale
from workings.views.page import harmless, piece, whole_page
from workings.views.table import html_table
from workings.views.tracked import (
    HEAD,
    Told,
    ToldCell,
    ToldProperty,
    heading,
    measured,
    notes,
    rows,
    summary,
)

_RULES = """
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings table.plain { font-size: .92rem; margin: 1rem 0; }
.workings table.plain th { text-align: right; padding: .15rem .7rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .7rem; }
.workings table.plain .word { text-align: left; }
.workings .coloured { font: .92rem/1.65 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas,
  monospace; tab-size: 4; max-width: 56rem; }
.workings .tracked .coloured span { border-radius: 0; }
.workings .tracked h3 { margin: .2rem 0 .4rem; }
.workings .tracked .legend { margin: .5rem 0 1.2rem; }
.workings summary { cursor: pointer; color: var(--soft); margin-bottom: .8rem; }
"""


def page(told: Told) -> str:
    """Write a whole page."""
    return whole_page("Cells that track the text", _body(told), style=coloured_css() + _RULES)


def fragment(told: Told) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    return piece(_body(told), style=coloured_css() + _RULES)


def _body(told: Told) -> str:
    said = "".join(f'<p class="what">{harmless(_sentence(note))}</p>\n' for note in notes(told))
    table = html_table(HEAD, rows(told), left=4) if told.tracked else ""
    parts = ["<h1>Cells that track the text</h1>", f"<p>{harmless(summary(told))}.</p>"]
    parts.append(f'<div class="scroll">{table}</div>\n{said}')
    parts += [_section(tracked) for tracked in told.tracked]
    return "\n".join(parts)


def _section(tracked: ToldProperty) -> str:
    """Write a property's excerpt as each of its cells sees it, the best one's in the open."""
    best, *others = (_cell(tracked, cell) for cell in tracked.cells)
    more = ""
    if others:
        more = f"<details>\n<summary>The next best</summary>\n{''.join(others)}</details>\n"
    return f"""<section class="tracked">
<h2 dir="auto">{harmless(heading(tracked))}</h2>
{best}{more}</section>"""


def _cell(tracked: ToldProperty, cell: ToldCell) -> str:
    shown = tracked.excerpt
    text = coloured_html(
        shown.text,
        shown.spans,
        cell.values,
        marked=shown.marked,
        middle=cell.middle,
        reach=cell.reach,
    )
    name = f"<b>{harmless(cell.cell)}</b>, {harmless(measured(tracked, cell))}"
    return f"<h3>{name}</h3>\n{text}\n{_legend(tracked, cell)}\n"


def _legend(tracked: ToldProperty, cell: ToldCell) -> str:
    bar = "".join(f'<i class="{name}"></i>' for name in scale("light"))
    low, high = (
        number(cell.middle + way * cell.reach, abs(cell.middle) + cell.reach) for way in (-1, 1)
    )
    parts = [f'<span>{low}<span class="bar" aria-hidden="true">{bar}</span>{high}</span>']
    if tracked.share is not None:
        share = f"{100 * tracked.share:.1f} % of the text"
        what = f"{harmless(tracked.what)}, {share}"
        parts.append(f'<span><span class="unknown">underlined</span>: {what}</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."
