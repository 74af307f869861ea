"""Formats known before training: the same that `export` then accepts, with the same reasons."""

import pytest
import torch

from workings.cli import main
from workings.errors import UserError
from workings.interop.formats import check_formats, describe_formats
from workings.interop.language_models import LAYOUTS as LANGUAGE_LAYOUTS
from workings.interop.language_models import write_language_model
from workings.interop.marian import LAYOUTS, write_translator
from workings.models.language import build_language_model
from workings.models.translation import build_translator
from workings.recipes import build_recipe

SIZES = {"d_model": 16, "layers": 1, "heads": 2}
TRANSLATORS = [
    {"norm": "pre"},
    {"norm": "post"},
    {"norm": "pre", "share_embeddings": False},
    {"norm": "pre", "tie_embeddings": False},
    {"kind": "recurrent", "d_model": 8},
]
LANGUAGE_MODELS = [
    {},
    {"positions": "learned", "tie_embeddings": True},
    {"positions": "learned"},
    {"norm_kind": "rms", "gated": True, "bias": False, "tie_embeddings": True},
    {"kv_heads": 1},
    {"kind": "recurrent", "d_model": 8},
]


def try_to_write(write, model, folder, name):
    """Return why a trained model is refused, or ""."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1)  # biases are zero when they are initialized
    try:
        write(model, folder, name)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("table", TRANSLATORS)
def test_translators(table, tmp_path):
    model_table = table if "kind" in table else SIZES | table
    is_shared = table.get("share_embeddings", True) and "kind" not in table
    tokenizer = {"vocab_size": 300, "shared_vocab": is_shared}
    recipe = build_recipe({"task": "translate", "tokenizer": tokenizer, "model": model_table})
    reasons = check_formats(recipe)
    for name in LAYOUTS:
        model = build_translator(recipe.model, 300 if is_shared else 301, 300)
        assert try_to_write(write_translator, model, tmp_path, name) == reasons[name]
    assert bool(reasons["ctranslate2"]) == ("kind" in table)


@pytest.mark.parametrize("table", LANGUAGE_MODELS)
def test_language_models(table, tmp_path):
    model_table = table if "kind" in table else SIZES | table
    recipe = build_recipe({"task": "language", "data": {"set": "x.txt"}, "model": model_table})
    reasons = check_formats(recipe)
    for name in LANGUAGE_LAYOUTS:
        model = build_language_model(recipe.model, 300)
        assert try_to_write(write_language_model, model, tmp_path, name) == reasons[name]


def test_summary_and_training_say_it(few_pairs, tmp_path, capsys):
    recipe = tmp_path / "pairs.toml"
    recipe.write_text(f'task = "translate"\n[data]\nset = "{few_pairs}"\n')
    small = ("--model.d_model", "8", "--model.layers", "1", "--tokenizer.kind", "words")
    assert main(["summary", str(recipe), *small]) == 0
    note = "can be exported to ctranslate2, pegasus; not to marian (Marian normalizes after"
    assert note in capsys.readouterr().err
    out = ("--out", str(tmp_path / "run"), "--train.epochs", "1")
    assert main(["train", str(recipe), *small, *out]) == 0
    assert note in capsys.readouterr().err


def test_models_without_a_format():
    assert describe_formats(build_recipe({"task": "classify"})) == ""
    recipe = build_recipe({"task": "translate", "model": {"kind": "recurrent"}})
    assert describe_formats(recipe).startswith("cannot be exported to ctranslate2 (a recurrent")
