"""Several trained models side by side: a table, and their curves in one picture."""

from collections.abc import Mapping, Sequence
from typing import Any

from workings.views.chart import Series, line_chart
from workings.views.page import harmless, whole_page
from workings.views.picture import Picture
from workings.views.table import html_table, text_table

HEAD = ("model", "parameters", "epochs", "seconds", "memory", "validation", "test")


def table(compared: Mapping[str, Any]) -> str:
    """Write the table for a terminal."""
    return text_table(HEAD, _rows(compared["rows"]))


def curves_chart(compared: Mapping[str, Any]) -> Picture:
    """Draw accuracy by epoch: held-out examples as lines, training examples dashed."""
    series = []
    trained = [row for row in compared["rows"] if row.get("curves")]
    for colour, row in enumerate(trained):
        for part, dashed in ((held_out(row["curves"]), False), ("train", True)):
            key = f"{part}_accuracy"
            points = [(float(r["epoch"]), float(r[key])) for r in row["curves"] if key in r]
            name = f"{row['name']}, train" if dashed else str(row["name"])
            series.append(Series(name, points, dashed=dashed, colour=colour))
    title = f"{compared['data']}: accuracy by epoch"
    return line_chart(series, title=title, x_label="epoch", y_label="accuracy", percent=True)


def held_out(curves: Sequence[Mapping[str, Any]]) -> str:
    """Say which held-out part the epochs were measured on."""
    return "validation" if any("validation_accuracy" in r for r in curves) else "test"


def page(compared: Mapping[str, Any]) -> str:
    """Write a page with the table and the curves."""
    body = f"""<h1>{harmless(str(compared["data"]))}: {len(compared["rows"])} models</h1>
<div class="scroll">{html_table(HEAD, _rows(compared["rows"]))}</div>
<p class="legend">Seconds of training, without reading and tokenising; memory at its highest.</p>
<h2>Curves</h2>
<div class="scroll">{curves_chart(compared).svg()}</div>
"""
    return whole_page(f"{compared['data']}: comparison", body)


def _rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            str(row["name"]),
            f"{row['parameters']:,}",
            str(len(row["curves"])) if row.get("curves") else "–",
            f"{row['seconds']:,.1f}",
            "–" if row.get("peak_memory_mb") is None else f"{row['peak_memory_mb']:,} MB",
            _percent(row.get("validation_accuracy")),
            _percent(row.get("test_accuracy")),
        )
        for row in rows
    ]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
