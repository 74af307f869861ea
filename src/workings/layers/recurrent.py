"""Recurrent layers: torch's kernels; under an open trace, step by step with taps."""

import math
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from workings.errors import UserError, did_you_mean
from workings.layers.transformer import Dropout, apply_dropout
from workings.recipes import CellKind
from workings.trace import is_tapped, tap


class RNN(nn.RNN):
    """torch's RNN, but faster on a CPU: one autograd node per sequence, not one per time step."""

    def forward(self, x: Any, state: Tensor | None = None) -> tuple[Any, Tensor]:
        """Return the hidden states at all positions, and the last one."""
        if not self._can_use_fast_path(x, state):
            output: tuple[Any, Tensor] = super().forward(x, state)
            return output
        w_x, w_h, b_x, b_h = (getattr(self, f"{n}_l0") for n in _PARAMETERS)
        inputs = F.linear(x.transpose(0, 1), w_x, b_x + b_h)
        states: Tensor = _Recurrence.apply(inputs, w_h)  # type: ignore[no-untyped-call]
        return states.transpose(0, 1), states[-1:]

    def _can_use_fast_path(self, x: Any, state: Tensor | None) -> bool:
        is_simple = (
            self.num_layers == 1 and self.batch_first and self.bias and not self.bidirectional
        )
        return (
            is_simple
            and self.nonlinearity == "tanh"
            and state is None
            and isinstance(x, Tensor)  # not a PackedSequence
            and x.dim() == 3
            and x.is_cpu
            and x.numel() > 0
            and x.dtype == self.all_weights[0][0].dtype
            and not torch.is_autocast_enabled("cpu")
            and not torch.compiler.is_compiling()
        )


class _Recurrence(torch.autograd.Function):
    """`h_t = tanh(x_t + W h_(t−1))`, time first; the gradient of W is one product at the end.

    Gradients can be computed once: there is no second derivative.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        states, h = torch.empty_like(x), x.new_zeros(x.shape[1:])
        for x_t, out in zip(x.unbind(), states.unbind(), strict=True):
            h = torch.addmm(x_t, h, weight.t(), out=out).tanh_()
        ctx.save_for_backward(states, weight)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor]:
        states, weight = ctx.saved_tensors
        derivative = 1 - states * states  # of the tanh
        grad_inputs = torch.empty_like(states)
        later = torch.zeros_like(grad_inputs[0])
        steps = zip(grad_states.unbind(), derivative.unbind(), grad_inputs.unbind(), strict=True)
        for grad_h, slope, out in reversed(list(steps)):
            later = torch.addmm(grad_h, later, weight, out=out).mul_(slope)
        return grad_inputs, grad_inputs[1:].flatten(0, 1).t() @ states[:-1].flatten(0, 1)


class LSTM(nn.LSTM):
    """torch's LSTM, but in 32 bits on a CPU: with autocast, torch's needs a CPU with bfloat16."""

    def forward(self, x: Any, state: Any = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Return the hidden states at all positions, and the last one with its cell state."""
        if isinstance(x, Tensor) and x.is_cpu and torch.is_autocast_enabled("cpu"):
            dtype = self.all_weights[0][0].dtype
            x, state = x.to(dtype), state and tuple(t.to(dtype) for t in state)
            with torch.autocast("cpu", enabled=False):
                return self.forward(x, state)
        output: tuple[Any, tuple[Tensor, Tensor]] = super().forward(x, state)
        return output


CELLS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": RNN, "gru": nn.GRU, "lstm": LSTM}
HiddenState: TypeAlias = tuple[Tensor, ...]  # (h,), or (h, c) of an LSTM
_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
TAPS = ("hidden", "cell", "input", "forget", "candidate", "output", "reset", "update")


class RecurrentLayer(nn.Module):
    """One recurrent layer in one direction: an RNN, GRU or LSTM.

    With `reverse`, each sequence is reversed within its length, so that padding is read last and
    does not count (packed sequences train several times slower on a CPU).

    Taps, one entry per time step: hidden; input, forget, candidate, output and cell of an LSTM;
    reset, update and candidate of a GRU.

    >>> states, last, _ = RecurrentLayer("gru", input_size=4, hidden_size=8)(torch.ones(2, 5, 4))
    >>> states.shape, last.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 8]))
    """

    def __init__(
        self,
        cell: CellKind,
        input_size: int,
        hidden_size: int,
        *,
        reverse: bool = False,
        chrono_init: int | None = None,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if cell not in CELLS:
            raise UserError(f"cell {cell!r}: {did_you_mean(cell, CELLS)}")
        self.cell, self.hidden_size, self.reverse = cell, hidden_size, reverse
        self.recurrent_dropout = recurrent_dropout
        self.layer = CELLS[cell](input_size, hidden_size, batch_first=True)
        if chrono_init is not None:
            self._init_chrono(chrono_init)

    @torch.no_grad()
    def _init_chrono(self, max_steps: int) -> None:
        """Initialize the gates so that cells remember for 1 to `max_steps` time steps.

        Chrono initialization (Tallec and Ollivier 2018), but with memory lengths that are uniform
        on a logarithmic scale: most of the next token depends on the last few.
        """
        if self.cell != "lstm":
            raise UserError(f"chrono_init = {max_steps}: only for an lstm, not for a {self.cell}")
        forget_bias = torch.empty(self.hidden_size).uniform_(0, math.log(max_steps))
        bias: Tensor = getattr(self.layer, _PARAMETERS[2] + "_l0")
        input_gate, forget_gate = bias.chunk(4)[:2]
        forget_gate.copy_(forget_bias)
        input_gate.copy_(-forget_bias)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        lengths: Int[Tensor, " batch"] | None = None,
        hidden_state: HiddenState | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"], HiddenState]:
        """Return the states at all positions, the state at the last token, and the final state.

        A later call with the final state as `hidden_state` continues the sequences, if they are
        not padded.
        """
        x = reverse_within_length(x, lengths) if self.reverse else x
        if torch.compiler.is_exporting():
            states, final = self._forward_exported(x, lengths, hidden_state)
        elif is_tapped(*TAPS):
            states, final = self._forward_stepwise(x, hidden_state)
        else:
            states, final = self._forward_fused(x, hidden_state)
        if lengths is None:
            last = states[:, -1]
        else:
            index = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, self.hidden_size)
            last = states.gather(1, index).squeeze(1)
        return (reverse_within_length(states, lengths) if self.reverse else states), last, final

    def _forward_fused(
        self, x: Tensor, hidden_state: HiddenState | None
    ) -> tuple[Tensor, HiddenState]:
        """Call torch's layer."""
        initial = None
        if hidden_state is not None:
            h, *c = (t.unsqueeze(0).contiguous() for t in hidden_state)
            initial = (h, *c) if c else h
        if self.training and self.recurrent_dropout:
            dropped = self._drop_recurrent_weights()
            states, last = functional_call(self.layer, dropped, (x, initial))
        else:
            states, last = self.layer(x, initial)
        final = last if isinstance(last, tuple) else (last,)
        return states, tuple(t.squeeze(0) for t in final)

    def _drop_recurrent_weights(self) -> dict[str, Tensor]:
        """Return the hidden-to-hidden weights with some of them zero, by their name.

        All time steps have the same mask (DropConnect: Merity et al., 2018).
        """
        name = f"{_PARAMETERS[1]}_l0"
        return {name: apply_dropout(getattr(self.layer, name), self.recurrent_dropout)}

    def _forward_exported(
        self, x: Tensor, lengths: Tensor | None, hidden_state: HiddenState | None
    ) -> tuple[Tensor, HiddenState]:
        """Compute the same as one operator, which torch.export does not unroll.

        The final state is that after the last token, also of padded sequences.
        """
        from workings.layers.recurrence_op import recurrence

        state = hidden_state
        if state is None:
            zeros = x.new_zeros(x.shape[0], self.hidden_size)
            state = (zeros, torch.zeros_like(zeros)) if self.cell == "lstm" else (zeros,)
        weights = [getattr(self.layer, f"{n}_l0") for n in _PARAMETERS]
        lengths = None if lengths is None else lengths.clamp(min=1)
        states, *final = recurrence(self.cell, x, lengths, list(state), weights)
        return states, tuple(final)

    def _forward_stepwise(
        self, x: Tensor, hidden_state: HiddenState | None
    ) -> tuple[Tensor, HiddenState]:
        """Compute the same as torch's layer, one time step at a time, with taps."""
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
    forget_gate, input_gate = tap("forget", torch.sigmoid(f)), tap("input", torch.sigmoid(i))
    c = tap("cell", forget_gate * c + input_gate * tap("candidate", torch.tanh(g)))
    return tap("output", torch.sigmoid(o)) * torch.tanh(c), c


def reverse_within_length(
    x: Float[Tensor, "batch time width"], lengths: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch time width"]:
    """Reverse each sequence within its length; padding stays at the end.

    >>> reverse_within_length(torch.tensor([[[1.0], [2.0], [0.0]]]), torch.tensor([2])).flatten()
    tensor([2., 1., 0.])
    """
    if lengths is None:
        return x.flip(1)
    batch, time = x.shape[:2]
    position = torch.arange(time, device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - position
    first_row = time * torch.arange(batch, device=x.device).unsqueeze(1)
    order = torch.where(mirrored >= 0, mirrored, position) + first_row
    return _permute_rows(x, order)


class _RowPermutation(torch.autograd.Function):
    """Reorder rows by a permutation that is its own inverse; `gather` takes seven times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.flatten(0, 1).index_select(0, order.flatten()).view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return _permute_rows(grad_output, order), None


def _permute_rows(x: Tensor, order: Tensor) -> Tensor:
    if torch.compiler.is_exporting():  # an exported graph has no derivatives of ours
        return x.flatten(0, 1).index_select(0, order.flatten()).view_as(x)
    reordered: Tensor = _RowPermutation.apply(x, order)  # type: ignore[no-untyped-call]
    return reordered


class RecurrentStack(nn.Module):
    """Stacked recurrent layers, in one or both directions, with dropout between layers.

    >>> stack = RecurrentStack("lstm", input_size=4, hidden_size=8, layers=2, bidirectional=True)
    >>> stack(torch.ones(2, 5, 4))[0].shape
    torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        cell: CellKind,
        input_size: int,
        hidden_size: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        chrono_init: int | None = None,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        directions = 2 if bidirectional else 1
        self.cell, self.hidden_size = cell, hidden_size
        self.output_size = hidden_size * directions
        self.layers = nn.ModuleList(
            nn.ModuleList(
                RecurrentLayer(
                    cell,
                    input_size if k == 0 else self.output_size,
                    hidden_size,
                    reverse=bool(direction),
                    chrono_init=chrono_init,
                    recurrent_dropout=recurrent_dropout,
                )
                for direction in range(directions)
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
        Float[Tensor, "batch time out"],
        Float[Tensor, "batch directions hidden"],
        list[list[HiddenState]],
    ]:
        """Return the top layer's states, its state at the last token, and all final states.

        A later call with the final states as `hidden_states` continues the sequences, if there is
        one direction and no padding.
        """
        last: list[Tensor] = []
        final_states: list[list[HiddenState]] = []
        for k, directions in enumerate(self.layers):
            assert isinstance(directions, nn.ModuleList)
            initial = [None] * len(directions) if hidden_states is None else hidden_states[k]
            x = x if k == 0 else self.dropout(x)
            outputs = [
                layer(x, lengths, state) for layer, state in zip(directions, initial, strict=True)
            ]
            x = torch.cat([states for states, _, _ in outputs], -1)
            last = [state for _, state, _ in outputs]
            final_states.append([state for _, _, state in outputs])
        return x, torch.stack(last, dim=1), final_states
