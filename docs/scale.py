"""The table and the curves of docs/scale.md, from results/scale.json; results.py writes them."""

import json
from pathlib import Path
from typing import Any

from workings.render.chart import Series, line_chart

RESULTS = Path(__file__).parents[1] / "results" / "scale.json"
NAMES = {
    "text": "text, byte pairs",
    "characters": "text, characters",
    "pairs": "sentence pairs",
    "rows": "rows of CSV",
    "pictures": "pictures",
}
CURVES = {
    "time": ("Until the first step, empty cache", "seconds of the processor", "cpu_seconds"),
    "memory": ("Peak of the memory", "MiB", "peak_mib"),
}


def measured_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the measurements of each kind of data that came to an end."""
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {
        name: [row for row in measured[name]["rows"] if row["seconds"] is not None]
        for name in NAMES
        if name in measured
    }


def list_rows() -> list[tuple[str, ...]]:
    """Return a row for each kind and size of data, without and with a cache."""
    rows = []
    for name, measurements in measured_rows().items():
        filled = {row["megabytes"]: row for row in measurements if row["cache"] == "filled"}
        for row in measurements:
            if row["cache"] == "empty" and (second := filled.get(row["megabytes"])):
                cpu = (f"{m['cpu_seconds']:,.1f}" for m in (row, second))
                rows.append((NAMES[name], f"{row['megabytes']:,}", *cpu, f"{row['peak_mib']:,}"))
    return rows


def draw_curves() -> dict[str, str]:
    """Return the curves, as SVG by the name of their file."""
    pictures = {}
    for stem, (title, label, key) in CURVES.items():
        series = [
            Series(NAMES[name], [(r["megabytes"], r[key]) for r in rows if r["cache"] == "empty"])
            for name, rows in measured_rows().items()
        ]
        chart = line_chart(
            series, title=title, x_label="megabytes", y_label=label, log_x=True, log_y=True
        )
        pictures[f"scale-{stem}.svg"] = chart.svg()
    return pictures
