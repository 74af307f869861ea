"""The HTML render: real tables, nothing from elsewhere, and text that stays text."""

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

from workings.problems.worked_problem import Cell, Panel, WorkedProblem
from workings.render.page import base_css
from workings.render.worked_html import render_fragment, render_page

PROBLEMS = ["solution", "report", "hostile", "large"]
VOID = {"meta"}


@dataclass
class Node:
    """An element with its attributes and its content."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    inside: list["Node | str"] = field(default_factory=list)

    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text() for part in self.inside)

    def all(self, tag: str = "", kind: str = "") -> Iterator["Node"]:
        for part in self.inside:
            if isinstance(part, Node):
                classes = (part.attributes.get("class") or "").split()
                if tag in ("", part.tag) and (not kind or kind in classes):
                    yield part
                yield from part.all(tag, kind)

    def one(self, tag: str = "", kind: str = "") -> "Node":
        (node,) = self.all(tag, kind)
        return node


class Tree(HTMLParser):
    """Builds the tree and checks that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>"
        node = Node(tag, dict(attrs))
        self.open[-1].inside.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def parse(page: str) -> Node:
    tree = Tree()
    tree.feed(page)
    tree.close()
    (root,) = tree.open
    return root


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("render", [render_page, render_fragment])
def test_matrices_are_tables_with_headers(
    name: str, render: object, request: pytest.FixtureRequest
) -> None:
    problem = request.getfixturevalue(name)
    tree = parse(render(problem))  # type: ignore[operator]
    tables = list(tree.all("table"))
    assert len(tables) == len(problem.givens) + len(problem.steps)
    for table in tables:
        assert table.one("caption").text().strip()
        head, *rows = table.all("tr")
        columns = [th.attributes["scope"] for th in head.all("th")]
        assert set(columns) == {"col"}
        for row in rows:
            (header,) = row.all("th")
            assert header.attributes["scope"] == "row"
            assert len(list(row.all("td"))) == len(columns)


def test_headers_are_the_tokens(solution: WorkedProblem) -> None:
    table = list(parse(render_page(solution)).all("table"))[2]
    headers = [(th.attributes["scope"], th.text()) for th in table.all("th")]
    assert headers == [("col", "the"), ("col", "cat"), ("row", "the"), ("row", "cat")]
    assert "scores" in table.one("caption").text()
    assert "2 × 2" in table.one("caption").text()


def test_page_has_language_title_and_heading(report: WorkedProblem) -> None:
    page = render_page(report)
    tree = parse(page)
    assert page.startswith("<!doctype html>\n")
    assert tree.one("html").attributes["lang"] == "en"
    assert tree.one("title").text() == "A report"
    named = {meta.attributes.get("name"): meta.attributes for meta in tree.all("meta")}
    assert "width=device-width" in (named["viewport"]["content"] or "")
    assert next(node.tag for node in tree.all() if re.fullmatch("h[1-6]", node.tag)) == "h1"


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("render", [render_page, render_fragment])
def test_page_loads_nothing(name: str, render: object, request: pytest.FixtureRequest) -> None:
    page = render(request.getfixturevalue(name))  # type: ignore[operator]
    for node in parse(page).all():
        assert node.tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "svg")
        for attribute, value in node.attributes.items():
            assert not attribute.startswith("on"), f"{attribute} on <{node.tag}>"
            assert attribute not in ("src", "srcset", "style", "action", "background")
            assert attribute != "href" or re.fullmatch(r"#first-wrong-[0-9a-f]{8}", value or "")
    style = "".join(node.text() for node in parse(page).all("style"))
    assert not re.search(r"https?:|//|url\(|@import|expression", style)
    script = "".join(node.text() for node in parse(page).all("script"))
    assert not re.search(r"fetch|XMLHttp|import|eval|innerHTML|https?:", script)


def test_policy_allows_only_its_own_style_and_script(report: WorkedProblem) -> None:
    tree = parse(render_page(report))
    policy = next(
        meta.attributes["content"] or ""
        for meta in tree.all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        digest = hashlib.sha256(tree.one(tag).text().encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy


@pytest.mark.parametrize("render", [render_page, render_fragment])
def test_hostile_text_stays_text(hostile: WorkedProblem, render: object) -> None:
    page: str = render(hostile)  # type: ignore[operator]
    tree = parse(page)
    assert len(list(tree.all("script"))) == (1 if render is render_page else 0)
    assert "<script>alert" not in page
    assert "<script>alert(1)</script>" in tree.text()
    headers = [th.text() for th in tree.all("th")]
    assert '" onmouseover="alert(1)' in headers
    titles = [th.attributes["title"] for th in tree.all("th") if "title" in th.attributes]
    assert '" onmouseover="alert(1)' in titles
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", page)
    assert "\\x1b[31mred\\u202eevil\\r\\n" in tree.text()


@pytest.mark.parametrize("name", PROBLEMS)
def test_formulas_are_well_formed(name: str, request: pytest.FixtureRequest) -> None:
    formulas = re.findall(r"<math.*?</math>", render_page(request.getfixturevalue(name)))
    assert formulas
    for formula in formulas:
        root = ET.fromstring(formula)  # noqa: S314
        assert root.get("alttext")


def test_marks_have_symbols_words_and_borders(report: WorkedProblem) -> None:
    tree = parse(render_page(report))
    steps = tree.one("ol", "panels")
    by_mark = {mark: list(steps.all("span", mark)) for mark in ("wrong", "follows", "blank")}
    assert [len(cells) for cells in by_mark.values()] == [2, 1, 1]
    assert "✗" in by_mark["wrong"][0].text()
    assert "↳" in by_mark["follows"][0].text()
    assert "(the first wrong number)" in by_mark["wrong"][0].text()
    assert "(follows from an earlier mistake)" in by_mark["follows"][0].text()
    assert "≈" in steps.text()
    for mark, border in (("wrong", "solid"), ("follows", "dashed"), ("blank", "dotted")):
        assert re.search(rf"\.workings \.{mark} \{{ border: 2px {border}", base_css())
    legend = " ".join(p.text() for p in tree.all("p", "legend"))
    for meaning in ("the first wrong number", "follows from", "rounding", "left blank"):
        assert meaning in legend


def test_first_wrong_cell_is_linked(report: WorkedProblem) -> None:
    tree = parse(render_page(report))
    target = (tree.one("section", "finding").one("a").attributes["href"] or "")[1:]
    (cell,) = (td for td in tree.all("td") if td.attributes.get("id") == target)
    assert cell.attributes["tabindex"] == "0"
    assert cell.text().startswith("18")
    assert "first" in (cell.one("span", "v").attributes["class"] or "").split()


def test_first_mistake(report: WorkedProblem) -> None:
    finding = parse(render_page(report)).one("section", "finding")
    assert [dd.text() for dd in finding.all("dd")][:2] == ["18", "12"]
    causes = [li.text() for li in finding.one("ol").all("li")]
    assert causes[0] == "arithmetic-slip (explains 1/1): no rule gives 18"
    assert causes[1].endswith("a <b> sign & more")
    assert finding.one("math").attributes["alttext"] == "2·6 = 12"
    assert "Second mistake: weights, row 2, column 2: 3, but it is 0.88" in finding.text()


def test_notes_can_be_reached_with_the_keyboard(solution: WorkedProblem) -> None:
    tree = parse(render_page(solution))
    cells = [td for td in tree.all("td") if any(td.all("span", "note"))]
    assert len(cells) == 14
    assert all(td.attributes.get("tabindex") == "0" for td in cells)
    assert cells[0].one("span", "note").text() == "X is 1"
    assert re.search(r"td:focus > \.note \{ display: block", base_css())
    assert re.search(r"td:hover > \.note", base_css())


def test_values_have_colors_and_infinity_is_hatched(solution: WorkedProblem) -> None:
    tree = parse(render_page(solution))
    classes = {
        td.one("span", "v").text(): (td.one("span", "v").attributes["class"] or "").split()
        for td in tree.all("td")
        if any(td.all("span", "v"))
    }
    assert "p8" in classes["1.00"] or "p8" in classes["1"]
    assert "n8" in classes["−12.25"]
    assert "z" in classes["0.00"]
    assert classes["−∞ (masked)"] == ["v", "masked"]
    assert "above zero" in tree.text()


def test_unmasked_infinity_is_hatched() -> None:
    panel = Panel("Q", None, [[Cell("inf", float("inf"))]], ["1"], ["1"])
    assert "v masked" in render_page(WorkedProblem("", [], [panel]))


def test_decimal_points_are_aligned(report: WorkedProblem) -> None:
    tree = parse(render_page(report))
    column = [next(iter(row.all("td"))) for row in list(tree.all("tbody"))[1].all("tr")]
    numbers = [re.sub(r"[ ↳(].*", "", td.one("span", "v").text()) for td in column]
    assert [len(text.split(".")[1]) for text in numbers] == [6, 6]  # padding counts


def test_large_matrices_are_truncated_around_the_wrong_cell() -> None:
    count = 200
    cells = [[Cell("1", 1.0) for _ in range(count)] for _ in range(count)]
    cells[150][120] = Cell("2", 2.0, "wrong")
    names = [str(k + 1) for k in range(count)]
    panel = Panel("Q", None, cells, names, names, verdict="wrong", first_wrong=(150, 120))
    tree = parse(render_page(WorkedProblem("Large", [], [panel])))
    assert "200 × 200" in tree.one("caption").text()
    assert len(list(tree.all("tr"))) < 80
    assert tree.one("table").one("span", "first").text().startswith("2")


def test_rules_of_a_fragment_apply_only_to_it(report: WorkedProblem) -> None:
    fragment = render_fragment(report)
    (style,) = parse(fragment).all("style")
    rules = re.sub(r"@media[^{]*\{", "", style.text())
    for selectors in re.findall(r"([^{}]+)\{[^{}]*\}", rules):
        for selector in selectors.split(","):
            assert selector.strip().startswith(".workings"), selector
    assert [node.tag for node in parse(fragment).inside if isinstance(node, Node)] == [
        "style",
        "div",
    ]
    ids = [node.attributes["id"] for node in parse(fragment).all() if "id" in node.attributes]
    assert len(ids) == len(set(ids)) == 1


def test_print_rules() -> None:
    rules = base_css().split("@media print")[1]
    assert "break-inside: avoid" in rules
    assert "print-color-adjust: exact" in rules


def test_solution_has_no_verdict(solution: WorkedProblem) -> None:
    page = render_page(solution)
    tree = parse(page)
    assert not list(tree.all("p", "verdict"))
    assert not list(tree.all("section", "finding"))
