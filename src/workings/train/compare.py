"""Several recipes on the same data, side by side, with what every one of them should beat."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from workings.config import to_table
from workings.data import Splits, load_pairs, load_set
from workings.errors import UserError, extra_of
from workings.recipes import ClassifyRecipe, Recipe, TranslateRecipe, read_recipe
from workings.storage import read_json, write_json
from workings.tasks.baselines import BASELINES, measure
from workings.train.environment import peak_memory
from workings.train.log import read_log
from workings.train.runs import at_home, recipe_of

Say = Callable[[str], None]


def compare(
    paths: Sequence[str], changes: Sequence[str], out: Path, *, threads: int | None, say: Say
) -> dict[str, Any]:
    """Train every recipe in a process of its own, and the baselines; write compare.json.

    What is in the folder already from an earlier comparison of the same recipes is not trained
    again, and what was stopped goes on.
    """
    names = [Path(path).stem for path in paths]
    if len(set(names)) < len(names):
        raise UserError("two recipes have the same file name: each needs a folder of its own")
    recipes = {name: read_recipe(path, changes) for name, path in zip(names, paths, strict=True)}
    if len(tasks := {recipe.task for recipe in recipes.values()}) > 1:
        raise UserError(f"these recipes are of different tasks ({', '.join(sorted(tasks))})")
    sets = {recipe.data.set for recipe in recipes.values()}
    if len(sets) > 1:
        raise UserError(
            f"these recipes learn from different data ({', '.join(sorted(sets))}): "
            "--data.set NAME gives all of them the same"
        )
    _expect_one_test(list(recipes.values()))
    out.mkdir(parents=True, exist_ok=True)
    first = next(iter(recipes.values()))
    rows = _baselines(first, say) if isinstance(first, ClassifyRecipe) else []
    for name, path in zip(names, paths, strict=True):
        rows.append(_trained(recipes[name], path, changes, out / name, threads, say))
    compared = {"data": sets.pop(), "rows": rows}
    write_json(out / "compare.json", compared)
    return compared


def _expect_one_test(recipes: Sequence[Recipe]) -> None:
    """See that all are measured on the same: where a set holds nothing out, the seed chooses."""
    keys = ("text", "label", "source", "target")
    ways = {(r.seed, *(getattr(r.data, key, None) for key in keys)): r for r in recipes}
    if len(ways) == 1:
        return  # nothing to compare, and nothing to read
    first, *others = map(_test_part, ways.values())
    if any(other != first for other in others):
        raise UserError(
            "these recipes would be tested on different examples of the same data: "
            "--seed N gives all of them the same"
        )


def _test_part(recipe: Recipe) -> Any:
    """What a recipe holds out for the test, where its seed or its columns may change that."""
    if isinstance(recipe, ClassifyRecipe):
        return _splits(recipe).test
    if isinstance(recipe, TranslateRecipe):
        data = recipe.data
        return load_pairs(data.set, source=data.source, target=data.target, seed=recipe.seed).test
    return None


def _splits(recipe: ClassifyRecipe) -> Splits:
    data = recipe.data
    return load_set(
        data.set,
        validation=data.validation,
        seed=recipe.seed,
        text=data.text,
        label=data.label,
    )


def _baselines(recipe: ClassifyRecipe, say: Say) -> list[dict[str, Any]]:
    rows = []
    for name in BASELINES:
        say(f"{name} …")
        try:
            # A process of its own, so that its memory is its own.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                rows.append(process.submit(_baseline, name, recipe).result())
        except ModuleNotFoundError as missing:
            say(f"left out: {missing.name} is missing: {extra_of(missing)}")
            break
    return rows


def _baseline(name: str, recipe: ClassifyRecipe) -> dict[str, Any]:
    characters = recipe.tokenizer.kind == "characters"
    measured = measure(name, _splits(recipe), characters=characters)
    return {"name": name, **measured, "peak_memory_mb": peak_memory()}


def waited_for(command: Sequence[str]) -> int:
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


def _trained(
    recipe: Recipe,
    path: str,
    changes: Sequence[str],
    folder: Path,
    threads: int | None,
    say: Say,
) -> dict[str, Any]:
    if (folder / "config.toml").is_file() and to_table(recipe_of(folder)) != to_table(
        at_home(recipe)
    ):
        raise UserError(f"{folder} holds a run of another recipe: remove it, or another --out")
    if not (folder / "result.json").is_file():
        begun = (folder / "config.toml").is_file()
        verb = ["resume", str(folder)] if begun else ["train", path, "--out", str(folder), *changes]
        with_threads = [] if threads is None else ["--threads", str(threads)]
        if waited_for([sys.executable, "-m", "workings", *verb, *with_threads]) != 0:
            raise UserError(f"{path}: the training failed (see above)")
    else:
        say(f"{folder}: trained already")
    result = read_json(folder / "result.json")
    curves = [r for r in read_log(folder / "log.jsonl") if r["kind"] == "epoch"]
    return {
        "name": folder.name,
        **{k: v for k, v in result.items() if k != "format"},
        "seconds": round(result["minutes"] * 60, 1),
        "curves": curves,
    }
