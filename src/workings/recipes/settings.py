"""A recipe as a list for people: every setting, what it is for, and what it usually is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workings.config import Field, describe, to_table, toml_value
from workings.recipes.caption import CaptionRecipe, captioner_config
from workings.recipes.classify import ClassifyRecipe, model_config
from workings.recipes.language import LanguageRecipe, language_config
from workings.recipes.translate import TranslateRecipe, translator_config

_MODELS: dict[type, Callable[[dict[str, Any]], tuple[str, Any]]] = {
    CaptionRecipe: captioner_config,
    ClassifyRecipe: model_config,
    LanguageRecipe: language_config,
    TranslateRecipe: translator_config,
}


@dataclass(frozen=True)
class Setting:
    """A key with its value, as TOML has them; `usual`: the default, where the value is another."""

    key: str
    value: str
    usual: str
    help: str


def settings(
    recipe: CaptionRecipe | ClassifyRecipe | LanguageRecipe | TranslateRecipe,
) -> list[Setting]:
    """List every setting; those of the model, too, that its size or kind decides.

    >>> [s for s in settings(ClassifyRecipe()) if s.key == "train.batch"]
    [Setting(key='train.batch', value='64', usual='', help='examples in a step')]
    """
    kind, model = _MODELS[type(recipe)](recipe.model)
    named = {"kind": kind} | {k: v for k, v in recipe.model.items() if k == "size"}
    table = to_table(recipe) | {"model": named | to_table(model)}
    known = [*describe(type(recipe)), *describe(type(model), "model.")]
    fields = {field.key: field for field in known}
    return [_setting(key, value, fields.get(key)) for key, value in flat(table)]


def flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give a table's values by their whole keys: `train.epochs`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _setting(key: str, value: Any, field: Field | None) -> Setting:
    written = _plain(value)
    if field is None:
        return Setting(key, written, "", "")
    usual = _plain("none" if field.default is None else field.default)
    return Setting(key, written, "" if usual == written else usual, field.help)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value)
