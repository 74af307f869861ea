"""Walks of a new user from Home, without help: how many clicks, without scrolling, and how long."""

from time import monotonic
from typing import Any

from pages import OpenPage, find_violations_in_both_schemes, locate_cell

from workings.problems.sheets import make_sheet

HOME_READY = ".tour figure.matrix"
HOMEWORK = r"""
$$X = \begin{pmatrix} 1 & 0 \\ 1 & 2 \end{pmatrix}$$
$$W_Q = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix}$$
$$Q = \begin{pmatrix} 1 & 1 \\ 1 & 4 \end{pmatrix}$$
"""
PASTE = """text => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
}"""
IN_VIEW = """selector => [...document.querySelectorAll(selector)].some((element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
})"""
MAX_SECONDS = 20  # beside other tests; alone, each walk takes one or two


class Walk:
    """Clicks, scrolling by the user and seconds since a page was opened."""

    def __init__(self, page: Any) -> None:
        self._page = page
        page.evaluate(
            """() => {
            window.clicks = 0;
            window.scrolls = 0;
            addEventListener("pointerdown", (event) => { clicks += event.isTrusted; }, true);
            addEventListener("wheel", () => { scrolls += 1; }, true);
            }"""
        )
        self._start = monotonic()

    def end(self, *results: str, clicks: int) -> None:
        """Assert that the results are in the window after at most these clicks."""
        for result in results:
            self._page.wait_for_selector(result)
            self._page.wait_for_function(IN_VIEW, arg=result)
        assert self._page.evaluate("clicks") <= clicks
        assert self._page.evaluate("scrolls") == 0
        assert monotonic() - self._start < MAX_SECONDS


def test_wrong_number_of_a_pasted_homework(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY)
    walk = Walk(page)
    page.evaluate(PASTE, HOMEWORK)
    walk.end(
        ".first-finding", "figure[data-key=Q] td .wrong, figure[data-key=Q] td.wrong", clicks=0
    )
    assert "Q, row 2, column 2: 4, but it is 3" in page.locator(".first-finding").inner_text()
    page = visit("", ready=HOME_READY)
    walk = Walk(page)
    page.get_by_role("textbox", name="A worked solution").click()
    page.keyboard.insert_text(HOMEWORK)
    page.get_by_role("button", name="Check it").click()
    walk.end(".first-finding", ".finding .formula", clicks=3)


def test_why_a_token_attends_to_another_and_what_a_head_changes(visit: OpenPage) -> None:
    page = visit("", ready=HOME_READY)
    walk = Walk(page)
    page.locator(".card .runs a").first.click()
    page.wait_for_selector("figure.map td:not(.masked)")
    page.locator('figure.map td[data-row="3"][data-column="1"]').click()
    page.wait_for_selector(".derivation")
    walk.end(".derivation-steps section", 'figure.map td[data-row="3"]', "table.bars", clicks=3)
    page.get_by_role("button", name="Close").click()
    page.evaluate("scrollTo(0, 0)")
    walk = Walk(page)
    page.get_by_role("button", name="Ablate layer 1, head 2").click()
    page.wait_for_selector("table.bars .before")
    walk.end("table.bars", ".thumb.off", clicks=2)


def test_practice_sheet_is_solved_and_scored(visit: OpenPage) -> None:
    solution = make_sheet("self", count=1, level=1).exercises[0].problem.solve()
    page = visit("#practice?kind=self&level=1&count=1", ready="figure[data-key=Q]")
    walk = Walk(page)
    locate_cell(page, "Q", 0, 0).click()
    for key in solution.keys():  # noqa: SIM118
        for i, row in enumerate(solution[key]):
            locate_cell(page, key, i, 0).focus()
            for value in row:
                page.keyboard.type(f"{value:.3f}")
                page.keyboard.press("Tab")
    page.get_by_text("Score: 1 of 1 solved, 0 hints").wait_for()
    walk.end("p.score", clicks=1)
    assert find_violations_in_both_schemes(page) == []
