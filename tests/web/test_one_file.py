"""One HTML file: what it holds is Python's, and a browser needs nothing else to show it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Open, cell, first_problem, numbers, shown, violations

from workings import Problem, UserError, page
from workings.config import build
from workings.data import CharacterTokenizer
from workings.interpret.attention_maps import AttentionMaps, HeadMap
from workings.interpret.heads import read_head
from workings.models.language import build_language_model
from workings.problems.notation import TextNotation
from workings.recipes import LanguageRecipe
from workings.tasks.language_modeling import LanguageModeling
from workings.web.standalone_page import MAX_CELLS

NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x" * 10_000]
MASKED = first_problem(mask="causal", title="Three words", tokens=["the", "cat", "sat"])
WRONG = Problem(
    X=[[1, 2], [3, 1]],
    tokens=["the", "cat"],
    scale="none",
    claim={"scores": [[5, 5], [5, 11]], "weights": [[0.5, 0.5], [0, 1]]},
)


def told(text: str) -> dict[str, Any]:
    """Read the data that a file holds."""
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert inside is not None
    data: dict[str, Any] = json.loads(inside[1])
    return data


@pytest.mark.parametrize("thing", [MASKED.solve(4), WRONG.check()], ids=["solution", "report"])
def test_a_file_holds_every_working_as_python_writes_it(thing: Any) -> None:
    solution = thing.problem.solve(thing.to_worked_problem().decimals)
    held = told(page(thing))["workings"]
    assert set(held) <= set(solution.keys())
    for key, rows in held.items():
        assert (len(rows), len(rows[0])) == solution[key].shape
        for i, row in enumerate(rows, start=1):
            for j, working in enumerate(row, start=1):
                assert working["working"]["text"] == solution.cell(key, i, j)


def test_columns_are_looked_up_as_columns() -> None:
    problem = Problem(X=[[1, 2, 0], [3, 1, 1]], vectors="columns")
    held = told(page(problem))["workings"]["V"]
    assert (len(held), len(held[0])) == (2, 3)
    assert held[1][2]["working"]["text"] == problem.solve().cell("V", 2, 3)


def test_a_file_needs_no_servers_packages() -> None:
    program = (
        "import sys\nfor name in ('fastapi', 'pydantic', 'torch'): sys.modules[name] = None\n"
        "import workings\nprint(workings.page(workings.Problem(X=[[1, 2], [3, 1]])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told(done.stdout)["workings"]


def test_what_is_large_is_tables() -> None:
    side = 24
    large = Problem(X=[[i % 3 for i in range(side)]] * side).solve()
    assert sum(large[key].size for key in large.keys()) > MAX_CELLS  # noqa: SIM118
    assert page(large) == large.html()


def test_what_makes_no_page_is_refused() -> None:
    with pytest.raises(UserError, match="int cannot be rendered"):
        page(3)


def test_a_file_may_run_its_own_script_only() -> None:
    text = page(Problem(X=[[1, 0], [0, 1], [1, 1]], tokens=NASTY, title=NASTY[0]))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src '[^']+'; script-src 'sha256-[^']+'", policy[1]
    )
    assert "<img" not in text
    assert len(re.findall("<script", text)) == 2


@pytest.fixture
def looked(open_file: Open, tmp_path: Path) -> Open:
    """Write a thing as a file, and open it."""

    def opened(thing: object, **options: Any) -> Any:
        (tmp_path / "thing.html").write_text(page(thing), encoding="utf-8")
        return open_file("thing.html", **options)

    return opened


def test_a_solution_in_a_file(looked: Open) -> None:
    solution = MASKED.solve()
    seen = looked(solution)
    for key in solution.keys():  # noqa: SIM118
        assert shown(seen, key) == numbers(MASKED, key)
    cell(seen, "weights", 1, 1).hover()
    formula = seen.locator(".dock .formula")
    assert formula.get_attribute("aria-label") == solution.cell("weights", 2, 2)
    assert seen.locator(".dock .tokens").inner_text() == "cat attends to cat"
    assert seen.locator("figure[data-key=masked] td.input-cell").count() == 3
    assert seen.locator("figure[data-key=weights] td.same-line").count() == 5
    cell(seen, "X", 0, 2).hover()
    assert seen.locator(".dock").inner_text() == "X[1,3] = 2, given."
    seen.mouse.move(0, 0)
    seen.keyboard.press("Tab")
    where = []
    while not where or where[-1] != "scores":
        seen.keyboard.press("Tab")
        where.append(seen.evaluate("document.activeElement.closest('figure')?.dataset.key"))
        assert len(where) < 30
    seen.keyboard.press("ArrowDown")
    seen.keyboard.press("End")
    assert formula.get_attribute("aria-label") == solution.cell("scores", 2, 3)
    seen.keyboard.press("5")
    assert seen.locator("input").count() == 0  # there is nothing to be changed


def test_a_report_in_a_file(looked: Open) -> None:
    report = WRONG.check()
    seen = looked(report)
    assert "Wrong" in seen.locator(".verdict").inner_text()
    assert report.first is not None
    assert seen.locator(".finding code").first.inner_text() == report.first.causes[0].name
    seen.locator(".finding .goto").first.click()
    assert seen.evaluate("document.activeElement.textContent").startswith("11")
    said = seen.locator(".dock .formula").get_attribute("aria-label")
    assert said == WRONG.solve().cell("scores", 2, 2)
    assert seen.locator(".more button").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("thing", [MASKED.solve(), WRONG.check()], ids=["solution", "report"])
def test_axe_finds_nothing_serious(looked: Open, thing: Any, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python")
    seen = looked(thing, color_scheme=scheme, reduced_motion="reduce")
    cell(seen, "weights", 1, 0).hover()
    assert violations(seen) == []


def test_any_words_stay_words(looked: Open) -> None:
    problem = Problem(X=[[1, 0], [0, 1], [1, 1]], tokens=NASTY, title=NASTY[0])
    seen = looked(problem, width=320)
    assert seen.locator("#component script, #component img").count() == 0
    assert seen.locator("figure[data-key=scores] th[scope=row]").all_text_contents() == NASTY
    assert seen.evaluate("document.documentElement.scrollWidth") <= 320


def test_without_scripts_there_are_tables(looked: Open) -> None:
    seen = looked(MASKED, java_script_enabled=False)
    assert seen.locator("main table").count() == 4 + len(MASKED.solve().keys())
    assert seen.locator("h1").all_text_contents() == ["Three words"]


def heads(count: int = 4, tokens: int = 5) -> AttentionMaps:
    """Maps of heads that look back."""
    dice = np.random.default_rng(0)
    drawn = np.tril(dice.random((count, tokens, tokens)) + 0.01)
    weights = (drawn / drawn.sum(2, keepdims=True)).tolist()
    words = [*NASTY, "cat", "sat", *map(str, range(tokens))][:tokens]
    maps = [HeadMap(f"layer {1 + k // 2}, head {1 + k % 2}", w) for k, w in enumerate(weights)]
    return AttentionMaps(" ".join(words), words, words, maps)


def test_maps_in_a_file(looked: Open) -> None:
    found = heads()
    seen = looked(found)
    assert seen.locator("#component script, #component img").count() == 0
    assert seen.locator(".thumb").count() == 4
    seen.locator("td[data-row='3'][data-column='1']").hover()
    number = seen.locator(".readout .number")
    assert number.inner_text() == f"{found.maps[0].weights[3][1]:.4f}"
    assert seen.locator("td.masked").count() == 10
    seen.locator(".thumb").nth(1).hover()
    assert seen.locator("figcaption b").inner_text() == "layer 1, head 2"
    seen.mouse.move(0, 0)
    assert seen.locator("figcaption b").inner_text() == "layer 1, head 1"
    seen.locator(".thumb").first.focus()
    seen.keyboard.press("ArrowDown")
    seen.keyboard.press("Enter")
    seen.keyboard.press("Tab")
    assert seen.locator("figcaption b").inner_text() == "layer 2, head 1"
    seen.keyboard.press("Control+End")
    assert number.inner_text() == f"{found.maps[2].weights[4][4]:.4f}"
    assert violations(seen) == []


@pytest.mark.parametrize("thing", [WRONG.check(), heads()], ids=["report", "maps"])
def test_no_sideways_scroll(looked: Open, thing: Any) -> None:
    assert looked(thing, width=320).evaluate("document.documentElement.scrollWidth") <= 320


def test_large_maps_are_a_picture() -> None:
    large = heads(4, 280)
    assert page(large) == large.html()


def test_a_head_in_a_file_is_written_out_by_its_largest_terms() -> None:
    head = read_head(small_model(), "to be, or not", 2, 1, top=2)
    text = page(head)
    assert "differ by" in told(text)["state"]["note"]
    held = told(text)["workings"]
    for key in ("V", "weights"):
        shown = head.cell(key, 3, 2).working(TextNotation(head.decimals))
        assert held[key][2][1]["working"]["text"] == shown


def small_model() -> LanguageModeling:
    """A language model that has learned nothing."""
    table = {"kind": "transformer", "d_model": 16, "layers": 2, "heads": 4}
    characters = CharacterTokenizer.train(["to be, or not"])
    recipe = build(LanguageRecipe, {"model": table, "data": {"context_length": 8}})
    return LanguageModeling(recipe, characters, build_language_model(table, len(characters)))
