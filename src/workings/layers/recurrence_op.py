"""The operator `workings::recurrence`: a whole recurrent layer as one node of an exported graph.

torch.export would unroll torch's own layers at the length of the example. ONNX has the same
operator under the names RNN, GRU and LSTM. Importing this module registers the operator.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

_KERNELS: dict[str, Any] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}


@torch.library.custom_op("workings::recurrence", mutates_args=())
def recurrence(
    cell: str, x: Tensor, lengths: Tensor | None, state: list[Tensor], weights: list[Tensor]
) -> list[Tensor]:
    """Return the states at all positions, then the final state (h, or h and c), at each length.

    - `x`: `[batch, time, width]`.
    - `lengths`: `[batch]`, each at least 1, or None if there is no padding.
    - `state`: the initial state, `[batch, hidden]` each.
    - `weights`: W_x, W_h, b_x and b_h, as torch's layers stack them.
    """
    initial = [t.unsqueeze(0) for t in state]
    hx = initial if cell == "lstm" else initial[0]
    settings = (True, 1, 0.0, False, False)  # bias, layers, dropout, training, bidirectional
    kernel = _KERNELS[cell]
    if lengths is None:
        states, *final = kernel(x, hx, weights, *settings, True)
    else:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order = packed.sorted_indices
        hx = [t[:, order] for t in initial] if cell == "lstm" else initial[0][:, order]
        data, *final = kernel(packed.data, packed.batch_sizes, hx, weights, *settings)
        final = [t[:, packed.unsorted_indices] for t in final]
        states, _ = pad_packed_sequence(
            packed._replace(data=data), batch_first=True, total_length=x.shape[1]
        )
    return [states.contiguous(), *(t.squeeze(0).contiguous() for t in final)]


@recurrence.register_fake
def _(
    cell: str, x: Tensor, lengths: Tensor | None, state: list[Tensor], weights: list[Tensor]
) -> list[Tensor]:
    del cell, lengths, weights
    return [x.new_empty(*x.shape[:2], state[0].shape[-1]), *map(torch.empty_like, state)]
