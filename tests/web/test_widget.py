"""The widget: the state that a notebook gets, and the workings of requested cells."""

import re
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("anywidget", reason="anywidget is not installed")

from workings import Problem, UserError, widget
from workings.errors import install_command
from workings.interpret.results import AttentionMaps, HeadMap
from workings.web.widget import Widget

PROBLEM = Problem(
    X=[[1, 2], [3, 1]], mask="causal", title="Two words", claim={"scores": [[5, 5], [5, 11]]}
)


@pytest.mark.parametrize(
    ("result", "component"),
    [(PROBLEM, "solution"), (PROBLEM.solve(), "solution"), (PROBLEM.check(), "report")],
)
def test_state_has_data_of_component(result: Any, component: str) -> None:
    view = widget(result)
    state = view.get_state()
    assert state["component"] == component
    assert state["title"] == "Two words"
    assert state["data"]["steps"]
    assert state["requested_cell"] is state["working"] is None
    assert "export default" in state["_esm"]
    data, _ = view._repr_mimebundle_()
    assert "<table" in data["text/html"]  # for viewers without widgets
    assert "application/vnd.jupyter.widget-view+json" in data


def test_working_of_every_cell() -> None:
    view, solution = widget(PROBLEM), PROBLEM.solve()
    for key in solution.keys():  # noqa: SIM118
        rows, columns = solution[key].shape
        for row in range(rows):
            for column in range(columns):
                view.set_state({"requested_cell": {"key": key, "row": row, "column": column}})
                answer = view.working
                assert (answer["key"], answer["row"], answer["column"]) == (key, row, column)
                assert answer["working"]["text"] == solution.cell(key, row + 1, column + 1)


@pytest.mark.parametrize(
    "requested_cell",
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
def test_invalid_cell_has_no_working(requested_cell: Any) -> None:
    view = widget(PROBLEM)
    view.requested_cell = {"key": "scores", "row": 0, "column": 0}
    view.requested_cell = requested_cell
    assert view.working is None


def test_attention_maps() -> None:
    tokens = ["the", "cat"]
    view = widget(
        AttentionMaps("", tokens, tokens, [HeadMap("layer 1, head 1", [[1, 0], [0.5, 0.5]])])
    )
    assert view.component == "maps"
    texts = view.data["maps"][0]["texts"]
    assert [[text and float(text) for text in row] for row in texts] == [[1, ""], [0.5, 0.5]]
    view.requested_cell = {"key": "weights", "row": 0, "column": 0}
    assert view.working is None


def test_result_without_component_is_an_error() -> None:
    with pytest.raises(UserError, match="a widget shows a problem"):
        widget("a text")
    with pytest.raises(UserError, match="at most 64 rows"):
        widget(Problem(X=[[1, 2]] * 65))


def test_css_is_scoped() -> None:
    rules = re.sub(r"/\*.*?\*/", "", Widget._css, flags=re.DOTALL)
    rules = re.sub(r"@media[^{]*\{|@page[^{]*\{", "", rules)
    rules = re.sub(r"\([^()]*\)", "", rules)  # a comma inside :is(…) separates no selectors
    selectors = [
        selector.strip()
        for group in re.findall(r"([^{}]+)\{", rules)
        for selector in group.split(",")
    ]
    assert len(selectors) > 200
    assert [s for s in selectors if not re.match(r"\.(workings|bench)\b", s)] == []


def test_without_anywidget_error_names_the_extra() -> None:
    program = "import sys; sys.modules['anywidget'] = None\nimport workings\nworkings.widget"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert f"workings.widget needs anywidget: {install_command('notebook')}" in done.stderr
