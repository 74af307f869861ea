"""How labels become targets, losses, probabilities, predictions and metrics.

A text has one label of several (`SingleLabel`: softmax and cross-entropy), or any number of labels
(`MultiLabel`: a sigmoid and binary cross-entropy for each).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from workings.data.readers import Example
from workings.errors import UserError, did_you_mean
from workings.metrics.classification import (
    MULTI_LABEL_METRICS,
    SINGLE_LABEL_METRICS,
    ClassCounts,
    balance_classes,
    count_indicators,
    count_indices,
    measure_multi_label,
    measure_single_label,
)

Target = int | tuple[int, ...]
"""the index of a text's label, or those of all its labels"""


class LabelScheme(ABC):
    """The classes of a classifier, and what its logits mean."""

    metrics: ClassVar[tuple[str, ...]]
    """the names of what `measure` returns"""
    description: ClassVar[str]
    """what the probabilities are"""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self._ids = {label: k for k, label in enumerate(labels)}

    @staticmethod
    @abstractmethod
    def list_labels(examples: Sequence[Example]) -> tuple[str, ...]:
        """Return the labels of examples in alphabetical order."""

    @abstractmethod
    def encode(self, example: Example) -> Target | None:
        """Return the target of an example; None if it has a label that is not known."""

    @abstractmethod
    def stack(self, targets: Sequence[Target]) -> Tensor:
        """Return the targets of several texts as a tensor."""

    @abstractmethod
    def loss(
        self,
        logits: Float[Tensor, "texts classes"],
        targets: Tensor,
        smoothing: float = 0.0,
        weights: Float[Tensor, " classes"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean loss of texts, those of some classes weighted more."""

    @abstractmethod
    def probabilities(self, logits: Float[Tensor, "*texts classes"]) -> Tensor:
        """Return the probability of each class."""

    @abstractmethod
    def is_correct(
        self, logits: Float[Tensor, "texts classes"], targets: Tensor
    ) -> Bool[Tensor, " texts"]:
        """Return of each text whether its prediction is entirely right."""

    @abstractmethod
    def count(self, logits: Float[Tensor, "texts classes"], targets: Tensor) -> ClassCounts:
        """Count right predictions, predictions and texts of each class."""

    @abstractmethod
    def measure(self, logits: Float[Tensor, "texts classes"], targets: Tensor) -> dict[str, float]:
        """Return all metrics by name."""

    @abstractmethod
    def error_confidence(
        self, logits: Float[Tensor, "texts classes"], targets: Tensor
    ) -> Float[Tensor, " texts"]:
        """Return the probability of the surest wrong decision about each text; none: 0."""

    @abstractmethod
    def decide(self, probabilities: Sequence[float]) -> Target:
        """Return the prediction for one text."""

    @abstractmethod
    def name_of(self, target: Target) -> str:
        """Return the label, or all labels, of a target as a text."""

    @abstractmethod
    def to_dict(self, probabilities: Sequence[float]) -> dict[str, Any]:
        """Return the predicted label or labels of one text, for JSON."""

    @abstractmethod
    def balanced_weights(self, counts: Sequence[int], num_texts: int) -> list[float]:
        """Return weights that compensate for the numbers of texts of each class."""

    def class_weights(
        self, setting: str | Mapping[str, float], targets: Sequence[Target]
    ) -> Float[Tensor, " classes"] | None:
        """Return the weights that `train.class_weights` states; None: all classes are equal."""
        if setting == "none":
            return None
        if isinstance(setting, Mapping):
            for label in setting:
                if label not in self._ids:
                    hint = did_you_mean(label, self.labels)
                    raise UserError(f"train.class_weights: no label {label!r}: {hint}")
            return torch.tensor([float(setting.get(label, 1.0)) for label in self.labels])
        counts = [0] * len(self.labels)
        for target in targets:
            for k in (target,) if isinstance(target, int) else target:
                counts[k] += 1
        return torch.tensor(self.balanced_weights(counts, len(targets)))


class SingleLabel(LabelScheme):
    """Each text has exactly one label."""

    metrics = SINGLE_LABEL_METRICS
    description = "Probability of each class"

    @staticmethod
    def list_labels(examples: Sequence[Example]) -> tuple[str, ...]:
        return tuple(sorted({e.label for e in examples if e.label is not None}))

    def encode(self, example: Example) -> int | None:
        return None if example.label is None else self._ids.get(example.label)

    def stack(self, targets: Sequence[Target]) -> Tensor:
        return torch.tensor(targets)

    def loss(
        self, logits: Tensor, targets: Tensor, smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        if weights is None:
            return F.cross_entropy(logits, targets, label_smoothing=smoothing)
        # Divided by the number of texts: a mean by weight would depend on the rest of the batch.
        total = F.cross_entropy(
            logits, targets, weights.to(logits), label_smoothing=smoothing, reduction="sum"
        )
        return total / len(targets)

    def probabilities(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits, -1)

    def is_correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        return logits.argmax(-1) == targets

    def count(self, logits: Tensor, targets: Tensor) -> ClassCounts:
        return count_indices(targets.numpy(), logits.argmax(-1).numpy(), len(self.labels))

    def measure(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        return measure_single_label(self.count(logits, targets))

    def error_confidence(self, logits: Tensor, targets: Tensor) -> Tensor:
        confidence = self.probabilities(logits).max(-1).values
        return confidence.masked_fill(self.is_correct(logits, targets), 0.0)

    def decide(self, probabilities: Sequence[float]) -> int:
        return max(range(len(probabilities)), key=probabilities.__getitem__)

    def name_of(self, target: Target) -> str:
        assert isinstance(target, int)
        return self.labels[target]

    def to_dict(self, probabilities: Sequence[float]) -> dict[str, Any]:
        best = self.decide(probabilities)
        return {"label": self.labels[best], "probability": round(probabilities[best], 6)}

    def balanced_weights(self, counts: Sequence[int], num_texts: int) -> list[float]:
        del num_texts
        return balance_classes(counts)


class MultiLabel(LabelScheme):
    """A text has any number of labels: those whose probability is at least the threshold."""

    metrics = MULTI_LABEL_METRICS
    description = "Probability of each label"

    def __init__(self, labels: Sequence[str], threshold: float = 0.5) -> None:
        super().__init__(labels)
        self.threshold = threshold

    @staticmethod
    def list_labels(examples: Sequence[Example]) -> tuple[str, ...]:
        return tuple(sorted({label for e in examples for label in e.labels}))

    def encode(self, example: Example) -> tuple[int, ...] | None:
        if any(label not in self._ids for label in example.labels):
            return None
        return tuple(self._ids[label] for label in example.labels)

    def stack(self, targets: Sequence[Target]) -> Tensor:
        rows = torch.zeros(len(targets), len(self.labels))
        for row, target in zip(rows, targets, strict=True):
            assert isinstance(target, tuple)
            row[list(target)] = 1.0
        return rows

    def loss(
        self, logits: Tensor, targets: Tensor, smoothing: float = 0.0, weights: Tensor | None = None
    ) -> Tensor:
        """Return the mean over texts and classes; the weights are those of texts with a label."""
        return F.binary_cross_entropy_with_logits(
            logits,
            targets * (1 - smoothing) + smoothing / 2,
            pos_weight=None if weights is None else weights.to(logits),
        )

    def probabilities(self, logits: Tensor) -> Tensor:
        return torch.sigmoid(logits)

    def _predict(self, logits: Tensor) -> Tensor:
        return self.probabilities(logits) >= self.threshold

    def is_correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (self._predict(logits) == targets.bool()).all(-1)

    def count(self, logits: Tensor, targets: Tensor) -> ClassCounts:
        return count_indicators(targets.bool().numpy(), self._predict(logits).numpy())

    def measure(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        return measure_multi_label(targets.bool().numpy(), self._predict(logits).numpy())

    def error_confidence(self, logits: Tensor, targets: Tensor) -> Tensor:
        predicted, probabilities = self._predict(logits), self.probabilities(logits)
        confidence = torch.where(predicted, probabilities, 1 - probabilities)
        return confidence.masked_fill(predicted == targets.bool(), 0.0).max(-1).values

    def decide(self, probabilities: Sequence[float]) -> tuple[int, ...]:
        return tuple(k for k, p in enumerate(probabilities) if p >= self.threshold)

    def name_of(self, target: Target) -> str:
        assert isinstance(target, tuple)
        return ", ".join(self.labels[k] for k in sorted(target)) or "no label"

    def to_dict(self, probabilities: Sequence[float]) -> dict[str, Any]:
        return {"labels": [self.labels[k] for k in self.decide(probabilities)]}

    def balanced_weights(self, counts: Sequence[int], num_texts: int) -> list[float]:
        """Return, of each label, the number of texts without it per text with it."""
        return [(num_texts - count) / count if count else 1.0 for count in counts]
