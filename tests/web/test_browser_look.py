"""The screen Look in a real browser: every number is Python's, by pointer and by keyboard."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pages import short, violations

from workings.interpret.attention_maps import compute_attention_maps
from workings.interpret.heads import read_head
from workings.training.runs import load
from workings.web.server import serve_in_background

TEXT = 'He said "well'
Open = Callable[..., Any]
DRAWN = "performance.getEntriesByName('map').at(-1).duration"


@pytest.fixture(scope="module")
def address(runs: dict[str, Path]) -> Iterator[str]:
    """A server that has runs."""
    with serve_in_background([*runs.values()]) as address:
        yield address


def look(run: str, text: str = TEXT, **more: Any) -> str:
    said = "".join(f"&{name}={quote(str(value), safe='')}" for name, value in more.items())
    return f"#inspect?run={run}&text={quote(text, safe='')}{said}"


def shown(page: Any) -> list[list[str]]:
    rows: list[list[str]] = page.evaluate(
        """[...document.querySelectorAll('figure.map.table-map tbody tr')]
        .map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"""
    )
    return rows


def expected(run: Path, k: int) -> list[list[str]]:
    weights = compute_attention_maps(load(run), TEXT).maps[k].weights
    return [
        [short(w) if j <= i else "masked" for j, w in enumerate(row)]
        for i, row in enumerate(weights)
    ]


def readout(page: Any) -> str:
    text: str = page.locator(".map .readout").inner_text()
    return text


def test_hover_shows_a_head_and_click_keeps_it(visit: Open, runs: dict[str, Path]) -> None:
    page = visit(look("gpt"))
    page.wait_for_selector('figure.map[data-name="layer 1, head 1"]')
    assert shown(page) == expected(runs["gpt"], 0)
    page.locator('.thumb[data-layer="2"][data-head="1"]').hover()
    page.wait_for_selector('figure.map[data-name="layer 2, head 1"]')
    assert shown(page) == expected(runs["gpt"], 2)
    page.locator("h2").first.hover()
    page.wait_for_selector('figure.map[data-name="layer 1, head 1"]')
    page.locator('.thumb[data-layer="1"][data-head="2"]').click()
    page.locator("h2").first.hover()
    page.wait_for_selector('figure.map[data-name="layer 1, head 2"]')
    assert shown(page) == expected(runs["gpt"], 1)
    page.wait_for_function("() => location.hash.includes('head=2')")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector('figure.map[data-name="layer 1, head 1"]')


def test_each_screen_has_its_own_undo_history(visit: Open) -> None:
    page = visit(look("gpt"))
    undo = page.get_by_role("button", name="Undo")
    page.locator('.thumb[data-layer="1"][data-head="2"]').click()
    page.wait_for_selector('figure.map[data-name="layer 1, head 2"]')
    page.get_by_role("link", name="Work", exact=True).click()
    page.wait_for_selector("figure[data-key=weights]")
    assert undo.get_attribute("aria-disabled") == "true"
    page.get_by_role("link", name="Inspect").click()
    page.wait_for_selector('figure.map[data-name="layer 1, head 2"]')
    undo.click()
    page.wait_for_selector('figure.map[data-name="layer 1, head 1"]')


def test_every_bar_is_pythons(visit: Open, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    page = visit(look("gpt"))
    page.wait_for_selector("table.bars")
    (first,) = task.stream(TEXT, 1, num_alternatives=12)
    wanted = [f"{100 * p:.1f} %" for _, p in first.alternatives]
    assert page.locator("table.bars td.now").all_inner_texts() == wanted
    for text in ("well, ", ""):
        page.get_by_role("textbox").fill(text)
        (then,) = task.stream(text, 1, num_alternatives=1)
        page.wait_for_function(
            "wanted => document.querySelector('table.bars td.now').textContent === wanted",
            arg=f"{100 * then.alternatives[0][1]:.1f} %",
        )


def test_a_cell_by_keyboard_to_its_working_and_to_work(visit: Open, runs: dict[str, Path]) -> None:
    page = visit(look("gpt", layer=2, head=2))
    page.wait_for_selector('figure.map[data-name="layer 2, head 2"]')
    page.locator("figure.map td[tabindex='0']").focus()
    for key in ["ArrowDown"] * 5 + ["ArrowRight"] * 3 + ["Enter"]:
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('row=5&column=3')")
    head = read_head(load(runs["gpt"]), TEXT, 2, 2)
    weight = head.traced_steps["weights"][5, 3]
    assert readout(page).split() == ["i", "6", "→", "s", "4", f"{weight:.4f}", "pinned"]
    page.get_by_role("button", name="Show the working").press("Enter")
    page.wait_for_selector(".derivation")
    cell = head.cell("weights", 6, 4)
    said = page.locator(".derivation .formula").last.get_attribute("aria-label")
    assert said == cell.to_dict()["working"]
    page.get_by_role("button", name="Open this head in Work").press("Enter")
    page.wait_for_selector("figure[data-key=weights]")
    page.wait_for_selector(".dock .formula")
    assert page.locator(".dock .tokens").inner_text() == "i attends to s"
    exact = page.locator(
        'figure[data-key=weights] td[data-row="5"][data-column="3"]'
    ).get_attribute("title")
    assert float(exact) == pytest.approx(head.problem.exact_matrices["weights"].mid[5, 3])
    page.go_back()
    page.wait_for_selector('figure.map[data-name="layer 2, head 2"]')


def test_a_working_goes_when_it_is_no_longer_of_what_is_seen(visit: Open) -> None:
    page = visit(look("gpt", row=5, column=3))
    dock = page.locator(".inspect-dock")

    def work() -> None:
        page.get_by_role("button", name="Show the working").click()
        dock.wait_for()

    work()
    page.locator('.thumb[data-layer="2"][data-head="2"]').click()
    dock.wait_for(state="hidden")
    work()
    assert "Layer 2, head 2" in dock.inner_text()
    page.get_by_role("button", name="Switch this head off").click()
    dock.wait_for(state="hidden")
    work()
    page.get_by_role("textbox").fill("said he")
    dock.wait_for(state="hidden")


def test_a_head_that_another_run_lacks_is_no_longer_pointed_at(visit: Open) -> None:
    page = visit(look("gpt"))
    page.locator('.thumb[data-layer="2"][data-head="2"]').hover()
    page.wait_for_selector('figure.map[data-name="layer 2, head 2"]')
    page.evaluate("text => { location.hash = text; }", look("looks", "one red cat"))
    page.wait_for_selector(".generated")
    page.wait_for_selector("figure.map")
    assert page.locator(".status").text_content() == ""


def test_a_head_in_small_is_all_of_it(visit: Open) -> None:
    page = visit(look("french", "red", part="cross"))
    page.wait_for_selector(".thumb canvas")
    box, drawn = (page.locator(one).first.bounding_box() for one in (".thumb", ".thumb canvas"))
    assert drawn["height"] <= box["height"]
    assert drawn["width"] <= box["width"]


def test_a_run_that_is_not_there_is_missed(visit: Open) -> None:
    page = visit(look("nobody", "x", scene=999))
    assert "The run “nobody” was not found" in page.locator(".missing").inner_text()
    page.locator("select").first.select_option("squares")
    page.get_by_role("button", name="Decrease Scene").click()
    page.wait_for_function(
        "() => document.querySelector('.photo figcaption')?.textContent.startsWith('scene 200')"
    )
    assert page.locator(".missing").inner_text() == ""


def test_no_text_is_not_the_first_text(visit: Open) -> None:
    page = visit(look("gpt"))
    page.wait_for_selector("figure.map")
    page.get_by_role("textbox").fill("")
    page.locator(".attention").wait_for(state="hidden")  # there is nothing to look at
    page.get_by_role("textbox").blur()
    assert page.get_by_role("textbox").input_value() == ""
    page.locator("select").first.select_option("rotary")
    page.wait_for_selector("figure.map")
    assert page.get_by_role("textbox").input_value() == "The first "


def test_a_head_is_switched_off_and_on(visit: Open) -> None:
    page = visit(look("gpt"))
    before = page.locator("table.bars td.now").all_inner_texts()
    page.get_by_role("button", name="Switch this head off").click()
    page.wait_for_selector(".thumb.off")
    heads = page.locator("table.bars thead th").all_inner_texts()
    assert heads[-2:] == ["before", "points"]
    assert page.get_by_role("button", name="Layer 1, head 1, switched off").count() == 1
    page.get_by_role("button", name="Switch all heads on").click()
    page.wait_for_function("() => !document.querySelector('.thumb.off')")
    assert page.locator("table.bars td.now").all_inner_texts() == before


def test_a_text_goes_on(visit: Open, runs: dict[str, Path]) -> None:
    task: Any = load(runs["lstm"])
    page = visit(look("lstm"))
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector(".continuation")
    whole = task.complete(TEXT, 40)
    assert page.locator(".continuation").text_content() == whole
    page.locator(".continuation .token").first.hover()
    page.wait_for_selector(".alternatives table.bars")
    page.get_by_role("button", name="Inspect the full text").click()
    page.wait_for_function("whole => document.querySelector('textarea').value === whole", arg=whole)


def test_what_else_was_likely_is_read_with_the_keyboard(visit: Open, runs: dict[str, Path]) -> None:
    page = visit(look("gpt"))
    page.get_by_role("button", name="Generate").click()
    page.locator(".continuation").focus()
    page.keyboard.press("ArrowRight")
    (first,) = load(runs["gpt"]).stream(TEXT, 1, num_alternatives=5)  # type: ignore[attr-defined]
    wanted = [f"{100 * p:.1f} %" for _, p in first.alternatives]
    assert page.locator(".alternatives td.now").all_inner_texts() == wanted


def test_what_nobody_waits_for_is_not_written_on(visit: Open) -> None:
    page = visit(look("lstm"))
    page.route("**/api/inspect/complete", lambda _: None)  # a model that takes its time
    leave = page.get_by_role("link", name="Work", exact=True)
    choose = page.locator("select").first
    for other in (lambda: choose.select_option("gpt"), leave.click):
        page.get_by_role("button", name="Generate").click()
        page.get_by_role("button", name="Stop").wait_for()
        with page.expect_event("requestfailed") as given_up:
            other()
        assert given_up.value.url.endswith("/api/inspect/complete")
        page.wait_for_selector("table.bars, figure.matrix")


def test_cells_are_laid_over_the_text(visit: Open) -> None:
    page = visit(look("lstm"))
    page.wait_for_selector(".strip .token")
    assert page.locator(".strip .token").count() == len(TEXT)
    name = page.locator(".token-strip").get_attribute("data-name")
    page.get_by_role("button", name="Increase Neuron").click()
    page.wait_for_function(
        "name => document.querySelector('.token-strip').dataset.name !== name", arg=name
    )
    page.locator(".strip").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".token-strip .readout .number").inner_text()


def test_other_kinds_of_runs(visit: Open, runs: dict[str, Path]) -> None:
    page = visit(look("fruit", "fig <b> plum"))
    page.wait_for_selector(".token-strip[data-name=occlusion]")
    assert page.locator(".token-strip").first.locator(".token").all_inner_texts() == [
        "fig", "<b>", "plum",
    ]  # fmt: skip
    page.locator("select").first.select_option("french")
    page.wait_for_selector(".generated")
    page.get_by_role("textbox").fill("one red cat")
    page.get_by_role("textbox").blur()
    page.wait_for_function(
        "wanted => document.querySelector('.generated .words').textContent === wanted",
        arg=next(load(runs["french"]).best(["one red cat"])) or "(empty)",  # type: ignore[attr-defined]
    )
    page.wait_for_selector('figure.map[data-name="mean of 4 heads"]')
    page.locator('input[name="part"][value="cross"]').click()
    page.wait_for_selector('figure.map[data-name="layer 1, head 1"]')
    page.locator("select").first.select_option("squares")
    page.wait_for_selector(".captioned .photo img")
    task: Any = load(runs["squares"])
    pixels = base64.b64decode(
        page.locator(".captioned .photo img").get_attribute("src").split(",")[1]
    )
    assert pixels.startswith(b"\x89PNG")
    assert task.recipe.data.pixels == page.evaluate(
        "document.querySelector('.captioned img').naturalWidth"
    )


def test_a_picture_of_ones_own(visit: Open, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (900, 700), "#204060").save(tmp_path / "blue.png")
    page = visit(look("squares", "", scene=2))
    page.wait_for_selector(".captioned")
    page.set_input_files("input[type=file]", tmp_path / "blue.png")
    page.wait_for_selector("text=Back to the scenes")
    page.wait_for_function(
        "() => document.querySelector('.photo figcaption').textContent === 'your picture'"
    )
    page.get_by_role("button", name="Back to the scenes").click()
    page.wait_for_function(
        "() => document.querySelector('.photo figcaption').textContent.startsWith('scene 2')"
    )


def test_a_large_map_is_drawn_with_a_table_behind_it(visit: Open) -> None:
    text = ("she said well, " * 35)[:512]
    page = visit(look("rotary", text))
    page.wait_for_selector(".drawing canvas")
    assert page.evaluate("document.querySelector('.drawing canvas').width") == 512
    assert page.evaluate(DRAWN) > 0  # for whoever wants to know: a bar of ours is 100 ms
    page.locator(".drawing").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('row=2&column=1')")
    assert "pinned" in readout(page)
    page.get_by_text("Show as a table").click()
    page.wait_for_function("() => document.querySelectorAll('.data-table tbody tr').length === 512")
    page.get_by_role("button", name="Show the working").click()
    page.wait_for_selector(".derivation")
    assert "too large for Work" in page.locator(".derivation").inner_text()


def test_by_ear(visit: Open) -> None:
    page = visit(look("gpt"))
    page.wait_for_selector("figure.map")
    told = page.locator("main").aria_snapshot()
    assert 'grid "layer 1, head 1 of the decoder, 13 by 13"' in told
    assert 'group "Heads of the decoder"' in told
    assert 'button "Layer 1, head 1" [pressed]' in told
    assert 'rowheader "␣"' in told
    assert 'table "How likely each token is to come next"' in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("run", ["gpt", "french", "lstm", "squares"])
def test_axe_finds_nothing_serious(visit: Open, run: str, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python")
    page = visit(look(run, "one red cat"), color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_selector("table.bars, .generated")
    page.wait_for_timeout(300)
    if run == "gpt":
        page.locator("summary", has_text="Position encodings").click()
        page.locator("figure.map td[tabindex='0']").click()
        page.get_by_role("button", name="Show the working").click()
        page.wait_for_selector(".derivation")
        page.wait_for_selector(".side-by-side .drawing")
    assert violations(page) == []


@pytest.mark.parametrize("run", ["gpt", "fruit", "french", "lstm", "squares"])
def test_no_sideways_scroll_and_words_stay_words(visit: Open, run: str) -> None:
    nasty = '<script>alert(1)</script> "><img src=x onerror=alert(1)> ' + "x" * 300
    page = visit(look(run, nasty), width=320)
    page.wait_for_selector("table.bars, .generated")
    page.wait_for_timeout(300)
    assert page.locator("main script").count() == 0
    assert page.locator("main img[src=x]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_what_is_refused_is_said(visit: Open) -> None:
    page = visit(look("fruit", " "))
    page.wait_for_function(
        "() => document.querySelector('.status').textContent.includes('write a text')"
    )


def test_without_runs_the_page_says_how_to_get_one(browser: Any) -> None:
    with serve_in_background() as address:
        page = browser.new_page()
        page.goto(f"{address}/#inspect")
        page.wait_for_selector(".empty")
        assert "workings serve runs/emoji" in page.locator(".empty").inner_text()
        page.close()
