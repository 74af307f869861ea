"""Positions: sinusoids or a learned table, added to the vectors or concatenated with them."""

from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import UserError, did_you_mean, expect_width
from workings.trace import tap

JoinMode: TypeAlias = Literal["add", "concatenate"]


def sinusoids(count: int, width: int, *, base: float = 10_000.0) -> Float[Tensor, "count width"]:
    """Encode positions 0 … count−1: `sin(pos / base^(2i/width))`, `cos(…)` in turn.

    >>> sinusoids(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    position = torch.arange(count, dtype=torch.float64).unsqueeze(1)
    column = torch.arange(width, dtype=torch.float64)
    angles = position / base ** ((column - column % 2) / width)  # columns 2i and 2i+1 share one
    encoding = torch.where(column % 2 == 0, angles.sin(), angles.cos())
    return encoding.to(torch.get_default_dtype())


def join(
    x: Float[Tensor, "batch time width"], positions: Float[Tensor, "time d"], mode: JoinMode
) -> Float[Tensor, "batch time joined"]:
    """Put positions to the vectors: added (one width), or side by side (the widths add up).

    >>> join(torch.zeros(1, 2, 3), torch.ones(2, 2), "concatenate")
    tensor([[[0., 0., 0., 1., 1.],
             [0., 0., 0., 1., 1.]]])
    """
    if mode == "add":
        expect_width(x.shape[-1], positions.shape[-1])
        return x + positions
    return torch.cat((x, positions.expand(x.shape[0], -1, -1)), dim=-1)


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids, for sequences of any length: the table grows when a longer one comes.

    >>> SinusoidalPositions(4)(torch.zeros(1, 2, 4))
    tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
             [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    table: Tensor

    def __init__(self, width: int, *, mode: JoinMode = "add", base: float = 10_000.0) -> None:
        super().__init__()
        self.width, self.mode, self.base = width, _check_mode(mode), base
        self.register_buffer("table", sinusoids(256, width, base=base), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch time width"], start: int = 0
    ) -> Float[Tensor, "batch time joined"]:
        """Join the positions from `start` on (not 0 when earlier ones are cached)."""
        return join(x, tap("positions", self.rows(start, start + x.shape[1])), self.mode)

    def rows(self, start: int, end: int) -> Float[Tensor, "time width"]:
        """The vectors of these positions."""
        table = self.table
        if end > table.size(0):
            with torch.inference_mode(False):  # the table will serve in training, too
                table = sinusoids(2 * end, self.width, base=self.base).to(table)
            self.table = table
        return table[start:end]


class LearnedPositions(nn.Module):
    """A trained vector for each of `count` positions.

    >>> LearnedPositions(10, 2, mode="concatenate")(torch.zeros(1, 3, 4)).shape
    torch.Size([1, 3, 6])
    """

    def __init__(self, count: int, width: int, *, mode: JoinMode = "add") -> None:
        super().__init__()
        self.mode = _check_mode(mode)
        self.table = nn.Parameter(torch.empty(count, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(
        self, x: Float[Tensor, "batch time width"], start: int = 0
    ) -> Float[Tensor, "batch time joined"]:
        """Join the positions from `start` on (not 0 when earlier ones are cached)."""
        return join(x, tap("positions", self.rows(start, start + x.shape[1])), self.mode)

    def rows(self, start: int, end: int) -> Float[Tensor, "time width"]:
        """The vectors of these positions."""
        table = self.table
        if end > table.size(0):
            raise UserError(f"position {end - 1} is beyond the {len(table)} that were learned")
        return table[start:end]


class RotaryPositions(nn.Module):
    """Turns queries and keys by their positions, so that their products know distances only.

    Columns k and k + width/2 are turned together, as most published models do it.

    >>> turn = RotaryPositions(4)
    >>> q, k = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4)
    >>> did_you_mean, far = ((turn(q, n + 2) * turn(k, n)).sum() for n in (0, 70))
    >>> bool(torch.isclose(did_you_mean, far, atol=1e-4))
    True
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, width: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if width % 2:
            raise UserError(f"rotary positions need heads of even width, not {width}")
        self.width, self.base = width, base
        cosines, sines = self._table(256)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def _table(self, count: int) -> tuple[Tensor, Tensor]:
        place = torch.arange(count, dtype=torch.float64).unsqueeze(1)
        pair = torch.arange(self.width // 2, dtype=torch.float64)
        angles = place / self.base ** (2 * pair / self.width)
        sines, dtype = angles.sin(), torch.get_default_dtype()
        # With the signs of a rotation: the first half takes the second's share away.
        return angles.cos().repeat(1, 2).to(dtype), torch.cat((-sines, sines), 1).to(dtype)

    def forward(
        self, x: Float[Tensor, "batch heads time width"], start: int = 0
    ) -> Float[Tensor, "batch heads time width"]:
        """Turn each vector by its position, from `start` on."""
        end, cosines, sines = start + x.size(-2), self.cosines, self.sines
        if end > cosines.size(0):
            with torch.inference_mode(False):  # the tables will serve in training, too
                cosines, sines = (t.to(cosines) for t in self._table(2 * end))
            self.cosines, self.sines = cosines, sines
        crossed = x.roll(self.width // 2, -1)
        return torch.addcmul(x * cosines[start:end], crossed, sines[start:end])


def _check_mode(mode: JoinMode) -> JoinMode:
    if mode not in get_args(JoinMode):
        raise UserError(f"how {mode!r}: {did_you_mean(mode, get_args(JoinMode))}")
    return mode
