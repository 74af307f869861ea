"""The derivation of a cell as text, page and JSON."""

import json
from dataclasses import replace

import pytest

from workings import plain_text
from workings.problems import Problem
from workings.problems.derivation import ModelValue, derive

HOSTILE = "<b>\x1b[31m"


@pytest.fixture
def derivation():
    tokens = ["the", "猫", HOSTILE]
    problem = Problem(
        X=[[1, -2, 0.5], [3, 1, 0], [0, 0.25, -1]], mask="causal", tokens=tokens, title=HOSTILE
    )
    derived = derive(problem, "weights", 3, 2, top=1)
    model_values = [ModelValue("here", 0.3, 2e-8), ModelValue("there", derived.value, 0.0)]
    return replace(
        derived, description=f"how much {HOSTILE}", model_values=model_values, notes=[HOSTILE]
    )


def test_text(derivation):
    text = derivation.text(width=80)
    assert "\x1b" not in text
    assert "▸ 2 猫" in text
    assert "+ remainder of the other 1" in text
    assert "differs by 2.0·10⁻⁸" in text
    assert "the same" in text
    lines = [line for line in text.splitlines() if line.startswith("   computed here")]
    assert len(lines) == 1
    assert "\x1b[1m" in derivation.text(width=80, color=True)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_lines_fit_into_the_width(derivation, width):
    for line in derivation.text(width=width).splitlines():
        assert plain_text.display_width(line) <= width


def test_page(derivation):
    page = derivation.html()
    assert HOSTILE not in page
    assert "<b>" not in page.split("<main", 1)[1]
    assert "&lt;b&gt;" in page
    assert "<math" in page
    assert "default-src 'none'" in page


def test_json(derivation):
    table = json.loads(json.dumps(derivation.to_dict()))
    assert table["cell"] == "weights[3,2]"
    assert table["value"] == pytest.approx(derivation.value)
    assert table["lines"][-1] == {
        "name": "sum",
        "numbers": [None, table["lines"][-1]["numbers"][1], 1],
    }
    masked = derive(Problem(X=[[1], [2]], mask="causal"), "masked", 1, 2)
    assert masked.to_dict()["value"] == "-inf"
