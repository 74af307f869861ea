import math

import pytest
import torch
from torch import nn

from workings import Trace, UserError
from workings.layers import LayerNorm, SequenceBatchNorm

REAL = torch.tensor([[True, True, True, False], [True, True, False, False], [True] * 4])


def with_weights(norm: nn.Module, reference: nn.Module, fill) -> None:
    fill(norm)
    with torch.no_grad():
        reference.weight.copy_(norm.gamma)
        reference.bias.copy_(norm.beta)


# -- layer norm -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 3, 6)])
def test_layer_norm_is_torchs_forward_and_backward(shape, fill, waves):
    ours, theirs = LayerNorm(6), nn.LayerNorm(6)
    with_weights(ours, theirs, fill)
    x, y = (waves(*shape, start=50).requires_grad_() for _ in range(2))
    out, expected = ours(x), theirs(y)
    torch.testing.assert_close(out, expected)
    out.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.gamma.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.beta.grad, theirs.bias.grad)


def test_layer_norm_looked_at_is_layer_norm_unseen(fill, waves):
    norm = fill(LayerNorm(6))
    x, y = (waves(2, 3, 6, start=50).requires_grad_() for _ in range(2))
    with Trace() as trace:
        seen = norm(x)
    unseen = norm(y)
    torch.testing.assert_close(seen, unseen)
    seen.pow(3).sum().backward()
    unseen.pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert set(trace) == {"mean", "variance", "normalised"}
    torch.testing.assert_close(trace["mean"], x.mean(-1, keepdim=True))
    torch.testing.assert_close(trace["variance"], x.var(-1, correction=0, keepdim=True))


def test_a_trace_can_replace_the_normalised_vector(fill):
    norm = fill(LayerNorm(3))
    with Trace(only="nothing", replace={"normalised": torch.zeros_like}):
        torch.testing.assert_close(norm(torch.tensor([1.0, 2.0, 6.0])), norm.beta)


def test_layer_norm_of_the_notes_has_no_epsilon():
    x = [0.001, -0.002, 0.004, 0.0]  # so small that an epsilon would show
    mean = sum(x) / 4
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / 4)  # ÷ d, not ÷ (d − 1)
    expected = torch.tensor([(v - mean) / deviation for v in x])
    torch.testing.assert_close(LayerNorm(4, eps=0.0)(torch.tensor(x)), expected)
    assert not torch.allclose(LayerNorm(4)(torch.tensor(x)), expected, atol=0.1)


def test_a_constant_vector_becomes_beta(fill):
    norm = fill(LayerNorm(4))
    torch.testing.assert_close(norm(torch.full((2, 4), 3.0)), norm.beta.expand(2, 4))
    assert LayerNorm(4, eps=0.0)(torch.full((4,), 3.0)).isnan().all()  # 0/0, as the notes have it


def test_layer_norm_snapshot(fill):
    out = fill(LayerNorm(3))(torch.tensor([[1.0, 2.0, 6.0], [0.0, 3.0, -1.0]]))
    expected = [[-1.535852, -1.379847, -0.083438], [-1.086854, 0.289369, -0.417795]]
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm", [LayerNorm(4), SequenceBatchNorm(4)])
def test_another_width_is_refused_whether_seen_or_not(norm):
    with pytest.raises(UserError, match="expected vectors of width 4, got 1"):
        norm(torch.zeros(2, 3, 1))
    with Trace(), pytest.raises(UserError, match="expected vectors of width 4, got 1"):
        norm(torch.zeros(2, 3, 1))


# -- batch norm -----------------------------------------------------------------------------------


def test_batch_norm_is_torchs_on_the_real_positions(fill, waves):
    ours, theirs = SequenceBatchNorm(5), nn.BatchNorm1d(5)
    with_weights(ours, theirs, fill)
    for start in (40, 400):  # two batches, so that running means have a history
        x, y = (waves(3, 4, 5, start=start).requires_grad_() for _ in range(2))
        out, expected = ours(x, REAL), theirs(y[REAL])
        torch.testing.assert_close(out[REAL], expected)
        assert not out[~REAL].any()
        out.pow(3).sum().backward()
        expected.pow(3).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.gamma.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.beta.grad, theirs.bias.grad)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)

    ours.eval(), theirs.eval()
    x = waves(3, 4, 5, start=77)
    torch.testing.assert_close(ours(x, REAL)[REAL], theirs(x[REAL]))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)  # evaluating leaves them


def test_without_padding_every_position_counts(fill, waves):
    x = waves(3, 4, 5)
    everywhere = torch.ones(3, 4, dtype=torch.bool)
    whole, marked = fill(SequenceBatchNorm(5)), fill(SequenceBatchNorm(5))
    torch.testing.assert_close(whole(x), marked(x, everywhere))
    torch.testing.assert_close(whole.running_variance, marked.running_variance)


@pytest.mark.parametrize("padding", [0.0, 1e6, math.nan])
def test_what_stands_at_padding_changes_nothing(padding, waves):
    x, y = waves(3, 4, 5), waves(3, 4, 5)
    y[~REAL] = padding
    y.requires_grad_()
    clean, padded = SequenceBatchNorm(5), SequenceBatchNorm(5)
    out = padded(y, REAL)
    torch.testing.assert_close(out, clean(x, REAL))
    torch.testing.assert_close(padded.running_mean, clean.running_mean)
    torch.testing.assert_close(padded.running_variance, clean.running_variance)
    out.pow(3).sum().backward()
    assert y.grad.isfinite().all()
    assert not y.grad[~REAL].any()


def test_a_sentence_depends_on_its_neighbours_under_batch_norm_only(waves):
    sentence = waves(1, 4, 5)
    beside = [torch.cat((sentence, waves(1, 4, 5, start=s))) for s in (100, 333)]
    one, other = (SequenceBatchNorm(5)(batch)[0] for batch in beside)
    assert not torch.allclose(one, other, atol=1e-2)
    one, other = (LayerNorm(5)(batch)[0] for batch in beside)
    torch.testing.assert_close(one, other, atol=0, rtol=0)


@pytest.mark.parametrize("count", [0, 1])
def test_training_on_fewer_than_two_positions_is_refused(count, waves):
    norm, real = SequenceBatchNorm(5), torch.zeros(3, 4, dtype=torch.bool)
    real.view(-1)[:count] = True
    with pytest.raises(UserError, match=f"needs 2 tokens or more to train on, got {count}"):
        norm(waves(3, 4, 5), real)
    assert not norm.running_mean.any()
    out = norm.eval()(waves(3, 4, 5), real)
    torch.testing.assert_close(out[real], waves(3, 4, 5)[real], atol=1e-4, rtol=0)


def test_batch_norm_snapshot(fill):
    x = torch.tensor([[[1.0, 0.0], [2.0, 4.0]], [[6.0, 5.0], [9.0, 9.0]]])
    real = torch.tensor([[True, True], [True, False]])
    expected = [[[-0.637930, -2.019570], [-0.248405, -0.335880]], [[1.309695, 0.085042], [0, 0]]]
    out = fill(SequenceBatchNorm(2))(x, real)
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)
