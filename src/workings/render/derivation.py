"""One cell, derived: its largest terms, what the others come to, and the same number elsewhere."""

import shutil

from workings import plain_text
from workings.plain_text import to_one_line, truncate_to_columns, wrap_to_columns
from workings.problems.derivation import CellDerivation
from workings.problems.notation import (
    Formula,
    MathMLNotation,
    TextNotation,
    format_decimal,
    typeset,
)
from workings.render.matrix import AnsiStyler, align_decimal_points
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.tables import html_table, text_table

_MIN_WIDTH = 24
_INDENT = "   "
_MAX_NUMBER_COLUMNS = 24  # columns of a number


def render_text(
    derivation: CellDerivation, *, width: int | None = None, color: bool = False
) -> str:
    """Write it for a terminal of so many columns; None: as wide as this one (80 without one)."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen, n = max(columns, _MIN_WIDTH), AnsiStyler(color), TextNotation(derivation.decimals)
    room = columns - len(_INDENT)

    def indented(written: str) -> list[str]:
        return [_INDENT + line for line in wrap_to_columns(written, room, subsequent_indent="    ")]

    asked = (
        f"{derivation.name}: {to_one_line(derivation.description)}"
        if derivation.description
        else derivation.name
    )
    blocks = [
        [
            *(pen(line, "dim") for line in wrap_to_columns(to_one_line(derivation.title), columns)),
            *(pen(line, "strong") for line in wrap_to_columns(asked, columns)),
        ],
        wrap_to_columns(derivation.formula(n), columns),
        [line for before in derivation.intermediates for line in indented(before(n))],
        _sum_lines(derivation, columns, pen),
        indented(derivation.working(n)),
        _model_value_lines(derivation, columns),
        [
            pen(line, "dim")
            for note in derivation.notes
            for line in wrap_to_columns(to_one_line(note), columns)
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def format_numbers(derivation: CellDerivation) -> list[list[str]]:
    """Write the numbers of the sum, points in line, line by line."""
    columns = []
    for column in zip(*(line.numbers for line in derivation.lines), strict=True):
        written = [format_decimal(x, derivation.decimals) for x in column if x is not None]
        aligned = iter(align_decimal_points(written, _MAX_NUMBER_COLUMNS))
        columns.append(["" if x is None else next(aligned) for x in column])
    return [list(line) for line in zip(*columns, strict=True)]


def format_model_values(derivation: CellDerivation) -> list[tuple[str, str, str]]:
    """Write the number as it is here and elsewhere, with more digits, and the differences."""
    values = [derivation.value, *(one.value for one in derivation.model_values)]
    written = align_decimal_points(
        [format_decimal(value, derivation.decimals + 4) for value in values], _MAX_NUMBER_COLUMNS
    )
    names = [
        "written out here, in 64 bits",
        *(to_one_line(one.source) for one in derivation.model_values),
    ]
    apart = [f"differs by {typeset(f'{one.difference:.1e}')}" for one in derivation.model_values]
    apart = [
        said if one.difference else "the same"
        for said, one in zip(apart, derivation.model_values, strict=True)
    ]
    return list(zip(names, written, ["", *apart], strict=True))


def _sum_lines(derivation: CellDerivation, columns: int, styler: AnsiStyler) -> list[str]:
    if not derivation.lines:
        return []
    written = format_numbers(derivation)
    widths = [
        max(map(plain_text.display_width, cells))
        for cells in zip(derivation.header[1:], *written, strict=True)
    ]
    room = max(columns - sum(widths) - 2 * len(widths) - 3, 8)
    names = [truncate_to_columns(to_one_line(line.name), room) for line in derivation.lines]
    rows = [
        [f"{'▸ ' if line.is_marked else '  '}{name}", *row]
        for line, name, row in zip(derivation.lines, names, written, strict=True)
    ]
    head, rule, *drawn = text_table(
        [f"  {derivation.header[0]}", *derivation.header[1:]], rows
    ).splitlines()
    styles = ["strong" if line.is_marked else "" for line in derivation.lines]
    drawn = [styler(line, style) for line, style in zip(drawn, styles, strict=True)]
    return [f" {line}" for line in (head, rule, *drawn)]


def _model_value_lines(derivation: CellDerivation, columns: int) -> list[str]:
    if not derivation.model_values:
        return []
    rows = format_model_values(derivation)
    widths = [max(map(plain_text.display_width, column)) for column in zip(*rows, strict=True)]
    lines = (
        f"{plain_text.pad_right(what, widths[0])}  {plain_text.pad_left(value, widths[1])}  {apart}"
        for what, value, apart in rows
    )
    room = columns - len(_INDENT)
    return [
        _INDENT + part
        for line in lines
        for part in wrap_to_columns(line, room, subsequent_indent="  ")
    ]


_CSS = """
.workings table.plain { font-size: .97rem; margin: 1rem 0; }
.workings table.plain th { text-align: right; padding: .15rem .7rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .7rem; white-space: pre; }
.workings table.plain .word { text-align: left; }
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings .derived { overflow-x: auto; overflow-y: hidden; margin: .6rem 0; padding: .2rem 0; }
"""


def render_page(derivation: CellDerivation) -> str:
    """Return an HTML page."""
    return html_page(derivation.title, _body(derivation), style=_CSS)


def render_fragment(derivation: CellDerivation) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(derivation), style=_CSS)


def _body(derivation: CellDerivation) -> str:
    parts = [
        f'<h1 dir="auto">{escape_html(derivation.title)}</h1>',
        f"<h2>{escape_html(derivation.name)}</h2>",
        f'<p dir="auto">{escape_html(derivation.description)}</p>'
        if derivation.description
        else "",
        _math_element(derivation, derivation.formula),
        *(_math_element(derivation, before) for before in derivation.intermediates),
        f'<div class="scroll">{_sum_table(derivation)}</div>' if derivation.lines else "",
        _math_element(derivation, derivation.working),
        f'<div class="scroll">{_model_value_table(derivation)}</div>'
        if derivation.model_values
        else "",
        *(f'<p class="what">{escape_html(note)}</p>' for note in derivation.notes),
    ]
    return "\n".join(part for part in parts if part)


def _math_element(derivation: CellDerivation, formula: Formula) -> str:
    """Write a formula, with the line of text for whoever cannot see it."""
    written, spoken = (
        formula(MathMLNotation(derivation.decimals)),
        formula(TextNotation(derivation.decimals)),
    )
    return (
        f'<div class="derived"><math displaystyle="true" alttext="{escape_html(spoken)}">'
        f"{written}</math></div>"
    )


def _sum_table(derivation: CellDerivation) -> str:
    names = [
        f"{'▸ ' if line.is_marked else ''}{to_one_line(line.name)}" for line in derivation.lines
    ]
    # A space as wide as a digit keeps points in line.
    figures = [
        [number.replace(" ", "\u2007") for number in row] for row in format_numbers(derivation)
    ]
    rows = [[name, *row] for name, row in zip(names, figures, strict=True)]
    return html_table(derivation.header, rows)


def _model_value_table(derivation: CellDerivation) -> str:
    return html_table(("where", derivation.name, ""), format_model_values(derivation))
