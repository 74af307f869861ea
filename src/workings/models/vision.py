"""What looks at a picture: convolutions, in plain stages or with a way around them.

Norms are over groups of channels, not over the batch: a picture is seen the same way in training
and afterwards, alone and among others, by one process and by many.
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.recipes import ENCODERS, CaptionerConfig

GROUP_SIZE = 16  # channels that are normed together


def _group_norm(channels: int) -> nn.GroupNorm:
    most = max(channels // GROUP_SIZE, 1)
    groups = next(n for n in range(most, 0, -1) if channels % n == 0)
    return nn.GroupNorm(groups, channels)


class PlainStage(nn.Sequential):
    """As VGG's: convolutions of three by three, then the largest of each two by two."""

    def __init__(self, width: int, channels: int, blocks: int) -> None:
        layers: list[nn.Module] = []
        for k in range(blocks):
            seen = width if k == 0 else channels
            layers += [nn.Conv2d(seen, channels, 3, padding=1, bias=False), _group_norm(channels)]
            layers.append(nn.ReLU(inplace=True))
        super().__init__(*layers, nn.MaxPool2d(2))


class ResidualBlock(nn.Module):
    """Two convolutions, and a way around them (He et al. 2016, norms in front)."""

    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _group_norm(width), _group_norm(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(width, channels, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        alike = width == channels and stride == 1
        self.shortcut = (
            nn.Identity() if alike else nn.Conv2d(width, channels, 1, stride, bias=False)
        )

    def forward(
        self, x: Float[Tensor, "batch width high wide"]
    ) -> Float[Tensor, "batch channels h w"]:
        """Add what the convolutions see to what was there."""
        seen = self.relu(self.norm1(x))
        seen = self.conv2(self.relu(self.norm2(self.conv1(seen))))
        both: Tensor = seen + self.shortcut(x)
        return both


class ResidualStage(nn.Sequential):
    """Residual blocks, the first of which halves the picture."""

    def __init__(self, width: int, channels: int, blocks: int) -> None:
        super().__init__(
            *(
                ResidualBlock(width if k == 0 else channels, channels, 2 if k == 0 else 1)
                for k in range(blocks)
            )
        )


ChannelValues = Sequence[float]  # one number for red, for green and for blue
# Of ImageNet's pictures, which torchvision's eyes have learned from.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class VisionEncoder(nn.Module):
    """Turns pixels into a grid. `channels`: how many features a place of the grid has."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        channels: int,
        mean: ChannelValues = IMAGENET_MEAN,
        std: ChannelValues = IMAGENET_STD,
    ) -> None:
        super().__init__()
        self.backbone, self.channels = backbone, channels
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(
        self, pixels: UInt8[Tensor, "batch high wide 3"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Look at pictures."""
        # Not channels last: a convolution one pixel wide with a stride then writes where it must
        # not, in its backward pass on a CPU (torch 2.13). It is as fast.
        seen = pixels.permute(0, 3, 1, 2).contiguous().to(self.mean.dtype) / 255
        grid: Tensor = self.backbone((seen - self.mean) / self.std)
        return grid


def build_vision_encoder(
    config: CaptionerConfig, *, pixels: int, pretrained: bool
) -> VisionEncoder:
    """Make the eye that a recipe names, with fresh weights, or a package's own.

    It is to see pictures that are so many pixels wide and high.
    """
    if config.encoder in ENCODERS:
        return VisionEncoder(_build_backbone(config), config.channels[-1])
    package, _, name = config.encoder.partition("/")
    makers = {"torchvision": _from_torchvision, "timm": _from_timm}
    if package not in makers or not name:
        raise UserError(
            f"model.encoder = {safe_repr(config.encoder)}: "
            f"{did_you_mean(config.encoder, ENCODERS)}, torchvision/… or timm/…"
        )
    body, mean, spread = makers[package](_import_package(package), name, pretrained)
    return VisionEncoder(
        body,
        _count_channels(body, f"model.encoder = {safe_repr(config.encoder)}", pixels),
        mean,
        spread,
    )


@torch.no_grad()
def _count_channels(backbone: nn.Module, label: str, pixels: int) -> int:
    """How many features a place of its grid has; refuse what gives no grid of such pictures.

    A picture twice as wide has twice as many columns: so features cannot be taken for places.
    """
    backbone.eval()
    try:
        grid, wide = (backbone(torch.zeros(1, 3, pixels, width)) for width in (pixels, 2 * pixels))
    except (RuntimeError, ValueError, TypeError, AssertionError, MemoryError) as error:
        why = truncate(str(error) or type(error).__name__, 150)
        raise UserError(f"{label}: it cannot see pictures of {pixels} pixels: {why}") from None
    finally:
        backbone.train()
    is_grid = isinstance(grid, Tensor) and grid.dim() == wide.dim() == 4
    if not is_grid or wide.shape[:3] != grid.shape[:3] or wide.shape[3] <= grid.shape[3]:
        raise UserError(f"{label}: it gives no grid of features")
    if grid.shape[2:].numel() == 1:
        raise UserError(f"{label}: to it {pixels} pixels are one place: more data.image_size")
    return int(grid.shape[1])


def _build_backbone(config: CaptionerConfig) -> nn.Module:
    widths, blocks = config.channels, config.blocks
    if config.encoder == "vgg":
        seen = zip((3, *widths), widths, strict=False)
        return nn.Sequential(*(PlainStage(width, channels, blocks) for width, channels in seen))
    # A residual eye's first stage is one convolution: there is nothing yet worth a way around.
    stem = nn.Conv2d(3, widths[0], 3, stride=2, padding=1)
    pairs = pairwise(widths)
    return nn.Sequential(
        stem, *(ResidualStage(width, channels, blocks) for width, channels in pairs)
    )


def _import_package(package: str) -> ModuleType:
    try:
        return import_module(package)
    except (ImportError, RuntimeError) as error:  # a torchvision of another torch fails by itself
        told = f"{package} cannot be used with this torch: {error}"
        raise UserError(f"{told}\npip install 'workings[vision]'") from None


def _from_torchvision(
    package: Any, name: str, pretrained: bool
) -> tuple[nn.Module, ChannelValues, ChannelValues]:
    names = package.models.list_models(module=package.models)
    if name not in names:
        raise UserError(f"torchvision has no model {safe_repr(name)}: {did_you_mean(name, names)}")
    model: nn.Module = package.models.get_model(name, weights="DEFAULT" if pretrained else None)
    if isinstance(features := getattr(model, "features", None), nn.Module):
        return features, IMAGENET_MEAN, IMAGENET_STD
    kept = [m for n, m in model.named_children() if n not in ("avgpool", "fc", "AuxLogits")]
    return nn.Sequential(*kept), IMAGENET_MEAN, IMAGENET_STD


def _from_timm(
    package: Any, name: str, pretrained: bool
) -> tuple[nn.Module, ChannelValues, ChannelValues]:
    names = package.list_models()
    if name.partition(".")[0] not in names:
        raise UserError(f"timm has no model {safe_repr(name)}: {did_you_mean(name, names)}")
    made = package.create_model(name, pretrained=pretrained, num_classes=0, global_pool="")
    return made, made.pretrained_cfg["mean"], made.pretrained_cfg["std"]
