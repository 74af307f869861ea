"""What decoding needs of a model: a start, steps, and a state whose rows can be chosen."""

from typing import Any, Protocol, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

Self = TypeVar("Self", bound="State")


class State(Protocol):
    """What a model remembers of a batch of sequences, batch first."""

    def select(self: Self, rows: Int[Tensor, " chosen"]) -> Self:
        """Make a state of these rows, in this order, some perhaps several times."""


class Stepper(Protocol):
    """A model that generates: recurrent or Transformer; language model, translator, captioner."""

    def start(self, condition: Any) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a prompt or a source in one pass; score the first token."""

    def step(
        self, tokens: Int[Tensor, " batch"], state: Any
    ) -> tuple[Float[Tensor, "batch vocabulary"], Any]:
        """Read a token; score the next."""
