"""Runs for the tests of the workbench: every kind of model, as small as can be."""

from pathlib import Path
from typing import Any

from workings.config import build
from workings.recipes import LanguageRecipe
from workings.train.runs import train

TEXT = 'She said "well, well" and\nwent <on>. "Yes," he (who else) said.\n\n'
TRANSFORMER = {"kind": "transformer", "embedding": 8, "layers": 2, "heads": 2}
ONCE = {"epochs": 1, "batch": 4}


def small_runs(folder: Path) -> dict[str, Path]:
    """Train all of them into a folder."""
    made = {
        "gpt": _language(folder, {**TRANSFORMER, "length": 64}, title="A small one"),
        "lstm": _language(folder, {"kind": "recurrent", "embedding": 8, "hidden": 6}),
    }
    paths = {}
    for name, recipe in made.items():
        paths[name] = folder / name
        train(recipe, paths[name], mode="quiet")
    return paths


def _language(folder: Path, model: dict[str, Any], title: str = "") -> LanguageRecipe:
    text = folder / "text.txt"
    text.write_text(TEXT * 20, encoding="utf-8")
    data = {"set": str(text), "window": 16, "steps": 3, "sample": 0}
    return build(LanguageRecipe, {"title": title, "data": data, "model": model, "train": ONCE})
