import pytest
import torch
from torch import nn

from workings import Trace, UserError
from workings.layers import FeedForward


@pytest.mark.parametrize(("activation", "bend"), [("relu", nn.ReLU()), ("gelu", nn.GELU())])
def test_it_is_two_linears_with_a_bend_between(activation, bend, fill, waves):
    layer = fill(FeedForward(4, 6, activation=activation))
    reference = nn.Sequential(nn.Linear(4, 6), bend, nn.Linear(6, 4))
    reference.load_state_dict(
        {
            "0.weight": layer.inner.weight,
            "0.bias": layer.inner.bias,
            "2.weight": layer.outer.weight,
            "2.bias": layer.outer.bias,
        }
    )
    x, y = (waves(2, 3, 4, start=90).requires_grad_() for _ in range(2))
    out, expected = layer(x), reference(y)
    torch.testing.assert_close(out, expected)
    out.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    for ours, theirs in zip(layer.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_each_position_is_on_its_own(fill, waves):
    layer, x = fill(FeedForward(4, 6)), waves(2, 3, 4)
    assert layer(x).shape == (2, 3, 4)
    torch.testing.assert_close(layer(x)[1, 2], layer(x[1, 2]))


def test_snapshot(fill):
    # W_1 = sin 1…6, b_1 = sin 7…9, W_2 = sin 10…15, b_2 = sin 16, sin 17
    out = fill(FeedForward(2, 3))(torch.tensor([[1.0, 2.0], [-1.0, 0.5]]))
    expected = [[-2.092450, 0.432319], [-1.565412, 0.418263]]
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


def test_its_inside_can_be_read_and_replaced(fill, waves):
    layer, x = fill(FeedForward(4, 6)), waves(2, 3, 4)
    with Trace() as trace:
        layer(x)
    torch.testing.assert_close(trace["hidden"], layer.inner(x))
    torch.testing.assert_close(trace["activated"], layer.inner(x).relu())
    with Trace(replace={"activated": torch.zeros_like}):
        torch.testing.assert_close(layer(x), layer.outer.bias.expand(2, 3, 4))


def test_dropout_is_for_training_only(fill, waves):
    layer, x = fill(FeedForward(4, 6, dropout=1.0)), waves(2, 3, 4)
    torch.testing.assert_close(layer(x), layer.outer.bias.expand(2, 3, 4))
    torch.testing.assert_close(layer.eval()(x), fill(FeedForward(4, 6))(x))


def test_an_unknown_activation_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="activation 'rleu': did you mean 'relu'"):
        FeedForward(4, 6, activation="rleu")
    with pytest.raises(UserError, match="activation 'x': expected one of relu, gelu"):
        FeedForward(4, 6, activation="x")


def test_another_width_is_refused():
    with pytest.raises(UserError, match="expected vectors of width 4, got 5"):
        FeedForward(4, 6)(torch.zeros(2, 3, 5))
