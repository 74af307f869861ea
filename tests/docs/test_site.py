"""The documentation site works offline and has no broken links."""

from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import build
import markdown_html
import pytest
import reference

import workings
from workings.attention import attend
from workings.config import describe
from workings.recipes import RECIPES


class LinkParser(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id"))
        if tag == "a":
            self.links.append(attributes["href"])
        elif address := attributes.get("src") or attributes.get("href"):
            self.loads.append(address)


@pytest.fixture(scope="module")
def built():
    return build.Site()


@pytest.fixture(scope="module")
def site(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert list(built.find_errors()) == []
    built.write(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: LinkParser(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_no_link_is_broken(site, pages):
    assert len(pages) > 40
    for path, page in pages.items():
        for address in (*page.links, *page.loads):
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert file.is_file(), f"{path.relative_to(site)}: {address}"
            if parts.fragment and file in pages and "data-up" in file.read_text("utf-8"):
                assert unquote(parts.fragment) in pages[file].anchors, f"{path}: {address}"


def test_nothing_is_loaded_from_other_hosts(pages):
    for path, page in pages.items():
        assert not any(urlsplit(address).netloc for address in page.loads), path


def test_broken_links_are_errors(built, monkeypatch):
    page = Path(build.DOCS) / "new.md"
    text = "# New\n\n[a](nowhere.md) [b](index.md#nothing) [c](index.md#install)"
    monkeypatch.setitem(built.pages, page, markdown_html.render(text, PurePosixPath("new.html")))
    assert list(built.find_errors()) == [
        "docs/new.md: nowhere.md: no such file",
        "docs/new.md: index.md#nothing: no such heading",
    ]


def test_reference_has_signatures_and_examples():
    page = reference.reference("attention")
    assert f"\n## {attend.__name__}\n" in page
    assert "def attend(" in page
    assert "causal: bool = False" in page
    assert "```pycon\n>>> " in page
    assert "\n## _" not in page


def test_reference_has_the_help_of_every_recipe_key():
    page = " ".join(line.strip(" #") for line in reference.reference("recipes").splitlines())
    for recipe, kinds in RECIPES.values():
        for config in (recipe, *kinds.values()):
            for field in describe(config):
                assert field.help
                assert " ".join(field.help.split()) in page, field.key


def test_package_page_lists_public_names():
    page = reference.package_page()
    for name in set(workings.__all__) - {"UserError", "__version__"}:
        assert f"`workings.{name}`" in page
    assert "(attention.md#attend)" in page


def test_reference_has_every_package():
    assert {"attention", "problems", "layers", "interpret", "cli"} <= set(reference.packages())


def test_html_in_a_docstring_is_escaped():
    page = markdown_html.render("# A\n\nuse <b> & `<i>`", PurePosixPath("a.html"), trusted=False)
    assert "&lt;b&gt; &amp; <code>&lt;i&gt;</code>" in page.body


def test_picture_links_to_itself():
    page = markdown_html.render("![A & B](why/a.svg)", PurePosixPath("notebooks/a.html"))
    assert '<a href="../notebooks/why/a.svg"><img src="../notebooks/why/a.svg"' in page.body
    assert "A &amp; B" in page.body


def test_named_block_has_its_name_inside_one_box():
    page = markdown_html.render("```toml a.toml\nx = 1\n```", PurePosixPath("a.html"))
    assert page.body.count("<pre") == 1
    assert '<span class="file">a.toml</span>' in page.body


@pytest.mark.parametrize(
    ("page", "address", "on_site"),
    [
        ("a.html", "b.md#c", "b.html#c"),
        ("a.html", "#c", "#c"),
        ("a.html", "../recipes/x.toml", "files/recipes/x.toml.html"),
        ("notebooks/a.html", "../b.md", "../b.html"),
        ("notebooks/a.html", "b.ipynb", "../notebooks/b.html"),
        ("a.html", "https://example.org/b.md", "https://example.org/b.md"),
    ],
)
def test_links_between_sources_become_links_between_pages(page, address, on_site):
    rendered = markdown_html.render(f"[x]({address})", PurePosixPath(page))
    assert f'href="{on_site}"' in rendered.body
