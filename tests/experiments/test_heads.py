import pytest
import torch

from workings.experiments.heads import CARDS, WideHeads, measure, sample_two_lookups


def test_two_lookups_need_two_heads_which_cost_no_more_than_one():
    found = measure(heads=(1, 2))
    one, two = found.results
    # A head that finds one of the two numbers answers one question and guesses the other.
    assert one.accuracy == pytest.approx(1 / 2 + 1 / (2 * CARDS), abs=0.06)
    assert two.accuracy > 0.98
    for query in (0, 1):
        assert max(head[query] for head in two.attention_shares) > 0.9
    assert all(sum(head) == pytest.approx(1) for x in found.results for head in x.attention_shares)
    assert found.narrow[1].flops == found.narrow[0].flops
    assert found.narrow[1].num_parameters == found.narrow[0].num_parameters
    assert found.wide[1].flops == 2 * found.narrow[0].flops
    assert found.wide[1].num_parameters == 2 * found.narrow[0].num_parameters


def test_one_wide_head_is_a_plain_attention_layer():
    layer, x = WideHeads(8, 1), torch.randn(1, 3, 8)
    assert torch.equal(layer(x), layer.heads[0](x))


def test_targets_are_the_numbers_on_the_queried_cards():
    symbols, targets = sample_two_lookups(torch.Generator().manual_seed(1), 50)
    for row, numbers in zip(symbols.tolist(), targets.tolist(), strict=True):
        number_by_name = dict(divmod(card, CARDS) for card in row[:CARDS])
        assert numbers == [number_by_name[name] for name in row[CARDS:]]
        assert row[-1] != row[-2]
