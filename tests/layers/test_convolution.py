"""Convolution against loops and torch's, and masked pooling."""

import pytest
import torch

from workings.layers.convolution import Conv1d, Convolution, max_pool, mean_pool, padding_mask


def test_convolution_equals_a_loop_over_windows():
    torch.manual_seed(0)
    layer = Convolution(3, 2, 4, stride=2)
    x = torch.randn(2, 9, 3)
    weight, bias = layer.layer.weight, layer.layer.bias  # [out, in, kernel]
    for w, window in enumerate(x.unfold(1, 4, 2).unbind(1)):  # [batch, in, kernel]
        expected = torch.einsum("bik,oik->bo", window, weight) + bias
        torch.testing.assert_close(layer(x)[:, w], expected)


@pytest.mark.parametrize("padding", [0, 2, "valid"])
def test_conv1d_equals_torchs_with_gradients(padding):
    torch.manual_seed(0)
    ours = Conv1d(3, 2, 4, stride=2, padding=padding).double()
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    results = []
    for layer in (ours, super(Conv1d, ours).forward):
        output = layer(x.transpose(1, 2))
        inputs = (x, ours.weight, ours.bias)
        results.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_output_lengths_count_windows_without_padding():
    layer = Convolution(1, 1, 4, stride=3)
    lengths = torch.tensor([1, 4, 6, 7, 10])
    assert layer.output_lengths(lengths).tolist() == [1, 1, 1, 2, 3]
    assert layer(torch.zeros(1, 10, 1)).shape[1] == 3


def test_pooling_ignores_masked_positions():
    x = torch.tensor([[[1.0], [3.0], [100.0]], [[-5.0], [-7.0], [-9.0]]])
    mask = padding_mask(torch.tensor([2, 3]), 3)
    assert max_pool(x, mask).flatten().tolist() == [3.0, -5.0]
    assert mean_pool(x, mask).flatten().tolist() == [2.0, -7.0]
    assert max_pool(x).flatten().tolist() == [100.0, -5.0]
    torch.testing.assert_close(mean_pool(x), x.mean(1))


def test_max_pool_of_no_tokens_is_zero():
    x = torch.randn(2, 3, 4)
    mask = padding_mask(torch.tensor([0, 3]), 3)
    torch.testing.assert_close(max_pool(x, mask), torch.stack((torch.zeros(4), x[1].amax(0))))
