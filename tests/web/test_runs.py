"""The registry of runs: names, loading, reloading, errors."""

import json
import os
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from starlette.testclient import TestClient

from workings.cli import main
from workings.errors import UserError, install_command
from workings.web.app import build_secured_app
from workings.web.inspector import Inspector
from workings.web.requests import InspectRequest
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy


def test_runs_are_listed(runs_client: TestClient, runs: dict[str, Path]) -> None:
    views = {run["name"]: run for run in runs_client.get("/api/runs").json()}
    assert list(views) == list(runs)
    samples = json.loads((runs["gpt"] / "environment.json").read_text())["samples"]
    title = "A small one"
    gpt = {"name": "gpt", "title": title, "kind": "language", "samples": samples}
    assert views["gpt"] == gpt
    assert views["lstm"]["title"] == "lstm"


def test_empty_registry(client: TestClient) -> None:
    assert client.get("/api/runs").json() == []


def test_names_are_unique(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "gpt").symlink_to(runs["lstm"], target_is_directory=True)
    registry = RunRegistry([runs["gpt"], tmp_path / "gpt", runs["lstm"]])
    assert {name: run.folder for name, run in registry.runs.items()} == {
        "gpt": runs["gpt"],
        "lstm": runs["lstm"],
    }
    other = tmp_path / "elsewhere" / "gpt"
    other.mkdir(parents=True)
    (other / "config.toml").write_text('task = "language"\n[data]\nset = "x.txt"\n')
    assert list(RunRegistry([runs["gpt"], other]).runs) == ["gpt", "gpt-2"]


def test_long_folder_name(runs: dict[str, Path], tmp_path: Path) -> None:
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


def test_run_is_loaded_once(runs: dict[str, Path]) -> None:
    registry = RunRegistry([runs["gpt"]])
    assert registry.load_task("gpt") is registry.load_task("gpt")
    with pytest.raises(UserError, match="did you mean 'gpt'"):
        registry.load_task("gtp")


def test_folder_that_is_no_run_is_an_error(tmp_path: Path, capsys: Any) -> None:
    assert main(["serve", str(tmp_path), "--no-open", "--port", "0"]) == 2
    assert capsys.readouterr().err.endswith("not a run: it has no config.toml\n")


def test_run_is_reloaded_when_weights_change(runs: dict[str, Path], tmp_path: Path) -> None:
    copytree(runs["gpt"], tmp_path / "gpt")
    registry = RunRegistry([tmp_path / "gpt"])
    inspector, request = Inspector(registry), InspectRequest(run="gpt", text="said")
    untrained = registry.load_task("gpt")
    for weight in untrained.model.parameters():
        weight.data.zero_()
    before = inspector.inspect(request).bars
    weights = tmp_path / "gpt" / "model.safetensors"
    os.utime(weights, (1, 1))  # another modification time
    assert registry.load_task("gpt") is not untrained
    assert inspector.inspect(request).bars != before
    loaded = registry.load_task("gpt")
    weights.unlink()
    assert registry.load_task("gpt") is loaded


def test_missing_package_names_the_extra(
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
    assert response.json()["error"] == f"tokenizers is missing: {install_command('data')}"


def test_error_does_not_reveal_folder(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    copytree(runs["gpt"], folder)
    app = build_secured_app(AccessPolicy(80), RunRegistry([folder]))
    (folder / "config.toml").unlink()
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        response = client.post("/api/inspect", json={"run": "gone", "text": "a"})
    assert response.status_code == 422
    assert "gone" in response.json()["error"]
    assert str(tmp_path) not in response.json()["error"]
