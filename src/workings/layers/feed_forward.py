"""The feed-forward layer of a Transformer block."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import UserError, expect_width, near
from workings.layers.dropout import Dropout
from workings.trace import tap

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # what GPT-2 was trained with
    "silu": F.silu,  # Marian's "swish"
}


class FeedForward(nn.Module):
    """`W_2 σ(W_1 x + b_1) + b_2`, at each position on its own. Taps: hidden, activated.

    >>> from torch import ones
    >>> FeedForward(4, 16, activation="gelu")(ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self, width: int, hidden: int, *, activation: str = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UserError(f"activation {activation!r}: {near(activation, ACTIVATIONS)}")
        self.activation = activation
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Widen, bend, narrow."""
        expect_width(x.shape[-1], self.inner.in_features)
        hidden = tap("hidden", self.inner(x))
        activated = tap("activated", ACTIVATIONS[self.activation](hidden))
        output: Tensor = self.outer(self.dropout(activated))
        return output
