import pytest

from workings.why.sigmoid import COUNTS, KEYS, PAIRS, measure


def test_a_sigmoid_neither_averages_nor_lets_keys_compete():
    softmax, sigmoid, longer = measure()
    assert softmax.sums == pytest.approx([1] * len(KEYS))
    assert sigmoid.sums == pytest.approx([keys / 2 for keys in KEYS], rel=0.15)
    usual = COUNTS.index(PAIRS)
    assert min(softmax.right) > 0.99
    assert sigmoid.right[usual] < 0.9 < longer.right[usual]
    assert sigmoid.right[-1] < sigmoid.right[usual] - 0.1
    assert longer.right[-1] < longer.right[usual]
