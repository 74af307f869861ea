"""Gradients are clipped as torch clips them, and left alone where they are short enough."""

import pytest
import torch
from torch import nn

from workings.training.optimizers import clip_gradients


@pytest.mark.parametrize("longest", [0.1, 4.9999999, 5.0, 5.0000001, 100.0, float("inf")])
def test_as_torch_does_it(longest):
    ours, theirs = nn.Linear(2, 1), nn.Linear(2, 1)
    for model in (ours, theirs):
        model.weight.grad = torch.tensor([[3.0, 4.0]])  # and the bias has none
    length = clip_gradients(ours, longest)
    assert length == nn.utils.clip_grad_norm_(theirs.parameters(), longest).item() == 5.0
    assert torch.equal(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_stays_to_be_named(bad):
    model = nn.Linear(2, 1)
    model.weight.grad, model.bias.grad = torch.tensor([[1.0, 2.0]]), torch.tensor([bad])
    assert not torch.isfinite(torch.tensor(clip_gradients(model, 1.0)))
    assert model.weight.grad.tolist() == [[1.0, 2.0]]
