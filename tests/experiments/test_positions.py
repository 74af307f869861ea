import pytest
import torch

from workings.experiments.positions import measure, sample_which_first
from workings.layers.positions import sinusoids


def test_order_is_seen_and_learned_with_positions_only():
    none, added, beside = measure(steps=100).results
    assert none.reversal_difference < 1e-5
    assert min(added.reversal_difference, beside.reversal_difference) > 0.1
    assert none.accuracy == pytest.approx(0.5, abs=0.05)
    assert min(added.accuracy, beside.accuracy) > 0.95
    assert none.losses[-1] > 0.6 > 0.2 > max(added.losses[-1], beside.losses[-1])


def test_the_question_is_about_order_alone():
    words, answers = sample_which_first(torch.Generator().manual_seed(1), 500)
    turned = words.flip(1)
    first = [(words == k).int().argmax(1) for k in (0, 1)]
    first_turned = [(turned == k).int().argmax(1) for k in (0, 1)]
    assert torch.equal((first[1] < first[0]).long(), answers)
    assert torch.equal((first_turned[1] < first_turned[0]).long(), 1 - answers)


def test_products_go_by_distance():
    products = sinusoids(64, 64) @ sinusoids(64, 64).T
    for k in range(64):
        assert products.diagonal(k) == pytest.approx(products[0, k].item(), abs=1e-3)
