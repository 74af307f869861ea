import pytest
import torch

from workings.experiments.gradient import (
    LARGE_INPUT,
    RADII,
    build_rnn,
    measure,
    measure_through_time,
)
from workings.experiments.toy_training import isolated_rng


@pytest.fixture(scope="module")
def found():
    return measure()


def test_the_spectral_radius_is_what_a_step_multiplies_by(found):
    for radius, flow in zip(RADII, found.small_inputs, strict=True):
        assert flow.step_factor == pytest.approx(radius, rel=0.03)
    assert found.small_inputs[0].last < 1e-7 < 1e3 < found.small_inputs[-1].last
    assert found.large_inputs.step_factor < 0.95  # a bent tanh makes it smaller


def test_what_is_added_to_keeps_its_gradient(found):
    rnn, lstm, gates_open, attention = found.through_time
    plain, matched, residual = found.through_depth
    assert rnn.last < lstm.last < 1e-6 < 0.1 < gates_open.last < 1
    assert plain.last < 1e-6
    assert 0.5 < residual.last < 5
    assert 0.1 < matched.last < 5  # what a path gives for any weights, some have by their size
    assert all(0.5 < norm < 2 for norm in attention.norms)


def test_gradients_are_those_of_the_formula():
    """h_t = tanh(W_x x_t + W_h h_(t−1)): each step back is Wᵀ diag(1 − h²)."""
    with isolated_rng(3):
        layer = build_rnn(0.9)
        inputs = LARGE_INPUT * torch.randn(128, 61, 64)  # as through_time draws them
        h_s, last, _ = layer(inputs)
        gradient = torch.randn_like(last)
    norms = []
    for state in reversed(h_s.unbind(1)):
        norms.append(gradient.norm(dim=-1).mean())
        gradient = (gradient * (1 - state**2)) @ layer.layer.weight_hh_l0
    with isolated_rng(3):
        flow = measure_through_time("", build_rnn(0.9), "hidden")
    expected = torch.stack(norms)[1:].detach()
    torch.testing.assert_close(torch.tensor(flow.norms), expected / expected[0], rtol=1e-3, atol=0)
