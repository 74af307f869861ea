"""A recipe from its file, and every key that some recipe has, as the command line writes it.

Nothing here needs torch: what is wrong with a recipe is told at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from workings.config import (
    Field,
    build,
    describe,
    key_types,
    load_table,
    override,
    to_table,
    toml_value,
)
from workings.recipes.base import check_choice
from workings.recipes.captioning import CAPTIONER_KINDS, CaptionRecipe, parse_captioner_config
from workings.recipes.classification import (
    CLASSIFIER_KINDS,
    ClassificationRecipe,
    parse_classifier_config,
)
from workings.recipes.language_modeling import (
    LANGUAGE_KINDS,
    LanguageRecipe,
    parse_language_model_config,
)
from workings.recipes.translation import (
    TRANSLATOR_KINDS,
    TranslationRecipe,
    parse_translator_config,
)

Recipe: TypeAlias = CaptionRecipe | ClassificationRecipe | LanguageRecipe | TranslationRecipe

RECIPES: dict[str, tuple[type, dict[str, type]]] = {
    "caption": (CaptionRecipe, CAPTIONER_KINDS),
    "classify": (ClassificationRecipe, CLASSIFIER_KINDS),
    "language": (LanguageRecipe, LANGUAGE_KINDS),
    "translate": (TranslationRecipe, TRANSLATOR_KINDS),
}
"""The recipe of each task, and the kinds of models that it may ask for."""


def list_recipe_keys() -> dict[str, Any]:
    """Name them all with their kinds, whatever the task and the kind of model.

    >>> "train.epochs" in list_recipe_keys(), "model.kind" in list_recipe_keys(), "epochs" in list_recipe_keys()
    (True, True, False)
    """
    found: dict[str, Any] = {"model.kind": str, "model.size": str}
    for recipe, kinds in RECIPES.values():
        found |= key_types(recipe)
        for config in kinds.values():
            found |= key_types(config, "model.")
    return found


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and change it as the command line says: `--train.epochs 3`."""
    table = override(load_table(path), overrides, list_recipe_keys() if overrides else None)
    task = check_choice("task", table.get("task", "classify"), RECIPES)
    recipe: Recipe = build(RECIPES[task][0], table)
    return recipe


_MODEL_PARSERS: dict[type, Callable[[dict[str, Any]], tuple[str, Any]]] = {
    CaptionRecipe: parse_captioner_config,
    ClassificationRecipe: parse_classifier_config,
    LanguageRecipe: parse_language_model_config,
    TranslationRecipe: parse_translator_config,
}


@dataclass(frozen=True)
class Setting:
    """A key with its value, as TOML has them; `default`: the default, where the value is another."""

    key: str
    value: str
    default: str
    help: str


def list_settings(
    recipe: CaptionRecipe | ClassificationRecipe | LanguageRecipe | TranslationRecipe,
) -> list[Setting]:
    """List every setting; those of the model, too, that its size or kind decides.

    >>> [s for s in list_settings(ClassificationRecipe()) if s.key == "train.batch_size"]
    [Setting(key='train.batch_size', value='64', default='', help='examples in a step')]
    """
    kind, model = _MODEL_PARSERS[type(recipe)](recipe.model)
    named = {"kind": kind} | {k: v for k, v in recipe.model.items() if k == "size"}
    table = to_table(recipe) | {"model": named | to_table(model)}
    known = [*describe(type(recipe)), *describe(type(model), "model.")]
    fields = {field.key: field for field in known}
    return [_build_setting(key, value, fields.get(key)) for key, value in flatten_table(table)]


def flatten_table(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give a table's values by their whole keys: `train.epochs`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flatten_table(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _build_setting(key: str, value: Any, field: Field | None) -> Setting:
    written = _format_value(value)
    if field is None:
        return Setting(key, written, "", "")
    usual = _format_value("none" if field.default is None else field.default)
    return Setting(key, written, "" if usual == written else usual, field.help)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value)
