"""A recipe from its file, and every key that some recipe has, as the command line writes it.

Nothing here needs torch: what is wrong with a recipe is told at once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from workings.config import build, keys, load_table, override
from workings.recipes.caption import CAPTIONER_KINDS, CaptionRecipe
from workings.recipes.classify import MODELS, ClassifyRecipe
from workings.recipes.common import chosen
from workings.recipes.language import LANGUAGE_KINDS, LanguageRecipe
from workings.recipes.translate import TRANSLATOR_KINDS, TranslateRecipe

Recipe: TypeAlias = CaptionRecipe | ClassifyRecipe | LanguageRecipe | TranslateRecipe

RECIPES: dict[str, tuple[type, dict[str, type]]] = {
    "caption": (CaptionRecipe, CAPTIONER_KINDS),
    "classify": (ClassifyRecipe, MODELS),
    "language": (LanguageRecipe, LANGUAGE_KINDS),
    "translate": (TranslateRecipe, TRANSLATOR_KINDS),
}
"""The recipe of each task, and the kinds of models that it may ask for."""


def every_key() -> dict[str, Any]:
    """Name them all with their kinds, whatever the task and the kind of model.

    >>> "train.epochs" in every_key(), "model.kind" in every_key(), "epochs" in every_key()
    (True, True, False)
    """
    found: dict[str, Any] = {"model.kind": str, "model.size": str}
    for recipe, kinds in RECIPES.values():
        found |= keys(recipe)
        for config in kinds.values():
            found |= keys(config, "model.")
    return found


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe and change it as the command line says: `--train.epochs 3`."""
    table = override(load_table(path), changes, every_key() if changes else None)
    task = chosen("task", table.get("task", "classify"), RECIPES)
    recipe: Recipe = build(RECIPES[task][0], table)
    return recipe
