"""Metrics of classifiers agree with scikit-learn: random predictions, absent classes, zeros."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from sklearn.utils.class_weight import compute_class_weight

from workings.metrics.classification import (
    MULTI_LABEL_METRICS,
    SINGLE_LABEL_METRICS,
    balance_classes,
    count_indicators,
    count_indices,
    measure_multi_label,
    measure_single_label,
)

SKLEARN = {
    "precision": sklearn_metrics.precision_score,
    "recall": sklearn_metrics.recall_score,
    "f1": sklearn_metrics.f1_score,
}


def reference(name, targets, predictions):
    """Return a metric by its name, computed by scikit-learn."""
    if name == "accuracy":
        return sklearn_metrics.accuracy_score(targets, predictions)
    ratio, average = name.split("_")
    return SKLEARN[ratio](targets, predictions, average=average, zero_division=0)


@settings(max_examples=25)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40),
    num_classes=st.integers(6, 9),  # classes 6 to 8 never occur
)
def test_single_label_metrics_equal_scikit_learn(pairs, num_classes):
    targets, predictions = (np.array(column) for column in zip(*pairs, strict=True))
    counts = count_indices(targets, predictions, num_classes)
    values = measure_single_label(counts)
    assert tuple(values) == SINGLE_LABEL_METRICS
    for name, value in values.items():
        assert value == pytest.approx(reference(name, targets, predictions), abs=1e-12), name
    columns = sklearn_metrics.precision_recall_fscore_support(
        targets, predictions, labels=range(num_classes), zero_division=0
    )
    for k, score in enumerate(counts.list_scores([str(k) for k in range(num_classes)])):
        row = (score.precision, score.recall, score.f1, score.support)
        assert row == pytest.approx([column[k] for column in columns], abs=1e-12)


@settings(max_examples=25)
@given(data=st.data(), texts=st.integers(1, 20), classes=st.integers(2, 5))
def test_multi_label_metrics_equal_scikit_learn(data, texts, classes):
    cells = st.lists(st.booleans(), min_size=texts * classes, max_size=texts * classes)
    targets, predictions = (
        np.array(data.draw(cells), dtype=bool).reshape(texts, classes) for _ in range(2)
    )
    values = measure_multi_label(targets, predictions)
    assert tuple(values) == MULTI_LABEL_METRICS
    for name, value in values.items():
        assert value == pytest.approx(reference(name, targets, predictions), abs=1e-12), name
    columns = sklearn_metrics.precision_recall_fscore_support(targets, predictions, zero_division=0)
    counts = count_indicators(targets, predictions)
    for ours, theirs in zip(
        (counts.precision, counts.recall, counts.f1, counts.support), columns, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_nothing_to_measure_is_zero():
    nothing = np.zeros((0, 3), dtype=bool)
    assert set(measure_multi_label(nothing, nothing).values()) == {0.0}
    empty = np.zeros(0, dtype=np.int64)
    assert set(measure_single_label(count_indices(empty, empty, 3)).values()) == {0.0}


def test_balanced_weights_equal_scikit_learn():
    targets = np.random.default_rng(0).choice(4, 200, p=[0.7, 0.2, 0.05, 0.05])
    counts = np.bincount(targets, minlength=4).tolist()
    expected = compute_class_weight("balanced", classes=np.arange(4), y=targets)
    assert balance_classes(counts) == pytest.approx(expected.tolist())
    assert balance_classes([2, 0]) == [0.5, 0.0]  # no text to weight
