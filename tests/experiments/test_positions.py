import pytest
import torch

from workings.experiments.positions import measure, sample_which_first
from workings.layers.positions import sinusoids


@pytest.mark.slow
def test_order_is_learned_with_positions_only():
    none, added, concatenated = measure(steps=100).results
    assert none.reversal_difference < 1e-5
    assert min(added.reversal_difference, concatenated.reversal_difference) > 0.1
    assert none.accuracy == pytest.approx(0.5, abs=0.05)
    assert min(added.accuracy, concatenated.accuracy) > 0.95
    assert none.losses[-1] > 0.6 > 0.2 > max(added.losses[-1], concatenated.losses[-1])


def test_targets_depend_on_the_order_only():
    words, targets = sample_which_first(torch.Generator().manual_seed(1), 500)
    first_zero, first_one = ((words == k).int().argmax(1) for k in (0, 1))
    assert torch.equal((first_one < first_zero).long(), targets)
    first_zero, first_one = ((words.flip(1) == k).int().argmax(1) for k in (0, 1))
    assert torch.equal((first_one < first_zero).long(), 1 - targets)


def test_dot_products_depend_on_the_distance_only():
    products = sinusoids(64, 64) @ sinusoids(64, 64).T
    for k in range(64):
        assert products.diagonal(k) == pytest.approx(products[0, k].item(), abs=1e-3)
