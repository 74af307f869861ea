"""The screen Compare in a browser: maps, pairs, permutations, captions, by keyboard."""

from typing import Any

import pytest
from pages import OpenPage, find_violations, has_no_sideways_scroll, tab_until
from starlette.testclient import TestClient

MAP = ".compared-maps td[data-row]"


def read_map(page: Any, index: int) -> list[list[str]]:
    """Return the texts of one of the three maps on the page."""
    rows: list[list[str]] = page.evaluate(
        """k => [...document.querySelectorAll('.compared-attention .compared-maps > div')[k]
        .querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td')]
        .map(cell => cell.textContent))""",
        index,
    )
    return rows


def test_maps_and_pairs_equal_api(visit: OpenPage, runs_client: TestClient) -> None:
    page = visit("#compare?a=gpt&b=rotary&text=said", ready=MAP)
    body = {"first": {"run": "gpt", "text": "said"}, "second": {"run": "rotary", "text": "said"}}
    view = runs_client.post("/api/compare", json=body).json()
    for k, heatmap in enumerate(view["maps"]):
        texts = [[text or "masked" for text in row] for row in heatmap["texts"]]
        assert read_map(page, k) == texts
    assert page.locator("table.pairs tbody tr").all_text_contents() == [
        pair["name"] + pair["text"] + pair["other_text"] + pair["change"] for pair in view["pairs"]
    ]
    page.wait_for_selector(".charts figure.chart svg")
    assert page.locator(".settings-diff tbody tr").count() > 1
    before = read_map(page, 2)
    page.locator('button[data-control="Head1"]').click()
    page.wait_for_function("() => location.hash.includes('head=2')")
    page.wait_for_function(
        """before => JSON.stringify([...document
        .querySelectorAll('.compared-attention .compared-maps > div')[2]
        .querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td')]
        .map(cell => cell.textContent))) !== JSON.stringify(before)""",
        arg=before,
    )
    page.locator(MAP).first.click()
    assert page.locator(".compared-attention td.pinned").count() == 3
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => !location.hash.includes('head=2')")


def test_permutation(visit: OpenPage, runs_client: TestClient) -> None:
    page = visit("#compare?a=fruit&mode=permuted&text=fig+tin+pear", ready=MAP)
    snapshot = page.locator("main").aria_snapshot()
    for part in (
        'heading "Compare" [level=1]',
        'group "Order"',
        'list "P X"',
        'rowheader "layer 2"',
        'grid "B minus A, 3 by 3"',
    ):
        assert part in snapshot, part
    body = {"run": "fruit", "text": "fig tin pear"}
    view = runs_client.post("/api/permute", json=body).json()
    assert page.locator(".residual").text_content() == view["residual"]
    tokens = view["tokens"] + view["permuted_tokens"]
    assert page.locator(".permutation li").all_text_contents() == tokens
    page.locator('input[name="positions"][value="off"]').check()
    page.wait_for_function(
        "() => document.querySelector('.verdict').textContent.includes('up to rounding')"
    )
    page.locator('input[name="order"][value="shuffled"]').check()
    page.locator('button[data-control="Seed1"]').click()
    page.wait_for_function("() => location.hash.includes('seed=2')")
    page.locator('input[name="mode"][value="inputs"]').check()
    page.wait_for_function("() => !document.querySelector('.residual')")


def test_error_is_shown_and_next_answer_replaces_it(visit: OpenPage) -> None:
    page = visit("#compare?a=fruit&mode=permuted&text=fig+tin", ready=".permutation li")
    page.locator("main select").first.select_option("squares")
    page.wait_for_selector(".status:not(:empty)")
    assert page.locator(".permutation li").count() == 0
    assert "it has no tokens to permute" in page.locator(".status").text_content()
    page.locator("main select").first.select_option("fruit")
    page.wait_for_selector(MAP)
    assert page.locator(".status").text_content() == ""


def test_captions(visit: OpenPage) -> None:
    page = visit("#compare?a=grids&b=squares&mode=runs", ready=".captioned")
    assert page.locator(".captioned .photo img").count() == 2
    assert page.get_by_role("textbox").count() == 0
    page.locator('input[name="mode"][value="inputs"]').click()
    page.get_by_role("button", name="Increase Scene B").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.photo figcaption')].at(-1)"
        ".textContent.startsWith('scene 3')"
    )
    page.wait_for_selector(".compared-maps .drawing canvas")


def test_other_run_begins_with_its_first_head(visit: OpenPage) -> None:
    query = "a=french&mode=inputs&part=encoder&layer=2&text=red+dog&other=red+cat"
    page = visit(f"#compare?{query}", ready=MAP)
    caption = page.locator(".compared-attention figcaption").first
    assert caption.text_content().startswith("A: layer 2, head 1")
    page.locator("main select").first.select_option("gpt")
    page.wait_for_selector("table.pairs")
    assert caption.text_content().startswith("A: layer 1, head 1")
    assert page.locator(".status").text_content() == ""


@pytest.mark.parametrize("mode", ["runs", "inputs", "permuted"])
def test_accessibility(visit: OpenPage, mode: str) -> None:
    pytest.importorskip("axe_playwright_python")
    a, b = ("gpt", "rotary") if mode == "runs" else ("fruit", "fruit")
    query = f"#compare?a={a}&b={b}&mode={mode}&text=fig+tin"
    page = visit(query, ready=MAP, reduced_motion="reduce")
    if mode == "runs":
        page.wait_for_selector(".charts figure.chart svg")
    for scheme, width in (("light", 1440), ("dark", 320)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert find_violations(page) == []
        assert has_no_sideways_scroll(page)


def test_markup_in_text_stays_text(visit: OpenPage) -> None:
    markup = "<script>alert(1)</script> <img src=x onerror=alert(1)> " + "x" * 1900
    page = visit("#compare?a=gpt&b=rotary", width=320, ready=MAP)
    page.get_by_label("Input", exact=True).fill(markup)
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('script')")
    page.wait_for_function("() => !document.querySelector('main.stale')")
    assert page.locator("main script, main img").count() == 0
    assert has_no_sideways_scroll(page)


def test_keyboard(visit: OpenPage) -> None:
    page = visit("#compare?a=gpt&b=rotary&text=said", ready=MAP)
    tags = tab_until(
        page, "document.activeElement.closest('td, input, main select')?.tagName", "TD"
    )
    assert tags.count("SELECT") == 2
    assert "INPUT" in tags
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".compared-attention td.pinned").count() == 3
