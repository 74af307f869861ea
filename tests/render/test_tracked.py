"""Cells that track a property: shown in a terminal and on a page, whatever the text is."""

import re

import pytest

from workings.interpret.results import Excerpt, NeuronScore, NeuronSearch, PropertyNeurons
from workings.render import neurons

TEXT = '<b>"x"</b> \x1b[31m\u202e & \t中\nnext line'


def told(text=TEXT, name="quotes", cell="layer 1, cell 3"):
    spans = [(k, k + 1) for k in range(len(text))]
    values = [(k % 5) / 2 - 1 for k in range(len(text))]
    found = [
        NeuronScore(cell, True, 0.99, 0.98, 0.005, values, 0.2, 0.8),
        NeuronScore("layer 1, hidden 3", False, 0.97, 0.4, 1.0, values, 0.0, 0.0),
    ]
    one = PropertyNeurons(
        name, f"inside {name}", "AUC", 0.25, 0.61, found, Excerpt(text, spans, [3])
    )
    return NeuronSearch(1024, 5000, 5001, 199, "characters", [one], ["if"])


def test_the_table_has_the_figures():
    said = neurons.render_text(told(), width=100)
    assert said.startswith("1,024 cells, chosen on 5,000 characters and scored on 5,001 others")
    row = next(line for line in said.splitlines() if line.startswith("quotes"))
    assert row.split()[:5] == ["quotes", "layer", "1,", "cell", "3"]
    assert row.split()[5:] == ["falls", "AUC", "0.980", "0.990", "0.610", "0.005"]
    assert "Inside quotes: layer 1, cell 3, AUC 0.980 (it falls there)" in said
    assert "left out: if" in said


@pytest.mark.parametrize("color", [False, True])
def test_a_terminal_gets_nothing_that_moves_its_cursor(color):
    said = neurons.render_text(told(name="\x1b[2J", cell="\x1b[2J"), width=60, color=color)
    assert "\x1b[31m" not in said
    assert "\x1b[2J" not in said
    assert "\u202e" not in said
    assert "中" in said
    for line in said.splitlines():
        codes = re.findall(r"\x1b\[([\d;]*)m", line)
        assert not codes or codes[-1] == "0"


def test_bars_stand_below_their_characters():
    lines = neurons.bar_lines("ab\n\n中c", [(k, k + 1) for k in range(6)], range(6), 2.5, 2.5, 9)
    assert lines == ["ab", "▁▂", "", "中c", "▇▇█"]


def test_a_page_escapes_the_text():
    page = neurons.render_page(told(name="<i>"))
    assert "<b>&quot;" not in page
    assert "<i>" not in page.replace('<i class="', "")
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "25.0 % of the text" in page
    assert "The next best" in page
    assert neurons.render_fragment(told()).startswith("<style>")


def test_colours_are_about_the_middle():
    page = neurons.render_page(told(text="abcde"))
    # −1 is as far below 0.2 as can be, 1 is as far above.
    assert 'class="n8" title="−1.00">a<' in page
    assert 'class="p8" title="+1.00">e<' in page
    assert 'class="n2" title="0">c<' in page


def test_nothing_found_can_be_shown():
    empty = NeuronSearch(10, 500, 500, 199, "tokens", [], [])
    assert "10 cells" in neurons.render_text(empty, width=80)
    assert "last character" in neurons.render_page(empty)
