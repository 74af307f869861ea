"""Runs by name: checked at the start, loaded once, asked one job at a time."""

import asyncio
import os
import time
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pages import awaited
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from workings.cli import main
from workings.errors import UserError
from workings.web import jobs
from workings.web.app import build_secured_app
from workings.web.inspector import Inspector
from workings.web.jobs import Deadline, JobExecutor
from workings.web.requests import InspectRequest
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy


def test_runs_are_listed_by_name(looking: TestClient, runs: dict[str, Path]) -> None:
    told = {one["name"]: one for one in looking.get("/api/runs").json()}
    assert list(told) == list(runs)
    assert told["gpt"] == {"name": "gpt", "title": "A small one", "kind": "language"}
    assert told["lstm"]["title"] == "lstm"


def test_without_runs_there_are_none(client: TestClient) -> None:
    assert client.get("/api/runs").json() == []


def test_names_are_told_apart_and_a_run_is_there_once(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "gpt").symlink_to(runs["lstm"], target_is_directory=True)
    shelf = RunRegistry([runs["gpt"], tmp_path / "gpt", runs["lstm"]])
    assert {name: run.folder for name, run in shelf.runs.items()} == {
        "gpt": runs["gpt"],
        "lstm": runs["lstm"],
    }
    other = tmp_path / "elsewhere" / "gpt"
    other.mkdir(parents=True)
    (other / "config.toml").write_text('task = "language"\n[data]\nset = "x.txt"\n')
    assert list(RunRegistry([runs["gpt"], other]).runs) == ["gpt", "gpt-2"]


def test_a_folders_name_may_be_long(runs: dict[str, Path], tmp_path: Path) -> None:
    long = tmp_path / ("x" * 255)
    copytree(runs["fruit"], long)
    app: Any = build_secured_app(AccessPolicy(80), RunRegistry([long]))
    with TestClient(app, base_url="http://localhost") as client:
        side = {"run": long.name, "text": "fig plum"}
        posted = [
            ("inspect", side),
            ("permute", side),
            ("compare", {"first": side, "second": side}),
        ]
        for path, body in posted:
            assert client.post(f"/api/{path}", json=body).status_code == 200
        both = {"first": long.name, "second": long.name}
        assert client.get("/api/compare/curves", params=both).status_code == 200
        assert client.get(f"/api/training/{long.name}").status_code == 200


def test_a_run_is_loaded_once(runs: dict[str, Path]) -> None:
    shelf = RunRegistry([runs["gpt"]])
    assert shelf.load_task("gpt") is shelf.load_task("gpt")
    with pytest.raises(UserError, match="did you mean 'gpt'"):
        shelf.load_task("gtp")


def test_what_is_no_run_is_told_in_a_line(tmp_path: Path, capsys: Any) -> None:
    assert main(["serve", str(tmp_path), "--no-open", "--port", "0"]) == 2
    assert capsys.readouterr().err.endswith("not a run: it has no config.toml\n")


def test_a_run_that_has_learned_more_is_loaded_again(runs: dict[str, Path], tmp_path: Path) -> None:
    copytree(runs["gpt"], tmp_path / "gpt")
    shelf = RunRegistry([tmp_path / "gpt"])
    looks, given = Inspector(shelf), InspectRequest(run="gpt", text="said")
    begun = shelf.load_task("gpt")
    for weight in begun.model.parameters():
        weight.data.zero_()  # as if it knew nothing yet
    before = looks.inspect(given).bars
    weights = tmp_path / "gpt" / "model.safetensors"
    os.utime(weights, (1, 1))  # as if they had been written anew
    assert shelf.load_task("gpt") is not begun
    assert looks.inspect(given).bars != before
    loaded = shelf.load_task("gpt")
    weights.unlink()
    assert shelf.load_task("gpt") is loaded


class Page:
    """A page that asks, and goes away when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.gone.wait()
        return {"type": "http.disconnect"}


def until_over(turn: Deadline) -> int:
    steps = 0
    while not turn.is_over:
        time.sleep(0.001)
        steps += 1
    return steps


def test_a_job_that_nobody_waits_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_WAITING_JOBS", 2)
    monkeypatch.setattr(jobs, "MAX_CONCURRENT_JOBS", 1)

    async def ask() -> None:
        jobs, pages = JobExecutor(), [Page() for _ in range(3)]
        running, waiting = (
            asyncio.ensure_future(jobs.run(page, until_over))  # type: ignore[arg-type]
            for page in pages[:2]
        )
        await asyncio.sleep(0.05)  # the loop goes on while the job runs
        with pytest.raises(HTTPException, match="waiting already"):
            await jobs.run(pages[2], until_over)  # type: ignore[arg-type]
        pages[1].gone.set()
        with pytest.raises(HTTPException, match="ended early"):
            await waiting
        assert not running.done()
        pages[0].gone.set()
        assert await running > 0

    awaited(ask())


def test_a_job_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_JOB_SECONDS", 0.05)

    async def ask() -> int:
        return await JobExecutor().run(Page(), until_over)  # type: ignore[arg-type]

    assert awaited(ask()) > 0


def test_a_run_that_needs_an_extra_says_which(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Path) -> None:
        raise ModuleNotFoundError("No module named 'tokenizers'", name="tokenizers")

    monkeypatch.setattr("workings.training.runs.load", missing)
    with TestClient(
        build_secured_app(AccessPolicy(80), RunRegistry([runs["gpt"]])), base_url="http://localhost"
    ) as client:  # type: ignore[arg-type]
        response = client.post("/api/inspect", json={"run": "gpt", "text": "a"})
    assert response.status_code == 422
    assert response.json()["error"] == 'tokenizers is missing: pip install "workings[data]"'


def test_a_run_that_is_gone_is_told_without_its_place(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    copytree(runs["gpt"], folder)
    app = build_secured_app(AccessPolicy(80), RunRegistry([folder]))
    (folder / "config.toml").unlink()
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        response = client.post("/api/inspect", json={"run": "gone", "text": "a"})
    assert response.status_code == 422
    assert "gone" in response.json()["error"]
    assert str(tmp_path) not in response.json()["error"]
