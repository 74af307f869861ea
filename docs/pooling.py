"""Draws docs/pooling.svg: local against global max pooling, on a grid and over a text."""

from pathlib import Path

import torch

from workings.layers.convolution import max_pool
from workings.render.pictures import Picture

GRID = torch.tensor([[1, 5, 2, 0], [3, 4, 8, 1], [7, 0, 6, 2], [2, 9, 1, 3]])
# Features × places.
TEXT = torch.tensor([[0.2, 0.9, -0.4, 0.1, 1.7, 0.3], [1.1, -0.2, 0.5, 0.8, -0.6, 0.4]])
CELL = 34


def main() -> None:
    """Draw it."""
    picture = Picture(760, 430, "Local and global max pooling")
    picture.add_text(20, 30, "Local and global max pooling", bold=True, size=17)
    picture.add_text(20, 62, "on a grid, as in pictures")
    local = GRID.reshape(2, 2, 2, 2).amax((1, 3))
    place = matrix(picture, 20, 76, GRID.tolist(), blocks=True)
    place = arrow(picture, place, 76 + 2 * CELL, "each 2 × 2")
    place = matrix(picture, place, 76 + CELL, local.tolist(), blocks=True)
    place = arrow(picture, place, 76 + 2 * CELL, "all of it")
    matrix(picture, place, 76 + 1.5 * CELL, [[int(GRID.max())]])
    picture.add_text(20, 262, "over the places of a text, feature by feature")
    windows = TEXT.reshape(2, 3, 2).amax(2)
    place = matrix(picture, 20, 300, TEXT.tolist(), pairs=True)
    for k, word in enumerate(("the", "best", "film", "I", "ever", "saw")):
        picture.add_text(20 + (k + 0.5) * CELL, 294, word, anchor="middle", color="soft", size=11)
    place = arrow(picture, place, 300 + CELL, "each pair")
    place = matrix(picture, place, 300, windows.tolist(), pairs=True)
    place = arrow(picture, place, 300 + CELL, "all places")
    matrix(picture, place, 300, max_pool(TEXT.T.unsqueeze(0)).T.tolist())
    note = "Global pooling leaves one number a feature, however long the text: no fixed length."
    picture.add_text(20, 410, note, color="soft")
    picture.save(Path(__file__).with_name("pooling.svg"))


def matrix(
    picture: Picture,
    x: float,
    y: float,
    rows: list[list[float]],
    *,
    blocks: bool = False,
    pairs: bool = False,
) -> float:
    """Draw numbers in cells; shade what is pooled together. Return where the next may stand."""
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            shaded = (i // 2 + j // 2) % 2 if blocks else j // 2 % 2 if pairs else 0
            left, top = x + j * CELL, y + i * CELL
            picture.add_rectangle(left + 1, top + 1, CELL - 2, CELL - 2, "p2" if shaded else "n2")
            written = f"{value:g}" if isinstance(value, int) else f"{value:.1f}".replace("-", "−")
            picture.add_text(left + CELL / 2, top + CELL / 2 + 5, written, anchor="middle")
    return x + len(rows[0]) * CELL


def arrow(picture: Picture, x: float, y: float, words: str) -> float:
    """Draw an arrow with words on it."""
    picture.add_line([(x + 12, y), (x + 98, y)])
    picture.add_polygon([(x + 98, y - 4), (x + 106, y), (x + 98, y + 4)], "ink")
    picture.add_text(x + 56, y - 8, words, anchor="middle", color="soft", size=12)
    return x + 116


if __name__ == "__main__":
    main()
