"""The cells of a model that track properties of a text, for the terminal."""

import shutil
from collections.abc import Iterator, Sequence

from workings.interpret.results import NeuronScore, NeuronSearch, PropertyNeurons
from workings.plain_text import display_width, escape_control, to_one_line, wrap_to_columns
from workings.render.colored_text import (
    Span,
    colored_html,
    colored_lines,
    colored_text_css,
    format_value,
)
from workings.render.colors import color_scale
from workings.render.matrix import AnsiStyler
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.tables import html_table, text_table

NEURON_HEADER = (
    "property",
    "cell",
    "there it",
    "measure",
    "score",
    "when chosen",
    "by chance",
    "p",
)
_MIN_WIDTH = 24
_MAX_EXCERPT = 500  # characters of an excerpt
_BARS = "▁▂▃▄▅▆▇█"


def render_text(
    search: NeuronSearch, *, width: int | None = None, color: bool = False, theme: str = "dark"
) -> str:
    """Write the table, and a piece of text for each property as its best cell sees it."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _MIN_WIDTH), AnsiStyler(color)
    blocks = [wrap_to_columns(search_summary(search), columns)]
    if search.properties:
        blocks.append(text_table(NEURON_HEADER, neuron_rows(search), text_columns=4).splitlines())
    for tracked in search.properties:
        best, shown = tracked.neurons[0], tracked.excerpt
        kept = sum(end <= _excerpt_end(shown.text) for _, end in shown.spans)
        spans, values = shown.spans[:kept], best.activations[:kept]
        piece = shown.text[: spans[-1][1]] if spans else ""
        name = property_title(tracked)
        first, *rest = wrap_to_columns(
            f"{name}: {to_one_line(best.neuron)}, {format_score(tracked, best)}", columns
        )
        lines = [pen(first[: len(name)], "strong") + first[len(name) :], *rest]
        if color:
            lines += colored_lines(
                piece,
                spans,
                values,
                width=columns,
                theme=theme,
                marked=[k for k in shown.marked_tokens if k < kept],
                midpoint=best.midpoint,
                spread=best.spread,
            )
        else:
            lines += bar_lines(piece, spans, values, best.midpoint, best.spread, columns)
        blocks.append(lines)
    blocks.append(
        [
            pen(line, "dim")
            for note in column_notes(search)
            for line in wrap_to_columns(note, columns)
        ]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _excerpt_end(text: str) -> int:
    """Where to end an excerpt: at the end of a line, if there is one in its later half."""
    end = text.rfind("\n", _MAX_EXCERPT // 2, _MAX_EXCERPT)
    return _MAX_EXCERPT if end < 0 or len(text) <= _MAX_EXCERPT else end


def search_summary(search: NeuronSearch) -> str:
    """Say what was done."""
    return (
        f"{search.num_neurons:,} cells, chosen on {search.num_selection_tokens:,} {search.unit} and scored on "
        f"{search.num_scoring_tokens:,} others"
    )


def column_notes(search: NeuronSearch) -> list[str]:
    """Say what the columns are, and what is missing."""
    found = [
        f"by chance: what the best of all {search.num_neurons:,} cells stays below on 95 of 100 texts "
        f"that the property is shifted round; p: how often it does as well, of {search.num_shifts} shifts"
    ]
    if search.unit == "tokens":
        found.append("a token has the property of its last character")
    if search.constant_properties:
        names = ", ".join(to_one_line(name) for name in search.constant_properties)
        found.append(f"the same all over the text, or half of it, and left out: {names}")
    return found


def neuron_rows(search: NeuronSearch) -> list[tuple[str, ...]]:
    """The table's rows: a property's name beside its best cell only."""
    return [
        (
            to_one_line(tracked.name) if k == 0 else "",
            to_one_line(cell.neuron),
            "falls" if cell.is_inverted else "rises",
            tracked.metric,
            f"{cell.score:.3f}",
            f"{cell.selection_score:.3f}",
            f"{tracked.chance_level:.3f}",
            f"{cell.p_value:.3f}",
        )
        for tracked in search.properties
        for k, cell in enumerate(tracked.neurons)
    ]


def property_title(property_neurons: PropertyNeurons) -> str:
    """Name a property in words."""
    what = to_one_line(property_neurons.description)
    return what[:1].upper() + what[1:]


def format_score(property_neurons: PropertyNeurons, neuron: NeuronScore) -> str:
    """Write a score with what it is of."""
    falls = " (it falls there)" if neuron.is_inverted else ""
    return f"{property_neurons.metric} {neuron.score:.3f}{falls}"


def bar_lines(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    midpoint: float,
    spread: float,
    columns: int,
) -> list[str]:
    """Write a text with a bar below each character, as high as its value.

    >>> bar_lines("ab c", [(0, 1), (1, 2), (3, 4)], [-1.0, 0.0, 1.0], 0.0, 1.0, 80)
    ['ab c', '▁▅ █']
    """
    lines: list[str] = []
    above, below = "", ""
    for shown, bar in _bar_characters(text, spans, values, midpoint, spread):
        if shown == "\n" or display_width(above) + display_width(shown) > columns:
            lines += [above.rstrip(), below.rstrip()] if above.strip() else [""]
            above, below = "", ""
        if shown != "\n":
            above, below = above + shown, below + bar * display_width(shown)
    return [*lines, above.rstrip(), below.rstrip()] if above.strip() else lines


def _bar_characters(
    text: str, spans: Sequence[Span], values: Sequence[float], midpoint: float, spread: float
) -> Iterator[tuple[str, str]]:
    """Each character as it is shown, with its bar."""
    bars = [" "] * len(text)
    for (start, end), value in zip(spans, values, strict=True):
        share = (value - midpoint) / spread / 2 + 0.5 if spread else 0.5
        level = min(max(int(share * len(_BARS)), 0), len(_BARS) - 1)
        bars[start:end] = _BARS[level] * (end - start)
    for character, bar in zip(text, bars, strict=True):
        yield escape_control(character).replace("\t", "    "), bar


_CSS = """
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


def render_page(search: NeuronSearch) -> str:
    """Write a whole page."""
    return html_page(
        "Cells that track the text", _page_body(search), style=colored_text_css() + _CSS
    )


def render_fragment(search: NeuronSearch) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    return html_fragment(_page_body(search), style=colored_text_css() + _CSS)


def _page_body(search: NeuronSearch) -> str:
    said = "".join(
        f'<p class="what">{escape_html(_to_sentence(note))}</p>\n' for note in column_notes(search)
    )
    table = (
        html_table(NEURON_HEADER, neuron_rows(search), text_columns=4) if search.properties else ""
    )
    parts = ["<h1>Cells that track the text</h1>", f"<p>{escape_html(search_summary(search))}.</p>"]
    parts.append(f'<div class="scroll">{table}</div>\n{said}')
    parts += [_property_section(tracked) for tracked in search.properties]
    return "\n".join(parts)


def _property_section(property_neurons: PropertyNeurons) -> str:
    """Write a property's excerpt as each of its cells sees it, the best one's in the open."""
    best, *others = (_neuron_html(property_neurons, cell) for cell in property_neurons.neurons)
    more = ""
    if others:
        more = f"<details>\n<summary>The next best</summary>\n{''.join(others)}</details>\n"
    return f"""<section class="tracked">
<h2 dir="auto">{escape_html(property_title(property_neurons))}</h2>
{best}{more}</section>"""


def _neuron_html(property_neurons: PropertyNeurons, neuron: NeuronScore) -> str:
    shown = property_neurons.excerpt
    text = colored_html(
        shown.text,
        shown.spans,
        neuron.activations,
        marked=shown.marked_tokens,
        midpoint=neuron.midpoint,
        spread=neuron.spread,
    )
    name = f"<b>{escape_html(neuron.neuron)}</b>, {escape_html(format_score(property_neurons, neuron))}"
    return f"<h3>{name}</h3>\n{text}\n{_value_legend(property_neurons, neuron)}\n"


def _value_legend(property_neurons: PropertyNeurons, neuron: NeuronScore) -> str:
    bar = "".join(f'<i class="{name}"></i>' for name in color_scale("light"))
    low, high = (
        format_value(neuron.midpoint + way * neuron.spread, abs(neuron.midpoint) + neuron.spread)
        for way in (-1, 1)
    )
    parts = [f'<span>{low}<span class="bar" aria-hidden="true">{bar}</span>{high}</span>']
    if property_neurons.prevalence is not None:
        share = f"{100 * property_neurons.prevalence:.1f} % of the text"
        what = f"{escape_html(property_neurons.description)}, {share}"
        parts.append(f'<span><span class="unknown">underlined</span>: {what}</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _to_sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."
