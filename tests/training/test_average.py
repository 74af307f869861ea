"""Averaged weights: by hand, with what a batch norm has seen, and there and back."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from workings.recipes import TrainConfig
from workings.training.optimizers import WeightAverage, average_from_state


class Normed(nn.Module):
    """A layer, a batch norm, and a table that grows and is not kept."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
        self.register_buffer("table", torch.zeros(4), persistent=False)

    def step(self):
        self.norm(self.layer(torch.randn(8, 3) + 1)).square().sum().backward()
        with torch.no_grad():
            for p in self.parameters():
                p -= 0.01 * p.grad
                p.grad = None
        self.table = torch.zeros(len(self.table) + 1)


KEPT = ["layer.weight", "layer.bias", "norm.weight", "norm.bias"]
KEPT += ["norm.running_mean", "norm.running_var"]


@pytest.mark.parametrize("how", ["ema", "last"])
def test_what_a_batch_norm_has_seen_is_averaged_like_the_weights(how):
    torch.manual_seed(1)
    model = Normed()
    average = WeightAverage(model, TrainConfig(average=how, ema_decay=0.75, average_last=2))
    seen = [{name: model.state_dict()[name].clone() for name in KEPT}]
    for _ in range(3):
        model.step()
        average.after_step(model)
        average.after_epoch(model)
        seen.append({name: model.state_dict()[name].clone() for name in KEPT})
    parts = [0.75**3, 0.25 * 0.75**2, 0.25 * 0.75, 0.25] if how == "ema" else [0, 0, 0.5, 0.5]
    by_hand = {n: sum(p * s[n] for p, s in zip(parts, seen, strict=True)) for n in KEPT}
    assert_close(average.weights(), by_hand)
    assert_close(average_from_state(average.state_dict()), by_hand)

    other = WeightAverage(Normed(), TrainConfig(average=how, ema_decay=0.75, average_last=2))
    other.load_state_dict(average.state_dict(), model)
    assert_close(other.weights(), average.weights(), rtol=0, atol=0)
