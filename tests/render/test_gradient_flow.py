"""Gradient norms and spectral radii as chart, text and page."""

from workings.interpret.results import GradientNorms, GradientReport, SpectralRadius
from workings.render.gradient_flow import render_page, render_picture, render_text
from workings.render.svg_writer import Polyline, TextLabel

REPORT = GradientReport(
    [
        GradientNorms("rnn", "h of layer 1", [0.5**k for k in range(30)]),
        GradientNorms("rnn", "h of layer 2", [0.25**k for k in range(30)]),
        GradientNorms("<gpt>", "the input of block 1", [1.0, 0.5, 0.0]),
    ],
    [SpectralRadius("rnn", 1, "W_hh", 0.875)],
)


def test_upper_layers_are_dashed_in_the_color_of_the_model() -> None:
    shapes = render_picture(REPORT).shapes
    lines = [s for s in shapes if isinstance(s, Polyline) and s.color[0] == "c" and s.width > 1]
    styles = {(line.color, line.dashed) for line in lines}
    assert styles == {("c1", False), ("c1", True), ("c2", False)}
    names = {shape.text for shape in shapes if isinstance(shape, TextLabel)}
    assert {"rnn", "rnn, h of layer 2", "<gpt>"} <= names


def test_text_has_bars_norms_and_radii() -> None:
    text = render_text(REPORT, width=100)
    rows = [line for line in text.splitlines() if line.startswith("rnn, h of layer 1")]
    assert rows[0].split()[-1].startswith("█")
    assert "one token per bar from k = 0" in text
    table = next(line for line in text.splitlines() if line.startswith("<gpt>  "))
    assert table.split()[-6:] == ["1", "0.5", "0", "–", "–", "–"]
    assert text.splitlines()[-1].split() == ["rnn", "1", "W_hh", "0.875"]


def test_zero_gradients_are_reported() -> None:
    zero = GradientReport([GradientNorms("rnn", "h", [0.0, 0.0])], [])
    assert "all gradients are zero" in render_text(zero, width=80)
    assert "Spectral radii" not in render_page(zero)


def test_page_escapes_names() -> None:
    page = render_page(REPORT)
    assert "<gpt>" not in page
    assert "&lt;gpt&gt;" in page
    assert "<h2>Spectral radii</h2>" in page
