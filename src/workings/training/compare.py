"""Comparing recipes with each other and with baselines, and two runs in detail."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from workings.config import to_table
from workings.data.parallel import load_pairs
from workings.errors import UserError, install_hint
from workings.io import make_folder
from workings.recipes import ClassificationRecipe, Recipe, TranslationRecipe, read_recipe
from workings.recipes.base import flatten_table, state_plugins
from workings.signals import handle_signals
from workings.storage import read_json, write_json
from workings.tasks.baselines import BASELINES, evaluate_baseline
from workings.tasks.classification import Classification, load_splits
from workings.training.environment import diff_environments, measure_peak_memory
from workings.training.log_damage import describe_log_damage
from workings.training.logging import read_epochs
from workings.training.run_folder import diff_configs, diff_tables, read_run_recipe
from workings.training.runs import absolute_paths, load

LogFunction = Callable[[str], None]
MAX_LISTED_TEXTS = 20  # examples of changed predictions
TIMING_KEYS = ("seconds", "evaluation_seconds")


def compare_recipes(
    paths: Sequence[str],
    overrides: Sequence[str],
    out: Path,
    *,
    threads: int | None,
    log: LogFunction,
) -> dict[str, Any]:
    """Train recipes, each in a process of its own, and baselines; write compare.json.

    Runs that an earlier comparison of the same recipes finished in `out` are reused, and those that
    it began are resumed.
    """
    names = [Path(path).stem for path in paths]
    if len(set(names)) < len(names):
        raise UserError("two recipes have the same file name: each needs a folder of its own")
    recipes = {name: read_recipe(path, overrides) for name, path in zip(names, paths, strict=True)}
    if len(tasks := {recipe.task for recipe in recipes.values()}) > 1:
        raise UserError(f"these recipes are of different tasks ({', '.join(sorted(tasks))})")
    datasets = {recipe.data.set for recipe in recipes.values()}
    if len(datasets) > 1:
        raise UserError(
            f"these recipes have different data ({', '.join(sorted(datasets))}): "
            "--data.set NAME gives all of them the same"
        )
    _check_same_test_set(list(recipes.values()))
    make_folder(out)
    first = next(iter(recipes.values()))
    rows = _evaluate_baselines(first, log) if isinstance(first, ClassificationRecipe) else []
    for name, path in zip(names, paths, strict=True):
        rows.append(_train_run(recipes[name], path, overrides, out / name, threads, log))
    comparison = {"data": datasets.pop(), "rows": rows}
    write_json(out / "compare.json", comparison)
    return comparison


def _check_same_test_set(recipes: Sequence[Recipe]) -> None:
    """Check that all recipes have the same test data, which may depend on seed and columns."""
    keys = ("text", "label", "source", "target")
    distinct = {(r.seed, *(getattr(r.data, key, None) for key in keys)): r for r in recipes}
    if len(distinct) == 1:
        return  # without reading any data
    first, *others = map(_load_test_split, distinct.values())
    if any(other != first for other in others):
        raise UserError(
            "these recipes would be tested on different examples of the same data: "
            "--seed N gives all of them the same"
        )


def _load_test_split(recipe: Recipe) -> Any:
    """Return the test data of a recipe; None if they depend neither on seed nor on columns."""
    if isinstance(recipe, ClassificationRecipe):
        return load_splits(recipe).test
    if isinstance(recipe, TranslationRecipe):
        data = recipe.data
        return load_pairs(data.set, source=data.source, target=data.target, seed=recipe.seed).test
    return None


def _evaluate_baselines(recipe: ClassificationRecipe, log: LogFunction) -> list[dict[str, Any]]:
    if recipe.data.multi_label:
        log("left out: the baselines, which predict one label per text")
        return []
    rows = []
    for name in BASELINES:
        log(f"{name} …")
        try:
            # In a process of its own, to measure its peak memory.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                rows.append(process.submit(_evaluate_in_process, name, recipe).result())
        except ModuleNotFoundError as missing:
            log(f"left out: {missing.name} is missing: {install_hint(missing)}")
            break
    return rows


def _evaluate_in_process(name: str, recipe: ClassificationRecipe) -> dict[str, Any]:
    characters = recipe.tokenizer.kind == "characters"
    metrics = evaluate_baseline(name, load_splits(recipe), characters=characters)
    return {"name": name, **metrics, "peak_memory_mb": measure_peak_memory()}


def _train_run(
    recipe: Recipe,
    path: str,
    overrides: Sequence[str],
    folder: Path,
    threads: int | None,
    log: LogFunction,
) -> dict[str, Any]:
    """Train or resume the run of a recipe, unless it is finished; return its row."""
    recipe = state_plugins(absolute_paths(recipe))
    is_started = (folder / "config.toml").is_file()
    if is_started and to_table(read_run_recipe(folder)) != to_table(recipe):
        raise UserError(f"{folder} has a run of another recipe: remove it, or use another --out")
    if (folder / "result.json").is_file():
        log(f"{folder}: trained already")
        if damage := describe_log_damage(folder):
            log(f"warning: {damage}")
    else:
        verb = ["train", path, "--out", str(folder), *overrides]
        if is_started:
            verb = ["resume", str(folder)]
        options = [f"--plugin={name}" for name in recipe.plugins]
        options += [] if threads is None else ["--threads", str(threads)]
        if run_command([sys.executable, "-m", "workings", *verb, *options]) != 0:
            raise UserError(f"{path}: the training failed (see above)")
    result = read_json(folder / "result.json")
    return {
        "name": folder.name,
        **{k: v for k, v in result.items() if k != "format"},
        "seconds": round(result["minutes"] * 60, 1),
        "curves": read_epochs(folder / "log.jsonl"),
    }


def run_command(command: Sequence[str]) -> int:
    """Run a workings command to its end; return its exit status.

    Ctrl-C reaches both processes: this one waits until the training has written its checkpoint.
    """
    received = list[int]()
    with handle_signals({signal.SIGINT: lambda number, _: received.append(number)}):
        returncode = subprocess.run(command, check=False).returncode  # noqa: S603 - our own command
    if received or returncode == 130:
        raise KeyboardInterrupt
    return returncode


# -- two runs --------------------------------------------------------------------------------------


def diff_runs(first: Path, second: Path) -> dict[str, Any]:
    """Compare two runs: configuration, environment, curves, results and test predictions.

    An imported run has neither curves nor results.
    """
    runs = (first, second)
    for run in runs:
        read_run_recipe(run)
        if (run / "log.jsonl").is_file() and not (run / "result.json").is_file():
            raise UserError(f"{run}: not a finished run: it has no result.json")
    return {
        "runs": [str(run) for run in runs],
        "configuration": diff_configs(first, second),
        "environment": diff_environments(*(read_json(run / "environment.json") for run in runs)),
        "curves": _diff_curves(*map(_read_curves, runs)),
        "results": diff_tables(*map(_read_reproducible_result, runs)),
        "predictions": _diff_predictions(first, second),
    }


def _read_reproducible_result(run: Path) -> dict[str, Any]:
    """Return a result without time and memory, which always differ; flat, and empty if missing."""
    if not (run / "result.json").is_file():
        return {}
    result = read_json(run / "result.json")
    kept = {
        k: v for k, v in result.items() if k not in ("minutes", "cpu_minutes", "peak_memory_mb")
    }
    return dict(flatten_table(kept))


def _read_curves(run: Path) -> list[dict[str, Any]]:
    return read_epochs(run / "log.jsonl") if (run / "log.jsonl").is_file() else []


def _diff_curves(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> dict[str, Any]:
    """Return for each metric the first epoch that differs, and the largest difference."""
    differences: dict[str, Any] = {"epochs": [len(first), len(second)]}
    for a, b in zip(first, second, strict=False):
        for key in a.keys() & b.keys():
            if key in (*TIMING_KEYS, "kind", "epoch", "step") or a[key] == b[key]:
                continue
            differing = differences.setdefault(
                key, {"first_epoch": a["epoch"], "max_difference": 0.0}
            )
            differing["max_difference"] = max(differing["max_difference"], abs(a[key] - b[key]))
    return differences


def _diff_predictions(first_run: Path, second_run: Path) -> dict[str, Any]:
    """Compare the labels that two classifiers predict for the first one's test texts."""
    nothing = {"texts": 0, "changed": 0}
    if any(read_run_recipe(run).task != "classify" for run in (first_run, second_run)):
        return nothing
    first, second = load(first_run, Classification), load(second_run, Classification)
    first.evaluate_on()
    examples = first.examples.get("test", [])
    if not examples:
        return nothing
    texts = [e.text for e in examples]
    before = _name_predictions(first, texts)
    after = _name_predictions(second, texts)
    labels = [", ".join(sorted(e.labels)) or "no label" for e in examples]
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    return {
        "texts": len(texts),
        "changed": len(changed),
        "only_first_correct": sum(before[i] == labels[i] for i in changed),
        "only_second_correct": sum(after[i] == labels[i] for i in changed),
        "examples": [
            {"text": texts[i], "label": labels[i], "first": before[i], "second": after[i]}
            for i in changed[:MAX_LISTED_TEXTS]
        ],
    }


def _name_predictions(task: Classification, texts: Sequence[str]) -> list[str]:
    """Return the predicted label of each text, or its labels."""
    rows = (list(prediction["probabilities"].values()) for prediction in task.predict_iter(texts))
    return [task.scheme.name_of(task.scheme.decide(row)) for row in rows]
