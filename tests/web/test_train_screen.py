"""The screen Train: a log while it grows, and whatever else may become of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Open, violations, visits
from starlette.testclient import TestClient

from workings.config import build, to_table, to_toml
from workings.recipes import ClassificationRecipe, LanguageRecipe
from workings.render.comparison import format_metric
from workings.training.logging import read_log
from workings.training.monitor import TrainingStatus
from workings.web.app import build_secured_app
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy
from workings.web.server import serve_in_background

NASTY = '<img src=x onerror=alert(1)> "quoted" & \u202e'
HOSTILE = "<script>parent.document.title = 'taken'; top.stolen = 1</script><h1>A report</h1>"
JSON = dict[str, Any]


def mark(step: int, loss: float, epoch: int = 1, steps: int = 1200) -> JSON:
    done = {"epoch": epoch, "step": step, "steps": steps, "seconds": step / 50}
    return {"kind": "step", **done, "examples": 64 * (step - 300 * (epoch - 1)), "train_loss": loss}


def epoch(number: int, loss: float) -> JSON:
    times = {"epoch": number, "step": 300 * number, "seconds": 6.0 * number}
    measured = {"train_loss": loss, "validation_loss": loss + 0.25, "validation_accuracy": 1 - loss}
    return {"kind": "epoch", **times, "evaluation_seconds": 0.5, **measured}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has just begun: there is a recipe, and nothing else."""
    table = {
        "title": NASTY,
        "train": {"epochs": 4, "learning_rate": 0.02},
        "data": {"set": "toy.csv"},
    }
    folder = tmp_path / "toy"
    folder.mkdir()
    recipe = to_table(build(ClassificationRecipe, table))
    (folder / "config.toml").write_text(to_toml(recipe), encoding="utf-8")
    return folder


@pytest.fixture
def client(run: Path) -> Iterator[TestClient]:
    app = build_secured_app(AccessPolicy(80), RunRegistry([run]))
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        yield client


def say(run: Path, *records: JSON) -> None:
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.writelines(json.dumps(record) + "\n" for record in records)


def told(client: TestClient, query: str = "") -> JSON:
    response = client.get(f"/api/training/toy{query}")
    assert response.status_code == 200, response.text
    answer: JSON = response.json()
    return answer


def test_a_training_is_told_from_its_first_line_to_its_last(client: TestClient, run: Path) -> None:
    begun = told(client)
    assert (begun["state"], begun["progress"], begun["revision"]) == ("waiting", 0, 0)
    assert begun["curves"]["charts"] == []
    say(run, mark(100, 0.9), mark(200, 0.8))
    under_way = told(client, "?revision=0")
    assert (under_way["state"], under_way["revision"]) == ("training", 1)
    assert under_way["progress"] == pytest.approx(200 / 1200)
    facts = {fact["name"]: fact["value"] for fact in under_way["facts"]}
    assert facts == {
        "epoch": "0 of 4",
        "step": "200 of 1,200",
        "trained for": "4 s",
        "examples a second": "3,200",
        "left, about": "20 s",
    }
    (chart,) = under_way["curves"]["charts"]
    assert chart["table"]["rows"] == [
        ["0.33", "0.9000"],
        ["0.67", "0.7000"],
    ]  # (200·0.8−100·0.9)/100
    assert told(client, "?revision=1")["curves"] is None
    say(run, epoch(1, 0.5), {"kind": "sample", "epoch": 1, "sample": NASTY}, {"kind": "test"})
    done = told(client, "?revision=1")
    assert (done["state"], done["progress"]) == ("finished", 1)
    assert done["curves"]["samples"][0]["epoch"] == 1
    assert "accuracy 50.00\u00a0%" in done["summary"]


def test_every_number_is_that_of_the_log(looking: TestClient, runs: dict[str, Path]) -> None:
    answer = looking.get("/api/training/gpt").json()
    watched = TrainingStatus(read_log(runs["gpt"] / "log.jsonl"), 1)
    assert answer["curves"]["metrics"]["rows"] == [
        [
            b.key.replace("_", " "),
            format_metric(b.key, b.latest),
            format_metric(b.key, b.best),
            str(b.best_epoch),
        ]
        for b in watched.best_metrics()
    ]
    for what, chart in zip(watched.list_metrics(), answer["curves"]["charts"], strict=True):
        head, rows = chart["table"]["header"], chart["table"]["rows"]
        assert rows == [
            [
                str(int(r["epoch"])),
                *(format_metric(what, r.get(f"{part}_{what}")) for part in head[1:]),
            ]
            for r in watched.curves
        ]
        assert chart["picture"][0] == "svg"
    result = json.loads((runs["gpt"] / "result.json").read_text())
    assert {"name": "validation loss", "value": f"{result['validation_loss']:.4f}"} in answer[
        "curves"
    ]["result"]
    assert answer["has_report"] is True


def test_the_recipe_is_listed_with_what_is_unusual(client: TestClient) -> None:
    recipe = client.get("/api/recipe/toy").json()
    by_key = {one["key"]: one for one in recipe["sections"]["train"]}
    assert by_key["learning_rate"]["value"] == "0.02"
    assert by_key["learning_rate"]["default"] == "0.001"
    assert by_key["batch_size"]["default"] == ""
    assert "passes over" in by_key["epochs"]["help"]
    assert any(one["key"] == "hidden_size" for one in recipe["sections"]["model"])
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
def test_whatever_is_in_a_log_is_no_fault_of_ours(client: TestClient, run: Path, line: str) -> None:
    say(run, epoch(1, 0.5))
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(line + "\n")
    assert told(client)["curves"]["charts"]


def test_what_cannot_be_asked(client: TestClient, run: Path) -> None:
    for path in ("training/other", "recipe/other", "report/other", "report/toy", "recipe/.."):
        response = client.get(f"/api/{path}")
        assert response.status_code in (404, 422), path
        assert list(response.json()) == ["error"]
    for query in ("width=10", "width=x", "revision=-2", "revision=1e9"):
        assert client.get(f"/api/training/toy?{query}").status_code == 422
    (run / "log.jsonl").symlink_to(run / "config.toml")
    assert client.get("/api/training/toy").status_code == 422


def test_a_report_can_do_nothing(client: TestClient, run: Path) -> None:
    (run / "report.html").write_text(HOSTILE)
    response = client.get("/api/report/toy")
    assert response.text == HOSTILE
    policies = response.headers.get_list("content-security-policy")
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'")
    assert policies[0].endswith("sandbox")
    assert "script" not in policies[0]
    assert response.headers["x-content-type-options"] == "nosniff"


# -- in a browser ----------------------------------------------------------------------------------

CHART = "figure.chart svg"


@pytest.fixture
def visit(browser: Any, run: Path, runs: dict[str, Path]) -> Iterator[Open]:
    with serve_in_background([run, runs["lstm"]]) as address, visits(browser, address) as opened:
        yield opened


def test_the_page_follows_a_log(visit: Open, run: Path) -> None:
    page = visit("#train", ready=".state.is-waiting")
    say(run, mark(100, 0.9), mark(200, 0.8))
    page.wait_for_selector(CHART)
    assert page.locator(".state").text_content() == "training"
    page.locator("figure.chart summary").click()
    say(run, mark(250, 0.75), mark(300, 0.7), epoch(1, 0.5))
    page.wait_for_function("() => document.querySelectorAll('figure.chart').length === 2")
    page.evaluate("document.querySelectorAll('figure.chart')[1].marked = 1")
    page.wait_for_function("() => document.querySelectorAll('figure.chart tbody tr').length === 4")
    said = page.locator(".training-summary").text_content()
    assert said == "Training: 1 of 4 epochs done, validation accuracy 50.00\u00a0%"
    facts = page.locator(".facts").first.text_content()
    say(run, mark(400, 0.4, epoch=2))
    page.wait_for_function(
        "before => document.querySelector('.facts').textContent !== before", arg=facts
    )
    assert page.locator(".training-summary").text_content() == said
    spoken = page.locator(".unseen[role=status]").first.text_content()
    assert spoken.startswith("Training: 0 of 4")  # the next line is read aloud later
    assert page.evaluate("document.querySelectorAll('figure.chart')[1].marked") == 1  # kept
    (run / "log.jsonl").write_text(json.dumps(mark(100, 0.9)) + "\n")  # a resume cut it back
    page.wait_for_function("() => document.querySelectorAll('figure.chart').length === 1")
    (run / "log.jsonl").unlink()
    page.wait_for_selector(".state.is-waiting")
    say(run, epoch(1, 0.5), {"kind": "test", "epoch": 1})
    page.wait_for_selector(".state.is-finished")


def test_anybodys_words_and_reports_are_only_shown(visit: Open, run: Path) -> None:
    say(run, epoch(1, 0.5), {"kind": "sample", "epoch": 1, "sample": NASTY + "x" * 9_000})
    (run / "report.html").write_text("<h1>A report</h1>" + "<p>of many words</p>" * 50)
    page = visit("#train?run=toy", width=320, ready=CHART)
    page.wait_for_selector(".settings-table")
    assert page.locator(".samples pre").text_content().startswith("<img src=x onerror=alert(1)>")
    assert page.locator("main img, main script").count() == 0
    page.get_by_text("Show the report here").click()
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").text_content() == "A report"
    with page.context.expect_page() as tab:
        page.get_by_role("link", name="Open in a new tab").click()
    assert tab.value.locator("h1").text_content() == "A report"
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_script_in_a_report_does_not_run(browser: Any, run: Path) -> None:
    (run / "report.html").write_text(HOSTILE)
    with serve_in_background([run]) as address:
        page = browser.new_context().new_page()
        page.goto(f"{address}/#train")
        page.get_by_text("Show the report here").click()
        page.frame_locator("iframe").locator("h1").wait_for()
        assert page.title() == "Train · workings"
        assert page.evaluate("window.stolen") is None
        page.goto(f"{address}/api/report/toy")  # by itself, too
        assert page.evaluate("[document.title, window.stolen ?? null]") == ["", None]
        page.context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 320)])
def test_axe_finds_nothing_serious(visit: Open, run: Path, scheme: str, width: int) -> None:
    pytest.importorskip("axe_playwright_python")
    say(run, mark(200, 0.8), epoch(1, 0.5), {"kind": "sample", "epoch": 1, "sample": "a sample"})
    page = visit("#train", width=width, ready=CHART, color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_selector(".settings-table")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.wait_for_selector("figure.chart table")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_by_ear(visit: Open, run: Path) -> None:
    say(run, mark(200, 0.8), epoch(1, 0.5))
    page = visit("#train", ready=CHART)
    page.wait_for_selector(".settings-table")
    heard = page.locator("main").aria_snapshot()
    for part in (
        'heading "Training" [level=1]',
        'status: "Training: 1 of 4 epochs done',
        'progressbar "Progress of the training"',
        'region "Curves"',
        'img "loss by epoch"',
        'row "validation loss 0.7500 0.7500 1"',
        'row "epochs 4 default: 5 passes over the training data"',
    ):
        assert part in heard, part


def test_by_keyboard_alone(visit: Open, run: Path) -> None:
    say(run, epoch(1, 0.5))
    page = visit("#train", ready=CHART)
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.slice(0, 20)"))
        if seen[-1] == "Numbers":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("figure.chart table")
    page.locator("select").first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".state.is-finished")
    page.wait_for_function("() => location.hash === '#train?run=lstm'")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".state.is-training")


def test_a_language_model_is_a_run_too(tmp_path: Path) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    table = to_table(build(LanguageRecipe, {"data": {"set": "x.txt"}}))
    (folder / "config.toml").write_text(to_toml(table))
    app = build_secured_app(AccessPolicy(80), RunRegistry([folder]))
    with TestClient(app, base_url="http://localhost") as client:  # type: ignore[arg-type]
        assert client.get("/api/training/words").json()["state"] == "waiting"
        sections = client.get("/api/recipe/words").json()["sections"]
        assert list(sections) == ["run", "data", "tokenizer", "model", "forcing", "train"]
