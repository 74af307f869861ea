"""The documentation's site in a browser, opened from its files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import build
import pytest
from pages import (
    OpenPage,
    PagePool,
    find_violations_in_both_schemes,
    has_no_sideways_scroll,
    open_pages,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build.Site().write(folder)
    return folder


@pytest.fixture
def visit(page_pool: PagePool, site: Path) -> Iterator[OpenPage]:
    with open_pages(page_pool, site.as_uri(), "main") as open_page:
        yield open_page


def test_search_finds_page_and_heading(visit: OpenPage) -> None:
    page = visit("notebooks/problem.html")
    page.get_by_label("Search").fill("student forcing")
    result: Any = page.locator("#results a").filter(has_text="Language models")
    assert result.first.get_attribute("href").startswith("../language.html")
    page.get_by_label("Search").fill("qwxyz")
    assert page.locator("#results").inner_text() == "nothing found"


@pytest.mark.parametrize("path", ["index.html", "recipes.html", "reference/attention.html"])
def test_narrow_window(visit: OpenPage, path: str) -> None:
    page = visit(path, width=320)
    assert has_no_sideways_scroll(page)
    assert not page.get_by_role("navigation").is_visible()
    page.get_by_text("Pages", exact=True).click()
    assert page.get_by_role("navigation").is_visible()


@pytest.mark.parametrize("path", ["teachers.html", "notebooks/inside.html"])
def test_accessibility(visit: OpenPage, path: str) -> None:
    pytest.importorskip("axe_playwright_python")
    page = visit(path)
    assert find_violations_in_both_schemes(page) == []
