"""A server for the tests, the application itself or one on a port; and a browser."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import visits
from small_runs import small_runs
from starlette.testclient import TestClient

from workings.web.app import build_secured_app
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy
from workings.web.server import serve_in_background

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


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


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open the workbench; at the end nothing has gone wrong in it, and nothing has left."""
    with visits(browser, address) as opened:
        yield opened


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a file of this test's folder."""
    with visits(browser, tmp_path.as_uri(), "main") as opened:
        yield opened


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """The application behind its door, without a socket; what it raises is raised here."""
    with TestClient(build_secured_app(AccessPolicy(80)), base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small runs of every kind, by name, trained for a step or two."""
    return small_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def looking(runs: dict[str, Path]) -> Iterator[TestClient]:
    """The application with these runs."""
    app = build_secured_app(AccessPolicy(80), RunRegistry([*runs.values()]))
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A server on a free port of this machine."""
    with serve_in_background() as address:
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
