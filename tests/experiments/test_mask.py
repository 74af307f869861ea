import pytest
import torch

from workings.attention import attend, scaled_dot
from workings.experiments.mask import MASK_METHODS, MIN_LOSS, compute_masked_weights, measure


@pytest.mark.slow
def test_only_minus_infinity_hides_the_future():
    minus_infinity, before, after = measure(steps=200)
    assert minus_infinity.leak == 0
    assert min(before.leak, after.leak) > 0.01
    assert minus_infinity.losses[-1] > MIN_LOSS - 0.1  # the noise of one batch
    assert max(before.losses[-1], after.losses[-1]) < MIN_LOSS - 0.3
    assert minus_infinity.generation_loss < MIN_LOSS + 0.1
    assert min(before.generation_loss, after.generation_loss) > MIN_LOSS + 0.2


def test_row_sums_and_weights_on_the_future():
    scores = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(1))
    minus_infinity, before, after = (
        compute_masked_weights(scores, method) for method in MASK_METHODS
    )
    ones = torch.ones(3, 5)
    assert torch.allclose(minus_infinity.sum(-1), ones)
    assert torch.allclose(before.sum(-1), ones)
    assert (after.sum(-1)[:, :-1] < 1).all()
    assert (before[:, 0, 1:] > 0).all()
    for weights in (minus_infinity, after):
        assert weights.triu(1).count_nonzero() == 0
    assert torch.allclose(after / after.sum(-1, keepdim=True), minus_infinity, atol=1e-6)


def test_minus_infinity_matches_attend():
    query, key, value = torch.randn(3, 2, 5, 4).unbind()
    output = compute_masked_weights(scaled_dot(query, key), "−∞ before") @ value
    assert torch.allclose(output, attend(query, key, value, causal=True), atol=1e-6)
