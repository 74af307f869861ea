"""The lectures' worked examples by name: a fixed list, read once."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from workings.errors import UserError, brief, near
from workings.problems import Problem


@cache
def lectures() -> dict[str, Problem]:
    """Read all of them, by name: from the package, or from beside the sources."""
    packaged = files("workings") / "lectures"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[3] / "lectures"
    found = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {
        file.name.removesuffix(".toml"): Problem.from_toml(file.read_text(encoding="utf-8"))
        for file in found
        if file.name.endswith(".toml")
    }


def lecture(name: str) -> Problem:
    """Find one by name.

    >>> lecture("L2-self").title
    'L2 self-attention: three tokens, 4 to 3, unscaled'
    """
    found = lectures().get(name)
    if found is None:
        raise UserError(f"{brief(name)}: no such lecture: {near(name, lectures())}")
    return found
