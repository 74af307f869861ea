"""The screen Inspect in a browser: all numbers equal Python's, by pointer and by keyboard."""

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pages import OpenPage, find_violations_in_both_schemes, format_weight, has_no_sideways_scroll

from workings.interpret.attention import compute_attention_maps
from workings.interpret.heads import read_head
from workings.training.runs import load
from workings.web.server import serve_in_background

TEXT = 'He said "well'


def fragment(run: str, text: str = TEXT, **view: Any) -> str:
    """Return the fragment of an address that shows a run on a text."""
    options = "".join(f"&{name}={quote(str(value), safe='')}" for name, value in view.items())
    return f"#inspect?run={run}&text={quote(text, safe='')}{options}"


def map_of(layer: int, head: int) -> str:
    """Return the selector of the large map of a head."""
    return f'figure.map[data-name="layer {layer}, head {head}"]'


def thumbnail_of(layer: int, head: int) -> str:
    """Return the selector of a head's thumbnail."""
    return f'.thumb[data-layer="{layer}"][data-head="{head}"]'


def read_map(page: Any) -> list[list[str]]:
    rows: list[list[str]] = page.evaluate(
        """[...document.querySelectorAll('figure.map.table-map tbody tr')]
        .map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"""
    )
    return rows


def format_causal_map(run: Path, k: int) -> list[list[str]]:
    weights = compute_attention_maps(load(run), TEXT).maps[k].weights
    return [
        [format_weight(w) if j <= i else "masked" for j, w in enumerate(row)]
        for i, row in enumerate(weights)
    ]


def readout(page: Any) -> str:
    text: str = page.locator(".map .readout").inner_text()
    return text


def test_hover_shows_head_and_click_keeps_it(visit: OpenPage, runs: dict[str, Path]) -> None:
    page = visit(fragment("gpt"))
    page.wait_for_selector(map_of(1, 1))
    snapshot = page.locator("main").aria_snapshot()
    assert 'grid "layer 1, head 1 of the decoder, 13 by 13"' in snapshot
    assert 'group "Heads of the decoder"' in snapshot
    assert 'button "Layer 1, head 1" [pressed]' in snapshot
    assert 'rowheader "␣"' in snapshot
    assert 'table "Probability of the next token"' in snapshot
    assert read_map(page) == format_causal_map(runs["gpt"], 0)
    page.locator(thumbnail_of(2, 1)).hover()
    page.wait_for_selector(map_of(2, 1))
    assert read_map(page) == format_causal_map(runs["gpt"], 2)
    page.get_by_text("Drawn as").hover()
    page.wait_for_selector(map_of(1, 1))
    page.locator(thumbnail_of(1, 2)).click()
    page.get_by_text("Drawn as").hover()
    page.wait_for_selector(map_of(1, 2))
    assert read_map(page) == format_causal_map(runs["gpt"], 1)
    page.wait_for_function("() => location.hash.includes('head=2')")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(map_of(1, 1))


def test_each_screen_has_its_own_undo_history(visit: OpenPage) -> None:
    page = visit(fragment("gpt"))
    undo = page.get_by_role("button", name="Undo")
    page.locator(thumbnail_of(1, 2)).click()
    page.wait_for_selector(map_of(1, 2))
    page.get_by_role("link", name="Work", exact=True).click()
    page.wait_for_selector("figure[data-key=weights]")
    assert undo.get_attribute("aria-disabled") == "true"
    page.get_by_role("link", name="Inspect").click()
    page.wait_for_selector(map_of(1, 2))
    undo.click()
    page.wait_for_selector(map_of(1, 1))


def test_bars_equal_library(visit: OpenPage, runs: dict[str, Path]) -> None:
    task: Any = load(runs["gpt"])
    page = visit(fragment("gpt"))
    page.wait_for_selector("table.bars")
    (token,) = task.stream(TEXT, 1, num_alternatives=12)
    expected = [f"{100 * p:.1f} %" for _, p in token.alternatives]
    assert page.locator("table.bars td.now").all_inner_texts() == expected
    for text in ("well, ", ""):
        page.get_by_role("textbox").fill(text)
        (token,) = task.stream(text, 1, num_alternatives=1)
        page.wait_for_function(
            "expected => document.querySelector('table.bars td.now').textContent === expected",
            arg=f"{100 * token.alternatives[0][1]:.1f} %",
        )


def test_keyboard_from_cell_to_working_to_work(visit: OpenPage, runs: dict[str, Path]) -> None:
    page = visit(fragment("gpt", layer=2, head=2))
    page.wait_for_selector(map_of(2, 2))
    page.locator("figure.map td[tabindex='0']").focus()
    for key in ["ArrowDown"] * 5 + ["ArrowRight"] * 3 + ["Enter"]:
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('row=5&column=3')")
    head = read_head(load(runs["gpt"]), TEXT, 2, 2)
    weight = head.model_steps["weights"][5, 3]
    assert readout(page).split() == ["i", "6", "→", "s", "4", f"{weight:.4f}", "pinned"]
    page.wait_for_selector(".derivation")
    working = page.locator(".derivation .formula").last.get_attribute("aria-label")
    assert working == head.cell("weights", 6, 4).to_dict()["working"]
    page.get_by_role("button", name="Open in Work").press("Enter")
    page.wait_for_selector("figure[data-key=weights]")
    page.wait_for_selector(".dock .formula")
    assert page.locator(".dock .tokens").inner_text() == "query i, key s"
    cell = page.locator('figure[data-key=weights] td[data-row="5"][data-column="3"]')
    exact = head.problem.exact_matrices["weights"].mid[5, 3]
    assert float(cell.get_attribute("title")) == pytest.approx(exact)
    page.go_back()
    page.wait_for_selector(map_of(2, 2))


def test_working_follows_the_head_and_closes_with_the_text(visit: OpenPage) -> None:
    page = visit(fragment("gpt", row=5, column=3))
    dock = page.locator(".inspect-dock")
    dock.filter(has_text="Layer 1, head 1").wait_for()
    page.locator(thumbnail_of(2, 2)).click()
    dock.filter(has_text="Layer 2, head 2").wait_for()
    page.get_by_role("button", name="Close").click()
    dock.wait_for(state="hidden")
    page.locator("figure.map td:not(.masked)").last.click()
    dock.wait_for()
    page.get_by_role("textbox").fill("another text")
    dock.wait_for(state="hidden")


def test_lines_from_queries_to_keys(visit: OpenPage, runs: dict[str, Path]) -> None:
    page = visit(fragment("gpt", layer=2, head=1, form="lines"), ready=".token-lines")
    weights = compute_attention_maps(load(runs["gpt"]), TEXT).maps[2].weights
    lines = page.evaluate(
        """[...document.querySelectorAll('.token-lines path')].map(
        ({ dataset }) => [Number(dataset.row), Number(dataset.column)])"""
    )
    visible = [
        [i, j] for i, row in enumerate(weights) for j, w in enumerate(row) if j <= i and w >= 0.02
    ]
    assert lines == visible
    page.locator(".line-tokens button").nth(3).hover()
    key = max(range(4), key=lambda j: weights[3][j])
    text = page.locator(".lines-map .readout").inner_text().split()
    assert text[:4] == [TEXT[3], "→", TEXT[key], f"{weights[3][key]:.4f},"]
    page.locator(".line-tokens button").nth(3).click()
    page.wait_for_selector(".derivation")
    page.locator('input[name="form"][value="matrix"]').dispatch_event("click")
    page.wait_for_selector(map_of(2, 1))


def test_switch_in_the_corner_of_a_head(visit: OpenPage) -> None:
    page = visit(fragment("gpt"), ready="table.bars")
    for head in (1, 2):
        page.get_by_role("button", name=f"Ablate layer 1, head {head}").click()
        page.get_by_role("button", name=f"Restore layer 1, head {head}").wait_for()
    assert page.locator(".thumb.off").count() == 2
    widths = page.evaluate(
        "[...document.querySelectorAll('.track i')].map(bar => parseFloat(bar.style.width))"
    )
    assert max(widths) == pytest.approx(100)  # the largest bar fills its box
    page.get_by_role("button", name="Restore layer 1, head 1").click()
    page.get_by_role("button", name="Ablate layer 1, head 1").wait_for()


def test_hovered_head_is_dropped_with_its_run(visit: OpenPage) -> None:
    page = visit(fragment("gpt"))
    page.locator(thumbnail_of(2, 2)).hover()
    page.wait_for_selector(map_of(2, 2))
    page.evaluate("text => { location.hash = text; }", fragment("french-rnn", "one red cat"))
    page.wait_for_selector(".generated")
    page.wait_for_selector("figure.map")
    assert page.locator(".status").text_content() == ""


def test_open_sections_are_in_the_link_and_undone(visit: OpenPage) -> None:
    page = visit(fragment("gpt"), ready="table.bars")
    summary = page.locator("summary", has_text="Positional encoding")
    summary.click()
    page.wait_for_selector(".side-by-side .drawing")
    page.wait_for_url("**open=model%20positions*")
    page = visit("#" + page.url.partition("#")[2], ready=".side-by-side .drawing")
    summary = page.locator("summary", has_text="Positional encoding")
    summary.click()
    page.locator(".side-by-side .drawing").first.wait_for(state="hidden")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".side-by-side .drawing")


def test_thumbnail_fits_its_button(visit: OpenPage) -> None:
    page = visit(fragment("french", "red", part="cross"))
    page.wait_for_selector(".thumb canvas")
    button, canvas = (
        page.locator(selector).first.bounding_box() for selector in (".thumb", ".thumb canvas")
    )
    assert canvas["height"] <= button["height"]
    assert canvas["width"] <= button["width"]


def test_unknown_run_in_address(visit: OpenPage) -> None:
    page = visit(fragment("nobody", "x", scene=999))
    assert "The run “nobody” was not found" in page.locator(".missing").inner_text()
    page.locator("main select").first.select_option("squares")
    page.get_by_role("button", name="Decrease Scene").click()
    page.wait_for_function(
        "() => document.querySelector('.photo figcaption')?.textContent.startsWith('scene 200')"
    )
    assert page.locator(".missing").inner_text() == ""


def test_empty_text_stays_empty(visit: OpenPage, runs: dict[str, Path]) -> None:
    page = visit(fragment("gpt"))
    page.wait_for_selector("figure.map")
    page.get_by_role("textbox").fill("")
    page.locator(".attention").wait_for(state="hidden")
    page.get_by_role("textbox").blur()
    assert page.get_by_role("textbox").input_value() == ""
    page.locator("main select").first.select_option("rotary")
    page.wait_for_selector("figure.map")
    (sample, _) = json.loads((runs["rotary"] / "environment.json").read_text())["samples"]
    assert page.get_by_role("textbox").input_value() == sample


def test_head_is_ablated_and_restored(visit: OpenPage) -> None:
    page = visit(fragment("gpt"))
    before = page.locator("table.bars td.now").all_inner_texts()
    page.get_by_role("button", name="Ablate this head").click()
    page.wait_for_selector(".thumb.off")
    columns = page.locator("table.bars thead th").all_inner_texts()
    assert columns[-2:] == ["intact", "points"]
    assert page.get_by_role("button", name="Layer 1, head 1, ablated").count() == 1
    page.get_by_role("button", name="Restore all heads").click()
    page.wait_for_function("() => !document.querySelector('.thumb.off')")
    assert page.locator("table.bars td.now").all_inner_texts() == before


def test_completion_by_pointer_and_keyboard(visit: OpenPage, runs: dict[str, Path]) -> None:
    task: Any = load(runs["lstm"])
    page = visit(fragment("lstm"))
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector(".continuation .token")
    page.get_by_role("button", name="Generate").wait_for()  # it was "Stop"
    full_text = task.complete(TEXT, 40)
    shown = page.locator(".continuation").text_content()
    assert shown == TEXT + full_text.removeprefix(TEXT).replace("\n", "⏎\n")
    page.locator(".continuation .token").first.hover()
    page.wait_for_selector(".alternatives table.bars")
    page.mouse.move(0, 0)
    page.locator(".continuation").focus()
    page.keyboard.press("ArrowRight")
    (first,) = task.stream(TEXT, 1, num_alternatives=5)
    expected = [f"{100 * p:.1f} %" for _, p in first.alternatives]
    assert page.locator(".alternatives td.now").all_inner_texts() == expected
    page.get_by_role("button", name="Inspect the full text").click()
    page.wait_for_function(
        "text => document.querySelector('textarea').value === text", arg=full_text
    )


def test_completion_is_cancelled_when_left(visit: OpenPage) -> None:
    page = visit(fragment("lstm"))
    page.route("**/api/inspect/stream", lambda _: None)  # the server does not answer
    leave = page.get_by_role("link", name="Work", exact=True)
    runs = page.locator("main select").first
    for action in (lambda: runs.select_option("gpt"), leave.click):
        page.get_by_role("button", name="Generate").click()
        page.get_by_role("button", name="Stop").wait_for()
        with page.expect_event("requestfailed") as cancelled:
            action()
        assert cancelled.value.url.endswith("/api/inspect/stream")
        page.wait_for_selector("table.bars, figure.matrix")


def test_activations_of_cells(visit: OpenPage) -> None:
    page = visit(fragment("lstm"))
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


def test_classifier_translator_and_captioner(visit: OpenPage, runs: dict[str, Path]) -> None:
    page = visit(fragment("fruit", "fig <b> plum"))
    page.wait_for_selector(".token-strip[data-name=occlusion]")
    tokens = page.locator(".token-strip").first.locator(".token").all_inner_texts()
    assert tokens == ["fig", "<b>", "plum"]
    page.locator("main select").first.select_option("french")
    page.wait_for_selector(".generated")
    page.get_by_role("textbox").fill("one red cat")
    page.get_by_role("textbox").blur()
    translation = next(load(runs["french"]).translate_best(["one red cat"]))  # type: ignore[attr-defined]
    page.wait_for_function(
        "text => document.querySelector('.generated .words').textContent === text",
        arg=translation or "(empty)",
    )
    page.wait_for_selector('figure.map[data-name="mean of 4 heads"]')
    page.locator('input[name="part"][value="cross"]').click()
    page.wait_for_selector(map_of(1, 1))
    page.locator("main select").first.select_option("squares")
    page.wait_for_selector(".captioned .photo img")
    source = page.locator(".captioned .photo img").get_attribute("src")
    assert base64.b64decode(source.split(",")[1]).startswith(b"\x89PNG")
    task: Any = load(runs["squares"])
    width = page.evaluate("document.querySelector('.captioned img').naturalWidth")
    assert width == task.recipe.data.image_size


def test_picture_stands_beside_the_attention(visit: OpenPage) -> None:
    page = visit(fragment("grids", ""), width=1100, ready=".heads-and-map figure.map")
    heads, map_, output = (
        page.locator(part).bounding_box() for part in (".inspect-heads", ".one-head", ".output")
    )
    assert heads["x"] + heads["width"] <= map_["x"] < output["x"]
    assert output["x"] >= map_["x"] + map_["width"]
    assert output["y"] <= heads["y"]
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert page.locator(".output .words").bounding_box()["y"] >= 0


def test_uploaded_picture(visit: OpenPage, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (900, 700), "#204060").save(tmp_path / "blue.png")
    page = visit(fragment("squares", "", scene=2))
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


def test_large_map_is_a_drawing_with_a_table(visit: OpenPage) -> None:
    text = ("she said well, " * 35)[:512]
    page = visit(fragment("rotary", text))
    page.wait_for_selector(".drawing canvas")
    assert page.evaluate("document.querySelector('.drawing canvas').width") == 512
    assert page.evaluate("performance.getEntriesByName('map').at(-1).duration") > 0
    page.locator(".drawing").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('row=2&column=1')")
    assert "pinned" in readout(page)
    page.get_by_text("Show as a table").click()
    page.wait_for_function("() => document.querySelectorAll('.data-table tbody tr').length === 512")
    page.wait_for_selector(".derivation")
    assert "too large for Work" in page.locator(".derivation").inner_text()


@pytest.mark.parametrize(
    ("run", "ready"),
    [
        ("gpt", "figure.map"),
        ("french", "figure.map"),
        ("lstm", ".token-strip"),
        ("squares", ".captioned"),
    ],
)
def test_accessibility(visit: OpenPage, run: str, ready: str) -> None:
    pytest.importorskip("axe_playwright_python")
    page = visit(fragment(run, "one red cat"), ready=ready, reduced_motion="reduce")
    if run == "gpt":
        page.locator("summary", has_text="Positional encoding").click()
        page.locator("figure.map td[tabindex='0']").click()
        page.wait_for_selector(".derivation")
        page.wait_for_selector(".side-by-side .drawing")
    assert find_violations_in_both_schemes(page) == []


def test_markup_in_text_stays_text(visit: OpenPage) -> None:
    markup = '<script>alert(1)</script> "><img src=x onerror=alert(1)> ' + "x" * 300
    page = visit(fragment("gpt", markup), width=320, ready="table.bars")
    for run, ready in (
        ("rotary", "table.bars"),
        ("fruit", ".token-strip"),
        ("french", ".generated"),
        ("lstm", ".token-strip"),
        ("squares", ".captioned"),
        ("gpt", "table.bars"),
    ):
        with page.expect_response(lambda response: response.url.endswith("/api/inspect")):
            page.evaluate("text => { location.hash = text; }", fragment(run, markup))
        page.wait_for_selector(ready)
        assert page.locator("main select").first.input_value() == run
        assert page.locator("main script").count() == 0
        assert page.locator("main img[src=x]").count() == 0
        assert has_no_sideways_scroll(page), run


def test_error_is_shown(visit: OpenPage) -> None:
    page = visit(fragment("fruit", " "))
    page.wait_for_function(
        "() => document.querySelector('.status').textContent.includes('enter a text')"
    )


def test_without_runs_the_page_names_the_command(browser: Any) -> None:
    with serve_in_background() as address:
        page = browser.new_page()
        page.goto(f"{address}/#inspect")
        page.wait_for_selector(".empty")
        assert "workings serve runs/emoji" in page.locator(".empty").inner_text()
        page.close()


def test_model_drawing_opens_layers_and_stages(visit: OpenPage) -> None:
    page = visit(fragment("gpt"), ready=".model-box")
    assert page.locator(".model-box .model-layer").all_inner_texts() == [
        "input",
        "layer 1",
        "layer 2",
        "output",
    ]
    page.get_by_role("button", name="layer 2", exact=True).click()
    page.wait_for_selector('figure.map[data-name="layer 2, residual after feed-forward"]')
    page.locator(".model-stage", has_text="attention").first.click()
    page.wait_for_selector('figure.map[data-name="layer 2, attention"]')
    page.wait_for_url("**stage=blocks.1.attention*")
    page.get_by_role("button", name="heads", exact=True).click()
    page.wait_for_selector(map_of(2, 1))
    page.get_by_role("button", name="layer 2", exact=True).click()
    page.wait_for_selector(".stage-map", state="hidden")


def test_recurrent_model_is_unrolled_in_time(visit: OpenPage) -> None:
    page = visit(fragment("lstm", stage="recurrent.layers.0.0.forget"), ready=".model-box.open")
    page.wait_for_selector('figure.map[data-name="layer 1, forget gate"]')
    stages = page.locator(".model-stage").all_inner_texts()
    assert stages == ["input gate", "forget gate", "candidate", "output gate", "cell", "hidden"]
    columns = page.locator(".stage-map thead th[scope=col]").all_inner_texts()
    assert [name.strip() for name in columns] == [c.replace(" ", "␣") for c in TEXT]
