import pytest

from workings.experiments.core import HALF, SYMBOLS, measure


@pytest.fixture(scope="module")
def found():
    return measure(position_counts=(1, HALF))


def test_fixed_weights_do_where_nothing_moves(found):
    assert found.attention.accuracy[0] > 0.95
    assert found.linear.accuracy[0] > 0.95
    assert found.perceptron.accuracy[0] > 0.95


def test_weights_from_the_input_follow_a_word_that_moves(found):
    assert found.attention.accuracy[1] > 0.95
    assert max(found.linear.accuracy[1], found.perceptron.accuracy[1]) < 0.5
    assert found.attention.transfer_accuracy > 0.95
    assert max(found.linear.transfer_accuracy, found.perceptron.transfer_accuracy) < 3 / SYMBOLS


def test_attention_has_fewer_parameters(found):
    assert (
        5 * found.attention.num_parameters
        < found.linear.num_parameters
        < found.perceptron.num_parameters
    )


def test_attention_looks_at_the_marked_word_and_the_linear_layer_at_all(found):
    for place, weights in zip(found.marked_positions, found.attention_weights, strict=True):
        assert weights[place] > 0.8
    assert sum(found.linear_weights) == pytest.approx(1)
    assert max(found.linear_weights) < 0.5
