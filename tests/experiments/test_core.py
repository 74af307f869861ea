import pytest

from workings.experiments.core import HALF, SYMBOLS, measure


@pytest.fixture(scope="module")
def found():
    return measure(position_counts=(1, HALF))


def test_fixed_weights_do_where_nothing_moves(found):
    assert found.attention.right[0] > 0.95
    assert found.linear.right[0] > 0.95
    assert found.perceptron.right[0] > 0.95


def test_weights_from_the_input_follow_a_word_that_moves(found):
    assert found.attention.right[1] > 0.95
    assert max(found.linear.right[1], found.perceptron.right[1]) < 0.5
    assert found.attention.elsewhere > 0.95
    assert max(found.linear.elsewhere, found.perceptron.elsewhere) < 3 / SYMBOLS


def test_attention_has_fewer_parameters(found):
    assert 5 * found.attention.parameters < found.linear.parameters < found.perceptron.parameters


def test_attention_looks_at_the_marked_word_and_the_linear_layer_at_all(found):
    for place, weights in zip(found.places, found.looked, strict=True):
        assert weights[place] > 0.8
    assert sum(found.fixed) == pytest.approx(1)
    assert max(found.fixed) < 0.5
