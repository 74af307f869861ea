"""Colours that can be read, told apart and ordered."""

import itertools
import math

import pytest

from workings.views.colours import INK, STEPS, contrast, scale, step


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_every_step(theme: str) -> None:
    assert all(contrast(INK[theme], colour) >= 4.5 for colour in scale(theme).values())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_steps_grow_evenly_in_grey_too(theme: str) -> None:
    colours = scale(theme)
    for side in "pn":
        away = [contrast(colours["z"], colours[f"{side}{k}"]) for k in range(1, STEPS + 1)]
        assert away == sorted(away)
        assert all(b / a < 1.25 for a, b in itertools.pairwise(away))
        assert away[-1] > 1.7


def test_both_sides_weigh_the_same() -> None:
    colours = scale("light")
    assert contrast(colours["p8"], colours["n8"]) < 1.3


def test_contrast_is_the_wcag_one() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("value", [None, math.inf, -math.inf, math.nan])
def test_what_has_no_size_has_no_colour(value: float | None) -> None:
    assert step(value, 1.0) == ""


def test_a_matrix_of_zeros_is_white() -> None:
    assert step(0.0, 0.0) == "z"
