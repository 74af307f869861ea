"""Captioners: translators' decoders, looking at the places of a grid."""

import sys

import pytest
import torch

from workings.decode.beam import beam_search
from workings.errors import UserError
from workings.models.captioning import (
    FeatureBatchNorm,
    ImageBatch,
    build_captioner,
    grid_position_encoding,
)
from workings.models.seq2seq import START, RecurrentDecoder, TransformerDecoder
from workings.models.summary import summarize
from workings.models.translation import build_translator
from workings.models.vision import build_vision_encoder
from workings.trace import Trace

KINDS = {
    "none": {"kind": "recurrent", "attention": "none"},
    "fixed": {"kind": "recurrent", "attention": "fixed", "cell": "gru"},
    "additive": {"kind": "recurrent", "layers": 2},
    "dot, vgg": {"kind": "recurrent", "attention": "dot", "encoder": "vgg", "blocks": 2},
    "general": {"kind": "recurrent", "attention": "general", "cell": "rnn"},
    "transformer": {"kind": "transformer", "layers": 2, "heads": 2},
}
WORDS = 17


def made(name):
    torch.manual_seed(0)
    hidden = "d_ff" if KINDS[name]["kind"] == "transformer" else "hidden_size"
    table = {"d_model": 8, hidden: 12, "channels": [4, 8], **KINDS[name]}
    model = build_captioner(table, WORDS).eval()
    with torch.no_grad():  # biases matter, and attention is not all even
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def pictures(*of):
    draw = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (max(of) + 1, 16, 16, 3), generator=draw, dtype=torch.uint8)
    return ImageBatch(pixels, torch.tensor(of))


def texts(count, time):
    ids = torch.randint(4, WORDS, (count, time), generator=torch.Generator().manual_seed(2))
    ids[:, 0] = START
    return ids


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_a_token_at_a_time_is_as_all_at_once(name):
    model, about, target = made(name), pictures(0, 1, 2), texts(3, 5)
    scores, state = model.start(about)
    found = [scores]
    for tokens in target[:, 1:].unbind(1):
        scores, state = model.step(tokens, state)
        found.append(scores)
    torch.testing.assert_close(torch.stack(found, 1), model(about, target), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_with_several_captions_is_looked_at_once(name):
    """Scores and gradients are as if it had been there once for each caption."""
    model, target = made(name), texts(4, 5)
    shared = pictures(0, 0, 1, 0)
    apart = ImageBatch(shared.pixels[shared.image_index], torch.arange(4))
    seen = []
    model.grid.encoder.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    gradients = []
    for about in (shared, apart):
        model.zero_grad()
        scores = model(about, target)
        scores.square().sum().backward()
        gradients.append((scores.detach(), *(p.grad for p in model.parameters())))
    assert seen == [2, 4]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_what_all_pictures_share_says_nothing_of_any():
    """It moves neither what is distinct about each nor, so that it grows, any weight before it."""
    torch.manual_seed(0)
    distinct, x, shared = (
        FeatureBatchNorm(6).train(),
        torch.randn(5, 6),
        torch.zeros(6, requires_grad=True),
    )
    torch.testing.assert_close(distinct(x + 100.0, 5), distinct(x, 5), atol=1e-4, rtol=0)
    (distinct(x + shared, 5) * torch.randn(5, 6)).sum().backward()
    torch.testing.assert_close(shared.grad, torch.zeros(6), atol=1e-5, rtol=0)


def test_a_picture_alone_is_held_against_those_before():
    """However many captions it has: among its like alone there would be nothing left of it."""
    torch.manual_seed(0)
    distinct, same = FeatureBatchNorm(6).train(), torch.randn(1, 6).expand(3, 6)
    before = distinct.running_var.clone()
    found = distinct(same, 1)
    assert found.abs().min() > 0
    assert torch.equal(distinct.running_var, before)
    torch.testing.assert_close(found, distinct.eval()(same, 3))


@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_the_picture_matters_and_so_does_where_a_thing_is(name):
    model, target = made(name), texts(1, 4)
    left = torch.zeros(1, 16, 16, 3, dtype=torch.uint8)
    left[:, 4:8, 2:6] = 255
    one, other = ImageBatch(left, torch.tensor([0])), ImageBatch(left.flip(2), torch.tensor([0]))
    assert (model(one, target) - model(other, target)).abs().max() > 1e-4


@torch.no_grad()
def test_beam_search_is_that_of_translators():
    for name in KINDS:
        found = beam_search(made(name), pictures(0, 1), stop=3, max_length=6, beams=3)
        assert [len(some) for some in found] == [3, 3]


def test_the_decoders_are_translators_own_classes():
    for kind, hidden, writer in (
        ("recurrent", "hidden_size", RecurrentDecoder),
        ("transformer", "d_ff", TransformerDecoder),
    ):
        table = {"kind": kind, "d_model": 8, hidden: 8}
        for model in (build_captioner(table, WORDS), build_translator(table, WORDS, WORDS)):
            assert isinstance(model, writer)


@torch.no_grad()
def test_weights_over_the_grid_sum_to_one():
    model = made("additive")
    with Trace(model, only="attention.weights") as trace:
        model(pictures(0, 1), texts(2, 3))
    weights = torch.stack(trace.steps("attention.weights"))
    assert weights.shape[-1] == 4 * 4  # sixteen pixels, halved by each of two stages
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_every_place_of_a_grid_is_told_apart():
    places = grid_position_encoding(5, 7, 16)
    assert torch.cdist(places, places).fill_diagonal_(9).min() > 0.1
    torch.testing.assert_close(places[0, :8], places[6, :8])  # one row
    torch.testing.assert_close(places[0, 8:], places[7, 8:])  # one column


@pytest.mark.parametrize("eye", ["residual", "vgg"])
def test_an_eye_sees_a_picture_alone_as_among_others(eye):
    body, pixels = build_vision_encoder(eye, channels=[4, 8, 16]).train(), pictures(0, 1, 2).pixels
    torch.testing.assert_close(body(pixels)[1:2], body(pixels[1:2]), atol=1e-5, rtol=1e-4)
    body(pixels).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in body.parameters())


def _import_torchvision():
    """One that was built for GPUs, beside a torch that was not, lacks operators of its own."""
    try:
        pytest.importorskip("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_other_peoples_eyes_give_a_grid(package):
    _import_torchvision()
    pytest.importorskip(package)
    model = build_captioner(
        {"encoder": f"{package}/resnet18", "d_model": 8, "hidden_size": 8}, WORDS
    )
    pixels = torch.zeros(2, 64, 64, 3, dtype=torch.uint8)
    scores = model(ImageBatch(pixels, torch.arange(2)), texts(2, 3))
    assert scores.shape == (2, 3, WORDS)
    with pytest.raises(UserError, match=r"has no model 'resnet19': .*resnet18"):
        build_captioner({"encoder": f"{package}/resnet19"}, WORDS)


def test_what_gives_no_grid_is_no_eye():
    _import_torchvision()
    pytest.importorskip("torchvision")
    for eye, pixels, why in (
        ("swin_t", 64, "does not return a grid"),  # features come last there
        ("vit_b_32", 64, "cannot encode images of 64 pixels"),
        ("vgg11", 16, "cannot encode images of 16 pixels"),
        ("resnet18", 32, "32 pixels to one grid cell"),
    ):
        with pytest.raises(UserError, match=rf"model\.encoder = 'torchvision/{eye}': .*{why}"):
            build_captioner({"encoder": f"torchvision/{eye}"}, WORDS, pixels=pixels)


def test_colours_are_as_an_eye_has_learned_them():
    timm = pytest.importorskip("timm")
    name = next(n for n in timm.list_models("resnet*") if timm.get_pretrained_cfg(n).std[0] == 0.5)
    eye = build_captioner({"encoder": f"timm/{name}"}, WORDS).grid.encoder
    assert eye.std.flatten().tolist() == [0.5] * 3


@pytest.mark.parametrize("channels", [[16, 50], [7, 33]])
def test_channels_may_be_any_number(channels):
    for eye in ("residual", "vgg"):
        build_captioner({"encoder": eye, "channels": channels}, WORDS)


@pytest.mark.parametrize("eye", ["resnet", "hub/resnet18", "timm/", ""])
def test_an_eye_that_there_is_not(eye):
    with pytest.raises(UserError, match=r"model\.encoder"):
        build_captioner({"encoder": eye}, WORDS)


def test_a_layer_that_is_called_at_every_step_has_one_row_of_the_table():
    model = made("additive")
    rows = {row.name: row for row in summarize(model, length=5, pixels=16).rows}
    query = rows["attention.additive.query"]
    assert query.mult_adds == 5 * model.attention.additive.query.weight.numel()
    assert rows["grid.encoder.backbone.0"].mult_adds == 8 * 8 * (3 * 3 * 3 * 4)
    twice = model.head.weight.numel()  # which are the embedding's, too
    every = sum(p.numel() for p in model.parameters())
    assert sum(row.parameters for row in rows.values()) == every + twice
