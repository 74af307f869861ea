"""Parse the commands of the documents without running them."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

import workings.cli
from workings.builtin import builtin_recipes
from workings.recipes import read_recipe

ROOT = Path(__file__).parents[2]


def split(line: str) -> list[str]:
    """Split a command line as a shell does, without its comment."""
    return shlex.split(line, comments=True)


def split_redirection(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words before `> FILE`, and the file or nothing."""
    if ">" not in words:
        return list(words), ""
    place = words.index(">")
    return list(words[:place]), words[place + 1]


def parse_command(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words after `workings`; verb, options, keys and recipes must exist."""
    arguments, changes = workings.cli._build_parser(words[:1]).parse_known_args(list(words))
    assert arguments.takes_changes or not changes, f"no such option: {changes}"
    arguments.changes = changes
    recipes = getattr(arguments, "recipes", None) or [getattr(arguments, "recipe", None)]
    for name in builtin_recipes().keys() & set(recipes):
        read_recipe(name, changes)
    return arguments
