"""The words and lines of the HTML view can be read, in light and in dark."""

import re

import pytest

from workings.render.colors import contrast_ratio
from workings.render.page import base_css


def colours(rules: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", rules))


LIGHT = colours(base_css().split("@media")[0])
DARK = {**LIGHT, **colours(base_css().split("(prefers-color-scheme: dark)")[1])}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "card", "masked"])
@pytest.mark.parametrize("words", ["ink", "soft", "wrong", "fine", "link"])
def test_words_can_be_read(theme: dict[str, str], words: str, ground: str) -> None:
    assert contrast_ratio(theme[words], theme[ground]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("line", ["wrong", "follows", "soft", "link"])
def test_borders_can_be_seen(theme: dict[str, str], line: str) -> None:
    assert contrast_ratio(theme[line], theme["paper"]) >= 3


def test_dark_colours_are_for_screens_only() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in base_css()
    assert base_css().count("prefers-color-scheme") == 1
