import pytest

from workings.experiments.core import HALF, SYMBOLS, measure


@pytest.fixture(scope="module")
def measurement():
    return measure(position_counts=(1, HALF))


def test_fixed_weights_suffice_at_a_fixed_position(measurement):
    assert measurement.attention.accuracy[0] > 0.95
    assert measurement.linear.accuracy[0] > 0.95
    assert measurement.perceptron.accuracy[0] > 0.95


def test_only_attention_follows_a_word_that_moves(measurement):
    assert measurement.attention.accuracy[1] > 0.95
    assert max(measurement.linear.accuracy[1], measurement.perceptron.accuracy[1]) < 0.5
    assert measurement.attention.transfer_accuracy > 0.95
    assert (
        max(measurement.linear.transfer_accuracy, measurement.perceptron.transfer_accuracy)
        < 3 / SYMBOLS
    )


def test_attention_has_fewer_parameters(measurement):
    attention, linear, perceptron = (
        result.num_parameters
        for result in (measurement.attention, measurement.linear, measurement.perceptron)
    )
    assert 5 * attention < linear < perceptron


def test_attention_weights_are_on_the_marked_word_and_linear_weights_on_all(measurement):
    for position, weights in zip(
        measurement.marked_positions, measurement.attention_weights, strict=True
    ):
        assert weights[position] > 0.8
    assert sum(measurement.linear_weights) == pytest.approx(1)
    assert max(measurement.linear_weights) < 0.5
