"""Comparisons: of runs, of two runs in detail, and of translators."""

from dataclasses import replace

import pytest

from workings.interpret.results import TranslatorComparison, TranslatorScores
from workings.metrics.bleu import BLEUResult, ChrFResult, CorpusScores
from workings.metrics.bootstrap import Comparison, Estimate
from workings.metrics.by_length import LengthBucket
from workings.render.comparison import (
    format_metric,
    held_out_split,
    render_page,
    render_picture,
    render_run_diff_text,
    render_runs_page,
    render_runs_text,
    render_text,
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


# -- translators -----------------------------------------------------------------------------------


BUCKETS = [LengthBucket(1, 5, 3.0, 20, 31.0), LengthBucket(6, 6, 6.0, 10, 25.0)]
SCORES = CorpusScores(
    BLEUResult(30.0, (50.0, 40.0, 30.0, 20.0), 1.0, 10, 10, "BLEU signature"),
    ChrFResult(50.0, "chrF signature"),
)
GAIN = Estimate(1.5, 0.5, 2.5)
COMPARISON = TranslatorComparison(
    "pairs",
    30,
    [
        TranslatorScores("first", SCORES, BUCKETS, None),
        TranslatorScores(
            "second",
            SCORES,
            BUCKETS,
            Comparison(GAIN, GAIN, GAIN, 0.0, 1000, 1, "signature"),
            training_overlap=3,
        ),
    ],
)


def test_scores_differences_and_lengths() -> None:
    lines = render_text(COMPARISON).splitlines()
    first, second = (
        next(line for line in lines if line.startswith(n)) for n in ("first", "second")
    )
    assert first.split()[1:] == ["30.00", "50.00", "–", "–"]
    assert "+1.50 (+0.50 to +2.50)" in second
    assert second.endswith("< 0.001")
    assert any(line.split() == ["1–5", "20", "31.00", "31.00"] for line in lines)
    assert any(line.split() == ["6", "10", "25.00", "25.00"] for line in lines)


def test_notes_warn_about_few_sentences_and_training_data() -> None:
    text = render_text(COMPARISON)
    assert "30 sentences are few" in text
    assert "second was trained on 3 of these 30 pairs" in text
    unknown = replace(COMPARISON.translators[0], training_overlap=None)
    text = render_text(replace(COMPARISON, translators=[unknown], num_sentences=100))
    assert "few" not in text
    assert "the training data of first are not available" in text


def test_chart_has_a_line_per_translator_and_the_page_both() -> None:
    svg = render_picture(COMPARISON).svg()
    assert svg.count("<polyline") >= 2
    assert "BLEU by the length of the source" in svg
    assert "<h1>pairs: 2 translators</h1>" in render_page(COMPARISON)
