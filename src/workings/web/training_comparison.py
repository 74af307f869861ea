"""Two trainings side by side: their curves, best metrics and settings. Imports no torch."""

from collections.abc import Sequence

from workings.config import toml_value
from workings.plain_text import to_one_line
from workings.render.comparison import format_metric, held_out_split, runs_chart
from workings.training.monitor import LogTail, TrainingStatus
from workings.training.run_folder import diff_configs, read_run_recipe
from workings.web.markup import picture_tree
from workings.web.responses import TableView
from workings.web.runs import RegisteredRun
from workings.web.training_views import MAX_CHARTS, subsample_epochs

SIDE_NAMES = ("A", "B")


def compare_training(first: RegisteredRun, second: RegisteredRun, width: int) -> list[TableView]:
    """Compare the curves, best metrics and settings of two runs, finished or not."""
    runs = (first, second)
    statuses = {name: _read_status(run) for name, run in zip(SIDE_NAMES, runs, strict=True)}
    names = [
        f"{name}: {to_one_line(run.name)}{' (its log is damaged)' * bool(statuses[name].damage)}"
        for name, run in zip(SIDE_NAMES, runs, strict=True)
    ]
    settings = diff_configs(first.folder, second.folder)
    first_metrics, second_metrics = (status.list_metrics() for status in statuses.values())
    shared = [metric for metric in first_metrics if metric in second_metrics]
    rows = [[to_one_line(key), *map(_format_value, pair)] for key, pair in settings.items()]
    return [
        *(_build_runs_chart(statuses, metric, width) for metric in shared[:MAX_CHARTS]),
        _build_best_table([*statuses.values()], names),
        TableView("Settings that differ", ["setting", *names], rows),
    ]


def _read_status(run: RegisteredRun) -> TrainingStatus:
    log = LogTail(run.folder / "log.jsonl")
    _, records = log.read()
    return TrainingStatus(records, read_run_recipe(run.folder).train.epochs, log.damage)


def _format_value(value: object) -> str:
    if value is None:
        return "–"
    return to_one_line(value if isinstance(value, str) else toml_value(value))


def _build_runs_chart(statuses: dict[str, TrainingStatus], metric: str, width: int) -> TableView:
    curves = {name: subsample_epochs(status.curves) for name, status in statuses.items()}
    picture = runs_chart([*curves.items()], metric, f"{metric.replace('_', ' ')} by epoch", width)
    columns = [
        (f"{name}, {split}", f"{split}_{metric}", {r["epoch"]: r for r in records})
        for name, records in curves.items()
        for split in (held_out_split(records), "train")
        if any(f"{split}_{metric}" in r for r in records)
    ]
    epochs = sorted({epoch for _, _, by_epoch in columns for epoch in by_epoch})
    rows = [
        [
            f"{epoch:g}",
            *(format_metric(key, by_epoch.get(epoch, {}).get(key)) for _, key, by_epoch in columns),
        ]
        for epoch in epochs
    ]
    header = ["epoch", *(name for name, _, _ in columns)]
    return TableView(picture.title, header, rows, picture_tree(picture))


def _build_best_table(statuses: Sequence[TrainingStatus], names: Sequence[str]) -> TableView:
    metrics = [{best.key: best for best in status.best_metrics()} for status in statuses]
    rows = [
        [
            key.replace("_", " "),
            *(
                f"{format_metric(key, by_key[key].best)} (epoch {by_key[key].best_epoch})"
                if key in by_key
                else "–"
                for by_key in metrics
            ),
        ]
        for key in dict.fromkeys(key for by_key in metrics for key in by_key)
    ]
    return TableView("Best metrics of each run", ["best", *names], rows)
