"""The comparison of translators as tables, chart and page."""

from dataclasses import replace

from workings.interpret.results import TranslatorComparison, TranslatorScores
from workings.metrics.bleu import BLEUResult, ChrFResult, CorpusScores
from workings.metrics.bootstrap import Comparison, Estimate
from workings.metrics.by_length import LengthBucket
from workings.render.translator_comparison import render_page, render_picture, render_text

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
