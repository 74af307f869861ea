"""Every key that some recipe has, as the command line writes it: train.epochs, model.hidden, …"""

from workings.config import keys
from workings.recipes.caption import CAPTIONER_KINDS, CaptionRecipe
from workings.recipes.classify import MODELS, ClassifyRecipe
from workings.recipes.language import LANGUAGE_KINDS, LanguageRecipe
from workings.recipes.translate import TRANSLATOR_KINDS, TranslateRecipe

RECIPES: dict[str, tuple[type, dict[str, type]]] = {
    "caption": (CaptionRecipe, CAPTIONER_KINDS),
    "classify": (ClassifyRecipe, MODELS),
    "language": (LanguageRecipe, LANGUAGE_KINDS),
    "translate": (TranslateRecipe, TRANSLATOR_KINDS),
}
"""The recipe of each task, and the kinds of models that it may ask for."""


def every_key() -> list[str]:
    """Name them all, whatever the task and the kind of model; each once.

    >>> "train.epochs" in every_key(), "model.kind" in every_key(), "epochs" in every_key()
    (True, True, False)
    """
    found = ["model.kind", "model.size"]
    for recipe, kinds in RECIPES.values():
        found += keys(recipe)
        for config in kinds.values():
            found += keys(config, "model.")
    return list(dict.fromkeys(found))
