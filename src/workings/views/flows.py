"""How far back gradients reach: a picture, tables, a page."""

import shutil
from collections.abc import Sequence
from math import log10
from typing import Protocol

from workings.views.chart import COLOURS, Series, line_chart
from workings.views.notation import typeset
from workings.views.page import harmless, whole_page
from workings.views.picture import Picture
from workings.views.plain import one_line, wrap
from workings.views.table import html_table, text_table

_STOPS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_BARS = "▁▂▃▄▅▆▇█"
TITLE = "How far back the loss reaches"
WHAT = "‖∂lossₜ/∂hₜ₋ₖ‖, the mean over places and sequences"

_RULES = """
.workings table.plain { font-size: .92rem; }
.workings table.plain th { text-align: right; padding: .15rem .6rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .6rem; }
.workings table.plain .word { text-align: left; }
.workings .what { color: var(--soft); max-width: 46rem; margin: .8rem 0; }
"""


class ToldFlow(Protocol):
    """The gradients of one model, with respect to one thing."""

    @property
    def model(self) -> str: ...
    @property
    def of(self) -> str: ...
    @property
    def norms(self) -> Sequence[float]: ...


class ToldRadius(Protocol):
    """The spectral radius of one recurrent matrix."""

    @property
    def model(self) -> str: ...
    @property
    def layer(self) -> int: ...
    @property
    def matrix(self) -> str: ...
    @property
    def value(self) -> float: ...


class Told(Protocol):
    """The gradients of several models."""

    @property
    def flows(self) -> Sequence[ToldFlow]: ...
    @property
    def radii(self) -> Sequence[ToldRadius]: ...


def chart(told: Told, *, width: int = 760, height: int = 440) -> Picture:
    """Draw every curve; a model's upper layers are dashed, in the colour of its first."""
    models = list(dict.fromkeys(flow.model for flow in told.flows))
    series, seen = [], set[str]()
    for flow in told.flows:
        name = flow.model if flow.model not in seen else f"{flow.model}, {flow.of}"
        points = [(float(k), norm) for k, norm in enumerate(flow.norms)]
        colour = models.index(flow.model) % COLOURS
        series.append(Series(name, points, dashed=flow.model in seen, colour=colour))
        seen.add(flow.model)
    return line_chart(
        series,
        title=TITLE,
        x_label="k, tokens back",
        y_label="‖∂lossₜ/∂hₜ₋ₖ‖",
        width=width,
        height=height,
        log_y=True,
    )


def text(told: Told, *, width: int | None = None, color: bool = False) -> str:  # noqa: ARG001
    """Write the tables for a terminal, with a small curve for each model."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    blocks = ["\n".join(wrap(f"{TITLE}: {WHAT}", columns)), _curves(told, columns)]
    blocks.append(text_table(_head(told), _rows(told), left=2))
    if told.radii:
        blocks.append(text_table(("spectral radius", *_RADII), _radii(told), left=3))
    return "\n\n".join(blocks)


def page(told: Told) -> str:
    """Write a page with the picture and the tables."""
    radii = ""
    if told.radii:
        table = html_table(("model", *_RADII), _radii(told), left=3)
        radii = f"""<h2>Spectral radii</h2>
<p class="what">The largest eigenvalue, by size, of what h is multiplied by at each step. Below 1,
gradients that went that way alone would vanish; above 1, they may explode.</p>
<div class="scroll">{table}</div>"""
    body = f"""<h1>{TITLE}</h1>
<p class="what">{harmless(WHAT)}. Of a Transformer, h is what goes into its first block.</p>
<div class="scroll">{chart(told).svg()}</div>
<h2>Figures</h2>
<div class="scroll">{html_table(_head(told), _rows(told), left=2)}</div>
{radii}"""
    return whole_page(TITLE, body, style=_RULES)


_RADII = ("layer", "of", "radius")


def _radii(told: Told) -> list[tuple[str, ...]]:
    return [
        (one_line(radius.model), str(radius.layer), radius.matrix, f"{radius.value:.3f}")
        for radius in told.radii
    ]


def _stops(told: Told) -> list[int]:
    most = max((len(flow.norms) for flow in told.flows), default=0)
    return [k for k in _STOPS if k < most]


def _head(told: Told) -> tuple[str, ...]:
    return ("model", "with respect to", *(f"k = {k}" for k in _stops(told)))


def _rows(told: Told) -> list[tuple[str, ...]]:
    return [
        (
            one_line(flow.model),
            flow.of,
            *(_norm(flow.norms[k]) if k < len(flow.norms) else "–" for k in _stops(told)),
        )
        for flow in told.flows
    ]


def _norm(value: float) -> str:
    """Write a norm to two digits, a small one with its power of ten.

    >>> _norm(0.0), _norm(0.125), _norm(3.2e-9)
    ('0', '0.12', '3.2·10⁻⁹')
    """
    if value == 0 or 1e-3 <= value < 1e4:
        return f"{value:.2g}"
    return typeset(f"{value:.1e}")


def _curves(told: Told, columns: int) -> str:
    """Draw each curve as a row of bars on one logarithmic scale, from k = 0 on the left."""
    positive = [norm for flow in told.flows for norm in flow.norms if norm > 0]
    if not positive:
        return "no gradient arrives anywhere"
    low, high = log10(min(positive)), log10(max(positive))
    low = max(low, high - 12)  # what is smaller by so many powers of ten is as good as nothing
    names = [f"{one_line(flow.model)}, {flow.of}" for flow in told.flows]
    margin = min(max(map(len, names)), columns // 2)
    room = max(columns - margin - 2, 8)
    longest = max(len(flow.norms) for flow in told.flows)
    stride = -(-longest // room)
    lines = []
    for name, flow in zip(names, told.flows, strict=True):
        bars = ""
        for norm in flow.norms[::stride]:
            share = (log10(norm) - low) / ((high - low) or 1) if norm > 0 else -1.0
            bars += " " if share < 0 else _BARS[min(int(share * 8), 7)]
        lines.append(f"{name[:margin]:<{margin}}  {bars.rstrip()}")
    step = "a token a bar" if stride == 1 else f"{stride} tokens a bar"
    scale = f"▁ {_norm(10**low)} … █ {_norm(10**high)}, {step} from k = 0"
    return "\n".join([*lines, f"{'':<{margin}}  {scale}"])
