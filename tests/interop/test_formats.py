"""Formats known before training: the same that `export` then accepts, with the same reasons."""

from functools import partial

import pytest
import torch
import toys

from workings.cli import main
from workings.errors import UserError
from workings.interop.bert import LAYOUTS as BERT_LAYOUTS
from workings.interop.bert import write_bert
from workings.interop.formats import check_formats, describe_formats
from workings.interop.language_models import LAYOUTS as LANGUAGE_LAYOUTS
from workings.interop.language_models import write_language_model
from workings.interop.marian import LAYOUTS, write_translator
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translation import build_translator
from workings.recipes import build_recipe
from workings.training.runs import train_recipe

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
    note = "can be exported to onnx, ctranslate2, pegasus; not to marian (Marian normalizes after"
    assert note in capsys.readouterr().err
    out = ("--out", str(tmp_path / "run"), "--train.epochs", "1")
    assert main(["train", str(recipe), *small, *out]) == 0
    assert note in capsys.readouterr().err


def test_models_without_a_format():
    for model in ({}, {"kind": "transformer"}):
        formats = describe_formats(build_recipe({"task": "classify", "model": model}))
        assert formats.startswith(
            "can be exported to onnx; not to bert, distilbert (BERT and DistilBERT are"
        )
    recipe = build_recipe({"task": "classify", "data": {"multi_label": True}})
    assert "several labels per text" in describe_formats(recipe)
    recipe = build_recipe({"task": "translate", "model": {"kind": "recurrent"}})
    assert describe_formats(recipe).startswith("can be exported to onnx; not to ctranslate2 (a")


@pytest.mark.parametrize(
    ("pooler", "types", "fits"), [("tanh", 2, "bert"), ("relu", 0, "distilbert")]
)
def test_berts(pooler, types, fits, tmp_path):
    table = SIZES | {"kind": "bert", "d_ff": 24, "pooler": pooler, "token_types": types}
    recipe = build_recipe({"task": "classify", "model": table})
    reasons = check_formats(recipe)
    assert [name for name, reason in reasons.items() if not reason] == ["onnx", fits]
    for name in BERT_LAYOUTS:
        model = build_classifier(recipe.model, 300, 2)
        write = partial(write_bert, labels=["a", "b"], layout_name=name)
        reason = try_to_write(lambda m, f, _, w=write: w(m, folder=f), model, tmp_path, name)
        assert reason == reasons[name]


def test_captioners_are_refused_before_training_and_at_export(tmp_path, capsys):
    recipe = toys.squares_recipe(toys.write_squares(tmp_path), "--train.epochs", "1")
    refusal = "its encoder is a convolutional network"
    assert refusal in describe_formats(recipe)
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    out = tmp_path / "out"
    assert main(["export", str(tmp_path / "run"), "--to", "marian", "--out", str(out)]) == 2
    assert refusal in capsys.readouterr().err
    assert not out.exists()
