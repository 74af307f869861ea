"""Recurrent layers: torch's own speed when nobody looks, step by step with taps when one does."""

import math
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from workings.errors import UserError, did_you_mean
from workings.layers.dropout import Dropout
from workings.recipes import CellKind
from workings.trace import is_tapped, tap


class RNN(nn.RNN):
    """torch's. On a CPU a single layer does without autograd's bookkeeping at every time step."""

    def forward(self, x: Any, state: Tensor | None = None) -> tuple[Any, Tensor]:
        """Read the sequence; return the state at each position, and the last one."""
        if not self._can_use_fast_path(x, state):
            read: tuple[Any, Tensor] = super().forward(x, state)
            return read
        w_x, w_h, b_x, b_h = (getattr(self, f"{n}_l0") for n in _PARAMETERS)
        seen = F.linear(x.transpose(0, 1), w_x, b_x + b_h)
        states: Tensor = _Recurrence.apply(seen, w_h)  # type: ignore[no-untyped-call]
        return states.transpose(0, 1), states[-1:]

    def _can_use_fast_path(self, x: Any, state: Tensor | None) -> bool:
        own = self.num_layers == 1 and self.batch_first and self.bias and not self.bidirectional
        return (
            own
            and self.nonlinearity == "tanh"
            and state is None
            and isinstance(x, Tensor)  # and not packed
            and x.dim() == 3
            and x.is_cpu
            and x.numel() > 0
            and x.dtype == self.all_weights[0][0].dtype
            and not torch.is_autocast_enabled("cpu")
            and not torch.compiler.is_compiling()
        )


class _Recurrence(torch.autograd.Function):
    """`h_t = tanh(x_t + W h_(t−1))`, time first; the gradient of W is one product at the end."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        states, h = torch.empty_like(x), x.new_zeros(x.shape[1:])
        for seen, out in zip(x.unbind(), states.unbind(), strict=True):
            h = torch.addmm(seen, h, weight.t(), out=out).tanh_()
        ctx.save_for_backward(states, weight)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        states, weight = ctx.saved_tensors
        slope = 1 - states * states
        inner = torch.empty_like(states)  # the gradient inside the tanh
        later = torch.zeros_like(inner[0])
        steps = zip(gradient.unbind(), slope.unbind(), inner.unbind(), strict=True)
        for given, bend, out in reversed(list(steps)):
            later = torch.addmm(given, later, weight, out=out).mul_(bend)
        return inner, inner[1:].flatten(0, 1).t() @ states[:-1].flatten(0, 1)


class LSTM(nn.LSTM):
    """torch's; but on a CPU with 32 bits always: where a CPU lacks those of 16, torch's fails."""

    def forward(self, x: Any, state: Any = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Read the sequence; return the state at each position, and the last one with its cell."""
        if isinstance(x, Tensor) and x.is_cpu and torch.is_autocast_enabled("cpu"):
            dtype = self.all_weights[0][0].dtype
            x, state = x.to(dtype), state and tuple(t.to(dtype) for t in state)
            with torch.autocast("cpu", enabled=False):
                return self.forward(x, state)
        read: tuple[Any, tuple[Tensor, Tensor]] = super().forward(x, state)
        return read


CELLS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": RNN, "gru": nn.GRU, "lstm": LSTM}
HiddenState: TypeAlias = tuple[Tensor, ...]
_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
TAPS = ("hidden", "cell", "input", "forget", "candidate", "output", "reset", "update")


class RecurrentLayer(nn.Module):
    """One recurrent layer in one direction. Taps, one entry a time step: hidden, and the gates.

    Backwards, each sequence is turned round by its own length first, so that padding is read last
    and never counts: exact, and as fast as reading it (packed sequences train several times slower
    on a CPU).
    """

    def __init__(
        self,
        cell: CellKind,
        input_size: int,
        hidden_size: int,
        *,
        reverse: bool = False,
        chrono_steps: int | None = None,
    ) -> None:
        super().__init__()
        if cell not in CELLS:
            raise UserError(f"cell {cell!r}: {did_you_mean(cell, CELLS)}")
        self.cell, self.hidden_size, self.reverse = cell, hidden_size, reverse
        self.layer = CELLS[cell](input_size, hidden_size, batch_first=True)
        if chrono_steps is not None:
            self._init_chrono(chrono_steps)

    @torch.no_grad()
    def _init_chrono(self, steps: int) -> None:
        """Begin with gates that keep a cell for one to so many steps, and let as little in.

        After Tallec and Ollivier, Can recurrent neural networks warp time?, 2018; but as many
        cells for ten to a hundred steps as for one to ten: most of a text is read off its nearest.
        """
        if self.cell != "lstm":
            raise UserError(f"memory = {steps}: for an lstm's cells, not for a {self.cell}")
        kept = torch.empty(self.hidden_size).uniform_(0, math.log(steps))
        bias: Tensor = getattr(self.layer, _PARAMETERS[2] + "_l0")
        take, keep = bias.chunk(4)[:2]
        keep.copy_(kept)
        take.copy_(-kept)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None = None,
        hidden_state: HiddenState | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"], HiddenState]:
        """Read the sequence; return the state at each position, the last real one, and a memory.

        With the memory, (h,) or an LSTM's (h, c), a later call goes on where this one ended, if
        the sequences are not padded.
        """
        x = reverse_within_length(x, lengths) if self.reverse else x
        states, ended = (
            self._forward_stepwise(x, hidden_state)
            if is_tapped(*TAPS)
            else self._forward_fused(x, hidden_state)
        )
        if lengths is None:
            last = states[:, -1]
        else:
            place = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, self.hidden_size)
            last = states.gather(1, place).squeeze(1)
        return (reverse_within_length(states, lengths) if self.reverse else states), last, ended

    def _forward_fused(
        self, x: Tensor, hidden_state: HiddenState | None
    ) -> tuple[Tensor, HiddenState]:
        first = None
        if hidden_state is not None:
            h, *c = (t.unsqueeze(0).contiguous() for t in hidden_state)
            first = (h, *c) if c else h
        states, last = self.layer(x, first)
        ended = last if isinstance(last, tuple) else (last,)
        return states, tuple(t.squeeze(0) for t in ended)

    def _forward_stepwise(
        self, x: Tensor, hidden_state: HiddenState | None
    ) -> tuple[Tensor, HiddenState]:
        """Do what torch's layer does, a time step at a time, in the open."""
        w_x, w_h, b_x, b_h = (getattr(self.layer, f"{n}_l0") for n in _PARAMETERS)
        h = c = x.new_zeros(x.shape[0], self.hidden_size)
        if hidden_state is not None:
            h, c = hidden_state[0], hidden_state[-1]
        states = []
        for t in range(x.shape[1]):
            from_x, from_h = F.linear(x[:, t], w_x, b_x), F.linear(h, w_h, b_h)
            if self.cell == "rnn":
                h = torch.tanh(from_x + from_h)
            elif self.cell == "gru":
                h = _gru_step(from_x, from_h, h)
            else:
                h, c = _lstm_step(from_x + from_h, c)
            h = tap("hidden", h)
            states.append(h)
        return torch.stack(states, dim=1), (h, c) if self.cell == "lstm" else (h,)


def _gru_step(from_x: Tensor, from_h: Tensor, h: Tensor) -> Tensor:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_x.chunk(3, -1), from_h.chunk(3, -1)
    reset = tap("reset", torch.sigmoid(x_r + h_r))
    update = tap("update", torch.sigmoid(x_z + h_z))
    candidate = tap("candidate", torch.tanh(x_n + reset * h_n))
    return (1 - update) * candidate + update * h


def _lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, -1)
    keep, take = tap("forget", torch.sigmoid(f)), tap("input", torch.sigmoid(i))
    c = tap("cell", keep * c + take * tap("candidate", torch.tanh(g)))
    return tap("output", torch.sigmoid(o)) * torch.tanh(c), c


def reverse_within_length(
    x: Float[Tensor, "batch time width"], lengths: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch time width"]:
    """Turn each sequence round within its own length; padding stays where it is.

    >>> reverse_within_length(torch.tensor([[[1.0], [2.0], [0.0]]]), torch.tensor([2])).flatten()
    tensor([2., 1., 0.])
    """
    if lengths is None:
        return x.flip(1)
    batch, time = x.shape[:2]
    place = torch.arange(time, device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - place
    first = time * torch.arange(batch, device=x.device).unsqueeze(1)
    order = torch.where(mirrored >= 0, mirrored, place) + first
    return _permute_rows(x, order)


class _RowPermutation(torch.autograd.Function):
    """Rows in an order that, taken twice, is the old one; `gather` takes seven times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.flatten(0, 1).index_select(0, order.flatten()).view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return _permute_rows(gradient, order), None


def _permute_rows(x: Tensor, order: Tensor) -> Tensor:
    reordered: Tensor = _RowPermutation.apply(x, order)  # type: ignore[no-untyped-call]
    return reordered


class RecurrentStack(nn.Module):
    """Recurrent layers on top of each other, one or both ways, dropout between them."""

    def __init__(
        self,
        cell: CellKind,
        input_size: int,
        hidden_size: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        chrono_steps: int | None = None,
    ) -> None:
        super().__init__()
        ways = 2 if bidirectional else 1
        self.output_size = hidden_size * ways
        self.layers = nn.ModuleList(
            nn.ModuleList(
                RecurrentLayer(
                    cell,
                    input_size if k == 0 else self.output_size,
                    hidden_size,
                    reverse=bool(way),
                    chrono_steps=chrono_steps,
                )
                for way in range(ways)
            )
            for k in range(layers)
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None = None,
        hidden_states: list[list[HiddenState]] | None = None,
    ) -> tuple[
        Float[Tensor, "batch time out"], Float[Tensor, "batch ways hidden"], list[list[HiddenState]]
    ]:
        """Return the top layer's states at each position, its last state each way, and memories.

        With the memories, a later call goes on where this one ended (one way, without padding).
        """
        lasts: list[Tensor] = []
        ended: list[list[HiddenState]] = []
        for k, ways in enumerate(self.layers):
            assert isinstance(ways, nn.ModuleList)
            before = [None] * len(ways) if hidden_states is None else hidden_states[k]
            x = x if k == 0 else self.dropout(x)
            read = [way(x, lengths, memory) for way, memory in zip(ways, before, strict=True)]
            x = torch.cat([states for states, _, _ in read], -1)
            lasts = [last for _, last, _ in read]
            ended.append([memory for _, _, memory in read])
        return x, torch.stack(lasts, dim=1), ended
