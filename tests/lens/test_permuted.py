"""Tokens in another order: without positions attention cannot tell, with them it can."""

import pytest
import torch

from workings.config import build
from workings.data import Characters, Words
from workings.errors import UserError
from workings.lens.permuted import ordered, permuted
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translators import build_translator
from workings.recipes import ClassifyRecipe, LanguageRecipe, TranslateRecipe
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.tasks.translate import Translating
from workings.tasks.translation import Vocabularies, sentences
from workings.trace import Trace

TEXT, TURNED = "the cat sat chat", "chat sat cat the"


def classifier(**table):
    table = {"kind": "transformer", "embedding": 8, "heads": 2, "layers": 2, "hidden": 16, **table}
    recipe = build(ClassifyRecipe, {"model": table, "data": {"longest": 8}})
    words = Words(["the", "cat", "sat", "chat"])
    torch.manual_seed(3)
    return Classifying(recipe, words, ("a", "b"), build_classifier(table, len(words), 2).eval())


@pytest.mark.parametrize("order", ["reversed", "swapped", "shuffled"])
def test_without_positions_only_rounding_is_left(order):
    found = permuted(classifier(positions="none", pooling="mean"), TEXT, order, seed=5)
    assert all(layer.is_rounding for layer in found.layers)
    assert all(layer.largest > 0.1 for layer in found.layers)
    for expected, weights in zip(found.expected, found.found, strict=True):
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(*found.chances)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_positions_tell_the_order_until_they_are_left_out(positions):
    task = classifier(positions=positions, length=16)
    found = permuted(task, TEXT, "reversed")
    assert found.positions == positions
    assert not any(layer.is_rounding for layer in found.layers)
    assert found.layers[-1].residual > 1e-3
    without = permuted(task, TEXT, "reversed", positions=False)
    assert all(layer.is_rounding for layer in without.layers)


def test_permuting_vectors_is_reading_the_words_in_that_order():
    task = classifier()
    found = permuted(task, TEXT, "reversed")
    with Trace(task.model, only=("*.residual", "*.weights")) as trace:
        chances = task.predict([TURNED])[0]
    torch.testing.assert_close(chances, found.chances[1])
    with Trace(task.model, only="*.residual") as before:
        task.predict([TEXT])
    for k, layer in enumerate(found.layers):
        torch.testing.assert_close(trace[f"blocks.{k}.attention.weights"][0], found.found[k])
        path = f"blocks.{k}.residual"
        apart = (trace[path][0] - before[path][0].flip(0)).abs()
        torch.testing.assert_close(layer.apart, apart.amax(-1))
        assert layer.residual == pytest.approx(float(apart.max()))


def test_of_a_translator_it_is_the_encoder():
    table = {"kind": "transformer", "embedding": 8, "heads": 2, "layers": 2, "hidden": 16}
    recipe = build(TranslateRecipe, {"model": table, "tokenizer": {"kind": "words"}})
    words = Words(["the", "cat", "sat", "chat"], stop=True)
    torch.manual_seed(3)
    model = build_translator({**table, "shared": False}, len(words), len(words)).eval()
    task = Translating(recipe, Vocabularies(words, words), model)
    found = permuted(task, TEXT, "reversed")
    assert (found.positions, found.causal, found.chances) == ("sinusoidal", False, None)
    assert found.tokens[-1] == "</s>"
    assert not found.layers[-1].is_rounding
    with Trace(model, only="encoder.*.weights") as trace, torch.no_grad():
        model.read(sentences([task.words.read(TEXT)[::-1]], model))
    for k, weights in enumerate(found.found):
        torch.testing.assert_close(trace[f"encoder.{k}.attention.weights"][0], weights)
    without = permuted(task, TEXT, "reversed", positions=False)
    assert all(layer.is_rounding for layer in without.layers)


def test_a_causal_mask_knows_the_order_too():
    table = {"kind": "transformer", "embedding": 8, "heads": 2, "layers": 1}
    recipe = build(LanguageRecipe, {"model": table, "data": {"window": 8}})
    characters = Characters.train(["to be"])
    task = Modelling(recipe, characters, build_language_model(table, len(characters)))
    found = permuted(task, "to be", "reversed")
    assert (found.causal, found.positions, found.chances) == (True, "rotary", None)
    assert not found.layers[0].is_rounding
    with pytest.raises(UserError, match="rotary"):
        permuted(task, "to be", "reversed", positions=False)


def test_where_nothing_moves_nothing_is_shown():
    with pytest.raises(UserError, match="no token has another place"):
        permuted(classifier(), "cat", "reversed")


def test_orders_are_permutations():
    for order in ("reversed", "swapped", "shuffled"):
        assert sorted(ordered(7, order, 3)) == list(range(7))
        assert ordered(1, order) == [0]
    assert ordered(9, "shuffled", 1) == ordered(9, "shuffled", 1) != ordered(9, "shuffled", 2)
