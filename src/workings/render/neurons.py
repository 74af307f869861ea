"""The neurons that track properties of a text: a table, and excerpts colored by activation."""

from collections.abc import Iterator, Sequence

from workings.data.tokenizers.base import Span
from workings.interpret.results import NeuronScore, NeuronSearch, PropertyNeurons
from workings.plain_text import (
    BARS,
    AnsiStyler,
    display_width,
    escape_control,
    output_columns,
    to_one_line,
    wrap_to_columns,
)
from workings.render.colored_text import (
    COLORED_TEXT_CSS,
    colored_html,
    colored_lines,
    format_value,
)
from workings.render.colors import color_scale
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture
from workings.render.tables import TABLE_CSS, html_table, text_table
from workings.render.text_picture import Passage, draw_passages

NEURON_HEADER = (
    "property",
    "cell",
    "direction",
    "metric",
    "score",
    "selection score",
    "chance level",
    "p",
)
_MAX_EXCERPT = 500  # characters
_TITLE = "Cells that track the text"

_CSS = (
    COLORED_TEXT_CSS
    + TABLE_CSS
    + """
.workings .explanation { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings table.plain { margin: 1rem 0; }
.workings .colored { font: .92rem/1.65 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas,
  monospace; tab-size: 4; max-width: 56rem; }
.workings .property .colored span { border-radius: 0; }
.workings .property h3 { margin: .2rem 0 .4rem; }
.workings .property .legend { margin: .5rem 0 1.2rem; }
.workings summary { cursor: pointer; color: var(--soft); margin-bottom: .8rem; }
"""
)


def render_text(
    search: NeuronSearch, *, width: int | None = None, color: bool = False, theme: str = "dark"
) -> str:
    """Return the table, and per property an excerpt with the activations of its best neuron."""
    columns, styler = output_columns(width), AnsiStyler(color)
    blocks = [wrap_to_columns(search_summary(search), columns)]
    if search.properties:
        blocks.append(text_table(NEURON_HEADER, neuron_rows(search), text_columns=4).splitlines())
    for neurons in search.properties:
        name, best = property_title(neurons), neurons.neurons[0]
        title = f"{name}: {to_one_line(best.neuron)}, {format_score(neurons, best)}"
        first, *rest = wrap_to_columns(title, columns)
        heading = [styler(first[: len(name)], "strong") + first[len(name) :], *rest]
        blocks.append(heading + _excerpt_lines(neurons, columns, theme if color else None))
    notes = [line for note in column_notes(search) for line in wrap_to_columns(note, columns)]
    blocks.append([styler(line, "dim") for line in notes])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _excerpt_lines(neurons: PropertyNeurons, columns: int, theme: str | None) -> list[str]:
    """Return the excerpt in the colors of a theme; None: with a bar below each character."""
    best, excerpt = neurons.neurons[0], neurons.excerpt
    count = sum(end <= _excerpt_end(excerpt.text) for _, end in excerpt.spans)
    spans, values = excerpt.spans[:count], best.activations[:count]
    text = excerpt.text[: spans[-1][1]] if spans else ""
    if theme is None:
        return bar_lines(text, spans, values, best.midpoint, best.spread, columns)
    return colored_lines(
        text,
        spans,
        values,
        width=columns,
        theme=theme,
        marked=[k for k in excerpt.marked_tokens if k < count],
        midpoint=best.midpoint,
        spread=best.spread,
    )


def _excerpt_end(text: str) -> int:
    """Return where to end an excerpt: after a line, if one ends in its second half."""
    end = text.rfind("\n", _MAX_EXCERPT // 2, _MAX_EXCERPT)
    return _MAX_EXCERPT if end < 0 or len(text) <= _MAX_EXCERPT else end


def search_summary(search: NeuronSearch) -> str:
    """Return how many cells were compared, and on how much text."""
    return (
        f"{search.num_neurons:,} cells, selected on {search.num_selection_tokens:,} {search.unit}"
        f" and scored on {search.num_scoring_tokens:,} others"
    )


def column_notes(search: NeuronSearch) -> list[str]:
    """Return what the columns of the table mean, and which properties are missing."""
    notes = [
        f"chance level: the 95th percentile of the best score among all {search.num_neurons:,} "
        f"cells when the property is shifted along the text; p: the fraction of "
        f"{search.num_shifts} shifts with a best score at least as high"
    ]
    if search.unit == "tokens":
        notes.append("a token has the property of its last character")
    if search.constant_properties:
        names = ", ".join(to_one_line(name) for name in search.constant_properties)
        notes.append(f"constant in the text, or in one half of it, and left out: {names}")
    return notes


def neuron_rows(search: NeuronSearch) -> list[tuple[str, ...]]:
    """Return the rows of the table; the name of a property stands only beside its best neuron."""
    return [
        (
            to_one_line(neurons.name) if k == 0 else "",
            to_one_line(neuron.neuron),
            "falls" if neuron.is_inverted else "rises",
            neurons.metric,
            f"{neuron.score:.3f}",
            f"{neuron.selection_score:.3f}",
            f"{neurons.chance_level:.3f}",
            f"{neuron.p_value:.3f}",
        )
        for neurons in search.properties
        for k, neuron in enumerate(neurons.neurons)
    ]


def property_title(neurons: PropertyNeurons) -> str:
    """Return the description of a property, capitalized."""
    description = to_one_line(neurons.description)
    return description[:1].upper() + description[1:]


def format_score(neurons: PropertyNeurons, neuron: NeuronScore) -> str:
    """Return a score with its metric, and whether the activation falls with the property."""
    falls = " (it falls there)" if neuron.is_inverted else ""
    return f"{neurons.metric} {neuron.score:.3f}{falls}"


def bar_lines(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    midpoint: float,
    spread: float,
    columns: int,
) -> list[str]:
    """Return a text with a bar below each character, as high as its value.

    >>> bar_lines("ab c", [(0, 1), (1, 2), (3, 4)], [-1.0, 0.0, 1.0], 0.0, 1.0, 80)
    ['ab c', '▁▅ █']
    """
    lines: list[str] = []
    text_line, bar_line = "", ""
    for character, bar in _bar_characters(text, spans, values, midpoint, spread):
        if character == "\n" or display_width(text_line) + display_width(character) > columns:
            lines += [text_line.rstrip(), bar_line.rstrip()] if text_line.strip() else [""]
            text_line, bar_line = "", ""
        if character != "\n":
            text_line, bar_line = text_line + character, bar_line + bar * display_width(character)
    return [*lines, text_line.rstrip(), bar_line.rstrip()] if text_line.strip() else lines


def _bar_characters(
    text: str, spans: Sequence[Span], values: Sequence[float], midpoint: float, spread: float
) -> Iterator[tuple[str, str]]:
    """Yield each character, made printable, with its bar."""
    bars = [" "] * len(text)
    for (start, end), value in zip(spans, values, strict=True):
        fraction = (value - midpoint) / spread / 2 + 0.5 if spread else 0.5
        level = min(max(int(fraction * len(BARS)), 0), len(BARS) - 1)
        bars[start:end] = BARS[level] * (end - start)
    for character, bar in zip(text, bars, strict=True):
        yield escape_control(character).replace("\t", "    "), bar


def render_picture(search: NeuronSearch) -> Picture:
    """Draw, per property, an excerpt colored by the activation of its best cell."""
    return draw_passages([_best_passage(neurons) for neurons in search.properties], _TITLE)


def _best_passage(neurons: PropertyNeurons) -> Passage:
    best, excerpt = neurons.neurons[0], neurons.excerpt
    end = _excerpt_end(excerpt.text)
    count = sum(stop <= end for _, stop in excerpt.spans)
    spans = excerpt.spans[:count]
    score = f"{to_one_line(best.neuron)}, {format_score(neurons, best)}"
    return Passage(
        heading=f"{property_title(neurons)}: {score}",
        text=excerpt.text[: spans[-1][1]] if spans else "",
        spans=spans,
        values=best.activations[:count],
        marked=[k for k in excerpt.marked_tokens if k < count],
        midpoint=best.midpoint,
        spread=best.spread,
        note=f"underlined: {to_one_line(neurons.description)}" if excerpt.marked_tokens else "",
    )


def render_page(search: NeuronSearch) -> str:
    """Return a page with the table and the excerpts of all neurons."""
    return html_page(_TITLE, _body(search), style=_CSS)


def render_fragment(search: NeuronSearch) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(search), style=_CSS)


def _body(search: NeuronSearch) -> str:
    notes = "".join(
        f'<p class="explanation">{escape_html(_to_sentence(note))}</p>\n'
        for note in column_notes(search)
    )
    table = ""
    if search.properties:
        table = html_table(NEURON_HEADER, neuron_rows(search), text_columns=4)
    parts = [
        f"<h1>{_TITLE}</h1>",
        f"<p>{escape_html(search_summary(search))}.</p>",
        f'<div class="scroll">{table}</div>\n{notes}',
        *(_property_section(neurons) for neurons in search.properties),
    ]
    return "\n".join(parts)


def _property_section(neurons: PropertyNeurons) -> str:
    """Return the excerpt of a property, colored by each of its neurons; the best one unfolded."""
    best, *others = (_neuron_html(neurons, neuron) for neuron in neurons.neurons)
    more = ""
    if others:
        more = f"<details>\n<summary>The next best</summary>\n{''.join(others)}</details>\n"
    return f"""<section class="property">
<h2 dir="auto">{escape_html(property_title(neurons))}</h2>
{best}{more}</section>"""


def _neuron_html(neurons: PropertyNeurons, neuron: NeuronScore) -> str:
    excerpt = neurons.excerpt
    text = colored_html(
        excerpt.text,
        excerpt.spans,
        neuron.activations,
        marked=excerpt.marked_tokens,
        midpoint=neuron.midpoint,
        spread=neuron.spread,
    )
    score = escape_html(format_score(neurons, neuron))
    title = f"<b>{escape_html(neuron.neuron)}</b>, {score}"
    return f"<h3>{title}</h3>\n{text}\n{_value_legend(neurons, neuron)}\n"


def _value_legend(neurons: PropertyNeurons, neuron: NeuronScore) -> str:
    samples = "".join(f'<i class="{name}"></i>' for name in color_scale("light"))
    largest = abs(neuron.midpoint) + neuron.spread
    low, high = (format_value(neuron.midpoint + sign * neuron.spread, largest) for sign in (-1, 1))
    parts = [f'<span>{low}<span class="bar" aria-hidden="true">{samples}</span>{high}</span>']
    if neurons.prevalence is not None:
        share = f"{100 * neurons.prevalence:.1f} % of the text"
        meaning = f"{escape_html(neurons.description)}, {share}"
        parts.append(f'<span><span class="unknown">underlined</span>: {meaning}</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _to_sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."
