"""Helpers of the browser tests: open pages, read matrices and maps, run axe."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

from workings import Problem
from workings.problems.notation import typeset
from workings.render.matrix import format_cells

OpenPage = Callable[..., Any]
Result = TypeVar("Result")

READY = "figure.matrix:visible, .empty, table.bars, .generated, .status:not(:empty)"
"""Elements of a screen that has its first answer."""


def run_async(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread: Playwright's event loop runs in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


class PagePool:
    """Pages of one browser that tests reuse: resetting a page is faster than a new process."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._free: list[Any] = []
        self._leased: list[Any] = []
        self.problems: list[str] = []
        self.base_urls: list[str] = []

    def lease(
        self, width: int, media: dict[str, str], init_script: str, options: dict[str, Any]
    ) -> Any:
        """Return a blank page; one with a script or options is closed when it is released."""
        is_special = bool(init_script or options)
        page = self._free.pop() if self._free and not is_special else self._new_page(options)
        self._leased.append((page, is_special))
        if init_script:
            page.add_init_script(init_script)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(**{"color_scheme": "null", "reduced_motion": "null", **media})
        return page

    def release(self) -> None:
        """Reset the leased pages or close them, and close tabs that they opened."""
        for page, is_special in self._leased:
            for other in page.context.pages:
                if other is not page:
                    other.close()
            if is_special:
                page.context.close()
                continue
            page.unroute_all(behavior="ignoreErrors")
            page.goto("about:blank")
            page.mouse.move(0, 0)
            page.emulate_media(media="null")
            page.context.clear_permissions()
            self._free.append(page)
        self._leased.clear()

    def _new_page(self, options: dict[str, Any]) -> Any:
        page = self._browser.new_context(**options).new_page()
        page.set_default_timeout(60_000)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._on_request)
        page.on("dialog", lambda dialog: self.problems.append(f"a dialog: {dialog.message}"))
        return page

    def _on_console(self, message: Any) -> None:
        # The page shows an error response of the server itself, so its status is no problem.
        if message.type in ("error", "warning") and "422" not in message.text:
            self.problems.append(message.text)

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((*self.base_urls, "blob:", "data:")):
            self.problems.append(f"a request to {request.url}")


@contextmanager
def open_pages(
    pool: PagePool, base_url: str, ready: str = READY, start: str = ""
) -> Iterator[OpenPage]:
    """Yield a function that opens pages below a URL; at the end, assert that it saw no problem."""
    pool.problems.clear()
    pool.base_urls.append(base_url)

    def open_page(
        fragment: str = start,
        width: int = 1440,
        ready: str = ready,
        color_scheme: str = "light",
        reduced_motion: str = "no-preference",
        init_script: str = "",
        **options: Any,
    ) -> Any:
        media = {"color_scheme": color_scheme, "reduced_motion": reduced_motion}
        page = pool.lease(width, media, init_script, options)
        page.goto(f"{base_url}/{fragment}")
        page.wait_for_selector(ready)
        return page

    yield open_page
    pool.release()
    pool.base_urls.remove(base_url)
    assert pool.problems == [], pool.problems


def read_matrix(page: Any, key: str) -> list[list[str]]:
    """Return the texts of a matrix on the page, without the signs beside its numbers."""
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


def format_matrix(problem: Problem, key: str, decimals: int = 3) -> list[list[str]]:
    """Return the texts of a matrix as Python formats them."""
    solution = problem.solve(decimals)
    layout = solution.to_worked_problem()
    given = {panel.name: panel for panel in layout.givens}
    panel = given[key] if key in given else layout.steps[solution.keys().index(key)]
    return [[typeset(text) for text in row] for row in format_cells(panel, decimals)]


def locate_cell(page: Any, key: str, row: int, column: int) -> Any:
    """Return the locator of a matrix cell, counted from 0."""
    cell = f'td[data-row="{row}"][data-column="{column}"]'
    return page.locator(f'figure[data-key="{key}"] {cell}').first


def choose_lecture(page: Any, name: str, ready: str) -> None:
    """Choose a worked example and wait until the page shows it."""
    page.locator("select.lectures option").nth(1).wait_for(state="attached")
    page.select_option("select.lectures", name)
    page.wait_for_selector(ready)


def first_problem(**changes: Any) -> Problem:
    """Return the problem that the page begins with, with these changes."""
    given = {
        "X": [[1, 0, 2], [0, 2, 1], [1, 1, 0]],
        "W_Q": [[1, 0], [0, 1], [1, 1]],
        "W_K": [[0, 1], [1, 0], [1, -1]],
        "W_V": [[2, 0], [1, 1], [0, 3]],
    }
    return Problem(**{**given, **changes})


def wait_for_numbers(page: Any, problem: Problem, key: str) -> None:
    """Wait until the page shows the numbers that Python computes."""
    expected = "".join(text for row in format_matrix(problem, key) for text in row)
    page.wait_for_function(
        """([key, expected]) => [...document.querySelectorAll(`figure[data-key="${key}"] tbody td`)]
        .map(cell => cell.firstChild.textContent).join('') === expected""",
        arg=[key, expected],
    )


def format_weight(weight: float) -> str:
    """Return a weight as a small map shows it."""
    return f"{weight:.1f}" if weight >= 0.995 else f"{weight:.2f}"[1:]


def tab_until(page: Any, expression: str, expected: str, limit: int = 60) -> list[str]:
    """Press Tab until an expression of the page has a value; return the values on the way."""
    values: list[str] = []
    while len(values) < limit and (not values or values[-1] != expected):
        page.keyboard.press("Tab")
        values.append(page.evaluate(expression))
    assert values[-1] == expected
    return values


def has_no_sideways_scroll(page: Any) -> bool:
    """Return True if the document is not wider than the window."""
    fits: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return fits


def find_violations(page: Any, *, contrast_only: bool = False) -> list[str]:
    """Return the violations of accessibility rules that axe finds."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    # Without preload, axe does not fetch the style sheets, which none of the default rules needs.
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    options |= {"runOnly": ["color-contrast"]} if contrast_only else {}
    results = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [f"{result['id']}: {result['nodes'][0]['html'][:200]}" for result in results]


def find_violations_in_both_schemes(page: Any) -> list[str]:
    """Return the violations in light and in dark; only contrast depends on the scheme."""
    page.emulate_media(color_scheme="light")
    violations = find_violations(page)
    page.emulate_media(color_scheme="dark")
    return violations + find_violations(page, contrast_only=True)
