"""Recurrent layers against torch's: padding, directions, states, traces and gradients."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from workings.errors import UserError
from workings.layers.recurrent import (
    CELLS,
    RNN,
    RecurrentLayer,
    RecurrentStack,
    reverse_within_length,
)
from workings.trace import Trace

LENGTHS = torch.tensor([5, 3, 1])


def torch_stack(ours: RecurrentStack, cell: str, width: int, hidden: int) -> nn.RNNBase:
    """Return torch's stack with our weights."""
    layers, directions = len(ours.layers), len(ours.layers[0])
    theirs = CELLS[cell](width, hidden, layers, batch_first=True, bidirectional=directions == 2)
    for k, layer in enumerate(ours.layers):
        for reverse, direction in enumerate(layer):
            suffix = f"_l{k}" + ("_reverse" if reverse else "")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(theirs, name + suffix).data.copy_(getattr(direction.layer, f"{name}_l0"))
    return theirs


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_stack_equals_torchs_on_packed_sequences(cell, bidirectional, layers):
    torch.manual_seed(0)
    ours = RecurrentStack(cell, 4, 6, layers=layers, bidirectional=bidirectional).double()
    theirs = torch_stack(ours, cell, 4, 6).double()
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    packed = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True)
    expected, last = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    states, final, _ = ours(x, LENGTHS)
    mask = (torch.arange(5) < LENGTHS.unsqueeze(1)).unsqueeze(-1)
    torch.testing.assert_close(states * mask, expected)
    hidden = last[0] if cell == "lstm" else last
    torch.testing.assert_close(final, hidden[-final.shape[1] :].transpose(0, 1))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_traced_layer_equals_an_untraced_one(cell, reverse):
    torch.manual_seed(1)
    layer = RecurrentLayer(cell, 3, 4, reverse=reverse).double()
    x = torch.randn(3, 5, 3, dtype=torch.float64, requires_grad=True)
    untraced, _, _ = layer(x, LENGTHS)
    with Trace(layer) as trace:
        with_trace, _, _ = layer(x, LENGTHS)
    torch.testing.assert_close(with_trace, untraced)
    assert trace["hidden"].shape == (5, 3, 4)  # one entry per time step
    gradient = [torch.autograd.grad(out.square().sum(), x)[0] for out in (untraced, with_trace)]
    torch.testing.assert_close(*gradient)


def test_the_gates_of_an_lstm_can_be_traced_and_changed():
    layer = RecurrentLayer("lstm", 3, 4)
    x = torch.randn(2, 5, 3)
    with Trace(layer, only="cell") as trace:
        layer(x)
    assert trace["cell"].shape == (5, 2, 4)
    with Trace(layer, scale={"input": 0.0}) as trace:  # a closed input gate
        states, _, _ = layer(x)
    assert not states.any()


def test_padding_changes_nothing():
    layer = RecurrentStack("gru", 3, 4, bidirectional=True)
    x = torch.randn(3, 5, 3)
    changed = x.clone()
    changed[1, 3:] = 100.0
    for before, after in zip(layer(x, LENGTHS)[:2], layer(changed, LENGTHS)[:2], strict=True):
        torch.testing.assert_close(before[1, :1], after[1, :1])


def test_reversing_twice_is_the_identity():
    x = torch.randn(3, 5, 2)
    assert torch.equal(reverse_within_length(reverse_within_length(x, LENGTHS), LENGTHS), x)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("with_trace", [False, True])
def test_continuing_from_a_state_equals_one_pass(cell, with_trace):
    torch.manual_seed(0)
    layer = RecurrentStack(cell, 3, 4, layers=2).double()
    x = torch.randn(2, 7, 3, dtype=torch.double)
    expected, _, _ = layer(x)
    with Trace(layer) if with_trace else nullcontext():
        first, _, hidden_states = layer(x[:, :3])
        second, _, _ = layer(x[:, 3:], hidden_states=hidden_states)
    torch.testing.assert_close(torch.cat((first, second), 1), expected)


def test_reversing_is_its_own_gradient():
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([5, 3, 0])
    assert torch.equal(reverse_within_length(reverse_within_length(x, lengths), lengths), x)
    assert torch.equal(reverse_within_length(x, lengths)[1, :, 0], x[1, [2, 1, 0, 3, 4], 0])
    assert torch.autograd.gradcheck(reverse_within_length, (x, lengths))
    assert torch.autograd.gradgradcheck(reverse_within_length, (x, lengths))


@pytest.mark.parametrize("time", [1, 5])
def test_rnn_equals_torchs_with_gradients(time):
    torch.manual_seed(0)
    layer = RNN(3, 4, batch_first=True).double()
    x = torch.randn(2, time, 3, dtype=torch.float64, requires_grad=True)
    assert layer._can_use_fast_path(x, None)
    results = []
    for forward in (layer, super(RNN, layer).forward):
        states, last = forward(x)
        loss = (states * torch.linspace(-1, 1, states.numel()).view_as(states)).sum() + last.sum()
        results.append((states, last, *torch.autograd.grad(loss, (x, *layer.parameters()))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "options", [{"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"batch_first": False}]
)
def test_other_options_use_torchs_forward(options):
    layer = RNN(3, 4, **{"batch_first": True, **options})
    x = torch.randn(2, 5, 3)
    assert not layer._can_use_fast_path(x, None)
    assert layer(x)[0].shape[:2] == (2, 5)
    plain = RNN(3, 4, batch_first=True)
    torch.testing.assert_close(plain(x, torch.zeros(1, 2, 4))[0], plain(x)[0])


def test_chrono_init_spreads_memory_lengths_on_a_log_scale():
    """Half of the memory lengths are below 10 steps of 100; input gates are the complement."""
    torch.manual_seed(0)
    layer = RecurrentLayer("lstm", 3, 4000, chrono_init=100).layer
    input_gate, forget_gate = torch.sigmoid(layer.bias_ih_l0).chunk(4)[:2]
    steps = 1 / (1 - forget_gate)  # of a geometric decay: 1 + e^bias
    assert 2 <= steps.min() < 2.1
    assert 95 < steps.max() <= 101
    assert 0.47 < (steps < 11).float().mean() < 0.53
    torch.testing.assert_close(input_gate, 1 - forget_gate)


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_chrono_init_is_only_for_an_lstm(cell):
    with pytest.raises(UserError, match="only for an lstm"):
        RecurrentLayer(cell, 3, 4, chrono_init=10)


@pytest.mark.parametrize("cell", CELLS)
def test_autocast_to_16_bits_works_on_any_cpu(cell):
    torch.manual_seed(5)
    layer, x = RecurrentLayer(cell, 4, 8), torch.randn(3, 7, 4)
    exact, _, _ = layer(x[:, :5])
    with torch.autocast("cpu", torch.bfloat16):
        first, _, state = layer(x[:, :2])
        second, _, _ = layer(x[:, 2:5].bfloat16(), hidden_state=state)
    states = torch.cat([first, second], 1).float()
    torch.testing.assert_close(states, exact, rtol=0, atol=0.03)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_recurrent_dropout_has_one_mask_for_all_time_steps(cell):
    layer = RecurrentLayer(cell, 4, 8, recurrent_dropout=0.5)
    x = torch.randn(2, 5, 4)
    first, second = (layer(x)[0] for _ in range(2))
    torch.testing.assert_close(first[:, 0], second[:, 0])  # before any hidden state is read
    assert not torch.allclose(first[:, 1:], second[:, 1:])
    weight = layer.layer.weight_hh_l0
    (gradient,) = torch.autograd.grad(first.sum(), weight)
    assert 0.2 < float((gradient == 0).float().mean()) < 0.8
    torch.testing.assert_close(layer.eval()(x)[0], layer(x)[0])
