"""BLEU, CIDEr-D and ROUGE-L as the evaluation of captions computes them, over words cut already.

The formulas are those of the COCO caption evaluation, whose numbers papers report, with the odd
choices that they contain: tests hold ours to its figures.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError

Words: TypeAlias = Sequence[str]
Gram: TypeAlias = tuple[str, ...]

LONGEST = 4  # words in a row
_SMALL, _TINY = 1e-9, 1e-15  # keep a division by zero from happening, and its result small
_WIDTH = 6.0  # of the bell curve by which CIDEr-D punishes another length
_RECALL = 1.2  # how much more recall counts than precision in ROUGE-L


def bleu_counts(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> NDArray[np.int64]:
    """Count in each caption: its words, the closest reference's, n-grams that are right, n-grams.

    >>> bleu_counts([["a", "dog"]], [[["a", "cat"], ["the", "dog", "runs"]]])
    array([[2, 2, 2, 0, 0, 0, 2, 1, 0, 0]])
    """
    return np.array(
        [_bleu_row(words, refs) for words, refs in zip(hypotheses, references, strict=True)]
    )


def _bleu_row(words: Words, references: Sequence[Words]) -> list[int]:
    most: Counter[Gram] = Counter()
    for reference in references:
        most |= _grams(reference)
    right = [0] * LONGEST
    for gram, times in (_grams(words) & most).items():
        right[len(gram) - 1] += times
    made = [max(len(words) - n, 0) for n in range(LONGEST)]
    closest = min((abs(len(ref) - len(words)), len(ref)) for ref in references)[1]
    return [len(words), closest, *right, *made]


def bleus(sums: NDArray[np.int64]) -> list[float]:
    """Work BLEU-1 to BLEU-4 out of counts that were added up, from 0 to 100.

    Nothing is smoothed. Where no n-gram is right the score is next to nothing, not quite 0.
    """
    length, closest, *counts = sums.tolist()
    ratio = (length + _TINY) / (closest + _SMALL)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    product, found = 1.0, []
    for n, (right, made) in enumerate(zip(counts[:LONGEST], counts[LONGEST:], strict=True), 1):
        product *= (right + _TINY) / (made + _SMALL)
        found.append(100 * brevity * product ** (1 / n))
    return found


def cider_d(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> NDArray[np.float64]:
    """CIDEr-D of each caption, from 0 to 1000 (Vedantam et al. 2015).

    How alike a caption and its references are in n-grams, those that fewer images share counting
    more. In how many images an n-gram occurs is counted in these references: of a single image
    all n-grams would be everywhere, and nothing would count.
    """
    if len(hypotheses) < 2:
        raise UserError("expected captions of two images or more: CIDEr-D asks what images share")
    counted = [[_grams(words) for words in refs] for refs in references]
    images = Counter(gram for refs in counted for gram in set().union(*refs))
    rarity = {gram: math.log(len(counted) / times) for gram, times in images.items()}
    unseen = math.log(len(counted))
    scores = []
    for words, refs in zip(hypotheses, counted, strict=True):
        ours = _Weighed(_grams(words), rarity, unseen)
        alike = [ours.likeness(_Weighed(ref, rarity, unseen)) for ref in refs]
        scores.append(1000 * sum(alike) / len(alike))
    return np.array(scores)


class _Weighed:
    """The n-grams of a caption by how often they occur and how rare they are, a table an n."""

    def __init__(self, grams: Counter[Gram], rarity: dict[Gram, float], unseen: float) -> None:
        self.tables: list[dict[Gram, float]] = [{} for _ in range(LONGEST)]
        for gram, times in grams.items():
            self.tables[len(gram) - 1][gram] = times * rarity.get(gram, unseen)
        self.norms = [math.hypot(*table.values()) for table in self.tables]
        # The evaluation takes the number of pairs for the length: a word less, or none.
        self.length = sum(times for gram, times in grams.items() if len(gram) == 2)

    def likeness(self, other: "_Weighed") -> float:
        """Compare with a reference, from 0 to 1; what is said too often counts as it has it."""
        total = 0.0
        for n in range(LONGEST):
            table, theirs = self.tables[n], other.tables[n]
            # In the caption's own order: sums in the order of a set differ in their last digit.
            same = sum(min(table[g], theirs[g]) * theirs[g] for g in table if g in theirs)
            if same:
                total += same / (self.norms[n] * other.norms[n])
        return total / LONGEST * math.exp(-((self.length - other.length) ** 2) / (2 * _WIDTH**2))


def rouge_l(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> NDArray[np.float64]:
    """ROUGE-L of each caption, from 0 to 100: the longest words in common that keep their order.

    The best precision and the best recall are taken, if need be of two references.

    >>> rouge_l([["a", "dog", "runs"]], [[["a", "brown", "dog", "runs"]]]).round(1)
    array([83.6])
    """
    pairs = zip(hypotheses, references, strict=True)
    return np.array([100 * _rouge(words, refs) for words, refs in pairs])


def _rouge(words: Words, references: Sequence[Words]) -> float:
    common = [in_common(words, ref) for ref in references]
    if not any(common):
        return 0.0
    precision = max(common) / len(words)
    recall = max(n / len(ref) for n, ref in zip(common, references, strict=True) if n)
    more = _RECALL**2
    return (1 + more) * precision * recall / (recall + more * precision)


def in_common(words: Words, others: Words) -> int:
    """Count the words of the longest common subsequence.

    >>> in_common("a dog runs fast".split(), "a big dog is fast".split())
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


def exact(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> NDArray[np.float64]:
    """Give each caption that is one of its references, word for word, 100, and others 0."""
    pairs = zip(hypotheses, references, strict=True)
    return np.array([100.0 * (words in refs) for words, refs in pairs])


def _grams(words: Words) -> Counter[Gram]:
    return Counter(_each_gram(tuple(words)))


def _each_gram(words: Gram) -> Iterable[Gram]:
    for n in range(1, LONGEST + 1):
        for start in range(len(words) - n + 1):
            yield words[start : start + n]
