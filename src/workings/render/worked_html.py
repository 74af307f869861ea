"""A worked problem as HTML: one page that needs no network and no library, or a fragment."""

import re
import zlib

from workings.languages import gettext
from workings.plain_text import to_one_line
from workings.problems.notation import Formula, MathMLNotation, TextNotation, typeset
from workings.problems.worked_problem import (
    Cell,
    MistakeSummary,
    Panel,
    WorkedProblem,
    format_verdict,
)
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

_MAX_SIDE = 64  # rows or columns; the middle of a larger matrix is left out
_WIDE_COLUMNS, _WIDER_COLUMNS = 10, 14  # tables with more columns are printed in a smaller font
_MAX_NAME_LENGTH = 14  # longer names may be cut off by CSS and get a tooltip

# The script makes Tab stop once per matrix, lets the arrow keys move inside it and keeps notes
# inside the window. Without scripts, Tab stops at every cell with a note.
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
    """Return the problem as a page of its own."""
    return html_page(
        problem.title or gettext("Worked problem"), render_body(problem), script=_SCRIPT
    )


def render_fragment(problem: WorkedProblem) -> str:
    """Return the problem as a fragment of a page, for a notebook."""
    return html_fragment(render_body(problem))


def render_body(problem: WorkedProblem) -> str:
    """Return the content of the page, without its frame and style."""
    return _HtmlDocument(problem).body()


class _HtmlDocument:
    """The parts of the page, as HTML."""

    def __init__(self, problem: WorkedProblem) -> None:
        self.problem = problem
        self.notation = MathMLNotation(problem.decimals)
        # Two reports in one notebook must not have the same id.
        mistake = problem.mistake and (problem.mistake.location, problem.mistake.claimed)
        content = repr((problem.title, problem.summary, mistake))
        self.anchor = f"first-wrong-{zlib.crc32(content.encode()):08x}"

    def body(self) -> str:
        """Return all parts: title, verdict, first mistake, legend, givens, steps."""
        problem = self.problem
        parts = [f'<h1 dir="auto">{escape_html(problem.title)}</h1>' if problem.title else ""]
        parts += [self.verdict_html(), self.mistake_html(), self.legend_html()]
        if problem.givens:
            givens = "\n".join(self.panel_html(panel) for panel in problem.givens)
            parts.append(f'<h2>{gettext("Given")}</h2>\n<div class="panels">\n{givens}\n</div>')
        steps = "\n".join(
            self.step_html(k, panel) for k, panel in enumerate(problem.steps, start=1)
        )
        parts.append(f'<h2>{gettext("Steps")}</h2>\n<ol class="panels">\n{steps}\n</ol>')
        return "\n".join(part for part in parts if part)

    def verdict_html(self) -> str:
        """Return the verdict with its counts; without a verdict, the summary."""
        verdict, summary = self.problem.verdict, escape_html(self.problem.summary)
        if not verdict:
            return f'<p class="summary">{summary}</p>' if summary else ""
        css_class = {"wrong": "is-wrong", "right": "is-right"}.get(verdict, "")
        word = escape_html(_capitalize(format_verdict(verdict)))
        text = f"{VERDICT_SYMBOLS.get(verdict, '')} {word}"
        if self.problem.assumption:
            text += escape_html(gettext(", if {assumption}", assumption=self.problem.assumption))
        counts = f": {summary}" if summary else ""
        notes = "".join(f"\n<p>{escape_html(note)}</p>" for note in self.problem.notes)
        return f'<p class="verdict"><b class="{css_class}">{text}</b>{counts}</p>{notes}'

    def mistake_html(self) -> str:
        """Return the first wrong number, linked to its cell, with its likely causes."""
        mistake = self.problem.mistake
        if mistake is None:
            return ""
        location = escape_html(mistake.location)
        if any(panel.first_wrong for panel in self.problem.steps):
            location = f'<a href="#{self.anchor}">{location}</a>'
        title = gettext("The first wrong number")
        return f"""<section class="finding" aria-label="{title}">
<h2>{title}</h2>
<p>{location}</p>
<dl>
<dt>{gettext("claimed")}</dt><dd>{escape_html(typeset(mistake.claimed))}</dd>
<dt>{gettext("expected")}</dt><dd>{escape_html(typeset(mistake.expected))}</dd>
{self.working_html(mistake)}</dl>
{_causes_list(mistake)}{_further_mistakes(self.problem)}</section>"""

    def working_html(self, mistake: MistakeSummary) -> str:
        """Return the working of the expected number."""
        if mistake.working is None:
            return ""
        label = gettext("working")
        return f'<dt>{label}</dt><dd class="formula">{self.formula_html(mistake.working)}</dd>\n'

    def legend_html(self) -> str:
        """Return the legend of the colors, and of the hatching and the marks that occur."""
        panels = [*self.problem.givens, *self.problem.steps]
        cells = [cell for panel in panels for row in panel.cells for cell in row]
        bar = "".join(f'<i class="{name}"></i>' for name in color_scale("light"))
        parts = [
            f'<span>{gettext("below zero")}<span class="bar" aria-hidden="true">{bar}</span>'
            + gettext("above zero; full color is the largest absolute value in the matrix")
            + "</span>"
        ]
        if any(cell.mark == "masked" for cell in cells):
            sample = '<span class="sample masked"><span>−∞</span></span>'
            parts.append(f"<span>{sample}{gettext('masked')}</span>")
        marks = [
            (mark, MARK_SYMBOLS[mark], gettext(MARK_MEANINGS[mark]))
            for mark in used_marks(self.problem.steps)
        ]
        if any(panel.first_wrong for panel in self.problem.steps):
            marks.insert(
                0, ("wrong first", MARK_SYMBOLS["wrong"], gettext("the first wrong number"))
            )
        samples = "".join(
            f'<span><span class="sample {css_class}">{symbol}</span>{meaning}</span>'
            for css_class, symbol, meaning in marks
        )
        lines = [f'<p class="legend">{"".join(parts)}</p>']
        lines += [f'<p class="legend">{samples}</p>'] if samples else []
        if any(cell.note for cell in cells):
            hint = gettext(
                "Point at a cell, or reach it with Tab and the arrow keys, to see more about it."
            )
            lines.append(f'<p class="legend hint">{hint}</p>')
        return "\n".join(lines)

    def step_html(self, number: int, panel: Panel) -> str:
        """Return a step: its number, its formula and its matrix."""
        formula = panel.formula
        formula_html = escape_html(panel.name) if formula is None else self.formula_html(formula)
        title = f'<span class="number">{number}</span><span class="formula">{formula_html}</span>'
        return f'<li class="panel">\n<h3>{title}</h3>\n{self.table_html(panel)}\n</li>'

    def panel_html(self, panel: Panel) -> str:
        """Return a given matrix."""
        return f'<div class="panel">\n{self.table_html(panel)}\n</div>'

    def table_html(self, panel: Panel) -> str:
        """Return a matrix as a table with a caption and headers for its rows and columns."""
        caption, panel = self.caption_html(panel), truncate_matrix(panel, _MAX_SIDE, _MAX_SIDE)
        columns = panel.shape[1]
        headers = "".join(_header_cell("col", name) for name in panel.column_names)
        body = "\n".join(
            f"<tr>{_header_cell('row', name)}{''.join(cells)}</tr>"
            for name, cells in zip(panel.row_names, self.cell_rows(panel), strict=True)
        )
        css_class = ' class="wider"' if columns > _WIDER_COLUMNS else ' class="wide"'
        return f"""<div class="scroll"><table{css_class if columns > _WIDE_COLUMNS else ""}>
<caption>{caption}</caption>
<thead><tr><td></td>{headers}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>"""

    def caption_html(self, panel: Panel) -> str:
        """Return the caption of a matrix: its name, its shape and the verdict on it."""
        rows, columns = panel.shape
        name = to_one_line(panel.name)
        if panel.formula is None and re.fullmatch(r"\w+", name):
            label = f"{_math_element(self.notation.symbol(name), name)} · "
        elif panel.formula and panel.formula(TextNotation()).startswith(f"{name} ="):
            # The formula above shows the name; a screen reader needs it here, too.
            label = f'<span class="unseen">{escape_html(name)} · </span>'
        else:
            label = f"<b>{escape_html(name)}</b> · "
        verdict = ""
        if panel.verdict:
            css_class = {"wrong": "is-wrong", "right": "is-right"}.get(panel.verdict, "")
            symbol = VERDICT_SYMBOLS.get(panel.verdict, "")
            word = escape_html(format_verdict(panel.verdict))
            verdict = f' · <span class="{css_class}">{symbol} {word}</span>'
        return f"{label}{rows} × {columns}{verdict}"

    def cell_rows(self, panel: Panel) -> list[list[str]]:
        """Return the cells of a matrix as HTML, row by row."""
        texts, full_scale = format_cells(panel, self.problem.decimals), max_abs_cell(panel)
        fractions = [
            max(map(_fraction_digits, column), key=len) for column in zip(*texts, strict=True)
        ]
        has_symbols = [
            any(cell.mark in MARK_SYMBOLS and cell.mark != "blank" for cell in column)
            for column in zip(*panel.cells, strict=True)
        ]
        last = panel.shape[1] - 1
        return [
            [
                self.cell_html(
                    cell,
                    _padded_number(texts[i][j], fractions[j])
                    + (_mark_symbol(cell) if has_symbols[j] else ""),
                    color_step(cell.value, full_scale),
                    ["open"] * (j == 0) + ["close"] * (j == last),
                    panel.first_wrong == (i, j),
                )
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(panel.cells)
        ]

    def cell_html(self, cell: Cell, number: str, color: str, edges: list[str], first: bool) -> str:
        """Return one cell: its number, its mark (in words for screen readers) and its note."""
        mark = cell.mark if cell.mark in (*MARK_SYMBOLS, "masked") else ""
        if cell.value is not None and color == "" and not mark:
            mark = "masked"  # an infinite number that was not checked
        content = f"<span>{number}</span>" if mark == "masked" else number
        meaning = gettext(MARK_MEANINGS.get(mark, mark)) if mark else ""
        meaning = gettext("the first wrong number") if first else meaning
        if meaning:
            content += f'<span class="unseen"> ({meaning})</span>'
        classes = " ".join(filter(None, ["v", color, mark, "first" if first else ""]))
        note = f'<span class="note">{escape_html(cell.note)}</span>' if cell.note else ""
        attributes = f' class="{" ".join(edges)}"' if edges else ""
        attributes += ' tabindex="0"' if note or first else ""
        attributes += f' id="{self.anchor}"' if first else ""
        return f'<td{attributes}><span class="{classes}">{content}</span>{note}</td>'

    def formula_html(self, formula: Formula) -> str:
        """Return a formula as MathML, with its text for screen readers."""
        text = formula(TextNotation(self.problem.decimals))
        return _math_element(formula(self.notation), text)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _math_element(markup: str, alt_text: str) -> str:
    return f'<math displaystyle="true" alttext="{escape_html(alt_text)}">{markup}</math>'


def _header_cell(scope: str, name: str) -> str:
    label = escape_html(name)
    tooltip = f' title="{label}"' if len(name) > _MAX_NAME_LENGTH else ""
    return f'<th scope="{scope}" dir="auto"{tooltip}>{label}</th>'


def _fraction_digits(text: str) -> str:
    return (split_at_point(text) or ("", ""))[1]


def _padded_number(text: str, longest_fraction: str) -> str:
    """Return a number, padded with blanks of digit width so that decimal points are aligned."""
    number = escape_html(typeset(text))
    missing = longest_fraction[len(_fraction_digits(text)) :] if split_at_point(text) else ""
    if not missing or "·" in longest_fraction:
        return number
    padding = re.sub(r"\d", "\u2007", missing).replace(".", "\u2008").replace(",", "\u2008")
    return f'{number}<span aria-hidden="true">{padding}</span>'


def _mark_symbol(cell: Cell) -> str:
    symbol = MARK_SYMBOLS.get(cell.mark, "") if cell.mark != "blank" else ""
    return f'<span class="sign" aria-hidden="true">{symbol}</span>'


def _causes_list(mistake: MistakeSummary) -> str:
    if not mistake.causes:
        return ""
    items = []
    for cause in mistake.causes:
        share = gettext(" (explains {share})", share=escape_html(cause.explained_share))
        share = share if cause.explained_share else ""
        name, description = escape_html(cause.name), escape_html(cause.description)
        items.append(f"<li><code>{name}</code>{share}: {description}</li>")
    label = gettext("Likely causes")
    return f'<ol class="causes" aria-label="{label}">{"".join(items)}</ol>\n'


def _further_mistakes(problem: WorkedProblem) -> str:
    lines = [m.format_as_further(k) for k, m in enumerate(problem.mistakes[1:], start=2)]
    return "".join(f"<p>{escape_html(line[:1].upper() + line[1:])}</p>\n" for line in lines)
