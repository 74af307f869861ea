"""Small tasks with random models, for tests that need no training."""

from collections import Counter

import torch

from workings.config import build
from workings.data import CharacterTokenizer, WordTokenizer
from workings.data.tokenizers.base import TokenizerPair
from workings.models.captioning import build_captioner
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translation import build_translator
from workings.recipes import (
    CaptionRecipe,
    ClassificationRecipe,
    LanguageRecipe,
    TrainConfig,
    TranslationRecipe,
)
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.custom import CustomTask
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import Translation

RECURRENT = {"kind": "recurrent", "d_model": 4, "hidden_size": 4}


def perturb(model):
    """Add noise to all weights: initial biases are zero, and initial attention nearly uniform."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def count_passes(monkeypatch, model, *names):
    """Count the calls of a model's methods from now on."""
    counts = Counter()

    def counting(name, method):
        def call(*arguments, **options):
            counts[name] += 1
            return method(*arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(model, name, counting(name, getattr(model, name)))
    return counts


def language_task(tokenizer, **table):
    table = {"kind": "transformer", "d_model": 16, "layers": 2, "heads": 4, **table}
    recipe = build(LanguageRecipe, {"model": table, "data": {"context_length": 8}})
    torch.manual_seed(0)
    model = build_language_model(recipe.model, len(tokenizer))
    return LanguageModeling(recipe, tokenizer, perturb(model))


def recurrent_language_task(text, **table):
    tokenizer = CharacterTokenizer.train([text])
    recipe = build(LanguageRecipe, {"model": {**RECURRENT, **table}})
    return LanguageModeling(recipe, tokenizer, build_language_model(recipe.model, len(tokenizer)))


def classification_task(words, max_length=8, **table):
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 2, "d_ff": 16, **table}
    if table["kind"] == "recurrent":
        table = {**RECURRENT}
    recipe = build(ClassificationRecipe, {"model": table, "data": {"max_length": max_length}})
    tokenizer = WordTokenizer(words)
    torch.manual_seed(3)
    model = build_classifier(recipe.model, len(tokenizer), 2)
    return Classification(recipe, tokenizer, ("a", "b"), perturb(model))


def several_labels_task(words):
    """Return a classifier of texts that may have any of three labels."""
    data, model = {"max_length": 8, "multi_label": True}, RECURRENT
    recipe = build(ClassificationRecipe, {"model": model, "data": data})
    tokenizer = WordTokenizer(words)
    torch.manual_seed(3)
    classifier = perturb(build_classifier(recipe.model, len(tokenizer), 3))
    with torch.no_grad():
        for weight in classifier.parameters():
            weight.mul_(4)  # texts differ in their labels
    return Classification(recipe, tokenizer, ("a", "b", "c"), classifier)


def translation_task(words, **table):
    table = {"kind": "transformer", "d_model": 12, "heads": 3, "layers": 2, "d_ff": 16, **table}
    if table["kind"] == "recurrent":
        table = {**RECURRENT, **{k: v for k, v in table.items() if k == "attention"}}
    table["share_embeddings"] = False
    recipe = build(TranslationRecipe, {"model": table, "tokenizer": {"kind": "words"}})
    tokenizer = WordTokenizer(words, with_eos=True)
    torch.manual_seed(0)
    model = build_translator(recipe.model, len(tokenizer), len(tokenizer))
    return Translation(recipe, TokenizerPair(tokenizer, tokenizer), perturb(model).eval())


def captioning_task(kind="transformer", **table):
    table = {"kind": kind, "channels": [4, 8], "d_model": 12, "layers": 2, **table}
    table |= {"heads": 3, "d_ff": 16} if kind == "transformer" else {"hidden_size": 16}
    recipe = build(CaptionRecipe, {"task": "caption", "model": table, "data": {"image_size": 16}})
    tokenizer = WordTokenizer(["a", "red", "square"], with_eos=True)
    torch.manual_seed(0)
    return Captioning(
        recipe, tokenizer, perturb(build_captioner(recipe.model, len(tokenizer))).eval()
    )


def custom_task():
    """A module that only its author can build, as `workings.train` makes a task of it."""
    return CustomTask(
        torch.nn.Linear(2, 1),
        [(torch.ones(2), torch.ones(1))] * 10,
        lambda model, batch: (model(batch[0]) - batch[1]).square().mean(),
        lambda rows: tuple(torch.stack(column) for column in zip(*rows, strict=True)),
        config=TrainConfig(batch_size=5),
        validation=0.2,
        seed=0,
    )
