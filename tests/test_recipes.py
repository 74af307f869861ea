"""Recipes that no model could be made with are refused before anything is read or made."""

import pytest

from workings.config import build
from workings.errors import UserError
from workings.recipes import ClassifyRecipe


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"model": {"embedding": 0}}, "model.embedding = 0: a whole number from 1 to"),
        ({"model": {"embedding": 10**12}}, "model.embedding = 1000000000000: a whole number"),
        ({"model": {"hidden": 1 << 99_999}}, "model.hidden = a value too large to show"),
        ({"model": {"layers": -1}}, "model.layers = -1"),
        ({"model": {"kind": "perceptron", "hidden": []}}, "hidden = []: at least one"),
        ({"model": {"kind": "convolution", "channels": [8, 0]}}, "channels = 0"),
        ({"model": {"kind": "convolution", "stride": 0}}, "stride = 0"),
        ({"model": {"kind": "ngrams", "longest": 10**6}}, "at most 60 tokens"),
        ({"model": {"dropout": 1.0}}, "model.dropout = 1.0: from 0 to below 1"),
        ({"model": {"kind": ["rnn"]}}, "model.kind = ['rnn']: expected one of"),
        ({"model": {"kind": {"a": 1}}}, "model.kind = {'a': 1}"),
        ({"model": {"size": [1]}}, "model.size = [1]: expected one of"),
        ({"data": {"longest": 0}}, "data.longest = 0"),
        ({"data": {"validation": 1.5}}, "data.validation = 1.5"),
        ({"tokenizer": {"size": -3}}, "tokenizer.size = -3"),
        ({"train": {"rate": float("nan")}}, "train.rate = nan: it must be a finite number"),
        ({"train": {"rate": 1 << 99_999}}, "train.rate = inf: it must be a finite number"),
        ({"train": {"epochs": 1 << 99_999}}, "train.epochs = a value too large to show"),
        ({"train": {"batch": 1 << 70}}, "train.batch"),
        ({"train": {"clip": 0.0}}, "clip = 0.0: it must be positive, or none"),
        ({"train": {"patience": 0}}, "train.patience = 0"),
        ({"train": {"optimizer": 1 << 99_999}}, "train.optimizer = a value too large to show"),
        ({"seed": -1}, "seed = -1: a whole number from 0"),
        ({"title": [1] * 10_000}, "title = [1, 1"),
        ({"a\nb" * 500: 1}, "a\\nba\\nb"),
    ],
)
def test_what_no_recipe_may_say(table, told):
    with pytest.raises(UserError) as caught:
        build(ClassifyRecipe, table)
    message = str(caught.value)
    assert told in message
    assert len(message.splitlines()) == 1
    assert len(message) < 400
