"""The screen Check in a browser: findings, corrections, pasted slides, problem sheets."""

import tomllib
from pathlib import Path

from pages import OpenPage, choose_lecture, format_matrix, locate_cell, read_matrix

from workings import Problem
from workings.problems.sheets import make_sheet


def test_mistake_is_found_and_named(visit: OpenPage) -> None:
    problem = Problem(X=[[1, 2], [3, 1]])
    weights = [[f"{v:.3f}" for v in row] for row in problem.solve()["weights"]]
    claims = {
        "scores": "5,5;5,10",
        "scaled": "5,5;5,10",
        "weights": ";".join(map(",".join, weights)),
    }
    query = "&".join(f"claim.{key}={cells}" for key, cells in claims.items())
    page = visit(f"#check?given.X=1,2;3,1&{query}")
    page.wait_for_selector(".finding")
    assert page.locator(".finding code").first.inner_text() == "not-scaled"
    assert page.locator(".finding .goto").first.inner_text() == "scaled, row 1, column 1"
    assert page.evaluate("document.activeElement.closest('figure').dataset.key") == "scaled"
    assert page.locator(".finding .cause-matrix td.same").count() == 4
    assert page.locator("figure[data-key=scaled] .wrong").count() == 4
    assert "Wrong" in page.locator(".verdict").inner_text()


def test_carried_error_has_an_arrow_until_corrected(visit: OpenPage) -> None:
    page = visit("#check")
    choose_lecture(page, "L2-self", ".finding")
    page.wait_for_selector(
        '.checked-steps .lines g[data-from="scores"][data-to="weights"]', state="attached"
    )
    assert page.locator("figure[data-key=weights] td .follows").count() == 2
    assert page.evaluate("document.activeElement.textContent").startswith("18")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.finding .goto').textContent.startsWith('weights')"
    )
    assert page.locator('.checked-steps .lines g[data-from="scores"]').count() == 0


def test_long_working_wraps(visit: OpenPage) -> None:
    row = ",".join(["0.25"] * 12)
    page = visit(f"#check?given.X={row};{row}&claim.scores=9,9;9,9", width=1280)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        box = page.locator(".finding .formula").first
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), width
        tops = box.evaluate("box => [...box.children].map(m => m.getBoundingClientRect().top)")
        assert max(tops) - min(tops) > 15, width
        text = box.evaluate("box => box.textContent")
        assert text.count("+") == 11
        assert text.endswith("=0.75")


def test_pasted_slide_is_checked(visit: OpenPage) -> None:
    page = visit("#check")
    page.get_by_role("button", name="Paste a solution…").click()
    page.get_by_role("textbox", name="Paste a worked solution").fill(
        '% workings: scale = "none"\n$X = [[1, 0], [0, 2]]$\n\n$scores = [[1, 0], [0, 5]]$'
    )
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".finding")
    assert page.locator(".finding .goto").inner_text() == "scores, row 2, column 2"


def test_sheet_is_answered_with_hints(visit: OpenPage) -> None:
    problem = make_sheet("masked", count=3).exercises[0].problem
    page = visit("#check")
    choose_lecture(page, "L2-self", ".finding")  # its steps have the same sizes but other formulas
    page.get_by_role("button", name="Problem sheet").click()
    page.get_by_role("button", name="Create sheet").click()
    page.wait_for_selector("figure[data-key=masked]")
    assert "Nothing to check yet" in page.locator(".verdict").inner_text()
    assert read_matrix(page, "X") == format_matrix(problem, "X")
    assert read_matrix(page, "W_K") == format_matrix(problem, "W_K")
    formulas = page.locator(".checked-steps h2 math").all()
    headings = [formula.get_attribute("alttext") for formula in formulas]
    assert headings[-2:] == ["weights = softmax(masked)", "mixed = weights V"]
    assert page.get_by_text("exact", exact=True).first.is_hidden()
    hints = page.locator(".hints").first
    for count, name in enumerate(("Hint: Q", "Next hint: Q", "Next hint: Q"), start=1):
        page.get_by_role("button", name=name, exact=True).click()
        hints.locator("math").nth(count - 1).wait_for()
    page.get_by_role("button", name="Hints for the next number: Q").wait_for()
    assert hints.locator("math").nth(2).get_attribute("alttext") == problem.solve().cell("Q", 1, 1)
    locate_cell(page, "Q", 0, 0).focus()
    page.keyboard.type("99")
    page.keyboard.press("Enter")
    page.wait_for_selector(".finding")
    assert page.locator(".finding code").first.inner_text() == "unknown"
    assert " is " not in page.locator(".causes").first.inner_text()  # practice gives no answer away
    locate_cell(page, "Q", 0, 0).focus()
    for row in problem.solve()["Q"]:
        for value in row:
            page.keyboard.type(f"{value:g}")
            page.keyboard.press("Tab" if value is not row[-1] else "Enter")
        page.keyboard.press("Home")
    page.wait_for_function(
        "() => document.querySelector('.checked-steps .chip').textContent.endsWith('right')"
    )
    page.locator(".exercises button").nth(1).click()
    page.wait_for_function(
        "() => document.querySelector('.verdict').textContent.includes('Nothing')"
    )
    with page.expect_download() as download:  # with the answers to a problem that is not open
        page.get_by_role("button", name="Save answers").click()
    assert download.value.suggested_filename == "answers.toml"
    answers = tomllib.loads(Path(download.value.path()).read_text())
    assert answers["problem-01"]["claim"]["Q"][0] == problem.solve()["Q"][0].tolist()
    assert {cell for row in answers["problem-02"]["claim"]["Q"] for cell in row} == {"?"}
    page.locator(".exercises button").nth(0).click()
    page.wait_for_function(
        "() => document.querySelector('.checked-steps .chip').textContent.endsWith('right')"
    )
