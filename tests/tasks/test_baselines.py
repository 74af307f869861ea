"""Baselines of scikit-learn."""

from importlib.util import find_spec

import pytest
import toys

from workings.tasks.baselines import BASELINES, evaluate_baseline
from workings.tasks.classification import load_splits

pytestmark = pytest.mark.skipif(not find_spec("sklearn"), reason="scikit-learn is not installed")


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_learn_words_and_characters(tmp_path, name):
    data = toys.write_texts(tmp_path / "texts.jsonl")
    splits = load_splits(toys.texts_recipe(data))
    words, characters = (
        evaluate_baseline(name, splits, characters=option) for option in (False, True)
    )
    for row in (words, characters):
        assert row["title"] == name
        assert row["test_accuracy"] > 0.9
        assert row["validation_accuracy"] > 0.9
    assert words["parameters"] < characters["parameters"]


def test_without_validation_data_there_is_no_validation_accuracy(tmp_path):
    data = toys.write_texts(tmp_path / "texts.jsonl")
    splits = load_splits(toys.texts_recipe(data, "--data.validation", "0"))
    assert evaluate_baseline(BASELINES[0], splits)["validation_accuracy"] is None
