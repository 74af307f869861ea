"""Vision encoders: our own, and those of torchvision and timm."""

import sys

import pytest
import torch

from workings.errors import UserError
from workings.models.captioning import ImageBatch, build_captioner
from workings.models.vision import build_vision_encoder

VOCAB_SIZE = 17


@pytest.mark.parametrize("name", ["residual", "vgg"])
def test_the_features_of_an_image_do_not_depend_on_the_batch(name):
    encoder = build_vision_encoder(name, channels=[4, 8, 16]).train()
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (3, 16, 16, 3), generator=generator, dtype=torch.uint8)
    torch.testing.assert_close(encoder(pixels)[1:2], encoder(pixels[1:2]), atol=1e-5, rtol=1e-4)
    encoder(pixels).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())


def _import_torchvision():
    """Import torchvision even if it was built for GPUs and torch was not: define its operators."""
    try:
        pytest.importorskip("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_encoders_of_other_packages_give_a_grid(package):
    _import_torchvision()
    pytest.importorskip(package)
    model = build_captioner(
        {"encoder": f"{package}/resnet18", "d_model": 8, "hidden_size": 8}, VOCAB_SIZE
    )
    pixels = torch.zeros(2, 64, 64, 3, dtype=torch.uint8)
    logits = model(ImageBatch(pixels, torch.arange(2)), torch.ones(2, 3, dtype=torch.long))
    assert logits.shape == (2, 3, VOCAB_SIZE)
    with pytest.raises(UserError, match=r"has no model 'resnet19': .*resnet18"):
        build_captioner({"encoder": f"{package}/resnet19"}, VOCAB_SIZE)


@pytest.mark.parametrize(
    ("name", "pixels", "reason"),
    [
        ("swin_t", 64, "does not return a grid"),  # channels come last there
        ("resnet18", 32, "32 pixels to one grid cell"),
        pytest.param(
            *("vit_b_32", 64, "cannot encode images of 64 pixels"), marks=pytest.mark.slow
        ),
        pytest.param(*("vgg11", 16, "cannot encode images of 16 pixels"), marks=pytest.mark.slow),
    ],
)
def test_models_without_a_feature_grid_are_refused(name, pixels, reason):
    _import_torchvision()
    pytest.importorskip("torchvision")
    with pytest.raises(UserError, match=rf"model\.encoder = 'torchvision/{name}': .*{reason}"):
        build_captioner({"encoder": f"torchvision/{name}"}, VOCAB_SIZE, pixels=pixels)


def test_pixels_are_normalized_as_the_encoder_was_trained():
    timm = pytest.importorskip("timm")
    name = next(n for n in timm.list_models("resnet*") if timm.get_pretrained_cfg(n).std[0] == 0.5)
    encoder = build_captioner({"encoder": f"timm/{name}"}, VOCAB_SIZE).grid.encoder
    assert encoder.std.flatten().tolist() == [0.5] * 3


@pytest.mark.parametrize("channels", [[16, 50], [7, 33]])
def test_any_number_of_channels(channels):
    for name in ("residual", "vgg"):
        build_captioner({"encoder": name, "channels": channels}, VOCAB_SIZE)


@pytest.mark.parametrize("name", ["resnet", "hub/resnet18", "timm/", ""])
def test_an_unknown_encoder_is_refused(name):
    with pytest.raises(UserError, match=r"model\.encoder"):
        build_captioner({"encoder": name}, VOCAB_SIZE)
