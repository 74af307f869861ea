"""Drawing on a terminal: width, styles, colors and panels."""

import numpy as np
import pytest

from workings.render.terminal import (
    AnsiStyler,
    ansi_colors,
    half_blocks,
    has_true_color,
    join_panels,
    output_columns,
    visible_width,
)


def test_width_is_given_or_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert [output_columns(width) for width in (100, None, 3)] == [100, 40, 24]


def test_styles_are_added_only_in_color() -> None:
    assert AnsiStyler(color=True)("cat", "strong") == "\x1b[1mcat\x1b[0m"
    assert AnsiStyler(color=True)("cat", "no such style") == "cat"
    assert AnsiStyler(color=True)("  ", "strong") == "  "
    assert AnsiStyler(color=False)("cat", "strong") == "cat"


def test_true_color_support_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert has_true_color()
    monkeypatch.delenv("COLORTERM")
    assert not has_true_color()


def test_nearest_of_256_colors() -> None:
    pixels = np.array([[[0, 0, 0], [255, 255, 255], [128, 128, 128], [0, 135, 175], [250, 3, 0]]])
    codes = ansi_colors(pixels.astype(np.uint8), true_color=False)
    assert codes == [["5;16", "5;231", "5;244", "5;31", "5;196"]]


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
