"""Several trained models side by side: a table, and their curves in one picture."""

from collections.abc import Mapping, Sequence
from typing import Any

from workings.views.chart import Series, line_chart
from workings.views.page import harmless, whole_page
from workings.views.picture import Picture
from workings.views.report import STYLE
from workings.views.table import html_table, text_table

HEAD = ("model", "parameters", "epochs", "seconds", "memory")
SHOWN = {  # of classifiers, captioners, translators and language models, by what only they have
    "test_accuracy": {"validation": "validation_accuracy", "test": "test_accuracy"},
    "validation_accuracy": {"validation": "validation_accuracy"},
    "test_bleu_4": {"nats": "validation_loss", "BLEU-4": "test_bleu_4", "CIDEr": "test_cider"},
    "test_bleu": {"nats": "validation_loss", "BLEU": "test_bleu", "chrF": "test_chrf"},
    "": {"nats": "validation_loss", "bits/character": "validation_bits_per_character"},
}
SCORES = ("test_bleu", "test_chrf", "test_cider", "test_rouge", "test_exact", "test_looked")


def table(compared: Mapping[str, Any]) -> str:
    """Write the table for a terminal."""
    return text_table(*_head_and_rows(compared["rows"]))


def curves_chart(compared: Mapping[str, Any]) -> Picture:
    """Draw accuracy, or loss, by epoch: held-out data as lines, training data dashed."""
    trained = [(str(row["name"]), row["curves"]) for row in compared["rows"] if row.get("curves")]
    what = measure(compared["rows"])
    return runs_chart(trained, what, f"{compared['data']}: {what} by epoch")


def runs_chart(
    runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    what: str,
    title: str,
    width: int = 640,
) -> Picture:
    """Draw a measure of several runs, each by its name and in its colour."""
    series = []
    for colour, (run, curves) in enumerate(runs):
        for part, dashed in ((held_out(curves), False), ("train", True)):
            key = f"{part}_{what}"
            points = [(float(r["epoch"]), float(r[key])) for r in curves if key in r]
            name = f"{run}, train" if dashed else run
            series.append(Series(name, points, dashed=dashed, colour=colour))
    named = what.replace("_", " ")
    return line_chart(
        [one for one in series if one.points] or series,
        title=title,
        x_label="epoch",
        y_label=named,
        percent=what == "accuracy",
        width=width,
    )


def measure(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what models are compared by: accuracy, where they classify."""
    return "accuracy" if any("accuracy" in key for row in rows for key in row) else "loss"


def held_out(curves: Sequence[Mapping[str, Any]]) -> str:
    """Say which held-out part the epochs were measured on."""
    return "validation" if any("validation_loss" in r for r in curves) else "test"


def page(compared: Mapping[str, Any]) -> str:
    """Write a page with the table and the curves."""
    body = f"""<h1>{harmless(str(compared["data"]))}: {len(compared["rows"])} models</h1>
<div class="scroll">{html_table(*_head_and_rows(compared["rows"]))}</div>
<p class="legend">Seconds of training, without reading and tokenising
(the baselines' with counting words); memory at its highest.</p>
<h2>Curves</h2>
<div class="scroll">{curves_chart(compared).svg()}</div>
"""
    return whole_page(f"{compared['data']}: comparison", body, style=STYLE)


def _head_and_rows(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    has = {key for row in rows for key in row}
    shown = next(some for by, some in SHOWN.items() if by in has or by == "")
    told = [
        (
            str(row["name"]),
            f"{row['parameters']:,}",
            str(len(row["curves"])) if row.get("curves") else "–",
            f"{row['seconds']:,.1f}",
            "–" if row.get("peak_memory_mb") is None else f"{row['peak_memory_mb']:,} MB",
            *(figure(key, row.get(key)) for key in shown.values()),
        )
        for row in rows
    ]
    return (*HEAD, *shown), told


def figure(key: str, value: float | None) -> str:
    """Write a measurement: a share as percent, a score as papers do, else with four decimals.

    >>> figure("test_accuracy", 0.875), figure("test_bleu_4", 21.0), figure("test_loss", None)
    ('87.50 %', '21.00', '–')
    """
    if value is None:
        return "–"
    if "accuracy" in key:
        return f"{100 * value:.2f} %"
    return f"{value:.2f}" if key.startswith(SCORES) else f"{value:.4f}"
