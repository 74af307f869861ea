"""Several recipes on the same data, side by side, with what every one of them should beat."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from workings.config import to_table
from workings.data import Splits, load_dataset, load_pairs
from workings.errors import UserError, install_hint
from workings.recipes import ClassificationRecipe, Recipe, TranslationRecipe, read_recipe
from workings.recipes.registry import flatten_table
from workings.storage import read_json, write_json
from workings.tasks.baselines import BASELINES, evaluate_baseline
from workings.tasks.classification import Classification
from workings.training.environment import diff_environments, measure_peak_memory
from workings.training.logging import read_log
from workings.training.runs import absolute_paths, load, read_run_recipe

LogFunction = Callable[[str], None]


def compare_recipes(
    paths: Sequence[str],
    overrides: Sequence[str],
    out: Path,
    *,
    threads: int | None,
    log: LogFunction,
) -> dict[str, Any]:
    """Train every recipe in a process of its own, and the baselines; write compare.json.

    What is in the folder already from an earlier comparison of the same recipes is not trained
    again, and what was stopped goes on.
    """
    names = [Path(path).stem for path in paths]
    if len(set(names)) < len(names):
        raise UserError("two recipes have the same file name: each needs a folder of its own")
    recipes = {name: read_recipe(path, overrides) for name, path in zip(names, paths, strict=True)}
    if len(tasks := {recipe.task for recipe in recipes.values()}) > 1:
        raise UserError(f"these recipes are of different tasks ({', '.join(sorted(tasks))})")
    sets = {recipe.data.set for recipe in recipes.values()}
    if len(sets) > 1:
        raise UserError(
            f"these recipes learn from different data ({', '.join(sorted(sets))}): "
            "--data.set NAME gives all of them the same"
        )
    _check_same_test_set(list(recipes.values()))
    out.mkdir(parents=True, exist_ok=True)
    first = next(iter(recipes.values()))
    rows = _evaluate_baselines(first, log) if isinstance(first, ClassificationRecipe) else []
    for name, path in zip(names, paths, strict=True):
        rows.append(_train_run(recipes[name], path, overrides, out / name, threads, log))
    compared = {"data": sets.pop(), "rows": rows}
    write_json(out / "compare.json", compared)
    return compared


def _check_same_test_set(recipes: Sequence[Recipe]) -> None:
    """See that all are measured on the same: where a set holds nothing out, the seed chooses."""
    keys = ("text", "label", "source", "target")
    ways = {(r.seed, *(getattr(r.data, key, None) for key in keys)): r for r in recipes}
    if len(ways) == 1:
        return  # nothing to compare, and nothing to read
    first, *others = map(_load_test_split, ways.values())
    if any(other != first for other in others):
        raise UserError(
            "these recipes would be tested on different examples of the same data: "
            "--seed N gives all of them the same"
        )


def _load_test_split(recipe: Recipe) -> Any:
    """What a recipe holds out for the test, where its seed or its columns may change that."""
    if isinstance(recipe, ClassificationRecipe):
        return _load_splits(recipe).test
    if isinstance(recipe, TranslationRecipe):
        data = recipe.data
        return load_pairs(data.set, source=data.source, target=data.target, seed=recipe.seed).test
    return None


def _load_splits(recipe: ClassificationRecipe) -> Splits:
    data = recipe.data
    return load_dataset(
        data.set,
        validation=data.validation,
        seed=recipe.seed,
        text=data.text,
        label=data.label,
    )


def _evaluate_baselines(recipe: ClassificationRecipe, log: LogFunction) -> list[dict[str, Any]]:
    rows = []
    for name in BASELINES:
        log(f"{name} …")
        try:
            # A process of its own, so that its memory is its own.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                rows.append(process.submit(_evaluate_in_process, name, recipe).result())
        except ModuleNotFoundError as missing:
            log(f"left out: {missing.name} is missing: {install_hint(missing)}")
            break
    return rows


def _evaluate_in_process(name: str, recipe: ClassificationRecipe) -> dict[str, Any]:
    characters = recipe.tokenizer.kind == "characters"
    measured = evaluate_baseline(name, _load_splits(recipe), characters=characters)
    return {"name": name, **measured, "peak_memory_mb": measure_peak_memory()}


def run_command(command: Sequence[str]) -> int:
    """Run ourselves to the end, and tell how it went.

    Ctrl-C reaches both processes: the training writes a checkpoint before it ends, and has the
    time it needs for that.
    """
    interrupted = False
    with subprocess.Popen(command) as process:  # noqa: S603 - ourselves
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                interrupted = True
    if interrupted or process.returncode == 130:
        raise KeyboardInterrupt
    return process.returncode


def _train_run(
    recipe: Recipe,
    path: str,
    overrides: Sequence[str],
    folder: Path,
    threads: int | None,
    log: LogFunction,
) -> dict[str, Any]:
    if (folder / "config.toml").is_file() and to_table(read_run_recipe(folder)) != to_table(
        absolute_paths(recipe)
    ):
        raise UserError(f"{folder} holds a run of another recipe: remove it, or another --out")
    if not (folder / "result.json").is_file():
        begun = (folder / "config.toml").is_file()
        verb = (
            ["resume", str(folder)] if begun else ["train", path, "--out", str(folder), *overrides]
        )
        with_threads = [] if threads is None else ["--threads", str(threads)]
        if run_command([sys.executable, "-m", "workings", *verb, *with_threads]) != 0:
            raise UserError(f"{path}: the training failed (see above)")
    else:
        log(f"{folder}: trained already")
    result = read_json(folder / "result.json")
    curves = [r for r in read_log(folder / "log.jsonl") if r["kind"] == "epoch"]
    return {
        "name": folder.name,
        **{k: v for k, v in result.items() if k != "format"},
        "seconds": round(result["minutes"] * 60, 1),
        "curves": curves,
    }


MAX_LISTED_TEXTS = 20  # texts whose predictions changed
TIMING_KEYS = ("seconds", "evaluation_seconds")


def diff_runs(first: Path, second: Path) -> dict[str, Any]:
    """Compare two runs: configuration, environment, curves, predictions on the test part."""
    for run in (first, second):
        if not (run / "result.json").is_file():
            raise UserError(f"{run}: not a finished run: it has no result.json")
    made = [read_json(run / "environment.json") for run in (first, second)]
    return {
        "runs": [str(first), str(second)],
        "configuration": diff_configs(first, second),
        "environment": diff_environments(*made),
        "curves": _diff_curves(*(read_log(run / "log.jsonl") for run in (first, second))),
        "results": _diff_tables(
            *(dict(flatten_table(_read_reproducible_result(run))) for run in (first, second))
        ),
        "predictions": _diff_predictions(first, second),
    }


def diff_configs(first: Path, second: Path) -> dict[str, list[Any]]:
    """The settings in which two runs differ: of each key both values, None where it has none."""
    return _diff_tables(
        *(dict(flatten_table(to_table(read_run_recipe(run)))) for run in (first, second))
    )


def _read_reproducible_result(run: Path) -> dict[str, Any]:
    """A result without what is never the same twice."""
    result = read_json(run / "result.json")
    return {k: v for k, v in result.items() if k not in ("minutes", "peak_memory_mb")}


def _diff_tables(first: dict[str, Any], second: dict[str, Any]) -> dict[str, list[Any]]:
    keys = dict.fromkeys((*first, *second))
    return {k: [first.get(k), second.get(k)] for k in keys if first.get(k) != second.get(k)}


def _diff_curves(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> dict[str, Any]:
    """For every measure the first epoch at which the runs part, and how far they ever do."""
    epochs = [[r for r in log if r["kind"] == "epoch"] for log in (first, second)]
    found: dict[str, Any] = {"epochs": [len(e) for e in epochs]}
    for a, b in zip(*epochs, strict=False):
        for key in a.keys() & b.keys():
            if key in (*TIMING_KEYS, "kind", "epoch", "step") or a[key] == b[key]:
                continue
            apart = found.setdefault(key, {"first_epoch": a["epoch"], "max_difference": 0.0})
            apart["max_difference"] = max(apart["max_difference"], abs(a[key] - b[key]))
    return found


def _diff_predictions(first_run: Path, second_run: Path) -> dict[str, Any]:
    """Which texts of the first run's test part the two see differently."""
    first, second = load(first_run), load(second_run)
    if not (isinstance(first, Classification) and isinstance(second, Classification)):
        return {"texts": 0, "changed": 0}
    first.evaluate_on()
    examples = first.examples.get("test", [])
    if not examples:
        return {"texts": 0, "changed": 0}
    scores, _ = first.compute_split_logits("test", first.local_group)
    texts = [e.text for e in examples]
    before = [first.labels[int(k)] for k in scores.argmax(-1)]
    after = [told["label"] for told in second.predict_iter(texts)]
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    better = sum(after[i] == examples[i].label for i in changed)
    worse = sum(before[i] == examples[i].label for i in changed)
    return {
        "texts": len(texts),
        "changed": len(changed),
        "only_first_correct": worse,
        "only_second_correct": better,
        "examples": [
            {"text": texts[i], "label": examples[i].label, "first": before[i], "second": after[i]}
            for i in changed[:MAX_LISTED_TEXTS]
        ],
    }
