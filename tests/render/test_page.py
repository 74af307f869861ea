"""The CSS of pages: contrast of text and borders in the light and the dark theme."""

import re

import pytest

from workings.render.colors import contrast_ratio
from workings.render.page import base_css


def css_colors(rules: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", rules))


LIGHT = css_colors(base_css().split("@media")[0])
DARK = {**LIGHT, **css_colors(base_css().split("(prefers-color-scheme: dark)")[1])}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("background", ["paper", "card", "masked"])
@pytest.mark.parametrize("text", ["ink", "soft", "wrong", "fine", "link"])
def test_text_is_readable(theme: dict[str, str], text: str, background: str) -> None:
    assert contrast_ratio(theme[text], theme[background]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("line", ["wrong", "follows", "soft", "link"])
def test_borders_are_visible(theme: dict[str, str], line: str) -> None:
    assert contrast_ratio(theme[line], theme["paper"]) >= 3


def test_dark_theme_is_for_screens_only() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in base_css()
    assert base_css().count("prefers-color-scheme") == 1
