"""How good captions are: BLEU-1 to BLEU-4, CIDEr-D, ROUGE-L and exact match, without Java.

Figures are the hundreds that papers print. METEOR and SPICE need tables of synonyms and a parser,
and are not here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError, shown
from workings.scores.caption_counts import (
    LONGEST,
    Words,
    bleu_counts,
    bleus,
    cider_d,
    exact,
    rouge_l,
)
from workings.scores.caption_words import TOKENISATION, caption_words
from workings.scores.measures import Counts
from workings.scores.pairs import References, lists_of_references

_VERSION = 1  # of words and formulas: figures of one version can be compared

Counting: TypeAlias = Callable[[Sequence[Words], Sequence[Sequence[Words]]], NDArray[Any]]


@dataclass(frozen=True)
class CaptionScores:
    """What a set of captions is worth."""

    bleu: tuple[float, ...]  # BLEU-1 to BLEU-4, from 0 to 100
    cider: float | None  # CIDEr-D, from 0 to 1000; of one image there is none
    rouge: float  # ROUGE-L, from 0 to 100
    exact: float  # per cent of the captions that are a reference, word for word
    signature: str


def score_captions(hypotheses: Sequence[str], references: References) -> CaptionScores:
    """Score captions, plain text, of images that have a reference each, or a list of them.

    CIDEr-D learns from the references of the very set that is scored what is said of many images:
    its figures compare systems on one set, not sets, and it needs two images at least.

    >>> found = score_captions(
    ...     ["A dog runs.", "two cats sleep"],
    ...     [["a dog runs", "the brown dog runs fast"], ["two cats on a sofa"]],
    ... )
    >>> [round(figure, 1) for figure in (*found.bleu, found.cider, found.rouge, found.exact)]
    [59.7, 56.6, 48.6, 1.7, 355.9, 73.9, 50.0]
    >>> found.signature
    'nrefs:var|case:lc|tok:words,clitics-apart,no-punctuation|len:closest|smooth:none|df:set|...'
    """
    ours, theirs = _words(hypotheses, references)
    return CaptionScores(
        bleu=tuple(bleus(bleu_counts(ours, theirs).sum(0))),
        cider=float(cider_d(ours, theirs).mean()) if len(ours) > 1 else None,
        rouge=float(rouge_l(ours, theirs).mean()),
        exact=float(exact(ours, theirs).mean()),
        signature=_signature(theirs, "len:closest|smooth:none|df:set"),
    )


@dataclass(frozen=True)
class CaptionMeasure:
    """One of these by itself, as `bootstrap.compare` takes it."""

    name: str
    counting: Counting
    scoring: Callable[[NDArray[Any]], float]
    how: str

    def count(self, hypotheses: Sequence[str], references: References) -> Counts:
        """Count in each caption what the measure looks at.

        >>> caption_bleu().count(["a dog"], [["a cat", "the dog runs"]]).rows
        array([[2, 2, 2, 0, 0, 0, 2, 1, 0, 0]])
        """
        ours, theirs = _words(hypotheses, references)
        signature = f"{self.name}, {_signature(theirs, self.how)}"
        return Counts(
            self.counting(ours, theirs), signature, lambda sums: Figure(self.scoring(sums))
        )


@dataclass(frozen=True)
class Figure:
    """A score without details."""

    score: float


def caption_bleu(n: int = LONGEST) -> CaptionMeasure:
    """BLEU of up to `n` words in a row."""
    if n not in range(1, LONGEST + 1):
        raise UserError(f"expected BLEU of 1 to {LONGEST} words in a row, got {shown(n)}")
    return CaptionMeasure(
        f"BLEU-{n}", bleu_counts, lambda sums: bleus(sums)[n - 1], "len:closest|smooth:none"
    )


def cider() -> CaptionMeasure:
    """CIDEr-D. A resample keeps what is rare in the whole set."""
    return _mean("CIDEr-D", cider_d, "df:set")


def rouge() -> CaptionMeasure:
    """ROUGE-L."""
    return _mean("ROUGE-L", rouge_l, "beta:1.2")


def exact_match() -> CaptionMeasure:
    """The captions that are a reference, word for word, in per cent."""
    return _mean("exact match", exact, "any-reference")


def _mean(name: str, counting: Counting, how: str) -> CaptionMeasure:
    """A measure of a set that is the mean of its captions': their sum, and how many there are."""

    def rows(ours: Sequence[Words], theirs: Sequence[Sequence[Words]]) -> NDArray[np.float64]:
        scores = counting(ours, theirs)
        return np.stack([scores, np.ones_like(scores)], axis=1)

    return CaptionMeasure(name, rows, lambda sums: float(sums[0] / sums[1]), how)


def _words(
    hypotheses: Sequence[str], references: References
) -> tuple[list[list[str]], list[list[list[str]]]]:
    lists = lists_of_references(hypotheses, references)
    theirs = [[caption_words(text) for text in texts] for texts in lists]
    return [caption_words(text) for text in hypotheses], theirs


def _signature(references: Sequence[Sequence[Words]], how: str) -> str:
    """Say what was computed, as sacreBLEU's signatures do."""
    counts = {len(some) for some in references}
    number = counts.pop() if len(counts) == 1 else "var"
    return f"nrefs:{number}|case:lc|tok:{TOKENISATION}|{how}|version:workings-captions-{_VERSION}"
