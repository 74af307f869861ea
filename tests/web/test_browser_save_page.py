"""A screen saved as one file: it has the numbers of the page, and no script or control."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pages import OpenPage, find_violations, has_no_sideways_scroll

MARKUP = '<script>alert(1)</script> "well'
LONG = "well,\n  well " * 4
INSPECT_LARGE = f"#inspect?run=gpt&text={quote(LONG)}"
PERMUTED = "#compare?a=fruit&mode=permuted&text=fig+pear+tin"
SCREENS = {
    "text": (f"#inspect?run=gpt&text={quote(MARKUP)}&row=2&column=1", "table.bars"),
    "large": (INSPECT_LARGE, "figure.map canvas"),
    "classifier": ("#inspect?run=fruit&text=fig+tin+%3Cb%3E", ".token-strip"),
    "picture": ("#inspect?run=squares", ".captioned"),
    "compare": (f"#compare?a=gpt&b=rotary&mode=runs&text={quote(MARKUP)}", "figure.chart svg"),
    "permuted": (PERMUTED, "figure.map"),
    "train": ("#train?run=gpt", "figure.chart svg"),
}
NUMBERS = """[...document.querySelectorAll(
    'tbody td, .facts dd, .token-strip, .generated .words, .tiles, .verdict')]
    .filter(cell => !cell.closest('.listed, figure.chart, [hidden]'))
    .map(cell => cell.textContent)"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def save(page: Any, folder: Path) -> Path:
    """Save the screen in a folder."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as HTML").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.parametrize(
    ("screen", "scheme"),
    [*((screen, "light") for screen in SCREENS), ("large", "dark"), ("permuted", "dark")],
)
def test_saved_file_has_numbers_of_page(
    visit: OpenPage, open_file: OpenPage, tmp_path: Path, screen: str, scheme: str
) -> None:
    fragment, ready = SCREENS[screen]
    page = visit(fragment, ready=ready, color_scheme=scheme)
    path = save(page, tmp_path)  # waits until no request is pending
    assert path.name == f"{fragment.partition('?')[0][1:].title()}-workings.html"
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text.lower()
    assert "<iframe" not in text.lower()
    file = open_file(path.name, color_scheme="light" if scheme == "dark" else "dark")
    numbers = page.evaluate(NUMBERS)
    assert len(numbers) > 1
    assert file.evaluate(NUMBERS) == numbers
    assert file.evaluate(BACKGROUND) == page.evaluate(BACKGROUND)  # the maps keep their colors
    assert file.locator("button:not(:disabled), input, select, textarea, iframe").count() == 0
    assert file.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert find_violations(file) == []
    file.set_viewport_size({"width": 320, "height": 900})
    assert screen != "permuted" or has_no_sideways_scroll(file)


def test_saved_file_has_drawing_and_table(
    visit: OpenPage, open_file: OpenPage, tmp_path: Path
) -> None:
    page = visit(INSPECT_LARGE, ready="figure.map canvas")
    file = open_file(save(page, tmp_path).name)
    assert file.locator(".field-value").nth(1).inner_text() == LONG
    assert file.locator(".drawing img").evaluate("image => image.naturalWidth") == len(LONG)
    file.get_by_text("Show as a table").click()
    assert file.locator("table.listed tbody tr").count() == len(LONG)
    assert page.locator("details.data-table[open]").count() == 0
    assert page.evaluate("location.hash") in file.locator(".brand").inner_text()
    assert file.locator(".extra:not(.model-section)").count() == 0  # closed parts are left out


def test_saved_chart_has_its_numbers(visit: OpenPage, open_file: OpenPage, tmp_path: Path) -> None:
    page = visit("#train?run=gpt", ready="figure.chart svg")
    file = open_file(save(page, tmp_path).name)
    page.locator("figure.chart summary").first.click()
    file.locator("figure.chart summary").first.click()
    assert file.locator("figure.chart table td").first.is_visible()
    numbers = page.locator("figure.chart").first.locator("td").all_inner_texts()
    assert numbers
    assert file.locator("figure.chart").first.locator("td").all_inner_texts() == numbers


@pytest.mark.parametrize(
    ("fragment", "answer"),
    [
        ("#compare?a=fruit&mode=inputs&text=fig", "table.pairs"),
        ("#inspect?run=fruit", "table.bars"),
    ],
)
def test_last_input_is_answered_in_saved_file(
    visit: OpenPage, open_file: OpenPage, tmp_path: Path, fragment: str, answer: str
) -> None:
    page = visit(fragment, ready=answer)
    before = page.locator(answer).inner_text()
    page.get_by_role("textbox").first.fill("tin iron")
    file = open_file(save(page, tmp_path).name)  # the click moves the focus out of the field
    assert page.locator(answer).inner_text() != before
    assert file.locator(answer).inner_text() == page.locator(answer).inner_text()
    assert "tin iron" in file.locator(".field-value").all_inner_texts()
    assert "tin%20iron" in file.locator(".brand").inner_text()


def test_work_has_no_button_to_save(visit: OpenPage) -> None:
    page = visit("#work")
    assert page.get_by_role("button", name="Save as HTML").count() == 0
    page.get_by_role("link", name="Inspect").click()
    page.get_by_role("button", name="Save as HTML").wait_for()
