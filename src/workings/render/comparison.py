"""Comparisons: of runs in a table and curves, of two in detail, and of translators by scores."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from workings.config import toml_value
from workings.interpret.results import TranslatorComparison, TranslatorScores
from workings.plain_text import to_one_line
from workings.render.chart import Series, line_chart
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture
from workings.render.tables import html_table, text_table
from workings.render.training_report import REPORT_CSS

FEW_SENTENCES = 50  # fewer make confidence intervals and p-values unreliable
Table: TypeAlias = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
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


# -- runs ------------------------------------------------------------------------------------------


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


# -- translators -----------------------------------------------------------------------------------


def render_text(
    comparison: TranslatorComparison,
    *,
    width: int | None = None,  # noqa: ARG001 - tables are as wide as they are
    color: bool = False,  # noqa: ARG001
) -> str:
    """Return both tables and their notes as text."""
    tables = (text_table(*_score_table(comparison)), text_table(*_length_table(comparison)))
    return "\n\n".join((*tables, "\n".join(_notes(comparison))))


def render_picture(comparison: TranslatorComparison) -> Picture:
    """Draw BLEU against the length of the source, one line per translator."""
    series = [
        Series(translator.name, [(b.mean_words, b.score) for b in translator.buckets])
        for translator in comparison.translators
    ]
    title = f"{comparison.data}: BLEU by the length of the source"
    return line_chart(series, title=title, x_label="words of the source", y_label="BLEU")


def render_page(comparison: TranslatorComparison) -> str:
    """Return a page with the tables and the chart."""
    return html_page(f"{comparison.data}: translators", _body(comparison), style=REPORT_CSS)


def render_fragment(comparison: TranslatorComparison) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(comparison), style=REPORT_CSS)


def _body(comparison: TranslatorComparison) -> str:
    notes = "".join(f"<p class='legend'>{escape_html(note)}</p>" for note in _notes(comparison))
    return f"""<h1>{escape_html(comparison.data)}: {len(comparison.translators)} translators</h1>
<div class="scroll">{html_table(*_score_table(comparison))}</div>
<h2>By the length of the source</h2>
<div class="scroll">{render_picture(comparison).svg()}</div>
<div class="scroll">{html_table(*_length_table(comparison))}</div>
{notes}
"""


def _score_table(comparison: TranslatorComparison) -> Table:
    header = ("translator", "BLEU", "chrF", "over the first (95 %)", "p")
    return header, [_score_row(translator) for translator in comparison.translators]


def _score_row(translator: TranslatorScores) -> tuple[str, ...]:
    difference = p_value = "–"
    if (against := translator.against_first) is not None:
        gain = against.difference
        difference = f"{gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})"
        p_value = f"{against.p_value:.3f}" if against.p_value else f"< {1 / against.resamples:g}"
    scores = translator.scores
    bleu, chrf = f"{scores.bleu.score:.2f}", f"{scores.chrf.score:.2f}"
    return (translator.name, bleu, chrf, difference, p_value)


def _length_table(comparison: TranslatorComparison) -> Table:
    rows = []
    for buckets in zip(*(t.buckets for t in comparison.translators), strict=True):
        first = buckets[0]
        low, high = first.min_words, first.max_words
        words = f"{low}" if low == high else f"{low}–{high}"
        rows.append((words, f"{first.sentences:,}", *(f"{b.score:.2f}" for b in buckets)))
    return ("words", "sentences", *(t.name for t in comparison.translators)), rows


def _notes(comparison: TranslatorComparison) -> list[str]:
    count, scores = comparison.num_sentences, comparison.translators[0].scores
    notes = [
        f"{count:,} sentences; BLEU {scores.bleu.signature}",
        f"chrF {scores.chrf.signature}",
        "by length: BLEU with the effective n-gram order, up to four (eff:yes)",
    ]
    if len(comparison.translators) > 1:
        notes.append("p: the fraction of resampled test sets on which the better one is not better")
        if count < FEW_SENTENCES:
            notes.append(f"{count} sentences are few: the interval and p are unreliable")
    for translator in comparison.translators:
        overlap = translator.training_overlap
        if overlap is None:
            notes.append(
                f"the training data of {translator.name} are not available to check for overlap"
            )
        elif overlap:
            pairs = f"{overlap:,} of these {count:,} pairs"
            notes.append(f"{translator.name} was trained on {pairs}: its score is not a fair test")
    return notes
