"""The recipes and lectures that ship with the package, by name.

In a wheel they are inside the package, in the source tree beside `src`.
"""

from pathlib import Path

from workings.errors import UserError, closest_match, did_you_mean, truncate
from workings.io import existing_path

_PACKAGE = Path(__file__).parent


def builtin_recipes() -> dict[str, Path]:
    """Return the files of the built-in recipes by name."""
    return _list_files("builtin_recipes", "recipes")


def builtin_lectures() -> dict[str, Path]:
    """Return the problem files of the lectures' worked examples by name.

    >>> list(builtin_lectures())[:2]
    ['L0-conv', 'L0-cross']
    """
    return _list_files("lectures", "lectures")


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe, given by its path or by the name of a built-in one."""
    recipes = builtin_recipes()
    if file := _find_file(name, recipes):
        return file
    close = closest_match(Path(name).stem, recipes)
    hint = f"did you mean {close!r}?" if close else "`workings recipes` lists the built-in ones"
    raise UserError(f"{truncate(str(name), 300)}: no such file or built-in recipe: {hint}")


def find_problem(name: str | Path) -> Path:
    """Return a problem file, given by its path or by the name of a lecture's example.

    >>> find_problem("L2-self").name
    'L2-self.toml'
    """
    lectures = builtin_lectures()
    if file := _find_file(name, lectures):
        return file
    hint = did_you_mean(Path(name).stem, lectures)
    raise UserError(f"{truncate(str(name), 300)}: no such file or lecture: {hint}")


def _list_files(packaged: str, in_source_tree: str) -> dict[str, Path]:
    folder = _PACKAGE / packaged
    if not folder.is_dir():
        folder = _PACKAGE.parents[1] / in_source_tree
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def _find_file(name: str | Path, builtin: dict[str, Path]) -> Path | None:
    """Return the file at a path, or the built-in one of that name: a folder does not hide it."""
    path = existing_path(str(name))
    return path if path and not path.is_dir() else builtin.get(str(name), path)
