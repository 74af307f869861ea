"""Maps of attention: rows add up to one, and are the softmax written out."""

import math
from array import array

import pytest
import torch

from workings.config import build
from workings.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from workings.errors import UserError
from workings.interpret.attention_maps import compute_attention_maps, compute_language_model_maps
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.recipes import ClassificationRecipe, LanguageRecipe
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling

TEXT = "if (x == 1): <b>"
CHARACTERS = CharacterTokenizer.train([TEXT])


def language(tokenizer=CHARACTERS, **table):
    table = {"kind": "transformer", "d_model": 16, "layers": 2, "heads": 4, **table}
    torch.manual_seed(0)
    recipe = build(LanguageRecipe, {"model": table, "data": {"context_length": 8}})
    return LanguageModeling(recipe, tokenizer, build_language_model(recipe.model, len(tokenizer)))


@torch.no_grad()
def test_rows_add_up_to_one_and_are_the_softmax_written_out():
    task = language(positions="sinusoidal")
    maps = compute_attention_maps(task, TEXT)
    assert [one.name for one in maps.maps][3:5] == ["layer 1, head 4", "layer 2, head 1"]
    assert maps.rows == maps.columns == list(TEXT)
    for one in maps.maps:
        weights = torch.tensor([list(row) for row in one.weights])
        torch.testing.assert_close(weights.sum(1), torch.ones(len(TEXT)))
        assert (weights.triu(1) == 0).all()
    model = task.model.eval()
    block = model.blocks[0]
    x = model.positions(model.embedding(torch.tensor([CHARACTERS.encode(TEXT)])))
    q, k, _ = block.attention.qkv(block.attention_residual.norm(x)).chunk(3, -1)
    for head in range(4):
        own = slice(4 * head, 4 * head + 4)
        scores = q[0, :, own] @ k[0, :, own].T / math.sqrt(4)
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        expected = torch.softmax(scores.masked_fill(hidden, -math.inf), -1)
        found = torch.tensor([list(row) for row in maps.maps[head].weights])
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_layers_and_heads_are_chosen_from_1():
    task = language()
    maps = compute_attention_maps(task, TEXT, layers=[2], heads=[1, 4])
    assert [one.name for one in maps.maps] == ["layer 2, head 1", "layer 2, head 4"]
    with pytest.raises(UserError, match="layer 3: this model has 2"):
        compute_attention_maps(task, TEXT, layers=[3])
    with pytest.raises(UserError, match="head 0: this model has 4"):
        compute_attention_maps(task, TEXT, heads=[0])


def test_classifiers_have_maps_too():
    words = WordTokenizer(["the", "film", "was", "not", "bad"])
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1, "d_ff": 16}
    recipe = build(ClassificationRecipe, {"model": table})
    model = build_classifier(recipe.model, len(words), 2)
    maps = compute_attention_maps(
        Classification(recipe, words, ("yes", "no"), model), "The film, not bad"
    )
    assert list(maps.rows) == ["The", "film", ",", "not", "bad"]
    assert len(maps.maps) == 2
    assert sum(maps.maps[0].weights[0]) == pytest.approx(1, abs=1e-5)
    assert maps.maps[0].weights[0][4] > 0  # nothing is hidden from a classifier


def test_who_has_no_attention_is_told():
    recurrent = {"kind": "recurrent", "cell": "gru", "d_model": 4, "hidden_size": 4}
    recipe = build(LanguageRecipe, {"model": recurrent})
    model = build_language_model(recipe.model, len(CHARACTERS))
    with pytest.raises(UserError, match="no attention"):
        compute_attention_maps(LanguageModeling(recipe, CHARACTERS, model), TEXT)
    with pytest.raises(UserError, match="nothing to look at"):
        compute_attention_maps(language(), "")
    with pytest.raises(UserError, match="classifiers and language models"):
        compute_attention_maps(object(), TEXT)


def test_a_long_text_is_cut_and_drawn_all_the_same():
    task = language(layers=1, heads=2)
    maps = compute_attention_maps(task, TEXT * 40)
    assert len(maps.rows) == 512
    assert maps.truncated_characters == len(TEXT) * 40 - 512
    assert isinstance(maps.maps[0].weights[0], array)
    page = maps.html()
    assert len(page) < 2_000_000
    assert "img-src data:" in page
    assert f"the last {maps.truncated_characters:,} characters" in page
    assert maps.picture().png()[:4] == b"\x89PNG"
    for color in (False, True):
        assert max(map(len, maps.text(width=100).splitlines())) <= 100
        assert "layer 1, head 2" in maps.text(width=100, color=color)


def test_learned_positions_bound_the_text():
    maps = compute_attention_maps(language(positions="learned", max_positions=8), TEXT)
    assert len(maps.rows) == 8
    assert maps.truncated_characters == len(TEXT) - 8


def test_byte_pairs_are_shown_as_they_stand():
    tokenizer = BytePairTokenizer.train([TEXT * 20], vocab_size=262)
    task = language(tokenizer)
    maps = compute_language_model_maps(task.model, tokenizer, TEXT + "🙂")
    assert "".join(dict.fromkeys(maps.rows[-4:])) == "🙂"
    assert maps.truncated_characters == 0
