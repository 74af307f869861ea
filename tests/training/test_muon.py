"""Muon: its steps are orthogonal, as long as AdamW's, and its state can be saved."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.optim._muon import _zeropower_via_newtonschulz

from workings.models.language import build_language_model
from workings.recipes import TrainConfig
from workings.training import optimizers
from workings.training.optimizers import (
    NEWTON_SCHULZ_COEFFICIENTS,
    Muon,
    build_optimizer,
    orthogonalize,
)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 24, 8), (2, 8, 24), (1, 1, 5)])
def test_singular_values_come_near_to_one(shape):
    values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_the_directions_stay():
    torch.manual_seed(0)
    matrix = torch.randn(6, 10)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    nearest = u @ v
    found = orthogonalize(matrix.unsqueeze(0))[0]
    assert torch.nn.functional.cosine_similarity(found.flatten(), nearest.flatten(), 0) > 0.97


def test_as_torch_does_it_in_half_the_precision():
    matrix = torch.randn(16, 48)
    theirs = _zeropower_via_newtonschulz(matrix, NEWTON_SCHULZ_COEFFICIENTS, 5, 1e-7).float()
    torch.testing.assert_close(orthogonalize(matrix.unsqueeze(0))[0], theirs, atol=0.03, rtol=0.1)


@pytest.mark.parametrize("shape", [(2, 8, 24), (2, 40, 8), (1, 3, 3)])
def test_long_matrices_come_to_the_same_by_their_rows_products(shape, monkeypatch):
    torch.manual_seed(0)
    sizes = torch.logspace(0, -3, shape[-1], dtype=torch.float64)  # of all magnitudes
    matrices = torch.randn(shape, dtype=torch.float64) * sizes
    found, in_32_bits = orthogonalize(matrices), orthogonalize(matrices.float()).double()
    torch.testing.assert_close(in_32_bits, found, atol=1e-4, rtol=1e-4)
    monkeypatch.setattr(
        optimizers, "MIN_GRAM_ASPECT_RATIO", 1 if shape[1] == shape[2] else math.inf
    )  # the other way
    torch.testing.assert_close(orthogonalize(matrices), found)


class Small(nn.Module):
    """An embedding, two matrices of one shape and one of another, a bias, a head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)
        self.three = nn.Linear(6, 12, bias=False)
        self.head = nn.Linear(12, 7)

    def forward(self, ids):
        return self.head(self.three(torch.tanh(self.two(self.one(self.embedding(ids))))))


def steps(model, made, count):
    ids = torch.arange(7)
    for _ in range(count):
        made.zero_grad()
        torch.nn.functional.cross_entropy(model(ids), ids.roll(1)).backward()
        made.step()


def config(**changes):
    return TrainConfig(
        optimizer="muon", learning_rate=0.01, betas=(0.9, 0.95), weight_decay=0.1, **changes
    )


def test_matrices_turn_and_the_rest_goes_by_adamw():
    torch.manual_seed(0)
    model, reference = Small(), Small()
    reference.load_state_dict(model.state_dict())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    made = build_optimizer(model, config())
    assert isinstance(made, Muon)
    steps(model, made, 1)
    steps(reference, torch.optim.AdamW(reference.parameters(), 0.01, (0.9, 0.95)), 1)
    for name, p in model.named_parameters():
        change = p.detach() - before[name]
        if name in ("one.weight", "two.weight", "three.weight"):
            pushed = change + 0.001 * before[name]  # without the decay
            length = 0.01 * 0.2 * max(p.shape) ** 0.5
            values = torch.linalg.svdvals(pushed / length)
            assert values.min() > 0.5
            assert values.max() < 1.3
        elif name != "head.weight":  # which decays
            theirs = reference.get_parameter(name).detach() - before[name]
            if "weight" in name:
                continue  # AdamW's default decay
            torch.testing.assert_close(change, theirs, atol=1e-4, rtol=0.02)


def test_it_learns_and_goes_on_from_its_state():
    torch.manual_seed(0)
    model = Small()
    made = build_optimizer(model, config())
    steps(model, made, 20)
    other = Small()
    other.load_state_dict(model.state_dict())
    again = build_optimizer(other, config())
    again.load_state_dict(deepcopy(made.state_dict()))
    for some in ((model, made), (other, again)):
        steps(*some, 40)
    for name, p in model.named_parameters():
        assert torch.equal(p, other.get_parameter(name)), name
    assert (model(torch.arange(7)).argmax(-1) == torch.arange(7).roll(1)).all()


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_learned_positions_are_embeddings(kind):
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1, "tie_embeddings": False}
    model = build_language_model({**table, "positions": "learned", "max_positions": 5}, 7)
    made = build_optimizer(model, TrainConfig(optimizer=kind, weight_decay=0.1))
    *_, others = made.param_groups
    assert others["weight_decay"] == 0
    names = {p: name for name, p in model.named_parameters()}
    found = {names[p] for p in others["params"] if p.dim() > 1}
    assert found == {"embedding.weight", "positions.table"}
