"""How good translations are: BLEU and chrF of a whole set, with what they were computed by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from workings.scores import measures
from workings.scores.measures import Measure
from workings.scores.pairs import References


@dataclass(frozen=True)
class Bleu:
    """A BLEU score, from 0 to 100, and what it is made of."""

    score: float
    precisions: tuple[float, ...]  # of one to four words in a row, in per cent
    brevity_penalty: float
    words: int  # of the hypotheses
    reference_words: int
    signature: str


@dataclass(frozen=True)
class ChrF:
    """A chrF score, from 0 to 100."""

    score: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """What a set of translations is worth."""

    bleu: Bleu
    chrf: ChrF


def score(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> Scores:
    """Score translations, plain text as people write it, by BLEU and chrF as sacreBLEU has them.

    A sentence has a reference, or a list of them.

    >>> scores = score(["the cat sat on the mat"], ["the cat lay on the mat"])
    >>> round(scores.bleu.score, 2), round(scores.chrf.score, 2)
    (37.99, 61.09)
    >>> scores.bleu.signature
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    """
    counted = measures.chrf(lowercase=lowercase).count(hypotheses, references)
    return Scores(
        _bleu(measures.bleu(lowercase=lowercase), hypotheses, references),
        ChrF(counted.score().score, counted.signature),
    )


def tokenised_bleu(
    hypotheses: Sequence[str], references: References, *, language: str, lowercase: bool = False
) -> Bleu:
    """Score translations by BLEU over the words that Moses makes of both sides, as multi-bleu does.

    For comparison with papers that report it so. `language` is that of the translations.

    >>> found = tokenised_bleu(["A dog runs."], ["a dog runs ."], language="en", lowercase=True)
    >>> round(found.score, 2), found.words
    (100.0, 4)
    >>> found.signature
    'tokenised BLEU (Moses en, lower case), sacremoses ..., nrefs:1|case:lc|...'
    """
    return _bleu(measures.moses_bleu(language, lowercase=lowercase), hypotheses, references)


def _bleu(measure: Measure, hypotheses: Sequence[str], references: References) -> Bleu:
    from sacrebleu.metrics.bleu import BLEUScore

    counted = measure.count(hypotheses, references)
    scored = cast(BLEUScore, counted.score())
    return Bleu(
        score=scored.score,
        precisions=tuple(scored.precisions),
        brevity_penalty=scored.bp,
        words=scored.sys_len,
        reference_words=scored.ref_len,
        signature=counted.signature,
    )
