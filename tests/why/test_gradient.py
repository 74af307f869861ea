import pytest
import torch

from workings.why.gradient import LOUD, RADII, measure, through_time, with_radius
from workings.why.learning import seeded


@pytest.fixture(scope="module")
def found():
    return measure()


def test_the_spectral_radius_is_what_a_step_multiplies_by(found):
    for radius, flow in zip(RADII, found.quiet, strict=True):
        assert flow.factor == pytest.approx(radius, rel=0.03)
    assert found.quiet[0].last < 1e-7 < 1e3 < found.quiet[-1].last
    assert found.loud.factor < 0.95  # a bent tanh makes it smaller


def test_what_is_added_to_keeps_its_gradient(found):
    rnn, lstm, gates_open, attention = found.time
    plain, matched, residual = found.depth
    assert rnn.last < lstm.last < 1e-6 < 0.1 < gates_open.last < 1
    assert plain.last < 1e-6
    assert 0.5 < residual.last < 5
    assert 0.1 < matched.last < 5  # what a path gives for any weights, some have by their size
    assert all(0.5 < norm < 2 for norm in attention.norms)


def test_gradients_are_those_of_the_formula():
    """h_t = tanh(W_x x_t + W_h h_(t−1)): each step back is Wᵀ diag(1 − h²)."""
    with seeded(3):
        layer = with_radius(0.9)
        inputs = LOUD * torch.randn(128, 61, 64)  # as through_time draws them
        h_s, last, _ = layer(inputs)
        gradient = torch.randn_like(last)
    norms = []
    for state in reversed(h_s.unbind(1)):
        norms.append(gradient.norm(dim=-1).mean())
        gradient = (gradient * (1 - state**2)) @ layer.layer.weight_hh_l0
    with seeded(3):
        flow = through_time("", with_radius(0.9), "hidden")
    expected = torch.stack(norms)[1:].detach()
    torch.testing.assert_close(torch.tensor(flow.norms), expected / expected[0], rtol=1e-3, atol=0)
