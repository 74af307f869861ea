"""The site: whole, offline, and every link in it leads somewhere."""

from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import build
import pytest
import reference
import rendered

import workings
from workings.attention import attend
from workings.config import describe
from workings.recipes.registry import RECIPES


class Read(HTMLParser):
    """What a page links to, loads, and can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.add(given.get("id"))
        if tag == "a":
            self.links.append(given["href"])
        elif address := given.get("src") or given.get("href"):
            self.loads.append(address)


@pytest.fixture(scope="module")
def made():
    return build.Site()


@pytest.fixture(scope="module")
def site(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert list(made.faults()) == []
    made.write(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Read(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    assert len(pages) > 40
    for path, page in pages.items():
        for address in (*page.links, *page.loads):
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert there.is_file(), f"{path.relative_to(site)}: {address}"
            if parts.fragment and there in pages and "data-up" in there.read_text("utf-8"):
                assert unquote(parts.fragment) in pages[there].anchors, f"{path}: {address}"


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        assert not any(urlsplit(address).netloc for address in page.loads), path


def test_a_link_to_nowhere_is_a_fault(made, monkeypatch):
    page = Path(build.DOCS) / "new.md"
    text = "# New\n\n[a](nowhere.md) [b](index.md#nothing) [c](index.md#install)"
    monkeypatch.setitem(made.pages, page, rendered.render(text, PurePosixPath("new.html")))
    assert list(made.faults()) == [
        "docs/new.md: nowhere.md: there is no such file",
        "docs/new.md: index.md#nothing: no such heading",
    ]


def test_the_reference_has_signatures_and_examples():
    page = reference.reference("attention")
    assert f"\n## {attend.__name__}\n" in page
    assert "def attend(" in page
    assert "causal: bool = False" in page
    assert "```pycon\n>>> " in page
    assert "\n## _" not in page


def test_the_reference_says_what_every_key_of_a_recipe_is_for():
    """As `workings train --help` does."""
    page = " ".join(line.strip(" #") for line in reference.reference("recipes").splitlines())
    for recipe, kinds in RECIPES.values():
        for config in (recipe, *kinds.values()):
            for field in describe(config):
                assert field.help
                assert " ".join(field.help.split()) in page, field.key


def test_the_reference_begins_with_the_package_itself():
    page = reference.front()
    for name in set(workings.__all__) - {"UserError", "__version__"}:
        assert f"`workings.{name}`" in page
    assert "(attention.md#attend)" in page


def test_the_reference_has_every_room():
    assert {"attention", "problems", "layers", "interpret", "cli"} <= set(reference.packages())


def test_what_looks_like_html_in_a_docstring_is_text():
    page = rendered.render("# A\n\nuse <b> & `<i>`", PurePosixPath("a.html"), trusted=False)
    assert "&lt;b&gt; &amp; <code>&lt;i&gt;</code>" in page.body


def test_a_picture_can_be_seen_at_its_own_size():
    page = rendered.render("![A & B](why/a.svg)", PurePosixPath("notebooks/a.html"))
    assert '<a href="../notebooks/why/a.svg"><img src="../notebooks/why/a.svg"' in page.body
    assert "A &amp; B" in page.body


def test_a_named_block_is_one_box_with_its_name():
    page = rendered.render("```toml a.toml\nx = 1\n```", PurePosixPath("a.html"))
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
def test_links_are_those_of_the_sources(page, address, on_site):
    made = rendered.render(f"[x]({address})", PurePosixPath(page))
    assert f'href="{on_site}"' in made.body
