"""Gates and states over time: a heatmap per gate, one below the other, and tables."""

from workings.interpret.results import GateActivations, GateSignal
from workings.plain_text import AnsiStyler, output_columns, wrap_to_columns
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels
from workings.render.tables import TABLE_CSS, html_table, text_table

_MARGIN, _GAP = 16.0, 12.0  # of the picture; all lengths are in pixels
_TITLE_SIZE, _NAME_SIZE, _LABEL_SIZE = 16, 12, 11  # font sizes
_MAX_CELL, _DEFAULT_CELL, _MIN_LABELED_CELL = 30.0, 18.0, 11.0
_ROW_HEIGHT = 12.0  # of a unit
_MAX_TOKEN_WIDTH = 110.0
_KEY_WIDTH, _KEY_STEPS = 70.0, 30


def render_picture(gates: GateActivations, *, width: float | None = None) -> Picture:
    """Draw a heatmap per gate or state: a row per unit, a column per token."""
    num_tokens = len(gates.tokens)
    units = [str(unit + 1) for unit in gates.units]
    left = _MARGIN + max(text_width(unit, _LABEL_SIZE) for unit in units) + 8
    if width is None:
        cell = min(max(_DEFAULT_CELL, 420 / num_tokens), _MAX_CELL)
    else:
        cell = max((width - left - _MARGIN) / num_tokens, 1.0)
    map_width = cell * num_tokens
    total_width = left + map_width + _MARGIN
    title = wrap_to_pixels(
        _title(gates), total_width - 2 * _MARGIN, _TITLE_SIZE, bold=True, max_lines=4
    )
    label_height = _token_label_height(gates, cell)
    top = _MARGIN + (_TITLE_SIZE + 4) * len(title) + 6
    map_height = _ROW_HEIGHT * len(units)
    step = _NAME_SIZE + 8 + map_height + _GAP
    height = top + step * len(gates.signals) + label_height + _MARGIN
    picture = Picture(total_width, height, _title(gates), lambda w: render_picture(gates, width=w))
    for k, line in enumerate(title, start=1):
        y = _MARGIN + k * (_TITLE_SIZE + 4) - 7
        picture.add_text(_MARGIN, y, line, size=_TITLE_SIZE, bold=True)
    for signal in gates.signals:
        _draw_signal(picture, signal, units, (left, top + _NAME_SIZE + 8, map_width, map_height))
        top += step
    if label_height:
        _draw_tokens(picture, gates.tokens, left, top - _GAP, cell)
    return picture


def _draw_signal(
    picture: Picture, signal: GateSignal, units: list[str], box: tuple[float, float, float, float]
) -> None:
    x, y, width, height = box
    scale = _full_scale(signal)
    picture.add_text(x, y - 6, signal.name, size=_NAME_SIZE)
    _draw_key(picture, signal, scale, (x, x + width, y - 6))
    picture.add_signed_grid(box, [[value / scale for value in row] for row in signal.values])
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    picture.add_line(corners, "line")
    for i, unit in enumerate(units):
        baseline = y + (i + 0.5) * height / len(units) + 4
        picture.add_text(x - 5, baseline, unit, "soft", _LABEL_SIZE, "end")


def _draw_key(
    picture: Picture, signal: GateSignal, scale: float, line: tuple[float, float, float]
) -> None:
    """Draw the colors from the smallest to the largest value at the end of the line of the name."""
    start, right, baseline = line
    high = f"{scale:.2g}"
    low = f"−{high}" if signal.is_signed else "0"
    left = right - text_width(high, _LABEL_SIZE) - 5 - _KEY_WIDTH
    first = -1.0 if signal.is_signed else 0.0
    steps = [first + (1 - first) * k / (_KEY_STEPS - 1) for k in range(_KEY_STEPS)]
    if left - text_width(low, _LABEL_SIZE) - 13 < start + text_width(signal.name, _NAME_SIZE):
        return  # a narrow picture has no space beside the name
    picture.add_signed_grid((left, baseline - 9, _KEY_WIDTH, 10), [steps])
    picture.add_text(left - 5, baseline, low, "soft", _LABEL_SIZE, "end")
    picture.add_text(right, baseline, high, "soft", _LABEL_SIZE, "end")


def _draw_tokens(picture: Picture, tokens: list[str], x: float, y: float, cell: float) -> None:
    for j, token in enumerate(tokens):
        label = truncate_to_pixels(token, _MAX_TOKEN_WIDTH, _LABEL_SIZE)
        center = x + (j + 0.5) * cell
        if _is_rotated(tokens, cell):
            end = y + 6 + text_width(label, _LABEL_SIZE)
            baseline = center + _LABEL_SIZE * 0.36
            picture.add_text(baseline, end, label, "ink", _LABEL_SIZE, rotation=90)
        else:
            picture.add_text(center, y + 5 + _LABEL_SIZE, label, "ink", _LABEL_SIZE, "middle")


def _token_label_height(gates: GateActivations, cell: float) -> float:
    if cell < _MIN_LABELED_CELL:
        return 0.0
    if not _is_rotated(gates.tokens, cell):
        return _LABEL_SIZE + 8.0
    longest = max(text_width(token, _LABEL_SIZE) for token in gates.tokens)
    return min(longest, _MAX_TOKEN_WIDTH) + 8


def _is_rotated(tokens: list[str], cell: float) -> bool:
    return max(text_width(token, _LABEL_SIZE) for token in tokens) > cell


def _full_scale(signal: GateSignal) -> float:
    """Return the value of the full color: 1, or for an unbounded state the largest value."""
    largest = max(abs(value) for row in signal.values for value in row)
    return max(largest, 1.0) if signal.is_signed else 1.0


def _title(gates: GateActivations) -> str:
    count = len(gates.units)
    chosen = f"{count}" if count == gates.num_units else f"{count} of {gates.num_units}"
    return f"{gates.layer} over time: {chosen} units"


def render_text(gates: GateActivations, *, width: int | None = None, color: bool = False) -> str:
    """Return the mean of each gate and state over the units, token by token."""
    styler, columns = AnsiStyler(color), output_columns(width)
    title, *rest = wrap_to_columns(_title(gates), columns)
    note = wrap_to_columns("means over these units; all values: --format json", columns)
    table = text_table(_header(gates), _rows(gates), text_columns=1)
    return "\n".join([styler(title, "strong"), *rest, "", table, "", *note])


def render_page(gates: GateActivations) -> str:
    """Return a page with the picture and the means."""
    return html_page(_title(gates), _body(gates), style=TABLE_CSS)


def render_fragment(gates: GateActivations) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(gates), style=TABLE_CSS)


def _body(gates: GateActivations) -> str:
    table = html_table(_header(gates), _rows(gates), text_columns=1)
    return f"""<h1>{escape_html(_title(gates))}</h1>
<div class="scroll">{render_picture(gates).svg()}</div>
<h2>Means over these units</h2>
<div class="scroll">{table}</div>"""


def _header(gates: GateActivations) -> tuple[str, ...]:
    return ("token", *(signal.name.partition(",")[0] for signal in gates.signals))


def _rows(gates: GateActivations) -> list[tuple[str, ...]]:
    means = [
        [sum(column) / len(column) for column in zip(*signal.values, strict=True)]
        for signal in gates.signals
    ]
    return [
        (token, *(f"{mean[t]:.3f}".replace("-", "−") for mean in means))
        for t, token in enumerate(gates.tokens)
    ]
