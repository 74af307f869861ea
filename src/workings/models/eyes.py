"""Eyes: a picture in, a grid of features out. Our own, or another's by name.

`torchvision/resnet18` and `timm/resnet18` are those packages' models without their classifiers,
with fresh weights or with the ones that the packages have for them.
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from workings.errors import UserError, brief, near, shown
from workings.layers.vision import PlainStage, ResidualStage
from workings.recipes import EYES, CaptionerConfig

Colours = Sequence[float]  # one number for red, for green and for blue
# Of ImageNet's pictures, which torchvision's eyes have learned from.
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Eye(nn.Module):
    """Turns pixels into a grid. `channels`: how many features a place of the grid has."""

    mean: Tensor
    spread: Tensor

    def __init__(
        self, body: nn.Module, channels: int, mean: Colours = MEAN, spread: Colours = SPREAD
    ) -> None:
        super().__init__()
        self.body, self.channels = body, channels
        for name, values in (("mean", mean), ("spread", spread)):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(
        self, pixels: UInt8[Tensor, "batch high wide 3"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Look at pictures."""
        # Not channels last: a convolution one pixel wide with a stride then writes where it must
        # not, in its backward pass on a CPU (torch 2.13). It is as fast.
        seen = pixels.permute(0, 3, 1, 2).contiguous().to(self.mean.dtype) / 255
        grid: Tensor = self.body((seen - self.mean) / self.spread)
        return grid


def build_eye(config: CaptionerConfig, *, pixels: int, pretrained: bool) -> Eye:
    """Make the eye that a recipe names, with fresh weights, or a package's own.

    It is to see pictures that are so many pixels wide and high.
    """
    if config.eye in EYES:
        return Eye(_own(config), config.channels[-1])
    package, _, name = config.eye.partition("/")
    makers = {"torchvision": _from_torchvision, "timm": _from_timm}
    if package not in makers or not name:
        raise UserError(
            f"model.eye = {shown(config.eye)}: {near(config.eye, EYES)}, torchvision/… or timm/…"
        )
    body, mean, spread = makers[package](_imported(package), name, pretrained)
    return Eye(body, _channels(body, f"model.eye = {shown(config.eye)}", pixels), mean, spread)


@torch.no_grad()
def _channels(body: nn.Module, told: str, pixels: int) -> int:
    """How many features a place of its grid has; refuse what gives no grid of such pictures.

    A picture twice as wide has twice as many columns: so features cannot be taken for places.
    """
    body.eval()
    try:
        grid, wide = (body(torch.zeros(1, 3, pixels, width)) for width in (pixels, 2 * pixels))
    except (RuntimeError, ValueError, TypeError, AssertionError, MemoryError) as error:
        why = brief(str(error) or type(error).__name__, 150)
        raise UserError(f"{told}: it cannot see pictures of {pixels} pixels: {why}") from None
    finally:
        body.train()
    is_grid = isinstance(grid, Tensor) and grid.dim() == wide.dim() == 4
    if not is_grid or wide.shape[:3] != grid.shape[:3] or wide.shape[3] <= grid.shape[3]:
        raise UserError(f"{told}: it gives no grid of features")
    if grid.shape[2:].numel() == 1:
        raise UserError(f"{told}: to it {pixels} pixels are one place: more data.pixels")
    return int(grid.shape[1])


def _own(config: CaptionerConfig) -> nn.Module:
    widths, blocks = config.channels, config.blocks
    if config.eye == "vgg":
        seen = zip((3, *widths), widths, strict=False)
        return nn.Sequential(*(PlainStage(width, channels, blocks) for width, channels in seen))
    # A residual eye's first stage is one convolution: there is nothing yet worth a way around.
    stem = nn.Conv2d(3, widths[0], 3, stride=2, padding=1)
    pairs = pairwise(widths)
    return nn.Sequential(
        stem, *(ResidualStage(width, channels, blocks) for width, channels in pairs)
    )


def _imported(package: str) -> ModuleType:
    try:
        return import_module(package)
    except (ImportError, RuntimeError) as error:  # a torchvision of another torch fails by itself
        told = f"{package} cannot be used with this torch: {error}"
        raise UserError(f"{told}\npip install 'workings[eyes]'") from None


def _from_torchvision(
    package: Any, name: str, pretrained: bool
) -> tuple[nn.Module, Colours, Colours]:
    names = package.models.list_models(module=package.models)
    if name not in names:
        raise UserError(f"torchvision has no model {shown(name)}: {near(name, names)}")
    model: nn.Module = package.models.get_model(name, weights="DEFAULT" if pretrained else None)
    if isinstance(features := getattr(model, "features", None), nn.Module):
        return features, MEAN, SPREAD
    kept = [m for n, m in model.named_children() if n not in ("avgpool", "fc", "AuxLogits")]
    return nn.Sequential(*kept), MEAN, SPREAD


def _from_timm(package: Any, name: str, pretrained: bool) -> tuple[nn.Module, Colours, Colours]:
    names = package.list_models()
    if name.partition(".")[0] not in names:
        raise UserError(f"timm has no model {shown(name)}: {near(name, names)}")
    made = package.create_model(name, pretrained=pretrained, num_classes=0, global_pool="")
    return made, made.pretrained_cfg["mean"], made.pretrained_cfg["std"]
