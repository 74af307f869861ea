import pytest

from workings.experiments.core import HALF, SYMBOLS, measure


@pytest.fixture(scope="module")
def found():
    return measure(position_counts=(1, HALF))


def test_fixed_weights_suffice_at_a_fixed_position(found):
    assert found.attention.accuracy[0] > 0.95
    assert found.linear.accuracy[0] > 0.95
    assert found.perceptron.accuracy[0] > 0.95


def test_only_attention_follows_a_word_that_moves(found):
    assert found.attention.accuracy[1] > 0.95
    assert max(found.linear.accuracy[1], found.perceptron.accuracy[1]) < 0.5
    assert found.attention.transfer_accuracy > 0.95
    assert max(found.linear.transfer_accuracy, found.perceptron.transfer_accuracy) < 3 / SYMBOLS


def test_attention_has_fewer_parameters(found):
    attention, linear, perceptron = (
        result.num_parameters for result in (found.attention, found.linear, found.perceptron)
    )
    assert 5 * attention < linear < perceptron


def test_attention_weights_are_on_the_marked_word_and_linear_weights_on_all(found):
    for position, weights in zip(found.marked_positions, found.attention_weights, strict=True):
        assert weights[position] > 0.8
    assert sum(found.linear_weights) == pytest.approx(1)
    assert max(found.linear_weights) < 0.5
