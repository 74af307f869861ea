"""Translators side by side: a table, and BLEU by the length of the source."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from workings.views.chart import Series, line_chart
from workings.views.page import harmless, whole_page
from workings.views.picture import Picture
from workings.views.report import STYLE
from workings.views.table import html_table, text_table

Told: TypeAlias = Mapping[str, Any]
FEW = 50  # sentences, of which resampling says little
Rows: TypeAlias = tuple[tuple[str, ...], list[tuple[str, ...]]]


def text(told: Told) -> str:
    """Write both tables for a terminal."""
    return "\n\n".join(
        (text_table(*_scores(told)), text_table(*_lengths(told)), "\n".join(_notes(told)))
    )


def picture(told: Told) -> Picture:
    """Draw BLEU by the length of the source, a line a translator."""
    series = [
        Series(
            verdict["name"],
            [(b["mean"], b["score"]) for b in verdict["buckets"]],
        )
        for verdict in told["verdicts"]
    ]
    title = f"{told['data']}: BLEU by the length of the source"
    return line_chart(series, title=title, x_label="words of the source", y_label="BLEU")


def page(told: Told) -> str:
    """Write a page with the tables and the picture."""
    notes = "".join(f"<p class='legend'>{harmless(note)}</p>" for note in _notes(told))
    body = f"""<h1>{harmless(told["data"])}: {len(told["verdicts"])} translators</h1>
<div class="scroll">{html_table(*_scores(told))}</div>
<h2>By the length of the source</h2>
<div class="scroll">{picture(told).svg()}</div>
<div class="scroll">{html_table(*_lengths(told))}</div>
{notes}
"""
    return whole_page(f"{told['data']}: translators", body, style=STYLE)


def _scores(told: Told) -> Rows:
    rows: list[tuple[str, ...]] = []
    for verdict in told["verdicts"]:
        lead = chance = "–"
        if (against := verdict["against_first"]) is not None:
            lead = "{value:+.2f} ({low:+.2f} to {high:+.2f})".format(**against["difference"])
            chance = f"{against['p']:.3f}" if against["p"] else f"< {1 / against['resamples']:g}"
        both = (f"{verdict['scores'][name]['score']:.2f}" for name in ("bleu", "chrf"))
        rows.append((verdict["name"], *both, lead, chance))
    return ("translator", "BLEU", "chrF", "over the first (95 %)", "p"), rows


def _lengths(told: Told) -> Rows:
    verdicts = told["verdicts"]
    rows = []
    for buckets in zip(*(verdict["buckets"] for verdict in verdicts), strict=True):
        fewest, most = buckets[0]["fewest"], buckets[0]["most"]
        words = f"{fewest}" if fewest == most else f"{fewest}–{most}"
        rows.append(
            (words, f"{buckets[0]['sentences']:,}", *(f"{b['score']:.2f}" for b in buckets))
        )
    return ("words", "sentences", *(verdict["name"] for verdict in verdicts)), rows


def _notes(told: Told) -> list[str]:
    scores = told["verdicts"][0]["scores"]
    notes = [f"{told['sentences']:,} sentences; BLEU {scores['bleu']['signature']}"]
    notes.append(f"chrF {scores['chrf']['signature']}")
    notes.append("by length, of as many words in a row as there are, up to four (eff:yes)")
    if len(told["verdicts"]) > 1:
        notes.append("p: the share of resampled test sets on which the better one is not better")
        if told["sentences"] < FEW:
            notes.append(f"{told['sentences']} sentences are few: interval and p mean little")
    for verdict in told["verdicts"]:
        if verdict["learned"] is None:
            notes.append(f"what {verdict['name']} was trained on is not there to be compared")
        elif verdict["learned"]:
            some = f"{verdict['learned']:,} of these {told['sentences']:,} pairs"
            notes.append(f"{verdict['name']} was trained on {some}: no test of what it can do")
    return notes
