"""A solution or a report as one HTML file that needs nothing else: no network, no libraries."""

import re
import zlib

from workings.views.colours import scale, step
from workings.views.elide import elided
from workings.views.notation import MathML, Text, typeset
from workings.views.numerals import MEANINGS, SIGNS, VERDICTS, largest, marks, split, texts
from workings.views.page import harmless, piece, whole_page
from workings.views.plain import one_line
from workings.views.worked import Cell, Finding, Panel, Worked

_MOST = 64  # rows or columns; of more, the middle is left out
_WIDE, _WIDER = 10, 14  # columns; wider tables are printed smaller
_LONG = 14  # letters; a longer name may be cut short, and is shown whole on hovering

# With the script, Tab stops once at each matrix and the arrow keys move inside it, and notes stay
# inside the window; without it, Tab stops at every cell that has something to say.
_SCRIPT = """
function place(event) {
  const note = event.target.closest?.('td')?.querySelector('.note');
  if (!note) return;
  note.style.translate = '';
  const box = note.getBoundingClientRect(), page = document.documentElement;
  const x = Math.min(0, page.clientWidth - 8 - box.right);
  const y = Math.min(0, page.clientHeight - 8 - box.bottom);
  note.style.translate = `${x}px ${y}px`;
}
document.addEventListener('mouseover', place);
document.addEventListener('focusin', place);
for (const table of document.querySelectorAll('.workings table')) {
  const cells = [...table.querySelectorAll('td[tabindex]')];
  const start = cells.find(cell => cell.querySelector('.first')) || cells[0];
  for (const cell of cells) cell.tabIndex = cell === start ? 0 : -1;
  table.addEventListener('keydown', event => {
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const cell = event.target.closest('td'), move = moves[event.key];
    if (event.key === 'Escape') cell.blur();
    if (!cell || !move) return;
    let row = cell.parentNode.rowIndex, column = cell.cellIndex, next;
    do next = table.rows[row += move[0]]?.cells[column += move[1]];
    while (next && !next.hasAttribute('tabindex'));
    event.preventDefault();
    if (next) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); }
  });
}
for (const box of document.querySelectorAll('.workings .formula, .workings .scroll'))
  if (box.scrollWidth > box.clientWidth && !box.querySelector('[tabindex="0"]')) box.tabIndex = 0;
"""


def render(worked: Worked) -> str:
    """Write a whole page. What is allowed to run on it is named in it: its own style and script."""
    return whole_page(worked.title or "Worked problem", body(worked), script=_SCRIPT)


def fragment(worked: Worked) -> str:
    """Write a piece to stand in somebody else's page, a notebook say, and leave the rest alone."""
    return piece(body(worked))


def body(worked: Worked) -> str:
    """Write what stands on the page."""
    return _Page(worked).body()


class _Page:
    """The parts of the page."""

    def __init__(self, worked: Worked) -> None:
        self.worked = worked
        self.notation = MathML(worked.decimals)
        # Two reports in one notebook should not share a name.
        found = worked.finding
        about = repr((worked.title, worked.summary, found and (found.where, found.claimed)))
        self.anchor = f"first-wrong-{zlib.crc32(about.encode()):08x}"

    def body(self) -> str:
        """Write everything, in the order in which it is read."""
        worked = self.worked
        parts = [f'<h1 dir="auto">{harmless(worked.title)}</h1>' if worked.title else ""]
        parts += [self.verdict(), self.finding(), self.legend()]
        if worked.givens:
            givens = "\n".join(self.panel(panel) for panel in worked.givens)
            parts.append(f'<h2>Given</h2>\n<div class="shelf">\n{givens}\n</div>')
        steps = "\n".join(self.step(k, panel) for k, panel in enumerate(worked.steps, start=1))
        parts.append(f'<h2>Steps</h2>\n<ol class="shelf">\n{steps}\n</ol>')
        return "\n".join(part for part in parts if part)

    def verdict(self) -> str:
        """Write the verdict and the counts behind it, or what else there is to say."""
        worked = self.worked
        if not worked.verdict:
            return f'<p class="summary">{harmless(worked.summary)}</p>' if worked.summary else ""
        kind = "is-wrong" if worked.verdict == "wrong" else "is-right"
        said = f"{VERDICTS.get(worked.verdict, '')} {harmless(worked.verdict.capitalize())}"
        summary = f": {harmless(worked.summary)}" if worked.summary else ""
        return f'<p class="verdict"><b class="{kind}">{said}</b>{summary}</p>'

    def finding(self) -> str:
        """Write the first wrong number, with a way to it, and what may have caused it."""
        found = self.worked.finding
        if found is None:
            return ""
        shown = any(panel.first for panel in self.worked.steps)
        where = harmless(found.where)
        where = f'<a href="#{self.anchor}">{where}</a>' if shown else where
        return f"""<section class="finding" aria-label="The first wrong number">
<h2>The first wrong number</h2>
<p>{where}</p>
<dl>
<dt>claimed</dt><dd>{harmless(typeset(found.claimed))}</dd>
<dt>expected</dt><dd>{harmless(typeset(found.expected))}</dd>
{self.working(found)}</dl>
{_causes(found)}</section>"""

    def working(self, found: Finding) -> str:
        """Write out how the right number comes about."""
        if found.working is None:
            return ""
        said = self.math(found.working(self.notation), found.working(Text(self.worked.decimals)))
        return f'<dt>working</dt><dd class="formula">{said}</dd>\n'

    def legend(self) -> str:
        """Explain colours, hatching and signs, those that occur."""
        panels = [*self.worked.givens, *self.worked.steps]
        cells = [cell for panel in panels for row in panel.cells for cell in row]
        bar = "".join(f'<i class="{name}"></i>' for name in scale("light"))
        parts = [
            f'<span>below zero<span class="bar" aria-hidden="true">{bar}</span>above zero;'
            " full colour is the largest size in the matrix</span>"
        ]
        if any(cell.mark == "masked" for cell in cells):
            parts.append('<span><span class="sample masked"><span>−∞</span></span>masked</span>')
        signs = [
            f'<span><span class="sample {mark}">{SIGNS[mark]}</span>{MEANINGS[mark]}</span>'
            for mark in marks(self.worked.steps)
        ]
        if any(panel.first for panel in self.worked.steps):
            sample = f'<span class="sample wrong first">{SIGNS["wrong"]}</span>'
            signs.insert(0, f"<span>{sample}the first wrong number</span>")
        lines = [f'<p class="legend">{"".join(parts)}</p>']
        lines += [f'<p class="legend">{"".join(signs)}</p>'] if signs else []
        if any(cell.note for cell in cells):
            hint = "Point at a cell, or reach it with Tab and the arrow keys, to see more about it."
            lines.append(f'<p class="legend hint">{hint}</p>')
        return "\n".join(lines)

    def step(self, number: int, panel: Panel) -> str:
        """Write a step: its formula and its matrix."""
        if panel.formula is None:
            formula = harmless(panel.name)
        else:
            formula = self.math(
                panel.formula(self.notation), panel.formula(Text(self.worked.decimals))
            )
        heading = (
            f'<h3><span class="number">{number}</span><span class="formula">{formula}</span></h3>'
        )
        return f'<li class="panel">\n{heading}\n{self.table(panel)}\n</li>'

    def panel(self, panel: Panel) -> str:
        """Write a matrix that was given."""
        return f'<div class="panel">\n{self.table(panel)}\n</div>'

    def table(self, panel: Panel) -> str:
        """Write a matrix as a table with a caption, and headers for its rows and columns."""
        caption, panel = self.caption(panel), elided(panel, _MOST, _MOST)
        columns = panel.shape[1]
        heads = "".join(_header("col", name) for name in panel.column_names)
        body = "\n".join(
            f"<tr>{_header('row', name)}{''.join(cells)}</tr>"
            for name, cells in zip(panel.row_names, self.cells(panel), strict=True)
        )
        wide = "" if columns <= _WIDE else f' class="wide{"r" if columns > _WIDER else ""}"'
        return f"""<div class="scroll"><table{wide}>
<caption>{caption}</caption>
<thead><tr><td></td>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>"""

    def caption(self, panel: Panel) -> str:
        """Name a matrix, with its shape and the verdict on it."""
        rows, columns = panel.shape
        name = one_line(panel.name)
        if panel.formula is None and re.fullmatch(r"\w+", name):
            shown = f"{self.math(self.notation.symbol(name), name)} · "
        elif panel.formula and panel.formula(Text()).startswith(f"{name} ="):
            # The formula says it already.
            shown = f'<span class="unseen">{harmless(name)} · </span>'
        else:
            shown = f"<b>{harmless(name)}</b> · "
        verdict = ""
        if panel.judged:
            kind = {"wrong": "is-wrong", "right": "is-right"}.get(panel.judged, "")
            sign = VERDICTS.get(panel.judged, "")
            verdict = f' · <span class="{kind}">{sign} {harmless(panel.judged)}</span>'
        return f"{shown}{rows} × {columns}{verdict}"

    def cells(self, panel: Panel) -> list[list[str]]:
        """Write the cells of a matrix, row by row."""
        written, full = texts(panel, self.worked.decimals), largest(panel)
        tails = [max(map(_tail, column), key=len) for column in zip(*written, strict=True)]
        signed = [
            any(cell.mark in SIGNS and cell.mark != "blank" for cell in column)
            for column in zip(*panel.cells, strict=True)
        ]
        last = panel.shape[1] - 1
        return [
            [
                self.cell(
                    cell,
                    _number(written[i][j], tails[j]) + (_sign(cell) if signed[j] else ""),
                    step(cell.value, full),
                    ["open"] * (j == 0) + ["close"] * (j == last),
                    panel.first == (i, j),
                )
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(panel.cells)
        ]

    def cell(self, cell: Cell, number: str, colour: str, edges: list[str], first: bool) -> str:
        """Write one cell: its number, its mark in words too, and its note."""
        mark = cell.mark if cell.mark in (*SIGNS, "masked") else ""
        if cell.value is not None and colour == "" and not mark:
            mark = "masked"  # an infinite number that nobody judged
        inside = f"<span>{number}</span>" if mark == "masked" else number
        words = "the first wrong number" if first else MEANINGS.get(mark, mark)
        if words:
            inside += f'<span class="unseen"> ({words})</span>'
        kinds = " ".join(filter(None, ["v", colour, mark, "first" if first else ""]))
        note = f'<span class="note">{harmless(cell.note)}</span>' if cell.note else ""
        attributes = f' class="{" ".join(edges)}"' if edges else ""
        attributes += ' tabindex="0"' if note or first else ""
        attributes += f' id="{self.anchor}"' if first else ""
        return f'<td{attributes}><span class="{kinds}">{inside}</span>{note}</td>'

    def math(self, written: str, spoken: str) -> str:
        """Put a formula into `<math>`, with the line of text for whoever cannot see it."""
        return f'<math displaystyle="true" alttext="{harmless(spoken)}">{written}</math>'


def _header(scope: str, name: str) -> str:
    shown = harmless(name)
    title = f' title="{shown}"' if len(name) > _LONG else ""
    return f'<th scope="{scope}" dir="auto"{title}>{shown}</th>'


def _tail(text: str) -> str:
    return (split(text) or ("", ""))[1]


def _number(text: str, longest: str) -> str:
    """Write a number, filled up with blank digits so that points stand in line."""
    shown = harmless(typeset(text))
    missing = longest[len(_tail(text)) :] if split(text) else ""
    if not missing or "·" in longest:
        return shown
    blank = re.sub(r"\d", "\u2007", missing).replace(".", "\u2008").replace(",", "\u2008")
    return f'{shown}<span aria-hidden="true">{blank}</span>'


def _sign(cell: Cell) -> str:
    sign = SIGNS.get(cell.mark, "") if cell.mark != "blank" else ""
    return f'<span class="sign" aria-hidden="true">{sign}</span>'


def _causes(found: Finding) -> str:
    if not found.causes:
        return ""
    items = []
    for name, reproduces, says in found.causes:
        share = f" (explains {harmless(reproduces)})" if reproduces else ""
        items.append(f"<li><code>{harmless(name)}</code>{share}: {harmless(says)}</li>")
    return f'<ol class="causes" aria-label="What may have caused it">{"".join(items)}</ol>\n'
