"""Standalone pages: their data equal Python's, and a browser needs no other file."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import (
    OpenPage,
    find_violations,
    find_violations_in_both_schemes,
    first_problem,
    format_matrix,
    has_no_sideways_scroll,
    locate_cell,
    read_matrix,
    tab_until,
)

from workings import Problem, UserError, page
from workings.config import build
from workings.data import CharacterTokenizer
from workings.interpret.heads import read_head
from workings.interpret.results import AttentionMaps, HeadIndex, HeadMap
from workings.models.language import build_language_model
from workings.problems.notation import TextNotation
from workings.recipes import LanguageRecipe
from workings.tasks.language_modeling import LanguageModeling
from workings.web.standalone_page import MAX_CELLS

MARKUP = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x" * 10_000]
MASKED = first_problem(mask="causal", title="Three words", tokens=["the", "cat", "sat"])
WRONG = Problem(
    X=[[1, 2], [3, 1]],
    tokens=["the", "cat"],
    scale="none",
    claim={"scores": [[5, 5], [5, 11]], "weights": [[0.5, 0.5], [0, 1]]},
)


def read_data(text: str) -> dict[str, Any]:
    """Return the data of a page."""
    script = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert script is not None
    data: dict[str, Any] = json.loads(script[1])
    return data


@pytest.mark.parametrize("result", [MASKED.solve(4), WRONG.check()], ids=["solution", "report"])
def test_page_has_all_workings(result: Any) -> None:
    solution = result.problem.solve(result.to_worked_problem().decimals)
    workings = read_data(page(result))["workings"]
    assert set(workings) <= set(solution.keys())
    for key, rows in workings.items():
        assert (len(rows), len(rows[0])) == solution[key].shape
        for i, row in enumerate(rows, start=1):
            for j, working in enumerate(row, start=1):
                assert working["working"]["text"] == solution.cell(key, i, j)


def test_workings_of_column_vectors() -> None:
    problem = Problem(X=[[1, 2, 0], [3, 1, 1]], vectors="columns")
    workings = read_data(page(problem))["workings"]["V"]
    assert (len(workings), len(workings[0])) == (2, 3)
    assert workings[1][2]["working"]["text"] == problem.solve().cell("V", 2, 3)


def test_page_needs_no_server_packages() -> None:
    program = (
        "import sys\nfor name in ('fastapi', 'pydantic', 'torch'): sys.modules[name] = None\n"
        "import workings\nprint(workings.page(workings.Problem(X=[[1, 2], [3, 1]])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert read_data(done.stdout)["workings"]


def test_large_solution_has_no_workings() -> None:
    side = 24
    large = Problem(X=[[i % 3 for i in range(side)]] * side).solve()
    assert sum(large[key].size for key in large.keys()) > MAX_CELLS  # noqa: SIM118
    assert page(large) == large.html()


def test_unknown_result_is_an_error() -> None:
    with pytest.raises(UserError, match="int cannot be rendered"):
        page(3)


def test_policy_allows_only_own_script() -> None:
    text = page(Problem(X=[[1, 0], [0, 1], [1, 1]], tokens=MARKUP, title=MARKUP[0]))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src '[^']+'; script-src 'sha256-[^']+'", policy[1]
    )
    assert "<img" not in text
    assert len(re.findall("<script", text)) == 2


@pytest.fixture
def open_result(open_file: OpenPage, tmp_path: Path) -> OpenPage:
    """Write the page of a result and open it."""

    def open_page(result: object, **options: Any) -> Any:
        (tmp_path / "result.html").write_text(page(result), encoding="utf-8")
        return open_file("result.html", **options)

    return open_page


def test_solution_in_browser(open_result: OpenPage) -> None:
    solution = MASKED.solve()
    view = open_result(solution)
    for key in solution.keys():  # noqa: SIM118
        assert read_matrix(view, key) == format_matrix(MASKED, key)
    locate_cell(view, "weights", 1, 1).hover()
    formula = view.locator(".dock .formula")
    assert formula.get_attribute("aria-label") == solution.cell("weights", 2, 2)
    assert view.locator(".dock .tokens").inner_text() == "query cat, key cat"
    assert view.locator("figure[data-key=masked] td.input-cell").count() == 3
    assert view.locator("figure[data-key=weights] td.same-line").count() == 5
    locate_cell(view, "X", 0, 2).hover()
    assert view.locator(".dock").inner_text() == "X[1,3] = 2, given."
    view.mouse.move(0, 0)
    view.keyboard.press("Tab")
    tab_until(view, "document.activeElement.closest('figure')?.dataset.key", "scores", limit=30)
    view.keyboard.press("ArrowDown")
    view.keyboard.press("End")
    assert formula.get_attribute("aria-label") == solution.cell("scores", 2, 3)
    view.keyboard.press("5")
    assert view.locator("input").count() == 0  # the page is read-only


def test_report_in_browser(open_result: OpenPage) -> None:
    report = WRONG.check()
    view = open_result(report)
    assert "Wrong" in view.locator(".verdict").inner_text()
    assert report.first is not None
    assert view.locator(".finding code").first.inner_text() == report.first.causes[0].name
    view.locator(".finding .goto").first.click()
    assert view.evaluate("document.activeElement.textContent").startswith("11")
    working = view.locator(".dock .formula").get_attribute("aria-label")
    assert working == WRONG.solve().cell("scores", 2, 2)
    assert view.locator(".more button").count() == 0
    view.set_viewport_size({"width": 320, "height": 900})
    assert has_no_sideways_scroll(view)


@pytest.mark.parametrize("result", [MASKED.solve(), WRONG.check()], ids=["solution", "report"])
def test_accessibility(open_result: OpenPage, result: Any) -> None:
    pytest.importorskip("axe_playwright_python")
    view = open_result(result, reduced_motion="reduce")
    view.locator("figure.matrix td.open:visible").first.hover()
    assert find_violations_in_both_schemes(view) == []


def test_markup_in_names_stays_text(open_result: OpenPage) -> None:
    problem = Problem(X=[[1, 0], [0, 1], [1, 1]], tokens=MARKUP, title=MARKUP[0])
    view = open_result(problem, width=320)
    assert view.locator("#component script, #component img").count() == 0
    assert view.locator("figure[data-key=scores] th[scope=row]").all_text_contents() == MARKUP
    assert has_no_sideways_scroll(view)


def test_without_scripts_page_has_tables(open_result: OpenPage) -> None:
    view = open_result(MASKED, java_script_enabled=False)
    assert view.locator("main table").count() == 4 + len(MASKED.solve().keys())
    assert view.locator("h1").all_text_contents() == ["Three words"]


def make_causal_maps(count: int = 4, tokens: int = 5) -> AttentionMaps:
    """Return random maps of causal attention heads."""
    random = np.tril(np.random.default_rng(0).random((count, tokens, tokens)) + 0.01)
    weights = (random / random.sum(2, keepdims=True)).tolist()
    words = [*MARKUP, "cat", "sat", *map(str, range(tokens))][:tokens]
    indices = [HeadIndex("decoder", 1 + k // 2, 1 + k % 2) for k in range(count)]
    maps = [HeadMap(str(index), w, index) for index, w in zip(indices, weights, strict=True)]
    return AttentionMaps(" ".join(words), words, words, maps)


def test_maps_in_browser(open_result: OpenPage) -> None:
    maps = make_causal_maps()
    view = open_result(maps)
    assert view.locator("#component script, #component img").count() == 0
    assert view.locator(".thumb").count() == 4
    view.locator("td[data-row='3'][data-column='1']").hover()
    number = view.locator(".readout .number")
    assert number.inner_text() == f"{maps.maps[0].weights[3][1]:.4f}"
    assert view.locator("td.masked").count() == 10
    view.locator(".thumb").nth(1).hover()
    assert view.locator("figcaption b").inner_text() == "layer 1, head 2"
    view.mouse.move(0, 0)
    assert view.locator("figcaption b").inner_text() == "layer 1, head 1"
    view.locator(".thumb").first.focus()
    view.keyboard.press("ArrowDown")
    view.keyboard.press("Enter")
    view.keyboard.press("Tab")
    assert view.locator("figcaption b").inner_text() == "layer 2, head 1"
    view.keyboard.press("Control+End")
    assert number.inner_text() == f"{maps.maps[2].weights[4][4]:.4f}"
    assert find_violations(view) == []
    view.set_viewport_size({"width": 320, "height": 900})
    assert has_no_sideways_scroll(view)


def test_large_maps_are_a_picture() -> None:
    large = make_causal_maps(4, 280)
    assert page(large) == large.html()


def test_head_has_its_largest_terms() -> None:
    head = read_head(small_model(), "to be, or not", 2, 1, top=2)
    text = page(head)
    assert "differ by" in read_data(text)["state"]["note"]
    workings = read_data(text)["workings"]
    for key in ("V", "weights"):
        working = head.cell(key, 3, 2).working(TextNotation(head.decimals))
        assert workings[key][2][1]["working"]["text"] == working


def small_model() -> LanguageModeling:
    """Return an untrained language model."""
    table = {"kind": "transformer", "d_model": 16, "layers": 2, "heads": 4}
    characters = CharacterTokenizer.train(["to be, or not"])
    recipe = build(LanguageRecipe, {"model": table, "data": {"context_length": 8}})
    return LanguageModeling(recipe, characters, build_language_model(table, len(characters)))
