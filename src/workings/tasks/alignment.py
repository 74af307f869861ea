"""Where a model looks while it writes: the weights of its cross-attention."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.models.recurrent_writer import RecurrentWriter
from workings.models.writers import Condition, Writer
from workings.trace import Trace


@torch.no_grad()
def cross_weights(
    model: Writer[Any], about: Condition, target: Int[Tensor, "batch time"]
) -> list[Float[Tensor, "batch heads time places"]]:
    """Of each layer, how much each place of a text looks at each of what it is written about.

    `target` begins with the start token: its row k is what was seen when token k + 1 was chosen.
    Where nothing is looked at there are no layers.
    """
    if isinstance(model, RecurrentWriter):
        if model.look is None:
            return []
        with Trace(model, only="look.weights") as trace:
            model(about, target)
        return [torch.stack(trace.steps("look.weights"), 2)]
    with Trace(model, only="decoder.*.cross.weights") as trace:
        model(about, target)
    return [trace[path] for path in trace]
