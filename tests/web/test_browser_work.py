"""The screen Work in a real browser: what is seen is what Python says."""

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pages import Open, cell, expect_numbers, first_problem, lecture, numbers, shown

from workings import Problem

LECTURES = Path(__file__).parents[2] / "lectures"


@pytest.mark.parametrize("name", ["L0-masked", "L2-cross"])
def test_every_number_is_pythons(visit: Open, name: str) -> None:
    page, problem = visit(), Problem.load(LECTURES / f"{name}.toml")
    page.evaluate("document.title = 'before'")
    lecture(page, name, "figure[data-key=W_O], figure[data-key=context]")
    keys = problem.solve().keys()
    for key in keys:
        assert shown(page, key) == numbers(problem, key)
    given = [[float(v.replace("−", "-")) for v in row] for row in shown(page, "X")]
    assert given == problem.given["X"].mid.tolist()


def test_a_cell_is_written_out_and_its_row_and_tokens_light_up(visit: Open) -> None:
    page = visit()
    problem = first_problem()
    cell(page, "weights", 1, 2).hover()
    page.wait_for_selector(".dock .formula")
    said = page.locator(".dock .formula").get_attribute("aria-label")
    assert said == problem.solve().cell("weights", 2, 3)
    assert page.locator(".dock .tokens").inner_text() == "cat attends to sat"
    lit = page.locator("figure[data-key=Q] td.query-token")
    assert lit.count() == 2
    assert [lit.nth(k).get_attribute("data-row") for k in range(2)] == ["1", "1"]
    page.wait_for_selector("figure[data-key=scaled] td.input-cell")
    assert page.locator("figure[data-key=scaled] td.input-cell").count() == 3
    page.locator('figure[data-key=K] th[data-row="0"]').hover()
    page.wait_for_selector('figure[data-key=scores] td.key-token[data-column="0"]')
    assert page.locator("figure[data-key=scores] td.key-token").count() == 3


def test_change_a_number_and_everything_follows(visit: Open) -> None:
    page = visit()
    cell(page, "W_K", 2, 1).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("1/2")
    page.keyboard.press("Enter")
    changed = first_problem(W_K=[[0, 1], [1, 0], [1, 0.5]])
    expect_numbers(page, changed, "mixed")
    keys = changed.solve().keys()
    for key in keys:
        assert shown(page, key) == numbers(changed, key)
    page.keyboard.press("Control+z")
    expect_numbers(page, first_problem(), "mixed")
    page.keyboard.press("Control+Shift+z")
    expect_numbers(page, changed, "mixed")
    page.wait_for_function("() => location.hash.includes('1%2F2')")
    again = visit(page.url[page.url.index("#") :])
    expect_numbers(again, changed, "mixed")


def test_toggles_are_pythons_settings(visit: Open) -> None:
    page = visit()
    for name, value, fields in (
        ("mask", "causal", {"mask": "causal"}),
        ("scale", "none", {"mask": "causal", "scale": "none"}),
        ("normalizer", "sigmoid", {"mask": "causal", "scale": "none", "normalizer": "sigmoid"}),
    ):
        page.locator(f'input[name="{name}"][value="{value}"]').check()
        expect_numbers(page, first_problem(**fields), "mixed")
    assert shown(page, "masked")[0][1] == "−∞"
    page.locator('button[data-control="Decimals1"]').click()
    problem = first_problem(mask="causal", scale="none", normalizer="sigmoid")
    page.wait_for_function("() => document.querySelector('.stepper output').textContent === '4'")
    assert shown(page, "mixed") == numbers(problem, "mixed", 4)
    page.locator('input[name="heads"][value="2"]').check()
    page.wait_for_selector('figure[data-key="weights.2"]')


def test_the_column_toggle_transposes(visit: Open) -> None:
    page = visit()
    keys = ["X", "W_Q", *first_problem().solve().keys()]
    before = {key: shown(page, key) for key in keys}
    page.locator('input[name="vectors"][value="columns"]').check()
    page.wait_for_function(
        "() => document.querySelectorAll('figure[data-key=mixed] tbody tr').length === 2"
    )
    for key in keys:
        assert shown(page, key) == [list(line) for line in zip(*before[key], strict=True)]


def test_a_matrix_is_pasted(visit: Open) -> None:
    page = visit()
    page.get_by_role("button", name="Paste W_V").click()
    page.get_by_role("textbox", name="Paste W_V").fill("hello")
    page.get_by_role("button", name="Read it").click()
    page.wait_for_function(
        "() => document.querySelector('dialog .status').textContent.includes('not a matrix')"
    )
    page.get_by_role("textbox", name="Paste W_V").fill(
        r"\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \\ 7 & 8 & 9 \end{bmatrix}"
    )
    page.keyboard.press("Control+Enter")
    expect_numbers(page, first_problem(W_V=[[1, 2, 3], [4, 5, 6], [7, 8, 9]]), "mixed")


def test_what_is_wrong_is_said_and_nothing_is_lost(visit: Open) -> None:
    page = visit()
    before = shown(page, "mixed")
    cell(page, "X", 0, 0).dblclick()
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.status').textContent.includes(\"'one' is not a number\")"
    )
    assert shown(page, "mixed") == before
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelector('.status').textContent === ''")


def test_downloads_are_what_they_say(visit: Open, tmp_path: Path) -> None:
    page = visit()

    def kept(form: str) -> str:
        with page.expect_download() as waiting:
            page.locator(f'button[data-form="{form}"]').click()
        waiting.value.save_as(tmp_path / form)
        return (tmp_path / form).read_text(encoding="utf-8")

    assert ElementTree.fromstring(kept("svg")).tag.endswith("svg")  # noqa: S314
    problem = Problem.from_toml(kept("toml"))
    assert problem.solve().to_json() == first_problem().solve().to_json()
    assert tomllib.loads((tmp_path / "toml").read_text(encoding="utf-8"))["tokens"] == [
        "the",
        "cat",
        "sat",
    ]
    assert "\\begin{document}" in kept("latex")
    assert re.search("<main class=.workings.>", kept("html"))


def test_a_lectures_claims_do_not_stop_what_is_changed(visit: Open) -> None:
    page = visit()
    lecture(page, "L2-self", 'figure[data-key=X] th:has-text("Input 1")')
    page.locator('input[name="heads"][value="3"]').check()
    page.wait_for_selector('figure[data-key="weights.3"]')
    assert page.locator(".status").first.inner_text() == ""


def test_names_may_have_spaces(visit: Open) -> None:
    page = visit()
    lecture(page, "L2-self", 'figure[data-key=X] th:has-text("Input 1")')
    names = page.get_by_label("Tokens, separated by spaces or commas")
    assert names.input_value() == "Input 1, Input 2, Input 3,"
    names.fill("The first, Input 2, Input 3")
    names.press("Enter")
    page.wait_for_selector('figure[data-key=X] th:has-text("The first")')


@pytest.mark.parametrize(
    ("problem", "key"),
    [
        ("kind=block&set.mask=1,0;1,1&given.X=1,0;0,2&given.W_1=1;1&given.W_2=1,1", "attention"),
        ("set.mask=1;1&given.Q=1;1&given.K=2&given.V=3", "weights"),  # a mask of one column
    ],
)
def test_a_mask_of_ones_own_comes_back_with_its_address(
    visit: Open, problem: str, key: str
) -> None:
    page = visit(f"#work?{problem}")
    page.wait_for_selector("figure[data-key=mask]")
    assert page.locator(f'figure[data-key^="{key}"]').count()
