"""How far back gradients reach: a picture, tables, a page."""

import shutil
from math import log10

from workings.interpret.results import GradientReport
from workings.plain_text import to_one_line, wrap_to_columns
from workings.problems.notation import typeset
from workings.render.chart import NUM_COLORS, Series, line_chart
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture
from workings.render.tables import html_table, text_table

_TABLE_DISTANCES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_BARS = "▁▂▃▄▅▆▇█"
TITLE = "How far back the loss reaches"
MEASURE = "‖∂lossₜ/∂hₜ₋ₖ‖, the mean over places and sequences"

_CSS = """
.workings table.plain { font-size: .92rem; }
.workings table.plain th { text-align: right; padding: .15rem .6rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .6rem; }
.workings table.plain .word { text-align: left; }
.workings .what { color: var(--soft); max-width: 46rem; margin: .8rem 0; }
"""


def render_picture(report: GradientReport, *, width: int = 760, height: int = 440) -> Picture:
    """Draw every curve; a model's upper layers are dashed, in the colour of its first."""
    models = list(dict.fromkeys(flow.model for flow in report.gradients))
    series, seen = [], set[str]()
    for flow in report.gradients:
        name = flow.model if flow.model not in seen else f"{flow.model}, {flow.with_respect_to}"
        points = [(float(k), norm) for k, norm in enumerate(flow.norms)]
        colour = models.index(flow.model) % NUM_COLORS
        series.append(Series(name, points, dashed=flow.model in seen, color=colour))
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


def render_text(report: GradientReport, *, width: int | None = None, color: bool = False) -> str:  # noqa: ARG001
    """Write the tables for a terminal, with a small curve for each model."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    blocks = [
        "\n".join(wrap_to_columns(f"{TITLE}: {MEASURE}", columns)),
        _sparklines(report, columns),
    ]
    blocks.append(text_table(_norm_header(report), _norm_rows(report), text_columns=2))
    if report.spectral_radii:
        blocks.append(
            text_table(("spectral radius", *_RADIUS_HEADER), _radius_rows(report), text_columns=3)
        )
    return "\n\n".join(blocks)


def render_page(report: GradientReport) -> str:
    """Return a page with the chart and the tables."""
    return html_page(TITLE, _body(report), style=_CSS)


def render_fragment(report: GradientReport) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(report), style=_CSS)


def _body(report: GradientReport) -> str:
    radii = ""
    if report.spectral_radii:
        table = html_table(("model", *_RADIUS_HEADER), _radius_rows(report), text_columns=3)
        radii = f"""<h2>Spectral radii</h2>
<p class="what">The largest eigenvalue, by size, of what h is multiplied by at each step. Below 1,
gradients that went that way alone would vanish; above 1, they may explode.</p>
<div class="scroll">{table}</div>"""
    return f"""<h1>{TITLE}</h1>
<p class="what">{escape_html(MEASURE)}. Of a Transformer, h is what goes into its first block.</p>
<div class="scroll">{render_picture(report).svg()}</div>
<h2>Figures</h2>
<div class="scroll">{html_table(_norm_header(report), _norm_rows(report), text_columns=2)}</div>
{radii}"""


_RADIUS_HEADER = ("layer", "of", "radius")


def _radius_rows(report: GradientReport) -> list[tuple[str, ...]]:
    return [
        (to_one_line(radius.model), str(radius.layer), radius.matrix, f"{radius.value:.3f}")
        for radius in report.spectral_radii
    ]


def _table_distances(report: GradientReport) -> list[int]:
    most = max((len(flow.norms) for flow in report.gradients), default=0)
    return [k for k in _TABLE_DISTANCES if k < most]


def _norm_header(report: GradientReport) -> tuple[str, ...]:
    return ("model", "with respect to", *(f"k = {k}" for k in _table_distances(report)))


def _norm_rows(report: GradientReport) -> list[tuple[str, ...]]:
    return [
        (
            to_one_line(flow.model),
            flow.with_respect_to,
            *(
                _format_norm(flow.norms[k]) if k < len(flow.norms) else "–"
                for k in _table_distances(report)
            ),
        )
        for flow in report.gradients
    ]


def _format_norm(value: float) -> str:
    """Write a norm to two digits, a small one with its power of ten.

    >>> _format_norm(0.0), _format_norm(0.125), _format_norm(3.2e-9)
    ('0', '0.12', '3.2·10⁻⁹')
    """
    if value == 0 or 1e-3 <= value < 1e4:
        return f"{value:.2g}"
    return typeset(f"{value:.1e}")


def _sparklines(report: GradientReport, columns: int) -> str:
    """Draw each curve as a row of bars on one logarithmic scale, from k = 0 on the left."""
    positive = [norm for flow in report.gradients for norm in flow.norms if norm > 0]
    if not positive:
        return "no gradient arrives anywhere"
    low, high = log10(min(positive)), log10(max(positive))
    low = max(low, high - 12)  # what is smaller by so many powers of ten is as good as nothing
    names = [f"{to_one_line(flow.model)}, {flow.with_respect_to}" for flow in report.gradients]
    margin = min(max(map(len, names)), columns // 2)
    room = max(columns - margin - 2, 8)
    longest = max(len(flow.norms) for flow in report.gradients)
    stride = -(-longest // room)
    lines = []
    for name, flow in zip(names, report.gradients, strict=True):
        bars = ""
        for norm in flow.norms[::stride]:
            share = (log10(norm) - low) / ((high - low) or 1) if norm > 0 else -1.0
            bars += " " if share < 0 else _BARS[min(int(share * 8), 7)]
        lines.append(f"{name[:margin]:<{margin}}  {bars.rstrip()}")
    step = "a token a bar" if stride == 1 else f"{stride} tokens a bar"
    scale = f"▁ {_format_norm(10**low)} … █ {_format_norm(10**high)}, {step} from k = 0"
    return "\n".join([*lines, f"{'':<{margin}}  {scale}"])
