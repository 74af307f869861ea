"""Reading the workbench's pages: matrices, cells, what they should say."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

from workings import Problem
from workings.problems.notation import typeset
from workings.render.matrix import format_cells

Open = Callable[..., Any]
Result = TypeVar("Result")


def awaited(work: Coroutine[Any, Any, Result]) -> Result:
    """Run it to its end in a thread: this one has a loop already, while a browser is open."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


# What a screen has when there is something to see.
READY = "figure.matrix, .empty, table.bars, .generated, .status:not(:empty)"


@contextmanager
def visits(browser: Any, address: str, ready: str = READY) -> Iterator[Open]:
    """Open pages of a server or folder; at the end nothing went wrong, and nothing has left."""
    troubles: list[str] = []
    contexts = []

    def trouble(message: Any) -> None:
        # A refusal by the server is no trouble: the page shows it.
        if message.type in ("error", "warning") and "422" not in message.text:
            troubles.append(message.text)

    def asked(request: Any) -> None:
        if not request.url.startswith((address, "blob:", "data:")):
            troubles.append(f"asked for {request.url}")

    def opened(fragment: str = "", width: int = 1440, ready: str = ready, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", trouble)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", asked)
        page.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}"))
        page.goto(f"{address}/{fragment}")
        page.wait_for_selector(ready)
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
    laid = solution.to_worked_problem()
    given = {panel.name: panel for panel in laid.givens}
    panel = given[key] if key in given else laid.steps[solution.keys().index(key)]
    return [[typeset(text) for text in row] for row in format_cells(panel, decimals)]


def cell(page: Any, key: str, row: int, column: int) -> Any:
    where = f'td[data-row="{row}"][data-column="{column}"]'
    return page.locator(f'figure[data-key="{key}"] {where}').first


def lecture(page: Any, name: str, waits_for: str) -> None:
    page.locator("select.lectures option").nth(1).wait_for(state="attached")
    page.select_option("select.lectures", name)
    page.wait_for_selector(waits_for)


def first_problem(**changes: Any) -> Problem:
    """What the page begins with."""
    given = {
        "X": [[1, 0, 2], [0, 2, 1], [1, 1, 0]],
        "W_Q": [[1, 0], [0, 1], [1, 1]],
        "W_K": [[0, 1], [1, 0], [1, -1]],
        "W_V": [[2, 0], [1, 1], [0, 3]],
    }
    return Problem(**{**given, **changes})


def expect_numbers(page: Any, problem: Problem, key: str) -> None:
    wanted = "".join(text for row in numbers(problem, key) for text in row)
    page.wait_for_function(
        """([key, wanted]) => [...document.querySelectorAll(`figure[data-key="${key}"] tbody td`)]
        .map(cell => cell.firstChild.textContent).join('') === wanted""",
        arg=[key, wanted],
    )


def short(weight: float) -> str:
    """A weight as a small map writes it."""
    return f"{weight:.1f}" if weight >= 0.995 else f"{weight:.2f}"[1:]


def violations(page: Any) -> list[str]:
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
