"""A bag of n-grams, each weighted by how much it tells the classes apart: linear, and hard to beat.

The score of a class is a sum over the text's n-grams of `r · u`: r is the log of how much likelier
the n-gram is in texts of the class than in the others (counted once, before training, as naive
Bayes does), u is trained. It is the idea of NB-SVM (Wang and Manning, 2012) as a small network.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from workings.errors import UserError
from workings.models.text_classifier import TextClassifier
from workings.recipes import NgramConfig
from workings.trace import tap


class NgramClassifier(TextClassifier):
    """Scores classes by the n-grams that occur in a text, however often."""

    keys: Tensor
    ratios: Tensor

    def __init__(self, config: NgramConfig, vocabulary: int, classes: int) -> None:
        super().__init__()
        if vocabulary**config.longest >= 2**62:
            raise UserError(
                f"longest = {config.longest}: too long for {vocabulary:,} tokens to tell apart"
            )
        self.config, self.vocabulary, self.classes = config, vocabulary, classes
        # Row 0 is padding. `keys` are the n-grams as numbers, in order.
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("ratios", torch.zeros(1, classes))
        self.weights = nn.Parameter(torch.zeros(1, classes))
        self.bias = nn.Parameter(torch.zeros(classes))

    def prepare(self, texts: Sequence[Sequence[int]], labels: Sequence[int]) -> None:
        """Count the n-grams of the training texts and how they lean."""
        if len(self.keys):
            return  # counted when the run began
        found = [self._ngrams(ids) for ids in texts]
        keys, places = np.unique(np.concatenate(found), return_inverse=True)
        of_text = np.repeat(np.asarray(labels), [len(f) for f in found])
        counts = np.zeros((len(keys), self.classes))
        np.add.at(counts, (places, of_text), 1)
        often = counts.sum(1) >= self.config.min_count
        if not often.any():
            raise UserError(
                f"too few texts to learn from, {len(texts):,} with {sum(map(len, texts)):,} tokens"
                f": no n-gram is in {self.config.min_count:,} of them; a lower model.min_count?"
            )
        inside = counts[often] + 1  # one for luck, so that nothing is impossible
        outside = counts[often].sum(1, keepdims=True) - counts[often] + 1
        ratios = np.log(inside / inside.sum(0)) - np.log(outside / outside.sum(0))
        self.keys = torch.from_numpy(keys[often])
        self.ratios = torch.cat((torch.zeros(1, self.classes), torch.from_numpy(ratios).float()))
        self.weights = nn.Parameter(torch.zeros_like(self.ratios))

    def features(self, ids: Sequence[int]) -> Any:
        """Number the n-grams of a text that were counted; each once, from 1."""
        numbers = self._numbers(self._ngrams(ids))
        return numbers[numbers > 0]

    def numbered(self, ids: Sequence[int]) -> list[NDArray[np.int64]]:
        """Number the single tokens, the pairs, … that begin at each place; 0: never counted."""
        return [self._numbers(keys) for keys in self._by_length(ids)]

    def _numbers(self, found: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = self.keys.numpy()
        if not len(keys) or not len(found):
            return np.zeros(len(found), dtype=np.int64)
        place = np.searchsorted(keys, found).clip(max=len(keys) - 1)
        return np.where(keys[place] == found, place + 1, 0)

    def _ngrams(self, ids: Sequence[int]) -> NDArray[np.int64]:
        return np.unique(np.concatenate(self._by_length(ids)))

    def _by_length(self, ids: Sequence[int]) -> list[NDArray[np.int64]]:
        """Write each n-gram as one number, in a number system with a digit for every token."""
        tokens = np.asarray(ids, dtype=np.int64) + 1  # 0 is no token, so that lengths differ
        base, grown, all_of_them = self.vocabulary + 1, tokens, [tokens]
        for n in range(1, self.config.longest):
            if len(tokens) <= n:
                break
            grown = grown[:-1] * base + tokens[n:]
            all_of_them.append(grown)
        return all_of_them

    def forward(
        self,
        ids: Int[Tensor, "batch ngrams"],
        lengths: Int[Tensor, " batch"],  # noqa: ARG002
    ) -> Float[Tensor, "batch classes"]:
        """Add up what the n-grams say."""
        says = self.ratios * self.weights
        if self.training and self.config.dropout:
            kept = torch.rand(ids.shape, device=ids.device) >= self.config.dropout
            ids = ids * kept
        return tap("scores", F.embedding_bag(ids, says, mode="sum", padding_idx=0)) + self.bias

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Make room for as many n-grams as were counted."""
        count = state[f"{prefix}keys"].numel()
        rows = (count + 1, self.classes)
        for name, shape in (("keys", (count,)), ("ratios", rows), ("weights", rows)):
            if state[f"{prefix}{name}"].shape != shape:
                raise RuntimeError(f"{name}: expected the shape {shape}")
        if self.weights.shape != state[f"{prefix}weights"].shape:  # else somebody may train them
            for name in ("keys", "ratios"):
                setattr(self, name, torch.zeros_like(state[f"{prefix}{name}"]))
            self.weights = nn.Parameter(torch.zeros_like(state[f"{prefix}weights"]))
        super()._load_from_state_dict(state, prefix, *rest)
