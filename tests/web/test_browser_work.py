"""The screen Work in a browser: every number on the page equals Python's."""

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pages import (
    OpenPage,
    choose_lecture,
    first_problem,
    format_matrix,
    locate_cell,
    read_matrix,
    wait_for_numbers,
)

from workings import Problem
from workings.problems.sheets import make_sheet
from workings.problems.sheets.sheet_kinds import SHEET_KINDS

LECTURES = Path(__file__).parents[2] / "lectures"


@pytest.mark.parametrize("name", ["L0-masked", "L2-cross"])
def test_numbers_equal_library(visit: OpenPage, name: str) -> None:
    page, problem = visit(), Problem.load(LECTURES / f"{name}.toml")
    page.evaluate("document.title = 'before'")
    choose_lecture(page, name, "figure[data-key=W_O], figure[data-key=context]")
    keys = problem.solve().keys()
    for key in keys:
        assert read_matrix(page, key) == format_matrix(problem, key)
    given = [[float(v.replace("−", "-")) for v in row] for row in read_matrix(page, "X")]
    assert given == problem.given["X"].mid.tolist()


def test_hover_shows_working_and_highlights_inputs(visit: OpenPage) -> None:
    page = visit()
    problem = first_problem()
    locate_cell(page, "weights", 1, 2).hover()
    page.wait_for_selector(".dock .formula")
    working = page.locator(".dock .formula").get_attribute("aria-label")
    assert working == problem.solve().cell("weights", 2, 3)
    assert page.locator(".dock .tokens").inner_text() == "query cat, key sat"
    highlighted = page.locator("figure[data-key=Q] td.query-token")
    assert highlighted.count() == 2
    assert [highlighted.nth(k).get_attribute("data-row") for k in range(2)] == ["1", "1"]
    page.wait_for_selector("figure[data-key=scaled] td.input-cell")
    assert page.locator("figure[data-key=scaled] td.input-cell").count() == 3
    page.locator('figure[data-key=K] th[data-row="0"]').hover()
    page.wait_for_selector('figure[data-key=scores] td.key-token[data-column="0"]')
    assert page.locator("figure[data-key=scores] td.key-token").count() == 3


def test_edited_number_updates_all_steps(visit: OpenPage) -> None:
    page = visit()
    locate_cell(page, "W_K", 2, 1).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("1/2")
    page.keyboard.press("Enter")
    changed = first_problem(W_K=[[0, 1], [1, 0], [1, 0.5]])
    wait_for_numbers(page, changed, "mixed")
    keys = changed.solve().keys()
    for key in keys:
        assert read_matrix(page, key) == format_matrix(changed, key)
    page.keyboard.press("Control+z")
    wait_for_numbers(page, first_problem(), "mixed")
    page.keyboard.press("Control+Shift+z")
    wait_for_numbers(page, changed, "mixed")
    page.wait_for_function("() => location.hash.includes('1%2F2')")
    restored = visit(page.url[page.url.index("#") :])
    wait_for_numbers(restored, changed, "mixed")


def test_toggles_change_settings(visit: OpenPage) -> None:
    page = visit()
    page.get_by_text("Settings").click()
    for name, value, fields in (
        ("mask", "causal", {"mask": "causal"}),
        ("scale", "none", {"mask": "causal", "scale": "none"}),
        ("normalizer", "sigmoid", {"mask": "causal", "scale": "none", "normalizer": "sigmoid"}),
    ):
        page.locator(f'input[name="{name}"][value="{value}"]').check()
        wait_for_numbers(page, first_problem(**fields), "mixed")
    assert read_matrix(page, "masked")[0][1] == "−∞"
    page.locator('button[data-control="Decimals1"]').click()
    problem = first_problem(mask="causal", scale="none", normalizer="sigmoid")
    page.wait_for_function("() => document.querySelector('.stepper output').textContent === '4'")
    assert read_matrix(page, "mixed") == format_matrix(problem, "mixed", 4)
    page.locator('input[name="heads"][value="2"]').check()
    page.wait_for_selector('figure[data-key="weights.2"]')


def test_column_toggle_transposes(visit: OpenPage) -> None:
    page = visit()
    keys = ["X", "W_Q", *first_problem().solve().keys()]
    before = {key: read_matrix(page, key) for key in keys}
    page.locator('input[name="vectors"][value="columns"]').check()
    page.wait_for_function(
        "() => document.querySelectorAll('figure[data-key=mixed] tbody tr').length === 2"
    )
    for key in keys:
        assert read_matrix(page, key) == [list(line) for line in zip(*before[key], strict=True)]


def test_pasted_matrix(visit: OpenPage) -> None:
    page = visit()
    page.get_by_role("button", name="Paste W_V").click()
    page.get_by_role("textbox", name="Paste W_V").fill("hello")
    page.get_by_role("button", name="Insert").click()
    page.wait_for_function(
        "() => document.querySelector('dialog .status').textContent.includes('not a matrix')"
    )
    page.get_by_role("textbox", name="Paste W_V").fill(
        r"\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \\ 7 & 8 & 9 \end{bmatrix}"
    )
    page.keyboard.press("Control+Enter")
    wait_for_numbers(page, first_problem(W_V=[[1, 2, 3], [4, 5, 6], [7, 8, 9]]), "mixed")


def test_half_typed_number_is_no_error(visit: OpenPage) -> None:
    page = visit()
    locate_cell(page, "X", 0, 0).dblclick()
    for text, X in (("", 1), ("-", 1), ("-2", -2), ("-2/", -2), ("-2/4", -0.5)):
        page.locator("input.cell").fill(text)
        wait_for_numbers(page, first_problem(X=[[X, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")
        assert page.locator(".status").first.inner_text() == ""
        assert page.locator("input.cell[aria-invalid]").count() == 0


def test_pasted_input_of_another_size_is_solved_at_once(visit: OpenPage) -> None:
    page = visit()
    page.get_by_role("button", name="Paste X").click()
    page.get_by_role("textbox", name="Paste X").fill("1 0 2 5\n0 2 1 5\n1 1 0 5\n4 4 4 5")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("figure[data-key=weights] tbody tr:nth-child(4)")
    assert read_matrix(page, "W_Q")[-1] == ["0", "0"]  # further weights are zero
    assert read_matrix(page, "Q")[0] == format_matrix(first_problem(), "Q")[0]
    page.get_by_role("button", name="Undo").click()
    wait_for_numbers(page, first_problem(), "mixed")


def test_all_steps_fit_beside_each_other(visit: OpenPage) -> None:
    for name in ("L2-self", "L2-masked", "L3-multi-head", "L0-conv", "L0-pooling", "L1-helo"):
        visit(f"#work/{name}").wait_for_function(
            "() => { const flow = document.querySelector('.flow').getBoundingClientRect();"
            "return document.querySelector('.flow').scrollWidth <= flow.width + 1"
            " && flow.bottom < innerHeight - 60"
            " && document.documentElement.scrollHeight <= innerHeight }"
        )


def test_error_is_shown_and_numbers_stay(visit: OpenPage) -> None:
    page = visit()
    before = read_matrix(page, "mixed")
    locate_cell(page, "X", 0, 0).dblclick()
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.status').textContent.includes(\"'one' is not a number\")"
    )
    assert read_matrix(page, "mixed") == before
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelector('.status').textContent === ''")


def test_downloads(visit: OpenPage, tmp_path: Path) -> None:
    page = visit()

    def download(form: str) -> str:
        with page.expect_download() as download:
            page.locator(".downloads summary").click()
            page.locator(f'button[data-form="{form}"]').click()
        download.value.save_as(tmp_path / form)
        return (tmp_path / form).read_text(encoding="utf-8")

    assert ElementTree.fromstring(download("svg")).tag.endswith("svg")  # noqa: S314
    problem = Problem.from_toml(download("toml"))
    assert problem.solve().to_json() == first_problem().solve().to_json()
    assert tomllib.loads((tmp_path / "toml").read_text(encoding="utf-8"))["tokens"] == [
        "the",
        "cat",
        "sat",
    ]
    assert "\\begin{document}" in download("latex")
    assert re.search("<main class=.workings.>", download("html"))


def test_settings_change_despite_claims(visit: OpenPage) -> None:
    page = visit()
    choose_lecture(page, "L2-self", 'figure[data-key=X] th:has-text("Input 1")')
    page.locator('input[name="heads"][value="3"]').check()
    page.wait_for_selector('figure[data-key="weights.3"]')
    assert page.locator(".status").first.inner_text() == ""


def test_token_names_with_spaces(visit: OpenPage) -> None:
    page = visit()
    choose_lecture(page, "L2-self", 'figure[data-key=X] th:has-text("Input 1")')
    page.get_by_text("Settings").click()
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
def test_custom_mask_is_restored_from_address(visit: OpenPage, problem: str, key: str) -> None:
    page = visit(f"#work?{problem}")
    page.wait_for_selector("figure[data-key=mask]")
    assert page.locator(f'figure[data-key^="{key}"]').count()


def test_menu_opens_a_problem_of_any_kind(visit: OpenPage) -> None:
    page = visit()
    page.get_by_role("button", name="New problem…").click()
    menu = page.get_by_role("dialog", name="Kinds of problem")
    menu.wait_for()
    names = [item.get_attribute("data-kind") for item in menu.locator("li button").all()]
    assert names == list(SHEET_KINDS)
    assert menu.locator("[data-kind=self] .box").all_inner_texts() == SHEET_KINDS[
        "self"
    ].picture.split(" → ")
    menu.locator("[data-kind=lstm]").click()
    page.wait_for_selector('figure[data-key="h.1"]')
    problem = make_sheet("lstm", count=1, seed=1).exercises[0].problem
    assert read_matrix(page, "h.1") == format_matrix(problem, "h.1")
    lefts = [
        page.locator(f'figure[data-key="{key}"] tbody').bounding_box()["x"]
        for key in ("W_x", "i.1", "c.1")
    ]
    assert lefts == sorted(lefts)  # time runs from left to right
    locate_cell(page, "c.1", 0, 1).hover()
    page.wait_for_selector(".dock .formula")
    assert page.locator(".dock .formula").get_attribute("aria-label") == problem.solve().cell(
        "c.1", 1, 2
    )


def test_gradients_run_back_in_another_color(visit: OpenPage) -> None:
    given = "given.X=1,2;0,1&given.W=1,0;2,1&given.b=0,1&given.dY=1,-1;2,0.5"
    page = visit(f"#work?kind=linear_gradient&opt.activation=%22relu%22&{given}")
    page.wait_for_selector('figure[data-key="dW"]')
    backward = page.locator(".backward figure").all()
    keys = [figure.get_attribute("data-key") for figure in backward]
    assert {"dY", "dX", "dW", "db"} <= set(keys)
    assert "Y" not in keys
    x = {
        key: page.locator(f'figure[data-key="{key}"] tbody').bounding_box()["x"]
        for key in ("dY", "dW")
    }
    assert x["dW"] < x["dY"]
    color, plain = (
        page.locator(f".line{kind}").first.evaluate("path => getComputedStyle(path).stroke")
        for kind in (".gradient", ":not(.gradient)")
    )
    assert color != plain
    page.get_by_text("Settings").click()
    page.get_by_label("activation").select_option("tanh")
    page.wait_for_function("() => location.hash.includes('opt.activation=%22tanh%22')")
