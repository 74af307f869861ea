"""How far back gradients reach: against powers of W, and against autograd by brute force."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from workings.config import build
from workings.errors import UserError
from workings.interpret.gradients import (
    GradientReport,
    compute_gradient_norms,
    compute_spectral_radii,
    sample_windows,
)
from workings.models.language import build_language_model
from workings.recipes import LanguageRecipe

VOCABULARY = 11


def model_for(**table):
    torch.manual_seed(0)
    return build_language_model(build(LanguageRecipe, {"model": table}).model, VOCABULARY)


def ids_for(sequences=3, time=13):
    return torch.randint(
        3, VOCABULARY, (sequences, time), generator=torch.Generator().manual_seed(1)
    )


def test_in_a_linear_rnn_gradients_go_with_the_powers_of_w():
    model = model_for(kind="recurrent", cell="rnn", d_model=4, hidden_size=5).double()
    layer = model.recurrent.layers[0][0].layer
    with torch.no_grad():  # with nothing to read, h stays 0, where a tanh is a straight line
        for weights in (layer.weight_ih_l0, layer.bias_ih_l0, layer.bias_hh_l0):
            weights.zero_()
    (flow,) = compute_gradient_norms(model, ids_for(), max_lag=6)
    w = layer.weight_hh_l0.detach()
    scores = model.head.bias.detach()
    ids = ids_for()
    expected = []
    for k in range(7):
        norms = []
        for t in torch.linspace(6, 11, 6).long().tolist():
            slope = torch.softmax(scores, 0) - F.one_hot(ids[:, t + 1], VOCABULARY).double()
            norms.append(
                (slope @ model.head.weight.detach() @ torch.matrix_power(w, k)).norm(dim=1)
            )
        expected.append(float(torch.stack(norms).mean()))
    assert flow.norms == pytest.approx(expected, rel=1e-9)
    (radius,) = compute_spectral_radii(model)
    largest = np.abs(np.linalg.eigvals(w.numpy())).max()
    assert radius.value == pytest.approx(largest)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_recurrent_gradients_are_those_of_a_nudge(cell):
    model = model_for(kind="recurrent", cell=cell, d_model=4, hidden_size=5, layers=2).double()
    ids = ids_for(sequences=1)
    back = 4
    flows = compute_gradient_norms(model, ids, max_lag=back)
    assert [flow.with_respect_to for flow in flows] == ["h of layer 1", "h of layer 2"]

    def loss(t, layer, place, nudge):
        """Read step by step, and add something to one state."""
        from workings.trace import Trace

        count = 0

        def add(h):
            nonlocal count
            count += 1
            return h + nudge if count == place + 1 else h

        with Trace(model, only=(), replace={f"recurrent.layers.{layer}.0.hidden": add}):
            scores, _ = model(ids[:, : t + 1])
        return F.cross_entropy(scores[0, t], ids[0, t + 1])

    ends = torch.linspace(back, 11, 8).long().tolist()
    for layer, flow in enumerate(flows):
        for k in (0, 1, back):
            norms = []
            for t in ends:
                nudge = torch.zeros(5, dtype=torch.double, requires_grad=True)
                (slope,) = torch.autograd.grad(loss(t, layer, t - k, nudge), nudge)
                norms.append(float(slope.norm()))
            assert flow.norms[k] == pytest.approx(np.mean(norms), rel=1e-9)


def test_a_transformers_gradients_are_those_of_its_embedded_tokens():
    model = model_for(kind="transformer", d_model=8, layers=2, heads=2).double()
    ids = ids_for(sequences=2)
    (flow,) = compute_gradient_norms(model, ids, max_lag=5)
    assert flow.with_respect_to == "the input of block 1"
    embedded = model.embedding(ids[:, :-1]).detach().requires_grad_()
    x = embedded
    for block in model.blocks:
        x = block(x, causal=True)
    losses = F.cross_entropy(
        model.head(model.norm(x)).transpose(1, 2), ids[:, 1:], reduction="none"
    )
    found = []
    for t in torch.linspace(5, 11, 7).long().tolist():
        (slope,) = torch.autograd.grad(losses[:, t].sum(), embedded, retain_graph=True)
        found.append(slope[:, t - 5 : t + 1].flip(1).norm(dim=-1).mean(0))
        assert (slope[:, t + 1 :] == 0).all()
    assert flow.norms == pytest.approx(torch.stack(found).mean(0).tolist(), rel=1e-9)


def test_gates_have_a_radius_each():
    model = model_for(kind="recurrent", cell="lstm", d_model=4, hidden_size=5, layers=2)
    radii = compute_spectral_radii(model, "mine")
    assert [(r.layer, r.matrix) for r in radii][:4] == [
        (1, "input"),
        (1, "forget"),
        (1, "candidate"),
        (1, "output"),
    ]
    forget = model.recurrent.layers[1][0].layer.weight_hh_l0[5:10].detach().numpy()
    assert radii[5].value == pytest.approx(np.abs(np.linalg.eigvals(forget)).max(), rel=1e-5)
    assert compute_spectral_radii(model_for(kind="transformer", d_model=8, heads=2)) == []


def test_the_model_is_left_as_it_was():
    model = model_for(kind="recurrent", cell="gru", d_model=4, hidden_size=5, dropout=0.5).train()
    compute_gradient_norms(model, ids_for())
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_windows_are_cut_evenly_out_of_a_text():
    found = sample_windows(torch.arange(1000), max_lag=20, count=4)
    assert found.shape == (4, 42)
    assert found[0, 0] == 0
    assert found[-1, -1] == 999
    with pytest.raises(UserError, match="at least 42"):
        sample_windows(torch.arange(30), max_lag=20)
    with pytest.raises(UserError, match="allow 0 to 11"):
        compute_gradient_norms(
            model_for(kind="transformer", d_model=8, heads=2), ids_for(), max_lag=12
        )


def test_shown_in_every_form():
    model = model_for(kind="recurrent", cell="lstm", d_model=4, hidden_size=5, layers=2)
    name = "<b>mine</b>\x1b[31m"
    told = GradientReport(
        compute_gradient_norms(model, ids_for(), name), compute_spectral_radii(model, name)
    )
    said = told.text(width=90)
    assert "k = 5" in said
    assert "candidate" in said
    assert "\x1b" not in said
    for page in (told.html(), told.svg()):
        assert "<b>mine" not in page
        assert "&lt;b&gt;mine" in page
        assert "\x1b" not in page
    assert told.picture().png()[:4] == b"\x89PNG"
    assert told.to_dict()["spectral_radii"][0]["matrix"] == "input"
