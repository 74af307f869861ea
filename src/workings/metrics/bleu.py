"""What is scored: a hypothesis a sentence, and one or more references for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError, did_you_mean

References: TypeAlias = Sequence[str] | Sequence[Sequence[str]]


def check_same_length(texts: Sequence[object], hypotheses: Sequence[str], name: str) -> None:
    """Stop lists that cannot belong together, sentence by sentence.

    >>> check_same_length(["ein Hund"], ["a dog", "a cat"], "sources")
    Traceback (most recent call last):
    workings.errors.UserError: expected as many sources as hypotheses (2), got 1
    """
    if isinstance(texts, str) or isinstance(hypotheses, str):
        raise UserError("expected a list with a text for each sentence, got one text")
    if len(texts) != len(hypotheses):
        raise UserError(
            f"expected as many {name} as hypotheses ({len(hypotheses)}), got {len(texts)}"
        )


def normalize_references(
    hypotheses: Sequence[str], references: References
) -> list[tuple[str, ...]]:
    """Give every sentence a list of references, of which there may be one; check that all fits.

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
        if not all(isinstance(text, str) for text in (texts[0], *texts[1])):
            raise UserError(f"expected texts, got something else for sentence {number}")
    return lists


def build_moses_tokenizer(language: str, *, lowercase: bool = False) -> Callable[[str], str]:
    """Give a function that puts spaces between words as Moses does for a language.

    Lower case comes first: where a sentence ends is told by the capital after it, and a model that
    writes in lower case should not be scored by capitals that only the references have.

    >>> build_moses_tokenizer("de", lowercase=True)("Ein Hund, z.B. Bello, rennt.")
    'ein hund , z.b. bello , rennt .'
    """
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:  # it would be cut as English is, without a word
        raise UserError(f"Moses has no language {language!r}: {did_you_mean(language, known)}")
    moses = MosesTokenizer(language)

    def tokenise(text: str) -> str:
        cut: str = moses.tokenize(
            text.lower() if lowercase else text, escape=False, return_str=True
        )
        return cut

    return tokenise


if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score


class HasScore(Protocol):
    """A score, maybe with its details."""

    @property
    def score(self) -> float: ...


@dataclass(frozen=True)
class MetricStatistics:
    """What a measure counted: a row a sentence."""

    rows: NDArray[np.int64] | NDArray[np.float64]
    signature: str
    compute_score: Callable[[NDArray[Any]], HasScore]
    """scores sentences whose counts were added up"""

    def score(self) -> HasScore:
        """Score all the sentences."""
        return self.compute_score(self.rows.sum(0))


class CorpusMetric(Protocol):
    """Whatever counts in sentences."""

    def collect_statistics(
        self, hypotheses: Sequence[str], references: References
    ) -> MetricStatistics: ...


@dataclass(frozen=True)
class SacreBLEUMetric:
    """A metric, how texts are prepared for it, and how its signature begins to tell of that."""

    metric: "Metric"
    preprocess: Callable[[str], str] = str
    signature_prefix: str = ""

    def collect_statistics(
        self, hypotheses: Sequence[str], references: References
    ) -> MetricStatistics:
        """Count in each sentence what the metric looks at.

        >>> counted = bleu_metric().collect_statistics(["a cat", "a dog"], ["a cat", "the dog"])
        >>> counted.rows[1]  # two lengths, n-grams that are right, n-grams (n from 1 to 4)
        array([2, 2, 1, 0, 0, 0, 2, 1, 0, 0])
        """
        lists = normalize_references(hypotheses, references)
        prepared = [[self.preprocess(text) for text in texts] for texts in lists]
        # sacreBLEU wants all first references, then all second ones; None where there are fewer.
        streams = list(zip_longest(*prepared))
        rows = self.metric._extract_corpus_statistics(
            [self.preprocess(text) for text in hypotheses],
            streams,
        )
        signature = f"{self.signature_prefix}{self.metric.get_signature()}"
        return MetricStatistics(np.array(rows, np.int64), signature, self._compute_score)

    def _compute_score(self, sums: NDArray[np.int64]) -> "Score":
        """Give sacreBLEU's own object, with its details."""
        # Private, but it and its sister above are what sacreBLEU's own tests of significance call.
        scored: Score = self.metric._compute_score_from_stats(sums.tolist())
        return scored


def bleu_metric(*, lowercase: bool = False, effective_order: bool = False) -> SacreBLEUMetric:
    """BLEU as sacreBLEU defines it: comparable between papers, its words cut by 13a.

    `short`: where no translation has four words, fewer in a row are enough. Else BLEU is 0 there.
    """
    from sacrebleu.metrics.bleu import BLEU

    return SacreBLEUMetric(BLEU(lowercase=lowercase, effective_order=effective_order))


def chrf_metric(*, lowercase: bool = False) -> SacreBLEUMetric:
    """The chrF of up to six characters, recall counting twice as much as precision."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreBLEUMetric(CHRF(lowercase=lowercase))


def moses_bleu_metric(language: str, *, lowercase: bool = False) -> SacreBLEUMetric:
    """BLEU over Moses's words and without smoothing: what multi-bleu gives for such text."""
    from sacrebleu.metrics.bleu import BLEU

    prepare = build_moses_tokenizer(language, lowercase=lowercase)
    case = "lower case" if lowercase else "mixed case"
    title = f"tokenised BLEU (Moses {language}, {case}), sacremoses {version('sacremoses')}, "
    # `force`: sacreBLEU would warn that the text looks tokenised, which it is.
    metric = BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)
    return SacreBLEUMetric(metric, prepare, title)


@dataclass(frozen=True)
class BLEUResult:
    """A BLEU score, from 0 to 100, and what it is made of."""

    score: float
    precisions: tuple[float, ...]  # of one to four words in a row, in per cent
    brevity_penalty: float
    hypothesis_length: int  # of the hypotheses
    reference_length: int
    signature: str


@dataclass(frozen=True)
class ChrFResult:
    """A chrF score, from 0 to 100."""

    score: float
    signature: str


@dataclass(frozen=True)
class CorpusScores:
    """What a set of translations is worth."""

    bleu: BLEUResult
    chrf: ChrFResult


def score_translations(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> CorpusScores:
    """Score translations, plain text as people write it, by BLEU and chrF as sacreBLEU has them.

    A sentence has a reference, or a list of them.

    >>> scores = score_translations(["the cat sat on the mat"], ["the cat lay on the mat"])
    >>> round(scores.bleu.score, 2), round(scores.chrf.score, 2)
    (37.99, 61.09)
    >>> scores.bleu.signature
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    """
    counted = chrf_metric(lowercase=lowercase).collect_statistics(hypotheses, references)
    return CorpusScores(
        _compute_bleu(bleu_metric(lowercase=lowercase), hypotheses, references),
        ChrFResult(counted.score().score, counted.signature),
    )


def score_tokenized_bleu(
    hypotheses: Sequence[str], references: References, *, language: str, lowercase: bool = False
) -> BLEUResult:
    """Score translations by BLEU over the words that Moses makes of both sides, as multi-bleu does.

    For comparison with papers that report it so. `language` is that of the translations.

    >>> found = score_tokenized_bleu(["A dog runs."], ["a dog runs ."], language="en", lowercase=True)
    >>> round(found.score, 2), found.hypothesis_length
    (100.0, 4)
    >>> found.signature
    'tokenised BLEU (Moses en, lower case), sacremoses ..., nrefs:1|case:lc|...'
    """
    return _compute_bleu(moses_bleu_metric(language, lowercase=lowercase), hypotheses, references)


def _compute_bleu(
    metric: CorpusMetric, hypotheses: Sequence[str], references: References
) -> BLEUResult:
    from sacrebleu.metrics.bleu import BLEUScore

    counted = metric.collect_statistics(hypotheses, references)
    scored = cast(BLEUScore, counted.score())
    return BLEUResult(
        score=scored.score,
        precisions=tuple(scored.precisions),
        brevity_penalty=scored.bp,
        hypothesis_length=scored.sys_len,
        reference_length=scored.ref_len,
        signature=counted.signature,
    )
