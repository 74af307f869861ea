"""An attribution (which tokens decided the class) as text and as a page."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from workings.interpret.results import Attribution, TokenAttributions
from workings.plain_text import (
    AnsiStyler,
    display_width,
    output_columns,
    pad_right,
    to_one_line,
    truncate_to_columns,
    wrap_to_columns,
)
from workings.render.colored_text import (
    COLORED_TEXT_CSS,
    HighlightedSpan,
    ValuedSpan,
    colored_html,
    colored_lines,
    format_value,
    join_spans,
    max_abs_value,
    strongest_spans,
)
from workings.render.colors import color_scale, color_step
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture
from workings.render.text_picture import Passage, draw_passages

METHOD_NAMES = {"occlusion": "Occlusion", "gradient": "Gradient × input", "attention": "Attention"}
_MAX_BARS = 8  # further classes are summed up in one bar
_MAX_UNKNOWN = 10  # unknown tokens that are listed
_MAX_LOG_ODDS = 20.0  # larger odds are only bounded

_CSS = """
.workings section { margin: 0; }
.workings .explanation { color: var(--soft); max-width: 46rem; margin: 0 0 .7rem; }
.workings .beside { display: grid; grid-template-columns: minmax(0, max-content) auto;
  justify-content: start; gap: 1.2rem 3rem; align-items: start; }
.workings .words { min-width: 0; max-width: 44rem; }
@media (max-width: 40rem) { .workings .beside { grid-template-columns: minmax(0, 1fr); } }
.workings .words .legend { margin-top: .7rem; }
.workings .beside table th { max-width: 16rem; color: var(--ink); font-size: .97rem; }
.workings .beside > table { justify-self: start; }
.workings .beside table th b { font-weight: 600; }
.workings .probabilities + .explanation { margin: 1rem 0 0; }
.workings .probabilities td { padding: .1rem .5rem .1rem 0; }
.workings .probabilities th { color: var(--ink); font-size: 1rem; }
.workings .probability { display: block; width: min(22rem, 45vw); height: .8rem;
  background: var(--masked); }
.workings .probability .other { fill: var(--hatch); }
.workings details { margin-top: .8rem; }
.workings summary { cursor: pointer; color: var(--soft); }
.workings details h3 { color: var(--soft); margin: .6rem 0 .1rem; }
"""


def attribution_css() -> str:
    """Return the rules for attributions, in addition to `base_css()`."""
    light, dark = (
        f".workings .probability .for {{ fill: {colors['p8']}; }}\n"
        f".workings .probability .against {{ fill: {colors['n8']}; }}\n"
        for colors in (color_scale("light"), color_scale("dark"))
    )
    dark_theme = f"@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n"
    return COLORED_TEXT_CSS + _CSS + light + dark_theme


def render_text(
    attribution: Attribution, *, width: int | None = None, color: bool = False, theme: str = "dark"
) -> str:
    """Return the class, its log-odds and the strongest tokens of each method as text.

    In color, the text itself is shown, too, each token on the color of its value.
    """
    columns, styler = output_columns(width), AnsiStyler(color)
    probabilities = _join_with_dots(
        f"{to_one_line(name)} {format_percent(p)}"
        for name, p in ranked_probabilities(attribution)[:5]
    )
    first, *rest = wrap_to_columns(probabilities, columns)
    log_odds = wrap_to_columns(log_odds_note(attribution), columns)
    blocks = [[styler(first, "strong"), *rest, *log_odds]]
    for method in attribution.token_attributions:
        name = METHOD_NAMES.get(method.method, method.method)
        first, *rest = wrap_to_columns(f"{name}: {to_one_line(method.description)}", columns)
        lines = [styler(first[: len(name)], "strong") + first[len(name) :], *rest]
        if color and attribution.spans:
            lines += colored_lines(
                read_text(attribution),
                attribution.spans,
                method.values,
                width=columns,
                theme=theme,
                window=method.window,
                marked=attribution.unknown_tokens,
            )
        blocks.append(lines + _strongest_lines(attribution, method, columns))
    notes = [line for note in _notes(attribution) for line in wrap_to_columns(note, columns)]
    blocks.append([styler(line, "dim") for line in notes])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _strongest_lines(
    attribution: Attribution, method: TokenAttributions, columns: int
) -> list[str]:
    """Return the strongest tokens for the label, and those against it, with their values."""
    spans = joined_spans(attribution, method)
    strongest, full_scale = strongest_tokens(attribution, spans), max_abs_value(spans)
    if not strongest:
        return ["no token was read" if not attribution.spans else "no token made a difference"]
    sides = [(f"for {attribution.label}", 1.0), (f"for {attribution.runner_up}", -1.0)]
    names = [to_one_line(name) for name, _ in sides] if method.is_signed else ["most"]
    margin = min(max(map(display_width, names)) + 2, columns // 2)
    lines = []
    for name, (_, sign) in zip(names, sides, strict=False):
        tokens = _join_with_dots(
            f"{token} {format_value(token.value, full_scale, signed=method.is_signed)}"
            for token in strongest
            if token.value * sign > 0
        )
        if tokens:
            label = pad_right(truncate_to_columns(name, margin - 2), margin)
            lines += wrap_to_columns(label.replace(" ", "\u00a0") + tokens, columns, " " * margin)
    return lines


def _join_with_dots(items: Iterable[str]) -> str:
    """Join items with dots; no-break spaces allow a line to break only after a dot."""
    return "\u00a0· ".join(item.replace(" ", "\u00a0") for item in items)


def _notes(attribution: Attribution) -> list[str]:
    notes = []
    if attribution.unknown_tokens:
        spans = (attribution.spans[k] for k in attribution.unknown_tokens)
        tokens = list(dict.fromkeys(attribution.input_text[a : min(b, a + 40)] for a, b in spans))
        listed = [truncate_to_columns(to_one_line(token), 24) for token in tokens[:_MAX_UNKNOWN]]
        rest = len(tokens) - len(listed)
        more = f" and {rest} more" if rest else ""
        notes.append(f"not in the vocabulary: {', '.join(listed)}{more}")
    if attribution.truncated_characters:
        notes.append(truncation_note(attribution))
    return notes


def joined_spans(attribution: Attribution, method: TokenAttributions) -> list[ValuedSpan]:
    """Return the spans of the text with their values by one method."""
    return join_spans(attribution.spans, method.values, window=method.window)


def strongest_tokens(attribution: Attribution, spans: list[ValuedSpan]) -> list[HighlightedSpan]:
    """Return the strongest spans, without those whose value is displayed as 0."""
    full_scale = max_abs_value(spans)
    strongest = strongest_spans(attribution.input_text, spans)
    return [span for span in strongest if format_value(span.value, full_scale) != "0"]


def ranked_probabilities(attribution: Attribution) -> list[tuple[str, float]]:
    """Return the classes with their probabilities, most probable first."""
    return sorted(attribution.probabilities.items(), key=lambda item: -item[1])


def read_text(attribution: Attribution) -> str:
    """Return the part of the text that the model read."""
    return attribution.input_text[: len(attribution.input_text) - attribution.truncated_characters]


def log_odds_note(attribution: Attribution) -> str:
    """Return the log-odds of the label against the runner-up, and the odds."""
    label, runner_up = to_one_line(attribution.label), to_one_line(attribution.runner_up)
    odds = math.exp(min(attribution.margin, _MAX_LOG_ODDS))
    bound = "more than " if attribution.margin > _MAX_LOG_ODDS else ""
    ratio = f"{odds:,.0f}" if odds >= 10 else f"{odds:.1f}"
    log_odds = f"Log-odds of {label} against {runner_up}: {attribution.margin:.2f}"
    return f"{log_odds} (odds of {bound}{ratio} to 1)"


def truncation_note(attribution: Attribution) -> str:
    """Return how much of the text was not read."""
    return (
        f"The last {attribution.truncated_characters:,} characters were not read: the model reads"
        f" {len(attribution.spans):,} tokens."
    )


def format_percent(probability: float) -> str:
    """Format a probability as a percentage.

    >>> format_percent(0.12345), format_percent(0.0001)
    ('12.3 %', '< 0.1 %')
    """
    return "< 0.1 %" if 0 < probability < 0.0005 else f"{100 * probability:.1f} %"


def render_picture(attribution: Attribution) -> Picture:
    """Draw the text once per method, each token on the color of its value."""
    passages = [
        Passage(
            heading=f"{METHOD_NAMES.get(m.method, m.method)}: {to_one_line(m.description)}",
            text=read_text(attribution),
            spans=attribution.spans,
            values=m.values,
            window=m.window,
            marked=attribution.unknown_tokens,
            is_signed=m.is_signed,
            note="underlined: not in the vocabulary" if attribution.unknown_tokens else "",
        )
        for m in attribution.token_attributions
    ]
    probability = format_percent(attribution.probabilities[attribution.label])
    title = f"Why {to_one_line(attribution.label)} ({probability})?"
    return draw_passages(passages, title)


def render_page(attribution: Attribution) -> str:
    """Return a page with the probabilities and the colored text of each method."""
    return html_page(f"Why {attribution.label}?", _body(attribution), style=attribution_css())


def render_fragment(attribution: Attribution) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(attribution), style=attribution_css())


def render_summary(attribution: Attribution) -> str:
    """Return the predicted class, and the text colored by the first method."""
    (label, probability), *_ = ranked_probabilities(attribution)
    method = attribution.token_attributions[0]
    name = escape_html(METHOD_NAMES.get(method.method, method.method).lower())
    prediction = f'<b dir="auto">{escape_html(label)}</b>, {format_percent(probability)}'
    return (
        f"<p>predicted: {prediction}; colored by {name}</p>\n"
        f"{_colored_text(attribution, method, method.values)}"
    )


def _body(attribution: Attribution) -> str:
    units = f"{attribution.unit}s"
    legend = f"{units.capitalize()} in orange increase it, {units} in blue decrease it."
    log_odds = f"{escape_html(log_odds_note(attribution))}. {escape_html(legend)}"
    parts = [
        f'<h1 dir="auto">Why {escape_html(attribution.label)}?</h1>',
        _probability_bars(attribution),
        f'<p class="explanation">{log_odds}</p>',
        *(_method_section(attribution, method) for method in attribution.token_attributions),
    ]
    return "\n".join(parts)


def _probability_bars(attribution: Attribution) -> str:
    """Return the probabilities as bars; label and runner-up in the colors of their tokens."""
    bars = ranked_probabilities(attribution)
    if attribution.runner_up not in attribution.probabilities:  # labels that do not exclude others
        bars = bars[:_MAX_BARS]
    elif len(bars) > _MAX_BARS:
        others = bars[_MAX_BARS - 1 :]
        bars = [*bars[: _MAX_BARS - 1], (f"{len(others)} others", sum(p for _, p in others))]
    classes = {attribution.label: "for", attribution.runner_up: "against"}
    rows = "\n".join(
        f'<tr><th scope="row" dir="auto">{escape_html(name)}</th><td><svg class="probability" '
        f'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect '
        f'class="{classes.get(name, "other")}" width="{100 * p:.2f}" height="1"/></svg></td>'
        f"<td>{format_percent(p)}</td></tr>"
        for name, p in bars
    )
    return f'<table class="probabilities"><tbody>\n{rows}\n</tbody></table>'


def _method_section(attribution: Attribution, method: TokenAttributions) -> str:
    """Return one method: the colored text, its legend, the strongest tokens, its layers."""
    name = escape_html(METHOD_NAMES.get(method.method, method.method))
    description = escape_html(method.description[:1].upper() + method.description[1:])
    header = f'<section>\n<h2>{name}</h2>\n<p class="explanation">{description}.</p>'
    if not attribution.spans:
        return f"{header}\n<p>No token was read.</p>\n</section>"
    truncation = ""
    if attribution.truncated_characters:
        truncation = f'<p class="legend">{truncation_note(attribution)}</p>\n'
    layers = "\n".join(
        f"<h3>Layer {k}</h3>\n{_colored_text(attribution, method, layer)}"
        for k, layer in enumerate(method.layers, start=1)
    )
    if layers:
        layers = f"<details>\n<summary>Layer by layer</summary>\n{layers}\n</details>\n"
    return f"""{header}
<div class="beside">
<div class="words">
{_colored_text(attribution, method, method.values)}
{truncation}{_value_legend(attribution, method)}
{layers}</div>
{_strongest_table(attribution, method)}
</div>
</section>"""


def _colored_text(
    attribution: Attribution, method: TokenAttributions, values: Sequence[float]
) -> str:
    return colored_html(
        read_text(attribution),
        attribution.spans,
        values,
        window=method.window,
        marked=attribution.unknown_tokens,
        signed=method.is_signed,
    )


def _value_legend(attribution: Attribution, method: TokenAttributions) -> str:
    full_scale = max_abs_value(joined_spans(attribution, method))
    steps = [name for name in color_scale("light") if method.is_signed or name[0] != "n"]
    samples = "".join(f'<i class="{name}"></i>' for name in steps)
    bar = f'<span class="bar" aria-hidden="true">{samples}</span>'
    largest = format_value(full_scale, full_scale, signed=method.is_signed)
    if method.is_signed:
        smallest = format_value(-full_scale, full_scale)
        left, right = escape_html(attribution.runner_up), escape_html(attribution.label)
        parts = [f"<span>for {left} {smallest}{bar}{largest} for {right}</span>"]
    else:
        parts = [f"<span>0{bar}{largest}</span>"]
    if attribution.unknown_tokens:
        unit = escape_html(attribution.unit)
        parts.append(f'<span><span class="unknown">{unit}</span> not in the vocabulary</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _strongest_table(attribution: Attribution, method: TokenAttributions) -> str:
    spans = joined_spans(attribution, method)
    full_scale = max_abs_value(spans)
    rows = "\n".join(
        f'<tr><th scope="row" dir="auto">{_highlighted_html(token)}</th>'
        f'<td><span class="v {color_step(token.value, full_scale)}">'
        f"{format_value(token.value, full_scale, signed=method.is_signed)}</span></td></tr>"
        for token in strongest_tokens(attribution, spans)
    )
    if not rows:
        return "<p>No token made a difference.</p>"
    return f"<table>\n<caption>Strongest</caption>\n<tbody>\n{rows}\n</tbody></table>"


def _highlighted_html(span: HighlightedSpan) -> str:
    return f"{escape(span.before)}<b>{escape(span.text)}</b>{escape(span.after)}"
