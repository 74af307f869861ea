"""Decoding, written once over start and step: greedy, sampling, beam search."""

from typing import Any, Protocol, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

StateT = TypeVar("StateT", bound="DecoderState")


class DecoderState(Protocol):
    """What a model remembers of a batch of sequences, batch first."""

    def select(self: StateT, rows: Int[Tensor, " chosen"]) -> StateT:
        """Make a state of these rows, in this order, some perhaps several times."""


class AutoregressiveModel(Protocol):
    """A model that generates: recurrent or Transformer; language model, translator, captioner."""

    def start(self, source: Any) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a prompt or a source in one pass; score the first token."""

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a token; score the next."""
