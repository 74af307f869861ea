"""Shared by all tests of the page: trained runs, one server, test clients, one browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import OpenPage, PagePool, open_pages
from small_runs import train_small_runs, write_new_run
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the generated requests of `make test-all`: collecting them takes five seconds."""
    is_slow = collection_path.name == "test_generated_requests.py"
    return True if is_slow and config.option.markexpr == "not slow" else None


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; without it, browser tests are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: make test")
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("no chromium: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_pool(browser: Any) -> PagePool:
    """Pages that tests reuse."""
    return PagePool(browser)


@pytest.fixture
def visit(page_pool: PagePool, address: str) -> Iterator[OpenPage]:
    """Open the workbench; the test fails on any error, warning or request to another server."""
    with open_pages(page_pool, address, start="#work") as open_page:
        yield open_page


@pytest.fixture
def open_file(page_pool: PagePool, tmp_path: Path) -> Iterator[OpenPage]:
    """Open a file of the test's folder, under the same conditions."""
    with open_pages(page_pool, tmp_path.as_uri(), "main") as open_page:
        yield open_page


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small runs of every kind by name, trained for a step or two."""
    return train_small_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def address(runs: dict[str, Path]) -> Iterator[str]:
    """The address of a server with all runs and, before `lstm`, the run `toy`."""
    folders = [*runs.values()]
    toy = write_new_run(folders[0].with_name("toy"))
    folders.insert(folders.index(runs["lstm"]), toy)
    with serve_in_background(folders) as address:
        yield address


@pytest.fixture
def toy(runs: dict[str, Path], address: str) -> Path:
    """The folder of the run `toy` of the server, reset to the beginning of its training."""
    folder = runs["gpt"].with_name("toy")
    for file in folder.iterdir():
        if file.name != "config.toml":
            file.unlink()
    return folder


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """A client of the secured application without runs; server errors are raised in the test."""
    with TestClient(build_secured_app(AccessPolicy(80)), base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture(scope="session")
def runs_client(runs: dict[str, Path]) -> Iterator[TestClient]:
    """A client of the secured application with the small runs."""
    app = build_secured_app(AccessPolicy(80), RunRegistry([*runs.values()]))
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture
def table() -> dict[str, Any]:
    """A masked problem with two heads and no claims."""
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
