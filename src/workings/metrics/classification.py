"""Metrics of classifiers: accuracy, and precision, recall and F1 of each class and on average.

The numbers are those of scikit-learn. A ratio without a denominator, such as the precision of a
class that is never predicted, is 0.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Average: TypeAlias = Literal["macro", "micro", "weighted"]
Indices: TypeAlias = NDArray[np.int64]
Indicators: TypeAlias = NDArray[np.bool_]
"""of each text and class: whether the text has it, `[texts, classes]`"""
_RATIOS = ("precision", "recall", "f1")
SINGLE_LABEL_METRICS = (
    "accuracy",
    *(f"{ratio}_{average}" for average in ("macro", "weighted") for ratio in _RATIOS),
)
"""The metrics of texts with one class each."""
MULTI_LABEL_METRICS = (
    "accuracy",
    *(f"{ratio}_{average}" for average in ("micro", "macro") for ratio in _RATIOS),
)
"""The metrics of texts with any number of classes; accuracy is that of all labels of a text."""


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of one class, and the number of texts that have it."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "label"}


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Of each class: texts that have it and are predicted so, predicted texts, texts that have it.

    >>> counts = count_indices(np.array([0, 0, 1]), np.array([0, 1, 1]), num_classes=3)
    >>> counts.precision, counts.recall
    (array([1. , 0.5, 0. ]), array([0.5, 1. , 0. ]))
    >>> round(counts.average("f1", "macro"), 4)  # the third class does not occur
    0.6667
    """

    correct: Indices
    predicted: Indices
    support: Indices

    @property
    def precision(self) -> NDArray[np.float64]:
        """Fraction of the texts predicted as a class that have it."""
        return _divide(self.correct, self.predicted)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Fraction of the texts of a class that are predicted so."""
        return _divide(self.correct, self.support)

    @property
    def f1(self) -> NDArray[np.float64]:
        """Harmonic mean of precision and recall."""
        return _divide(2 * self.correct, self.predicted + self.support)

    def average(self, ratio: str, average: Average, *, all_classes: bool = False) -> float:
        """Return a ratio averaged over the classes.

        - macro: the mean over the classes that occur in texts or predictions, or over all classes;
        - weighted: the mean weighted by the number of texts of each class;
        - micro: the ratio of the sums over all classes.
        """
        if average == "micro":
            sums = (self.correct.sum(), self.predicted.sum(), self.support.sum())
            return float(getattr(ClassCounts(*(np.array([n]) for n in sums)), ratio)[0])
        values: NDArray[np.float64] = getattr(self, ratio)
        if average == "weighted":
            return float(_divide(values @ self.support, self.support.sum()))
        occurs = (self.predicted + self.support > 0) | all_classes
        return float(values[occurs].mean()) if occurs.any() else 0.0

    def list_scores(self, labels: Sequence[str]) -> list[ClassScore]:
        """Return the scores of each class by name."""
        columns = (self.precision, self.recall, self.f1, self.support)
        return [
            ClassScore(label, float(precision), float(recall), float(f1), int(support))
            for label, precision, recall, f1, support in zip(labels, *columns, strict=True)
        ]


def count_indices(targets: Indices, predictions: Indices, num_classes: int) -> ClassCounts:
    """Count texts that have one class each; classes are indices from 0."""

    def count(classes: Indices) -> Indices:
        return np.bincount(classes, minlength=num_classes)

    return ClassCounts(count(targets[targets == predictions]), count(predictions), count(targets))


def count_indicators(targets: Indicators, predictions: Indicators) -> ClassCounts:
    """Count texts that have any number of classes."""
    return ClassCounts((targets & predictions).sum(0), predictions.sum(0), targets.sum(0))


def measure_single_label(counts: ClassCounts) -> dict[str, float]:
    """Return the metrics of texts with one class each, by name.

    >>> counts = count_indices(np.array([0, 0, 1]), np.array([0, 1, 1]), num_classes=2)
    >>> {name: round(value, 4) for name, value in measure_single_label(counts).items()}["accuracy"]
    0.6667
    """
    accuracy = float(_divide(counts.correct.sum(), counts.support.sum()))
    return {
        name: accuracy if name == "accuracy" else _average_by_name(counts, name)
        for name in SINGLE_LABEL_METRICS
    }


def measure_multi_label(targets: Indicators, predictions: Indicators) -> dict[str, float]:
    """Return the metrics of texts with any number of classes, by name.

    >>> targets = np.array([[True, False], [True, True]])
    >>> predictions = np.array([[True, False], [True, False]])
    >>> metrics = measure_multi_label(targets, predictions)
    >>> metrics["accuracy"], metrics["f1_micro"], metrics["f1_macro"]
    (0.5, 0.8, 0.5)
    """
    counts = count_indicators(targets, predictions)
    accuracy = float((targets == predictions).all(1).mean()) if len(targets) else 0.0
    return {
        name: accuracy if name == "accuracy" else _average_by_name(counts, name, all_classes=True)
        for name in MULTI_LABEL_METRICS
    }


def _average_by_name(counts: ClassCounts, name: str, *, all_classes: bool = False) -> float:
    ratio, _, average = name.partition("_")
    return counts.average(ratio, average, all_classes=all_classes)  # type: ignore[arg-type]


def _divide(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """Divide; where the denominator is 0, the result is 0."""
    ratio = np.zeros_like(numerator, dtype=np.float64)
    np.divide(numerator, denominator, out=ratio, where=np.asarray(denominator) != 0)
    return ratio


def balance_classes(counts: Sequence[int]) -> list[float]:
    """Return weights of classes that are inversely proportional to their numbers of texts.

    Over all texts, the weights have a mean of 1.

    >>> balance_classes([3, 1])
    [0.6666666666666666, 2.0]
    """
    total, num_classes = sum(counts), len(counts)
    return [total / (num_classes * count) if count else 0.0 for count in counts]
