"""Two runs told apart: what they were made of, how they went, what they make of the same texts."""

from pathlib import Path
from typing import Any

from workings.config import to_table
from workings.errors import UserError
from workings.recipes.settings import flat
from workings.storage import read_json
from workings.tasks.classify import Classifying
from workings.train.environment import differences
from workings.train.log import read_log
from workings.train.runs import load, recipe_of

LISTED = 20  # texts whose predictions changed
TIMES = ("seconds", "evaluation_seconds")


def differ(one: Path, other: Path) -> dict[str, Any]:
    """Compare two runs: configuration, environment, curves, predictions on the test part."""
    for run in (one, other):
        if not (run / "result.json").is_file():
            raise UserError(f"{run}: not a finished run: it has no result.json")
    made = [read_json(run / "environment.json") for run in (one, other)]
    return {
        "runs": [str(one), str(other)],
        "configuration": configurations(one, other),
        "environment": differences(*made),
        "curves": _curves(*(read_log(run / "log.jsonl") for run in (one, other))),
        "results": _changed(*(dict(flat(_lasting(run))) for run in (one, other))),
        "predictions": _predictions(one, other),
    }


def configurations(one: Path, other: Path) -> dict[str, list[Any]]:
    """The settings in which two runs differ: of each key both values, None where it has none."""
    return _changed(*(dict(flat(to_table(recipe_of(run)))) for run in (one, other)))


def _lasting(run: Path) -> dict[str, Any]:
    """A result without what is never the same twice."""
    result = read_json(run / "result.json")
    return {k: v for k, v in result.items() if k not in ("minutes", "peak_memory_mb")}


def _changed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, list[Any]]:
    keys = dict.fromkeys((*one, *other))
    return {k: [one.get(k), other.get(k)] for k in keys if one.get(k) != other.get(k)}


def _curves(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> dict[str, Any]:
    """For every measure the first epoch at which the runs part, and how far they ever do."""
    epochs = [[r for r in log if r["kind"] == "epoch"] for log in (one, other)]
    found: dict[str, Any] = {"epochs": [len(e) for e in epochs]}
    for a, b in zip(*epochs, strict=False):
        for key in a.keys() & b.keys():
            if key in (*TIMES, "kind", "epoch", "step") or a[key] == b[key]:
                continue
            apart = found.setdefault(key, {"from_epoch": a["epoch"], "at_most": 0.0})
            apart["at_most"] = max(apart["at_most"], abs(a[key] - b[key]))
    return found


def _predictions(one: Path, other: Path) -> dict[str, Any]:
    """Which texts of the first run's test part the two see differently."""
    first, second = load(one), load(other)
    if not (isinstance(first, Classifying) and isinstance(second, Classifying)):
        return {"texts": 0, "changed": 0}
    first.evaluate_on()
    examples = first.examples.get("test", [])
    if not examples:
        return {"texts": 0, "changed": 0}
    scores, _ = first.scores("test", first.alone)
    texts = [e.text for e in examples]
    before = [first.labels[int(k)] for k in scores.argmax(-1)]
    after = [told["label"] for told in second.tell(texts)]
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    better = sum(after[i] == examples[i].label for i in changed)
    worse = sum(before[i] == examples[i].label for i in changed)
    return {
        "texts": len(texts),
        "changed": len(changed),
        "only_the_first_is_right": worse,
        "only_the_second_is_right": better,
        "some": [
            {"text": texts[i], "label": examples[i].label, "first": before[i], "second": after[i]}
            for i in changed[:LISTED]
        ],
    }
