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


def copied(ours: RecurrentStack, cell: str, width: int, hidden: int) -> nn.RNNBase:
    """torch's own stack with our weights."""
    layers, ways = len(ours.layers), len(ours.layers[0])
    theirs = CELLS[cell](width, hidden, layers, batch_first=True, bidirectional=ways == 2)
    for k, pair in enumerate(ours.layers):
        for way, direction in enumerate(pair):
            end = f"_l{k}" + ("_reverse" if way else "")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(theirs, name + end).data.copy_(getattr(direction.layer, f"{name}_l0"))
    return theirs


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_same_as_torchs_packed_layers(cell, bidirectional, layers):
    torch.manual_seed(0)
    ours = RecurrentStack(cell, 4, 6, layers=layers, bidirectional=bidirectional).double()
    theirs = copied(ours, cell, 4, 6).double()
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
@pytest.mark.parametrize("backwards", [False, True])
def test_in_the_open_as_in_the_dark(cell, backwards):
    torch.manual_seed(1)
    layer = RecurrentLayer(cell, 3, 4, reverse=backwards).double()
    x = torch.randn(3, 5, 3, dtype=torch.float64, requires_grad=True)
    dark, _, _ = layer(x, LENGTHS)
    with Trace(layer) as trace:
        light, _, _ = layer(x, LENGTHS)
    torch.testing.assert_close(light, dark)
    assert trace["hidden"].shape == (5, 3, 4)  # an entry a time step
    gradient = [torch.autograd.grad(out.square().sum(), x)[0] for out in (dark, light)]
    torch.testing.assert_close(*gradient)


def test_an_lstms_gates_can_be_seen_and_changed():
    layer = RecurrentLayer("lstm", 3, 4)
    x = torch.randn(2, 5, 3)
    with Trace(layer, only="cell") as trace:
        layer(x)
    assert trace["cell"].shape == (5, 2, 4)
    with Trace(layer, scale={"input": 0.0}) as trace:  # nothing is taken in: nothing is remembered
        states, _, _ = layer(x)
    assert not states.any()


def test_padding_is_never_read():
    layer = RecurrentStack("gru", 3, 4, bidirectional=True)
    x = torch.randn(3, 5, 3)
    changed = x.clone()
    changed[1, 3:] = 100.0
    for before, after in zip(layer(x, LENGTHS)[:2], layer(changed, LENGTHS)[:2], strict=True):
        torch.testing.assert_close(before[1, :1], after[1, :1])


def test_turned_twice_is_as_it_was():
    x = torch.randn(3, 5, 2)
    assert torch.equal(reverse_within_length(reverse_within_length(x, LENGTHS), LENGTHS), x)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("traced", [False, True])
def test_reading_on_is_reading_at_once(cell, traced):
    torch.manual_seed(0)
    layer = RecurrentStack(cell, 3, 4, layers=2).double()
    x = torch.randn(2, 7, 3, dtype=torch.double)
    whole, _, _ = layer(x)
    with Trace(layer) if traced else nullcontext():
        first, _, memories = layer(x[:, :3])
        second, _, _ = layer(x[:, 3:], hidden_states=memories)
    torch.testing.assert_close(torch.cat((first, second), 1), whole)


def test_turning_back_is_its_own_gradient():
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([5, 3, 0])
    assert torch.equal(reverse_within_length(reverse_within_length(x, lengths), lengths), x)
    assert torch.equal(reverse_within_length(x, lengths)[1, :, 0], x[1, [2, 1, 0, 3, 4], 0])
    assert torch.autograd.gradcheck(reverse_within_length, (x, lengths))
    assert torch.autograd.gradgradcheck(reverse_within_length, (x, lengths))


@pytest.mark.parametrize("time", [1, 5])
def test_an_rnn_is_torchs_in_result_and_gradient(time):
    torch.manual_seed(0)
    layer = RNN(3, 4, batch_first=True).double()
    x = torch.randn(2, time, 3, dtype=torch.float64, requires_grad=True)
    assert layer._can_use_fast_path(x, None)
    outcomes = []
    for read in (layer, super(RNN, layer).forward):
        states, last = read(x)
        loss = (states * torch.linspace(-1, 1, states.numel()).view_as(states)).sum() + last.sum()
        outcomes.append((states, last, *torch.autograd.grad(loss, (x, *layer.parameters()))))
    for one, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "options", [{"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"batch_first": False}]
)
def test_what_is_not_plain_is_left_to_torch(options):
    layer = RNN(3, 4, **{"batch_first": True, **options})
    x = torch.randn(2, 5, 3)
    assert not layer._can_use_fast_path(x, None)
    assert layer(x)[0].shape[:2] == (2, 5)
    plain = RNN(3, 4, batch_first=True)
    torch.testing.assert_close(plain(x, torch.zeros(1, 2, 4))[0], plain(x)[0])


def test_cells_that_remember_to_begin_with():
    """For one to so many steps, as many of them ten times as long; and input gates let less in."""
    torch.manual_seed(0)
    layer = RecurrentLayer("lstm", 3, 4000, chrono_init=100).layer
    take, keep = torch.sigmoid(layer.bias_ih_l0).chunk(4)[:2]
    steps = 1 / (1 - keep)  # of a geometric decay: 1 + e^bias
    assert 2 <= steps.min() < 2.1
    assert 95 < steps.max() <= 101
    assert 0.47 < (steps < 11).float().mean() < 0.53
    torch.testing.assert_close(take, 1 - keep)


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_only_an_lstm_has_cells_to_remember(cell):
    with pytest.raises(UserError, match="only for an lstm"):
        RecurrentLayer(cell, 3, 4, chrono_init=10)


@pytest.mark.parametrize("cell", CELLS)
def test_16_bits_are_read_by_any_cpu(cell):
    torch.manual_seed(5)
    layer, x = RecurrentLayer(cell, 4, 8), torch.randn(3, 7, 4)
    exact, _, _ = layer(x[:, :5])
    with torch.autocast("cpu", torch.bfloat16):
        begun, _, memory = layer(x[:, :2])
        went_on, _, _ = layer(x[:, 2:5].bfloat16(), hidden_state=memory)
    read = torch.cat([begun, went_on], 1).float()
    torch.testing.assert_close(read, exact, rtol=0, atol=0.03)
