"""Every screen: by keyboard and by ear, at every width, in print, with anybody's words."""

from urllib.parse import quote

import pytest
from pages import Open, cell, expect_numbers, first_problem, lecture, violations

FOCUSED = """(() => {
  const here = document.activeElement;
  return `${here.tagName} ${here.closest('figure')?.dataset.key ?? here.textContent}`;
})()"""


def test_by_keyboard_alone(visit: Open) -> None:
    page = visit()
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if seen[-1].startswith("TD X"):
            break
    assert seen[0] == "A Skip to the content"
    assert "A Check" in seen
    assert seen[-1] == "TD X"
    for key, place in (
        ("ArrowRight", "0 1"),
        ("ArrowDown", "1 1"),
        ("End", "1 2"),
        ("Control+Home", "0 0"),
        ("ArrowUp", "0 0"),
    ):
        page.keyboard.press(key)
        assert (
            page.evaluate(
                "document.activeElement.dataset.row + ' ' + document.activeElement.dataset.column"
            )
            == place
        )
    page.keyboard.press("5")  # writing begins
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.column") == "1"
    expect_numbers(page, first_problem(X=[[5, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")
    page.keyboard.press("Enter")
    page.keyboard.type("9")
    page.keyboard.press("Escape")  # and is given up
    expect_numbers(page, first_problem(X=[[5, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")


def test_what_a_screen_reader_is_told(visit: Open) -> None:
    page = visit()
    told = page.locator("main").aria_snapshot()
    assert 'grid "X, 3 by 3"' in told
    assert 'grid "weights, 3 by 3"' in told
    assert 'group "Mask"' in told
    assert 'radio "causal"' in told
    assert 'rowheader "cat"' in told
    page.locator('input[name="mask"][value="causal"]').check()
    page.wait_for_selector("figure[data-key=masked]")
    assert "−∞ (masked)" in page.locator("figure[data-key=masked]").aria_snapshot()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Open, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python")
    page = visit(color_scheme=scheme, reduced_motion="reduce")
    cell(page, "weights", 1, 1).hover()
    page.wait_for_selector(".dock .formula")
    assert violations(page) == []
    page.get_by_role("link", name="Check").click()
    page.wait_for_selector(".empty")
    lecture(page, "L2-self", ".finding")
    assert violations(page) == []
    page.get_by_role("button", name="Problem sheet").click()
    assert violations(page) == []


@pytest.mark.parametrize("screen", ["work", "check"])
def test_any_words_stay_words(visit: Open, screen: str) -> None:
    nasty = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x" * 10_000]
    tokens = ",".join(quote(token, safe="") for token in nasty)
    title = quote("<b onclick=alert(1)>bold</b>", safe="")
    said = f"title={title}&tokens={tokens}&given.X=1,0;0,1;1,1&claim.scores=1,0,1;0,1,1;1,1,9"
    page = visit(f"#{screen}?{said}", width=320)
    page.wait_for_selector("figure[data-key=scores]")
    assert page.locator("main script, main img").count() == 0
    heads = page.locator("figure[data-key=scores] th[scope=row]").all_text_contents()
    assert heads == nasty
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("width", [320, 768, 3840])
def test_no_sideways_scroll(visit: Open, width: int) -> None:
    page = visit(width=width)
    lecture(page, "L2-masked", "figure[data-key=masked]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelector('a[data-screen=check]').click()")
    page.wait_for_selector(".checked-steps li")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_of_rows_are_level_with_their_numbers(visit: Open) -> None:
    page = visit()
    heights = page.evaluate(
        """[...document.querySelectorAll('figure.matrix tbody tr')].map(row =>
        [row, row.querySelector('th')].map(one => one.getBoundingClientRect().height))"""
    )
    assert heights
    assert all(row == pytest.approx(name) for row, name in heights)


def test_it_prints_without_its_buttons(visit: Open) -> None:
    page = visit()
    page.emulate_media(media="print")
    for hidden in (".top", ".dock", ".toggles", ".lines"):
        assert page.locator(hidden).first.is_hidden()
    assert page.locator("figure[data-key=mixed]").is_visible()


def test_back_leads_to_the_screen_before(visit: Open) -> None:
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
    page.get_by_role("button", name="Undo").click()  # of the mask: coming back was no change
    page.wait_for_selector("figure[data-key=masked]", state="detached")


@pytest.mark.parametrize("name", ["nothing", "toString", "__proto__"])
def test_an_address_of_no_screen_is_work(visit: Open, name: str) -> None:
    page = visit(f"#{name}")
    page.wait_for_selector("main.work figure[data-key=weights]")


def test_a_link_is_said_to_be_copied_only_where_it_is(visit: Open) -> None:
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copy it from the address bar").wait_for()
