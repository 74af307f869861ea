"""Parse the commands of the documents without running them."""

import argparse
import shlex
from collections.abc import Sequence
from glob import glob
from pathlib import Path

import workings.cli
from workings.recipes import read_recipe

ROOT = Path(__file__).parents[2]


def split(line: str) -> list[str]:
    """Split a command line as a shell does, without its comment."""
    return shlex.split(line, comments=True)


def expand_patterns(words: Sequence[str]) -> list[str]:
    """Replace each file pattern by the matching files."""
    return [path for word in words for path in sorted(glob(word)) or [word]]  # noqa: PTH207


def parse_command(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words after `workings`; verb, options, keys and recipes must exist."""
    arguments, changes = workings.cli._build_parser().parse_known_args(list(words))
    assert arguments.takes_changes or not changes, f"no such option: {changes}"
    arguments.changes = changes
    for recipe in _recipes(arguments):
        if recipe.startswith("recipes/"):
            read_recipe(ROOT / recipe, changes)
    return arguments


def _recipes(arguments: argparse.Namespace) -> list[str]:
    words = getattr(arguments, "recipes", None) or [getattr(arguments, "recipe", None) or ""]
    return expand_patterns([word for word in words if isinstance(word, str)])
