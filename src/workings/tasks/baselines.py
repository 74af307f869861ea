"""Baselines for classifiers: naive Bayes, and logistic regression over TF-IDF features."""

import time
from collections.abc import Callable
from typing import Any

from workings.data.readers import Example
from workings.data.splits import Splits

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
