"""Runs compared, and the differences between two runs."""

import pytest

from workings.render.comparison import (
    format_metric,
    held_out_split,
    render_run_diff_text,
    render_runs_page,
    render_runs_text,
    shared_measure,
)

CURVES = [{"epoch": 1, "train_accuracy": 0.5, "validation_accuracy": 0.6, "validation_loss": 1.0}]
CLASSIFIER = {
    "name": "<lstm>",
    "parameters": 1234,
    "seconds": 5.0,
    "peak_memory_mb": 30,
    "curves": CURVES,
    "validation_accuracy": 0.6,
    "test_accuracy": 0.7,
}
BASELINE = {"name": "counts", "parameters": 10, "seconds": 0.1, "test_accuracy": 0.5}
DIFF = {
    "runs": ["a", "b"],
    "configuration": {"seed": (1, 2)},
    "results": {},
    "environment": [],
    "curves": {"epochs": (1, 2), "train_loss": {"first_epoch": 1, "max_difference": 0.5}},
    "predictions": {
        "texts": 3,
        "changed": 1,
        "only_second_correct": 1,
        "only_first_correct": 0,
        "examples": [{"text": "x" * 99, "label": "p", "first": "n", "second": "p"}],
    },
}


def test_table_has_the_metrics_of_the_task() -> None:
    header, _, lstm, counts = render_runs_text({"rows": [CLASSIFIER, BASELINE]}).splitlines()
    assert header.split()[-2:] == ["validation", "test"]
    assert lstm.split() == ["<lstm>", "1,234", "1", "5.0", "30", "MB", "60.00", "%", "70.00", "%"]
    assert counts.split() == ["counts", "10", "–", "0.1", "–", "–", "50.00", "%"]


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("test_bleu_4", ["nats", "BLEU-4", "CIDEr"]),
        ("test_bleu", ["nats", "BLEU", "chrF"]),
        ("validation_bits_per_character", ["nats", "bits/character"]),
    ],
)
def test_tasks_are_recognized_by_their_metrics(key: str, columns: list[str]) -> None:
    row = {"name": "run", "parameters": 1, "seconds": 1.0, "validation_loss": 2.0, key: 3.0}
    header = render_runs_text({"rows": [row]}).splitlines()[0]
    assert header.split()[5:] == columns


def test_page_has_the_curves_and_escapes_names() -> None:
    page = render_runs_page({"data": "<data>", "rows": [CLASSIFIER]})
    assert "&lt;data&gt;: 1 models" in page
    assert "<lstm>" not in page
    assert "accuracy by epoch" in page


def test_measure_and_split() -> None:
    assert shared_measure([{"test_accuracy": 1.0}]) == "accuracy"
    assert shared_measure([{"validation_loss": 1.0}]) == "loss"
    assert held_out_split(CURVES) == "validation"
    assert held_out_split([{"test_loss": 1.0}]) == "test"
    assert format_metric("validation_loss", 1.0) == "1.0000"
    assert format_metric("test_loss", None) == "–"


def test_differences_between_runs() -> None:
    text = render_run_diff_text(DIFF)
    assert "results: the same" in text
    assert "environment: the same" in text
    assert "epochs: 1 and 2" in text
    assert "train loss: different from epoch 1 on, by at most 0.5" in text
    assert "1 of 3 test texts: 1 only the second run has right, 0 only the first" in text
    assert f"{'x' * 59}…" in text


def test_runs_without_labeled_texts_are_not_compared_by_prediction() -> None:
    text = render_run_diff_text({**DIFF, "predictions": {"texts": 0}})
    assert "not compared: these runs have no labeled test texts" in text
