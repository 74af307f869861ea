import pytest
import torch

from workings.experiments.qkv import (
    CARDS,
    MAX_SYMMETRIC_ACCURACY,
    compute_self_weight,
    measure,
    sample_next_cards,
)


@pytest.mark.slow
def test_lookup_needs_all_three_matrices():
    plain, only_value, shared, no_value, full = measure().values()
    assert max(plain.accuracy, only_value.accuracy) < 0.3
    assert compute_self_weight(plain.mean_weights) > 0.8
    assert compute_self_weight(full.mean_weights) < 0.1
    assert 0.3 < shared.accuracy < MAX_SYMMETRIC_ACCURACY + 0.02
    # One of two numbers at random; sometimes both are equal.
    assert no_value.accuracy == pytest.approx(1 / 2 + 1 / (2 * CARDS), abs=0.05)
    assert full.accuracy > 0.98
    assert all(full.mean_weights[k][(k + 1) % CARDS] > 0.9 for k in range(CARDS))


def test_targets_are_the_numbers_on_the_next_cards():
    cards, targets = sample_next_cards(torch.Generator().manual_seed(1), 50)
    for row, numbers in zip(cards.tolist(), targets.tolist(), strict=True):
        number_by_name = dict(divmod(card, CARDS) for card in row)
        assert numbers == [number_by_name[(card // CARDS + 1) % CARDS] for card in row]
