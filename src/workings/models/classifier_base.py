"""The base class of text classifiers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from workings.modules import Rebuildable


class TextClassifier(Rebuildable, ABC):
    """Base class of all text classifiers."""

    fixed_length: int | None = None  # the length of every text, if the model needs one
    is_causal: bool = False  # no position sees a later one

    def read_vocabulary(self, tokens: Sequence[str]) -> None:
        """Note the text of each token id; most models need the ids only."""

    def prepare(self, texts: Sequence[Sequence[int]], labels: ArrayLike) -> None:
        """Collect statistics of the training texts before training; most models need none.

        `labels` has the class of each text or, if it may have several, a row with 1 for each.
        """

    def featurize(self, ids: Sequence[int]) -> Sequence[int]:
        """Convert a text's token ids to the input of `forward`; by default the ids themselves."""
        return ids

    def featurize_batch(self, texts: Sequence[Sequence[int]]) -> list[NDArray[np.int32]]:
        """Convert several texts as `featurize` does."""
        # Arrays take half the memory of lists, and a fifth of the time to pad.
        return [np.asarray(self.featurize(ids), dtype=np.int32) for ids in texts]

    @abstractmethod
    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes."""
