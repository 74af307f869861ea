"""The routes of Train: a log while it grows, logs with any content, recipes, reports."""

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from small_runs import MARKUP, append_to_log, epoch_record, step_record, write_new_run
from starlette.testclient import TestClient

from workings.config import build, to_table, to_toml
from workings.json_files import write_json
from workings.plain_text import escape_control
from workings.recipes import LanguageRecipe
from workings.render.comparison import format_metric
from workings.training.logging import read_log
from workings.training.monitor import TrainingStatus
from workings.web.app import build_secured_app
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy

Json = dict[str, Any]


def make_client(run: Path) -> TestClient:
    app: Any = build_secured_app(AccessPolicy(80), RunRegistry([run]))
    return TestClient(app, base_url="http://localhost")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of an application with the run `toy`."""
    folder = write_new_run(tmp_path_factory.mktemp("training") / "toy")
    with make_client(folder) as client:
        client.folder = folder  # type: ignore[attr-defined]
        yield client


@pytest.fixture
def run(client: TestClient) -> Path:
    """The folder of the run `toy`, reset to the beginning of its training."""
    folder: Path = client.folder  # type: ignore[attr-defined]
    for file in folder.iterdir():
        if file.name != "config.toml":
            file.unlink()
    return folder


def test_damage_to_the_log_is_a_fact(client: TestClient, run: Path) -> None:
    append_to_log(run, step_record(100, 0.9), step_record(200, 0.8))
    assert "the log is damaged" not in get_training(client)["facts"]
    log = run / "log.jsonl"
    whole = log.read_text()
    log.write_text(whole.replace("{", "", 1))
    assert get_training(client)["facts"]["the log is damaged"] == "line 1 is not a record"
    both = client.get("/api/compare/curves?first=toy&second=toy").json()
    assert both[-1]["header"][1] == "A: toy (its log is damaged)"
    log.write_text(whole)
    checkpoint = run / "checkpoints" / "step-200"
    checkpoint.mkdir(parents=True)
    write_json(checkpoint / "state.json", {"log_offset": len(whole) + 30})
    damage = get_training(client)["facts"]["the log is damaged"]
    assert damage == "30 bytes shorter than at a checkpoint"
    rmtree(run / "checkpoints")


def get_training(client: TestClient, query: str = "") -> Json:
    response = client.get(f"/api/training/toy{query}")
    assert response.status_code == 200, response.text
    view: Json = response.json()
    return view


def test_training_from_first_record_to_last(client: TestClient, run: Path) -> None:
    view = get_training(client)
    assert (view["state"], view["progress"]) == ("waiting", 0)
    revision = view["revision"]
    assert view["curves"]["charts"] == []
    append_to_log(run, step_record(100, 0.9), step_record(200, 0.8))
    view = get_training(client, f"?revision={revision}")
    assert view["state"] == "training"
    assert view["revision"] != revision
    revision = view["revision"]
    assert view["progress"] == pytest.approx(200 / 1200)
    assert view["facts"] == {
        "epoch": "0 of 4",
        "step": "200 of 1,200",
        "training time": "4 s",
        "examples per second": "3,200",
        "estimated time left": "20 s",
    }
    (chart,) = view["curves"]["charts"]
    mean_since_first_row = (200 * 0.8 - 100 * 0.9) / 100
    assert chart["rows"] == [["0.33", "0.9000"], ["0.67", f"{mean_since_first_row:.4f}"]]
    assert get_training(client, f"?revision={revision}")["curves"] is None
    sample = {"kind": "sample", "epoch": 1, "sample": MARKUP}
    append_to_log(run, epoch_record(1, 0.5), sample, {"kind": "test"})
    view = get_training(client, f"?revision={revision}")
    assert (view["state"], view["progress"]) == ("finished", 1)
    assert view["curves"]["samples"] == [[1, escape_control(MARKUP)]]
    assert "accuracy 50.00\u00a0%" in view["summary"]


def test_numbers_equal_log(runs_client: TestClient, runs: dict[str, Path]) -> None:
    view = runs_client.get("/api/training/gpt").json()
    status = TrainingStatus(read_log(runs["gpt"] / "log.jsonl"), 1)
    assert view["curves"]["metrics"]["rows"] == [
        [
            best.key.replace("_", " "),
            format_metric(best.key, best.latest),
            format_metric(best.key, best.best),
            str(best.best_epoch),
        ]
        for best in status.best_metrics()
    ]
    for metric, chart in zip(status.list_metrics(), view["curves"]["charts"], strict=True):
        splits = chart["header"][1:]
        assert chart["rows"] == [
            [
                str(int(record["epoch"])),
                *(format_metric(metric, record.get(f"{split}_{metric}")) for split in splits),
            ]
            for record in status.curves
        ]
        assert chart["picture"][0] == "svg"
    result = json.loads((runs["gpt"] / "result.json").read_text())
    assert view["curves"]["result"]["validation loss"] == f"{result['validation_loss']:.4f}"
    assert view["has_report"] is True


def test_recipe_lists_values_and_defaults(client: TestClient) -> None:
    recipe = client.get("/api/recipe/toy").json()
    settings = {setting["key"]: setting for setting in recipe["train"]}
    assert settings["learning_rate"]["value"] == "0.02"
    assert settings["learning_rate"]["default"] == "0.001"
    assert settings["batch_size"]["default"] == ""
    assert "passes over" in settings["epochs"]["help"]
    assert any(setting["key"] == "hidden_size" for setting in recipe["model"])
    assert recipe["environment"] == []


@pytest.mark.parametrize(
    "line",
    [
        "null", "[]", "{", '{"kind": 3}', '{"kind": "epoch"}', '{"kind": "step", "step": 1e400}',
        '{"kind": "epoch", "epoch": 1, "step": 1, "train_loss": NaN, "validation_loss": 1e999}',
        '{"kind": "epoch", "epoch": 1, "step": 1, "train_<b>": 1, "train_x": "y", "train_": 4}',
        '{"kind": "step", "epoch": 1, "step": 5, "steps": 9, "examples": 0, "train_loss": 1}',
        '{"kind": "sample", "epoch": 1, "sample": "\\ud800"}', '{"kind": "remark", "sample": 1}',
        '{"kind": "sample", "epoch": 1e300, "sample": ""}', "\x00" * 50, "9" * 5000,
        '{"kind": "epoch", "epoch": 1' + "0" * 400 + "}",
        '{"kind": "epoch", "epoch": -1, "step": 0}',
        '{"kind": "epoch", "epoch": 2, "step": 9, "seconds": 1e999, "evaluation_seconds": NaN}',
        '{"kind": "step", "epoch": 2, "step": 9, "steps": 1e999, "examples": -1, "train_x": 1e308}',
    ],
)  # fmt: skip
def test_any_line_in_log_is_tolerated(client: TestClient, run: Path, line: str) -> None:
    append_to_log(run, epoch_record(1, 0.5))
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(line + "\n")
    assert get_training(client)["curves"]["charts"]


def test_invalid_request_returns_error(client: TestClient, run: Path) -> None:
    for path in ("training/other", "recipe/other", "report/other", "report/toy", "recipe/.."):
        response = client.get(f"/api/{path}")
        assert response.status_code in (404, 422), path
        assert list(response.json()) == ["error"]
    for query in ("width=10", "width=x", "revision=-2", "revision=1e9"):
        assert client.get(f"/api/training/toy?{query}").status_code == 422
    (run / "log.jsonl").symlink_to(run / "config.toml")
    assert client.get("/api/training/toy").status_code == 422


def test_report_has_sandbox_policy(client: TestClient, run: Path) -> None:
    report = "<script>top.stolen = 1</script><h1>A report</h1>"
    (run / "report.html").write_text(report)
    response = client.get("/api/report/toy")
    assert response.text == report
    policies = response.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'")
    assert policies[0].endswith("sandbox")
    assert "script" not in policies[0]
    assert response.headers["x-content-type-options"] == "nosniff"


def test_run_of_language_model(tmp_path: Path) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    table = to_table(build(LanguageRecipe, {"data": {"set": "x.txt"}}))
    (folder / "config.toml").write_text(to_toml(table))
    with make_client(folder) as client:
        assert client.get("/api/training/words").json()["state"] == "waiting"
        sections = client.get("/api/recipe/words").json()
    names = ["run", "data", "tokenizer", "model", "scheduled_sampling", "train", "environment"]
    assert list(sections) == names
