"""A screen as one file: it says what the page says, runs nothing and asks nobody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pages import Open, violations

from workings.web.server import serve_in_background

NASTY = '<script>alert(1)</script> "well'
LONG = "well,\n  well " * 4
SCREENS = {
    "look": f"#inspect?run=gpt&text={quote(NASTY)}&row=2&column=1",
    "large": f"#inspect?run=gpt&text={quote(LONG)}",
    "words": "#inspect?run=fruit&text=fig+tin+%3Cb%3E",
    "picture": "#inspect?run=squares",
    "compare": f"#compare?a=gpt&b=rotary&mode=runs&text={quote(NASTY)}",
    "permuted": "#compare?a=fruit&mode=permuted&text=fig+pear+tin",
    "train": "#train?run=gpt",
}
READY = ".token-strip, .captioned, table.bars, figure.chart svg, table.pairs, .verdict:not(:empty)"
NUMBERS = """[...document.querySelectorAll(
    'tbody td, .facts dd, .token-strip, .generated .words, .tiles, .verdict')]
    .filter(cell => !cell.closest('.listed, figure.chart, [hidden]'))
    .map(cell => cell.textContent)"""


@pytest.fixture(scope="module")
def address(runs: dict[str, Path]) -> Iterator[str]:
    """A server that has runs."""
    with serve_in_background(
        [runs[name] for name in ("gpt", "rotary", "fruit", "squares")]
    ) as address:
        yield address


def kept(page: Any, tmp_path: Path) -> Path:
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as HTML").click()
    path = tmp_path / saved.value.suggested_filename
    saved.value.save_as(path)
    return path


@pytest.mark.parametrize(
    ("screen", "scheme"),
    [*((screen, "light") for screen in SCREENS), ("large", "dark"), ("permuted", "dark")],
)
def test_a_file_has_every_number_of_the_page(
    visit: Open, open_file: Open, tmp_path: Path, screen: str, scheme: str
) -> None:
    page = visit(SCREENS[screen], ready=READY, color_scheme=scheme)
    page.wait_for_load_state("networkidle")
    path = kept(page, tmp_path)
    assert path.name == f"{SCREENS[screen].partition('?')[0][1:].title()}-workings.html"
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text.lower()
    assert "<iframe" not in text.lower()
    file = open_file(path.name, color_scheme="light" if scheme == "dark" else "dark")
    wanted = page.evaluate(NUMBERS)
    assert len(wanted) > 1
    assert file.evaluate(NUMBERS) == wanted
    colour = "getComputedStyle(document.body).backgroundColor"
    assert file.evaluate(colour) == page.evaluate(colour)  # that of the maps, whoever reads it
    assert file.locator("button:not(:disabled), input, select, textarea, iframe").count() == 0
    assert file.evaluate("[...document.images].every(one => one.naturalWidth > 0)")
    assert violations(file) == []


def test_what_is_chosen_and_drawn_is_there(visit: Open, open_file: Open, tmp_path: Path) -> None:
    page = visit(SCREENS["large"], ready="figure.map canvas")
    file = open_file(kept(page, tmp_path).name)
    assert file.locator(".field-value").nth(1).inner_text() == LONG
    assert file.locator(".drawing img").evaluate("one => one.naturalWidth") == len(LONG)
    file.get_by_text("Show as a table").click()
    assert file.locator("table.listed tbody tr").count() == len(LONG)
    assert page.locator("details.data-table[open]").count() == 0
    assert page.evaluate("location.hash") in file.locator(".brand").inner_text()
    assert file.locator(".extra").count() == 0  # nobody has opened one


def test_a_charts_numbers_are_behind_it(visit: Open, open_file: Open, tmp_path: Path) -> None:
    page = visit(SCREENS["train"], ready="figure.chart svg")
    file = open_file(kept(page, tmp_path).name)
    page.locator("figure.chart summary").first.click()
    file.locator("figure.chart summary").first.click()
    cells = "figure.chart table td"
    assert file.locator(cells).first.is_visible()
    wanted = page.locator("figure.chart").first.locator("td").all_inner_texts()
    assert wanted
    assert file.locator("figure.chart").first.locator("td").all_inner_texts() == wanted


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("#compare?a=fruit&mode=inputs&text=fig", "table.pairs"),
        ("#inspect?run=fruit", "table.bars"),
    ],
)
def test_what_was_typed_last_is_answered_in_the_file(
    visit: Open, open_file: Open, tmp_path: Path, where: str, answer: str
) -> None:
    page = visit(where, ready=answer)
    before = page.locator(answer).inner_text()
    page.get_by_role("textbox").first.fill("tin iron")
    file = open_file(kept(page, tmp_path).name)  # the click leaves the field
    assert page.locator(answer).inner_text() != before
    assert file.locator(answer).inner_text() == page.locator(answer).inner_text()
    assert "tin iron" in file.locator(".field-value").all_inner_texts()
    assert "tin%20iron" in file.locator(".brand").inner_text()


def test_work_and_check_write_files_of_their_own(visit: Open) -> None:
    page = visit("#work")
    assert page.get_by_role("button", name="Save as HTML").count() == 0
    page.get_by_role("link", name="Inspect").click()
    page.get_by_role("button", name="Save as HTML").wait_for()


def test_no_sideways_scroll(visit: Open, open_file: Open, tmp_path: Path) -> None:
    page = visit(SCREENS["permuted"], ready="figure.map")
    file = open_file(kept(page, tmp_path).name, width=320)
    assert file.evaluate("document.documentElement.scrollWidth") <= 320
