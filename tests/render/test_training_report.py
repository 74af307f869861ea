"""The report of a training run."""

import re

from workings.render.svg_writer import Polyline, TextLabel
from workings.render.training_report import (
    TrainingReport,
    confusion_matrix_html,
    curve_chart,
    measure_names,
    render_page,
    samples_html,
)

CURVES = [
    {"epoch": 1, "train_loss": 2.0, "validation_loss": 2.5, "train_accuracy": 0.5},
    {"epoch": 2, "train_loss": 1.0, "validation_loss": 1.5, "train_accuracy": 0.7},
]


def test_page_has_every_section_and_escapes_text() -> None:
    report = TrainingReport(
        title="<b>",
        lead="trained",
        headline_metrics=[("test loss", "1.5")],
        notes=["a <note>"],
        curves=CURVES,
        sections=[("Samples", "<pre>x</pre>")],
        recipe="seed = 1",
        commands=["workings train"],
        environment={"python": "3.11"},
    )
    page = render_page(report)
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings == ["Curves", "Samples", "How to reproduce it", "The recipe", "Environment"]
    assert "<b>" not in page
    assert "a &lt;note&gt;" in page


def test_one_chart_per_measure_with_training_data_dashed() -> None:
    assert measure_names(CURVES) == ["accuracy", "loss"]
    shapes = curve_chart(CURVES, "loss").shapes
    lines = [s for s in shapes if isinstance(s, Polyline) and s.color[0] == "c" and s.width > 1]
    assert [line.dashed for line in lines] == [False, True]
    labels = [shape.text for shape in shapes if isinstance(shape, TextLabel)]
    assert {"loss by epoch", "validation", "train"} <= set(labels)


def test_points_during_training_replace_the_means() -> None:
    points = [(0.5, 3.0), (1.0, 2.0), (1.5, 1.5), (2.0, 1.0)]
    shapes = curve_chart(CURVES, "loss", train_points=points).shapes
    lines = [s for s in shapes if isinstance(s, Polyline) and s.color[0] == "c" and s.width > 1]
    assert [(len(line.points), line.dashed) for line in lines] == [(2, False), (4, False)]


def test_confusion_matrix_has_recalls() -> None:
    html = confusion_matrix_html(["cat", "dog", "empty"], [[3, 1, 0], [0, 4, 0], [0, 0, 0]])
    recalls = re.findall(r'</th><td><span class="v">(.*?)</span>', html)
    assert recalls == ["75.0 %", "100.0 %", "–"]


def test_first_and_last_samples_are_shown() -> None:
    html = samples_html([(epoch, f"text {epoch}") for epoch in range(1, 10)])
    assert re.findall(r"after epoch (\d)", html) == ["1", "7", "8", "9"]
