"""What quality is measured by: metrics of sacreBLEU's, and what is done to a text before.

A measure counts in each sentence and scores sums of these counts, so that the score of any choice
of sentences (a bucket, a resample) follows without reading a text again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workings.scores.moses import moses_tokeniser
from workings.scores.pairs import References, lists_of_references

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score


class Scored(Protocol):
    """A score, maybe with its details."""

    @property
    def score(self) -> float: ...


@dataclass(frozen=True)
class Counts:
    """What a measure counted: a row a sentence."""

    rows: NDArray[np.int64] | NDArray[np.float64]
    signature: str
    score_of: Callable[[NDArray[Any]], Scored]
    """scores sentences whose counts were added up"""

    def score(self) -> Scored:
        """Score all the sentences."""
        return self.score_of(self.rows.sum(0))


class Measure(Protocol):
    """Whatever counts in sentences."""

    def count(self, hypotheses: Sequence[str], references: References) -> Counts: ...


@dataclass(frozen=True)
class SacreMeasure:
    """A metric, how texts are prepared for it, and how its signature begins to tell of that."""

    metric: "Metric"
    prepare: Callable[[str], str] = str
    title: str = ""

    def count(self, hypotheses: Sequence[str], references: References) -> Counts:
        """Count in each sentence what the metric looks at.

        >>> counted = bleu().count(["a cat", "a dog"], ["a cat", "the dog"])
        >>> counted.rows[1]  # two lengths, n-grams that are right, n-grams (n from 1 to 4)
        array([2, 2, 1, 0, 0, 0, 2, 1, 0, 0])
        """
        lists = lists_of_references(hypotheses, references)
        prepared = [[self.prepare(text) for text in texts] for texts in lists]
        # sacreBLEU wants all first references, then all second ones; None where there are fewer.
        streams = list(zip_longest(*prepared))
        rows = self.metric._extract_corpus_statistics(
            [self.prepare(text) for text in hypotheses],
            streams,
        )
        signature = f"{self.title}{self.metric.get_signature()}"
        return Counts(np.array(rows, np.int64), signature, self._score)

    def _score(self, sums: NDArray[np.int64]) -> "Score":
        """Give sacreBLEU's own object, with its details."""
        # Private, but it and its sister above are what sacreBLEU's own tests of significance call.
        scored: Score = self.metric._compute_score_from_stats(sums.tolist())
        return scored


def bleu(*, lowercase: bool = False, short: bool = False) -> SacreMeasure:
    """BLEU as sacreBLEU defines it: comparable between papers, its words cut by 13a.

    `short`: where no translation has four words, fewer in a row are enough. Else BLEU is 0 there.
    """
    from sacrebleu.metrics.bleu import BLEU

    return SacreMeasure(BLEU(lowercase=lowercase, effective_order=short))


def chrf(*, lowercase: bool = False) -> SacreMeasure:
    """The chrF of up to six characters, recall counting twice as much as precision."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreMeasure(CHRF(lowercase=lowercase))


def moses_bleu(language: str, *, lowercase: bool = False) -> SacreMeasure:
    """BLEU over Moses's words and without smoothing: what multi-bleu gives for such text."""
    from sacrebleu.metrics.bleu import BLEU

    prepare = moses_tokeniser(language, lowercase=lowercase)
    case = "lower case" if lowercase else "mixed case"
    title = f"tokenised BLEU (Moses {language}, {case}), sacremoses {version('sacremoses')}, "
    # `force`: sacreBLEU would warn that the text looks tokenised, which it is.
    metric = BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)
    return SacreMeasure(metric, prepare, title)
