"""The frame of all screens: keyboard, screen readers, widths, print, history, links."""

from urllib.parse import quote

import pytest
from pages import (
    OpenPage,
    choose_lecture,
    find_violations_in_both_schemes,
    first_problem,
    has_no_sideways_scroll,
    locate_cell,
    tab_until,
    wait_for_numbers,
)

FOCUSED = """(() => {
  const element = document.activeElement;
  return `${element.tagName} ${element.closest('figure')?.dataset.key ?? element.textContent}`;
})()"""


def test_keyboard(visit: OpenPage) -> None:
    page = visit()
    focused = tab_until(page, FOCUSED, "TD X")
    assert focused[0] == "A Skip to the content"
    assert "A Check" in focused
    for key, cell in (
        ("ArrowRight", "0 1"),
        ("ArrowDown", "1 1"),
        ("End", "1 2"),
        ("Control+Home", "0 0"),
        ("ArrowUp", "0 0"),
    ):
        page.keyboard.press(key)
        position = (
            "document.activeElement.dataset.row + ' ' + document.activeElement.dataset.column"
        )
        assert page.evaluate(position) == cell
    page.keyboard.press("5")  # starts editing
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.column") == "1"
    wait_for_numbers(page, first_problem(X=[[5, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")
    page.keyboard.press("Enter")
    page.keyboard.type("9")
    page.keyboard.press("Escape")  # cancels editing
    wait_for_numbers(page, first_problem(X=[[5, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")


def test_screen_reader_names(visit: OpenPage) -> None:
    page = visit()
    snapshot = page.locator("main").aria_snapshot()
    assert 'grid "X, 3 by 3"' in snapshot
    assert 'grid "weights, 3 by 3"' in snapshot
    assert 'group "Mask"' in snapshot
    assert 'radio "causal"' in snapshot
    assert 'rowheader "cat"' in snapshot
    page.locator('input[name="mask"][value="causal"]').check()
    page.wait_for_selector("figure[data-key=masked]")
    assert "−∞ (masked)" in page.locator("figure[data-key=masked]").aria_snapshot()


def test_accessibility(visit: OpenPage) -> None:
    pytest.importorskip("axe_playwright_python")
    page = visit(reduced_motion="reduce")
    locate_cell(page, "weights", 1, 1).hover()
    page.wait_for_selector(".dock .formula")
    assert find_violations_in_both_schemes(page) == []
    page.get_by_role("link", name="Check").click()
    page.wait_for_selector(".empty")
    choose_lecture(page, "L2-self", ".finding")
    assert find_violations_in_both_schemes(page) == []


@pytest.mark.parametrize("screen", ["work", "check"])
def test_markup_in_names_stays_text(visit: OpenPage, screen: str) -> None:
    names = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x" * 10_000]
    tokens = ",".join(quote(name, safe="") for name in names)
    title = quote("<b onclick=alert(1)>bold</b>", safe="")
    query = f"title={title}&tokens={tokens}&given.X=1,0;0,1;1,1&claim.scores=1,0,1;0,1,1;1,1,9"
    page = visit(f"#{screen}?{query}", width=320)
    page.wait_for_selector("figure[data-key=scores]")
    assert page.locator("main script, main img").count() == 0
    headers = page.locator("figure[data-key=scores] th[scope=row]").all_text_contents()
    assert headers == names
    assert has_no_sideways_scroll(page)


def test_no_sideways_scroll(visit: OpenPage) -> None:
    page = visit(width=320)
    choose_lecture(page, "L2-masked", "figure[data-key=masked]")
    widths = (320, 768, 3840)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert has_no_sideways_scroll(page), width
    page.evaluate("document.querySelector('a[data-screen=check]').click()")
    page.wait_for_selector(".checked-steps li")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert has_no_sideways_scroll(page), width


def test_page_without_runs_names_the_commands(visit: OpenPage) -> None:
    page = visit(width=320)
    page.route("**/api/runs", lambda route: route.fulfill(json=[]))
    page.evaluate("location.hash = '#inspect'")
    page.reload()
    assert "workings train emoji" in page.locator(".empty pre").inner_text()
    assert has_no_sideways_scroll(page)


def test_row_names_align_with_numbers(visit: OpenPage) -> None:
    page = visit()
    heights = page.evaluate(
        """[...document.querySelectorAll('figure.matrix tbody tr')].map(row =>
        [row, row.querySelector('th')].map(element => element.getBoundingClientRect().height))"""
    )
    assert heights
    assert all(row == pytest.approx(name) for row, name in heights)


def test_print_hides_controls(visit: OpenPage) -> None:
    page = visit()
    page.emulate_media(media="print")
    for hidden in (".top", ".dock", ".toggles", ".lines"):
        assert page.locator(hidden).first.is_hidden()
    assert page.locator("figure[data-key=mixed]").is_visible()


def test_back_and_forward(visit: OpenPage) -> None:
    page = visit()
    page.locator('input[name="mask"][value="causal"]').check()
    page.get_by_role("link", name="Check").click()
    page.wait_for_selector("main.check")
    page.go_back()
    page.wait_for_selector("figure[data-key=masked]")
    page.go_forward()
    page.wait_for_selector("main.check")
    page.go_back()
    page.wait_for_selector("figure[data-key=masked]")
    page.get_by_role("button", name="Undo").click()  # undoes the mask: going back is no change
    page.wait_for_selector("figure[data-key=masked]", state="detached")


def test_unknown_screen_in_address_shows_home(visit: OpenPage) -> None:
    for name in ("nothing", "toString", "__proto__"):
        visit(f"#{name}").wait_for_selector("main.home figure[data-key=weights]")


def test_address_with_a_problem_alone_shows_work(visit: OpenPage) -> None:
    visit("#?given.X=1,0;0,1").wait_for_selector("main.work figure[data-key=weights]")


def test_copy_link(visit: OpenPage) -> None:
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copy it from the address bar").wait_for()
