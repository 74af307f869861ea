"""Recurrent layers: torch's own speed when nobody looks, step by step with taps when one does."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.errors import UserError, near
from workings.recipes import CellKind
from workings.trace import tap, wanted

CELLS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
TAPS = ("hidden", "cell", "input", "forget", "candidate", "output", "reset", "update")


class Direction(nn.Module):
    """One recurrent layer in one direction. Taps, one entry a time step: hidden, and the gates.

    Backwards, each sequence is turned round by its own length first, so that padding is read last
    and never counts: exact, and as fast as reading it (packed sequences train several times slower
    on a CPU).
    """

    def __init__(self, cell: CellKind, width: int, hidden: int, *, backwards: bool = False) -> None:
        super().__init__()
        if cell not in CELLS:
            raise UserError(f"cell {cell!r}: {near(cell, CELLS)}")
        self.cell, self.hidden, self.backwards = cell, hidden, backwards
        self.layer = CELLS[cell](width, hidden, batch_first=True)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
        """Read the sequence; return the state at each position and the last real one."""
        x = turned(x, lengths) if self.backwards else x
        states = self._stepwise(x) if wanted(*TAPS) else self.layer(x)[0]
        if lengths is None:
            last = states[:, -1]
        else:
            place = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, self.hidden)
            last = states.gather(1, place).squeeze(1)
        return (turned(states, lengths) if self.backwards else states), last

    def _stepwise(self, x: Tensor) -> Tensor:
        """Do what torch's layer does, a time step at a time, in the open."""
        w_x, w_h, b_x, b_h = (getattr(self.layer, f"{n}_l0") for n in _PARAMETERS)
        h = c = x.new_zeros(x.shape[0], self.hidden)
        states = []
        for t in range(x.shape[1]):
            from_x, from_h = F.linear(x[:, t], w_x, b_x), F.linear(h, w_h, b_h)
            if self.cell == "rnn":
                h = torch.tanh(from_x + from_h)
            elif self.cell == "gru":
                h = _gru(from_x, from_h, h)
            else:
                h, c = _lstm(from_x + from_h, c)
            h = tap("hidden", h)
            states.append(h)
        return torch.stack(states, dim=1)


_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _gru(from_x: Tensor, from_h: Tensor, h: Tensor) -> Tensor:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_x.chunk(3, -1), from_h.chunk(3, -1)
    reset = tap("reset", torch.sigmoid(x_r + h_r))
    update = tap("update", torch.sigmoid(x_z + h_z))
    candidate = tap("candidate", torch.tanh(x_n + reset * h_n))
    return (1 - update) * candidate + update * h


def _lstm(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, -1)
    keep, take = tap("forget", torch.sigmoid(f)), tap("input", torch.sigmoid(i))
    c = tap("cell", keep * c + take * tap("candidate", torch.tanh(g)))
    return tap("output", torch.sigmoid(o)) * torch.tanh(c), c


def turned(
    x: Float[Tensor, "batch time width"], lengths: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch time width"]:
    """Turn each sequence round within its own length; padding stays where it is.

    >>> turned(torch.tensor([[[1.0], [2.0], [0.0]]]), torch.tensor([2])).flatten()
    tensor([2., 1., 0.])
    """
    if lengths is None:
        return x.flip(1)
    batch, time = x.shape[:2]
    place = torch.arange(time, device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - place
    first = time * torch.arange(batch, device=x.device).unsqueeze(1)
    order = torch.where(mirrored >= 0, mirrored, place) + first
    return _reordered(x, order)


class _Turned(torch.autograd.Function):
    """Rows in an order that, taken twice, is the old one; `gather` takes seven times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.flatten(0, 1).index_select(0, order.flatten()).view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return _reordered(gradient, order), None


def _reordered(x: Tensor, order: Tensor) -> Tensor:
    reordered: Tensor = _Turned.apply(x, order)  # type: ignore[no-untyped-call]
    return reordered


class Recurrent(nn.Module):
    """Recurrent layers on top of each other, one or both ways, dropout between them."""

    def __init__(
        self,
        cell: CellKind,
        width: int,
        hidden: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        ways = 2 if bidirectional else 1
        self.output_width = hidden * ways
        self.layers = nn.ModuleList(
            nn.ModuleList(
                Direction(
                    cell,
                    width if k == 0 else self.output_width,
                    hidden,
                    backwards=bool(way),
                )
                for way in range(ways)
            )
            for k in range(layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time out"], Float[Tensor, "batch ways hidden"]]:
        """Return the top layer's states at each position, and its last state each way."""
        lasts: list[Tensor] = []
        for k, ways in enumerate(self.layers):
            assert isinstance(ways, nn.ModuleList)
            read = [way(x if k == 0 else self.dropout(x), lengths) for way in ways]
            x, lasts = (
                torch.cat([states for states, _ in read], -1),
                [last for _, last in read],
            )
        return x, torch.stack(lasts, dim=1)
