"""A solution or a report as one HTML file that needs nothing else: no network, no libraries."""

import re
import zlib

from workings.plain_text import to_one_line
from workings.problems.notation import MathMLNotation, TextNotation, typeset
from workings.problems.worked_problem import Cell, MistakeSummary, Panel, WorkedProblem
from workings.render.colors import color_scale, color_step
from workings.render.matrix import (
    MARK_MEANINGS,
    MARK_SYMBOLS,
    VERDICT_SYMBOLS,
    format_cells,
    max_abs_cell,
    split_at_point,
    truncate_matrix,
    used_marks,
)
from workings.render.page import escape_html, html_fragment, html_page

_MAX_SIDE = 64  # rows or columns; of more, the middle is left out
_WIDE_COLUMNS, _WIDER_COLUMNS = 10, 14  # columns; wider tables are printed smaller
_MAX_NAME_LENGTH = 14  # letters; a longer name may be cut short, and is shown whole on hovering

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


def render_page(problem: WorkedProblem) -> str:
    """Write a whole page. What is allowed to run on it is named in it: its own style and script."""
    return html_page(problem.title or "Worked problem", render_body(problem), script=_SCRIPT)


def render_fragment(problem: WorkedProblem) -> str:
    """Write a piece to stand in somebody else's page, a notebook say, and leave the rest alone."""
    return html_fragment(render_body(problem))


def render_body(problem: WorkedProblem) -> str:
    """Write what stands on the page."""
    return _HtmlDocument(problem).body()


class _HtmlDocument:
    """The parts of the page."""

    def __init__(self, problem: WorkedProblem) -> None:
        self.problem = problem
        self.notation = MathMLNotation(problem.decimals)
        # Two reports in one notebook should not share a name.
        found = problem.mistake
        about = repr((problem.title, problem.summary, found and (found.location, found.claimed)))
        self.anchor = f"first-wrong-{zlib.crc32(about.encode()):08x}"

    def body(self) -> str:
        """Write everything, in the order in which it is read."""
        worked = self.problem
        parts = [f'<h1 dir="auto">{escape_html(worked.title)}</h1>' if worked.title else ""]
        parts += [self.verdict_html(), self.mistake_html(), self.legend_html()]
        if worked.givens:
            givens = "\n".join(self.panel_html(panel) for panel in worked.givens)
            parts.append(f'<h2>Given</h2>\n<div class="shelf">\n{givens}\n</div>')
        steps = "\n".join(self.step_html(k, panel) for k, panel in enumerate(worked.steps, start=1))
        parts.append(f'<h2>Steps</h2>\n<ol class="shelf">\n{steps}\n</ol>')
        return "\n".join(part for part in parts if part)

    def verdict_html(self) -> str:
        """Write the verdict and the counts behind it, or what else there is to say."""
        worked = self.problem
        if not worked.verdict:
            return f'<p class="summary">{escape_html(worked.summary)}</p>' if worked.summary else ""
        kind = "is-wrong" if worked.verdict == "wrong" else "is-right"
        said = (
            f"{VERDICT_SYMBOLS.get(worked.verdict, '')} {escape_html(worked.verdict.capitalize())}"
        )
        summary = f": {escape_html(worked.summary)}" if worked.summary else ""
        return f'<p class="verdict"><b class="{kind}">{said}</b>{summary}</p>'

    def mistake_html(self) -> str:
        """Write the first wrong number, with a way to it, and what may have caused it."""
        found = self.problem.mistake
        if found is None:
            return ""
        shown = any(panel.first_wrong for panel in self.problem.steps)
        where = escape_html(found.location)
        where = f'<a href="#{self.anchor}">{where}</a>' if shown else where
        return f"""<section class="finding" aria-label="The first wrong number">
<h2>The first wrong number</h2>
<p>{where}</p>
<dl>
<dt>claimed</dt><dd>{escape_html(typeset(found.claimed))}</dd>
<dt>expected</dt><dd>{escape_html(typeset(found.expected))}</dd>
{self.working_html(found)}</dl>
{_causes_list(found)}</section>"""

    def working_html(self, mistake: MistakeSummary) -> str:
        """Write out how the right number comes about."""
        if mistake.working is None:
            return ""
        said = self.math_element(
            mistake.working(self.notation), mistake.working(TextNotation(self.problem.decimals))
        )
        return f'<dt>working</dt><dd class="formula">{said}</dd>\n'

    def legend_html(self) -> str:
        """Explain colours, hatching and signs, those that occur."""
        panels = [*self.problem.givens, *self.problem.steps]
        cells = [cell for panel in panels for row in panel.cells for cell in row]
        bar = "".join(f'<i class="{name}"></i>' for name in color_scale("light"))
        parts = [
            f'<span>below zero<span class="bar" aria-hidden="true">{bar}</span>above zero;'
            " full colour is the largest size in the matrix</span>"
        ]
        if any(cell.mark == "masked" for cell in cells):
            parts.append('<span><span class="sample masked"><span>−∞</span></span>masked</span>')
        signs = [
            f'<span><span class="sample {mark}">{MARK_SYMBOLS[mark]}</span>{MARK_MEANINGS[mark]}</span>'
            for mark in used_marks(self.problem.steps)
        ]
        if any(panel.first_wrong for panel in self.problem.steps):
            sample = f'<span class="sample wrong first">{MARK_SYMBOLS["wrong"]}</span>'
            signs.insert(0, f"<span>{sample}the first wrong number</span>")
        lines = [f'<p class="legend">{"".join(parts)}</p>']
        lines += [f'<p class="legend">{"".join(signs)}</p>'] if signs else []
        if any(cell.note for cell in cells):
            hint = "Point at a cell, or reach it with Tab and the arrow keys, to see more about it."
            lines.append(f'<p class="legend hint">{hint}</p>')
        return "\n".join(lines)

    def step_html(self, number: int, panel: Panel) -> str:
        """Write a step: its formula and its matrix."""
        if panel.formula is None:
            formula = escape_html(panel.name)
        else:
            formula = self.math_element(
                panel.formula(self.notation), panel.formula(TextNotation(self.problem.decimals))
            )
        heading = (
            f'<h3><span class="number">{number}</span><span class="formula">{formula}</span></h3>'
        )
        return f'<li class="panel">\n{heading}\n{self.table_html(panel)}\n</li>'

    def panel_html(self, panel: Panel) -> str:
        """Write a matrix that was given."""
        return f'<div class="panel">\n{self.table_html(panel)}\n</div>'

    def table_html(self, panel: Panel) -> str:
        """Write a matrix as a table with a caption, and headers for its rows and columns."""
        caption, panel = self.caption_html(panel), truncate_matrix(panel, _MAX_SIDE, _MAX_SIDE)
        columns = panel.shape[1]
        heads = "".join(_header_cell("col", name) for name in panel.column_names)
        body = "\n".join(
            f"<tr>{_header_cell('row', name)}{''.join(cells)}</tr>"
            for name, cells in zip(panel.row_names, self.cell_rows(panel), strict=True)
        )
        wide = (
            ""
            if columns <= _WIDE_COLUMNS
            else f' class="wide{"r" if columns > _WIDER_COLUMNS else ""}"'
        )
        return f"""<div class="scroll"><table{wide}>
<caption>{caption}</caption>
<thead><tr><td></td>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>"""

    def caption_html(self, panel: Panel) -> str:
        """Name a matrix, with its shape and the verdict on it."""
        rows, columns = panel.shape
        name = to_one_line(panel.name)
        if panel.formula is None and re.fullmatch(r"\w+", name):
            shown = f"{self.math_element(self.notation.symbol(name), name)} · "
        elif panel.formula and panel.formula(TextNotation()).startswith(f"{name} ="):
            # The formula says it already.
            shown = f'<span class="unseen">{escape_html(name)} · </span>'
        else:
            shown = f"<b>{escape_html(name)}</b> · "
        verdict = ""
        if panel.verdict:
            kind = {"wrong": "is-wrong", "right": "is-right"}.get(panel.verdict, "")
            sign = VERDICT_SYMBOLS.get(panel.verdict, "")
            verdict = f' · <span class="{kind}">{sign} {escape_html(panel.verdict)}</span>'
        return f"{shown}{rows} × {columns}{verdict}"

    def cell_rows(self, panel: Panel) -> list[list[str]]:
        """Write the cells of a matrix, row by row."""
        written, full = format_cells(panel, self.problem.decimals), max_abs_cell(panel)
        tails = [
            max(map(_fraction_digits, column), key=len) for column in zip(*written, strict=True)
        ]
        signed = [
            any(cell.mark in MARK_SYMBOLS and cell.mark != "blank" for cell in column)
            for column in zip(*panel.cells, strict=True)
        ]
        last = panel.shape[1] - 1
        return [
            [
                self.cell_html(
                    cell,
                    _padded_number(written[i][j], tails[j])
                    + (_mark_symbol(cell) if signed[j] else ""),
                    color_step(cell.value, full),
                    ["open"] * (j == 0) + ["close"] * (j == last),
                    panel.first_wrong == (i, j),
                )
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(panel.cells)
        ]

    def cell_html(self, cell: Cell, number: str, color: str, edges: list[str], first: bool) -> str:
        """Write one cell: its number, its mark in words too, and its note."""
        mark = cell.mark if cell.mark in (*MARK_SYMBOLS, "masked") else ""
        if cell.value is not None and color == "" and not mark:
            mark = "masked"  # an infinite number that nobody judged
        inside = f"<span>{number}</span>" if mark == "masked" else number
        words = "the first wrong number" if first else MARK_MEANINGS.get(mark, mark)
        if words:
            inside += f'<span class="unseen"> ({words})</span>'
        kinds = " ".join(filter(None, ["v", color, mark, "first" if first else ""]))
        note = f'<span class="note">{escape_html(cell.note)}</span>' if cell.note else ""
        attributes = f' class="{" ".join(edges)}"' if edges else ""
        attributes += ' tabindex="0"' if note or first else ""
        attributes += f' id="{self.anchor}"' if first else ""
        return f'<td{attributes}><span class="{kinds}">{inside}</span>{note}</td>'

    def math_element(self, markup: str, alt_text: str) -> str:
        """Put a formula into `<math>`, with the line of text for whoever cannot see it."""
        return f'<math displaystyle="true" alttext="{escape_html(alt_text)}">{markup}</math>'


def _header_cell(scope: str, name: str) -> str:
    shown = escape_html(name)
    title = f' title="{shown}"' if len(name) > _MAX_NAME_LENGTH else ""
    return f'<th scope="{scope}" dir="auto"{title}>{shown}</th>'


def _fraction_digits(text: str) -> str:
    return (split_at_point(text) or ("", ""))[1]


def _padded_number(text: str, longest: str) -> str:
    """Write a number, filled up with blank digits so that points stand in line."""
    shown = escape_html(typeset(text))
    missing = longest[len(_fraction_digits(text)) :] if split_at_point(text) else ""
    if not missing or "·" in longest:
        return shown
    blank = re.sub(r"\d", "\u2007", missing).replace(".", "\u2008").replace(",", "\u2008")
    return f'{shown}<span aria-hidden="true">{blank}</span>'


def _mark_symbol(cell: Cell) -> str:
    sign = MARK_SYMBOLS.get(cell.mark, "") if cell.mark != "blank" else ""
    return f'<span class="sign" aria-hidden="true">{sign}</span>'


def _causes_list(mistake: MistakeSummary) -> str:
    if not mistake.causes:
        return ""
    items = []
    for name, reproduces, says in mistake.causes:
        share = f" (explains {escape_html(reproduces)})" if reproduces else ""
        items.append(f"<li><code>{escape_html(name)}</code>{share}: {escape_html(says)}</li>")
    return f'<ol class="causes" aria-label="What may have caused it">{"".join(items)}</ol>\n'
