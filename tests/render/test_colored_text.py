"""Colored text, in HTML and on a terminal: nothing is lost, hidden or executed."""

import re
import unicodedata
from html import unescape
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.plain_text import display_width, escape_control
from workings.render.colored_text import (
    ValuedSpan,
    colored_html,
    colored_lines,
    format_value,
    join_spans,
    max_abs_value,
    strongest_spans,
)
from workings.render.colors import INK, color_scale, contrast_ratio

LETTERS = st.characters(min_codepoint=0, max_codepoint=0x2FFF, exclude_characters="\r")
TEXT = st.text(alphabet=LETTERS, max_size=60)
ANSI = re.compile(r"\x1b\[[\d;]*m")


@st.composite
def colored_texts(draw):
    """Draw a text, ordered spans in it (some repeated) and their values."""
    text = draw(TEXT)
    ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    spans = list(zip(ends[::2], ends[1::2], strict=False))
    if spans and draw(st.booleans()):
        spans.append(spans[-1])
    value = st.floats(-1e3, 1e3)
    return text, spans, draw(st.lists(value, min_size=len(spans), max_size=len(spans)))


@given(colored_texts(), st.integers(1, 3))
def test_joined_spans_do_not_overlap_and_sum_up(case, window):
    _, spans, values = case
    joined = join_spans(spans, values, window=window)
    assert all(a.end <= b.start for a, b in pairwise(joined))
    assert sum(span.value for span in joined) == pytest.approx(sum(values), abs=1e-6)


@given(colored_texts(), st.integers(1, 3))
def test_html_has_the_text_without_control_characters(case, window):
    text, spans, values = case
    page = colored_html(text, spans, values, window=window, marked=[0])
    plain = re.sub("[\u200c\u200d]", "", unescape(re.sub(r"<[^>]*>", "", page)))
    assert plain == escape_control(re.sub("[\u200c\u200d]", "", text))
    kept = "\n\t\u200c\u200d"
    assert not any(unicodedata.category(c) in ("Cc", "Cf") for c in page if c not in kept)
    assert re.fullmatch(
        r'<div class="colored" dir="auto">([^<>]|'
        r'<span( class="[a-z0-9 ]+")? title="[^"<>]*">[^<>]*</span>)*</div>',
        page,
    )


@given(colored_texts(), st.integers(4, 30), st.sampled_from(["light", "dark"]))
def test_lines_have_the_text_and_one_width(case, columns, theme):
    text, spans, values = case
    lines = colored_lines(text, spans, values, width=columns, theme=theme)
    plain = [ANSI.sub("", line) for line in lines]
    assert not any("\x1b" in line or "\n" in line for line in plain)
    assert len({display_width(line) for line in plain}) <= 1
    assert all(display_width(line) <= columns for line in plain)
    assert all(line.endswith("\x1b[0m") for line in lines)
    assert "".join("".join(plain).split()) == "".join(escape_control(text).split())


def test_lines_break_at_spaces():
    lines = colored_lines("one two three", [(4, 7)], [1.0], width=9)
    assert [ANSI.sub("", line) for line in lines] == [" one two ", " three   "]
    lines = colored_lines("a\n\nb", [], [], width=9)
    assert [ANSI.sub("", line) for line in lines] == [" a ", "   ", " b "]


def test_colors_are_those_of_matrices():
    page = colored_html("a b c d", [(0, 1), (2, 3), (4, 5), (6, 7)], [8, -4, 0.1, float("nan")])
    spans = re.findall(r'<span(?: class="(\w+)")? title="([^"]*)">(\w)', page)
    assert spans == [
        ("p8", "+8.00", "a"),
        ("n4", "−4.00", "b"),
        ("", "+0.10", "c"),
        ("", "+nan", "d"),
    ]
    (line,) = colored_lines("a b", [(0, 1)], [2.0], width=20, theme="light")
    full = color_scale("light")["p8"]
    assert f"48;2;{int(full[1:3], 16)};{int(full[3:5], 16)};{int(full[5:], 16)}m" in line
    assert contrast_ratio(INK["light"], full) >= 4.5


def test_hostile_text_stays_text():
    hostile = '<script>alert("1")</script> \x1b[2J \u202e & é'
    page = colored_html(hostile, [(0, 8), (8, 27)], [1.0, -1.0], marked=[1])
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert 'class="n8 unknown"' in page


def test_joined_emoji_and_line_breaks_are_kept_in_html():
    family = "👨\u200d👩\u200d👧"
    assert family in colored_html(f"{family}\r\nx", [(0, 5)], [1.0])
    assert "\nx</div>" in colored_html(f"{family}\r\nx", [(0, 5)], [1.0])


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("It was great.", (7, 12), "great"),
        ("visage", (3, 4), "vis[a]ge"),
        ("a low note", (1, 5), "low"),
        ("to be", (2, 3), "to[␣]be"),
        ("it's", (3, 4), "s"),
        ("wait...", (4, 5), "."),
        ("नमस्ते", (0, 1), "[न]मस्ते"),
        ("x\x1by", (1, 2), "\\x1b"),
        ("one\n two", (0, 8), "one two"),
    ],
)
def test_strong_span_is_shown_in_its_word(text, span, expected):
    (strongest,) = strongest_spans(text, [ValuedSpan(*span, 1.0)])
    assert str(strongest) == expected


def test_strongest_spans_come_first():
    spans = [ValuedSpan(k, k + 1, v) for k, v in enumerate([1.0, -3.0, 0.0, 2.0, float("inf")])]
    assert [s.value for s in strongest_spans("abcde", spans, count=2)] == [-3.0, 2.0]
    assert len(strongest_spans("abcde", spans)) == 3
    assert max_abs_value(spans) == 3.0
    long = strongest_spans("x" * 500, [ValuedSpan(0, 500, 1.0)])[0]
    assert display_width(str(long)) <= 40


@pytest.mark.parametrize(
    ("value", "full", "expected"),
    [(0.0, 0.0, "0"), (1234.5, 2000.0, "+1234"), (-1e-12, 1e-12, "0"), (0.25, 0.5, "+0.250")],
)
def test_values_have_three_digits_of_the_largest(value, full, expected):
    assert format_value(value, full) == expected
