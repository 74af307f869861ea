"""Draws docs/shapes.svg: the five shapes of a sequence problem, as the lecture notes draw them."""

from pathlib import Path

from workings.render.pictures import Picture

BOX, GAP, STEP = 36, 12, 64  # of a box: its side, the room to the next; and from row to row
# name, what goes in at each step, what comes out (None: nothing does)
SHAPES: tuple[tuple[str, str, tuple[str | None, ...], tuple[str | None, ...]], ...] = (
    ("one to one", "h → e", ("h",), ("e",)),
    ("one to many", "complete", ("h", None, None), ("e", "l", "l")),
    ("many to one", "predict", ("je", "suis", "ici"), (None, None, "fr")),
    ("many to many", "aligned: complete --show", ("h", "e", "l"), ("e", "l", "l")),
    (
        "many to many",
        "not aligned: translation",
        ("we", "eat", "bread", None, None),
        (None, None, None, "comemos", "pan"),
    ),
)


def main() -> None:
    """Draw one beside the other, and save."""
    lengths = [len(taken) for _, _, taken, _ in SHAPES]
    widths = [max(n * BOX + (n - 1) * GAP, 120) for n in lengths]
    picture = Picture(sum(widths) + 24 * len(widths), 3 * STEP + 40, "Five shapes of problem")
    left = 12.0
    for (name, where, taken, given), width in zip(SHAPES, widths, strict=True):
        middle = left + width / 2
        picture.add_text(middle, 16, name, bold=True, anchor="middle")
        picture.add_text(middle, 32, where, "soft", size=11, anchor="middle")
        draw(picture, middle, taken, given)
        left += width + 24
    picture.save(Path(__file__).with_name("shapes.svg"))


def draw(
    picture: Picture, middle: float, taken: tuple[str | None, ...], given: tuple[str | None, ...]
) -> None:
    """Draw a model step by step: inputs below, states in the middle, outputs above."""
    wide = len(taken) * BOX + (len(taken) - 1) * GAP
    top = 52.0
    for k, (into, out) in enumerate(zip(taken, given, strict=True)):
        x = middle - wide / 2 + k * (BOX + GAP)
        state = top + STEP
        picture.add_rectangle(x, state, BOX, BOX, "c3")
        if k:
            arrow(picture, x - GAP, state + BOX / 2, x, state + BOX / 2)
        for word, y, colour in ((out, top, "c2"), (into, top + 2 * STEP, "c1")):
            if word is None:
                continue
            picture.add_rectangle(x, y, BOX, BOX, colour, opacity=0.25)
            size = min(12, 52 / len(word))
            picture.add_text(x + BOX / 2, y + BOX / 2 + 4, word, size=size, anchor="middle")
        if out is not None:
            arrow(picture, x + BOX / 2, state, x + BOX / 2, top + BOX)
        if into is not None:
            arrow(picture, x + BOX / 2, top + 2 * STEP, x + BOX / 2, state + BOX)


def arrow(picture: Picture, x: float, y: float, to_x: float, to_y: float) -> None:
    """Draw an arrow, across or upwards."""
    picture.add_line([(x, y), (to_x, to_y)], "soft")
    across = y == to_y
    sides = ((-5, -3), (-5, 3)) if across else ((-3, 5), (3, 5))
    picture.add_polygon([(to_x, to_y), *((to_x + a, to_y + b) for a, b in sides)], "soft")


if __name__ == "__main__":
    main()
