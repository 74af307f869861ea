"""Gradient norms by distance, and spectral radii: a chart, tables and a page."""

from math import log10

from workings.interpret.results import GradientReport
from workings.plain_text import BARS, output_columns, to_one_line, wrap_to_columns
from workings.problems.notation import typeset
from workings.render.chart import NUM_COLORS, Series, line_chart
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture
from workings.render.tables import TABLE_CSS, html_table, text_table

TITLE = "How far back the loss reaches"
MEASURE = "‖∂lossₜ/∂hₜ₋ₖ‖, the mean over positions and sequences"
_TABLE_DISTANCES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_RADIUS_HEADER = ("layer", "matrix", "radius")
_MAX_DECADES = 12  # of the scale of the bars; smaller norms are drawn as zero

_CSS = (
    TABLE_CSS
    + """
.workings .explanation { color: var(--soft); max-width: 46rem; margin: .8rem 0; }
"""
)


def render_picture(report: GradientReport, *, width: int = 760, height: int = 440) -> Picture:
    """Draw one curve per model and layer; the upper layers of a model are dashed."""
    models = list(dict.fromkeys(norms.model for norms in report.gradients))
    series, seen = [], set[str]()
    for norms in report.gradients:
        is_first = norms.model not in seen
        name = norms.model if is_first else f"{norms.model}, {norms.with_respect_to}"
        points = [(float(k), norm) for k, norm in enumerate(norms.norms)]
        color = models.index(norms.model) % NUM_COLORS
        series.append(Series(name, points, dashed=not is_first, color=color))
        seen.add(norms.model)
    return line_chart(
        series,
        title=TITLE,
        x_label="k, tokens back",
        y_label="‖∂lossₜ/∂hₜ₋ₖ‖",
        width=width,
        height=height,
        log_y=True,
    )


def render_text(
    report: GradientReport,
    *,
    width: int | None = None,
    color: bool = False,  # noqa: ARG001 - nothing is colored
) -> str:
    """Return the tables as text, with a row of bars for each curve."""
    columns = output_columns(width)
    blocks = [
        "\n".join(wrap_to_columns(f"{TITLE}: {MEASURE}", columns)),
        _bar_rows(report, columns),
        text_table(_norm_header(report), _norm_rows(report), text_columns=2),
    ]
    if report.spectral_radii:
        header = ("spectral radius", *_RADIUS_HEADER)
        blocks.append(text_table(header, _radius_rows(report), text_columns=3))
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
<p class="explanation">The largest absolute eigenvalue of the matrix that multiplies h at each step.
Below 1, gradients through this matrix alone vanish; above 1, they may explode.</p>
<div class="scroll">{table}</div>"""
    norms = html_table(_norm_header(report), _norm_rows(report), text_columns=2)
    measure = f"{escape_html(MEASURE)}. In a Transformer, h is the input of its first block."
    return f"""<h1>{TITLE}</h1>
<p class="explanation">{measure}</p>
<div class="scroll">{render_picture(report).svg()}</div>
<h2>Numbers</h2>
<div class="scroll">{norms}</div>
{radii}"""


def _radius_rows(report: GradientReport) -> list[tuple[str, ...]]:
    return [
        (to_one_line(radius.model), str(radius.layer), radius.matrix, f"{radius.value:.3f}")
        for radius in report.spectral_radii
    ]


def _table_distances(report: GradientReport) -> list[int]:
    max_lag = max((len(norms.norms) for norms in report.gradients), default=0)
    return [k for k in _TABLE_DISTANCES if k < max_lag]


def _norm_header(report: GradientReport) -> tuple[str, ...]:
    return ("model", "with respect to", *(f"k = {k}" for k in _table_distances(report)))


def _norm_rows(report: GradientReport) -> list[tuple[str, ...]]:
    return [
        (
            to_one_line(norms.model),
            norms.with_respect_to,
            *(
                _format_norm(norms.norms[k]) if k < len(norms.norms) else "–"
                for k in _table_distances(report)
            ),
        )
        for norms in report.gradients
    ]


def _format_norm(value: float) -> str:
    """Format a norm to two digits, small and large ones with a power of ten.

    >>> _format_norm(0.0), _format_norm(0.125), _format_norm(3.2e-9)
    ('0', '0.12', '3.2·10⁻⁹')
    """
    if value == 0 or 1e-3 <= value < 1e4:
        return f"{value:.2g}"
    return typeset(f"{value:.1e}")


def _bar_rows(report: GradientReport, columns: int) -> str:
    """Draw each curve as a row of bars on a common logarithmic scale, starting with k = 0."""
    positive = [norm for norms in report.gradients for norm in norms.norms if norm > 0]
    if not positive:
        return "all gradients are zero"
    low, high = log10(min(positive)), log10(max(positive))
    low = max(low, high - _MAX_DECADES)
    names = [f"{to_one_line(norms.model)}, {norms.with_respect_to}" for norms in report.gradients]
    margin = min(max(map(len, names)), columns // 2)
    max_bars = max(columns - margin - 2, 8)
    stride = -(-max(len(norms.norms) for norms in report.gradients) // max_bars)
    lines = []
    for name, norms in zip(names, report.gradients, strict=True):
        bars = "".join(_bar(norm, low, high) for norm in norms.norms[::stride])
        lines.append(f"{name[:margin]:<{margin}}  {bars.rstrip()}")
    step = "one token per bar" if stride == 1 else f"{stride} tokens per bar"
    scale = f"▁ {_format_norm(10**low)} … █ {_format_norm(10**high)}, {step} from k = 0"
    return "\n".join([*lines, f"{'':<{margin}}  {scale}"])


def _bar(norm: float, low: float, high: float) -> str:
    fraction = (log10(norm) - low) / ((high - low) or 1) if norm > 0 else -1.0
    return " " if fraction < 0 else BARS[min(int(fraction * 8), 7)]
