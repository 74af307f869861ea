"""Problems on scores of texts: BLEU, ROUGE-L, edit distance and word error rate."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Op, Terms, UnaryOp, format_symbol
from workings.problems.options import (
    Option,
    make_choice,
    make_count,
    make_number,
    make_words,
    parse_choice,
)
from workings.problems.recursive_tables import Corner, EditTable, SubsequenceTable

if TYPE_CHECKING:
    from workings.problems.problem import Problem

Words = tuple[str, ...]
MAX_REFERENCES = 8


def _parse_references(where: str, value: Any) -> tuple[Words, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not 1 <= len(texts) <= MAX_REFERENCES:
        raise UserError(f"{where} must be a text or a list of 1 to {MAX_REFERENCES} texts")
    return tuple(make_words().parse(where, text) for text in texts)


def list_ngrams(words: Words, order: int) -> list[Words]:
    """Return the n-grams of a text in order, with repeats.

    >>> list_ngrams(("a", "b", "a"), 2)
    [('a', 'b'), ('b', 'a')]
    """
    return [words[k : k + order] for k in range(len(words) - order + 1)]


@dataclass(frozen=True)
class Numbers(Op):
    """Numbers that are counted in a text.

    `alternatives` are wrong ones: the name of the mistake, its rows and a description.
    """

    rows: tuple[tuple[float, ...], ...]
    description: str
    alternatives: tuple[tuple[str, tuple[tuple[float, ...], ...], str], ...] = ()

    def compute(self, env: Env) -> IntervalMatrix:  # noqa: ARG002
        return IntervalMatrix.exact(np.array(self.rows, dtype=np.float64))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.word(self.description)

    def sources(self) -> tuple[str, ...]:
        return ()

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for name, rows, description in self.alternatives:
            yield name, replace(self, rows=rows, alternatives=()), description


@dataclass(frozen=True)
class ClippedCounts(UnaryOp):
    """How often each n-gram counts: as often as in the candidate, at most as in a reference.

    `rule` is for mistakes: all (not clipped), once, sum (over references), first (reference).
    """

    rule: str = "most"

    def compute(self, env: Env) -> IntervalMatrix:
        counts = env[self.x]
        mid, lo, hi = (self._clip(end) for end in (counts.mid, counts.lo, counts.hi))
        tainted = np.any(counts.tainted, axis=1, keepdims=True)
        return IntervalMatrix(mid, lo, hi, tainted)

    def _clip(self, counts: Floats) -> Floats:
        own, others = counts[:, :1], counts[:, 1:]
        limits = {
            "most": others.max(1, keepdims=True),
            "sum": others.sum(1, keepdims=True),
            "first": others[:, :1],
            "once": np.minimum(others.max(1, keepdims=True), 1),
            "all": np.where(others.max(1, keepdims=True) > 0, own, 0),
        }
        clipped: Floats = np.minimum(own, limits[self.rule])
        return clipped

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("min", n.word("candidate"), n.apply("max", n.word("references")))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        own, *others = (n.number(float(v)) for v in env[self.x].mid[i])
        return n.apply("min", own, others[0] if len(others) == 1 else n.apply("max", *others))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for name, rule, description in (
            (
                "not-clipped",
                "all",
                gettext("counted every n-gram that a reference has, however often"),
            ),
            ("counted-once", "once", gettext("counted each n-gram once")),
            ("clipped-by-sum", "sum", gettext("added up the counts of the references")),
            (
                "clipped-by-first-reference",
                "first",
                gettext("compared with the first reference only"),
            ),
        ):
            yield name, replace(self, rule=rule), description


@dataclass(frozen=True)
class PartSums(Op):
    """The sum of each of several columns, side by side."""

    parts: tuple[str, ...]

    def compute(self, env: Env) -> IntervalMatrix:
        mid, lo, hi = (
            np.array([[getattr(env[part], end).sum() for part in self.parts]])
            for end in ("mid", "lo", "hi")
        )
        tainted = np.array([[bool(env[part].tainted.any()) for part in self.parts]])
        return IntervalMatrix(mid, lo, hi, tainted)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("sum", n.symbol(self.parts[0].partition(".")[0]))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.total([n.factor(*factors) for factors in self.terms(env, i, j).products])

    def terms(self, env: Env, i: int, j: int) -> Terms:  # noqa: ARG002
        return Terms([(float(v),) for v in env[self.parts[j]].mid.ravel()])

    def sources(self) -> tuple[str, ...]:
        return self.parts


@dataclass(frozen=True)
class NgramTotals(Op):
    """The number of n-grams of a text: its length − n + 1."""

    length: int
    max_order: int
    plus: int = 1  # 0 or 2 by mistake
    subtracts_order: bool = True

    def compute(self, env: Env) -> IntervalMatrix:  # noqa: ARG002
        orders = np.arange(1, self.max_order + 1)
        totals = (
            self.length - orders + self.plus if self.subtracts_order else self.length + 0 * orders
        )
        return IntervalMatrix.exact(np.maximum(totals, 0)[None])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        length = n.row(n.symbol("c"), "−", n.symbol("n"))
        return n.total([length, n.number(1)])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        length = n.row(n.number(self.length), "−", n.number(j + 1))
        return n.total([length, n.number(self.plus)])

    def sources(self) -> tuple[str, ...]:
        return ()

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        constant = replace(self, subtracts_order=False)
        yield "length-for-totals", constant, gettext("divided every order by the number of words")
        yield "off-by-one", replace(self, plus=0), gettext("did not add 1")
        references = problem.setting.options["references"]
        lengths = {len(words) for words in references} - {self.length}
        for length in sorted(lengths):
            wrong = replace(self, length=length)
            yield "recall-for-precision", wrong, gettext("counted the n-grams of the reference")


@dataclass(frozen=True)
class Quotient(Op):
    """One matrix divided by another, elementwise; `added` is added to both, for smoothing."""

    top: str
    bottom: str
    added: tuple[float, ...] = ()
    # Mistakes: other divisors by name, such as the length of the other text.
    wrong_divisors: tuple[tuple[str, float, str], ...] = ()

    def compute(self, env: Env) -> IntervalMatrix:
        top, bottom = env[self.top], env[self.bottom]
        if self.added:
            extra = IntervalMatrix.exact(np.array([self.added]))
            top, bottom = top + extra, bottom + extra
        return top / bottom

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.top), format_symbol(n, self.bottom))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        extra = [n.number(self.added[j])] if self.added and self.added[j] else []
        top, bottom = (
            n.total([n.number(float(env[key].mid[i, j])), *extra])
            for key in (self.top, self.bottom)
        )
        return n.fraction(top, bottom)

    def sources(self) -> tuple[str, ...]:
        return (self.top, self.bottom)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        if any(self.added):
            yield "smoothing-forgotten", replace(self, added=()), gettext("did not add 1")
            first = replace(self, added=(1.0,) * len(self.added))
            yield "unigrams-smoothed", first, gettext("added 1 to the words, too")


@dataclass(frozen=True)
class Share(UnaryOp):
    """A number divided by the length of a text."""

    length: int
    name: str  # of the text
    others: tuple[tuple[str, int, str], ...] = ()  # wrong lengths: mistake, length, description

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.x] / IntervalMatrix.exact(float(self.length))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.x), n.apply("length", n.word(self.name)))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.fraction(n.number(float(env[self.x].mid[i, j])), n.number(self.length))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for name, length, description in self.others:
            if length != self.length and length > 0:
                yield name, replace(self, length=length, others=()), description
        if self.length > 1:
            yield (
                "not-divided",
                Copy(self.x),
                gettext("did not divide by {length}", length=self.length),
            )


@dataclass(frozen=True)
class BrevityPenalty(UnaryOp):
    """1 if the candidate (c) is at least as long as the reference (r), otherwise e^(1 − r/c).

    `rule` is for mistakes: none, inverted (c/r), ratio (no exponential), always (also if longer).
    """

    rule: str = "right"

    def compute(self, env: Env) -> IntervalMatrix:
        lengths = env[self.x]
        ends = [self._penalize(end) for end in (lengths.mid, lengths.lo, lengths.hi)]
        mid, tainted = ends[0], np.array([[bool(lengths.tainted.any())]])
        return IntervalMatrix(mid, np.minimum.reduce(ends), np.maximum.reduce(ends), tainted)

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        exact = self.compute(env)
        slack = np.where(exact.mid < 1, math.exp(unit), 1.0)  # r/c may be rounded
        return replace(exact, lo=exact.lo / slack, hi=exact.hi * slack)

    def _penalize(self, lengths: Floats) -> Floats:
        c, r = (max(float(v), 1e-9) for v in lengths[0])  # a claimed length may be 0
        if self.rule == "none" or (c >= r and self.rule not in ("always", "inverted")):
            return np.ones((1, 1))
        if self.rule == "inverted":
            return np.array([[math.exp(min(1 - c / r, 1.0))]])
        return np.array([[c / r if self.rule == "ratio" else math.exp(1 - r / c)]])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        ratio = n.fraction(n.symbol("r"), n.symbol("c"))
        power = n.power(n.symbol("e"), n.row(n.number(1), "−", ratio))
        return n.apply("min", n.number(1), power)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        c, r = (n.number(float(v)) for v in env[self.x].mid[0])
        power = n.power(n.symbol("e"), n.row(n.number(1), "−", n.fraction(r, c)))
        return n.apply("min", n.number(1), power)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for name, rule, description in (
            ("brevity-penalty-forgotten", "none", gettext("did not punish a short text")),
            ("brevity-ratio-inverted", "inverted", gettext("used c/r, not r/c")),
            ("brevity-without-exponential", "ratio", gettext("took c/r itself")),
            ("long-text-rewarded", "always", gettext("used e^(1 − r/c) for a long text, too")),
        ):
            yield name, replace(self, rule=rule), description


@dataclass(frozen=True)
class GeometricMean(UnaryOp):
    """The geometric mean of a row; `rule` is for mistakes: arithmetic, product, last."""

    rule: str = "geometric"

    def compute(self, env: Env) -> IntervalMatrix:
        row = env[self.x]
        mid, lo, hi = (self._average(np.maximum(end, 0)) for end in (row.mid, row.lo, row.hi))
        return IntervalMatrix(mid, lo, hi, np.any(row.tainted, axis=1, keepdims=True))

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        exact, slack = self.compute(env), math.exp(unit)  # the logarithms may be rounded
        return replace(exact, lo=exact.lo / slack, hi=exact.hi * slack)

    def _average(self, row: Floats) -> Floats:
        product = row.prod(1, keepdims=True)
        means: dict[str, Floats] = {
            "geometric": product ** (1 / row.shape[1]),
            "arithmetic": row.mean(1, keepdims=True),
            "product": product,
            "last": row[:, -1:],
        }
        return means[self.rule]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        product = n.apply("product", format_symbol(n, self.x))
        return n.power(product, n.fraction(n.number(1), n.symbol("N")))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        row = [float(v) for v in env[self.x].mid[i]]
        product = n.row("(", n.product(*(n.number(v) for v in row)), ")")
        return n.power(product, n.fraction(n.number(1), n.number(len(row))))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for name, rule, description in (
            ("arithmetic-for-geometric-mean", "arithmetic", gettext("took the arithmetic mean")),
            ("root-forgotten", "product", gettext("multiplied and did not take the root")),
            (
                "only-longest-ngrams",
                "last",
                gettext("took the precision of the longest n-grams alone"),
            ),
        ):
            yield name, replace(self, rule=rule), description


@dataclass(frozen=True)
class Product(Op):
    """The product of two numbers."""

    a: str
    b: str

    def compute(self, env: Env) -> IntervalMatrix:
        return env[self.a] * env[self.b]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.product(format_symbol(n, self.a), format_symbol(n, self.b))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        return n.product(*(n.factor(float(env[key].mid[i, j])) for key in (self.a, self.b)))

    def terms(self, env: Env, i: int, j: int) -> Terms:
        return Terms([(float(env[self.a].mid[i, j]), float(env[self.b].mid[i, j]))])

    def sources(self) -> tuple[str, ...]:
        return (self.a, self.b)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield (
            "brevity-penalty-forgotten",
            Copy(self.b),
            gettext("did not multiply by the brevity penalty"),
        )


@dataclass(frozen=True)
class FMeasure(Op):
    """`(1 + β²) P R / (R + β² P)`, or 0 if both are 0.

    `rule` is for mistakes: mean, no-factor (P R over the sum), swapped (P and R).
    """

    precision: str
    recall: str
    beta: float
    rule: str = "right"

    def compute(self, env: Env) -> IntervalMatrix:
        p, r = env[self.precision], env[self.recall]
        ends = [
            self._measure(*(float(getattr(m, end)[0, 0]) for m in (p, r)))
            for end in ("mid", "lo", "hi")
        ]
        mid, lo, hi = (np.array([[end]]) for end in ends)
        return IntervalMatrix(mid, lo, hi, p.tainted | r.tainted)

    def _measure(self, p: float, r: float) -> float:
        p, r = (r, p) if self.rule == "swapped" else (p, r)
        square = self.beta**2
        if self.rule == "mean":
            return (p + r) / 2
        total = r + square * p
        factor = 1.0 if self.rule == "no-factor" else 1 + square
        return factor * p * r / total if total > 0 else 0.0

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        p, r = format_symbol(n, self.precision), format_symbol(n, self.recall)
        return self._format(n, p, r)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        p, r = (n.number(float(env[key].mid[i, j])) for key in (self.precision, self.recall))
        return self._format(n, p, r)

    def _format(self, n: Notation, p: str, r: str) -> str:
        square = self.beta**2
        weighted = p if square == 1 else n.product(n.number(square), p)
        return n.fraction(n.product(n.number(1 + square), p, r), n.total([r, weighted]))

    def sources(self) -> tuple[str, ...]:
        return (self.precision, self.recall)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield (
            "arithmetic-for-harmonic-mean",
            replace(self, rule="mean"),
            gettext("took the mean of P and R"),
        )
        half = replace(self, rule="no-factor")
        yield (
            "factor-forgotten",
            half,
            gettext("did not multiply by {beta:g}", beta=1 + self.beta**2),
        )
        if self.beta != 1:
            yield "beta-forgotten", replace(self, beta=1.0), gettext("used β = 1")
            square_root = replace(self, beta=self.beta**0.5)
            yield "beta-not-squared", square_root, gettext("did not square β")
            yield (
                "precision-and-recall-swapped",
                replace(self, rule="swapped"),
                gettext("exchanged P and R"),
            )
        yield "precision-for-f", Copy(self.precision), gettext("took the precision")
        yield "recall-for-f", Copy(self.recall), gettext("took the recall")


def _build_bleu_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    options = setting.options
    candidate: Words = options["candidate"]
    references: tuple[Words, ...] = options["references"]
    orders = range(1, options["max_order"] + 1)
    if len(candidate) < len(orders):
        raise UserError(
            f"the candidate has {len(candidate)} words: max_order must be at most {len(candidate)}"
        )
    steps = []
    for order in orders:
        ngrams = list(dict.fromkeys(list_ngrams(candidate, order)))
        names = tuple(" ".join(ngram) for ngram in ngrams)
        steps += [
            Step(
                "counts",
                _count_ngrams(ngrams, candidate, references, order),
                part_index=order,
                row_axis=names,
                column_axis=_name_texts(len(references)),
            ),
            Step(
                "clipped",
                ClippedCounts(f"counts.{order}"),
                part_index=order,
                row_axis=names,
            ),
        ]
    axis = tuple(f"{order}-grams" for order in orders)
    added = (0.0, *[1.0] * (len(orders) - 1)) if options["smoothing"] == "add-one" else ()
    totals = NgramTotals(len(candidate), len(orders))
    matches = PartSums(tuple(f"clipped.{order}" for order in orders))
    return [
        *steps,
        Step("matches", matches, row_axis="", column_axis=axis),
        Step("totals", totals, row_axis="", column_axis=axis),
        Step("precisions", Quotient("matches", "totals", added), row_axis="", column_axis=axis),
        Step("mean", GeometricMean("precisions"), row_axis=""),
        Step(
            "lengths",
            _choose_lengths(candidate, references),
            row_axis="",
            column_axis=("c", "r"),
        ),
        Step("brevity_penalty", BrevityPenalty("lengths"), row_axis=""),
        Step("bleu", Product("brevity_penalty", "mean"), row_axis=""),
    ]


def _name_texts(num_references: int) -> tuple[str, ...]:
    if num_references == 1:
        return ("candidate", "reference")
    return ("candidate", *(gettext("reference {k}", k=k) for k in range(1, num_references + 1)))


def _count_ngrams(
    ngrams: list[Words], candidate: Words, references: tuple[Words, ...], order: int
) -> Numbers:
    """Return how often the candidate's n-grams are in each text: `[n-gram, text]`."""
    counts = [Counter(list_ngrams(words, order)) for words in (candidate, *references)]
    rows = tuple(tuple(float(count[ngram]) for count in counts) for ngram in ngrams)
    once = tuple(tuple(min(number, 1.0) for number in row) for row in rows)
    wrong = (("repeats-not-counted", once, gettext("counted each n-gram at most once")),)
    return Numbers(rows, gettext("the number of each n-gram in each text"), wrong)


def _choose_lengths(candidate: Words, references: tuple[Words, ...]) -> Numbers:
    """Return the lengths of the candidate and of the reference that is closest to it."""
    c, lengths = len(candidate), [len(words) for words in references]
    closest = min(lengths, key=lambda length: (abs(length - c), length))
    others = {
        "longest-reference": max(lengths),
        "shortest-reference": min(lengths),
        "first-reference": lengths[0],
    }
    wrong = [
        (
            name,
            ((float(c), float(r)),),
            gettext("took the shortest reference")
            if name == "shortest-reference"
            else gettext("took the longest reference")
            if name == "longest-reference"
            else gettext("took the first reference"),
        )
        for name, r in others.items()
        if r != closest
    ]
    wrong.append(("lengths-swapped", ((float(closest), float(c)),), gettext("exchanged c and r")))
    distinct = ((float(len(set(candidate))), float(closest)),)
    wrong.append(("repeats-not-counted", distinct, gettext("counted each word once")))
    return Numbers(
        ((float(c), float(closest)),),
        gettext("the lengths of candidate and reference"),
        tuple(wrong),
    )


def _build_rouge_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    candidate, reference = setting.options["candidate"], setting.options["reference"]
    table = SubsequenceTable("table", reference, candidate)
    c, r = len(candidate), len(reference)
    common = sum((Counter(candidate) & Counter(reference)).values())
    longest_run = _find_longest_run(candidate, reference)
    slips = (
        (
            "order-ignored",
            Numbers(((float(common),),), ""),
            gettext("counted common words in any order"),
        ),
        (
            "contiguous-for-common",
            Numbers(((float(longest_run),),), ""),
            gettext("took the longest run"),
        ),
    )
    swapped = gettext("divided by the length of the other text")
    return [
        Step("table", table, row_axis=("", *reference), column_axis=("", *candidate)),
        Step("lcs", Corner("table"), row_axis="", mistakes=slips),
        Step(
            "precision",
            Share("lcs", c, "candidate", (("precision-and-recall-swapped", r, swapped),)),
            row_axis="",
        ),
        Step(
            "recall",
            Share("lcs", r, "reference", (("precision-and-recall-swapped", c, swapped),)),
            row_axis="",
        ),
        Step("f", FMeasure("precision", "recall", setting.options["beta"]), row_axis=""),
    ]


def _find_longest_run(first: Words, second: Words) -> int:
    """Return the length of the longest run of words that both texts have."""
    runs = {
        second[a:b] for a in range(len(second)) for b in range(a + 1, min(len(second), a + 50) + 1)
    }
    lengths = range(min(len(first), 50), 0, -1)
    return next((n for n in lengths if not runs.isdisjoint(list_ngrams(first, n))), 0)


def _build_edit_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    reference, hypothesis = setting.options["reference"], setting.options["hypothesis"]
    unit = setting.options["unit"]
    are_single_words = len(reference) == len(hypothesis) == 1
    if unit == "letters" or (unit is None and are_single_words):
        reference, hypothesis = tuple(" ".join(reference)), tuple(" ".join(hypothesis))
    table = EditTable("table", reference, hypothesis, setting.options["substitution"])
    m, k = len(reference), len(hypothesis)
    lengths = (
        ("divided-by-hypothesis", k, gettext("divided by the words of the hypothesis")),
        ("divided-by-longer-text", max(m, k), gettext("divided by the words of the longer text")),
        ("divided-by-both", m + k, gettext("divided by the words of both texts")),
        ("off-by-one", m + 1, gettext("divided by the rows of the table")),
    )
    unequal = sum(a != b for a, b in zip(reference, hypothesis, strict=False)) + abs(m - k)
    by_position = Numbers(((float(unequal),),), "")
    compared = ("only-diagonal", by_position, gettext("compared word by word"))
    return [
        Step("table", table, row_axis=("", *reference), column_axis=("", *hypothesis)),
        Step("distance", Corner("table"), row_axis="", mistakes=(compared,)),
        Step("wer", Share("distance", m, "reference", lengths), row_axis=""),
    ]


_TEXT = make_words()
_UNITS = ("words", "letters")  # if it is left open: letters, if both texts are single words
BLEU = Kind(
    name="bleu",
    matrices={},
    required=(),
    settings=(),
    build=_build_bleu_steps,
    part_name="n",
    options={
        "candidate": _TEXT,
        "references": Option((), _parse_references, is_required=True, is_given=True),
        "max_order": make_count(4, maximum=8),
        "smoothing": make_choice("none", "add-one"),
    },
)
ROUGE_L = Kind(
    name="rouge_l",
    matrices={},
    required=(),
    settings=(),
    build=_build_rouge_steps,
    options={"candidate": _TEXT, "reference": _TEXT, "beta": make_number(1.0, 0.01, 100.0)},
)
EDIT_DISTANCE = Kind(
    name="edit_distance",
    matrices={},
    required=(),
    settings=(),
    build=_build_edit_steps,
    options={
        "reference": _TEXT,
        "hypothesis": _TEXT,
        "substitution": make_number(1.0, 0.0, 10.0),
        "unit": Option(
            None,
            lambda where, value: parse_choice(where, value, _UNITS),
            form="choice",
            choices=_UNITS,
        ),
    },
)
