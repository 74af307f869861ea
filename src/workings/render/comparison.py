"""Runs compared: a table and the curves of several runs, and the differences between two."""

from collections.abc import Mapping, Sequence
from typing import Any

from workings.config import toml_value
from workings.plain_text import to_one_line
from workings.render.chart import Series, line_chart
from workings.render.page import escape_html, html_page
from workings.render.pictures import Picture
from workings.render.tables import html_table, text_table
from workings.render.training_report import REPORT_CSS

_MAX_TEXT_LENGTH = 60  # characters
RUN_HEADER = ("model", "parameters", "epochs", "seconds", "memory")
# Column and key of the metrics to show, by a key that only this kind of task has: classifiers (with
# and without test data), captioners, translators, and everything else (language models).
METRICS_BY_TASK = {
    "test_accuracy": {"validation": "validation_accuracy", "test": "test_accuracy"},
    "validation_accuracy": {"validation": "validation_accuracy"},
    "test_bleu_4": {"nats": "validation_loss", "BLEU-4": "test_bleu_4", "CIDEr": "test_cider"},
    "test_bleu": {"nats": "validation_loss", "BLEU": "test_bleu", "chrF": "test_chrf"},
    "": {"nats": "validation_loss", "bits/character": "validation_bits_per_character"},
}
SCORE_KEYS = ("test_bleu", "test_chrf", "test_cider", "test_rouge", "test_exact", "test_looked")


def render_runs_text(comparison: Mapping[str, Any]) -> str:
    """Return the table of runs as text."""
    return text_table(*_run_table(comparison["rows"]))


def curves_chart(comparison: Mapping[str, Any]) -> Picture:
    """Draw accuracy, or loss, by epoch; training data dashed."""
    runs = [(str(row["name"]), row["curves"]) for row in comparison["rows"] if row.get("curves")]
    measure = shared_measure(comparison["rows"])
    return runs_chart(runs, measure, f"{comparison['data']}: {measure} by epoch")


def runs_chart(
    runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    measure: str,
    title: str,
    width: int = 640,
) -> Picture:
    """Draw a measure of several runs by epoch, one color per run; training data dashed."""
    series = []
    for color, (run, curves) in enumerate(runs):
        for split, dashed in ((held_out_split(curves), False), ("train", True)):
            key = f"{split}_{measure}"
            points = [(float(r["epoch"]), float(r[key])) for r in curves if key in r]
            name = f"{run}, train" if dashed else run
            series.append(Series(name, points, dashed=dashed, color=color))
    return line_chart(
        [line for line in series if line.points] or series,
        title=title,
        x_label="epoch",
        y_label=measure.replace("_", " "),
        percent=measure == "accuracy",
        width=width,
    )


def shared_measure(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the measure that runs are compared by: accuracy for classifiers, else loss."""
    return "accuracy" if any("accuracy" in key for row in rows for key in row) else "loss"


def held_out_split(curves: Sequence[Mapping[str, Any]]) -> str:
    """Return the split on which epochs were evaluated: validation, or else test."""
    return "validation" if any("validation_loss" in r for r in curves) else "test"


def render_runs_page(comparison: Mapping[str, Any]) -> str:
    """Return a page with the table and the curves of the runs."""
    body = f"""<h1>{escape_html(str(comparison["data"]))}: {len(comparison["rows"])} models</h1>
<div class="scroll">{html_table(*_run_table(comparison["rows"]))}</div>
<p class="legend">Seconds of training, without reading and tokenizing the data (for baselines, with
counting words); peak memory.</p>
<h2>Curves</h2>
<div class="scroll">{curves_chart(comparison).svg()}</div>
"""
    return html_page(f"{comparison['data']}: comparison", body, style=REPORT_CSS)


def _run_table(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    keys = {key for row in rows for key in row}
    metrics = next(m for key, m in METRICS_BY_TASK.items() if key in keys or key == "")
    cells = [
        (
            str(row["name"]),
            f"{row['parameters']:,}",
            str(len(row["curves"])) if row.get("curves") else "–",
            f"{row['seconds']:,.1f}",
            "–" if row.get("peak_memory_mb") is None else f"{row['peak_memory_mb']:,} MB",
            *(format_metric(key, row.get(key)) for key in metrics.values()),
        )
        for row in rows
    ]
    return (*RUN_HEADER, *metrics), cells


def format_metric(key: str, value: float | None) -> str:
    """Format a metric: accuracy as a percentage, scores with two decimals, others with four.

    >>> format_metric("test_accuracy", 0.875), format_metric("test_bleu_4", 21.0)
    ('87.50 %', '21.00')
    """
    if value is None:
        return "–"
    if "accuracy" in key:
        return f"{100 * value:.2f} %"
    return f"{value:.2f}" if key.startswith(SCORE_KEYS) else f"{value:.4f}"


def render_run_diff_text(diff: Mapping[str, Any]) -> str:
    """Return the differences between two runs; a part without any is "the same"."""
    parts = []
    for section in ("configuration", "results"):
        rows = [(key, _format_value(a), _format_value(b)) for key, (a, b) in diff[section].items()]
        table = text_table(("key", *diff["runs"]), rows, text_columns=3) if rows else ""
        parts.append(_format_section(section, table))
    parts.append(_format_section("environment", "\n".join(diff["environment"])))
    parts.append(_format_section("curves", _format_curve_changes(diff["curves"])))
    parts.append(_format_section("predictions", _format_prediction_changes(diff["predictions"])))
    return "\n\n".join(parts)


def _format_value(value: object) -> str:
    return "–" if value is None else toml_value(value)


def _format_section(title: str, content: str) -> str:
    return f"{title}: the same" if not content else f"{title}\n{content}"


def _format_curve_changes(curves: Mapping[str, Any]) -> str:
    a, b = curves["epochs"]
    lines = [] if a == b else [f"epochs: {a} and {b}"]
    lines += [
        f"{name.replace('_', ' ')}: different from epoch {value['first_epoch']} on, by at most "
        f"{value['max_difference']:.2g}"
        for name, value in sorted(curves.items())
        if name != "epochs"
    ]
    return "\n".join(lines)


def _format_prediction_changes(predictions: Mapping[str, Any]) -> str:
    if not predictions["texts"]:
        return "not compared: these runs have no labeled test texts"
    if not predictions["changed"]:
        return ""
    summary = (
        f"{predictions['changed']:,} of {predictions['texts']:,} test texts: "
        f"{predictions['only_second_correct']:,} only the second run has right, "
        f"{predictions['only_first_correct']:,} only the first"
    )
    rows = [
        (_truncate_text(p["text"]), str(p["label"]), str(p["first"]), str(p["second"]))
        for p in predictions["examples"]
    ]
    return f"{summary}\n{text_table(('text', 'true', 'first', 'second'), rows, text_columns=4)}"


def _truncate_text(text: str) -> str:
    line = to_one_line(text)
    return line if len(line) <= _MAX_TEXT_LENGTH else f"{line[: _MAX_TEXT_LENGTH - 1]}…"
