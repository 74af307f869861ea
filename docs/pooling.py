"""Draw docs/pooling.svg: local and global max pooling, on a grid and over a text."""

from pathlib import Path

import torch

from workings.layers.convolution import max_pool
from workings.render.pictures import Picture

GRID = torch.tensor([[1, 5, 2, 0], [3, 4, 8, 1], [7, 0, 6, 2], [2, 9, 1, 3]])
# features × positions
TEXT = torch.tensor([[0.2, 0.9, -0.4, 0.1, 1.7, 0.3], [1.1, -0.2, 0.5, 0.8, -0.6, 0.4]])
CELL = 34


def main() -> None:
    """Draw and save the figure."""
    picture = Picture(760, 430, "Local and global max pooling")
    picture.add_text(20, 30, "Local and global max pooling", bold=True, size=17)
    picture.add_text(20, 62, "on a grid, as in images")
    local = GRID.reshape(2, 2, 2, 2).amax((1, 3))
    x = matrix(picture, 20, 76, GRID.tolist(), blocks=True)
    x = arrow(picture, x, 76 + 2 * CELL, "each 2 × 2")
    x = matrix(picture, x, 76 + CELL, local.tolist(), blocks=True)
    x = arrow(picture, x, 76 + 2 * CELL, "all cells")
    matrix(picture, x, 76 + 1.5 * CELL, [[int(GRID.max())]])
    picture.add_text(20, 262, "over the positions of a text, for each feature")
    windows = TEXT.reshape(2, 3, 2).amax(2)
    x = matrix(picture, 20, 300, TEXT.tolist(), pairs=True)
    for k, word in enumerate(("the", "best", "film", "I", "ever", "saw")):
        picture.add_text(20 + (k + 0.5) * CELL, 294, word, anchor="middle", color="soft", size=11)
    x = arrow(picture, x, 300 + CELL, "each pair")
    x = matrix(picture, x, 300, windows.tolist(), pairs=True)
    x = arrow(picture, x, 300 + CELL, "all positions")
    matrix(picture, x, 300, max_pool(TEXT.T.unsqueeze(0)).T.tolist())
    note = "Global pooling leaves one number per feature, for a text of any length."
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
    """Draw a matrix; cells that are pooled together share a shade. Return the x to its right."""
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            shaded = (i // 2 + j // 2) % 2 if blocks else j // 2 % 2 if pairs else 0
            left, top = x + j * CELL, y + i * CELL
            picture.add_rectangle(left + 1, top + 1, CELL - 2, CELL - 2, "p2" if shaded else "n2")
            text = f"{value:g}" if isinstance(value, int) else f"{value:.1f}".replace("-", "−")
            picture.add_text(left + CELL / 2, top + CELL / 2 + 5, text, anchor="middle")
    return x + len(rows[0]) * CELL


def arrow(picture: Picture, x: float, y: float, label: str) -> float:
    """Draw an arrow with a label. Return the x to its right."""
    picture.add_line([(x + 12, y), (x + 98, y)])
    picture.add_polygon([(x + 98, y - 4), (x + 106, y), (x + 98, y + 4)], "ink")
    picture.add_text(x + 56, y - 8, label, anchor="middle", color="soft", size=12)
    return x + 116


if __name__ == "__main__":
    main()
