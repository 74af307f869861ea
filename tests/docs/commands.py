"""Commands as documents have them: parsed and looked at, not run."""

import argparse
import shlex
from collections.abc import Sequence
from glob import glob
from pathlib import Path

import workings.cli
from workings.recipes import read_recipe

ROOT = Path(__file__).parents[2]


def split(line: str) -> list[str]:
    """Take a command line apart as a shell does, without what is said about it behind #."""
    return shlex.split(line, comments=True)


def expanded(words: Sequence[str]) -> list[str]:
    """Put the files in a pattern's place."""
    return [path for word in words for path in sorted(glob(word)) or [word]]  # noqa: PTH207


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse what stands behind `workings`: verb, options and keys must be there, recipes too."""
    arguments, changes = workings.cli._build_parser().parse_known_args(list(words))
    assert arguments.takes_changes or not changes, f"no such option: {changes}"
    arguments.changes = changes
    for recipe in _recipes(arguments):
        if recipe.startswith("recipes/"):
            read_recipe(ROOT / recipe, changes)
    return arguments


def _recipes(arguments: argparse.Namespace) -> list[str]:
    given = getattr(arguments, "recipes", None) or [getattr(arguments, "recipe", None) or ""]
    return expanded([word for word in given if isinstance(word, str)])
