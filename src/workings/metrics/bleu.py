"""BLEU and chrF of translations, computed by sacreBLEU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score

References: TypeAlias = Sequence[str] | Sequence[Sequence[str]]
"""One reference, or a list of references, for each sentence."""


@dataclass(frozen=True)
class BLEUResult:
    """A BLEU score, from 0 to 100, and what it was computed from."""

    score: float
    precisions: tuple[float, ...]  # of 1-grams to 4-grams, in percent
    brevity_penalty: float
    hypothesis_length: int  # in words
    reference_length: int
    signature: str


@dataclass(frozen=True)
class ChrFResult:
    """A chrF score, from 0 to 100."""

    score: float
    signature: str


@dataclass(frozen=True)
class CorpusScores:
    """The scores of a set of translations."""

    bleu: BLEUResult
    chrf: ChrFResult


def score_translations(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> CorpusScores:
    """Compute sacreBLEU's BLEU and chrF of translations that are not tokenized.

    >>> scores = score_translations(["the cat sat on the mat"], ["the cat lay on the mat"])
    >>> round(scores.bleu.score, 2), round(scores.chrf.score, 2)
    (37.99, 61.09)
    >>> scores.bleu.signature
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    """
    chrf = chrf_metric(lowercase=lowercase).collect_statistics(hypotheses, references)
    return CorpusScores(
        _compute_bleu(bleu_metric(lowercase=lowercase), hypotheses, references),
        ChrFResult(chrf.score().score, chrf.signature),
    )


def score_tokenized_bleu(
    hypotheses: Sequence[str], references: References, *, language: str, lowercase: bool = False
) -> BLEUResult:
    """Compute BLEU as multi-bleu.perl does, after tokenizing both sides by Moses's rules.

    For comparison with papers that report tokenized BLEU. `language` is the language of the
    translations.

    >>> result = score_tokenized_bleu(
    ...     ["A dog runs."], ["a dog runs ."], language="en", lowercase=True
    ... )
    >>> round(result.score, 2), result.hypothesis_length
    (100.0, 4)
    >>> result.signature
    'tokenized BLEU (Moses en, lower case), sacremoses ..., nrefs:1|case:lc|...'
    """
    metric = moses_bleu_metric(language, lowercase=lowercase)
    return _compute_bleu(metric, hypotheses, references)


def _compute_bleu(
    metric: "CorpusMetric", hypotheses: Sequence[str], references: References
) -> BLEUResult:
    from sacrebleu.metrics.bleu import BLEUScore

    statistics = metric.collect_statistics(hypotheses, references)
    result = cast(BLEUScore, statistics.score())
    return BLEUResult(
        score=result.score,
        precisions=tuple(result.precisions),
        brevity_penalty=result.bp,
        hypothesis_length=result.sys_len,
        reference_length=result.ref_len,
        signature=statistics.signature,
    )


class HasScore(Protocol):
    """An object with a score: a plain number, or sacreBLEU's object with its details."""

    @property
    def score(self) -> float: ...


@dataclass(frozen=True)
class MetricStatistics:
    """The counts from which a metric is computed, one row per sentence."""

    rows: NDArray[np.int64] | NDArray[np.float64]
    signature: str
    compute_score: Callable[[NDArray[Any]], HasScore]
    """Computes the score of some sentences from the sum of their rows."""

    def score(self) -> HasScore:
        """Return the score of all sentences together."""
        return self.compute_score(self.rows.sum(0))


class CorpusMetric(Protocol):
    """A metric that is computed from sums of counts per sentence."""

    def collect_statistics(
        self, hypotheses: Sequence[str], references: References
    ) -> MetricStatistics: ...


@dataclass(frozen=True)
class SacreBLEUMetric:
    """A metric of sacreBLEU, applied to preprocessed texts."""

    metric: "Metric"
    preprocess: Callable[[str], str] = str
    signature_prefix: str = ""

    def collect_statistics(
        self, hypotheses: Sequence[str], references: References
    ) -> MetricStatistics:
        """Return the counts of each sentence from which the metric is computed.

        >>> statistics = bleu_metric().collect_statistics(["a cat", "a dog"], ["a cat", "the dog"])
        >>> statistics.rows[1]  # two lengths, matching n-grams, n-grams (n from 1 to 4)
        array([2, 2, 1, 0, 0, 0, 2, 1, 0, 0])
        """
        reference_lists = normalize_references(hypotheses, references)
        prepared = [[self.preprocess(text) for text in texts] for texts in reference_lists]
        # sacreBLEU expects all first references, then all second ones; None pads shorter lists.
        streams = list(zip_longest(*prepared))
        # Private, but sacreBLEU's own significance tests call these two methods as well.
        rows = self.metric._extract_corpus_statistics(
            [self.preprocess(text) for text in hypotheses],
            streams,
        )
        signature = f"{self.signature_prefix}{self.metric.get_signature()}"
        return MetricStatistics(np.array(rows, np.int64), signature, self._compute_score)

    def _compute_score(self, sums: NDArray[np.int64]) -> "Score":
        score: Score = self.metric._compute_score_from_stats(sums.tolist())
        return score


def bleu_metric(*, lowercase: bool = False, effective_order: bool = False) -> SacreBLEUMetric:
    """Return sacreBLEU's BLEU with the 13a tokenizer, comparable between papers.

    With `effective_order`, texts of fewer than four words are scored by shorter n-grams; without
    it their BLEU is 0.
    """
    from sacrebleu.metrics.bleu import BLEU

    return SacreBLEUMetric(BLEU(lowercase=lowercase, effective_order=effective_order))


def chrf_metric(*, lowercase: bool = False) -> SacreBLEUMetric:
    """Return chrF2: character n-grams up to length 6, recall weighted twice."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreBLEUMetric(CHRF(lowercase=lowercase))


def moses_bleu_metric(language: str, *, lowercase: bool = False) -> SacreBLEUMetric:
    """Return BLEU over Moses tokens without smoothing, equal to multi-bleu.perl."""
    from sacrebleu.metrics.bleu import BLEU

    tokenize = build_moses_tokenizer(language, lowercase=lowercase)
    case = "lower case" if lowercase else "mixed case"
    prefix = f"tokenized BLEU (Moses {language}, {case}), sacremoses {version('sacremoses')}, "
    # Without `force`, sacreBLEU warns that the text looks tokenized.
    metric = BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)
    return SacreBLEUMetric(metric, tokenize, prefix)


def build_moses_tokenizer(language: str, *, lowercase: bool = False) -> Callable[[str], str]:
    """Return a function that tokenizes a text by Moses's rules and joins the tokens with spaces.

    The text is lowercased first: Moses detects the end of a sentence by the capital letter after
    it, so the hypotheses of a lowercase model and mixed-case references would be split differently.

    >>> build_moses_tokenizer("de", lowercase=True)("Ein Hund, z.B. Bello, rennt.")
    'ein hund , z.b. bello , rennt .'
    """
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    languages = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in languages:  # sacremoses would silently fall back to English
        raise UserError(
            f"Moses has no rules for language {language!r}: {did_you_mean(language, languages)}"
        )
    moses = MosesTokenizer(language)

    def tokenize(text: str) -> str:
        tokens: str = moses.tokenize(
            text.lower() if lowercase else text, escape=False, return_str=True
        )
        return tokens

    return tokenize


def normalize_references(
    hypotheses: Sequence[str], references: References
) -> list[tuple[str, ...]]:
    """Return a tuple of references for each sentence, after checking counts and types.

    >>> normalize_references(["a dog", "a cat"], ["one dog", ["one cat", "the cat"]])
    [('one dog',), ('one cat', 'the cat')]
    """
    check_same_length(references, hypotheses, "references")
    if not hypotheses:
        raise UserError("there is nothing to score: expected at least one hypothesis")
    lists = [tuple(r) if isinstance(r, list | tuple) else (r,) for r in references]
    if not all(lists):
        raise UserError(f"sentence {lists.index(()) + 1} has no reference")
    for number, texts in enumerate(zip(hypotheses, lists, strict=True), 1):
        for text in (texts[0], *texts[1]):
            if not isinstance(text, str):
                raise UserError(f"sentence {number}: expected texts, got {type(text).__name__}")
    return lists


def check_same_length(texts: Sequence[object], hypotheses: Sequence[str], name: str) -> None:
    """Raise a UserError if there is not exactly one of `texts` for each hypothesis.

    >>> check_same_length(["ein Hund"], ["a dog", "a cat"], "sources")
    Traceback (most recent call last):
    workings.errors.UserError: expected as many sources as hypotheses (2), got 1
    """
    if isinstance(texts, str) or isinstance(hypotheses, str):
        raise UserError("expected a list with one text per sentence, got a single text")
    if len(texts) != len(hypotheses):
        raise UserError(
            f"expected as many {name} as hypotheses ({len(hypotheses)}), got {len(texts)}"
        )
