"""What looks at a picture: convolutions, in plain stages or with a way around them.

Norms are over groups of channels, not over the batch: a picture is seen the same way in training
and afterwards, alone and among others, by one process and by many.
"""

from jaxtyping import Float
from torch import Tensor, nn

GROUP = 16  # channels that are normed together


def _norm(channels: int) -> nn.GroupNorm:
    most = max(channels // GROUP, 1)
    groups = next(n for n in range(most, 0, -1) if channels % n == 0)
    return nn.GroupNorm(groups, channels)


class PlainStage(nn.Sequential):
    """As VGG's: convolutions of three by three, then the largest of each two by two."""

    def __init__(self, width: int, channels: int, blocks: int) -> None:
        layers: list[nn.Module] = []
        for k in range(blocks):
            seen = width if k == 0 else channels
            layers += [nn.Conv2d(seen, channels, 3, padding=1, bias=False), _norm(channels)]
            layers.append(nn.ReLU(inplace=True))
        super().__init__(*layers, nn.MaxPool2d(2))


class ResidualBlock(nn.Module):
    """Two convolutions, and a way around them (He et al. 2016, norms in front)."""

    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        self.before, self.between = _norm(width), _norm(channels)
        self.relu = nn.ReLU(inplace=True)
        self.first = nn.Conv2d(width, channels, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        alike = width == channels and stride == 1
        self.around = nn.Identity() if alike else nn.Conv2d(width, channels, 1, stride, bias=False)

    def forward(
        self, x: Float[Tensor, "batch width high wide"]
    ) -> Float[Tensor, "batch channels h w"]:
        """Add what the convolutions see to what was there."""
        seen = self.relu(self.before(x))
        seen = self.second(self.relu(self.between(self.first(seen))))
        both: Tensor = seen + self.around(x)
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
