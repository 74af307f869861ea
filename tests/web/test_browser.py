"""The workbench in a real browser: what is seen is what Python says, by hand and by ear."""

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from workings import Problem
from workings.views.notation import typeset
from workings.views.numerals import texts

LECTURES = Path(__file__).parents[2] / "lectures"
Open = Callable[..., Any]
FOCUSED = """(() => {
  const here = document.activeElement;
  return `${here.tagName} ${here.closest('figure')?.dataset.key ?? here.textContent}`;
})()"""


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Open the workbench; at the end nothing has gone wrong in it, and nothing has left."""
    troubles: list[str] = []
    contexts = []

    def trouble(message: Any) -> None:
        # A refusal by the server is no trouble: the page shows it.
        if message.type in ("error", "warning") and "422" not in message.text:
            troubles.append(message.text)

    def asked(request: Any) -> None:
        if not request.url.startswith((address, "blob:", "data:")):
            troubles.append(f"asked for {request.url}")

    def opened(fragment: str = "", width: int = 1440, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", trouble)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", asked)
        page.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}"))
        page.goto(f"{address}/{fragment}")
        page.wait_for_selector("figure.matrix, .empty")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def shown(page: Any, key: str) -> list[list[str]]:
    """Read a matrix off the page, without the signs beside its numbers."""
    rows: list[list[str]] = page.evaluate(
        """key => [...[...document.querySelectorAll('figure.matrix')]
        .find(figure => figure.dataset.key === key).querySelectorAll('tbody tr')]
        .map(row => [...row.querySelectorAll('td')].map(cell => {
          const copy = cell.cloneNode(true);
          copy.querySelectorAll('.sign, .unseen').forEach(extra => extra.remove());
          return copy.textContent;
        }))""",
        key,
    )
    return rows


def numbers(problem: Problem, key: str, decimals: int = 3) -> list[list[str]]:
    """The same matrix as Python writes it."""
    solution = problem.solve(decimals)
    panel = solution.worked().steps[solution.keys().index(key)]
    return [[typeset(text) for text in row] for row in texts(panel, decimals)]


def cell(page: Any, key: str, row: int, column: int) -> Any:
    where = f'td[data-row="{row}"][data-column="{column}"]'
    return page.locator(f'figure[data-key="{key}"] {where}').first


def lecture(page: Any, name: str, waits_for: str) -> None:
    page.locator("select.lectures option").nth(1).wait_for(state="attached")
    page.select_option("select.lectures", name)
    page.wait_for_selector(waits_for)


@pytest.mark.parametrize("name", ["L0-masked", "L2-cross"])
def test_every_number_is_pythons(visit: Open, name: str) -> None:
    page, problem = visit(), Problem.load(LECTURES / f"{name}.toml")
    page.evaluate("document.title = 'before'")
    lecture(page, name, "figure[data-key=W_O], figure[data-key=context]")
    keys = problem.solve().keys()
    for key in keys:
        assert shown(page, key) == numbers(problem, key)
    given = [[float(v.replace("−", "-")) for v in row] for row in shown(page, "X")]
    assert given == problem.given["X"].mid.tolist()


def test_a_cell_is_written_out_and_its_row_and_tokens_light_up(visit: Open) -> None:
    page = visit()
    problem = first_problem()
    cell(page, "weights", 1, 2).hover()
    page.wait_for_selector(".dock .formula")
    said = page.locator(".dock .formula").get_attribute("aria-label")
    assert said == problem.solve().cell("weights", 2, 3)
    assert page.locator(".dock .who").inner_text() == "cat looks at sat"
    lit = page.locator("figure[data-key=Q] td.asks")
    assert lit.count() == 2
    assert [lit.nth(k).get_attribute("data-row") for k in range(2)] == ["1", "1"]
    page.wait_for_selector("figure[data-key=scaled] td.read")
    assert page.locator("figure[data-key=scaled] td.read").count() == 3
    page.locator('figure[data-key=K] th[data-row="0"]').hover()
    page.wait_for_selector('figure[data-key=scores] td.asked[data-column="0"]')
    assert page.locator("figure[data-key=scores] td.asked").count() == 3


def first_problem(**changes: Any) -> Problem:
    """What the page begins with."""
    given = {
        "X": [[1, 0, 2], [0, 2, 1], [1, 1, 0]],
        "W_Q": [[1, 0], [0, 1], [1, 1]],
        "W_K": [[0, 1], [1, 0], [1, -1]],
        "W_V": [[2, 0], [1, 1], [0, 3]],
    }
    return Problem(**{**given, **changes})


def test_change_a_number_and_everything_follows(visit: Open) -> None:
    page = visit()
    cell(page, "W_K", 2, 1).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("1/2")
    page.keyboard.press("Enter")
    changed = first_problem(W_K=[[0, 1], [1, 0], [1, 0.5]])
    expect_numbers(page, changed, "mixed")
    keys = changed.solve().keys()
    for key in keys:
        assert shown(page, key) == numbers(changed, key)
    page.keyboard.press("Control+z")
    expect_numbers(page, first_problem(), "mixed")
    page.keyboard.press("Control+Shift+z")
    expect_numbers(page, changed, "mixed")
    page.wait_for_function("() => location.hash.includes('1%2F2')")
    again = visit(page.url[page.url.index("#") :])
    expect_numbers(again, changed, "mixed")


def expect_numbers(page: Any, problem: Problem, key: str) -> None:
    wanted = "".join(text for row in numbers(problem, key) for text in row)
    page.wait_for_function(
        """([key, wanted]) => [...document.querySelectorAll(`figure[data-key="${key}"] tbody td`)]
        .map(cell => cell.firstChild.textContent).join('') === wanted""",
        arg=[key, wanted],
    )


def test_toggles_are_pythons_settings(visit: Open) -> None:
    page = visit()
    for name, value, fields in (
        ("mask", "causal", {"mask": "causal"}),
        ("scale", "none", {"mask": "causal", "scale": "none"}),
        ("normalizer", "sigmoid", {"mask": "causal", "scale": "none", "normalizer": "sigmoid"}),
    ):
        page.locator(f'input[name="{name}"][value="{value}"]').check()
        expect_numbers(page, first_problem(**fields), "mixed")
    assert shown(page, "masked")[0][1] == "−∞"
    page.locator('button[data-step="Decimals1"]').click()
    problem = first_problem(mask="causal", scale="none", normalizer="sigmoid")
    page.wait_for_function("() => document.querySelector('.stepper output').textContent === '4'")
    assert shown(page, "mixed") == numbers(problem, "mixed", 4)
    page.locator('input[name="heads"][value="2"]').check()
    page.wait_for_selector('figure[data-key="weights.2"]')


def test_the_column_toggle_transposes(visit: Open) -> None:
    page = visit()
    keys = ["X", "W_Q", *first_problem().solve().keys()]
    before = {key: shown(page, key) for key in keys}
    page.locator('input[name="vectors"][value="columns"]').check()
    page.wait_for_function(
        "() => document.querySelectorAll('figure[data-key=mixed] tbody tr').length === 2"
    )
    for key in keys:
        assert shown(page, key) == [list(line) for line in zip(*before[key], strict=True)]


def test_a_matrix_is_pasted(visit: Open) -> None:
    page = visit()
    page.get_by_role("button", name="Paste W_V").click()
    page.get_by_role("textbox", name="Paste W_V").fill("hello")
    page.get_by_role("button", name="Read it").click()
    page.wait_for_function(
        "() => document.querySelector('dialog .status').textContent.includes('not a matrix')"
    )
    page.get_by_role("textbox", name="Paste W_V").fill(
        r"\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \\ 7 & 8 & 9 \end{bmatrix}"
    )
    page.keyboard.press("Control+Enter")
    expect_numbers(page, first_problem(W_V=[[1, 2, 3], [4, 5, 6], [7, 8, 9]]), "mixed")


def test_what_is_wrong_is_said_and_nothing_is_lost(visit: Open) -> None:
    page = visit()
    before = shown(page, "mixed")
    cell(page, "X", 0, 0).dblclick()
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.status').textContent.includes(\"'one' is not a number\")"
    )
    assert shown(page, "mixed") == before
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelector('.status').textContent === ''")


def test_by_keyboard_alone(visit: Open) -> None:
    page = visit()
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if seen[-1].startswith("TD X"):
            break
    assert seen[0] == "A Skip to the work"
    assert "A Check" in seen
    assert seen[-1] == "TD X"
    for key, place in (
        ("ArrowRight", "0 1"),
        ("ArrowDown", "1 1"),
        ("End", "1 2"),
        ("Control+Home", "0 0"),
        ("ArrowUp", "0 0"),
    ):
        page.keyboard.press(key)
        assert (
            page.evaluate(
                "document.activeElement.dataset.row + ' ' + document.activeElement.dataset.column"
            )
            == place
        )
    page.keyboard.press("5")  # writing begins
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.column") == "1"
    expect_numbers(page, first_problem(X=[[5, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")
    page.keyboard.press("Enter")
    page.keyboard.type("9")
    page.keyboard.press("Escape")  # and is given up
    expect_numbers(page, first_problem(X=[[5, 0, 2], [0, 2, 1], [1, 1, 0]]), "mixed")


def test_what_a_screen_reader_is_told(visit: Open) -> None:
    page = visit()
    told = page.locator("main").aria_snapshot()
    assert 'grid "X, 3 by 3"' in told
    assert 'grid "weights, 3 by 3"' in told
    assert 'group "Mask"' in told
    assert 'radio "causal"' in told
    assert 'rowheader "cat"' in told
    page.locator('input[name="mask"][value="causal"]').check()
    page.wait_for_selector("figure[data-key=masked]")
    assert "−∞ (masked)" in page.locator("figure[data-key=masked]").aria_snapshot()


def violations(page: Any) -> list[str]:
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Open, scheme: str) -> None:
    pytest.importorskip("axe_playwright_python")
    page = visit(color_scheme=scheme, reduced_motion="reduce")
    cell(page, "weights", 1, 1).hover()
    page.wait_for_selector(".dock .formula")
    assert violations(page) == []
    page.get_by_role("link", name="Check").click()
    page.wait_for_selector(".empty")
    lecture(page, "L2-self", ".finding")
    assert violations(page) == []
    page.get_by_role("button", name="Make a sheet").click()
    assert violations(page) == []


def test_a_planted_mistake_is_found_and_named(visit: Open) -> None:
    problem = Problem(X=[[1, 2], [3, 1]])
    right = problem.solve()
    weights = [[f"{v:.3f}" for v in row] for row in right["weights"]]
    claims = {
        "scores": "5,5;5,10",
        "scaled": "5,5;5,10",
        "weights": ";".join(map(",".join, weights)),
    }
    said = "&".join(f"claim.{key}={cells}" for key, cells in claims.items())
    page = visit(f"#check?given.X=1,2;3,1&{said}")
    page.wait_for_selector(".finding")
    assert page.locator(".finding code").first.inner_text() == "not-scaled"
    assert page.locator(".finding .goto").first.inner_text() == "scaled, row 1, column 1"
    assert page.evaluate("document.activeElement.closest('figure').dataset.key") == "scaled"
    assert page.locator(".finding .gives td.same").count() == 4
    assert page.locator("figure[data-key=scaled] .wrong").count() == 8  # the cells and their signs
    assert "Wrong" in page.locator(".verdict").inner_text()


def test_what_follows_from_a_mistake_has_an_arrow_and_a_correction_ends_it(visit: Open) -> None:
    page = visit("#check")
    lecture(page, "L2-self", ".finding")
    page.wait_for_selector(
        '.judged .lines g[data-from="scores"][data-to="weights"]', state="attached"
    )
    assert page.locator("figure[data-key=weights] td .follows").count() == 2
    assert page.evaluate("document.activeElement.textContent").startswith("18")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.finding .goto').textContent.startsWith('weights')"
    )
    assert page.locator('.judged .lines g[data-from="scores"]').count() == 0


def test_a_slide_is_pasted_and_checked(visit: Open) -> None:
    page = visit("#check")
    page.get_by_role("button", name="Paste a solution…").click()
    page.get_by_role("textbox", name="Paste a worked solution").fill(
        '% workings: scale = "none"\n$X = [[1, 0], [0, 2]]$\n\n$scores = [[1, 0], [0, 5]]$'
    )
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".finding")
    assert page.locator(".finding .goto").inner_text() == "scores, row 2, column 2"


def test_a_sheet_is_made_and_answered_with_hints(visit: Open) -> None:
    from workings.problems.make import make_sheet

    problem = make_sheet("masked", (3, 3), 3, 1).exercises[0].problem
    page = visit("#check")
    page.get_by_role("button", name="Make a sheet").click()
    page.get_by_role("button", name="Make the sheet").click()
    page.wait_for_selector("figure[data-key=Q]")
    assert page.get_by_text("exact", exact=True).first.is_hidden()
    hints = page.locator(".hints").first
    for wanted in ("A hint for Q", "Another hint for Q", "Another hint for Q"):
        page.get_by_role("button", name=wanted, exact=True).click()
        page.wait_for_timeout(50)
    page.get_by_role("button", name="Hints for the next number of Q").wait_for()
    assert hints.locator("math").nth(2).get_attribute("alttext") == problem.solve().cell("Q", 1, 1)
    cell(page, "Q", 0, 0).focus()
    for row in problem.solve()["Q"]:
        for value in row:
            page.keyboard.type(f"{value:g}")
            page.keyboard.press("Tab" if value is not row[-1] else "Enter")
        page.keyboard.press("Home")
    page.wait_for_function(
        "() => document.querySelector('.judged .chip').textContent.endsWith('right')"
    )


@pytest.mark.parametrize("screen", ["work", "check"])
def test_any_words_stay_words(visit: Open, screen: str) -> None:
    nasty = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "x" * 10_000]
    tokens = ",".join(quote(token, safe="") for token in nasty)
    title = quote("<b onclick=alert(1)>bold</b>", safe="")
    said = f"title={title}&tokens={tokens}&given.X=1,0;0,1;1,1&claim.scores=1,0,1;0,1,1;1,1,9"
    page = visit(f"#{screen}?{said}", width=320)
    page.wait_for_selector("figure[data-key=scores]")
    assert page.locator("main script, main img").count() == 0
    heads = page.locator("figure[data-key=scores] th[scope=row]").all_text_contents()
    assert heads == nasty
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("width", [320, 768, 3840])
def test_no_sideways_scroll(visit: Open, width: int) -> None:
    page = visit(width=width)
    lecture(page, "L2-masked", "figure[data-key=masked]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelector('a[data-screen=check]').click()")
    page.wait_for_selector(".judged li")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_downloads_are_what_they_say(visit: Open, tmp_path: Path) -> None:
    page = visit()

    def kept(form: str) -> str:
        with page.expect_download() as waiting:
            page.locator(f'button[data-form="{form}"]').click()
        waiting.value.save_as(tmp_path / form)
        return (tmp_path / form).read_text(encoding="utf-8")

    assert ElementTree.fromstring(kept("svg")).tag.endswith("svg")  # noqa: S314
    problem = Problem.from_toml(kept("toml"))
    assert problem.solve().json() == first_problem().solve().json()
    assert tomllib.loads((tmp_path / "toml").read_text(encoding="utf-8"))["tokens"] == [
        "the",
        "cat",
        "sat",
    ]
    assert "\\begin{document}" in kept("latex")
    assert re.search("<main class=.workings.>", kept("html"))


def test_it_prints_without_its_buttons(visit: Open) -> None:
    page = visit()
    page.emulate_media(media="print")
    for hidden in (".top", ".dock", ".toggles", ".lines"):
        assert page.locator(hidden).first.is_hidden()
    assert page.locator("figure[data-key=mixed]").is_visible()
