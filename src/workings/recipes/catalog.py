"""The list of the built-in recipes, and copies of them to edit."""

import json
from dataclasses import dataclass
from pathlib import Path

from workings.builtin import builtin_recipes
from workings.config import load_table
from workings.errors import UserError, did_you_mean, truncate
from workings.io import write_bytes

# `python docs/results.py --write` writes it from results/*.json.
RESULTS_FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class CatalogEntry:
    """A built-in recipe: its task and data, and what training it took and reached."""

    name: str
    task: str
    data: str
    minutes: float | None
    """minutes of training on one or two CPU cores; None: not measured"""
    result: str
    """the metric of its task and its value, or empty"""


def list_catalog() -> list[CatalogEntry]:
    """List the built-in recipes by task and name.

    >>> [entry.result for entry in list_catalog() if entry.name == "imdb-ngrams"]
    ['92.35 % accuracy']
    """
    results = json.loads(RESULTS_FILE.read_text(encoding="utf-8"))
    entries = []
    for name, path in builtin_recipes().items():
        recipe, result = load_table(path), results.get(name, {})
        minutes, metric = result.get("minutes"), result.get("result", "")
        entries.append(CatalogEntry(name, recipe["task"], recipe["data"]["set"], minutes, metric))
    return sorted(entries, key=lambda entry: (entry.task, entry.name))


def copy_recipe(name: str, destination: str | Path) -> Path:
    """Write a copy of a built-in recipe into a folder or to a new file; return its path."""
    recipes, target = builtin_recipes(), Path(destination)
    if name not in recipes:
        raise UserError(f"{truncate(name)}: no such built-in recipe: {did_you_mean(name, recipes)}")
    if target.is_dir():
        target /= f"{name}.toml"
    if target.exists():
        raise UserError(f"{target}: exists already: give another folder or file name")
    write_bytes(target, recipes[name].read_bytes())
    return target
