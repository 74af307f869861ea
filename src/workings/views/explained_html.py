"""What a classifier made of a text and which words decided, as one HTML page."""

from collections.abc import Sequence
from html import escape

from workings.views.coloured import Strong, coloured_css, coloured_html, largest, number
from workings.views.colours import scale, step
from workings.views.explained import (
    NAMES,
    Told,
    ToldShares,
    as_read,
    cut_note,
    joined,
    lead_note,
    listed,
    percent,
    ranked,
)
from workings.views.page import harmless, piece, whole_page

_MOST = 8  # classes with a bar of their own

_RULES = """
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


def page(told: Told) -> str:
    """Write a whole page."""
    return whole_page(f"Why {told.label}?", _body(told), style=explained_css())


def fragment(told: Told) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    return piece(_body(told), style=explained_css())


def glance(told: Told) -> str:
    """Write the answer in a line, and the text coloured by the first way of asking."""
    ((label, p), *_), shares = ranked(told), told.shares[0]
    name = harmless(NAMES.get(shares.method, shares.method).lower())
    return (
        f'<p>predicted: <b dir="auto">{harmless(label)}</b>, {percent(p)}; coloured by {name}</p>\n'
        f"{_coloured(told, shares, shares.values)}"
    )


def _body(told: Told) -> str:
    units = f"{told.unit}s"
    key = f"{units.capitalize()} in orange make it larger, {units} in blue smaller."
    parts = [f'<h1 dir="auto">Why {harmless(told.label)}?</h1>', _bars(told)]
    parts += [f'<p class="what">{harmless(lead_note(told))}. {harmless(key)}</p>']
    parts += [_section(told, shares) for shares in told.shares]
    return "\n".join(parts)


def _bars(told: Told) -> str:
    """Draw the probabilities: the label's and the runner-up's in the colours of their words."""
    shown = ranked(told)
    if len(shown) > _MOST:
        others = shown[_MOST - 1 :]
        shown = [*shown[: _MOST - 1], (f"{len(others)} others", sum(p for _, p in others))]
    sides = {told.label: "for", told.against: "against"}
    rows = "\n".join(
        f'<tr><th scope="row" dir="auto">{harmless(name)}</th><td><svg class="chance" '
        f'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect '
        f'class="{sides.get(name, "other")}" width="{100 * p:.2f}" height="1"/></svg></td>'
        f"<td>{percent(p)}</td></tr>"
        for name, p in shown
    )
    return f'<table class="chances"><tbody>\n{rows}\n</tbody></table>'


def _section(told: Told, shares: ToldShares) -> str:
    """Write one way of asking: the coloured text, its legend, the strongest words."""
    name = harmless(NAMES.get(shares.method, shares.method))
    what = harmless(shares.what[:1].upper() + shares.what[1:])
    head = f'<section>\n<h2>{name}</h2>\n<p class="what">{what}.</p>'
    if not told.spans:
        return f"{head}\n<p>No token was read.</p>\n</section>"
    cut = f'<p class="legend">{cut_note(told)}</p>\n' if told.cut else ""
    layers = "\n".join(
        f"<h3>Layer {k}</h3>\n{_coloured(told, shares, layer)}"
        for k, layer in enumerate(shares.layers, start=1)
    )
    if layers:
        layers = f"<details>\n<summary>Layer by layer</summary>\n{layers}\n</details>\n"
    return f"""{head}
<div class="beside">
<div class="words">
{_coloured(told, shares, shares.values)}
{cut}{_legend(told, shares)}
{layers}</div>
{_table(told, shares)}
</div>
</section>"""


def _coloured(told: Told, shares: ToldShares, values: Sequence[float]) -> str:
    return coloured_html(
        as_read(told),
        told.spans,
        values,
        window=shares.window,
        marked=told.unknown,
        signed=shares.signed,
    )


def _legend(told: Told, shares: ToldShares) -> str:
    full = largest(joined(told, shares))
    steps = [name for name in scale("light") if shares.signed or name[0] != "n"]
    bar = "".join(f'<i class="{name}"></i>' for name in steps)
    bar = f'<span class="bar" aria-hidden="true">{bar}</span>'
    most = number(full, full, signed=shares.signed)
    if shares.signed:
        low, high = (f"for {harmless(name)}" for name in (told.against, told.label))
        parts = [f"<span>{low} {number(-full, full)}{bar}{most} {high}</span>"]
    else:
        parts = [f"<span>0{bar}{most}</span>"]
    if told.unknown:
        unit = harmless(told.unit)
        parts.append(f'<span><span class="unknown">{unit}</span> not in the vocabulary</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _table(told: Told, shares: ToldShares) -> str:
    some = joined(told, shares)
    full = largest(some)
    rows = "\n".join(
        f'<tr><th scope="row" dir="auto">{_word(word)}</th>'
        f'<td><span class="v {step(word.value, full)}">'
        f"{number(word.value, full, signed=shares.signed)}</span></td></tr>"
        for word in listed(told, some)
    )
    if not rows:
        return "<p>No token made a difference.</p>"
    return f"<table>\n<caption>Strongest</caption>\n<tbody>\n{rows}\n</tbody></table>"


def _word(word: Strong) -> str:
    inside = f"{escape(word.before)}<b>{escape(word.piece)}</b>{escape(word.after)}"
    return inside if word.before + word.after else f"<b>{escape(word.piece)}</b>"


def explained_css() -> str:
    """The rules that these pieces need beside the house's."""
    light, dark = (
        f".workings .chance .for {{ fill: {colours['p8']}; }}\n"
        f".workings .chance .against {{ fill: {colours['n8']}; }}\n"
        for colours in (scale("light"), scale("dark"))
    )
    seen = f"@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n"
    return coloured_css() + _RULES + light + seen
