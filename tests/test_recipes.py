"""Recipes that no model could be made with are refused before anything is read or made."""

import tomllib

import pytest

from workings.config import build, to_table, to_toml
from workings.errors import UserError
from workings.recipes import ClassificationRecipe, build_recipe, parse_language_model_config


@pytest.mark.parametrize(
    ("table", "expected_message"),
    [
        ({"model": {"d_model": 0}}, "model.d_model = 0: expected a whole number from 1 to"),
        ({"model": {"d_model": 10**12}}, "model.d_model = 1000000000000: expected a whole number"),
        ({"model": {"hidden_size": 1 << 99_999}}, "model.hidden_size = a value too large to show"),
        ({"model": {"layers": -1}}, "model.layers = -1"),
        ({"model": {"kind": "perceptron", "hidden_sizes": []}}, "hidden_sizes = []: expected"),
        ({"model": {"kind": "convolution", "channels": [8, 0]}}, "channels = 0"),
        ({"model": {"kind": "convolution", "stride": 0}}, "stride = 0"),
        ({"model": {"kind": "ngrams", "max_n": 10**6}}, "at most 60 tokens"),
        ({"model": {"dropout": 1.0}}, "model.dropout = 1.0: expected 0 to below 1"),
        ({"model": {"kind": ["rnn"]}}, "model.kind = ['rnn']: expected one of"),
        ({"model": {"kind": {"a": 1}}}, "model.kind = {'a': 1}"),
        ({"model": {"size": [1]}}, "model.size = [1]: expected one of"),
        ({"data": {"max_length": 0}}, "data.max_length = 0"),
        ({"data": {"validation": 1.5}}, "data.validation = 1.5"),
        ({"tokenizer": {"vocab_size": -3}}, "tokenizer.vocab_size = -3"),
        (
            {"train": {"learning_rate": float("nan")}},
            "train.learning_rate = nan: it must be a finite number",
        ),
        (
            {"train": {"learning_rate": 1 << 99_999}},
            "train.learning_rate = inf: it must be a finite number",
        ),
        ({"train": {"epochs": 1 << 99_999}}, "train.epochs = a value too large to show"),
        ({"train": {"batch_size": 1 << 70}}, "train.batch_size"),
        ({"train": {"clip_norm": 0.0}}, "clip_norm = 0.0: it must be positive, or none"),
        ({"train": {"patience": 0}}, "train.patience = 0"),
        ({"train": {"optimizer": 1 << 99_999}}, "train.optimizer = a value too large to show"),
        ({"seed": -1}, "seed = -1: expected a whole number from 0"),
        ({"title": [1] * 10_000}, "title = [1, 1"),
        ({"a\nb" * 500: 1}, "a\\nba\\nb"),
    ],
)
def test_invalid_recipes_are_refused(table, expected_message):
    with pytest.raises(UserError) as caught:
        build(ClassificationRecipe, table)
    message = str(caught.value)
    assert expected_message in message
    assert len(message.splitlines()) == 1
    assert len(message) < 400


def test_a_model_of_python_values_is_written_and_read_again():
    """None and a nested configuration, which TOML has not, in a table that Python code made."""
    body = parse_language_model_config({"kv_heads": None, "d_ff": 24})
    model = {"kind": "language-model", "body": body}
    recipe = build_recipe({"model": model})
    table = tomllib.loads(to_toml(to_table(recipe)))
    assert table["model"]["body"]["kv_heads"] == "none"
    assert build_recipe(table) == recipe
