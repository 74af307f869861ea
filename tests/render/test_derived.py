"""A derived cell on a terminal and on a page: in line, in its width, and harmless."""

import json
from dataclasses import replace

import pytest

from workings import plain_text
from workings.problems import Problem
from workings.problems.derivation import ModelValue, derive

WILD = "<b>\x1b[31m"


@pytest.fixture
def told():
    tokens = ["the", "猫", WILD]
    problem = Problem(
        X=[[1, -2, 0.5], [3, 1, 0], [0, 0.25, -1]], mask="causal", tokens=tokens, title=WILD
    )
    found = derive(problem, "weights", 3, 2, top=1)
    elsewhere = [ModelValue("here", 0.3, 2e-8), ModelValue("there", found.value, 0.0)]
    return replace(found, description=f"how much {WILD}", model_values=elsewhere, notes=[WILD])


def test_the_terminal(told):
    said = told.text(width=80)
    assert "\x1b" not in said
    assert "▸ 2 猫" in said
    assert "+ remainder of the other 1" in said
    assert "differs by 2.0·10⁻⁸" in said
    assert "the same" in said
    lines = [line for line in said.splitlines() if line.startswith("   written out")]
    assert len(lines) == 1
    assert "\x1b[1m" in told.text(width=80, color=True)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_lines_keep_to_the_width(told, width):
    for line in told.text(width=width).splitlines():
        assert plain_text.display_width(line) <= width


def test_the_page(told):
    page = told.html()
    assert WILD not in page
    assert "<b>" not in page.split("<main", 1)[1]
    assert "&lt;b&gt;" in page
    assert "<math" in page
    assert "default-src 'none'" in page


def test_json(told):
    table = json.loads(json.dumps(told.to_dict()))
    assert table["cell"] == "weights[3,2]"
    assert table["value"] == pytest.approx(told.value)
    assert table["lines"][-1] == {
        "name": "sum",
        "numbers": [None, table["lines"][-1]["numbers"][1], 1],
    }
    masked = derive(Problem(X=[[1], [2]], mask="causal"), "masked", 1, 2)
    assert masked.to_dict()["value"] == "-inf"
