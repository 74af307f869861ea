"""The screen Home: the explained cell, and the three ways to begin."""

import pytest
from pages import (
    OpenPage,
    find_violations_in_both_schemes,
    has_no_sideways_scroll,
    read_matrix,
)

HOME_READY = ".tour figure.matrix"
SOLUTION = "X = [[1, 0], [1, 2]]\nW_V = [[2, 1], [0, 3]]\nV = [[2, 0], [4, 6]]"


def test_tour_explains_one_cell_after_the_other(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY)
    assert page.title() == "Home · workings"
    working = page.locator(".tour .dock .formula")
    working.wait_for()
    assert working.get_attribute("aria-label") == "scores[2,3] = 1·1 + 3·1 = 4"
    page.wait_for_selector('.tour .formula[aria-label^="scaled"]')
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    page.locator('figure[data-key=weights] td[data-row="0"][data-column="0"]').hover()
    page.wait_for_selector('.tour .formula[aria-label^="weights[1,1]"]')


def test_tour_does_not_move_if_motion_is_reduced(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY, reduced_motion="reduce")
    page.get_by_role("button", name="Play").wait_for()


def test_pasted_solution_is_checked(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY)
    page.get_by_role("textbox", name="A worked solution").fill(SOLUTION)
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".findings .finding")
    assert page.url.partition("#")[2].startswith("check?")
    page.go_back()
    page.wait_for_selector(HOME_READY)


def test_text_without_an_example_is_shown_with_its_reading(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY)
    page.get_by_role("textbox", name="A worked solution").fill("no numbers")
    page.get_by_role("button", name="Check it").click()
    page.get_by_text("No worked example found.").wait_for()


PASTE = """text => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
}"""
DROP = """text => {
  const data = new DataTransfer();
  data.items.add(new File([text], "note.md"));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
}"""


@pytest.mark.parametrize("event", [PASTE, DROP])
@pytest.mark.parametrize("screen", ["", "#work", "#check"])
def test_solution_pasted_or_dropped_anywhere_is_checked(
    visit: OpenPage, event: str, screen: str
) -> None:
    page = visit(screen, ready=".card" if not screen else "figure.matrix, .empty")
    page.evaluate(event, SOLUTION)
    page.wait_for_selector(".findings .finding")
    assert "transposed" in page.locator(".findings .finding").first.inner_text()


def test_cards_lead_to_the_screens(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY)
    page.get_by_role("link", name="Self-attention of three tokens").click()
    page.wait_for_selector("figure[data-key=mixed]")
    assert read_matrix(page, "X")[0] == ["1", "0", "2"]
    page.get_by_role("link", name="workings").click()
    page.get_by_role("button", name="This published slide").click()
    page.wait_for_selector(".findings .finding")
    page.get_by_role("link", name="workings").click()
    page.locator(".card .runs a").first.click()
    page.wait_for_selector("main.inspect select")


def test_accessibility_and_narrow_window(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY, width=320, reduced_motion="reduce")
    assert has_no_sideways_scroll(page)
    assert find_violations_in_both_schemes(page) == []
