"""The screen Practice in a browser: sheets are solved with hints and scored, mistakes found."""

import tomllib
from pathlib import Path

from pages import OpenPage, find_violations_in_both_schemes, format_matrix, locate_cell, read_matrix

from workings.problems.sheets import make_sheet


def test_sheet_is_solved_step_by_step_and_scored(visit: OpenPage) -> None:
    problem = make_sheet("masked", count=1, level=1).exercises[0].problem
    page = visit(
        "#practice?level=1&count=1&steps=one", ready="figure[data-key=Q]", reduced_motion="reduce"
    )
    assert read_matrix(page, "X") == format_matrix(problem, "X")
    assert page.get_by_text("exact", exact=True).first.is_hidden()
    hints = page.locator(".hints").first
    for count, name in enumerate(("Hint: Q", "Next hint: Q", "Next hint: Q"), start=1):
        page.get_by_role("button", name=name, exact=True).click()
        hints.locator("math").nth(count - 1).wait_for()
    assert hints.locator("math").nth(2).get_attribute("alttext") == problem.solve().cell("Q", 1, 1)
    page.get_by_role("button", name="Hints for the next number: Q").wait_for()
    solution = problem.solve()
    for key in solution.keys():  # noqa: SIM118
        page.locator(f"figure[data-key={key}]").first.wait_for()  # the steps before it are right
        for i, row in enumerate(solution[key]):
            locate_cell(page, key, i, 0).focus()
            for value in row:
                if value == float("-inf"):
                    page.get_by_role("button", name="Write −∞").click()
                else:
                    page.keyboard.type(f"{value:.3f}")
                page.keyboard.press("Tab")
        if key == "Q":
            assert page.locator("figure[data-key=scores]").first.is_hidden()
    page.get_by_text("Score: 1 of 1 solved, 3 hints").wait_for()
    page.wait_for_function("() => location.hash.endsWith('0.477')")
    page.reload()
    page.get_by_text("Score: 1 of 1 solved, 3 hints").wait_for()
    assert find_violations_in_both_schemes(page) == []
    with page.expect_download() as download:
        page.get_by_role("button", name="Save answers").click()
    assert download.value.suggested_filename == "answers.toml"
    answers = tomllib.loads(Path(download.value.path()).read_text())
    assert answers["problem-01"]["claim"]["Q"] == solution["Q"].tolist()


def test_wrong_number_gets_no_answer_away_and_is_undone(visit: OpenPage) -> None:
    page = visit("#practice?level=1", ready="figure[data-key=Q]")
    locate_cell(page, "Q", 0, 0).focus()
    page.keyboard.type("99")
    page.keyboard.press("Enter")
    page.wait_for_selector(".finding")
    assert page.locator(".finding code").first.inner_text() == "unknown"
    assert " is " not in page.locator(".causes").first.inner_text()
    assert "but it is" not in page.locator(".verdict").inner_text()
    page.get_by_role("button", name="Next problem").click()
    page.wait_for_function("() => !document.querySelector('.finding')")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".finding")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => !document.querySelector('.finding')")


def test_planted_mistake_is_found(visit: OpenPage) -> None:
    sheet = make_sheet("self", count=2, seed=4, level=1, mistakes=True)
    page = visit("#practice?mode=find&kind=self&count=2&seed=4&level=1", ready=".search-task")
    for exercise in sheet.exercises:
        mistake = exercise.planted_mistake
        assert mistake is not None
        first_right = "V" if mistake.key == "Q" else "Q"
        row, column = mistake.cell
        locate_cell(page, first_right, 0, 0).click()
        page.get_by_text("This number is right.").wait_for()
        locate_cell(page, mistake.key, row, column).click()
        page.get_by_text(f"but it is {mistake.correct.replace('-', '−')}").wait_for()
        if exercise is not sheet.exercises[-1]:
            page.get_by_role("button", name="Next problem").click()
            page.wait_for_function("() => !document.querySelector('.search-answer > p')")
    page.get_by_text("Score: 2 of 2 found, 4 tries").wait_for()
    page.wait_for_function("() => location.hash.includes('tries.2=2')")
    page.reload()
    page.get_by_text("Score: 2 of 2 found, 4 tries").wait_for()
