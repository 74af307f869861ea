"""Maps for the page: numbers as bytes, levels of colour, and what is written in small ones."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from workings.views import colours
from workings.views.notation import decimal, typeset
from workings.web.told_looks import Map, Palette

HIDDEN = 255  # the level of what a mask hides
TABLED = 24  # rows or columns of a map that is a table; larger ones are drawn
THUMB = 48  # rows or columns of a map in small
_FEW = 64  # rows or columns
_LEVELS = 64
_MOST = 3  # of a row that are named where there is no table
_FINEST = 4  # decimals

Numbers = NDArray[np.float64]


@cache
def palette(theme: str, signed: bool = False) -> Palette:
    """The colours of a theme's maps."""
    found = colours.ramp(theme, _LEVELS + 1, signed=signed)
    return Palette(colours=found, inks=[colours.ink_on(colour) for colour in found])


def weights_map(
    name: str,
    says: str,
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Numbers,
    causal: bool,
) -> Map:
    """A head's weights. The colour goes with a root of them: small ones are many."""
    levels = _of_weights(weights)
    if causal:
        levels[_later(weights.shape)] = HIDDEN
    ticks = [(int(_level(share, _power(weights))), text) for share, text in _TICKS]
    return _map(name, says, rows, columns, weights, levels, ticks, signed=False)


_TICKS = ((0.0, "0"), (0.05, "0.05"), (0.25, "0.25"), (0.5, "0.5"), (1.0, "1"))


def signed_map(
    name: str,
    says: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    *,
    least: float = 0.0,
    causal: bool = False,
) -> Map:
    """Numbers below and above zero, by the largest of them; `least`: by no less than that."""
    largest = max(float(np.abs(numbers).max()), least) or 1.0
    half = _LEVELS // 2
    levels = np.round(half + half * numbers / largest).astype(np.uint8)
    if causal:
        levels[_later(numbers.shape)] = HIDDEN
    said = typeset(decimal(largest, 2))
    ticks = [(0, f"−{said}"), (half, "0"), (_LEVELS, said)]
    return _map(name, says, rows, columns, numbers, levels, ticks, signed=True)


def sized_map(
    name: str,
    says: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    least: float,
) -> Map:
    """Numbers from zero on, by the largest of them, and by no less than `least`."""
    largest = max(float(numbers.max()), least) or 1.0
    levels = np.round(_LEVELS * numbers / largest).astype(np.uint8)
    ticks = [(0, "0"), (_LEVELS, typeset(decimal(largest, 3)))]
    return _map(name, says, rows, columns, numbers, levels, ticks, signed=False)


def _map(
    name: str,
    says: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Numbers,
    levels: NDArray[np.uint8],
    ticks: list[tuple[int, str]],
    *,
    signed: bool,
) -> Map:
    decimals = _decimals(numbers)
    whole = np.round(numbers * 10**decimals).astype("<i2")
    small = max(numbers.shape) <= TABLED
    return Map(
        name=name,
        says=says,
        rows=list(rows),
        columns=list(columns),
        levels=_bytes(levels),
        numbers=_bytes(whole),
        decimals=decimals,
        light=palette("light", signed),
        dark=palette("dark", signed),
        ticks=ticks,
        texts=_texts(numbers, levels) if small else None,
        most=None if small else _most(numbers, decimals),
    )


def thumb(weights: Numbers, causal: bool) -> tuple[str, tuple[int, int]]:
    """A map in small, each of its cells as strong as the strongest there; and its size."""
    levels = _of_weights(weights)
    if causal:
        levels[_later(weights.shape)] = 0
    tall, wide = (-(-side // THUMB) for side in levels.shape)
    down, across = (-(-side // by) for side, by in zip(levels.shape, (tall, wide), strict=True))
    padded = np.zeros((down * tall, across * wide), np.uint8)
    padded[: levels.shape[0], : levels.shape[1]] = levels
    small = padded.reshape(down, tall, across, wide).max(axis=(1, 3))
    return _bytes(small), (down, across)


def _of_weights(weights: Numbers) -> NDArray[np.uint8]:
    return _level(weights, _power(weights)).astype(np.uint8)


def _level(weights: Numbers | float, power: float) -> Numbers:
    return np.round(_LEVELS * np.clip(weights, 0, 1) ** power)


def _power(weights: Numbers) -> float:
    """The square root; among many tokens, whose weights are small, the cube root."""
    return 1 / 2 if max(weights.shape) <= _FEW else 1 / 3


def _later(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """What a causal mask hides."""
    return np.triu(np.ones(shape, bool), 1 + shape[1] - shape[0])


def _decimals(numbers: Numbers) -> int:
    """As many as two bytes have room for."""
    largest = float(np.abs(numbers).max(initial=0))
    return next((d for d in range(_FINEST, 0, -1) if largest * 10**d < 2**15 - 1), 0)


def _texts(numbers: Numbers, levels: NDArray[np.uint8]) -> list[list[str]]:
    return [
        ["" if hides else _short(x) for x, hides in zip(*line, strict=True)]
        for line in zip(numbers, levels == HIDDEN, strict=True)
    ]


def _short(number: float) -> str:
    """Write a number for a narrow cell, without the nought before its point.

    >>> _short(0.071), _short(-0.5), _short(1.0)
    ('.07', '−.50', '1.0')
    >>> _short(-0.001)
    '.00'
    """
    if abs(number) >= 0.995:
        return typeset(f"{number:.1f}")
    return typeset(f"{number:z.2f}").replace("0.", ".", 1)


def _most(numbers: Numbers, decimals: int) -> list[list[tuple[int, str]]]:
    order = np.argsort(-numbers, axis=1, kind="stable")[:, :_MOST]
    return [
        [(int(j), typeset(decimal(float(row[j]), decimals))) for j in best]
        for row, best in zip(numbers, order, strict=True)
    ]


def _bytes(cells: NDArray[np.generic]) -> str:
    return b64encode(np.ascontiguousarray(cells).tobytes()).decode()
