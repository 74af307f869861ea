"""Two runs' trainings beside each other: curves, the best of each, what their recipes change."""

from collections.abc import Sequence

from workings.config import toml_value
from workings.train.differ import configurations
from workings.train.follow import Followed
from workings.train.runs import recipe_of
from workings.train.watch import Watched
from workings.views.compared import figure, held_out, runs_chart
from workings.views.plain import one_line
from workings.web.pictures import tree
from workings.web.shelf import Run
from workings.web.told_runs import Both, Chart, Grid
from workings.web.training import MOST_CHARTS, thinned


def trained_both(first: Run, second: Run, width: int) -> Both:
    """Compare how two runs were trained; either may still be."""
    runs = (first, second)
    watched = {name: _watched(run) for name, run in zip("AB", runs, strict=True)}
    names = [f"{name}: {one_line(run.name)}" for name, run in zip("AB", runs, strict=True)]
    settings = configurations(first.folder, second.folder)
    shared = [what for what in watched["A"].measures() if what in watched["B"].measures()]
    return Both(
        charts=[_chart(watched, what, width) for what in shared[:MOST_CHARTS]],
        best=_best([*watched.values()], names),
        settings=Grid(
            head=["setting", *names],
            rows=[[one_line(key), *map(_value, pair)] for key, pair in settings.items()],
        ),
    )


def _watched(run: Run) -> Watched:
    records = Followed(run.folder / "log.jsonl").read()[1]
    return Watched(records, recipe_of(run.folder).train.epochs)


def _value(value: object) -> str:
    return (
        "–" if value is None else one_line(value if isinstance(value, str) else toml_value(value))
    )


def _chart(watched: dict[str, Watched], what: str, width: int) -> Chart:
    curves = {name: thinned(one.curves) for name, one in watched.items()}
    picture = runs_chart([*curves.items()], what, f"{what.replace('_', ' ')} by epoch", width)
    columns = [
        (f"{name}, {part}", f"{part}_{what}", {r["epoch"]: r for r in of})
        for name, of in curves.items()
        for part in (held_out(of), "train")
        if any(f"{part}_{what}" in r for r in of)
    ]
    epochs = sorted({epoch for _, _, of in columns for epoch in of})
    rows = [
        [f"{epoch:g}", *(figure(key, of.get(epoch, {}).get(key)) for _, key, of in columns)]
        for epoch in epochs
    ]
    table = Grid(head=["epoch", *(name for name, _, _ in columns)], rows=rows)
    return Chart(title=picture.title, picture=tree(picture), table=table)


def _best(watched: Sequence[Watched], names: Sequence[str]) -> Grid:
    found = [{best.key: best for best in one.best()} for one in watched]
    keys = dict.fromkeys(key for of in found for key in of)
    rows = [
        [
            key.replace("_", " "),
            *(
                f"{figure(key, of[key].best)} (epoch {of[key].best_epoch})" if key in of else "–"
                for of in found
            ),
        ]
        for key in keys
    ]
    return Grid(head=["best", *names], rows=rows)
