"""The report of a training as one HTML file: what came out, how it went, and how to do it again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workings.render.attribution import attribution_css
from workings.render.caption_attention import caption_css
from workings.render.chart import Series, line_chart
from workings.render.colors import color_step
from workings.render.page import escape_html, html_page
from workings.render.pictures import Picture
from workings.render.svg_writer import Point
from workings.render.tables import LAYER_HEADER, html_table, layer_rows, layer_totals

if TYPE_CHECKING:
    from workings.models.summary import ModelSummary

SPLIT_NAMES = ("test", "validation", "train")  # of the data, as measurements are named after
MAX_SAMPLES = 4  # that are shown
MAX_HORIZONTAL_NAMES = (
    6  # classes; the names of more stand on end, so that the matrix fits the page
)
REPORT_CSS = """
.workings .lead { font-size: 1.15rem; max-width: 46rem; }
.workings .figures { display: flex; flex-wrap: wrap; gap: 1rem 2.6rem; margin: 1.2rem 0 0; }
.workings .figures div { min-width: 6rem; }
.workings .figures dt { color: var(--soft); font-size: .86rem; }
.workings .figures dd { font-size: 1.45rem; }
.workings .charts { display: flex; flex-wrap: wrap; gap: 1rem 2rem; }
.workings .charts svg { max-width: 100%; height: auto; }
.workings table.plain { font-size: .92rem; }
.workings table.plain th { text-align: right; padding: .15rem .6rem; max-width: none;
  border-bottom: 1px solid var(--line); }
.workings table.plain td { padding: .15rem .6rem; }
.workings table.plain .word { text-align: left; }
.workings table.plain caption { padding-bottom: .4rem; }
.workings .confusion td .v { min-width: 3.2rem; }
.workings .confusion.many td .v { min-width: 2.6rem; }
.workings .confusion thead th { vertical-align: bottom; }
.workings .confusion.many th .class { display: inline-block; writing-mode: vertical-rl;
  transform: rotate(180deg); max-height: 10rem; overflow: hidden; text-overflow: ellipsis; }
.workings .wrong-one { margin: 0 0 1.6rem; max-width: 46rem; }
.workings .wrong-one > p { margin: 0 0 .3rem; }
.workings pre { background: var(--card); border: 1px solid var(--line); padding: .7rem .9rem;
  overflow-x: auto; font: .86rem/1.45 ui-monospace, Menlo, Consolas, monospace; margin: 0;
  max-width: 46rem; }
"""


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """What a report says. `sections` are the task's own: a heading, and HTML below it."""

    title: str
    lead: str
    headline_metrics: Sequence[tuple[str, str]]
    notes: Sequence[str] = ()
    curves: Sequence[Mapping[str, Any]]
    sections: Sequence[tuple[str, str]] = ()
    layers: "ModelSummary | None" = None
    recipe: str = ""
    commands: Sequence[str] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)


def render_page(report: TrainingReport) -> str:
    """Write the page."""
    figures = "".join(
        f"<div><dt>{escape_html(name)}</dt><dd>{escape_html(value)}</dd></div>"
        for name, value in report.headline_metrics
    )
    charts = "".join(
        curve_chart(report.curves, what).svg() for what in measure_names(report.curves)
    )
    parts = [
        f'<h1 dir="auto">{escape_html(report.title)}</h1>',
        f'<p class="lead">{escape_html(report.lead)}</p>',
        f'<dl class="figures">{figures}</dl>',
        *(f'<p class="what">{escape_html(note)}</p>' for note in report.notes),
        f'<h2>Curves</h2>\n<div class="charts">{charts}</div>',
        *(f"<h2>{escape_html(heading)}</h2>\n{body}" for heading, body in report.sections),
    ]
    if report.layers is not None:
        sums = "<br>".join(escape_html(line) for line in layer_totals(report.layers))
        table = html_table(LAYER_HEADER, layer_rows(report.layers), text_columns=2)
        parts.append(f'<h2>Layers</h2>\n<div class="scroll">{table}</div><p>{sums}</p>')
    parts.append(f"<h2>How to do it again</h2>\n{_pre(report.commands)}")
    parts.append(f"<h2>The recipe</h2>\n{_pre(report.recipe.splitlines())}")
    facts = [(name, str(value)) for name, value in report.environment.items()]
    parts.append(f"<h2>Made with</h2>\n{html_table(('what', 'which'), facts, text_columns=2)}")
    return html_page(
        report.title, "\n".join(parts), style=REPORT_CSS + attribution_css() + caption_css()
    )


def measure_names(curves: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name what was measured on the training and the held-out examples alike: accuracy, loss, …"""
    keys = [key.removeprefix("train_") for r in curves for key in r if key.startswith("train_")]
    return sorted(set(keys))


def curve_chart(
    curves: Sequence[Mapping[str, Any]],
    measure: str,
    *,
    train_points: Sequence[Point] = (),
    width: int = 480,
) -> Picture:
    """Draw one measure by epoch for every part of the data that it was measured on.

    Where it is known what training gave `while_training`, that is drawn, not the epochs' means.
    """
    series = []
    for part in SPLIT_NAMES:
        key = f"{part}_{measure}"
        points = [(float(r["epoch"]), float(r[key])) for r in curves if key in r]
        fine = train_points if part == "train" else ()
        if points or fine:
            series.append(Series(part, fine or points, dashed=part == "train" and not fine))
    share, name = measure == "accuracy", measure.replace("_", " ")
    title = f"{name} by epoch"
    return line_chart(
        series, title=title, x_label="epoch", y_label=name, percent=share, width=width
    )


def confusion_matrix_html(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Write a confusion matrix: a row for each true class, a column for each predicted one."""
    many = " many" if len(labels) > MAX_HORIZONTAL_NAMES else ""
    columns = "".join(
        f'<th scope="col" dir="auto"><span class="class">{escape_html(label)}</span></th>'
        for label in labels
    )
    rows = []
    for k, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = sum(row)
        cells = "".join(
            f'<td><span class="v {color_step(n if j == k else -n, total)}">{n:,}</span></td>'
            for j, n in enumerate(row)
        )
        recall = f"{100 * row[k] / total:.1f} %" if total else "–"
        rows.append(
            f'<tr><th scope="row" dir="auto">{escape_html(label)}</th>'
            f'<td><span class="v">{recall}</span></td>{cells}</tr>'
        )
    return (
        f'<div class="scroll"><table class="confusion{many}"><caption>rows: the true class, and '
        "the share of it that was found; columns: the predicted class</caption>"
        f'<thead><tr><td></td><th scope="col">found</th>{columns}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def samples_html(samples: Sequence[tuple[int, str]]) -> str:
    """Write what a language model had to say after some of its epochs: the first, and the last."""
    chosen = samples if len(samples) <= MAX_SAMPLES else [samples[0], *samples[1 - MAX_SAMPLES :]]
    return "\n".join(
        f"<h3>after epoch {epoch}</h3>{_pre(text.splitlines())}" for epoch, text in chosen
    )


def _pre(lines: Sequence[str]) -> str:
    return f"<pre>{'<br>'.join(escape_html(line) for line in lines)}</pre>"
