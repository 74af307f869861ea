"""Colors: readable, distinct (for color-blind vision, too) and ordered."""

import itertools
import math

import pytest

from workings.render.colors import (
    INK,
    ROLE_COLORS,
    STEPS,
    color_scale,
    color_step,
    contrast_ratio,
    theme_colors,
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_every_step(theme: str) -> None:
    assert all(contrast_ratio(INK[theme], color) >= 4.5 for color in color_scale(theme).values())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_steps_are_even_in_lightness(theme: str) -> None:
    colors = color_scale(theme)
    for side in "pn":
        contrasts = [contrast_ratio(colors["z"], colors[f"{side}{k}"]) for k in range(1, STEPS + 1)]
        assert contrasts == sorted(contrasts)
        assert all(b / a < 1.25 for a, b in itertools.pairwise(contrasts))
        assert contrasts[-1] > 1.7


def test_both_sides_are_equally_strong() -> None:
    colors = color_scale("light")
    assert contrast_ratio(colors["p8"], colors["n8"]) < 1.3


def test_contrast_ratio_follows_wcag() -> None:
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21)
    assert contrast_ratio("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("value", [None, math.inf, -math.inf, math.nan])
def test_values_that_are_not_finite_have_no_color(value: float | None) -> None:
    assert color_step(value, 1.0) == ""


def test_zero_has_the_neutral_color() -> None:
    assert color_step(0.0, 0.0) == "z"


# Simulations of color blindness, matrices on linear RGB (Machado, Oliveira and Fernandes 2009).
VISION = {
    "full": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}  # fmt: skip


def oklab(code: str, vision: str) -> list[float]:
    channels = [int(code[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    r, g, b = (
        min(max(sum(a * c for a, c in zip(row, linear, strict=True)), 0), 1)
        for row in VISION[vision]
    )
    l = math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    m = math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    s = math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return [
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    ]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_in_series_colors_is_readable(name: str) -> None:
    colors = theme_colors(name)
    assert all(contrast_ratio(colors[f"c{k}"], colors["paper"]) >= 4.5 for k in range(1, 9))


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_series_colors_are_distinct_in_all_kinds_of_vision(name: str, vision: str) -> None:
    perceived = [oklab(theme_colors(name)[f"c{k}"], vision) for k in range(1, 9)]
    assert min(itertools.starmap(math.dist, itertools.combinations(perceived, 2))) > 0.055
    assert min(itertools.starmap(math.dist, itertools.combinations(perceived[:3], 2))) > 0.08


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_role_colors_are_distinct_in_all_kinds_of_vision(name: str, vision: str) -> None:
    perceived = [oklab(color, vision) for color in ROLE_COLORS[name].values()]
    assert min(itertools.starmap(math.dist, itertools.combinations(perceived, 2))) > 0.08
    paper = theme_colors(name)["paper"]
    assert all(contrast_ratio(color, paper) >= 4.5 for color in ROLE_COLORS[name].values())
