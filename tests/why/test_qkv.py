import pytest
import torch

from workings.why.qkv import AT_BEST, CARDS, measure, next_cards, on_themselves


def test_a_look_up_needs_all_three_matrices():
    plain, only_value, shared, no_value, whole = measure().values()
    assert max(plain.right, only_value.right) < 0.3
    assert on_themselves(plain.looks) > 0.8 > 0.1 > on_themselves(whole.looks)
    assert 0.3 < shared.right < AT_BEST + 0.02
    # One of two numbers, by chance; and now and then they are the same.
    assert no_value.right == pytest.approx(1 / 2 + 1 / (2 * CARDS), abs=0.05)
    assert whole.right > 0.98
    assert all(whole.looks[k][(k + 1) % CARDS] > 0.9 for k in range(CARDS))


def test_the_next_card_has_the_answer():
    dealt, answers = next_cards(torch.Generator().manual_seed(1), 50)
    for cards, right in zip(dealt.tolist(), answers.tolist(), strict=True):
        numbers = dict(divmod(card, CARDS) for card in cards)
        assert right == [numbers[(card // CARDS + 1) % CARDS] for card in cards]
