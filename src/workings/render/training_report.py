"""The report of a training run as one page: results, curves, layers, recipe and environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workings.render.attribution import attribution_css
from workings.render.caption_attention import CAPTION_CSS
from workings.render.chart import Series, line_chart
from workings.render.colors import color_step
from workings.render.page import escape_html, html_page
from workings.render.pictures import Picture
from workings.render.svg_writer import Point
from workings.render.tables import (
    CLASS_HEADER,
    LAYER_HEADER,
    TABLE_CSS,
    class_rows,
    html_table,
    layer_rows,
    layer_totals,
)

if TYPE_CHECKING:
    from workings.models.summary import ModelSummary

SPLIT_NAMES = ("test", "validation", "train")  # prefixes of the keys of a log
MAX_SAMPLES = 4
MAX_HORIZONTAL_NAMES = 6  # with more classes, the names of columns are vertical
REPORT_CSS = (
    TABLE_CSS
    + """
.workings .lead { font-size: 1.15rem; max-width: 46rem; }
.workings .figures { display: flex; flex-wrap: wrap; gap: 1rem 2.6rem; margin: 1.2rem 0 0; }
.workings .figures div { min-width: 6rem; }
.workings .figures dt { color: var(--soft); font-size: .86rem; }
.workings .figures dd { font-size: 1.45rem; }
.workings .charts { display: flex; flex-wrap: wrap; gap: 1rem 2rem; }
.workings .charts svg { max-width: 100%; height: auto; }
.workings .confusion td .v { min-width: 3.2rem; }
.workings .confusion.many td .v { min-width: 2.6rem; }
.workings .confusion thead th { vertical-align: bottom; }
.workings .confusion.many th .class { display: inline-block; writing-mode: vertical-rl;
  transform: rotate(180deg); max-height: 10rem; overflow: hidden; text-overflow: ellipsis; }
.workings .mistake { margin: 0 0 1.6rem; max-width: 46rem; }
.workings .mistake > p { margin: 0 0 .3rem; }
.workings pre { background: var(--card); border: 1px solid var(--line); padding: .7rem .9rem;
  overflow-x: auto; font: .86rem/1.45 ui-monospace, Menlo, Consolas, monospace; margin: 0;
  max-width: 46rem; }
"""
)


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """The content of a report. `sections`, by task, are headings with HTML below them."""

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
    """Return the report as an HTML page."""
    metrics = "".join(
        f"<div><dt>{escape_html(name)}</dt><dd>{escape_html(value)}</dd></div>"
        for name, value in report.headline_metrics
    )
    charts = "".join(
        curve_chart(report.curves, measure).svg() for measure in measure_names(report.curves)
    )
    parts = [
        f'<h1 dir="auto">{escape_html(report.title)}</h1>',
        f'<p class="lead">{escape_html(report.lead)}</p>',
        f'<dl class="figures">{metrics}</dl>',
        *(f'<p class="explanation">{escape_html(note)}</p>' for note in report.notes),
        f'<h2>Curves</h2>\n<div class="charts">{charts}</div>',
        *(f"<h2>{escape_html(heading)}</h2>\n{body}" for heading, body in report.sections),
    ]
    if report.layers is not None:
        totals = "<br>".join(escape_html(line) for line in layer_totals(report.layers))
        table = html_table(LAYER_HEADER, layer_rows(report.layers), text_columns=2)
        parts.append(f'<h2>Layers</h2>\n<div class="scroll">{table}</div><p>{totals}</p>')
    parts.append(f"<h2>How to reproduce it</h2>\n{_pre(report.commands)}")
    parts.append(f"<h2>The recipe</h2>\n{_pre(report.recipe.splitlines())}")
    facts = [(name, str(value)) for name, value in report.environment.items()]
    parts.append(f"<h2>Environment</h2>\n{html_table(('name', 'value'), facts, text_columns=2)}")
    style = REPORT_CSS + attribution_css() + CAPTION_CSS
    return html_page(report.title, "\n".join(parts), style=style)


def measure_names(curves: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the measures that were computed on training data, too: accuracy, loss, …"""
    keys = [key.removeprefix("train_") for r in curves for key in r if key.startswith("train_")]
    return sorted(set(keys))


def curve_chart(
    curves: Sequence[Mapping[str, Any]],
    measure: str,
    *,
    train_points: Sequence[Point] = (),
    width: int = 480,
) -> Picture:
    """Draw one measure by epoch for each split of the data.

    `train_points`, measured during the epochs, replace the means of the epochs on training data.
    """
    series = []
    for split in SPLIT_NAMES:
        key = f"{split}_{measure}"
        means = [(float(r["epoch"]), float(r[key])) for r in curves if key in r]
        during = train_points if split == "train" else ()
        if means or during:
            dashed = split == "train" and not during
            series.append(Series(split, during or means, dashed=dashed))
    name = measure.replace("_", " ")
    return line_chart(
        series,
        title=f"{name} by epoch",
        x_label="epoch",
        y_label=name,
        percent=measure == "accuracy",
        width=width,
    )


def class_scores_html(classes: Mapping[str, Mapping[str, float]]) -> str:
    """Return precision, recall and F1 of each class as an HTML table."""
    table = html_table(CLASS_HEADER, class_rows(classes))
    return f'<div class="scroll">{table}</div>'


def confusion_matrix_html(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Return a confusion matrix as HTML: rows are true classes, columns predicted ones."""
    vertical = " many" if len(labels) > MAX_HORIZONTAL_NAMES else ""
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
        f'<div class="scroll"><table class="confusion{vertical}"><caption>rows: the true class and '
        "its recall; columns: the predicted class</caption>"
        f'<thead><tr><td></td><th scope="col">recall</th>{columns}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def samples_html(samples: Sequence[tuple[int, str]]) -> str:
    """Return texts generated after some epochs (the first and the last ones) as HTML."""
    if len(samples) > MAX_SAMPLES:
        samples = [samples[0], *samples[1 - MAX_SAMPLES :]]
    return "\n".join(
        f"<h3>after epoch {epoch}</h3>{_pre(text.splitlines())}" for epoch, text in samples
    )


def _pre(lines: Sequence[str]) -> str:
    return f"<pre>{'<br>'.join(escape_html(line) for line in lines)}</pre>"
