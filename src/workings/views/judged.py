"""Translators side by side: a table, and BLEU by the length of the source."""

from collections.abc import Sequence
from typing import Protocol

from workings.views.chart import Series, line_chart
from workings.views.page import harmless, whole_page
from workings.views.picture import Picture
from workings.views.report import STYLE
from workings.views.table import html_table, text_table


class ToldScore(Protocol):
    """A score, and what it was computed by."""

    @property
    def score(self) -> float: ...
    @property
    def signature(self) -> str: ...


class ToldScores(Protocol):
    """BLEU and chrF."""

    @property
    def bleu(self) -> ToldScore: ...
    @property
    def chrf(self) -> ToldScore: ...


class ToldEstimate(Protocol):
    """A figure and its interval."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class ToldComparison(Protocol):
    """One against another."""

    @property
    def difference(self) -> ToldEstimate: ...
    @property
    def p(self) -> float: ...
    @property
    def resamples(self) -> int: ...


class ToldBucket(Protocol):
    """Sentences of some lengths."""

    @property
    def fewest(self) -> int: ...
    @property
    def most(self) -> int: ...
    @property
    def sentences(self) -> int: ...
    @property
    def score(self) -> float: ...


class ToldVerdict(Protocol):
    """One translator."""

    @property
    def name(self) -> str: ...
    @property
    def scores(self) -> ToldScores: ...
    @property
    def buckets(self) -> Sequence[ToldBucket]: ...
    @property
    def against_first(self) -> ToldComparison | None: ...


class Told(Protocol):
    """What is shown."""

    @property
    def data(self) -> str: ...
    @property
    def sentences(self) -> int: ...
    @property
    def verdicts(self) -> Sequence[ToldVerdict]: ...


def text(told: Told) -> str:
    """Write both tables for a terminal."""
    return "\n\n".join(
        (text_table(*_scores(told)), text_table(*_lengths(told)), "\n".join(_notes(told)))
    )


def picture(told: Told) -> Picture:
    """Draw BLEU by the length of the source, a line a translator."""
    series = [
        Series(v.name, [((b.fewest + b.most) / 2, b.score) for b in v.buckets])
        for v in told.verdicts
    ]
    title = f"{told.data}: BLEU by the length of the source"
    return line_chart(series, title=title, x_label="words of the source", y_label="BLEU")


def page(told: Told) -> str:
    """Write a page with the tables and the picture."""
    notes = "".join(f"<p class='legend'>{harmless(note)}</p>" for note in _notes(told))
    body = f"""<h1>{harmless(told.data)}: {len(told.verdicts)} translators</h1>
<div class="scroll">{html_table(*_scores(told))}</div>
<h2>By the length of the source</h2>
<div class="scroll">{picture(told).svg()}</div>
<div class="scroll">{html_table(*_lengths(told))}</div>
{notes}
"""
    return whole_page(f"{told.data}: translators", body, style=STYLE)


def _scores(told: Told) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = []
    for verdict in told.verdicts:
        against = verdict.against_first
        lead = chance = "–"
        if against is not None:
            d = against.difference
            lead = f"{d.value:+.2f} ({d.low:+.2f} to {d.high:+.2f})"
            chance = f"{against.p:.3f}" if against.p else f"< {1 / against.resamples:g}"
        scores = verdict.scores
        both = f"{scores.bleu.score:.2f}", f"{scores.chrf.score:.2f}"
        rows.append((verdict.name, *both, lead, chance))
    return ("translator", "BLEU", "chrF", "over the first (95 %)", "p"), rows


def _lengths(told: Told) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    buckets = told.verdicts[0].buckets
    rows = [
        (
            f"{b.fewest}" if b.fewest == b.most else f"{b.fewest}–{b.most}",
            f"{b.sentences:,}",
            *(f"{verdict.buckets[k].score:.2f}" for verdict in told.verdicts),
        )
        for k, b in enumerate(buckets)
    ]
    return ("words", "sentences", *(verdict.name for verdict in told.verdicts)), rows


def _notes(told: Told) -> list[str]:
    first = told.verdicts[0].scores
    notes = [f"{told.sentences:,} sentences; BLEU {first.bleu.signature}"]
    if len(told.verdicts) > 1:
        notes.append("p: the share of resampled test sets on which the better one is not better")
    return notes
