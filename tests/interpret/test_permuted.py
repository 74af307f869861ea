"""Tokens in another order: without positions attention cannot tell, with them it can."""

import pytest
import torch

from workings.config import build
from workings.data import CharacterTokenizer, WordTokenizer
from workings.errors import UserError
from workings.interpret.positions import build_permutation, measure_permutation
from workings.models.classifiers import build_classifier
from workings.models.language import build_language_model
from workings.models.translation import build_translator
from workings.recipes import ClassificationRecipe, LanguageRecipe, TranslationRecipe
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.translation import TokenizerPair, Translation, collate_sources
from workings.trace import Trace

TEXT, TURNED = "the cat sat chat", "chat sat cat the"


def classifier(**table):
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 2, "d_ff": 16, **table}
    recipe = build(ClassificationRecipe, {"model": table, "data": {"max_length": 8}})
    words = WordTokenizer(["the", "cat", "sat", "chat"])
    torch.manual_seed(3)
    return Classification(recipe, words, ("a", "b"), build_classifier(table, len(words), 2).eval())


@pytest.mark.parametrize("order", ["reversed", "swapped", "shuffled"])
def test_without_positions_only_rounding_is_left(order):
    found = measure_permutation(classifier(positions="none", pooling="mean"), TEXT, order, seed=5)
    assert all(layer.is_rounding for layer in found.layers)
    assert all(layer.max_activation > 0.1 for layer in found.layers)
    for expected, weights in zip(found.expected_weights, found.permuted_weights, strict=True):
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(*found.class_probabilities)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_positions_tell_the_order_until_they_are_left_out(positions):
    task = classifier(positions=positions, max_positions=16)
    found = measure_permutation(task, TEXT, "reversed")
    assert found.position_encoding == positions
    assert not any(layer.is_rounding for layer in found.layers)
    assert found.layers[-1].max_difference > 1e-3
    without = measure_permutation(task, TEXT, "reversed", use_positions=False)
    assert all(layer.is_rounding for layer in without.layers)


def test_permuting_vectors_is_reading_the_words_in_that_order():
    task = classifier()
    found = measure_permutation(task, TEXT, "reversed")
    with Trace(task.model, only=("*.residual", "*.weights")) as trace:
        chances = task.predict([TURNED])[0]
    torch.testing.assert_close(chances, found.class_probabilities[1])
    with Trace(task.model, only="*.residual") as before:
        task.predict([TEXT])
    for k, layer in enumerate(found.layers):
        torch.testing.assert_close(
            trace[f"blocks.{k}.attention.weights"][0], found.permuted_weights[k]
        )
        path = f"blocks.{k}.residual"
        apart = (trace[path][0] - before[path][0].flip(0)).abs()
        torch.testing.assert_close(layer.differences, apart.amax(-1))
        assert layer.max_difference == pytest.approx(float(apart.max()))


def test_of_a_translator_it_is_the_encoder():
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 2, "d_ff": 16}
    recipe = build(TranslationRecipe, {"model": table, "tokenizer": {"kind": "words"}})
    words = WordTokenizer(["the", "cat", "sat", "chat"], with_eos=True)
    torch.manual_seed(3)
    model = build_translator({**table, "share_embeddings": False}, len(words), len(words)).eval()
    task = Translation(recipe, TokenizerPair(words, words), model)
    found = measure_permutation(task, TEXT, "reversed")
    assert (found.position_encoding, found.is_causal, found.class_probabilities) == (
        "sinusoidal",
        False,
        None,
    )
    assert found.tokens[-1] == "</s>"
    assert not found.layers[-1].is_rounding
    with Trace(model, only="encoder.*.weights") as trace, torch.no_grad():
        model.encode(collate_sources([task.tokenizers.encode_source(TEXT)[::-1]], model))
    for k, weights in enumerate(found.permuted_weights):
        torch.testing.assert_close(trace[f"encoder.{k}.attention.weights"][0], weights)
    without = measure_permutation(task, TEXT, "reversed", use_positions=False)
    assert all(layer.is_rounding for layer in without.layers)


def test_a_causal_mask_knows_the_order_too():
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1}
    recipe = build(LanguageRecipe, {"model": table, "data": {"context_length": 8}})
    characters = CharacterTokenizer.train(["to be"])
    task = LanguageModeling(recipe, characters, build_language_model(table, len(characters)))
    found = measure_permutation(task, "to be", "reversed")
    assert (found.is_causal, found.position_encoding, found.class_probabilities) == (
        True,
        "rotary",
        None,
    )
    assert not found.layers[0].is_rounding
    with pytest.raises(UserError, match="rotary"):
        measure_permutation(task, "to be", "reversed", use_positions=False)


def test_where_nothing_moves_nothing_is_shown():
    with pytest.raises(UserError, match="no token has another place"):
        measure_permutation(classifier(), "cat", "reversed")


def test_orders_are_permutations():
    for order in ("reversed", "swapped", "shuffled"):
        assert sorted(build_permutation(7, order, 3)) == list(range(7))
        assert build_permutation(1, order) == [0]
    assert (
        build_permutation(9, "shuffled", 1)
        == build_permutation(9, "shuffled", 1)
        != build_permutation(9, "shuffled", 2)
    )
