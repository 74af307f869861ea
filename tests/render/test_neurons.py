"""Neurons that track a property, as text and page, for any text."""

import re

import pytest

from workings.interpret.results import Excerpt, NeuronScore, NeuronSearch, PropertyNeurons
from workings.render import neurons

TEXT = '<b>"x"</b> \x1b[31m\u202e & \t中\nnext line'


def make_search(text=TEXT, name="quotes", neuron="layer 1, cell 3"):
    spans = [(k, k + 1) for k in range(len(text))]
    values = [(k % 5) / 2 - 1 for k in range(len(text))]
    scores = [
        NeuronScore(neuron, True, 0.99, 0.98, 0.005, values, 0.2, 0.8),
        NeuronScore("layer 1, hidden 3", False, 0.97, 0.4, 1.0, values, 0.0, 0.0),
    ]
    tracked = PropertyNeurons(
        name, f"inside {name}", "AUC", 0.25, 0.61, scores, Excerpt(text, spans, [3])
    )
    return NeuronSearch(1024, 5000, 5001, 199, "characters", [tracked], ["if"])


def test_table_has_the_scores():
    text = neurons.render_text(make_search(), width=100)
    assert text.startswith("1,024 cells, selected on 5,000 characters and scored on 5,001 others")
    row = next(line for line in text.splitlines() if line.startswith("quotes"))
    assert row.split()[:5] == ["quotes", "layer", "1,", "cell", "3"]
    assert row.split()[5:] == ["falls", "AUC", "0.980", "0.990", "0.610", "0.005"]
    assert "Inside quotes: layer 1, cell 3, AUC 0.980 (it falls there)" in text
    assert "left out: if" in text


@pytest.mark.parametrize("color", [False, True])
def test_hostile_text_stays_text_on_a_terminal(color):
    text = neurons.render_text(make_search(name="\x1b[2J", neuron="\x1b[2J"), width=60, color=color)
    assert "\x1b[31m" not in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "中" in text
    for line in text.splitlines():
        codes = re.findall(r"\x1b\[([\d;]*)m", line)
        assert not codes or codes[-1] == "0"


def test_bars_are_below_their_characters():
    lines = neurons.bar_lines("ab\n\n中c", [(k, k + 1) for k in range(6)], range(6), 2.5, 2.5, 9)
    assert lines == ["ab", "▁▂", "", "中c", "▇▇█"]


def test_page_escapes_the_text():
    page = neurons.render_page(make_search(name="<i>"))
    assert "<b>&quot;" not in page
    assert "<i>" not in page.replace('<i class="', "")
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "25.0 % of the text" in page
    assert "The next best" in page
    assert neurons.render_fragment(make_search()).startswith("<style>")


def test_colors_are_relative_to_the_midpoint():
    page = neurons.render_page(make_search(text="abcde"))
    # The midpoint is 0.2; −1 and 1 are beyond the spread of 0.8 below and above it.
    assert 'class="n8" title="−1.00">a<' in page
    assert 'class="p8" title="+1.00">e<' in page
    assert 'class="n2" title="0">c<' in page


def test_empty_search():
    empty = NeuronSearch(10, 500, 500, 199, "tokens", [], [])
    assert "10 cells" in neurons.render_text(empty, width=80)
    assert "last character" in neurons.render_page(empty)
