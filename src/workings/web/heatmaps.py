"""Heatmaps for the page: numbers and color levels as base64 bytes, texts for small maps."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from workings.problems.notation import format_decimal, typeset
from workings.render import colors
from workings.web.responses import Heatmap

MASKED_LEVEL = 255  # level of a masked cell
MAX_TABLE_SIDE = 24  # rows or columns of a map shown as a table; larger ones are drawn
MAX_THUMBNAIL_SIDE = 48  # rows or columns
_SQUARE_ROOT_MAX_SIDE = 64  # rows or columns of a map colored by the square root of the weights
_LEVELS = 64  # of color
_NUM_LARGEST = 3  # values listed per row of a map without texts
_MAX_DECIMALS = 4

Numbers = NDArray[np.float64]


@cache
def level_colors(signed: bool = False) -> dict[str, list[str]]:
    """Return the color of each level, by theme."""
    themes = ("light", "dark")
    return {theme: colors.color_ramp(theme, _LEVELS + 1, signed=signed) for theme in themes}


@cache
def level_inks(signed: bool = False) -> dict[str, list[str]]:
    """Return a readable text color on the color of each level, by theme."""
    ramps = level_colors(signed)
    return {theme: [colors.text_color_on(color) for color in ramps[theme]] for theme in ramps}


def build_weights_heatmap(
    name: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Numbers,
    causal: bool,
) -> Heatmap:
    """Return the heatmap of a head's weights; the color follows a root: most weights are small."""
    levels = _weight_levels(weights)
    if causal:
        levels[_causal_mask(weights.shape)] = MASKED_LEVEL
    ticks = [(int(_to_level(value, _level_exponent(weights))), text) for value, text in _TICKS]
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
    """Return a diverging heatmap; its color scale reaches the largest magnitude or `min_scale`."""
    largest = max(float(np.abs(numbers).max()), min_scale) or 1.0
    half = _LEVELS // 2
    levels = _signed_levels(numbers, largest)
    if causal:
        levels[_causal_mask(numbers.shape)] = MASKED_LEVEL
    label = typeset(format_decimal(largest, 2))
    ticks = [(0, f"−{label}"), (half, "0"), (_LEVELS, label)]
    return _build_heatmap(name, description, rows, columns, numbers, levels, ticks, signed=True)


def build_magnitude_heatmap(
    name: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    min_scale: float,
) -> Heatmap:
    """Return a heatmap of non-negative numbers, scaled to the largest of them or `min_scale`."""
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
    fixed_point = np.round(numbers * 10**decimals).astype("<i2")
    is_small = max(numbers.shape) <= MAX_TABLE_SIDE
    return Heatmap(
        name=name,
        description=description,
        rows=list(rows),
        columns=list(columns),
        levels=_to_base64(levels),
        numbers=_to_base64(fixed_point),
        decimals=decimals,
        colors=level_colors(signed),
        inks=level_inks(signed),
        ticks=ticks,
        texts=_format_cells(numbers, levels) if is_small else None,
        largest_per_row=None if is_small else _find_largest(numbers, decimals),
    )


def build_thumbnail(weights: Numbers, causal: bool) -> tuple[str, tuple[int, int]]:
    """Return a max-pooled map of color levels as base64, and its numbers of rows and columns."""
    levels = _weight_levels(weights)
    if causal:
        levels[_causal_mask(weights.shape)] = 0
    height, width = (-(-side // MAX_THUMBNAIL_SIDE) for side in levels.shape)  # of a pooled block
    rows, columns = -(-levels.shape[0] // height), -(-levels.shape[1] // width)
    padded = np.zeros((rows * height, columns * width), np.uint8)
    padded[: levels.shape[0], : levels.shape[1]] = levels
    pooled = padded.reshape(rows, height, columns, width).max(axis=(1, 3))
    return _to_base64(pooled), (rows, columns)


def build_signed_thumbnail(numbers: Numbers) -> tuple[str, tuple[int, int]]:
    """Return a small signed map as base64 levels, and its numbers of rows and columns.

    Where cells are pooled, the one with the largest magnitude is kept.
    """
    height, width = (-(-side // MAX_THUMBNAIL_SIDE) for side in numbers.shape)  # of a pooled block
    rows, columns = -(-numbers.shape[0] // height), -(-numbers.shape[1] // width)
    padded = np.zeros((rows * height, columns * width))
    padded[: numbers.shape[0], : numbers.shape[1]] = numbers
    pooled_last = padded.reshape(rows, height, columns, width).swapaxes(1, 2)
    blocks = pooled_last.reshape(rows, columns, height * width)
    index = np.abs(blocks).argmax(-1, keepdims=True)
    pooled = np.take_along_axis(blocks, index, -1)[..., 0]
    return _to_base64(_signed_levels(pooled, float(np.abs(pooled).max()))), (rows, columns)


def _signed_levels(numbers: Numbers, largest: float) -> NDArray[np.uint8]:
    half = _LEVELS // 2
    return np.round(half + half * numbers / (largest or 1.0)).astype(np.uint8)


def _weight_levels(weights: Numbers) -> NDArray[np.uint8]:
    return _to_level(weights, _level_exponent(weights)).astype(np.uint8)


def _to_level(weights: Numbers | float, exponent: float) -> Numbers:
    return np.round(_LEVELS * np.clip(weights, 0, 1) ** exponent)


def _level_exponent(weights: Numbers) -> float:
    """Return 1/2; for long inputs, whose weights are smaller, 1/3."""
    return 1 / 2 if max(weights.shape) <= _SQUARE_ROOT_MAX_SIDE else 1 / 3


def _causal_mask(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return True for the cells that a causal mask hides."""
    return np.triu(np.ones(shape, bool), 1 + shape[1] - shape[0])


def _choose_decimals(numbers: Numbers) -> int:
    """Return the number of decimals with which every number fits into two bytes."""
    largest = float(np.abs(numbers).max(initial=0))
    return next((d for d in range(_MAX_DECIMALS, 0, -1) if largest * 10**d < 2**15 - 1), 0)


def _format_cells(numbers: Numbers, levels: NDArray[np.uint8]) -> list[list[str]]:
    return [
        ["" if is_masked else _format_short(x) for x, is_masked in zip(*row, strict=True)]
        for row in zip(numbers, levels == MASKED_LEVEL, strict=True)
    ]


def _format_short(number: float) -> str:
    """Return a number for a narrow cell, without the zero before the decimal point.

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
