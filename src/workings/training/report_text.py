"""Texts of a report: results, signatures and the environment of a run. Imports no torch."""

import sys
from typing import Any

METRIC_LABELS = {
    **{f"test_bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    "test_cider": "CIDEr-D",
    "test_rouge": "ROUGE-L",
    "test_exact": "exact match, %",
    "test_attended_shapes": "shapes attended to, %",
    "test_bleu": "BLEU",
    "test_tokenized_bleu": "tokenized BLEU",
    "test_chrf": "chrF",
}
"""The names of test metrics in papers."""


def format_result(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the metrics of a result as pairs of name and text.

    >>> format_result({"best_epoch": 1200, "test_accuracy": 0.875, "test_bleu_4": 21.0})
    [('best epoch', '1,200'), ('test accuracy', '87.50 %'), ('BLEU-4', '21.00')]
    """
    return [
        (METRIC_LABELS.get(key) or key.replace("_", " "), _format_metric(key, value))
        for key, value in result.items()
        if key.startswith(("test_", "validation_", "sliding_")) or key == "best_epoch"
        if not key.startswith(("test_precision", "test_recall"))  # the table of classes has them
    ]


def _format_metric(key: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if "accuracy" in key:
        return f"{100 * value:.2f} %"
    return f"{value:.2f}" if key in METRIC_LABELS else f"{value:.4f}"


def list_signatures(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the signatures of a result's scores, which state how they were computed."""
    return [(key.replace("_", " "), result[key]) for key in result if key.endswith("signature")]


def format_environment(table: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a run as flat texts by name."""
    packages, data = table.pop("packages", {}), table.pop("data", {})
    command = " ".join(table.pop("command", sys.argv))
    facts = {k: v for k, v in table.items() if k not in ("format", "files", "samples")}
    facts |= {f"data.{k}": v for k, v in data.items()} | packages | {"command": command}
    return {k: str(v) for k, v in facts.items()}
