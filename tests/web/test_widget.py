"""The widget: what a notebook is sent, and what Python answers when somebody points at a cell."""

import re
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("anywidget", reason='no anywidget: pip install "workings[notebook]"')

from workings import Problem, UserError, widget
from workings.interpret.attention_maps import AttentionMaps, HeadMap
from workings.web.widget import Widget

PROBLEM = Problem(
    X=[[1, 2], [3, 1]], mask="causal", title="Two words", claim={"scores": [[5, 5], [5, 11]]}
)


@pytest.mark.parametrize(
    ("thing", "component"),
    [(PROBLEM, "solution"), (PROBLEM.solve(), "solution"), (PROBLEM.check(), "report")],
)
def test_it_is_told_what_its_component_shows(thing: Any, component: str) -> None:
    shown = widget(thing)
    state = shown.get_state()
    assert state["component"] == component
    assert state["title"] == "Two words"
    assert state["data"]["steps"]
    assert state["requested_cell"] is state["working"] is None
    assert "export default" in state["_esm"]
    data, _ = shown._repr_mimebundle_()
    assert "<table" in data["text/html"]  # for whoever reads the notebook elsewhere
    assert "application/vnd.jupyter.widget-view+json" in data


def test_every_cell_is_answered_as_python_derives_it() -> None:
    shown, solution = widget(PROBLEM), PROBLEM.solve()
    for key in solution.keys():  # noqa: SIM118
        rows, columns = solution[key].shape
        for row in range(rows):
            for column in range(columns):
                shown.set_state({"requested_cell": {"key": key, "row": row, "column": column}})
                answer = shown.working
                assert (answer["key"], answer["row"], answer["column"]) == (key, row, column)
                assert answer["working"]["text"] == solution.cell(key, row + 1, column + 1)


@pytest.mark.parametrize(
    "asked",
    [
        None,
        {},
        {"key": "scores"},
        {"key": "scores", "row": 0, "column": 9},
        {"key": "scores", "row": -1, "column": 0},
        {"key": "scores", "row": "0", "column": None},
        {"key": "X", "row": 0, "column": 0},
        {"key": ["scores"], "row": 0, "column": 0},
    ],
)
def test_what_is_no_cell_has_no_working(asked: Any) -> None:
    shown = widget(PROBLEM)
    shown.requested_cell = {"key": "scores", "row": 0, "column": 0}
    shown.requested_cell = asked
    assert shown.working is None


def test_maps_of_heads_have_a_component() -> None:
    tokens = ["the", "cat"]
    shown = widget(
        AttentionMaps("", tokens, tokens, [HeadMap("layer 1, head 1", [[1, 0], [0.5, 0.5]])])
    )
    assert shown.component == "maps"
    texts = shown.data["maps"][0]["texts"]
    assert [[text and float(text) for text in row] for row in texts] == [[1, ""], [0.5, 0.5]]
    shown.requested_cell = {"key": "weights", "row": 0, "column": 0}
    assert shown.working is None


def test_what_has_no_component_is_refused() -> None:
    with pytest.raises(UserError, match="a widget shows a problem"):
        widget("a text")
    with pytest.raises(UserError, match="at most 64 rows"):
        widget(Problem(X=[[1, 2]] * 65))


def test_the_style_leaks_into_no_notebook() -> None:
    rules = re.sub(r"/\*.*?\*/", "", Widget._css, flags=re.DOTALL)
    rules = re.sub(r"@media[^{]*\{|@page[^{]*\{", "", rules)
    selectors = [
        one.strip() for found in re.findall(r"([^{}]+)\{", rules) for one in found.split(",")
    ]
    assert len(selectors) > 200
    assert [one for one in selectors if not re.match(r"\.(workings|bench)\b", one)] == []


def test_without_anywidget_a_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['anywidget'] = None\nimport workings\nworkings.widget"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert 'workings.widget needs anywidget: pip install "workings[notebook]"' in done.stderr
