"""Dropout: the rate, independence, seeding, and torch's behavior in other cases."""

import pytest
import torch

from workings.layers.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_rate_and_the_scale_of_the_rest(rate):
    torch.manual_seed(1)
    x = torch.randn(300, 400, requires_grad=True)
    y = Dropout(rate)(x)
    kept = y != 0
    assert abs(kept.float().mean() - (1 - rate)) < 4 * (rate * (1 - rate) / x.numel()) ** 0.5
    torch.testing.assert_close(y[kept], x[kept] / (1 - rate), rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept / (1 - rate), rtol=1e-4, atol=0)
    for axis in (0, 1):  # all rows and columns have the same rate
        rates = kept.float().mean(axis)
        assert rates.std() < 1.3 * (rate * (1 - rate) / kept.shape[axis]) ** 0.5
    correlation = torch.corrcoef(
        torch.stack((kept[:, :-1].flatten(), kept[:, 1:].flatten())).float()
    )
    assert abs(correlation[0, 1]) < 0.02


def test_every_call_draws_a_new_mask_that_the_seed_determines():
    layer, x = Dropout(0.5), torch.ones(50)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer(x), second)


def test_edge_cases_equal_torchs():
    x = torch.randn(7)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7))
    assert Dropout(0.5)(torch.ones(0, 3)).shape == (0, 3)
    assert Dropout(0.5)(torch.ones(3, 2).t()).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_numbers_are_scaled_in_32_bits(dtype):
    torch.manual_seed(2)
    x = torch.linspace(1, 2, 1000).to(dtype)
    y = Dropout(0.3)(x)
    assert y.dtype == dtype
    kept = y != 0
    assert (y[kept] == (x[kept].float() / 0.7).to(dtype)).float().mean() > 0.98
