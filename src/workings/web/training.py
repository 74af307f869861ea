"""The screen Train: a run's log while it grows, its settings and its report."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import Response

from workings.errors import UserError
from workings.files import read_bytes
from workings.train.follow import Followed
from workings.train.watch import Record, Watched
from workings.views.compared import figure
from workings.views.plain import one_line, printable
from workings.views.report import PARTS, SAMPLES, curve_chart
from workings.web.asked import RunName
from workings.web.pictures import tree
from workings.web.shelf import Run, Shelf
from workings.web.told_runs import (
    Chart,
    Curves,
    Fact,
    Grid,
    Recipe,
    Sample,
    Setting,
    Training,
)

LARGEST_REPORT = 64 * 2**20
MOST_CHARTS, MOST_EPOCHS, LONGEST_SAMPLE = 12, 400, 5_000
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'; sandbox"
)
"""a report may look as it likes, and do nothing: it is a file that anybody may have written"""

Width = Annotated[int, Query(ge=240, le=1600)]


def training(app: FastAPI, shelf: Shelf) -> None:
    """Declare the answers."""
    logs: dict[str, tuple[Followed, int]] = {}

    def log_and_epochs(run: Run) -> tuple[Followed, int]:
        from workings.train.runs import recipe_of  # imports torch: only where there are runs

        if run.name not in logs:
            epochs = recipe_of(run.folder).train.epochs
            logs[run.name] = Followed(run.folder / "log.jsonl"), epochs
        return logs[run.name]

    @app.get("/api/training/{run}")
    def watch(
        run: RunName, seen: Annotated[int, Query(ge=-1, le=2**53)] = -1, width: Width = 480
    ) -> Training:
        """Tell how a training is going; its curves, unless the page has `seen` them."""
        found = shelf.run(run)
        log, epochs = log_and_epochs(found)
        changes, records = log.read()
        return _training(found.folder, epochs, changes, records, None if seen == changes else width)

    @app.get("/api/recipe/{run}")
    def recipe(run: RunName) -> Recipe:
        """List what a run is made by."""
        return _recipe(shelf.run(run).folder)

    @app.get("/api/report/{run}", response_class=Response)
    def report(run: RunName) -> Response:
        """Give a run's report; nothing in it can run, wherever it is shown."""
        path = shelf.run(run).folder / "report.html"
        try:
            content = read_bytes(path, LARGEST_REPORT)
        except OSError:
            raise UserError("no report yet: it is written when the training is over") from None
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)


def _training(
    folder: Path, epochs: int, changes: int, records: Sequence[Record], width: int | None
) -> Training:
    watched = Watched(records, epochs)
    silent = _silent(folder / "log.jsonl")
    state = watched.state(silent)
    return Training(
        state=state,
        says=_says(watched, state),
        share=watched.share,
        facts=_facts(watched, state, silent),
        seen=changes,
        report=(folder / "report.html").is_file(),
        curves=None if width is None else _curves(folder, watched, width),
    )


def _silent(log: Path) -> float:
    """How long ago the log last grew, in seconds."""
    try:
        return max(time.time() - log.stat().st_mtime, 0.0)
    except OSError:
        return 0.0


def _says(watched: Watched, state: str) -> str:
    """Say where it is, in a line that changes once an epoch: it is read aloud."""
    done = f"{watched.epoch} of {watched.epochs} epochs"
    latest = [best for best in watched.best() if not best.key.startswith("train_")][-1:]
    measured = "".join(f", {_named(b.key)} {figure(b.key, b.now)}" for b in latest)
    measured = measured.replace(" %", "\u00a0%")
    return {
        "waiting": "Nothing has been logged yet: the data are read first",
        "training": f"Training: {done} done{measured}",
        "quiet": f"Silent: {done} done{measured}. Was it stopped? workings resume goes on",
        "finished": f"Finished after {watched.epoch} epochs{measured}",
    }[state]


def _facts(watched: Watched, state: str, silent: float) -> list[Fact]:
    told = {"epoch": f"{watched.epoch} of {watched.epochs}"}
    if watched.steps:
        told["step"] = f"{watched.step:,} of {watched.steps:,}"
    if watched.seconds:
        told["trained for"] = duration(watched.seconds)
    if watched.speed is not None:
        often, unit = watched.speed
        told[f"{unit} a second"] = f"{often:,.0f}" if often >= 10 else f"{often:.2f}"
    if state == "training" and watched.left is not None:
        told["left, about"] = duration(watched.left)
    if state == "quiet":
        told["silent for"] = duration(silent)
    return [Fact(name=name, value=value) for name, value in told.items()]


def duration(seconds: float) -> str:
    """Write a time in its two largest units.

    >>> duration(0.4), duration(75.2), duration(7380)
    ('0 s', '1 min 15 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _curves(folder: Path, watched: Watched, width: int) -> Curves:
    return Curves(
        charts=[_chart(watched, what, width) for what in watched.measures()[:MOST_CHARTS]],
        measures=_measures(watched),
        samples=_samples(watched.records),
        result=_result(folder) if watched.finished else [],
    )


def _chart(watched: Watched, what: str, width: int) -> Chart:
    curves, points = thinned(watched.curves), watched.means(what)
    if len(points) <= len(curves):  # epochs are short: their means say more
        points = []
    picture = curve_chart(curves, what, while_training=points, width=width)
    parts = [part for part in PARTS if any(f"{part}_{what}" in r for r in curves)]
    rows: dict[float, list[str]] = {}
    for record in curves:
        cells = (figure(what, record.get(f"{part}_{what}")) for part in parts)
        rows[record["epoch"]] = [f"{record['epoch']:g}", *cells, *([""] if points else [])]
    for place, value in points:
        row = rows.setdefault(place, [f"{place:.2f}", *("" for _ in parts), ""])
        row[-1] = figure(what, value)
    head = ["epoch", *parts, *(["train, since the line before"] if points else [])]
    table = Grid(head=head, rows=[row for _, row in sorted(rows.items())])
    return Chart(title=picture.title, picture=tree(picture), table=table)


def thinned(curves: list[dict[str, float]]) -> list[dict[str, float]]:
    """Leave out epochs evenly where there are more than can be seen; the last one stays."""
    every = -(-len(curves) // MOST_EPOCHS)
    return curves[::-1][:: max(every, 1)][::-1]


def _measures(watched: Watched) -> Grid:
    rows = [
        [_named(b.key), figure(b.key, b.now), figure(b.key, b.best), str(b.best_epoch)]
        for b in watched.best()
    ]
    return Grid(head=["measure", "now", "best", "at epoch"], rows=rows)


def _named(key: str) -> str:
    return key.replace("_", " ")


def _samples(records: Sequence[Record]) -> list[Sample]:
    """What was kept after epochs: the latest first, and the very first for comparison."""
    found = [
        Sample(epoch=record["epoch"], text=printable(value[:LONGEST_SAMPLE]))
        for record in records
        for key, value in record.items()
        if record["kind"] == "remark" and key != "kind" and isinstance(value, str)
        if isinstance(record.get("epoch"), int) and abs(record["epoch"]) < 2**53
    ]
    latest = found[::-1]
    return latest if len(found) <= SAMPLES else [*latest[: SAMPLES - 1], latest[-1]]


def _result(folder: Path) -> list[Fact]:
    from workings.storage import read_json
    from workings.train.report import figures, signatures

    with suppress(UserError, OSError):  # it is written a moment after the log's last line
        result = read_json(folder / "result.json")
        found = [*figures(result), *signatures(result)]
        return [Fact(name=one_line(name), value=one_line(value)) for name, value in found]
    return []


def _recipe(folder: Path) -> Recipe:
    from workings.recipes.settings import settings
    from workings.train.runs import recipe_of

    sections: dict[str, list[Setting]] = {}
    for one in settings(recipe_of(folder)):
        section, _, key = one.key.rpartition(".")
        value, usual = one_line(one.value), one_line(one.usual)
        told = Setting(key=key, value=value, usual=usual, help=" ".join(one.help.split()))
        sections.setdefault(section or "run", []).append(told)
    return Recipe(sections=sections, made_with=_made_with(folder))


def _made_with(folder: Path) -> list[Fact]:
    from workings.storage import read_json
    from workings.train.report import made_with

    with suppress(UserError, OSError):  # not written yet
        found = made_with(read_json(folder / "environment.json"))
        return [Fact(name=one_line(name), value=one_line(value)) for name, value in found.items()]
    return []
