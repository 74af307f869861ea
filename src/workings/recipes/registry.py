"""The recipe of each task: reading one from a file, and listing its keys and settings.

Nothing here needs torch, so that a mistake in a recipe is reported at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from workings.config import (
    Field,
    build,
    check_choice,
    describe,
    key_types,
    load_table,
    override,
    to_table,
    toml_value,
)
from workings.errors import UserError, did_you_mean, truncate
from workings.recipes.base import ModelConfig
from workings.recipes.captioning import CAPTIONER_KINDS, CaptionRecipe
from workings.recipes.classification import CLASSIFIER_KINDS, ClassificationRecipe
from workings.recipes.language_modeling import LANGUAGE_KINDS, LanguageRecipe
from workings.recipes.translation import TRANSLATOR_KINDS, TranslationRecipe

Recipe: TypeAlias = CaptionRecipe | ClassificationRecipe | LanguageRecipe | TranslationRecipe

RECIPES: dict[str, tuple[type[Recipe], Mapping[str, type[ModelConfig]]]] = {
    "caption": (CaptionRecipe, CAPTIONER_KINDS),
    "classify": (ClassificationRecipe, CLASSIFIER_KINDS),
    "language": (LanguageRecipe, LANGUAGE_KINDS),
    "translate": (TranslationRecipe, TRANSLATOR_KINDS),
}
"""The recipe of each task, and the settings of each kind of model that it may have."""


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a TOML file; `overrides` are words such as `--train.epochs 3`."""
    return build_recipe(load_table(path), overrides)


def builtin_recipes() -> dict[str, Path]:
    """Return the files of the recipes that come with the package, by name."""
    packaged = Path(str(files("workings"))) / "builtin_recipes"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[3] / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_recipe(name: str | Path) -> Path:
    """Return the file of a recipe that is given by its path or by the name of a built-in one."""
    path, builtin = Path(name), builtin_recipes()
    if path.is_file():
        return path
    if str(name) in builtin:
        return builtin[str(name)]
    raise UserError(
        f"{truncate(str(name))}: neither a file nor a built-in recipe: "
        f"{did_you_mean(path.stem, builtin)}"
    )


def build_recipe(table: Mapping[str, Any], overrides: Sequence[str] = ()) -> Recipe:
    """Build the recipe of the task that a table names (`classify` without a name).

    >>> build_recipe({"task": "translate"}, ["--data.source", "1"]).data.source
    '1'
    """
    table = override(table, overrides, list_recipe_keys() if overrides else None)
    task = check_choice("task", table.get("task", "classify"), RECIPES)
    return build(RECIPES[task][0], table)


def list_recipe_keys() -> dict[str, Any]:
    """Return the types of all keys, of all tasks and kinds of models.

    >>> keys = list_recipe_keys()
    >>> "train.epochs" in keys, "model.kind" in keys, "model.heads" in keys, "epochs" in keys
    (True, True, True, False)
    """
    types: dict[str, Any] = {}
    for recipe, _ in RECIPES.values():
        types |= key_types(recipe)
    return types


@dataclass(frozen=True)
class Setting:
    """A key and its value in TOML, and its default where that is another value."""

    key: str
    value: str
    default: str
    help: str


def list_settings(recipe: Recipe) -> list[Setting]:
    """List all settings of a recipe, those of its model included that it does not state.

    >>> [s for s in list_settings(ClassificationRecipe()) if s.key == "train.batch_size"]
    [Setting(key='train.batch_size', value='64', default='', help='examples in a batch')]
    """
    model = recipe.model
    stated = {k: v for k, v in to_table(model).items() if k in ("kind", "size")}
    table = to_table(recipe) | {"model": stated | model.full_table()}
    described = [*describe(type(recipe)), *describe(type(model), "model.")]
    fields = {field.key: field for field in described}
    return [_build_setting(key, value, fields.get(key)) for key, value in flatten_table(table)]


def flatten_table(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested table with their dotted keys: `train.epochs`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flatten_table(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _build_setting(key: str, value: Any, field: Field | None) -> Setting:
    text = _format_value(value)
    if field is None:
        return Setting(key, text, "", "")
    default = _format_value("none" if field.default is None else field.default)
    return Setting(key, text, "" if default == text else default, field.help)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value)
