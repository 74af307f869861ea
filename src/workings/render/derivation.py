"""The derivation of one cell: its sum, largest terms first, and the same value in the model."""

from collections.abc import Sequence

from workings.plain_text import (
    AnsiStyler,
    display_width,
    output_columns,
    pad_left,
    pad_right,
    to_one_line,
    truncate_to_columns,
    wrap_to_columns,
)
from workings.problems.derivation import CellDerivation
from workings.problems.notation import (
    Formula,
    MathMLNotation,
    TextNotation,
    format_decimal,
    typeset,
)
from workings.render.matrix import align_decimal_points
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.tables import TABLE_CSS, html_table, text_table

_INDENT = "   "
_MAX_NUMBER_WIDTH = 24  # characters
_FIGURE_SPACE = "\u2007"  # a space as wide as a digit

_CSS = (
    TABLE_CSS
    + """
.workings table.plain { margin: 1rem 0; }
.workings table.plain td { white-space: pre; }
.workings .explanation { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings .derivation { overflow-x: auto; overflow-y: hidden; margin: .6rem 0; padding: .2rem 0; }
"""
)


def render_text(
    derivation: CellDerivation, *, width: int | None = None, color: bool = False
) -> str:
    """Return the derivation as text for a terminal."""
    columns, styler = output_columns(width), AnsiStyler(color)
    notation = TextNotation(derivation.decimals)

    def indent(text: str) -> list[str]:
        lines = wrap_to_columns(text, columns - len(_INDENT), subsequent_indent="    ")
        return [_INDENT + line for line in lines]

    cell = derivation.name
    if derivation.description:
        cell += f": {to_one_line(derivation.description)}"
    notes = [line for n in derivation.notes for line in wrap_to_columns(to_one_line(n), columns)]
    title = wrap_to_columns(to_one_line(derivation.title), columns)
    blocks = [
        [
            *(styler(line, "dim") for line in title),
            *(styler(line, "strong") for line in wrap_to_columns(cell, columns)),
        ],
        wrap_to_columns(derivation.formula(notation), columns),
        [line for formula in derivation.intermediates for line in indent(formula(notation))],
        _sum_lines(derivation, columns, styler),
        indent(derivation.working(notation)),
        _model_value_lines(derivation, columns),
        [styler(line, "dim") for line in notes],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def render_page(derivation: CellDerivation) -> str:
    """Return the derivation as an HTML page."""
    return html_page(derivation.title, _body(derivation), style=_CSS)


def render_fragment(derivation: CellDerivation) -> str:
    """Return the derivation as a fragment of a page, for a notebook."""
    return html_fragment(_body(derivation), style=_CSS)


def format_numbers(derivation: CellDerivation) -> list[list[str]]:
    """Return the numbers of the sum line by line, their decimal points aligned."""
    columns = []
    for column in zip(*(line.numbers for line in derivation.lines), strict=True):
        texts = [format_decimal(x, derivation.decimals) for x in column if x is not None]
        aligned = iter(align_decimal_points(texts, _MAX_NUMBER_WIDTH))
        columns.append(["" if x is None else next(aligned) for x in column])
    return [list(line) for line in zip(*columns, strict=True)]


def sum_table(derivation: CellDerivation) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the sum; ▸ marks the line of the derived cell itself."""
    numbers = format_numbers(derivation) if derivation.lines else []
    rows = [
        [f"{'▸ ' if line.is_marked else ''}{to_one_line(line.name)}", *row]
        for line, row in zip(derivation.lines, numbers, strict=True)
    ]
    return list(derivation.header), rows


def model_value_table(derivation: CellDerivation) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the cell's values here and in the model, if it has any."""
    rows = format_model_values(derivation) if derivation.model_values else []
    return ["where", derivation.name, "difference"], [list(row) for row in rows]


def format_model_values(derivation: CellDerivation) -> list[tuple[str, str, str]]:
    """Return source, value (with more decimals) and difference: as derived, and in the model."""
    values = [derivation.value, *(model.value for model in derivation.model_values)]
    texts = [format_decimal(value, derivation.decimals + 4) for value in values]
    sources = ["computed here in float64"]
    differences = [""]
    for model in derivation.model_values:
        sources.append(to_one_line(model.source))
        differs = f"differs by {typeset(f'{model.difference:.1e}')}"
        differences.append(differs if model.difference else "the same")
    aligned = align_decimal_points(texts, _MAX_NUMBER_WIDTH)
    return list(zip(sources, aligned, differences, strict=True))


def _sum_lines(derivation: CellDerivation, columns: int, styler: AnsiStyler) -> list[str]:
    if not derivation.lines:
        return []
    numbers = format_numbers(derivation)
    widths = _column_widths([derivation.header[1:], *numbers])
    name_width = max(columns - sum(widths) - 2 * len(widths) - 3, 8)
    rows = []
    for line, row in zip(derivation.lines, numbers, strict=True):
        name = truncate_to_columns(to_one_line(line.name), name_width)
        rows.append([f"{'▸ ' if line.is_marked else '  '}{name}", *row])
    header = [f"  {derivation.header[0]}", *derivation.header[1:]]
    titles, rule, *lines = text_table(header, rows).splitlines()
    styles = ["strong" if line.is_marked else "" for line in derivation.lines]
    lines = [styler(line, style) for line, style in zip(lines, styles, strict=True)]
    return [f" {line}" for line in (titles, rule, *lines)]


def _model_value_lines(derivation: CellDerivation, columns: int) -> list[str]:
    if not derivation.model_values:
        return []
    rows = format_model_values(derivation)
    source_width, value_width, _ = _column_widths(rows)
    lines = (
        f"{pad_right(source, source_width)}  {pad_left(value, value_width)}  {difference}"
        for source, value, difference in rows
    )
    return [
        _INDENT + part
        for line in lines
        for part in wrap_to_columns(line, columns - len(_INDENT), subsequent_indent="  ")
    ]


def _column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(display_width, column)) for column in zip(*rows, strict=True)]


def _body(derivation: CellDerivation) -> str:
    description = escape_html(derivation.description)
    parts = [
        f'<h1 dir="auto">{escape_html(derivation.title)}</h1>',
        f"<h2>{escape_html(derivation.name)}</h2>",
        f'<p dir="auto">{description}</p>' if description else "",
        _formula_html(derivation, derivation.formula),
        *(_formula_html(derivation, formula) for formula in derivation.intermediates),
        f'<div class="scroll">{_sum_html(derivation)}</div>' if derivation.lines else "",
        _formula_html(derivation, derivation.working),
        f'<div class="scroll">{html_table(*model_value_table(derivation))}</div>'
        if derivation.model_values
        else "",
        *(f'<p class="explanation">{escape_html(note)}</p>' for note in derivation.notes),
    ]
    return "\n".join(part for part in parts if part)


def _formula_html(derivation: CellDerivation, formula: Formula) -> str:
    """Return a formula as MathML, with its text for screen readers."""
    markup = formula(MathMLNotation(derivation.decimals))
    text = escape_html(formula(TextNotation(derivation.decimals)))
    return (
        f'<div class="derivation"><math displaystyle="true" alttext="{text}">{markup}</math></div>'
    )


def _sum_html(derivation: CellDerivation) -> str:
    header, rows = sum_table(derivation)
    aligned = [
        [name, *(number.replace(" ", _FIGURE_SPACE) for number in numbers)]
        for name, *numbers in rows
    ]
    return html_table(header, aligned)
