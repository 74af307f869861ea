"""The chunked cross-entropy and its gradients equal torch's."""

import pytest
import torch
import torch.nn.functional as F

from workings.layers import loss as loss_module
from workings.layers.loss import chunked_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 8, 30])
def test_loss_and_gradients_equal_torchs(monkeypatch, rows, has_bias, smoothing):
    monkeypatch.setattr(loss_module, "CHUNK_ROWS", 8)
    torch.manual_seed(rows)
    features = torch.randn(rows, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True) if has_bias else None
    targets = torch.randint(11, (rows,))
    leaves = [t for t in (features, weight, bias) if t is not None]
    ours = chunked_cross_entropy(features, weight, bias, targets, smoothing)
    theirs = F.cross_entropy(
        F.linear(features, weight, bias), targets, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(ours, theirs)
    gradients = torch.autograd.grad(3 * ours, leaves)
    for ours_grad, theirs_grad in zip(
        gradients, torch.autograd.grad(3 * theirs, leaves), strict=True
    ):
        torch.testing.assert_close(ours_grad, theirs_grad)


def test_large_logits_do_not_overflow():
    features, weight = torch.full((2, 1), 1e4), torch.tensor([[1.0], [-1.0]])
    assert chunked_cross_entropy(features, weight, None, torch.tensor([0, 1])).item() == 2e4


def test_no_gradients_are_computed_if_not_needed():
    features, weight = torch.randn(4, 3), torch.randn(5, 3)
    loss = chunked_cross_entropy(features, weight, None, torch.tensor([0, 1, 2, 3]))
    assert not loss.requires_grad
