import math

import pytest
import torch

from workings import UserError, attend
from workings.attention import dot
from workings.layers import AdditiveSimilarity, GeneralSimilarity


def additive_by_hand(layer: AdditiveSimilarity, query: list[float], key: list[float]) -> float:
    """`vᵀ tanh(W_q q + W_k k)` for one query and one key, with nothing but sums."""
    total = 0.0
    for v, w_q, w_k in zip(
        layer.score.weight[0].tolist(),
        layer.query.weight.tolist(),
        layer.key.weight.tolist(),
        strict=True,
    ):
        inside = sum(w * q for w, q in zip(w_q, query, strict=True))
        inside += sum(w * k for w, k in zip(w_k, key, strict=True))
        total += v * math.tanh(inside)
    return total


def general_by_hand(layer: GeneralSimilarity, query: list[float], key: list[float]) -> float:
    """`qᵀ W k` for one query and one key; the layer keeps Wᵀ."""
    return sum(
        key[j] * w * query[i]
        for j, row in enumerate(layer.projection.weight.tolist())
        for i, w in enumerate(row)
    )


CASES = [
    (AdditiveSimilarity(3, 2, 5), additive_by_hand),
    (GeneralSimilarity(3, 2), general_by_hand),
]


@pytest.mark.parametrize(("layer", "by_hand"), CASES)
def test_every_pair_is_scored_by_the_formula(layer, by_hand, fill, waves):
    fill(layer)
    query, key = waves(2, 4, 3, start=60), waves(2, 5, 2, start=80)
    expected = [
        [[by_hand(layer, q, k) for k in key[b].tolist()] for q in query[b].tolist()]
        for b in range(2)
    ]
    torch.testing.assert_close(layer(query, key), torch.tensor(expected))


@pytest.mark.parametrize(("layer", "by_hand"), CASES)
def test_attend_mixes_by_these_scores_alone(layer, by_hand, fill, waves):
    fill(layer)
    query, key, value = waves(1, 3, start=60), waves(5, 2, start=80), waves(5, 4, start=99)
    raw = [math.exp(by_hand(layer, query[0].tolist(), k)) for k in key.tolist()]  # and no 1/√d
    expected = [
        sum(r * v for r, v in zip(raw, column, strict=True)) / sum(raw)
        for column in value.T.tolist()
    ]
    mixed = attend(query, key, value, similarity=layer)
    torch.testing.assert_close(mixed, torch.tensor([expected]))


@pytest.mark.parametrize(("layer", "_"), CASES)
def test_heads_and_batch_are_only_more_of_the_same(layer, _, waves):
    query, key = waves(2, 3, 4, 3), waves(2, 3, 5, 2)
    scores = layer(query, key)
    assert scores.shape == (2, 3, 4, 5)
    torch.testing.assert_close(scores[1, 2], layer(query[1, 2], key[1, 2]))


@pytest.mark.parametrize(("layer", "_"), CASES)
def test_every_weight_learns(layer, _, fill, waves):
    layer.zero_grad()
    attend(waves(4, 3), waves(5, 2), waves(5, 6), similarity=fill(layer)).pow(2).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_an_identity_between_one_width_is_the_inner_product(waves):
    layer, query, key = GeneralSimilarity(3, 3), waves(4, 3), waves(5, 3, start=20)
    with torch.no_grad():
        layer.projection.weight.copy_(torch.eye(3))
    torch.testing.assert_close(layer(query, key), dot(query, key))


def test_snapshots(fill):
    query, key = torch.tensor([[1.0, -1.0]]), torch.tensor([[0.5], [2.0]])
    additive, general = fill(AdditiveSimilarity(2, 1, 2)), fill(GeneralSimilarity(2, 1))
    torch.testing.assert_close(
        additive(query, key), torch.tensor([[0.305715, -0.309489]]), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        general(query, key), torch.tensor([[-0.033913, -0.135653]]), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("layer", [AdditiveSimilarity(3, 2, 5), GeneralSimilarity(3, 2)])
def test_other_widths_are_refused(layer):
    with pytest.raises(UserError, match="expected queries of width 3, got 4"):
        layer(torch.zeros(1, 4), torch.zeros(1, 2))
    with pytest.raises(UserError, match="expected keys of width 2, got 4"):
        layer(torch.zeros(1, 3), torch.zeros(1, 4))
