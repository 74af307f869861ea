import pytest

from workings.experiments.sigmoid import KEY_COUNTS, NUM_PAIRS, PAIR_COUNTS, measure


def test_a_sigmoid_neither_averages_nor_lets_keys_compete():
    softmax, sigmoid, longer = measure()
    assert softmax.weight_sums == pytest.approx([1] * len(KEY_COUNTS))
    assert sigmoid.weight_sums == pytest.approx([keys / 2 for keys in KEY_COUNTS], rel=0.15)
    usual = PAIR_COUNTS.index(NUM_PAIRS)
    assert min(softmax.accuracy) > 0.99
    assert sigmoid.accuracy[usual] < 0.9 < longer.accuracy[usual]
    assert sigmoid.accuracy[-1] < sigmoid.accuracy[usual] - 0.1
    assert longer.accuracy[-1] < longer.accuracy[usual]
