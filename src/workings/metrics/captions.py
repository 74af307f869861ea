"""BLEU, CIDEr-D, ROUGE-L and exact match of image captions, as in the COCO evaluation."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError, safe_repr
from workings.metrics.bleu import MetricStatistics, References, normalize_references

Tokens: TypeAlias = Sequence[str]
NGram: TypeAlias = tuple[str, ...]
StatisticsFunction: TypeAlias = Callable[
    [Sequence[Tokens], Sequence[Sequence[Tokens]]], NDArray[Any]
]

PUNCTUATION = frozenset(".?!,:;-'`\"(){}[]“”„‘«»…–—")
TOKENIZATION = "words,clitics-apart,no-punctuation"  # name of the tokenizer in signatures
MAX_NGRAM_ORDER = 4
_VERSION = 1  # raised when tokenization or formulas change: only equal versions are comparable
# These two avoid a division by zero and keep its result small.
_DENOMINATOR_EPSILON, _NUMERATOR_EPSILON = 1e-9, 1e-15
_CIDER_SIGMA = 6.0  # of the Gaussian length penalty of CIDEr-D
_ROUGE_BETA = 1.2  # weight of recall relative to precision in ROUGE-L

_TOKEN = re.compile(
    r"""
    n't\b | '(?:s|m|d|re|ve|ll)\b  # clitics
    | \d+(?:[.,:]\d+)+             # 10,000 and 12:30
    | \w+?(?=n't\b)                # a word before the clitic n't
    | \w+(?:-\w+)*                 # words, t-shirt
    | [^\w\s]                      # any other character
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class CaptionScores:
    """The scores of a set of captions."""

    bleu: tuple[float, ...]  # BLEU-1 to BLEU-4, from 0 to 100
    cider: float | None  # CIDEr-D, from 0 to 1000; None for a single image
    rouge: float  # ROUGE-L, from 0 to 100
    exact_match: float  # percentage of captions that are equal to a reference
    signature: str


def score_captions(hypotheses: Sequence[str], references: References) -> CaptionScores:
    """Compute all metrics of captions, given one or more references per image.

    CIDEr-D takes document frequencies from the references of the scored set. Its values compare
    systems on one set, not across sets, and it needs at least two images.

    >>> scores = score_captions(
    ...     ["A dog runs.", "two cats sleep"],
    ...     [["a dog runs", "the brown dog runs fast"], ["two cats on a sofa"]],
    ... )
    >>> values = (*scores.bleu, scores.cider, scores.rouge, scores.exact_match)
    >>> [round(value, 1) for value in values]
    [59.7, 56.6, 48.6, 1.7, 355.9, 73.9, 50.0]
    >>> scores.signature
    'nrefs:var|case:lc|tok:words,clitics-apart,no-punctuation|len:closest|smooth:none|df:set|...'
    """
    captions, reference_lists = _tokenize_all(hypotheses, references)
    return CaptionScores(
        bleu=tuple(compute_bleu_scores(count_bleu_ngrams(captions, reference_lists).sum(0))),
        cider=float(cider_d(captions, reference_lists).mean()) if len(captions) > 1 else None,
        rouge=float(rouge_l(captions, reference_lists).mean()),
        exact_match=float(exact_matches(captions, reference_lists).mean()),
        signature=_build_signature(reference_lists, "len:closest|smooth:none|df:set"),
    )


@dataclass(frozen=True)
class PlainScore:
    """A score without details."""

    score: float


@dataclass(frozen=True)
class CaptionMetric:
    """A single caption metric, for `bootstrap.compare_systems` and `by_length.score_by_length`."""

    name: str
    statistics: StatisticsFunction
    compute_score: Callable[[NDArray[Any]], float]
    signature_options: str

    def collect_statistics(
        self, hypotheses: Sequence[str], references: References
    ) -> MetricStatistics:
        """Return the counts of each caption from which the metric is computed.

        >>> caption_bleu_metric().collect_statistics(["a dog"], [["a cat", "the dog runs"]]).rows
        array([[2, 2, 2, 0, 0, 0, 2, 1, 0, 0]])
        """
        captions, reference_lists = _tokenize_all(hypotheses, references)
        signature = f"{self.name}, {_build_signature(reference_lists, self.signature_options)}"
        return MetricStatistics(
            self.statistics(captions, reference_lists),
            signature,
            lambda sums: PlainScore(self.compute_score(sums)),
        )


def caption_bleu_metric(max_order: int = MAX_NGRAM_ORDER) -> CaptionMetric:
    """Return BLEU over n-grams up to `max_order`."""
    if max_order not in range(1, MAX_NGRAM_ORDER + 1):
        raise UserError(
            f"expected BLEU of order 1 to {MAX_NGRAM_ORDER}, got {safe_repr(max_order)}"
        )
    return CaptionMetric(
        f"BLEU-{max_order}",
        count_bleu_ngrams,
        lambda sums: compute_bleu_scores(sums)[max_order - 1],
        "len:closest|smooth:none",
    )


def cider_metric() -> CaptionMetric:
    """Return CIDEr-D; resamples keep the document frequencies of the full set."""
    return _mean_metric("CIDEr-D", cider_d, "df:set")


def rouge_metric() -> CaptionMetric:
    """Return ROUGE-L."""
    return _mean_metric("ROUGE-L", rouge_l, "beta:1.2")


def exact_match_metric() -> CaptionMetric:
    """Return the percentage of captions that are equal to a reference."""
    return _mean_metric("exact match", exact_matches, "any-reference")


def _mean_metric(
    name: str, statistics: StatisticsFunction, signature_options: str
) -> CaptionMetric:
    """Return the metric that is the mean of a score per caption; rows hold the score and a 1."""

    def compute_rows(
        captions: Sequence[Tokens], reference_lists: Sequence[Sequence[Tokens]]
    ) -> NDArray[np.float64]:
        scores = statistics(captions, reference_lists)
        return np.stack([scores, np.ones_like(scores)], axis=1)

    def compute_mean(sums: NDArray[np.float64]) -> float:
        return float(sums[0] / sums[1])

    return CaptionMetric(name, compute_rows, compute_mean, signature_options)


def tokenize_caption(text: str) -> list[str]:
    """Split a caption into lower-case words, clitics split off and punctuation dropped.

    This approximates the Penn Treebank tokenizer of the COCO caption evaluation, for languages that
    put spaces between words. "dog's" becomes two words, "isn't" becomes "is" and "n't"; hyphenated
    words and numbers with separators stay whole. Characters in `PUNCTUATION` are dropped, others
    (% & $ …) are words. Rare cases differ from the Treebank: the period of an abbreviation is
    dropped, "o'clock" is split and "cannot" is not.

    >>> tokenize_caption("The dog's T-shirt isn't red, (but 50% blue)!")
    ['the', 'dog', "'s", 't-shirt', 'is', "n't", 'red', 'but', '50', '%', 'blue']
    """
    normalized = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return [word for word in _TOKEN.findall(normalized) if word not in PUNCTUATION]


def _tokenize_all(
    hypotheses: Sequence[str], references: References
) -> tuple[list[list[str]], list[list[list[str]]]]:
    reference_lists = normalize_references(hypotheses, references)
    return (
        [tokenize_caption(text) for text in hypotheses],
        [[tokenize_caption(text) for text in texts] for texts in reference_lists],
    )


def _build_signature(references: Sequence[Sequence[Tokens]], signature_options: str) -> str:
    """Return a signature in the format of sacreBLEU's."""
    counts = {len(texts) for texts in references}
    num_references = counts.pop() if len(counts) == 1 else "var"
    return (
        f"nrefs:{num_references}|case:lc|tok:{TOKENIZATION}|{signature_options}"
        f"|version:workings-captions-{_VERSION}"
    )


def count_bleu_ngrams(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.int64]:
    """Return a row per caption: its length, the closest reference length, matches, n-grams.

    >>> count_bleu_ngrams([["a", "dog"]], [[["a", "cat"], ["the", "dog", "runs"]]])
    array([[2, 2, 2, 0, 0, 0, 2, 1, 0, 0]])
    """
    pairs = zip(hypotheses, references, strict=True)
    return np.array([_count_caption_ngrams(words, refs) for words, refs in pairs])


def _count_caption_ngrams(words: Tokens, references: Sequence[Tokens]) -> list[int]:
    max_counts: Counter[NGram] = Counter()
    for reference in references:
        max_counts |= _count_ngrams(reference)
    matches = [0] * MAX_NGRAM_ORDER
    for ngram, count in (_count_ngrams(words) & max_counts).items():
        matches[len(ngram) - 1] += count
    totals = [max(len(words) - n, 0) for n in range(MAX_NGRAM_ORDER)]
    closest = min((abs(len(ref) - len(words)), len(ref)) for ref in references)[1]
    return [len(words), closest, *matches, *totals]


def compute_bleu_scores(sums: NDArray[np.int64]) -> list[float]:
    """Compute BLEU-1 to BLEU-4, from 0 to 100, from summed rows of `count_bleu_ngrams`.

    There is no smoothing. Without any match the score is almost, but not exactly, 0.
    """
    length, closest, *counts = sums.tolist()
    ratio = (length + _NUMERATOR_EPSILON) / (closest + _DENOMINATOR_EPSILON)
    brevity_penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, scores = 1.0, []
    for n, (matches, total) in enumerate(
        zip(counts[:MAX_NGRAM_ORDER], counts[MAX_NGRAM_ORDER:], strict=True), 1
    ):
        product *= (matches + _NUMERATOR_EPSILON) / (total + _DENOMINATOR_EPSILON)
        scores.append(100 * brevity_penalty * product ** (1 / n))
    return scores


def cider_d(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.float64]:
    """Return CIDEr-D of each caption, from 0 to 1000 (Vedantam et al. 2015).

    This is the cosine similarity of TF-IDF vectors of n-grams, with a penalty for other lengths.
    Document frequencies are counted over images in these references; with a single image every
    inverse document frequency would be 0.
    """
    if len(hypotheses) < 2:
        raise UserError("CIDEr-D needs captions of at least two images, got fewer")
    ngram_lists = [[_count_ngrams(words) for words in refs] for refs in references]
    num_images = len(ngram_lists)
    document_frequency = Counter(ngram for refs in ngram_lists for ngram in set().union(*refs))
    idf = {ngram: math.log(num_images / count) for ngram, count in document_frequency.items()}
    unseen_idf = math.log(num_images)
    scores = []
    for words, refs in zip(hypotheses, ngram_lists, strict=True):
        vectors = _TfIdfVectors(_count_ngrams(words), idf, unseen_idf)
        similarities = [vectors.similarity(_TfIdfVectors(ref, idf, unseen_idf)) for ref in refs]
        scores.append(1000 * sum(similarities) / len(similarities))
    return np.array(scores)


class _TfIdfVectors:
    """TF-IDF vectors of a caption's n-grams, one for each n."""

    def __init__(self, ngrams: Counter[NGram], idf: dict[NGram, float], unseen_idf: float) -> None:
        self.vectors: list[dict[NGram, float]] = [{} for _ in range(MAX_NGRAM_ORDER)]
        for ngram, count in ngrams.items():
            self.vectors[len(ngram) - 1][ngram] = count * idf.get(ngram, unseen_idf)
        self.norms = [math.hypot(*vector.values()) for vector in self.vectors]
        # As in the COCO evaluation, the length is the number of bigrams.
        self.length = sum(count for ngram, count in ngrams.items() if len(ngram) == 2)

    def similarity(self, reference: "_TfIdfVectors") -> float:
        """Return the mean clipped cosine similarity with a reference, from 0 to 1."""
        total = 0.0
        for n in range(MAX_NGRAM_ORDER):
            ours, theirs = self.vectors[n], reference.vectors[n]
            # Summed in the caption's order: the order of a set would change the last digit.
            product = sum(min(ours[g], theirs[g]) * theirs[g] for g in ours if g in theirs)
            if product:
                total += product / (self.norms[n] * reference.norms[n])
        difference = self.length - reference.length
        return total / MAX_NGRAM_ORDER * math.exp(-(difference**2) / (2 * _CIDER_SIGMA**2))


def rouge_l(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.float64]:
    """Return ROUGE-L of each caption, from 0 to 100: F-score of the longest common subsequence.

    The best precision and the best recall are taken, possibly of two different references.

    >>> rouge_l([["a", "dog", "runs"]], [[["a", "brown", "dog", "runs"]]]).round(1)
    array([83.6])
    """
    pairs = zip(hypotheses, references, strict=True)
    return np.array([100 * _caption_rouge_l(words, refs) for words, refs in pairs])


def _caption_rouge_l(words: Tokens, references: Sequence[Tokens]) -> float:
    common = [longest_common_subsequence(words, ref) for ref in references]
    if not any(common):
        return 0.0
    precision = max(common) / len(words)
    recall = max(n / len(ref) for n, ref in zip(common, references, strict=True) if n)
    weight = _ROUGE_BETA**2
    return (1 + weight) * precision * recall / (recall + weight * precision)


def longest_common_subsequence(words: Tokens, others: Tokens) -> int:
    """Return the length of the longest common subsequence.

    >>> longest_common_subsequence("a dog runs fast".split(), "a big dog is fast".split())
    3
    """
    row = [0] * (len(others) + 1)
    for word in words:
        diagonal = 0
        for j, other in enumerate(others, 1):
            above = row[j]
            row[j] = diagonal + 1 if word == other else max(above, row[j - 1])
            diagonal = above
    return row[-1]


def exact_matches(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.float64]:
    """Return 100 for each caption whose words are equal to a reference's, and 0 for others."""
    pairs = zip(hypotheses, references, strict=True)
    return np.array([100.0 * (words in refs) for words, refs in pairs])


def _count_ngrams(words: Tokens) -> Counter[NGram]:
    return Counter(_iter_ngrams(tuple(words)))


def _iter_ngrams(words: NGram) -> Iterable[NGram]:
    for n in range(1, MAX_NGRAM_ORDER + 1):
        for start in range(len(words) - n + 1):
            yield words[start : start + n]
