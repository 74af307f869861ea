"""Helpers for modules: building, the meta device, evaluation mode, hooks and tied weights."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from workings.errors import UserError
from workings.models.language import build_language_model
from workings.modules import (
    build_model,
    device_of,
    eval_mode,
    has_hooks,
    load_unique_state_dict,
    meta_device,
    skip_random_init,
    tied_names,
    unique_state_dict,
)

MODEL_TABLE = {"d_model": 32, "layers": 2, "heads": 4, "positions": "learned"}


class Tied(nn.Module):
    """An embedding that a head and a second embedding share."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5)
        self.head.weight = self.embedding.weight
        self.source = self.embedding


def test_build_model_reports_what_torch_cannot_build() -> None:
    assert isinstance(build_model(nn.Linear, in_features=2, out_features=3), nn.Linear)

    def out_of_memory() -> nn.Module:
        raise MemoryError

    with pytest.raises(UserError, match="cannot be built with these settings: out of memory"):
        build_model(out_of_memory)


def test_eval_mode_restores_the_mode_of_every_module() -> None:
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3))
    model[1].eval()  # a frozen layer of a model in training
    with eval_mode(model) as evaluated:
        assert evaluated is model
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False]
    with pytest.raises(ArithmeticError), eval_mode(model):
        raise ArithmeticError
    assert model.training


def test_device_and_hooks() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    assert device_of(model.to("meta")) == torch.device("meta")
    assert not has_hooks(model)
    model[0].register_forward_hook(lambda *_: None)
    assert has_hooks(model)


def test_tied_weights_are_in_the_state_once_and_loaded_everywhere() -> None:
    model, other = Tied(), Tied()
    assert tied_names(model) == {
        "head.weight": "embedding.weight",
        "source.weight": "embedding.weight",
    }
    state = unique_state_dict(model)
    assert list(state) == ["embedding.weight", "head.bias"]
    load_unique_state_dict(other, state)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )
    assert other.head.weight is other.embedding.weight
    load_unique_state_dict(other, model.state_dict())  # with all names
    with pytest.raises(RuntimeError, match=r"Missing key.*head\.bias"):
        load_unique_state_dict(other, {"embedding.weight": state["embedding.weight"]})
    with pytest.raises(RuntimeError, match=r"Missing key.*embedding\.weight"):
        load_unique_state_dict(other, {"head.bias": state["head.bias"]})


def test_assigned_weights_stay_tied_and_are_not_copied() -> None:
    model = Tied()
    model.register_buffer("count", torch.zeros(1))
    state = unique_state_dict(Tied()) | {"count": torch.ones(1)}
    load_unique_state_dict(model, state, assign=True)
    assert model.embedding.weight.data_ptr() == state["embedding.weight"].data_ptr()
    assert model.head.weight is model.embedding.weight
    assert model.source is model.embedding
    assert [name for name, _ in model.named_buffers()] == ["count"]
    assert model.count == 1
    load_unique_state_dict(model, {k: t.half() for k, t in state.items()}, assign=True)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_skipped_initialization_draws_no_weights() -> None:
    torch.manual_seed(0)
    expected = torch.zeros(3).normal_()
    torch.manual_seed(0)
    with skip_random_init():
        nn.Linear(3, 3), nn.Embedding(3, 3), nn.LSTM(3, 3), nn.Conv1d(3, 3, 2)
        buffer = torch.zeros(3).normal_()  # only parameters are left alone
    assert torch.equal(buffer, expected)


def test_skipped_initialization_computes_buffers() -> None:
    table = {"d_model": 32, "layers": 1, "heads": 4, "positions": "rotary"}
    with skip_random_init():
        buffers = dict(build_language_model(table, 60).named_buffers())
    expected = dict(build_language_model(table, 60).named_buffers())
    assert buffers
    assert all(torch.equal(buffers[name], tensor) for name, tensor in expected.items())


def test_meta_device_gives_shapes_without_values() -> None:
    with meta_device():
        model = build_language_model(MODEL_TABLE, 60)
    assert all(weight.is_meta for weight in model.state_dict().values())
    expected = build_language_model(MODEL_TABLE, 60).state_dict()
    assert {n: w.shape for n, w in model.state_dict().items()} == {
        n: w.shape for n, w in expected.items()
    }


def test_meta_device_does_not_import_sympy() -> None:
    code = f"""
import sys
from workings.layers.positions import RotaryPositions, SinusoidalPositions
from workings.models.language import build_language_model
from workings.modules import meta_device
with meta_device():
    build_language_model({MODEL_TABLE}, 60)
    assert [t.shape for t in RotaryPositions(4).buffers()] == [(256, 4)] * 2
    assert [t.shape for t in SinusoidalPositions(4).buffers()] == [(256, 4)]
print("sympy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
