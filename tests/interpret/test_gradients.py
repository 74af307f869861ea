"""Gradient norms: compared with powers of W, and with autograd by brute force."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from workings.config import build
from workings.errors import UserError
from workings.interpret.gradients import (
    compute_gradient_norms,
    compute_spectral_radii,
    sample_windows,
)
from workings.interpret.results import GradientReport
from workings.models.language import build_language_model
from workings.recipes import LanguageRecipe
from workings.trace import Trace

VOCAB_SIZE = 11


def build_model(**table):
    torch.manual_seed(0)
    return build_language_model(build(LanguageRecipe, {"model": table}).model, VOCAB_SIZE)


def build_recurrent(cell, **table):
    return build_model(kind="recurrent", cell=cell, d_model=4, hidden_size=5, **table)


def sample_ids(sequences=3, time=13):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCAB_SIZE, (sequences, time), generator=generator)


def test_gradients_of_a_linear_rnn_scale_with_the_powers_of_w():
    model = build_recurrent("rnn").double()
    layer = model.recurrent.layers[0][0].layer
    with torch.no_grad():  # without inputs h stays 0, where a tanh is linear
        for weights in (layer.weight_ih_l0, layer.bias_ih_l0, layer.bias_hh_l0):
            weights.zero_()
    ids = sample_ids()
    (result,) = compute_gradient_norms(model, ids, max_lag=6)
    w = layer.weight_hh_l0.detach()
    probabilities = torch.softmax(model.head.bias.detach(), 0)
    expected = []
    for k in range(7):
        norms = []
        for t in torch.linspace(6, 11, 6).long().tolist():
            of_logits = probabilities - F.one_hot(ids[:, t + 1], VOCAB_SIZE).double()
            of_state = of_logits @ model.head.weight.detach() @ torch.matrix_power(w, k)
            norms.append(of_state.norm(dim=1))
        expected.append(float(torch.stack(norms).mean()))
    assert result.norms == pytest.approx(expected, rel=1e-9)
    (radius,) = compute_spectral_radii(model)
    assert radius.value == pytest.approx(np.abs(np.linalg.eigvals(w.numpy())).max())


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_recurrent_gradients_match_a_perturbed_state(cell):
    model = build_recurrent(cell, layers=2).double()
    ids, max_lag = sample_ids(sequences=1), 4
    results = compute_gradient_norms(model, ids, max_lag=max_lag)
    assert [r.with_respect_to for r in results] == ["h of layer 1", "h of layer 2"]

    def compute_loss(t, layer, position, perturbation):
        """Read step by step, and add a vector to one state."""
        count = 0

        def add(h):
            nonlocal count
            count += 1
            return h + perturbation if count == position + 1 else h

        with Trace(model, only=(), replace={f"recurrent.layers.{layer}.0.hidden": add}):
            logits, _ = model(ids[:, : t + 1])
        return F.cross_entropy(logits[0, t], ids[0, t + 1])

    for layer, result in enumerate(results):
        for k in (0, 1, max_lag):
            norms = []
            for t in torch.linspace(max_lag, 11, 8).long().tolist():
                zero = torch.zeros(5, dtype=torch.double, requires_grad=True)
                (gradient,) = torch.autograd.grad(compute_loss(t, layer, t - k, zero), zero)
                norms.append(float(gradient.norm()))
            assert result.norms[k] == pytest.approx(np.mean(norms), rel=1e-9)


def test_transformer_gradients_are_those_of_its_embeddings():
    model = build_model(kind="transformer", d_model=8, layers=2, heads=2).double()
    ids = sample_ids(sequences=2)
    (result,) = compute_gradient_norms(model, ids, max_lag=5)
    assert result.with_respect_to == "the input of block 1"
    embedded = model.embedding(ids[:, :-1]).detach().requires_grad_()
    x = embedded
    for block in model.blocks:
        x = block(x, causal=True)
    logits = model.head(model.norm(x)).transpose(1, 2)
    losses = F.cross_entropy(logits, ids[:, 1:], reduction="none")
    norms = []
    for t in torch.linspace(5, 11, 7).long().tolist():
        (gradient,) = torch.autograd.grad(losses[:, t].sum(), embedded, retain_graph=True)
        norms.append(gradient[:, t - 5 : t + 1].flip(1).norm(dim=-1).mean(0))
        assert (gradient[:, t + 1 :] == 0).all()
    assert result.norms == pytest.approx(torch.stack(norms).mean(0).tolist(), rel=1e-9)


def test_each_gate_has_a_spectral_radius():
    model = build_recurrent("lstm", layers=2)
    radii = compute_spectral_radii(model, "mine")
    gates = ["input", "forget", "candidate", "output"]
    assert [(r.layer, r.matrix) for r in radii] == [(k, gate) for k in (1, 2) for gate in gates]
    forget = model.recurrent.layers[1][0].layer.weight_hh_l0[5:10].detach().numpy()
    assert radii[5].value == pytest.approx(np.abs(np.linalg.eigvals(forget)).max(), rel=1e-5)
    assert compute_spectral_radii(build_model(kind="transformer", d_model=8, heads=2)) == []


def test_model_is_left_unchanged():
    model = build_recurrent("gru", dropout=0.5).train()
    compute_gradient_norms(model, sample_ids())
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_windows_are_evenly_spaced():
    windows = sample_windows(torch.arange(1000), max_lag=20, count=4)
    assert windows.shape == (4, 42)
    assert windows[0, 0] == 0
    assert windows[-1, -1] == 999
    with pytest.raises(UserError, match="at least 42"):
        sample_windows(torch.arange(30), max_lag=20)
    with pytest.raises(UserError, match="allow 0 to 11"):
        compute_gradient_norms(
            build_model(kind="transformer", d_model=8, heads=2), sample_ids(), max_lag=12
        )


def test_report_is_rendered_in_every_format():
    model = build_recurrent("lstm", layers=2)
    name = "<b>mine</b>\x1b[31m"
    report = GradientReport(
        compute_gradient_norms(model, sample_ids(), name), compute_spectral_radii(model, name)
    )
    text = report.text(width=90)
    assert "k = 5" in text
    assert "candidate" in text
    assert "\x1b" not in text
    for page in (report.html(), report.svg()):
        assert "<b>mine" not in page
        assert "&lt;b&gt;mine" in page
        assert "\x1b" not in page
    assert report.picture().png()[:4] == b"\x89PNG"
    assert report.to_dict()["spectral_radii"][0]["matrix"] == "input"
