"""The formats that the model of a recipe can be exported to, known before it is trained."""

from workings.errors import UserError
from workings.interop.language_models import LAYOUTS as LANGUAGE_LAYOUTS
from workings.interop.language_models import check_language_model
from workings.interop.marian import LAYOUTS as TRANSLATOR_LAYOUTS
from workings.interop.marian import build_config
from workings.models.language import TransformerLM, build_language_model
from workings.models.translation import TransformerTranslator, build_translator
from workings.modules import meta_device
from workings.recipes import LanguageRecipe, Recipe, TranslationRecipe

_RECURRENT = "a recurrent model cannot be converted"


def check_formats(recipe: Recipe) -> dict[str, str]:
    """Return for each format why a recipe's model does not fit, or "" if it does.

    >>> check_formats(TranslationRecipe())
    {'ctranslate2': '', 'marian': 'Marian normalizes after each layer: expected \
model.norm = "post", or --to pegasus', 'pegasus': ''}
    """
    if isinstance(recipe, TranslationRecipe):
        return _check_translator(recipe)
    return _check_language_model(recipe) if isinstance(recipe, LanguageRecipe) else {}


def _check_translator(recipe: TranslationRecipe) -> dict[str, str]:
    size = recipe.tokenizer.vocab_size
    # The vocabularies of two languages hardly ever have the same size.
    source_size = size if recipe.tokenizer.shared_vocab else size + 1
    with meta_device():
        model = build_translator(recipe.model, source_size, size)
    is_transformer = isinstance(model, TransformerTranslator)
    reasons = {"ctranslate2": "" if is_transformer else _RECURRENT}
    for name in TRANSLATOR_LAYOUTS:
        try:
            build_config(model, name)
            reasons[name] = ""
        except UserError as error:
            reasons[name] = str(error)
    return reasons


def _check_language_model(recipe: LanguageRecipe) -> dict[str, str]:
    with meta_device():
        model = build_language_model(recipe.model, recipe.tokenizer.vocab_size)
    is_transformer = isinstance(model, TransformerLM)
    reasons = {"ctranslate2": "" if is_transformer else _RECURRENT}
    for name in LANGUAGE_LAYOUTS:
        try:
            check_language_model(model, name)
            reasons[name] = ""
        except UserError as error:
            reasons[name] = str(error)
    return reasons


def describe_formats(recipe: Recipe) -> str:
    """Return in one line which formats fit, and why the others do not; "" if there are none.

    >>> describe_formats(TranslationRecipe())
    'can be exported to ctranslate2, pegasus; not to marian (Marian normalizes after each layer: \
expected model.norm = "post", or --to pegasus)'
    """
    reasons = check_formats(recipe)
    fitting = [name for name, reason in reasons.items() if not reason]
    others = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
    parts = [f"can be exported to {', '.join(fitting)}"] if fitting else []
    parts += [f"{'not' if fitting else 'cannot be exported'} to {', '.join(others)}"] * bool(others)
    return "; ".join(parts)
