"""The screen Train: a run's log while it grows, its settings and its report."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import Response

from workings.errors import UserError
from workings.io import read_bytes
from workings.plain_text import escape_control, to_one_line
from workings.render.comparison import format_metric
from workings.render.training_report import MAX_SAMPLES, SPLIT_NAMES, curve_chart
from workings.training.monitor import LogTail, Record, TrainingStatus
from workings.web.markup import picture_tree
from workings.web.requests import RunName
from workings.web.run_responses import (
    ChartView,
    CurvesView,
    Fact,
    PlainTable,
    RecipeView,
    SampleView,
    SettingView,
    TrainingView,
)
from workings.web.runs import RegisteredRun, RunRegistry

MAX_REPORT_BYTES = 64 * 2**20
MAX_CHARTS, MAX_EPOCHS, MAX_SAMPLE_LENGTH = 12, 400, 5_000
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'; sandbox"
)
"""a report may look as it likes, and do nothing: it is a file that anybody may have written"""

Width = Annotated[int, Query(ge=240, le=1600)]


def add_training_routes(app: FastAPI, registry: RunRegistry) -> None:
    """Declare the answers."""
    logs: dict[str, tuple[LogTail, int]] = {}

    def log_and_epochs(run: RegisteredRun) -> tuple[LogTail, int]:
        from workings.training.runs import read_run_recipe

        if run.name not in logs:
            epochs = read_run_recipe(run.folder).train.epochs
            logs[run.name] = LogTail(run.folder / "log.jsonl"), epochs
        return logs[run.name]

    @app.get("/api/training/{run}")
    def watch(
        run: RunName, revision: Annotated[int, Query(ge=-1, le=2**53)] = -1, width: Width = 480
    ) -> TrainingView:
        """Tell how a training is going; its curves, unless the page has `seen` them."""
        found = registry.get_run(run)
        log, epochs = log_and_epochs(found)
        changes, records = log.read()
        return _build_training_view(
            found.folder, epochs, changes, records, None if revision == changes else width
        )

    @app.get("/api/recipe/{run}")
    def recipe(run: RunName) -> RecipeView:
        """List what a run is made by."""
        return _build_recipe_view(registry.get_run(run).folder)

    @app.get("/api/report/{run}", response_class=Response)
    def report(run: RunName) -> Response:
        """Give a run's report; nothing in it can run, wherever it is shown."""
        path = registry.get_run(run).folder / "report.html"
        try:
            content = read_bytes(path, MAX_REPORT_BYTES)
        except OSError:
            raise UserError("no report yet: it is written when the training is over") from None
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)


def _build_training_view(
    folder: Path, epochs: int, revision: int, records: Sequence[Record], width: int | None
) -> TrainingView:
    watched = TrainingStatus(records, epochs)
    silent = _seconds_since_log(folder / "log.jsonl")
    state = watched.state(silent)
    return TrainingView(
        state=state,
        summary=_summarize(watched, state),
        progress=watched.fraction_done,
        facts=_build_facts(watched, state, silent),
        revision=revision,
        has_report=(folder / "report.html").is_file(),
        curves=None if width is None else _build_curves(folder, watched, width),
    )


def _seconds_since_log(log: Path) -> float:
    """How long ago the log last grew, in seconds."""
    try:
        return max(time.time() - log.stat().st_mtime, 0.0)
    except OSError:
        return 0.0


def _summarize(watched: TrainingStatus, state: str) -> str:
    """Say where it is, in a line that changes once an epoch: it is read aloud."""
    done = f"{watched.epoch} of {watched.epochs} epochs"
    latest = [best for best in watched.best_metrics() if not best.key.startswith("train_")][-1:]
    measured = "".join(f", {_metric_label(b.key)} {format_metric(b.key, b.latest)}" for b in latest)
    measured = measured.replace(" %", "\u00a0%")
    return {
        "waiting": "Nothing has been logged yet: the data are read first",
        "training": f"Training: {done} done{measured}",
        "quiet": f"Silent: {done} done{measured}. Was it stopped? workings resume goes on",
        "finished": f"Finished after {watched.epoch} epochs{measured}",
    }[state]


def _build_facts(watched: TrainingStatus, state: str, seconds_silent: float) -> list[Fact]:
    told = {"epoch": f"{watched.epoch} of {watched.epochs}"}
    if watched.steps:
        told["step"] = f"{watched.step:,} of {watched.steps:,}"
    if watched.seconds:
        told["trained for"] = format_duration(watched.seconds)
    if watched.speed is not None:
        often, unit = watched.speed
        told[f"{unit} a second"] = f"{often:,.0f}" if often >= 10 else f"{often:.2f}"
    if state == "training" and watched.seconds_left is not None:
        told["left, about"] = format_duration(watched.seconds_left)
    if state == "quiet":
        told["silent for"] = format_duration(seconds_silent)
    return [Fact(name=name, value=value) for name, value in told.items()]


def format_duration(seconds: float) -> str:
    """Write a time in its two largest units.

    >>> format_duration(0.4), format_duration(75.2), format_duration(7380)
    ('0 s', '1 min 15 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _build_curves(folder: Path, watched: TrainingStatus, width: int) -> CurvesView:
    return CurvesView(
        charts=[_build_chart(watched, what, width) for what in watched.list_metrics()[:MAX_CHARTS]],
        metrics=_build_metrics_table(watched),
        samples=_collect_samples(watched.records),
        result=_read_result(folder) if watched.is_finished else [],
    )


def _build_chart(watched: TrainingStatus, metric: str, width: int) -> ChartView:
    curves, points = subsample_epochs(watched.curves), watched.train_curve(metric)
    if len(points) <= len(curves):  # epochs are short: their means say more
        points = []
    picture = curve_chart(curves, metric, train_points=points, width=width)
    parts = [part for part in SPLIT_NAMES if any(f"{part}_{metric}" in r for r in curves)]
    rows: dict[float, list[str]] = {}
    for record in curves:
        cells = (format_metric(metric, record.get(f"{part}_{metric}")) for part in parts)
        rows[record["epoch"]] = [f"{record['epoch']:g}", *cells, *([""] if points else [])]
    for place, value in points:
        row = rows.setdefault(place, [f"{place:.2f}", *("" for _ in parts), ""])
        row[-1] = format_metric(metric, value)
    head = ["epoch", *parts, *(["train, since the line before"] if points else [])]
    table = PlainTable(header=head, rows=[row for _, row in sorted(rows.items())])
    return ChartView(title=picture.title, picture=picture_tree(picture), table=table)


def subsample_epochs(curves: list[dict[str, float]]) -> list[dict[str, float]]:
    """Leave out epochs evenly where there are more than can be seen; the last one stays."""
    every = -(-len(curves) // MAX_EPOCHS)
    return curves[::-1][:: max(every, 1)][::-1]


def _build_metrics_table(watched: TrainingStatus) -> PlainTable:
    rows = [
        [
            _metric_label(b.key),
            format_metric(b.key, b.latest),
            format_metric(b.key, b.best),
            str(b.best_epoch),
        ]
        for b in watched.best_metrics()
    ]
    return PlainTable(header=["measure", "now", "best", "at epoch"], rows=rows)


def _metric_label(key: str) -> str:
    return key.replace("_", " ")


def _collect_samples(records: Sequence[Record]) -> list[SampleView]:
    """What was kept after epochs: the latest first, and the very first for comparison."""
    found = [
        SampleView(epoch=record["epoch"], text=escape_control(value[:MAX_SAMPLE_LENGTH]))
        for record in records
        for key, value in record.items()
        if record["kind"] == "sample" and key != "kind" and isinstance(value, str)
        if isinstance(record.get("epoch"), int) and abs(record["epoch"]) < 2**53
    ]
    latest = found[::-1]
    return latest if len(found) <= MAX_SAMPLES else [*latest[: MAX_SAMPLES - 1], latest[-1]]


def _read_result(folder: Path) -> list[Fact]:
    from workings.storage import read_json
    from workings.training.report import format_result, list_signatures

    with suppress(UserError, OSError):  # it is written a moment after the log's last line
        result = read_json(folder / "result.json")
        found = [*format_result(result), *list_signatures(result)]
        return [Fact(name=to_one_line(name), value=to_one_line(value)) for name, value in found]
    return []


def _build_recipe_view(folder: Path) -> RecipeView:
    from workings.recipes.registry import list_settings
    from workings.training.runs import read_run_recipe

    sections: dict[str, list[SettingView]] = {}
    for one in list_settings(read_run_recipe(folder)):
        section, _, key = one.key.rpartition(".")
        value, usual = to_one_line(one.value), to_one_line(one.default)
        told = SettingView(key=key, value=value, default=usual, help=" ".join(one.help.split()))
        sections.setdefault(section or "run", []).append(told)
    return RecipeView(sections=sections, environment=_read_environment(folder))


def _read_environment(folder: Path) -> list[Fact]:
    from workings.storage import read_json
    from workings.training.report import format_environment

    with suppress(UserError, OSError):  # not written yet
        found = format_environment(read_json(folder / "environment.json"))
        return [
            Fact(name=to_one_line(name), value=to_one_line(value)) for name, value in found.items()
        ]
    return []
