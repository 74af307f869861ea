"""Translators compared on the same sentences: tables, a chart of BLEU by source length, a page."""

from typing import TypeAlias

from workings.interpret.results import TranslatorComparison, TranslatorScores
from workings.render.chart import Series, line_chart
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture
from workings.render.tables import html_table, text_table
from workings.render.training_report import REPORT_CSS

FEW_SENTENCES = 50  # fewer make confidence intervals and p-values unreliable

Table: TypeAlias = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows


def render_text(
    comparison: TranslatorComparison,
    *,
    width: int | None = None,  # noqa: ARG001 - tables are as wide as they are
    color: bool = False,  # noqa: ARG001
) -> str:
    """Return both tables and their notes as text."""
    tables = (text_table(*_score_table(comparison)), text_table(*_length_table(comparison)))
    return "\n\n".join((*tables, "\n".join(_notes(comparison))))


def render_picture(comparison: TranslatorComparison) -> Picture:
    """Draw BLEU against the length of the source, one line per translator."""
    series = [
        Series(translator.name, [(b.mean_words, b.score) for b in translator.buckets])
        for translator in comparison.translators
    ]
    title = f"{comparison.data}: BLEU by the length of the source"
    return line_chart(series, title=title, x_label="words of the source", y_label="BLEU")


def render_page(comparison: TranslatorComparison) -> str:
    """Return a page with the tables and the chart."""
    return html_page(f"{comparison.data}: translators", _body(comparison), style=REPORT_CSS)


def render_fragment(comparison: TranslatorComparison) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    return html_fragment(_body(comparison), style=REPORT_CSS)


def _body(comparison: TranslatorComparison) -> str:
    notes = "".join(f"<p class='legend'>{escape_html(note)}</p>" for note in _notes(comparison))
    return f"""<h1>{escape_html(comparison.data)}: {len(comparison.translators)} translators</h1>
<div class="scroll">{html_table(*_score_table(comparison))}</div>
<h2>By the length of the source</h2>
<div class="scroll">{render_picture(comparison).svg()}</div>
<div class="scroll">{html_table(*_length_table(comparison))}</div>
{notes}
"""


def _score_table(comparison: TranslatorComparison) -> Table:
    header = ("translator", "BLEU", "chrF", "over the first (95 %)", "p")
    return header, [_score_row(translator) for translator in comparison.translators]


def _score_row(translator: TranslatorScores) -> tuple[str, ...]:
    difference = p_value = "–"
    if (against := translator.against_first) is not None:
        gain = against.difference
        difference = f"{gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})"
        p_value = f"{against.p_value:.3f}" if against.p_value else f"< {1 / against.resamples:g}"
    scores = translator.scores
    bleu, chrf = f"{scores.bleu.score:.2f}", f"{scores.chrf.score:.2f}"
    return (translator.name, bleu, chrf, difference, p_value)


def _length_table(comparison: TranslatorComparison) -> Table:
    rows = []
    for buckets in zip(*(t.buckets for t in comparison.translators), strict=True):
        first = buckets[0]
        low, high = first.min_words, first.max_words
        words = f"{low}" if low == high else f"{low}–{high}"
        rows.append((words, f"{first.sentences:,}", *(f"{b.score:.2f}" for b in buckets)))
    return ("words", "sentences", *(t.name for t in comparison.translators)), rows


def _notes(comparison: TranslatorComparison) -> list[str]:
    count, scores = comparison.num_sentences, comparison.translators[0].scores
    notes = [
        f"{count:,} sentences; BLEU {scores.bleu.signature}",
        f"chrF {scores.chrf.signature}",
        "by length: BLEU with the effective n-gram order, up to four (eff:yes)",
    ]
    if len(comparison.translators) > 1:
        notes.append("p: the fraction of resampled test sets on which the better one is not better")
        if count < FEW_SENTENCES:
            notes.append(f"{count} sentences are few: the interval and p are unreliable")
    for translator in comparison.translators:
        overlap = translator.training_overlap
        if overlap is None:
            notes.append(
                f"the training data of {translator.name} are not available to check for overlap"
            )
        elif overlap:
            pairs = f"{overlap:,} of these {count:,} pairs"
            notes.append(f"{translator.name} was trained on {pairs}: its score is no fair test")
    return notes
