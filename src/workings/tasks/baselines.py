"""Baselines that a model should beat: simple ones in numpy, and scikit-learn's for classifiers."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workings.data.readers import Example
from workings.data.splits import Splits

Features = Sequence[NDArray[np.integer[Any]]]
Targets = NDArray[np.int64]  # [texts, columns]
PRIOR_TOKENS = 5.0  # how much the shorter n-grams weigh in a smoothed count

BASELINES = ("naive Bayes", "TF-IDF + logistic regression")
WORD_PATTERN = r"(?u)\b\w+\b"  # scikit-learn's default drops words of one letter, as in Chinese


def evaluate_baseline(name: str, splits: Splits, *, characters: bool = False) -> dict[str, Any]:
    """Train a baseline with scikit-learn's default settings; return its size and accuracies.

    Features are words and bigrams, or n-grams of up to four `characters`. Nothing is tuned.
    """
    options: dict[str, Any] = {"token_pattern": WORD_PATTERN, "ngram_range": (1, 2)}
    if characters:
        options = {"analyzer": "char", "ngram_range": (1, 4)}
    model = _BUILDERS[name](options)
    start = time.perf_counter()
    model.fit([e.text for e in splits.train], [e.label for e in splits.train])
    seconds = time.perf_counter() - start
    return {
        "title": name,
        "seconds": round(seconds, 2),
        "parameters": _count_parameters(model[-1]),
        "validation_accuracy": _compute_accuracy(model, splits.validation),
        "test_accuracy": _compute_accuracy(model, splits.test),
    }


def _count_parameters(classifier: Any) -> int:
    if hasattr(classifier, "feature_log_prob_"):
        return int(classifier.feature_log_prob_.size)
    return int(classifier.coef_.size + classifier.intercept_.size)


def _compute_accuracy(model: Any, examples: tuple[Example, ...]) -> float | None:
    if not examples:
        return None
    return float(model.score([e.text for e in examples], [e.label for e in examples]))


def _build_naive_bayes(vectorizer_options: dict[str, Any]) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(**vectorizer_options), MultinomialNB())


def _build_logistic_regression(vectorizer_options: dict[str, Any]) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer = TfidfVectorizer(**vectorizer_options, sublinear_tf=True)
    return make_pipeline(vectorizer, LogisticRegression(max_iter=1000))


_BUILDERS: dict[str, Callable[[dict[str, Any]], Any]] = dict(
    zip(BASELINES, (_build_naive_bayes, _build_logistic_regression), strict=True)
)


# -- without scikit-learn --------------------------------------------------------------------------


def score_majority(train_targets: Targets, test_targets: Targets) -> float:
    """Return the accuracy of predicting the most frequent row of the training targets.

    A row is one class, or an indicator for each label of a text with several.

    >>> score_majority(np.array([[0], [1], [1]]), np.array([[1], [0], [1], [1]]))
    0.75
    """
    rows, counts = np.unique(train_targets, axis=0, return_counts=True)
    return float((test_targets == rows[counts.argmax()]).all(1).mean())


def score_naive_bayes(
    train: Features, train_targets: Targets, test: Features, test_targets: Targets
) -> float:
    """Return the accuracy of multinomial naive Bayes with add-one smoothing, one for each column.

    >>> train = [np.array([1, 2]), np.array([1]), np.array([3])]
    >>> test, targets = [np.array([3, 3]), np.array([2])], np.array([[1], [0]])
    >>> score_naive_bayes(train, np.array([[0], [0], [1]]), test, targets)
    1.0
    """
    columns = [_predict_naive_bayes(train, column, test) for column in train_targets.T]
    return float((np.stack(columns, 1) == test_targets).all(1).mean())


def _predict_naive_bayes(
    train: Features, targets: NDArray[np.int64], test: Features
) -> NDArray[np.int64]:
    """Return the class of each test text."""
    num_classes = int(targets.max()) + 1
    num_features = max((int(ids.max(initial=0)) for ids in (*train, *test)), default=0) + 1
    counts = np.zeros((num_features, num_classes), dtype=np.float32)
    for ids, target in zip(train, targets, strict=True):
        np.add.at(counts[:, target], ids, 1)
    log_likelihood = np.log(counts + 1) - np.log((counts + 1).sum(0))
    log_prior = np.log(np.bincount(targets, minlength=num_classes) + 1e-9)
    return np.array([(log_likelihood[ids].sum(0) + log_prior).argmax() for ids in test])


def score_ngram_model(
    train: NDArray[np.integer[Any]], test: NDArray[np.integer[Any]], vocab_size: int, order: int
) -> float:
    """Return the bits per token of n-gram counts, smoothed by those of shorter n-grams.

    Each order is a Dirichlet prior of the next (MacKay and Peto, 1995).

    >>> ids = np.array([0, 1] * 50)
    >>> round(score_ngram_model(ids, ids, 2, order=1), 2)
    1.0
    >>> score_ngram_model(ids, ids, 2, order=2) < 0.2
    True
    """
    train_ids, test_ids = train.astype(np.int64), test.astype(np.int64)
    probability = np.full(len(test), 1 / vocab_size)
    for n in range(1, order + 1):
        if vocab_size**n >= 2**62 or min(len(train), len(test)) < n:
            break
        known, observed = (_ngram_keys(ids, vocab_size, n) for ids in (train_ids, test_ids))
        seen = _count_keys(known, observed)
        context = _count_keys(known // vocab_size, observed // vocab_size)
        smoothed = seen + PRIOR_TOKENS * probability[n - 1 :]
        probability[n - 1 :] = smoothed / (context + PRIOR_TOKENS)
    return float(-np.log2(probability).mean()) if len(test) else math.nan


def _ngram_keys(ids: NDArray[np.int64], vocab_size: int, n: int) -> NDArray[np.int64]:
    keys = np.zeros(len(ids) - n + 1, np.int64)
    for k in range(n):
        keys = keys * vocab_size + ids[k : len(ids) - n + 1 + k]
    return keys


def _count_keys(known: NDArray[np.int64], queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each query is among the known keys."""
    unique, counts = np.unique(known, return_counts=True)
    index = np.searchsorted(unique, queries).clip(max=len(unique) - 1)
    return np.where(unique[index] == queries, counts[index], 0)
