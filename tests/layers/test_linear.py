"""Products of oneDNN in training equal torch's."""

import pytest
import torch
from torch.nn import functional as F

from workings.layers import linear
from workings.layers.linear import Linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(192,), (3, 64), (1, 2, 96)])
def test_large_layers_have_the_outputs_and_gradients_of_torch(shape, bias, monkeypatch):
    torch.manual_seed(0)
    layer = Linear(128, 96, bias=bias)
    x = torch.randn(*shape, 128, requires_grad=True)
    expected = F.linear(x, layer.weight, layer.bias)
    weights = torch.randn_like(expected)
    leaves = [x, *layer.parameters()]
    gradients = torch.autograd.grad((expected * weights).sum(), leaves)
    calls = []
    multiply = linear.multiply
    monkeypatch.setattr(linear, "multiply", lambda *a: calls.append(1) or multiply(*a))
    output = layer(x)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
    for own, other in zip(
        torch.autograd.grad((output * weights).sum(), leaves), gradients, strict=True
    ):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-3)
    assert len(calls) == 3 * linear._HAS_ONEDNN
    assert torch.equal(layer.eval()(x), expected)  # with all derivatives
    part = x[..., :1, :]  # too small
    assert torch.equal(layer.train()(part), F.linear(part, *layer.parameters()))
    assert len(calls) == 3 * linear._HAS_ONEDNN
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(x), expected, rtol=1e-4, atol=1e-4)
    assert len(calls) == 3 * linear._HAS_ONEDNN + 1
