"""The words of a caption, as caption measures count them."""

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

PUNCTUATION = frozenset(".?!,:;-'`\"(){}[]“”„‘«»…–—")
TOKENIZATION = "words,clitics-apart,no-punctuation"  # as signatures name it

_TOKEN = re.compile(
    r"""
    n't\b | '(?:s|m|d|re|ve|ll)\b  # clitics by themselves
    | \d+(?:[.,:]\d+)+             # 10,000 and 12:30
    | \w+?(?=n't\b)                # what stands before one
    | \w+(?:-\w+)*                 # t-shirt
    | [^\w\s]                      # any other sign
    """,
    re.VERBOSE,
)


def tokenize_caption(text: str) -> list[str]:
    """Cut a caption into its words: lower case, clitics apart, punctuation dropped.

    This follows what the field's evaluation of captions has the Penn Treebank's tokenizer do, for
    languages that put spaces between words. "dog's" is two words, "isn't" is "is" and "n't";
    hyphens and a number's points hold together; `DROPPED` lists the signs that count for nothing,
    others (% & $ …) are words. What is rare in captions is not as the Treebank has it: the point
    of an abbreviation is dropped, "o'clock" is cut and "cannot" is not.

    >>> tokenize_caption("The dog's T-shirt isn't red, (but 50% blue)!")
    ['the', 'dog', "'s", 't-shirt', 'is', "n't", 'red', 'but', '50', '%', 'blue']
    """
    plain = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return [word for word in _TOKEN.findall(plain) if word not in PUNCTUATION]


Tokens: TypeAlias = Sequence[str]
NGram: TypeAlias = tuple[str, ...]

MAX_NGRAM_ORDER = 4  # words in a row
_DENOMINATOR_EPSILON, _NUMERATOR_EPSILON = (
    1e-9,
    1e-15,
)  # keep a division by zero from happening, and its result small
_CIDER_SIGMA = 6.0  # of the bell curve by which CIDEr-D punishes another length
_ROUGE_BETA = 1.2  # how much more recall counts than precision in ROUGE-L


def count_bleu_ngrams(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.int64]:
    """Count in each caption: its words, the closest reference's, n-grams that are right, n-grams.

    >>> count_bleu_ngrams([["a", "dog"]], [[["a", "cat"], ["the", "dog", "runs"]]])
    array([[2, 2, 2, 0, 0, 0, 2, 1, 0, 0]])
    """
    return np.array(
        [
            _count_caption_ngrams(words, refs)
            for words, refs in zip(hypotheses, references, strict=True)
        ]
    )


def _count_caption_ngrams(words: Tokens, references: Sequence[Tokens]) -> list[int]:
    most: Counter[NGram] = Counter()
    for reference in references:
        most |= _count_ngrams(reference)
    right = [0] * MAX_NGRAM_ORDER
    for gram, times in (_count_ngrams(words) & most).items():
        right[len(gram) - 1] += times
    made = [max(len(words) - n, 0) for n in range(MAX_NGRAM_ORDER)]
    closest = min((abs(len(ref) - len(words)), len(ref)) for ref in references)[1]
    return [len(words), closest, *right, *made]


def compute_bleu_scores(sums: NDArray[np.int64]) -> list[float]:
    """Work BLEU-1 to BLEU-4 out of counts that were added up, from 0 to 100.

    Nothing is smoothed. Where no n-gram is right the score is next to nothing, not quite 0.
    """
    length, closest, *counts = sums.tolist()
    ratio = (length + _NUMERATOR_EPSILON) / (closest + _DENOMINATOR_EPSILON)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, found = 1.0, []
    for n, (right, made) in enumerate(
        zip(counts[:MAX_NGRAM_ORDER], counts[MAX_NGRAM_ORDER:], strict=True), 1
    ):
        product *= (right + _NUMERATOR_EPSILON) / (made + _DENOMINATOR_EPSILON)
        found.append(100 * brevity * product ** (1 / n))
    return found


def cider_d(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.float64]:
    """CIDEr-D of each caption, from 0 to 1000 (Vedantam et al. 2015).

    How alike a caption and its references are in n-grams, those that fewer images share counting
    more. In how many images an n-gram occurs is counted in these references: of a single image
    all n-grams would be everywhere, and nothing would count.
    """
    if len(hypotheses) < 2:
        raise UserError("expected captions of two images or more: CIDEr-D asks what images share")
    counted = [[_count_ngrams(words) for words in refs] for refs in references]
    images = Counter(gram for refs in counted for gram in set().union(*refs))
    rarity = {gram: math.log(len(counted) / times) for gram, times in images.items()}
    unseen = math.log(len(counted))
    scores = []
    for words, refs in zip(hypotheses, counted, strict=True):
        ours = _TfIdfVectors(_count_ngrams(words), rarity, unseen)
        alike = [ours.similarity(_TfIdfVectors(ref, rarity, unseen)) for ref in refs]
        scores.append(1000 * sum(alike) / len(alike))
    return np.array(scores)


class _TfIdfVectors:
    """The n-grams of a caption by how often they occur and how rare they are, a table an n."""

    def __init__(self, ngrams: Counter[NGram], idf: dict[NGram, float], unseen_idf: float) -> None:
        self.vectors: list[dict[NGram, float]] = [{} for _ in range(MAX_NGRAM_ORDER)]
        for gram, times in ngrams.items():
            self.vectors[len(gram) - 1][gram] = times * idf.get(gram, unseen_idf)
        self.norms = [math.hypot(*table.values()) for table in self.vectors]
        # The evaluation takes the number of pairs for the length: a word less, or none.
        self.length = sum(times for gram, times in ngrams.items() if len(gram) == 2)

    def similarity(self, other: "_TfIdfVectors") -> float:
        """Compare with a reference, from 0 to 1; what is said too often counts as it has it."""
        total = 0.0
        for n in range(MAX_NGRAM_ORDER):
            table, theirs = self.vectors[n], other.vectors[n]
            # In the caption's own order: sums in the order of a set differ in their last digit.
            same = sum(min(table[g], theirs[g]) * theirs[g] for g in table if g in theirs)
            if same:
                total += same / (self.norms[n] * other.norms[n])
        return (
            total
            / MAX_NGRAM_ORDER
            * math.exp(-((self.length - other.length) ** 2) / (2 * _CIDER_SIGMA**2))
        )


def rouge_l(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.float64]:
    """ROUGE-L of each caption, from 0 to 100: the longest words in common that keep their order.

    The best precision and the best recall are taken, if need be of two references.

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
    more = _ROUGE_BETA**2
    return (1 + more) * precision * recall / (recall + more * precision)


def longest_common_subsequence(words: Tokens, others: Tokens) -> int:
    """Count the words of the longest common subsequence.

    >>> longest_common_subsequence("a dog runs fast".split(), "a big dog is fast".split())
    3
    """
    longest = [0] * (len(others) + 1)
    for word in words:
        before = 0  # the last row's, a column to the left
        for j, other in enumerate(others, 1):
            above = longest[j]
            longest[j] = before + 1 if word == other else max(above, longest[j - 1])
            before = above
    return longest[-1]


def exact_matches(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> NDArray[np.float64]:
    """Give each caption that is one of its references, word for word, 100, and others 0."""
    pairs = zip(hypotheses, references, strict=True)
    return np.array([100.0 * (words in refs) for words, refs in pairs])


def _count_ngrams(words: Tokens) -> Counter[NGram]:
    return Counter(_iter_ngrams(tuple(words)))


def _iter_ngrams(words: NGram) -> Iterable[NGram]:
    for n in range(1, MAX_NGRAM_ORDER + 1):
        for start in range(len(words) - n + 1):
            yield words[start : start + n]


_VERSION = 1  # of words and formulas: figures of one version can be compared

StatisticsFunction: TypeAlias = Callable[
    [Sequence[Tokens], Sequence[Sequence[Tokens]]], NDArray[Any]
]


@dataclass(frozen=True)
class CaptionScores:
    """What a set of captions is worth."""

    bleu: tuple[float, ...]  # BLEU-1 to BLEU-4, from 0 to 100
    cider: float | None  # CIDEr-D, from 0 to 1000; of one image there is none
    rouge: float  # ROUGE-L, from 0 to 100
    exact_match: float  # per cent of the captions that are a reference, word for word
    signature: str


def score_captions(hypotheses: Sequence[str], references: References) -> CaptionScores:
    """Score captions, plain text, of images that have a reference each, or a list of them.

    CIDEr-D learns from the references of the very set that is scored what is said of many images:
    its figures compare systems on one set, not sets, and it needs two images at least.

    >>> found = score_captions(
    ...     ["A dog runs.", "two cats sleep"],
    ...     [["a dog runs", "the brown dog runs fast"], ["two cats on a sofa"]],
    ... )
    >>> [round(figure, 1) for figure in (*found.bleu, found.cider, found.rouge, found.exact_match)]
    [59.7, 56.6, 48.6, 1.7, 355.9, 73.9, 50.0]
    >>> found.signature
    'nrefs:var|case:lc|tok:words,clitics-apart,no-punctuation|len:closest|smooth:none|df:set|...'
    """
    ours, theirs = _tokenize_all(hypotheses, references)
    return CaptionScores(
        bleu=tuple(compute_bleu_scores(count_bleu_ngrams(ours, theirs).sum(0))),
        cider=float(cider_d(ours, theirs).mean()) if len(ours) > 1 else None,
        rouge=float(rouge_l(ours, theirs).mean()),
        exact_match=float(exact_matches(ours, theirs).mean()),
        signature=_build_signature(theirs, "len:closest|smooth:none|df:set"),
    )


@dataclass(frozen=True)
class CaptionMetric:
    """One of these by itself, as `bootstrap.compare` takes it."""

    name: str
    statistics: StatisticsFunction
    compute_score: Callable[[NDArray[Any]], float]
    signature_options: str

    def collect_statistics(
        self, hypotheses: Sequence[str], references: References
    ) -> MetricStatistics:
        """Count in each caption what the measure looks at.

        >>> caption_bleu_metric().collect_statistics(["a dog"], [["a cat", "the dog runs"]]).rows
        array([[2, 2, 2, 0, 0, 0, 2, 1, 0, 0]])
        """
        ours, theirs = _tokenize_all(hypotheses, references)
        signature = f"{self.name}, {_build_signature(theirs, self.signature_options)}"
        return MetricStatistics(
            self.statistics(ours, theirs),
            signature,
            lambda sums: PlainScore(self.compute_score(sums)),
        )


@dataclass(frozen=True)
class PlainScore:
    """A score without details."""

    score: float


def caption_bleu_metric(max_order: int = MAX_NGRAM_ORDER) -> CaptionMetric:
    """BLEU of up to `n` words in a row."""
    if max_order not in range(1, MAX_NGRAM_ORDER + 1):
        raise UserError(
            f"expected BLEU of 1 to {MAX_NGRAM_ORDER} words in a row, got {safe_repr(max_order)}"
        )
    return CaptionMetric(
        f"BLEU-{max_order}",
        count_bleu_ngrams,
        lambda sums: compute_bleu_scores(sums)[max_order - 1],
        "len:closest|smooth:none",
    )


def cider_metric() -> CaptionMetric:
    """CIDEr-D. A resample keeps what is rare in the whole set."""
    return _mean_metric("CIDEr-D", cider_d, "df:set")


def rouge_metric() -> CaptionMetric:
    """ROUGE-L."""
    return _mean_metric("ROUGE-L", rouge_l, "beta:1.2")


def exact_match_metric() -> CaptionMetric:
    """The captions that are a reference, word for word, in per cent."""
    return _mean_metric("exact match", exact_matches, "any-reference")


def _mean_metric(
    name: str, statistics: StatisticsFunction, signature_options: str
) -> CaptionMetric:
    """A measure of a set that is the mean of its captions': their sum, and how many there are."""

    def rows(ours: Sequence[Tokens], theirs: Sequence[Sequence[Tokens]]) -> NDArray[np.float64]:
        scores = statistics(ours, theirs)
        return np.stack([scores, np.ones_like(scores)], axis=1)

    return CaptionMetric(name, rows, lambda sums: float(sums[0] / sums[1]), signature_options)


def _tokenize_all(
    hypotheses: Sequence[str], references: References
) -> tuple[list[list[str]], list[list[list[str]]]]:
    lists = normalize_references(hypotheses, references)
    theirs = [[tokenize_caption(text) for text in texts] for texts in lists]
    return [tokenize_caption(text) for text in hypotheses], theirs


def _build_signature(references: Sequence[Sequence[Tokens]], signature_options: str) -> str:
    """Say what was computed, as sacreBLEU's signatures do."""
    counts = {len(some) for some in references}
    number = counts.pop() if len(counts) == 1 else "var"
    return f"nrefs:{number}|case:lc|tok:{TOKENIZATION}|{signature_options}|version:workings-captions-{_VERSION}"
