"""The base class of text classifiers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice

from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from workings.modules import Rebuildable
from workings.ragged import RaggedArray, Row

FEATURIZED_TEXTS = 1000  # whose features are in arrays of their own for a while


class TextClassifier(Rebuildable, ABC):
    """Base class of all text classifiers."""

    fixed_length: int | None = None  # the length of every text, if the model needs one
    is_causal: bool = False  # no position sees a later one

    def read_vocabulary(self, tokens: Sequence[str]) -> None:
        """Note the text of each token id; most models need the ids only."""

    def prepare(self, texts: Sequence[Row], labels: ArrayLike) -> None:
        """Collect statistics of the training texts before training; most models need none.

        `labels` has the class of each text or, if it may have several, a row with 1 for each.
        """

    def featurize(self, ids: Row) -> Row:
        """Convert a text's token ids to the input of `forward`; by default the ids themselves."""
        return ids

    def featurize_batch(self, texts: Sequence[Row]) -> RaggedArray:
        """Convert several texts as `featurize` does."""
        if type(self).featurize is TextClassifier.featurize and isinstance(texts, RaggedArray):
            return texts
        features = (self.featurize(ids) for ids in texts)
        parts = []
        while part := list(islice(features, FEATURIZED_TEXTS)):
            parts.append(RaggedArray.build(part, "int32"))
        return RaggedArray.concatenate(parts, "int32")

    @abstractmethod
    def forward(
        self, ids: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes."""
