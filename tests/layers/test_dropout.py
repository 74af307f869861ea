"""Dropout: the right share, independent, repeatable, and torch's rules otherwise."""

import pytest
import torch

from workings.layers.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_the_share_and_the_size_of_the_rest(share):
    torch.manual_seed(1)
    x = torch.randn(300, 400, requires_grad=True)
    y = Dropout(share)(x)
    kept = y != 0
    assert abs(kept.float().mean() - (1 - share)) < 4 * (share * (1 - share) / x.numel()) ** 0.5
    torch.testing.assert_close(y[kept], x[kept] / (1 - share), rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept / (1 - share), rtol=1e-4, atol=0)
    for axis in (0, 1):  # no row or column is treated otherwise
        shares = kept.float().mean(axis)
        assert shares.std() < 1.3 * (share * (1 - share) / kept.shape[axis]) ** 0.5
    neighbours = torch.corrcoef(
        torch.stack((kept[:, :-1].flatten(), kept[:, 1:].flatten())).float()
    )
    assert abs(neighbours[0, 1]) < 0.02


def test_every_call_throws_anew_and_a_seed_settles_all():
    layer, x = Dropout(0.5), torch.ones(50)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer(x), second)


def test_what_torch_does_otherwise():
    x = torch.randn(7)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7))
    assert Dropout(0.5)(torch.ones(0, 3)).shape == (0, 3)
    assert Dropout(0.5)(torch.ones(3, 2).t()).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_16_bits_are_made_up_for_by_a_factor_of_32(dtype):
    torch.manual_seed(2)
    x = torch.linspace(1, 2, 1000).to(dtype)
    y = Dropout(0.3)(x)
    assert y.dtype == dtype
    kept = y != 0
    assert (y[kept] == (x[kept].float() / 0.7).to(dtype)).float().mean() > 0.98
