"""The screen Train in a browser: a log while it grows, samples, reports, by keyboard."""

import json
from pathlib import Path

import pytest
from pages import OpenPage, find_violations, has_no_sideways_scroll, tab_until
from small_runs import MARKUP, append_to_log, epoch_record, step_record

CHART = "figure.chart svg"
FAST_TIMERS = """{
  const { setTimeout } = window;
  window.setTimeout = (callback, delay, ...rest) => setTimeout(callback, delay / 20, ...rest);
}"""
"""Makes the page poll every 50 milliseconds instead of every second."""


def test_page_follows_log(visit: OpenPage, toy: Path) -> None:
    page = visit("#train?run=toy", ready=".state.is-waiting", init_script=FAST_TIMERS)
    append_to_log(toy, step_record(100, 0.9), step_record(200, 0.8))
    page.wait_for_selector(CHART)
    assert page.locator(".state").text_content() == "training"
    page.locator("figure.chart summary").click()
    append_to_log(toy, step_record(250, 0.75), step_record(300, 0.7), epoch_record(1, 0.5))
    page.wait_for_function("() => document.querySelectorAll('figure.chart').length === 2")
    page.evaluate("document.querySelectorAll('figure.chart')[1].marked = 1")
    page.wait_for_function("() => document.querySelectorAll('figure.chart tbody tr').length === 4")
    summary = page.locator(".training-summary").text_content()
    assert summary == "Training: 1 of 4 epochs done, validation accuracy 50.00\u00a0%"
    facts = page.locator(".facts").first.text_content()
    append_to_log(toy, step_record(400, 0.4, epoch=2))
    page.wait_for_function(
        "before => document.querySelector('.facts').textContent !== before", arg=facts
    )
    assert page.locator(".training-summary").text_content() == summary
    spoken = page.locator(".unseen[role=status]").first.text_content()
    assert spoken.startswith("Training: 0 of 4")  # the next line is announced later
    assert page.evaluate("document.querySelectorAll('figure.chart')[1].marked") == 1  # kept
    # Resuming from a checkpoint truncates the log.
    (toy / "log.jsonl").write_text(json.dumps(step_record(100, 0.9)) + "\n")
    page.wait_for_function("() => document.querySelectorAll('figure.chart').length === 1")
    (toy / "log.jsonl").unlink()
    page.wait_for_selector(".state.is-waiting")
    append_to_log(toy, epoch_record(1, 0.5), {"kind": "test", "epoch": 1})
    page.wait_for_selector(".state.is-finished")


def test_every_screen_says_that_a_run_was_deleted(visit: OpenPage, toy: Path) -> None:
    message = "main:has-text('toy: the run was deleted')"
    page = visit("#train?run=toy", ready=".state.is-waiting", init_script=FAST_TIMERS)
    config = toy / "config.toml"
    text = config.read_bytes()
    config.unlink()
    try:
        page.wait_for_selector(message)
        visit("#inspect?run=toy&text=fig", ready=message)
        visit("#compare?a=fruit&b=toy&text=fig", ready=message)
    finally:
        config.write_bytes(text)


def test_samples_and_report_stay_text(visit: OpenPage, toy: Path) -> None:
    sample = {"kind": "sample", "epoch": 1, "sample": MARKUP + "x" * 9_000}
    append_to_log(toy, epoch_record(1, 0.5), sample)
    (toy / "report.html").write_text("<h1>A report</h1>" + "<p>of many words</p>" * 50)
    page = visit("#train?run=toy", width=320, ready=CHART)
    page.wait_for_selector(".settings-table", state="attached")
    assert page.locator(".samples pre").text_content().startswith("<img src=x onerror=alert(1)>")
    assert page.locator("main img, main script").count() == 0
    page.get_by_text("Show the report here").click()
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").text_content() == "A report"
    with page.context.expect_page() as tab:
        page.get_by_role("link", name="Open in a new tab").click()
    assert tab.value.locator("h1").text_content() == "A report"
    assert has_no_sideways_scroll(page)


def test_script_in_report_does_not_run(browser: object, address: str, toy: Path) -> None:
    script = "parent.document.title = 'changed'; top.stolen = 1"
    (toy / "report.html").write_text(f"<script>{script}</script><h1>A report</h1>")
    page = browser.new_context().new_page()  # type: ignore[attr-defined]  # the console has errors
    page.goto(f"{address}/#train?run=toy")
    page.get_by_text("Show the report here").click()
    page.frame_locator("iframe").locator("h1").wait_for()
    assert page.title() == "Train · workings"
    assert page.evaluate("window.stolen") is None
    page.goto(f"{address}/api/report/toy")
    assert page.evaluate("[document.title, window.stolen ?? null]") == ["", None]
    page.context.close()


def test_accessibility(visit: OpenPage, toy: Path) -> None:
    pytest.importorskip("axe_playwright_python")
    sample = {"kind": "sample", "epoch": 1, "sample": "a sample"}
    append_to_log(toy, step_record(200, 0.8), epoch_record(1, 0.5), sample)
    page = visit("#train?run=toy", ready=CHART, reduced_motion="reduce")
    page.get_by_text("Settings and their defaults").click()
    page.wait_for_selector(".settings-table")
    snapshot = page.locator("main").aria_snapshot()
    for part in (
        'heading "Training" [level=1]',
        'status: "Training: 1 of 4 epochs done',
        'progressbar "Progress of the training"',
        'region "Curves"',
        'img "loss by epoch"',
        'row "validation loss 0.7500 0.7500 1"',
        'row "epochs 4 default: 5 passes over the training data"',
    ):
        assert part in snapshot, part
    page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
    page.wait_for_selector("figure.chart table")
    for scheme, width in (("light", 1440), ("dark", 320)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert find_violations(page) == []
        assert has_no_sideways_scroll(page)


def test_keyboard(visit: OpenPage, toy: Path) -> None:
    append_to_log(toy, epoch_record(1, 0.5))
    page = visit("#train?run=toy", ready=CHART, init_script=FAST_TIMERS)
    tab_until(page, "document.activeElement.textContent.slice(0, 20)", "Numbers", limit=40)
    page.keyboard.press("Enter")
    page.wait_for_selector("figure.chart table")
    page.locator("main select").first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".state.is-finished")
    page.wait_for_function("() => location.hash === '#train?run=lstm'")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".state.is-training")
