"""Colours that can be read, told apart and ordered."""

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
def test_text_can_be_read_on_every_step(theme: str) -> None:
    assert all(contrast_ratio(INK[theme], colour) >= 4.5 for colour in color_scale(theme).values())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_steps_grow_evenly_in_grey_too(theme: str) -> None:
    colours = color_scale(theme)
    for side in "pn":
        away = [contrast_ratio(colours["z"], colours[f"{side}{k}"]) for k in range(1, STEPS + 1)]
        assert away == sorted(away)
        assert all(b / a < 1.25 for a, b in itertools.pairwise(away))
        assert away[-1] > 1.7


def test_both_sides_weigh_the_same() -> None:
    colours = color_scale("light")
    assert contrast_ratio(colours["p8"], colours["n8"]) < 1.3


def test_contrast_is_the_wcag_one() -> None:
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21)
    assert contrast_ratio("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("value", [None, math.inf, -math.inf, math.nan])
def test_what_has_no_size_has_no_colour(value: float | None) -> None:
    assert color_step(value, 1.0) == ""


def test_a_matrix_of_zeros_is_white() -> None:
    assert color_step(0.0, 0.0) == "z"


# What the cones see that lack one kind (Machado, Oliveira and Fernandes 2009), in linear RGB.
EYES = {
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


def oklab(code: str, eye: str) -> list[float]:
    parts = [int(code[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    r, g, b = (
        min(max(sum(a * c for a, c in zip(row, linear, strict=True)), 0), 1) for row in EYES[eye]
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
def test_words_in_the_lines_colours_can_be_read(name: str) -> None:
    colours = theme_colors(name)
    assert all(contrast_ratio(colours[f"c{k}"], colours["paper"]) >= 4.5 for k in range(1, 9))


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_eye_tells_the_lines_apart(name: str, eye: str) -> None:
    seen = [oklab(theme_colors(name)[f"c{k}"], eye) for k in range(1, 9)]
    assert min(itertools.starmap(math.dist, itertools.combinations(seen, 2))) > 0.055
    assert min(itertools.starmap(math.dist, itertools.combinations(seen[:3], 2))) > 0.08


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_eye_tells_queries_keys_and_values_apart(name: str, eye: str) -> None:
    seen = [oklab(colour, eye) for colour in ROLE_COLORS[name].values()]
    assert min(itertools.starmap(math.dist, itertools.combinations(seen, 2))) > 0.08
    paper = theme_colors(name)["paper"]
    assert all(contrast_ratio(colour, paper) >= 4.5 for colour in ROLE_COLORS[name].values())
