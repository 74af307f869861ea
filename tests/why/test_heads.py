import pytest
import torch

from workings.why.heads import CARDS, WideHeads, measure, two_questions


def test_two_look_ups_need_two_heads_which_cost_no_more_than_one():
    found = measure(heads=(1, 2))
    one, two = found.learned
    # A head that has one of the numbers gives one answer, and guesses the other.
    assert one.right == pytest.approx(1 / 2 + 1 / (2 * CARDS), abs=0.06)
    assert two.right > 0.98
    for asked in (0, 1):
        assert max(head[asked] for head in two.looks) > 0.9
    assert all(sum(head) == pytest.approx(1) for x in found.learned for head in x.looks)
    assert found.narrow[1].operations == found.narrow[0].operations
    assert found.narrow[1].parameters == found.narrow[0].parameters
    assert found.wide[1].operations == 2 * found.narrow[0].operations
    assert found.wide[1].parameters == 2 * found.narrow[0].parameters


def test_one_wide_head_counts_once():
    layer, x = WideHeads(8, 1), torch.randn(1, 3, 8)
    assert torch.equal(layer(x), layer.heads[0](x))


def test_the_answers_are_on_the_cards_that_are_asked_for():
    symbols, answers = two_questions(torch.Generator().manual_seed(1), 50)
    for row, right in zip(symbols.tolist(), answers.tolist(), strict=True):
        numbers = dict(divmod(card, CARDS) for card in row[:CARDS])
        assert right == [numbers[name] for name in row[CARDS:]]
        assert row[-1] != row[-2]
