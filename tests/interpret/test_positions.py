"""Positional encodings, and permuted tokens: without positions attention is equivariant."""

import numpy as np
import pytest
import torch
from small_tasks import captioning_task, classification_task, language_task, translation_task

from workings.data import CharacterTokenizer
from workings.errors import UserError
from workings.interpret.positions import (
    build_permutation,
    extract_position_vectors,
    measure_permutation,
)
from workings.models.language import build_language_model
from workings.tasks.translation import collate_sources
from workings.trace import Trace

TEXT, REVERSED = "the cat sat chat", "chat sat cat the"
WORDS = ["the", "cat", "sat", "chat"]
TRANSFORMER = {"kind": "transformer", "d_model": 8, "layers": 1, "heads": 2, "max_positions": 32}


# -- encodings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_dot_products_of_fixed_encodings_depend_on_the_distance_only(kind):
    model = build_language_model({**TRANSFORMER, "positions": kind}, 20)
    encoding = extract_position_vectors(model)
    products = encoding.dot_products
    assert encoding.vectors.shape[0] == 64
    np.testing.assert_allclose(products[1:, 1:], products[:-1, :-1], atol=1e-5, rtol=1e-4)
    assert (products.diagonal() >= products.max() - 1e-5).all()


def test_learned_encoding_is_the_models_table():
    model = build_language_model({**TRANSFORMER, "positions": "learned"}, 20)
    encoding = extract_position_vectors(model)
    np.testing.assert_array_equal(encoding.vectors, model.positions.table.detach())


def test_recurrent_model_has_no_encoding():
    assert extract_position_vectors(build_language_model({"kind": "recurrent"}, 20)) is None


# -- permutation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["reversed", "swapped", "shuffled"])
def test_without_positions_only_rounding_differs(order):
    task = classification_task(WORDS, positions="none", pooling="mean")
    result = measure_permutation(task, TEXT, order, seed=5)
    assert all(layer.is_rounding for layer in result.layers)
    assert all(layer.max_activation > 0.1 for layer in result.layers)
    for expected, weights in zip(result.expected_weights, result.permuted_weights, strict=True):
        np.testing.assert_allclose(weights, expected, atol=1e-6, rtol=1e-5)
    before, after = result.class_probabilities
    assert list(before) == ["a", "b"]
    assert after == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_positions_make_a_difference_until_they_are_removed(positions):
    task = classification_task(WORDS, positions=positions, max_positions=16)
    result = measure_permutation(task, TEXT, "reversed")
    assert result.position_encoding == positions
    assert not any(layer.is_rounding for layer in result.layers)
    assert result.layers[-1].max_difference > 1e-3
    without = measure_permutation(task, TEXT, "reversed", use_positions=False)
    assert all(layer.is_rounding for layer in without.layers)


def test_permuted_embeddings_equal_the_text_in_that_order():
    task = classification_task(WORDS)
    result = measure_permutation(task, TEXT, "reversed")
    with Trace(task.model, only=("*.residual", "*.weights")) as permuted:
        probabilities = task.predict([REVERSED])[0]
    permuted_probabilities = [*result.class_probabilities[1].values()]
    np.testing.assert_allclose(probabilities, permuted_probabilities, rtol=1e-5)
    with Trace(task.model, only="*.residual") as original:
        task.predict([TEXT])
    for k, layer in enumerate(result.layers):
        weights = permuted[f"blocks.{k}.attention.weights"][0]
        np.testing.assert_allclose(weights, result.permuted_weights[k], atol=1e-6)
        path = f"blocks.{k}.residual"
        differences = (permuted[path][0] - original[path][0].flip(0)).abs()
        np.testing.assert_allclose(layer.differences, differences.amax(-1), atol=1e-5)
        assert layer.max_difference == pytest.approx(float(differences.max()), abs=1e-5)


def test_encoder_of_a_translator_is_measured():
    task = translation_task(WORDS)
    result = measure_permutation(task, TEXT, "reversed")
    assert (result.position_encoding, result.is_causal) == ("sinusoidal", False)
    assert result.class_probabilities is None
    assert result.tokens[-1] == "</s>"
    assert not result.layers[-1].is_rounding
    with Trace(task.model, only="encoder.*.weights") as trace, torch.no_grad():
        task.model.encode(collate_sources([task.tokenizers.encode_source(TEXT)[::-1]], task.model))
    for k, weights in enumerate(result.permuted_weights):
        np.testing.assert_allclose(trace[f"encoder.{k}.attention.weights"][0], weights, atol=1e-6)
    without = measure_permutation(task, TEXT, "reversed", use_positions=False)
    assert all(layer.is_rounding for layer in without.layers)


def test_causal_mask_depends_on_the_order_too():
    task = language_task(CharacterTokenizer.train(["to be"]), d_model=8, heads=2, layers=1)
    result = measure_permutation(task, "to be", "reversed")
    assert (result.is_causal, result.position_encoding) == (True, "rotary")
    assert result.class_probabilities is None
    assert not result.layers[0].is_rounding
    with pytest.raises(UserError, match="rotary"):
        measure_permutation(task, "to be", "reversed", use_positions=False)


def test_input_without_a_permutation_is_refused():
    with pytest.raises(UserError, match="the permutation moves no token"):
        measure_permutation(classification_task(WORDS), "cat", "reversed")
    with pytest.raises(UserError, match="it has no tokens to permute"):
        measure_permutation(captioning_task(), "cat", "reversed")


def test_orders_are_permutations():
    for order in ("reversed", "swapped", "shuffled"):
        assert sorted(build_permutation(7, order, 3)) == list(range(7))
        assert build_permutation(1, order) == [0]
    first, second, other = (build_permutation(9, "shuffled", seed) for seed in (1, 1, 2))
    assert first == second != other
