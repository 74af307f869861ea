import pytest
import torch

from workings.experiments.qkv import (
    CARDS,
    MAX_SYMMETRIC_ACCURACY,
    compute_self_weight,
    measure,
    sample_next_cards,
)


def test_a_look_up_needs_all_three_matrices():
    plain, only_value, shared, no_value, whole = measure().values()
    assert max(plain.accuracy, only_value.accuracy) < 0.3
    assert (
        compute_self_weight(plain.mean_weights)
        > 0.8
        > 0.1
        > compute_self_weight(whole.mean_weights)
    )
    assert 0.3 < shared.accuracy < MAX_SYMMETRIC_ACCURACY + 0.02
    # One of two numbers, by chance; and now and then they are the same.
    assert no_value.accuracy == pytest.approx(1 / 2 + 1 / (2 * CARDS), abs=0.05)
    assert whole.accuracy > 0.98
    assert all(whole.mean_weights[k][(k + 1) % CARDS] > 0.9 for k in range(CARDS))


def test_the_next_card_has_the_answer():
    dealt, answers = sample_next_cards(torch.Generator().manual_seed(1), 50)
    for cards, right in zip(dealt.tolist(), answers.tolist(), strict=True):
        numbers = dict(divmod(card, CARDS) for card in cards)
        assert right == [numbers[(card // CARDS + 1) % CARDS] for card in cards]
