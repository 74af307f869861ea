import pytest

from workings.experiments.sigmoid import KEY_COUNTS, NUM_PAIRS, PAIR_COUNTS, measure


def test_sigmoid_weights_do_not_sum_to_one_and_do_not_generalize_to_more_pairs():
    softmax, sigmoid, longer = measure()
    assert softmax.weight_sums == pytest.approx([1] * len(KEY_COUNTS))
    assert sigmoid.weight_sums == pytest.approx([keys / 2 for keys in KEY_COUNTS], rel=0.15)
    trained = PAIR_COUNTS.index(NUM_PAIRS)
    assert min(softmax.accuracy) > 0.99
    assert sigmoid.accuracy[trained] < 0.9 < longer.accuracy[trained]
    assert sigmoid.accuracy[-1] < sigmoid.accuracy[trained] - 0.1
    assert longer.accuracy[-1] < longer.accuracy[trained]
