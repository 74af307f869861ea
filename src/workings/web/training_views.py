"""Views of a training for the screen Train: progress, curves, metrics, samples, settings."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from workings.errors import UserError
from workings.json_files import read_json
from workings.plain_text import escape_control, to_one_line
from workings.recipes.base import Setting, list_settings
from workings.render.comparison import format_metric
from workings.render.training_report import MAX_SAMPLES, SPLIT_NAMES, curve_chart
from workings.training.monitor import Record, TrainingStatus
from workings.training.report_text import format_environment, format_result, list_signatures
from workings.training.run_folder import read_run_recipe
from workings.web.markup import picture_tree
from workings.web.responses import CurvesView, TableView, TrainingView

MAX_CHARTS, MAX_EPOCHS, MAX_SAMPLE_LENGTH = 12, 400, 5_000


def build_training_view(
    folder: Path, status: TrainingStatus, revision: int, width: int | None
) -> TrainingView:
    """Return the state of a training, with its curves if a width is given."""
    seconds_silent = _seconds_since_log(folder / "log.jsonl")
    state = status.state(seconds_silent)
    return TrainingView(
        state=state,
        summary=_summarize(status, state),
        progress=status.fraction_done,
        facts=_build_facts(status, state, seconds_silent),
        revision=revision,
        has_report=(folder / "report.html").is_file(),
        curves=None if width is None else _build_curves(folder, status, width),
    )


def _seconds_since_log(log: Path) -> float:
    """Return the seconds since the log was last written."""
    try:
        return max(time.time() - log.stat().st_mtime, 0.0)
    except OSError:
        return 0.0


def _summarize(status: TrainingStatus, state: str) -> str:
    """Return a line that changes once per epoch: screen readers read it aloud."""
    done = f"{status.epoch} of {status.epochs} epochs"
    latest = [best for best in status.best_metrics() if not best.key.startswith("train_")][-1:]
    metric = "".join(f", {_metric_label(b.key)} {format_metric(b.key, b.latest)}" for b in latest)
    metric = metric.replace(" %", "\u00a0%")
    return {
        "waiting": "The log is empty: the data are being read",
        "training": f"Training: {done} done{metric}",
        "quiet": f"No new output: {done} done{metric}. Continue with workings resume if it stopped",
        "finished": f"Finished after {status.epoch} epoch{'s' * (status.epoch != 1)}{metric}",
    }[state] + _describe_trend(status)


def _describe_trend(status: TrainingStatus) -> str:
    """Return when the latest metric was best, and what has happened since; empty for one epoch."""
    metrics = {best.key: best for best in status.best_metrics()}
    validation = [best for key, best in metrics.items() if key.startswith("validation_")]
    if not validation or status.epoch < 2:
        return ""
    best = validation[-1]
    if best.best_epoch == best.epoch:
        return ". Best in the last epoch"
    loss = metrics.get("train_loss")
    falls = loss is not None and loss.best_epoch > best.best_epoch
    since = "since then only the training loss falls" if falls else "no better since"
    return f". Best at epoch {best.best_epoch}; {since}"


def _build_facts(status: TrainingStatus, state: str, seconds_silent: float) -> dict[str, str]:
    facts = {"epoch": f"{status.epoch} of {status.epochs}"}
    if status.steps:
        facts["step"] = f"{status.step:,} of {status.steps:,}"
    if status.seconds:
        facts["training time"] = format_duration(status.seconds)
    if status.speed is not None:
        rate, unit = status.speed
        facts[f"{unit} per second"] = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
    if state == "training" and status.seconds_left is not None:
        facts["estimated time left"] = format_duration(status.seconds_left)
    if state == "quiet":
        facts["since the last output"] = format_duration(seconds_silent)
    if status.damage:
        facts["the log is damaged"] = status.damage
    return facts


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> format_duration(0.4), format_duration(75.2), format_duration(7380)
    ('0 s', '1 min 15 s', '2 h 3 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def _build_curves(folder: Path, status: TrainingStatus, width: int) -> CurvesView:
    metrics = status.list_metrics()[:MAX_CHARTS]
    return CurvesView(
        charts=[_build_chart(status, metric, width) for metric in metrics],
        metrics=_build_metrics_table(status),
        samples=_collect_samples(status.records),
        result=_read_result(folder) if status.is_finished else {},
    )


def _build_chart(status: TrainingStatus, metric: str, width: int) -> TableView:
    curves, points = subsample_epochs(status.curves), status.train_curve(metric)
    if len(points) <= len(curves):  # epochs are short: their means are enough
        points = []
    picture = curve_chart(curves, metric, train_points=points, width=width)
    splits = [split for split in SPLIT_NAMES if any(f"{split}_{metric}" in r for r in curves)]
    rows: dict[float, list[str]] = {}
    for record in curves:
        cells = (format_metric(metric, record.get(f"{split}_{metric}")) for split in splits)
        rows[record["epoch"]] = [f"{record['epoch']:g}", *cells, *([""] if points else [])]
    for epoch, value in points:
        row = rows.setdefault(epoch, [f"{epoch:.2f}", *("" for _ in splits), ""])
        row[-1] = format_metric(metric, value)
    header = ["epoch", *splits, *(["train, since the previous row"] if points else [])]
    lines = [row for _, row in sorted(rows.items())]
    return TableView(picture.title, header, lines, picture_tree(picture))


def subsample_epochs(curves: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return at most `MAX_EPOCHS` epochs, evenly spaced, the last one included."""
    every = -(-len(curves) // MAX_EPOCHS)
    return curves[::-1][:: max(every, 1)][::-1]


def _build_metrics_table(status: TrainingStatus) -> TableView:
    rows = [
        [
            _metric_label(b.key),
            format_metric(b.key, b.latest),
            format_metric(b.key, b.best),
            str(b.best_epoch),
        ]
        for b in status.best_metrics()
    ]
    return TableView("Current and best metrics", ["metric", "current", "best", "at epoch"], rows)


def _metric_label(key: str) -> str:
    return key.replace("_", " ")


def _collect_samples(records: Sequence[Record]) -> list[tuple[int, str]]:
    """Return the latest samples with their epochs, newest first, then the earliest one."""
    samples = [
        (record["epoch"], escape_control(value[:MAX_SAMPLE_LENGTH]))
        for record in records
        for key, value in record.items()
        if record["kind"] == "sample" and key != "kind" and isinstance(value, str)
        if isinstance(record.get("epoch"), int) and abs(record["epoch"]) < 2**53
    ]
    latest = samples[::-1]
    return latest if len(samples) <= MAX_SAMPLES else [*latest[: MAX_SAMPLES - 1], latest[-1]]


def _read_result(folder: Path) -> dict[str, str]:

    with suppress(UserError, OSError):  # the file is written shortly after the log's last line
        result = read_json(folder / "result.json")
        return _make_printable([*format_result(result), *list_signatures(result)])
    return {}


def _make_printable(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {to_one_line(name): to_one_line(value) for name, value in items}


def list_sections(folder: Path) -> dict[str, list[Setting]]:
    """Return the settings of a run's recipe by section, and its environment as the last section."""
    sections: dict[str, list[Setting]] = {}
    for setting in list_settings(read_run_recipe(folder)):
        section, _, key = setting.key.rpartition(".")
        printable = replace(
            setting,
            key=key,
            value=to_one_line(setting.value),
            default=to_one_line(setting.default),
            help=" ".join(setting.help.split()),
        )
        sections.setdefault(section or "run", []).append(printable)
    environment = [Setting(key, value, "", "") for key, value in _read_environment(folder).items()]
    return {**sections, "environment": environment}


def _read_environment(folder: Path) -> dict[str, str]:

    with suppress(UserError, OSError):  # not written yet
        return _make_printable(format_environment(read_json(folder / "environment.json")).items())
    return {}
