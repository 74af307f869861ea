import pytest
import torch

from workings.experiments.base import isolated_rng
from workings.experiments.gradient import (
    LARGE_INPUT,
    RADII,
    build_rnn,
    measure,
    measure_through_time,
)


@pytest.fixture(scope="module")
def result():
    return measure()


def test_each_step_multiplies_the_gradient_by_the_spectral_radius(result):
    for radius, decay in zip(RADII, result.small_inputs, strict=True):
        assert decay.step_factor == pytest.approx(radius, rel=0.03)
    assert result.small_inputs[0].last < 1e-7 < 1e3 < result.small_inputs[-1].last
    assert result.large_inputs.step_factor < 0.95  # a saturated tanh has a smaller slope


def test_additive_updates_preserve_the_gradient(result):
    rnn, lstm, lstm_open, attention = result.through_time
    plain, he_init, residual = result.through_depth
    assert rnn.last < lstm.last < 1e-6 < 0.1 < lstm_open.last < 1
    assert plain.last < 1e-6
    assert 0.5 < residual.last < 5
    assert 0.1 < he_init.last < 5  # a residual connection does the same for any initialization
    assert all(0.5 < norm < 2 for norm in attention.norms)


def test_gradients_match_the_formula():
    """h_t = tanh(W_x x_t + W_h h_(t−1)): each step back multiplies by Wᵀ diag(1 − h²)."""
    with isolated_rng(3):
        layer = build_rnn(0.9)
        inputs = LARGE_INPUT * torch.randn(128, 61, 64)  # as measure_through_time samples them
        states, last, _ = layer(inputs)
        gradient = torch.randn_like(last)
    norms = []
    for state in reversed(states.unbind(1)):
        norms.append(gradient.norm(dim=-1).mean())
        gradient = (gradient * (1 - state**2)) @ layer.layer.weight_hh_l0
    with isolated_rng(3):
        decay = measure_through_time("", build_rnn(0.9), "hidden")
    expected = torch.stack(norms)[1:].detach()
    torch.testing.assert_close(torch.tensor(decay.norms), expected / expected[0], rtol=1e-3, atol=0)
