"""Where a translator looks while it writes: the weights of its cross-attention."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.models.recurrent_translator import RecurrentTranslator
from workings.models.translators import Sentences, Translator
from workings.trace import Trace


@torch.no_grad()
def cross_weights(
    model: Translator, source: Sentences, target: Int[Tensor, "batch time"]
) -> list[Float[Tensor, "batch heads time source"]]:
    """Of each layer, how much each place of a translation looks at each token of its source.

    `target` begins with the start token: its row k is what was seen when token k + 1 was chosen.
    Where nothing is looked at there are no layers.
    """
    if isinstance(model, RecurrentTranslator):
        if model.look is None:
            return []
        with Trace(model, only="look.weights") as trace:
            model(source, target)
        return [torch.stack(trace.steps("look.weights"), 2)]
    with Trace(model, only="decoder.*.cross.weights") as trace:
        model(source, target)
    return [trace[path] for path in trace]
