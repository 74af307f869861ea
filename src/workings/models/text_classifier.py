"""What every text classifier is to the task that trains it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn


class TextClassifier(nn.Module, ABC):
    """Ids in, a score for each class out."""

    fixed_length: int | None = None  # set where every text must have the same length

    def prepare(self, texts: Sequence[Sequence[int]], labels: Sequence[int]) -> None:
        """Look at the training texts once, before training; most models need not."""

    def features(self, ids: Sequence[int]) -> Sequence[int]:
        """Turn a text's ids into what `forward` reads; for most models the ids themselves."""
        return ids

    @abstractmethod
    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Score the classes."""
