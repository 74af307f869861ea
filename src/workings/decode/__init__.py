"""Decoding: the protocol of generating models; sampling and beam search are built on it."""

from typing import Any, Protocol, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

StateT = TypeVar("StateT", bound="DecoderState")


class DecoderState(Protocol):
    """The state of a batch of sequences; the batch is the first dimension."""

    def select(self: StateT, rows: Int[Tensor, " chosen"]) -> StateT:
        """Return the state of these rows, in this order; a row may occur repeatedly."""


class AutoregressiveModel(Protocol):
    """A model that generates token by token: a language model, translator or captioner."""

    def start(self, source: Any) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a prompt or encode a source; return the logits of the first token, and the state."""

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read one token of each sequence; return the logits of the next, and the new state."""
