"""Vision encoders: convolutional networks that turn an image into a grid of features.

Their norms are group norms, not batch norms: the features of an image do not depend on the rest of
the batch, on training or evaluation mode, or on the number of processes.
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from workings.errors import UserError, did_you_mean, install_command, safe_repr, truncate
from workings.modules import eval_mode
from workings.recipes import ENCODERS

GROUP_SIZE = 16  # channels per group of a group norm


def _group_norm(channels: int) -> nn.GroupNorm:
    """Return a group norm with groups of `GROUP_SIZE` channels, or a little more."""
    max_groups = max(channels // GROUP_SIZE, 1)
    groups = next(n for n in range(max_groups, 0, -1) if channels % n == 0)
    return nn.GroupNorm(groups, channels)


class PlainStage(nn.Sequential):
    """A stage of a VGG: 3×3 convolutions, then 2×2 max pooling."""

    def __init__(self, width: int, channels: int, blocks: int) -> None:
        layers: list[nn.Module] = []
        for k in range(blocks):
            inputs = width if k == 0 else channels
            layers += [nn.Conv2d(inputs, channels, 3, padding=1, bias=False), _group_norm(channels)]
            layers.append(nn.ReLU(inplace=True))
        super().__init__(*layers, nn.MaxPool2d(2))


class ResidualBlock(nn.Module):
    """Two convolutions with a residual connection (pre-activation, He et al. 2016)."""

    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _group_norm(width), _group_norm(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(width, channels, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        keeps_shape = width == channels and stride == 1
        self.shortcut = (
            nn.Identity() if keeps_shape else nn.Conv2d(width, channels, 1, stride, bias=False)
        )

    def forward(
        self, x: Float[Tensor, "batch channels_in height width"]
    ) -> Float[Tensor, "batch channels_out h w"]:
        """Return the convolutions' output plus the input, or a projection of it."""
        features = self.relu(self.norm1(x))
        features = self.conv2(self.relu(self.norm2(self.conv1(features))))
        output: Tensor = features + self.shortcut(x)
        return output


class ResidualStage(nn.Sequential):
    """Residual blocks, of which the first halves height and width."""

    def __init__(self, width: int, channels: int, blocks: int) -> None:
        super().__init__(
            *(
                ResidualBlock(width if k == 0 else channels, channels, 2 if k == 0 else 1)
                for k in range(blocks)
            )
        )


ChannelValues = Sequence[float]  # one number each for red, green and blue
# Statistics of ImageNet, with which torchvision's models were trained.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class VisionEncoder(nn.Module):
    """A convolutional backbone that turns pixels into a grid with `channels` features per cell."""

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
        self, pixels: UInt8[Tensor, "batch height width 3"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Normalize the pixels and return the feature grid."""
        # Not in channels-last format: with it, the backward pass of a strided 1×1 convolution
        # writes out of bounds on a CPU (torch 2.13). The speed is the same.
        images = pixels.permute(0, 3, 1, 2).contiguous().to(self.mean.dtype) / 255
        grid: Tensor = self.backbone((images - self.mean) / self.std)
        return grid


def build_vision_encoder(
    name: str = "residual",
    *,
    channels: Sequence[int] = (32, 64, 128),
    blocks: int = 1,
    image_size: int = 64,
    pretrained: bool = False,
) -> VisionEncoder:
    """Build a vision encoder: residual, vgg, or torchvision/NAME or timm/NAME.

    `channels` (of each stage) and `blocks` (per stage) are for residual and vgg. A model of another
    package must give a grid for images of `image_size`; `pretrained` loads its weights.

    >>> build_vision_encoder("vgg")(torch.zeros(1, 64, 64, 3, dtype=torch.uint8)).shape
    torch.Size([1, 128, 8, 8])
    """
    if name in ENCODERS:
        return VisionEncoder(_build_backbone(name, channels, blocks), channels[-1])
    package, _, model = name.partition("/")
    loaders = {"torchvision": _from_torchvision, "timm": _from_timm}
    label = f"model.encoder = {safe_repr(name)}"
    if package not in loaders or not model:
        raise UserError(f"{label}: {did_you_mean(name, ENCODERS)}, torchvision/… or timm/…")
    backbone, mean, std = loaders[package](_import_package(package), model, pretrained)
    return VisionEncoder(backbone, _count_channels(backbone, label, image_size), mean, std)


@torch.no_grad()
def _count_channels(backbone: nn.Module, label: str, image_size: int) -> int:
    """Return the features per grid cell; raise UserError if the backbone does not give a grid.

    An image of double width must have more columns: so channels cannot be mistaken for cells.
    """
    with eval_mode(backbone):
        try:
            grid, wide_grid = (
                backbone(torch.zeros(1, 3, image_size, width))
                for width in (image_size, 2 * image_size)
            )
        except (RuntimeError, ValueError, TypeError, AssertionError, MemoryError) as error:
            reason = truncate(str(error) or type(error).__name__, 150)
            raise UserError(
                f"{label}: cannot encode images of {image_size} pixels: {reason}"
            ) from None
    is_grid = isinstance(grid, Tensor) and grid.dim() == wide_grid.dim() == 4
    if not is_grid or wide_grid.shape[:3] != grid.shape[:3] or wide_grid.shape[3] <= grid.shape[3]:
        raise UserError(f"{label}: does not return a grid of features")
    if grid.shape[2:].numel() == 1:
        raise UserError(
            f"{label}: reduces {image_size} pixels to one grid cell: use a larger data.image_size"
        )
    return int(grid.shape[1])


def _build_backbone(name: str, channels: Sequence[int], blocks: int) -> nn.Module:
    """Build a residual network or a VGG; each stage halves height and width."""
    if name == "vgg":
        pairs = zip((3, *channels), channels, strict=False)
        return nn.Sequential(*(PlainStage(before, after, blocks) for before, after in pairs))
    # The first stage of a residual network is a single convolution.
    stem = nn.Conv2d(3, channels[0], 3, stride=2, padding=1)
    stages = (ResidualStage(before, after, blocks) for before, after in pairwise(channels))
    return nn.Sequential(stem, *stages)


def _import_package(package: str) -> ModuleType:
    try:
        return import_module(package)
    except (ImportError, RuntimeError) as error:  # torchvision raises if torch does not match
        message = f"{package} cannot be imported with this torch: {error}"
        raise UserError(f"{message}\n{install_command('vision')}") from None


def _from_torchvision(
    package: Any, name: str, pretrained: bool
) -> tuple[nn.Module, ChannelValues, ChannelValues]:
    names = package.models.list_models(module=package.models)
    if name not in names:
        raise UserError(f"torchvision has no model {safe_repr(name)}: {did_you_mean(name, names)}")
    model: nn.Module = package.models.get_model(name, weights="DEFAULT" if pretrained else None)
    if isinstance(features := getattr(model, "features", None), nn.Module):
        return features, IMAGENET_MEAN, IMAGENET_STD
    # Without the pooling and the classifier.
    layers = [m for n, m in model.named_children() if n not in ("avgpool", "fc", "AuxLogits")]
    return nn.Sequential(*layers), IMAGENET_MEAN, IMAGENET_STD


def _from_timm(
    package: Any, name: str, pretrained: bool
) -> tuple[nn.Module, ChannelValues, ChannelValues]:
    names = package.list_models()
    if name.partition(".")[0] not in names:
        raise UserError(f"timm has no model {safe_repr(name)}: {did_you_mean(name, names)}")
    model = package.create_model(name, pretrained=pretrained, num_classes=0, global_pool="")
    return model, model.pretrained_cfg["mean"], model.pretrained_cfg["std"]
