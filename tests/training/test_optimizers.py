"""Muon, the learning rate schedule, gradient clipping and weight averaging."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.optim._muon import _zeropower_via_newtonschulz
from torch.testing import assert_close

from workings.models.language import build_language_model
from workings.recipes import TrainConfig
from workings.training import optimizers
from workings.training.optimizers import (
    NEWTON_SCHULZ_COEFFICIENTS,
    Muon,
    WeightAverage,
    average_from_state,
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    orthogonalize,
    state_names,
)

# -- Muon ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 24, 8), (2, 8, 24), (1, 1, 5)])
def test_orthogonalize_moves_singular_values_close_to_one(shape):
    values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_orthogonalize_keeps_the_directions():
    torch.manual_seed(0)
    matrix = torch.randn(6, 10)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalize(matrix.unsqueeze(0))[0]
    assert torch.nn.functional.cosine_similarity(found.flatten(), (u @ v).flatten(), 0) > 0.97


def test_orthogonalize_is_close_to_torch_in_bfloat16():
    matrix = torch.randn(16, 48)
    theirs = _zeropower_via_newtonschulz(matrix, NEWTON_SCHULZ_COEFFICIENTS, 5, 1e-7).float()
    assert_close(orthogonalize(matrix.unsqueeze(0))[0], theirs, atol=0.03, rtol=0.1)


@pytest.mark.parametrize("shape", [(2, 8, 24), (2, 40, 8), (1, 3, 3)])
def test_gram_matrices_give_the_same_result(shape, monkeypatch):
    torch.manual_seed(0)
    magnitudes = torch.logspace(0, -3, shape[-1], dtype=torch.float64)
    matrices = torch.randn(shape, dtype=torch.float64) * magnitudes
    expected, in_float32 = orthogonalize(matrices), orthogonalize(matrices.float()).double()
    assert_close(in_float32, expected, atol=1e-4, rtol=1e-4)
    other = 1 if shape[1] == shape[2] else math.inf
    monkeypatch.setattr(optimizers, "MIN_GRAM_ASPECT_RATIO", other)
    assert_close(orthogonalize(matrices), expected)


class SmallModel(nn.Module):
    """An embedding, two matrices of one shape and one of another, a bias, a head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)
        self.three = nn.Linear(6, 12, bias=False)
        self.head = nn.Linear(12, 7)

    def forward(self, ids):
        return self.head(self.three(torch.tanh(self.two(self.one(self.embedding(ids))))))


def make_steps(model, optimizer, count):
    ids = torch.arange(7)
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(ids), ids.roll(1)).backward()
        optimizer.step()


MUON = TrainConfig(optimizer="muon", learning_rate=0.01, betas=(0.9, 0.95), weight_decay=0.1)


def test_muon_orthogonalizes_updates_of_matrices_and_uses_adamw_for_the_rest():
    torch.manual_seed(0)
    model, reference = SmallModel(), SmallModel()
    reference.load_state_dict(model.state_dict())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, MUON)
    assert isinstance(optimizer, Muon)
    make_steps(model, optimizer, 1)
    make_steps(reference, torch.optim.AdamW(reference.parameters(), 0.01, (0.9, 0.95)), 1)
    for name, p in model.named_parameters():
        change = p.detach() - before[name]
        if name in ("one.weight", "two.weight", "three.weight"):
            update = change + 0.001 * before[name]  # without the weight decay
            values = torch.linalg.svdvals(update / (0.01 * 0.2 * max(p.shape) ** 0.5))
            assert values.min() > 0.5
            assert values.max() < 1.3
        elif "weight" not in name:  # the weight decay of AdamW differs
            theirs = reference.get_parameter(name).detach() - before[name]
            assert_close(change, theirs, atol=1e-4, rtol=0.02)


def test_muon_learns_and_resumes_from_its_state():
    torch.manual_seed(0)
    model = SmallModel()
    optimizer = build_optimizer(model, MUON)
    make_steps(model, optimizer, 20)
    other = SmallModel()
    other.load_state_dict(model.state_dict())
    resumed = build_optimizer(other, MUON)
    resumed.load_state_dict(deepcopy(optimizer.state_dict()))
    make_steps(model, optimizer, 40)
    make_steps(other, resumed, 40)
    for name, p in model.named_parameters():
        assert torch.equal(p, other.get_parameter(name)), name
    assert (model(torch.arange(7)).argmax(-1) == torch.arange(7).roll(1)).all()


# -- groups, state and schedule --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_learned_positions_are_treated_as_embeddings(kind):
    table = {"kind": "transformer", "d_model": 8, "heads": 2, "layers": 1, "tie_embeddings": False}
    model = build_language_model({**table, "positions": "learned", "max_positions": 5}, 7)
    optimizer = build_optimizer(model, TrainConfig(optimizer=kind, weight_decay=0.1))
    *_, others = optimizer.param_groups
    assert others["weight_decay"] == 0
    names = {p: name for name, p in model.named_parameters()}
    found = {names[p] for p in others["params"] if p.dim() > 1}
    assert found == {"embedding.weight", "positions.table"}


@pytest.mark.parametrize("kind", ["muon", "adamw", "adam", "sgd"])
def test_state_names_are_those_that_the_optimizer_writes(kind):
    model = SmallModel()
    optimizer = build_optimizer(model, TrainConfig(optimizer=kind))
    make_steps(model, optimizer, 1)
    state = optimizer.state_dict()["state"]
    assert [frozenset(state[k]) for k in range(len(state))] == state_names(optimizer)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.55, 0.1]),
        ("cosine", [0.5, 1.0, 1.0, 0.55, 0.1]),
        ("inverse-sqrt", [0.5, 1.0, (2 / 3) ** 0.5, (2 / 7) ** 0.5, (2 / 11) ** 0.5]),
    ],
)
def test_learning_rate_schedules(schedule, expected):
    config = TrainConfig(learning_rate=1.0, schedule=schedule, warmup=0.2, min_lr_ratio=0.1)
    rates = [learning_rate_at(step, 10, config) for step in (0, 1, 2, 6, 10)]
    assert rates == pytest.approx(expected)


# -- clipping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_norm", [0.1, 4.9999999, 5.0, 5.0000001, 100.0, float("inf")])
def test_gradients_are_clipped_as_torch_does(max_norm):
    ours, theirs = nn.Linear(2, 1), nn.Linear(2, 1)
    for model in (ours, theirs):
        model.weight.grad = torch.tensor([[3.0, 4.0]])  # the bias has no gradient
    norm = clip_gradients(ours, max_norm)
    assert norm == nn.utils.clip_grad_norm_(theirs.parameters(), max_norm).item() == 5.0
    assert torch.equal(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_are_left_unclipped(bad):
    model = nn.Linear(2, 1)
    model.weight.grad, model.bias.grad = torch.tensor([[1.0, 2.0]]), torch.tensor([bad])
    assert not math.isfinite(clip_gradients(model, 1.0))
    assert model.weight.grad.tolist() == [[1.0, 2.0]]


# -- averaging -------------------------------------------------------------------------------------


class NormalizedModel(nn.Module):
    """A layer, a batch norm, and a buffer that grows and is not saved."""

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


@pytest.mark.parametrize("method", ["ema", "last"])
def test_weights_and_batch_norm_statistics_are_averaged(method):
    names = ["layer.weight", "layer.bias", "norm.weight", "norm.bias"]
    names += ["norm.running_mean", "norm.running_var"]
    torch.manual_seed(1)
    model, config = NormalizedModel(), TrainConfig(average=method, ema_decay=0.75, average_last=2)
    average = WeightAverage(model, config)
    history = [{name: model.state_dict()[name].clone() for name in names}]
    for _ in range(3):
        model.step()
        average.after_step(model)
        average.after_epoch(model)
        history.append({name: model.state_dict()[name].clone() for name in names})
    shares = [0.75**3, 0.25 * 0.75**2, 0.25 * 0.75, 0.25] if method == "ema" else [0, 0, 0.5, 0.5]
    expected = {n: sum(p * w[n] for p, w in zip(shares, history, strict=True)) for n in names}
    assert_close(average.weights(), expected)
    assert_close(average_from_state(average.state_dict()), expected)

    other = WeightAverage(NormalizedModel(), config)
    other.load_state_dict(average.state_dict(), model)
    assert_close(other.weights(), average.weights(), rtol=0, atol=0)
