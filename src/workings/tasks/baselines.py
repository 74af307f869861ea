"""What every classifier should beat: naive Bayes, and logistic regression over TF-IDF."""

import time
from collections.abc import Callable
from typing import Any

from workings.data import Example, Splits

BASELINES = ("naive Bayes", "TF-IDF + logistic regression")


def evaluate_baseline(name: str, splits: Splits, *, characters: bool = False) -> dict[str, Any]:
    """Train a baseline on the training part with scikit-learn's usual settings; measure the rest.

    It reads words and pairs of words, or up to four `characters` at a time. Nothing is tuned, so
    that nothing is chosen by what is measured.
    """
    reads: dict[str, Any] = {"token_pattern": WORD_PATTERN, "ngram_range": (1, 2)}
    if characters:
        reads = {"analyzer": "char", "ngram_range": (1, 4)}
    model = _BUILDERS[name](reads)
    began = time.perf_counter()
    model.fit([e.text for e in splits.train], [e.label for e in splits.train])
    seconds = time.perf_counter() - began
    return {
        "title": name,
        "seconds": round(seconds, 2),
        "parameters": int(model[-1].feature_log_prob_.size)
        if name == "naive Bayes"
        else int(model[-1].coef_.size + model[-1].intercept_.size),
        "validation_accuracy": _accuracy(model, splits.validation),
        "test_accuracy": _accuracy(model, splits.test),
    }


def _accuracy(model: Any, examples: tuple[Example, ...]) -> float | None:
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

    weighted = TfidfVectorizer(**vectorizer_options, sublinear_tf=True)
    return make_pipeline(weighted, LogisticRegression(max_iter=1000))


WORD_PATTERN = r"(?u)\b\w+\b"  # scikit-learn's own drops words of one letter, and Chinese has many

_BUILDERS: dict[str, Callable[[dict[str, Any]], Any]] = dict(
    zip(BASELINES, (_build_naive_bayes, _build_logistic_regression), strict=True)
)
