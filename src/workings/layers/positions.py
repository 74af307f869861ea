"""Positional encodings: sinusoidal or learned, added or concatenated, and rotary."""

from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import UserError, did_you_mean
from workings.modules import expect_width, is_meta_default
from workings.trace import tap

JoinMode: TypeAlias = Literal["add", "concatenate"]


def sinusoids(count: int, width: int, *, base: float = 10_000.0) -> Float[Tensor, "count width"]:
    """Return encodings of positions 0 … count−1: `sin(pos / base^(2i/width))` and `cos(…)` in turn.

    >>> sinusoids(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    if is_meta_default():
        return torch.empty(count, width)
    return _encode(_count_from(0, count), width, base)


def _encode(
    positions: Float[Tensor, " time"], width: int, base: float
) -> Float[Tensor, "time width"]:
    column = torch.arange(width, dtype=torch.float64)
    # Columns 2i and 2i+1 share an angle.
    angles = positions.unsqueeze(1) / base ** ((column - column % 2) / width)
    encoding = torch.where(column % 2 == 0, angles.sin(), angles.cos())
    return encoding.to(torch.get_default_dtype())


def _count_from(start: int, end: int) -> Float[Tensor, " time"]:
    """Return `start` to `end` − 1 in 64 bits: the angles of late positions need them."""
    return torch.arange(start, end, dtype=torch.float64)


def join(
    x: Float[Tensor, "batch time width"], positions: Float[Tensor, "time d"], mode: JoinMode
) -> Float[Tensor, "batch time joined"]:
    """Add positional encodings to the vectors, or concatenate them.

    >>> join(torch.zeros(1, 2, 3), torch.ones(2, 2), "concatenate")
    tensor([[[0., 0., 0., 1., 1.],
             [0., 0., 0., 1., 1.]]])
    """
    if mode == "add":
        expect_width(x.shape[-1], positions.shape[-1])
        return x + positions
    return torch.cat((x, positions.expand(x.shape[0], -1, -1)), dim=-1)


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids; the table grows when a longer sequence comes. The first has number `first`.

    >>> SinusoidalPositions(4)(torch.zeros(1, 2, 4))
    tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
             [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    table: Tensor

    def __init__(
        self, width: int, *, mode: JoinMode = "add", base: float = 10_000.0, first: int = 0
    ) -> None:
        super().__init__()
        self.width, self.mode, self.base, self.first = width, _check_mode(mode), base, first
        self.register_buffer("table", sinusoids(256, width, base=base), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch time width"], start: int = 0
    ) -> Float[Tensor, "batch time joined"]:
        """Add or concatenate the positions from `start` on (not 0 if earlier ones are cached)."""
        return join(x, tap("positions", self.rows(start, start + x.shape[1])), self.mode)

    def rows(self, start: int, end: int) -> Float[Tensor, "time width"]:
        """Return the encodings of positions `start` to `end` − 1."""
        table, start, end = self.table, start + self.first, end + self.first
        if torch.compiler.is_exporting():  # no table is long enough for every length
            return _encode(_count_from(start, end), self.width, self.base).to(table)
        if end > table.size(0):
            with torch.inference_mode(False):  # so that training can use the table later
                table = sinusoids(2 * end, self.width, base=self.base).to(table)
            self.table = table
        return table[start:end]


def fairseq_positions(width: int) -> SinusoidalPositions:
    """Return the sinusoids of fairseq's models, such as M2M100: other frequencies, from number 2.

    The frequencies are 1 to 1/10,000 with both ends, where the paper's end before.

    >>> fairseq_positions(4).rows(0, 1)
    tensor([[ 9.0930e-01, -4.1615e-01,  2.0000e-04,  1.0000e+00]])
    """
    half = width // 2
    if width % 2 or half < 2:
        raise UserError(f"fairseq's positions need an even width of at least 4, not {width}")
    return SinusoidalPositions(width, base=10_000.0 ** (half / (half - 1)), first=2)


class LearnedPositions(nn.Module):
    """A learned vector for each of `count` positions.

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
        """Add or concatenate the positions from `start` on (not 0 if earlier ones are cached)."""
        return join(x, tap("positions", self.rows(start, start + x.shape[1])), self.mode)

    def rows(self, start: int, end: int) -> Float[Tensor, "time width"]:
        """Return the encodings of positions `start` to `end` − 1."""
        table = self.table
        if torch.compiler.is_exporting():  # the exported graph looks up, and so checks, positions
            return F.embedding(torch.arange(start, end, device=table.device), table)
        if end > table.size(0):
            raise UserError(
                f"position {end - 1}: the model has learned positions 0 to {len(table) - 1}"
            )
        return table[start:end]


class RotaryPositions(nn.Module):
    """Rotary positions: rotate queries and keys so that their products depend on distances only.

    Columns k and k + width/2 are rotated together, as in most published models. Columns after the
    first `width` are left as they are.

    >>> rotate = RotaryPositions(4)
    >>> q, k = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4)
    >>> early, late = ((rotate(q, n + 2) * rotate(k, n)).sum() for n in (0, 70))
    >>> bool(torch.isclose(early, late, atol=1e-4))
    True
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, width: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if width % 2 or width < 2:
            raise UserError(f"rotary positions need an even width per head, not {width}")
        self.width, self.base = width, base
        cosines, sines = self._table(0, 256)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def _table(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Return the cosines and signed sines of positions `start` to `end` − 1."""
        if is_meta_default():
            return torch.empty(end - start, self.width), torch.empty(end - start, self.width)
        position = _count_from(start, end).unsqueeze(1)
        pair = torch.arange(self.width // 2, dtype=torch.float64)
        angles = position / self.base ** (2 * pair / self.width)
        sines, dtype = angles.sin(), torch.get_default_dtype()
        # A rotation subtracts in the first half and adds in the second.
        return angles.cos().repeat(1, 2).to(dtype), torch.cat((-sines, sines), 1).to(dtype)

    def forward(
        self, x: Float[Tensor, "batch heads time d"], start: int = 0
    ) -> Float[Tensor, "batch heads time d"]:
        """Rotate each vector by its position; the first has position `start`."""
        if x.size(-1) > self.width:
            rotated = self.forward(x.narrow(-1, 0, self.width), start)
            return torch.cat((rotated, x.narrow(-1, self.width, x.size(-1) - self.width)), -1)
        end, cosines, sines = start + x.size(-2), self.cosines, self.sines
        swapped = x.roll(self.width // 2, -1)
        if torch.compiler.is_exporting():  # no table is long enough for every length
            cosines, sines = (t.to(cosines) for t in self._table(start, end))
            return torch.addcmul(x * cosines, swapped, sines)
        if end > cosines.size(0):
            with torch.inference_mode(False):  # so that training can use the tables later
                cosines, sines = (t.to(cosines) for t in self._table(0, 2 * end))
            self.cosines, self.sines = cosines, sines
        return torch.addcmul(x * cosines[start:end], swapped, sines[start:end])


def _check_mode(mode: JoinMode) -> JoinMode:
    if mode not in get_args(JoinMode):
        raise UserError(f"mode {mode!r}: {did_you_mean(mode, get_args(JoinMode))}")
    return mode
