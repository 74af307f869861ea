"""Plain text: control characters are escaped, widths are counted in columns; styles and panels."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.plain_text import (
    AnsiStyler,
    display_width,
    escape_control,
    half_blocks,
    has_true_color,
    join_panels,
    output_columns,
    pad_left,
    pad_right,
    to_one_line,
    truncate_to_columns,
    visible_width,
    wrap_to_columns,
)

TEXT = st.text(alphabet=st.characters(min_codepoint=0, max_codepoint=0x2FFF), max_size=40)


@given(TEXT)
def test_control_characters_are_escaped(text: str) -> None:
    line = to_one_line(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in line)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert to_one_line(text) == text


def test_escape_control_keeps_lines_and_to_one_line_does_not() -> None:
    assert escape_control("a\n\tb\x9b") == "a\n\tb\\x9b"
    assert to_one_line("a\n\tb") == "a\\n\\tb"


def test_right_to_left_override_is_escaped() -> None:
    assert to_one_line("a\u202eb\u2028c\ud800") == "a\\u202eb\\u2028c\\ud800"


@pytest.mark.parametrize(("text", "columns"), [("", 0), ("cat", 3), ("猫", 2), ("ｆ", 2), ("é", 1)])
def test_width(text: str, columns: int) -> None:
    assert display_width(text) == columns
    assert display_width(unicodedata.normalize("NFD", text)) == columns


@given(TEXT.map(to_one_line), st.integers(1, 20), st.integers(0, 3))
def test_truncated_text_fits(text: str, columns: int, tail: int) -> None:
    short = truncate_to_columns(text, columns, tail)
    assert display_width(short) <= columns
    assert short == text or "…" in short


def test_truncation_keeps_the_tail() -> None:
    assert truncate_to_columns("Input 1", 6, tail=2) != truncate_to_columns("Input 2", 6, tail=2)


def test_padding_counts_columns() -> None:
    assert pad_right("猫", 4) == "猫  "
    assert pad_left("猫", 4) == "  猫"


@given(TEXT.map(to_one_line), st.integers(8, 30))
def test_wrapped_lines_fit_and_lose_nothing(text: str, columns: int) -> None:
    lines = wrap_to_columns(text, columns, subsequent_indent="  ")
    assert all(display_width(line) <= columns for line in lines)
    joined = "".join("".join(lines).split())
    assert joined == "".join(text.replace("\u00a0", " ").split())


def test_no_break_space_joins_words() -> None:
    assert wrap_to_columns("a b\u00a0c", 4) == ["a", "b c"]


# -- drawing on a terminal -------------------------------------------------------------------------


def test_width_is_given_or_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert [output_columns(width) for width in (100, None, 3)] == [100, 40, 24]


def test_styles_are_added_only_in_color() -> None:
    assert AnsiStyler(color=True)("cat", "strong") == "\x1b[1mcat\x1b[0m"
    assert AnsiStyler(color=True)("cat", "no such style") == "cat"
    assert AnsiStyler(color=True)("  ", "strong") == "  "
    assert AnsiStyler(color=False)("cat", "strong") == "cat"


def test_true_color_is_asked_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert has_true_color()
    monkeypatch.delenv("COLORTERM")
    assert not has_true_color()


def test_half_blocks_draw_two_rows_per_line() -> None:
    assert half_blocks([["5;1"], ["5;2"], ["5;3"]]) == [
        "\x1b[38;5;1;48;5;2m▀\x1b[0m",
        "\x1b[38;5;3;49m▀\x1b[0m",
    ]


def test_panels_are_joined_by_visible_width() -> None:
    styled = AnsiStyler(color=True)("ab", "dim")
    lines = join_panels([[styled, "c"], ["d"]], 4, ["row"], margin=5)
    assert lines == [f"row  {styled}    d", "     c"]
    assert visible_width(lines[0]) == 12
