"""What a run held out begins where its training ended, whatever the tokens are."""

import pytest

from workings.config import build
from workings.interpret.activations import select_passage
from workings.recipes import LanguageRecipe
from workings.tasks.language_modeling import LanguageModeling


@pytest.mark.parametrize("kind", ["characters", "byte-pair"])
def test_what_was_learned_from_is_not_looked_at(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Far fewer tokens to a character in the first part than in the second.
    first, second = "the cat sat on the mat. " * 100, "qzxvkjw!?#" * 80
    path = tmp_path / "text.txt"
    path.write_text(first + second)
    table = {"data": {"set": str(path), "validation": 0.25, "context_length": 8}}
    recipe = build(LanguageRecipe, {**table, "tokenizer": {"kind": kind, "vocab_size": 400}})
    assert select_passage(recipe, None, 10_000) == (first, second)
    told = LanguageModeling.from_recipe(recipe)
    assert told.tokenizer.decode(told._train_ids.tolist()) == first
