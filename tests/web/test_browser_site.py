"""The documentation's site in a real browser, opened from its files."""

import build
import pytest
from pages import violations


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build.Site().write(folder)
    return folder


@pytest.fixture
def visit(browser, site):
    troubles, contexts = [], []

    def opened(path, width=1440, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request", lambda asked: asked.url.startswith("file:") or troubles.append(asked.url)
        )
        page.goto(f"{site.as_uri()}/{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def test_the_search_finds_a_page_and_its_heading(visit):
    page = visit("notebooks/problem.html")
    page.get_by_label("Search").fill("student forcing")
    found = page.locator("#results a").filter(has_text="Language models")
    assert found.first.get_attribute("href").startswith("../language.html")
    page.get_by_label("Search").fill("qwxyz")
    assert page.locator("#results").inner_text() == "nothing found"


@pytest.mark.parametrize("path", ["index.html", "recipes.html", "reference/attention.html"])
def test_no_page_scrolls_sideways_on_a_phone(visit, path):
    page = visit(path, width=320)
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    assert not page.get_by_role("navigation").is_visible()
    page.get_by_text("Pages", exact=True).click()
    assert page.get_by_role("navigation").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["teachers.html", "notebooks/inside.html"])
def test_axe_finds_nothing_serious(browser, site, path, scheme):
    pytest.importorskip("axe_playwright_python")
    page = browser.new_page(color_scheme=scheme)
    page.goto(f"{site.as_uri()}/{path}")
    assert violations(page) == []
    page.close()
