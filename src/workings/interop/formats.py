"""The formats that the model of a recipe can be exported to, known before it is trained."""

from collections.abc import Callable
from typing import Any

from torch import nn

from workings.errors import UserError
from workings.interop.bert import LAYOUTS as BERT_LAYOUTS
from workings.interop.bert import NOT_BERT, check_bert
from workings.interop.graphs import check_graph
from workings.interop.language_models import LAYOUTS as LANGUAGE_LAYOUTS
from workings.interop.language_models import check_language_model
from workings.interop.marian import LAYOUTS as TRANSLATOR_LAYOUTS
from workings.interop.marian import MULTILINGUAL_EXPORT_REFUSAL, build_config
from workings.models.classifiers import build_classifier
from workings.models.language import TransformerLM, build_language_model
from workings.models.translation import TransformerTranslator, build_translator
from workings.modules import meta_device
from workings.recipes import ClassificationRecipe, LanguageRecipe, Recipe, TranslationRecipe
from workings.registry import MODELS
from workings.tasks.captioning import CAPTIONER_EXPORT_REFUSAL
from workings.tasks.classification import MULTI_LABEL_EXPORT_REFUSAL

_RECURRENT = "a recurrent model cannot be converted"


def check_formats(recipe: Recipe) -> dict[str, str]:
    """Return for each format why a recipe's model does not fit, or "" if it does.

    >>> check_formats(TranslationRecipe())
    {'onnx': '', 'ctranslate2': '', 'marian': 'Marian normalizes after each layer: expected \
model.norm = "post", or --to pegasus', 'pegasus': ''}
    """
    if isinstance(recipe, TranslationRecipe):
        if _is_multilingual(recipe):
            formats = ("onnx", "ctranslate2", *TRANSLATOR_LAYOUTS)
            return dict.fromkeys(formats, MULTILINGUAL_EXPORT_REFUSAL)
        return _check_onnx(recipe) | _check_translator(recipe)
    if isinstance(recipe, LanguageRecipe):
        return _check_onnx(recipe) | _check_language_model(recipe)
    if isinstance(recipe, ClassificationRecipe):
        return _check_onnx(recipe) | _check_classifier(recipe)
    if recipe.task == "caption":
        return _check_onnx(recipe) | {"other formats": CAPTIONER_EXPORT_REFUSAL}
    return {}


def _is_multilingual(recipe: TranslationRecipe) -> bool:
    """Return True if a run goes on from an imported M2M100 or NLLB."""
    is_imported = recipe.tokenizer.kind == "pretrained"
    return is_imported and recipe.model.settings().get("positions") == "fairseq"


def _check_onnx(recipe: Recipe) -> dict[str, str]:
    try:
        check_graph(MODELS[recipe.task][recipe.model.kind])
    except UserError as error:
        return {"onnx": str(error)}
    return {"onnx": ""}


def _check_translator(recipe: TranslationRecipe) -> dict[str, str]:
    size = recipe.tokenizer.vocab_size
    # The vocabularies of two languages hardly ever have the same size.
    source_size = size if recipe.tokenizer.shared_vocab else size + 1
    with meta_device():
        model = build_translator(recipe.model, source_size, size)
    is_transformer = isinstance(model, TransformerTranslator)
    return {"ctranslate2": "" if is_transformer else _RECURRENT} | {
        name: _find_reason(build_config, model, name) for name in TRANSLATOR_LAYOUTS
    }


def _check_language_model(recipe: LanguageRecipe) -> dict[str, str]:
    with meta_device():
        model = build_language_model(recipe.model, recipe.tokenizer.vocab_size)
    is_transformer = isinstance(model, TransformerLM)
    return {"ctranslate2": "" if is_transformer else _RECURRENT} | {
        name: _find_reason(check_language_model, model, name) for name in LANGUAGE_LAYOUTS
    }


def _check_classifier(recipe: ClassificationRecipe) -> dict[str, str]:
    if recipe.data.multi_label:
        return dict.fromkeys(BERT_LAYOUTS, MULTI_LABEL_EXPORT_REFUSAL)
    if recipe.model.kind != "bert":
        return dict.fromkeys(BERT_LAYOUTS, NOT_BERT)
    with meta_device():
        model = build_classifier(recipe.model, recipe.tokenizer.vocab_size, 2)
    return {name: _find_reason(check_bert, model, name) for name in BERT_LAYOUTS}


def _find_reason(check: Callable[[Any, str], object], model: nn.Module, layout_name: str) -> str:
    """Return why a check refuses a model, or ""."""
    try:
        check(model, layout_name)
    except UserError as error:
        return str(error)
    return ""


def describe_formats(recipe: Recipe) -> str:
    """Return in one line which formats fit, and why the others do not; "" if there are none.

    >>> describe_formats(TranslationRecipe())
    'can be exported to onnx, ctranslate2, pegasus; not to marian (Marian normalizes after each \
layer: expected model.norm = "post", or --to pegasus)'
    """
    reasons = check_formats(recipe)
    fitting = [name for name, reason in reasons.items() if not reason]
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if reason:
            names_by_reason.setdefault(reason, []).append(name)
    others = [f"{', '.join(names)} ({reason})" for reason, names in names_by_reason.items()]
    parts = [f"can be exported to {', '.join(fitting)}"] if fitting else []
    parts += [f"{'not' if fitting else 'cannot be exported'} to {', '.join(others)}"] * bool(others)
    return "; ".join(parts)
