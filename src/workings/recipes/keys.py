"""Every key that some recipe has, as the command line writes it: train.epochs, model.hidden, …"""

from workings.config import keys
from workings.recipes.classify import MODELS, ClassifyRecipe
from workings.recipes.language import LANGUAGE_KINDS, LanguageRecipe


def every_key() -> list[str]:
    """Name them all, whatever the task and the kind of model; each once.

    >>> "train.epochs" in every_key(), "model.kind" in every_key(), "epochs" in every_key()
    (True, True, False)
    """
    found = ["model.kind", "model.size"]
    for recipe, kinds in ((ClassifyRecipe, MODELS), (LanguageRecipe, LANGUAGE_KINDS)):
        found += keys(recipe)
        for config in kinds.values():
            found += keys(config, "model.")
    return list(dict.fromkeys(found))
