"""Models and layers by name: lazily imported, with the keywords and defaults of the recipes."""

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest
import torch

import workings
from workings import layers, models
from workings.models.captioning import CAPTIONERS
from workings.models.classifiers import CLASSIFIERS
from workings.models.language import LANGUAGE_MODELS
from workings.models.translation import TRANSLATORS
from workings.recipes import CAPTIONER_KINDS, CLASSIFIER_KINDS, LANGUAGE_KINDS, TRANSLATOR_KINDS

TABLES = (
    (CLASSIFIERS, CLASSIFIER_KINDS),
    (LANGUAGE_MODELS, LANGUAGE_KINDS),
    (TRANSLATORS, TRANSLATOR_KINDS),
    (CAPTIONERS, CAPTIONER_KINDS),
)
PAIRS = [(classes[kind], configs[kind]) for classes, configs in TABLES for kind in configs]
SIZES = {"vocab_size", "num_classes", "source_vocab_size", "target_vocab_size"}
ENCODER_KEYS = {"encoder", "channels", "blocks", "pretrained"}  # of a recipe's vision encoder


@pytest.mark.parametrize(("model", "config"), PAIRS, ids=lambda c: c.__name__)
def test_keywords_and_defaults_are_those_of_the_recipe(model, config):
    parameters = inspect.signature(model).parameters
    keywords = {n: p.default for n, p in parameters.items() if n not in SIZES | ENCODER_KEYS}
    assert keywords == {f.name: f.default for f in fields(config) if f.name not in ENCODER_KEYS}
    assert SIZES & parameters.keys()
    options = {n: p.kind for n, p in parameters.items() if n not in SIZES}
    assert set(options.values()) == {inspect.Parameter.KEYWORD_ONLY}


def test_every_kind_of_a_recipe_has_an_exported_class():
    assert all(set(classes) == set(configs) for classes, configs in TABLES)
    for model, _ in PAIRS:
        assert getattr(models, model.__name__) is model


@pytest.mark.parametrize("package", [models, layers], ids=["models", "layers"])
def test_dir_lists_every_public_class_with_a_docstring(package):
    assert dir(package) == sorted(package.__all__)
    for name in dir(package):
        assert inspect.getdoc(getattr(package, name)), name
    with pytest.raises(AttributeError, match="has no attribute 'Transformer'"):
        package.Transformer  # noqa: B018


def test_import_needs_no_torch():
    program = (
        "import sys, workings\n"
        "from workings import layers, models\n"
        "from workings.errors import install_command\n"
        "assert 'TransformerLM' in dir(models) and 'EncoderBlock' in dir(layers)\n"
        "assert {'layers', 'models'} <= set(dir(workings))\n"
        "assert not {'torch', 'numpy'} & sys.modules.keys()\n"
        "sys.modules['torch'] = None\n"
        "try:\n"
        "    models.TransformerLM\n"
        "except ModuleNotFoundError as error:\n"
        "    assert install_command('models') in str(error), error\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_models_are_attributes_of_the_package():
    model = workings.models.TransformerLM(vocab_size=100, d_model=16, layers=2, heads=4)
    logits, _ = model(torch.zeros(1, 3, dtype=torch.long))
    assert logits.shape == (1, 3, 100)
