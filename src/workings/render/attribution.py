"""What a classifier made of a text and which words decided, for the terminal."""

import math
import shutil
from collections.abc import Iterable, Sequence
from html import escape

from workings.interpret.results import Attribution, TokenAttributions
from workings.plain_text import (
    display_width,
    pad_right,
    to_one_line,
    truncate_to_columns,
    wrap_to_columns,
)
from workings.render.colored_text import (
    HighlightedSpan,
    ValuedSpan,
    colored_html,
    colored_lines,
    colored_text_css,
    format_value,
    join_spans,
    max_abs_value,
    strongest_spans,
)
from workings.render.colors import color_scale, color_step
from workings.render.matrix import AnsiStyler
from workings.render.page import escape_html, html_fragment, html_page

METHOD_NAMES = {"occlusion": "Occlusion", "gradient": "Gradient × input", "attention": "Attention"}
_MIN_WIDTH = 24


def render_text(
    attribution: Attribution, *, width: int | None = None, color: bool = False, theme: str = "dark"
) -> str:
    """Write it for a terminal; without colour, only the words that matter, with their numbers."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _MIN_WIDTH), AnsiStyler(color)
    likely = (
        f"{to_one_line(name)} {format_percent(p)}"
        for name, p in ranked_probabilities(attribution)[:5]
    )
    first, *rest = wrap_to_columns(_join_with_dots(likely), columns)
    blocks = [[pen(first, "strong"), *rest, *wrap_to_columns(log_odds_note(attribution), columns)]]
    for shares in attribution.token_attributions:
        name = METHOD_NAMES.get(shares.method, shares.method)
        first, *rest = wrap_to_columns(f"{name}: {to_one_line(shares.description)}", columns)
        lines = [pen(first[: len(name)], "strong") + first[len(name) :], *rest]
        if color and attribution.spans:
            lines += colored_lines(
                read_text(attribution),
                attribution.spans,
                shares.values,
                width=columns,
                theme=theme,
                window=shares.window,
                marked=attribution.unknown_tokens,
            )
        blocks.append(lines + _strongest_lines(attribution, shares, columns))
    blocks.append(
        [
            pen(line, "dim")
            for note in _notes(attribution)
            for line in wrap_to_columns(note, columns)
        ]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _strongest_lines(
    attribution: Attribution, token_attributions: TokenAttributions, columns: int
) -> list[str]:
    """List the strongest words on either side, with their numbers."""
    some = joined_spans(attribution, token_attributions)
    found, full = strongest_words(attribution, some), max_abs_value(some)
    if not found:
        return ["no token was read" if not attribution.spans else "no token made a difference"]
    sides = [(f"for {attribution.label}", 1.0), (f"for {attribution.runner_up}", -1.0)]
    names = [to_one_line(name) for name, _ in sides] if token_attributions.is_signed else ["most"]
    margin = min(max(map(display_width, names)) + 2, columns // 2)
    lines = []
    for name, (_, side) in zip(names, sides, strict=False):
        words = _join_with_dots(
            f"{word} {format_value(word.value, full, signed=token_attributions.is_signed)}"
            for word in found
            if word.value * side > 0
        )
        if words:
            name = pad_right(truncate_to_columns(name, margin - 2), margin).replace(" ", "\u00a0")
            lines += wrap_to_columns(name + words, columns, " " * margin)
    return lines


def _join_with_dots(items: Iterable[str]) -> str:
    """Put dots between items, so that a line breaks after a dot and nowhere else."""
    return "\u00a0· ".join(item.replace(" ", "\u00a0") for item in items)


def _notes(attribution: Attribution) -> list[str]:
    notes = []
    if attribution.unknown_tokens:
        places = (attribution.spans[k] for k in attribution.unknown_tokens)
        words = list(dict.fromkeys(attribution.input_text[a : min(b, a + 40)] for a, b in places))
        more = f" and {len(words) - 10} more" if len(words) > 10 else ""
        shown = ", ".join(truncate_to_columns(to_one_line(word), 24) for word in words[:10])
        notes.append(f"not in the vocabulary: {shown}{more}")
    if attribution.truncated_characters:
        notes.append(truncation_note(attribution))
    return notes


def joined_spans(
    attribution: Attribution, token_attributions: TokenAttributions
) -> list[ValuedSpan]:
    """The pieces of the text that have a number each."""
    return join_spans(
        attribution.spans, token_attributions.values, window=token_attributions.window
    )


def strongest_words(attribution: Attribution, spans: list[ValuedSpan]) -> list[HighlightedSpan]:
    """The strongest words, without those whose number would be written 0."""
    full = max_abs_value(spans)
    return [
        word
        for word in strongest_spans(attribution.input_text, spans)
        if format_value(word.value, full) != "0"
    ]


def ranked_probabilities(attribution: Attribution) -> list[tuple[str, float]]:
    """The classes and their probabilities, the likeliest first."""
    return sorted(attribution.probabilities.items(), key=lambda item: -item[1])


def read_text(attribution: Attribution) -> str:
    """The text as far as the model read it."""
    return attribution.input_text[: len(attribution.input_text) - attribution.truncated_characters]


def log_odds_note(attribution: Attribution) -> str:
    """Write the lead, a logarithm, and the odds that it is one of."""
    who = f"The lead of {to_one_line(attribution.label)} over {to_one_line(attribution.runner_up)}"
    odds = math.exp(min(attribution.margin, 20.0))
    written = f"{odds:,.0f}" if odds >= 10 else f"{odds:.1f}"
    more = "more than " if attribution.margin > 20 else ""
    return f"{who}: {attribution.margin:.2f}, the logarithm of odds of {more}{written} to 1"


def truncation_note(attribution: Attribution) -> str:
    """Say how much was not read."""
    return f"The last {attribution.truncated_characters:,} characters were not read: {len(attribution.spans):,} tokens is all."


def format_percent(probability: float) -> str:
    """Write a probability.

    >>> format_percent(0.12345), format_percent(0.0001)
    ('12.3 %', '< 0.1 %')
    """
    return "< 0.1 %" if 0 < probability < 0.0005 else f"{100 * probability:.1f} %"


_MAX_BARS = 8  # classes with a bar of their own

_CSS = """
.workings section { margin: 0; }
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings .beside { display: grid; grid-template-columns: minmax(0, max-content) auto;
  justify-content: start; gap: 1.2rem 3rem; align-items: start; }
.workings .words { min-width: 0; max-width: 44rem; }
@media (max-width: 40rem) { .workings .beside { grid-template-columns: minmax(0, 1fr); } }
.workings .words .legend { margin-top: .7rem; }
.workings .beside table th { max-width: 16rem; color: var(--ink); font-size: .97rem; }
.workings .beside > table { justify-self: start; }
.workings .beside table th b { font-weight: 600; }
.workings .chances + .what { margin: 1rem 0 0; }
.workings .chances td { padding: .1rem .5rem .1rem 0; }
.workings .chances th { color: var(--ink); font-size: 1rem; }
.workings .chance { display: block; width: min(22rem, 45vw); height: .8rem;
  background: var(--masked); }
.workings .chance .other { fill: var(--hatch); }
.workings details { margin-top: .8rem; }
.workings summary { cursor: pointer; color: var(--soft); }
.workings details h3 { color: var(--soft); margin: .6rem 0 .1rem; }
"""


def render_page(attribution: Attribution) -> str:
    """Write a whole page."""
    return html_page(f"Why {attribution.label}?", _page_body(attribution), style=attribution_css())


def render_fragment(attribution: Attribution) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    return html_fragment(_page_body(attribution), style=attribution_css())


def render_summary(attribution: Attribution) -> str:
    """Write the answer in a line, and the text coloured by the first way of asking."""
    ((label, p), *_), shares = ranked_probabilities(attribution), attribution.token_attributions[0]
    name = escape_html(METHOD_NAMES.get(shares.method, shares.method).lower())
    return (
        f'<p>predicted: <b dir="auto">{escape_html(label)}</b>, {format_percent(p)}; coloured by {name}</p>\n'
        f"{_colored_text(attribution, shares, shares.values)}"
    )


def _page_body(attribution: Attribution) -> str:
    units = f"{attribution.unit}s"
    key = f"{units.capitalize()} in orange make it larger, {units} in blue smaller."
    parts = [
        f'<h1 dir="auto">Why {escape_html(attribution.label)}?</h1>',
        _probability_bars(attribution),
    ]
    parts += [f'<p class="what">{escape_html(log_odds_note(attribution))}. {escape_html(key)}</p>']
    parts += [_method_section(attribution, shares) for shares in attribution.token_attributions]
    return "\n".join(parts)


def _probability_bars(attribution: Attribution) -> str:
    """Draw the probabilities: the label's and the runner-up's in the colours of their words."""
    shown = ranked_probabilities(attribution)
    if len(shown) > _MAX_BARS:
        others = shown[_MAX_BARS - 1 :]
        shown = [*shown[: _MAX_BARS - 1], (f"{len(others)} others", sum(p for _, p in others))]
    sides = {attribution.label: "for", attribution.runner_up: "against"}
    rows = "\n".join(
        f'<tr><th scope="row" dir="auto">{escape_html(name)}</th><td><svg class="chance" '
        f'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect '
        f'class="{sides.get(name, "other")}" width="{100 * p:.2f}" height="1"/></svg></td>'
        f"<td>{format_percent(p)}</td></tr>"
        for name, p in shown
    )
    return f'<table class="chances"><tbody>\n{rows}\n</tbody></table>'


def _method_section(attribution: Attribution, token_attributions: TokenAttributions) -> str:
    """Write one way of asking: the coloured text, its legend, the strongest words."""
    name = escape_html(METHOD_NAMES.get(token_attributions.method, token_attributions.method))
    what = escape_html(
        token_attributions.description[:1].upper() + token_attributions.description[1:]
    )
    head = f'<section>\n<h2>{name}</h2>\n<p class="what">{what}.</p>'
    if not attribution.spans:
        return f"{head}\n<p>No token was read.</p>\n</section>"
    cut = (
        f'<p class="legend">{truncation_note(attribution)}</p>\n'
        if attribution.truncated_characters
        else ""
    )
    layers = "\n".join(
        f"<h3>Layer {k}</h3>\n{_colored_text(attribution, token_attributions, layer)}"
        for k, layer in enumerate(token_attributions.layers, start=1)
    )
    if layers:
        layers = f"<details>\n<summary>Layer by layer</summary>\n{layers}\n</details>\n"
    return f"""{head}
<div class="beside">
<div class="words">
{_colored_text(attribution, token_attributions, token_attributions.values)}
{cut}{_value_legend(attribution, token_attributions)}
{layers}</div>
{_strongest_table(attribution, token_attributions)}
</div>
</section>"""


def _colored_text(
    attribution: Attribution, token_attributions: TokenAttributions, values: Sequence[float]
) -> str:
    return colored_html(
        read_text(attribution),
        attribution.spans,
        values,
        window=token_attributions.window,
        marked=attribution.unknown_tokens,
        signed=token_attributions.is_signed,
    )


def _value_legend(attribution: Attribution, token_attributions: TokenAttributions) -> str:
    full = max_abs_value(joined_spans(attribution, token_attributions))
    steps = [
        name for name in color_scale("light") if token_attributions.is_signed or name[0] != "n"
    ]
    bar = "".join(f'<i class="{name}"></i>' for name in steps)
    bar = f'<span class="bar" aria-hidden="true">{bar}</span>'
    most = format_value(full, full, signed=token_attributions.is_signed)
    if token_attributions.is_signed:
        low, high = (
            f"for {escape_html(name)}" for name in (attribution.runner_up, attribution.label)
        )
        parts = [f"<span>{low} {format_value(-full, full)}{bar}{most} {high}</span>"]
    else:
        parts = [f"<span>0{bar}{most}</span>"]
    if attribution.unknown_tokens:
        unit = escape_html(attribution.unit)
        parts.append(f'<span><span class="unknown">{unit}</span> not in the vocabulary</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _strongest_table(attribution: Attribution, token_attributions: TokenAttributions) -> str:
    some = joined_spans(attribution, token_attributions)
    full = max_abs_value(some)
    rows = "\n".join(
        f'<tr><th scope="row" dir="auto">{_highlighted_word(word)}</th>'
        f'<td><span class="v {color_step(word.value, full)}">'
        f"{format_value(word.value, full, signed=token_attributions.is_signed)}</span></td></tr>"
        for word in strongest_words(attribution, some)
    )
    if not rows:
        return "<p>No token made a difference.</p>"
    return f"<table>\n<caption>Strongest</caption>\n<tbody>\n{rows}\n</tbody></table>"


def _highlighted_word(word: HighlightedSpan) -> str:
    inside = f"{escape(word.before)}<b>{escape(word.text)}</b>{escape(word.after)}"
    return inside if word.before + word.after else f"<b>{escape(word.text)}</b>"


def attribution_css() -> str:
    """The rules that these pieces need beside the house's."""
    light, dark = (
        f".workings .chance .for {{ fill: {colours['p8']}; }}\n"
        f".workings .chance .against {{ fill: {colours['n8']}; }}\n"
        for colours in (color_scale("light"), color_scale("dark"))
    )
    seen = f"@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n"
    return colored_text_css() + _CSS + light + seen
