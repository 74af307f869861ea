"""Maps for the page: numbers as bytes, levels of colour, and what is written in small ones."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from workings.problems.notation import format_decimal, typeset
from workings.render import colors
from workings.web.responses import Heatmap, Palette

MASKED_LEVEL = 255  # the level of what a mask hides
MAX_TABLE_SIDE = 24  # rows or columns of a map that is a table; larger ones are drawn
MAX_THUMBNAIL_SIDE = 48  # rows or columns of a map in small
_SQUARE_ROOT_MAX_SIDE = 64  # rows or columns
_LEVELS = 64
_NUM_LARGEST = 3  # of a row that are named where there is no table
_MAX_DECIMALS = 4  # decimals

Numbers = NDArray[np.float64]


@cache
def build_palette(theme: str, signed: bool = False) -> Palette:
    """The colours of a theme's maps."""
    found = colors.color_ramp(theme, _LEVELS + 1, signed=signed)
    return Palette(colors=found, inks=[colors.text_color_on(colour) for colour in found])


def build_weights_heatmap(
    name: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Numbers,
    causal: bool,
) -> Heatmap:
    """A head's weights. The colour goes with a root of them: small ones are many."""
    levels = _weight_levels(weights)
    if causal:
        levels[_causal_mask(weights.shape)] = MASKED_LEVEL
    ticks = [(int(_to_level(share, _level_exponent(weights))), text) for share, text in _TICKS]
    return _build_heatmap(name, description, rows, columns, weights, levels, ticks, signed=False)


_TICKS = ((0.0, "0"), (0.05, "0.05"), (0.25, "0.25"), (0.5, "0.5"), (1.0, "1"))


def build_signed_heatmap(
    name: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    *,
    min_scale: float = 0.0,
    causal: bool = False,
) -> Heatmap:
    """Numbers below and above zero, by the largest of them; `least`: by no less than that."""
    largest = max(float(np.abs(numbers).max()), min_scale) or 1.0
    half = _LEVELS // 2
    levels = np.round(half + half * numbers / largest).astype(np.uint8)
    if causal:
        levels[_causal_mask(numbers.shape)] = MASKED_LEVEL
    said = typeset(format_decimal(largest, 2))
    ticks = [(0, f"−{said}"), (half, "0"), (_LEVELS, said)]
    return _build_heatmap(name, description, rows, columns, numbers, levels, ticks, signed=True)


def build_magnitude_heatmap(
    name: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    min_scale: float,
) -> Heatmap:
    """Numbers from zero on, by the largest of them, and by no less than `least`."""
    largest = max(float(numbers.max()), min_scale) or 1.0
    levels = np.round(_LEVELS * numbers / largest).astype(np.uint8)
    ticks = [(0, "0"), (_LEVELS, typeset(format_decimal(largest, 3)))]
    return _build_heatmap(name, description, rows, columns, numbers, levels, ticks, signed=False)


def _build_heatmap(
    name: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    levels: NDArray[np.uint8],
    ticks: list[tuple[int, str]],
    *,
    signed: bool,
) -> Heatmap:
    decimals = _choose_decimals(numbers)
    whole = np.round(numbers * 10**decimals).astype("<i2")
    small = max(numbers.shape) <= MAX_TABLE_SIDE
    return Heatmap(
        name=name,
        description=description,
        rows=list(rows),
        columns=list(columns),
        levels=_to_base64(levels),
        numbers=_to_base64(whole),
        decimals=decimals,
        light=build_palette("light", signed),
        dark=build_palette("dark", signed),
        ticks=ticks,
        texts=_format_cells(numbers, levels) if small else None,
        largest_per_row=None if small else _find_largest(numbers, decimals),
    )


def build_thumbnail(weights: Numbers, causal: bool) -> tuple[str, tuple[int, int]]:
    """A map in small, each of its cells as strong as the strongest there; and its size."""
    levels = _weight_levels(weights)
    if causal:
        levels[_causal_mask(weights.shape)] = 0
    tall, wide = (-(-side // MAX_THUMBNAIL_SIDE) for side in levels.shape)
    down, across = (-(-side // by) for side, by in zip(levels.shape, (tall, wide), strict=True))
    padded = np.zeros((down * tall, across * wide), np.uint8)
    padded[: levels.shape[0], : levels.shape[1]] = levels
    small = padded.reshape(down, tall, across, wide).max(axis=(1, 3))
    return _to_base64(small), (down, across)


def _weight_levels(weights: Numbers) -> NDArray[np.uint8]:
    return _to_level(weights, _level_exponent(weights)).astype(np.uint8)


def _to_level(weights: Numbers | float, power: float) -> Numbers:
    return np.round(_LEVELS * np.clip(weights, 0, 1) ** power)


def _level_exponent(weights: Numbers) -> float:
    """The square root; among many tokens, whose weights are small, the cube root."""
    return 1 / 2 if max(weights.shape) <= _SQUARE_ROOT_MAX_SIDE else 1 / 3


def _causal_mask(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """What a causal mask hides."""
    return np.triu(np.ones(shape, bool), 1 + shape[1] - shape[0])


def _choose_decimals(numbers: Numbers) -> int:
    """As many as two bytes have room for."""
    largest = float(np.abs(numbers).max(initial=0))
    return next((d for d in range(_MAX_DECIMALS, 0, -1) if largest * 10**d < 2**15 - 1), 0)


def _format_cells(numbers: Numbers, levels: NDArray[np.uint8]) -> list[list[str]]:
    return [
        ["" if hides else _format_short(x) for x, hides in zip(*line, strict=True)]
        for line in zip(numbers, levels == MASKED_LEVEL, strict=True)
    ]


def _format_short(number: float) -> str:
    """Write a number for a narrow cell, without the nought before its point.

    >>> _format_short(0.071), _format_short(-0.5), _format_short(1.0)
    ('.07', '−.50', '1.0')
    >>> _format_short(-0.001)
    '.00'
    """
    if abs(number) >= 0.995:
        return typeset(f"{number:.1f}")
    return typeset(f"{number:z.2f}").replace("0.", ".", 1)


def _find_largest(numbers: Numbers, decimals: int) -> list[list[tuple[int, str]]]:
    order = np.argsort(-numbers, axis=1, kind="stable")[:, :_NUM_LARGEST]
    return [
        [(int(j), typeset(format_decimal(float(row[j]), decimals))) for j in best]
        for row, best in zip(numbers, order, strict=True)
    ]


def _to_base64(cells: NDArray[np.generic]) -> str:
    return b64encode(np.ascontiguousarray(cells).tobytes()).decode()
