"""A server for the tests, the application itself or one on a port; and a browser."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from small_runs import small_runs
from starlette.testclient import TestClient

from workings.web.app import guarded
from workings.web.guard import Door
from workings.web.server import running
from workings.web.shelf import Shelf

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


READY = "figure.matrix, .empty, table.bars, .wrote, .status:not(:empty)"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright; where there is none, its tests are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: make test")
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("no chromium: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def watched(browser: Any, home: str, waits_for: str) -> Iterator[Callable[..., Any]]:
    """Open pages of one home; at the end nothing has gone wrong in them, and nothing has left."""
    troubles: list[str] = []
    contexts = []

    def trouble(message: Any) -> None:
        # A refusal by the server is no trouble: the page shows it.
        if message.type in ("error", "warning") and "422" not in message.text:
            troubles.append(message.text)

    def asked(request: Any) -> None:
        if not request.url.startswith((home, "blob:", "data:")):
            troubles.append(f"asked for {request.url}")

    def opened(where: str = "", width: int = 1440, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", trouble)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", asked)
        page.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}"))
        page.goto(f"{home}/{where}")
        page.wait_for_selector(waits_for)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open the workbench."""
    with watched(browser, address, READY) as opened:
        yield opened


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a file of this test's folder."""
    with watched(browser, tmp_path.as_uri(), "main") as opened:
        yield opened


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """The application behind its door, without a socket; what it raises is raised here."""
    with TestClient(guarded(Door(80)), base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small runs of every kind, by name, trained for a step or two."""
    return small_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def looking(runs: dict[str, Path]) -> Iterator[TestClient]:
    """The application with these runs."""
    app = guarded(Door(80), Shelf([*runs.values()]))
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A server on a free port of this machine."""
    with running() as address:
        yield address


@pytest.fixture
def table() -> dict[str, Any]:
    """A masked problem in two heads, with a claim that is wrong in one place."""
    return {
        "title": "Two words",
        "tokens": ["the", "cat"],
        "settings": {"heads": 2, "mask": "causal"},
        "given": {
            "X": [["1", "0.5"], ["0", "2"]],
            "W_Q": [[1, 0, 1, 2], [0, 1, 1, 0]],
            "W_K": [[1, 1, 0, 2], [1, 1, 2, 0]],
        },
        "claims": [],
    }
