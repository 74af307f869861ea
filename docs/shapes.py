"""Draw docs/shapes.svg: the five shapes of a sequence problem, as in the lecture notes."""

from pathlib import Path

from workings.render.pictures import Picture

BOX, GAP, ROW = 36, 12, 64  # side of a box, gap to the next box, distance between rows
# name, example, input at each step, output at each step (None: no input or output)
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
    """Draw the shapes side by side and save the figure."""
    lengths = [len(inputs) for _, _, inputs, _ in SHAPES]
    widths = [max(n * BOX + (n - 1) * GAP, 120) for n in lengths]
    picture = Picture(sum(widths) + 24 * len(widths), 3 * ROW + 40, "Five shapes of problem")
    left = 12.0
    for (name, example, inputs, outputs), width in zip(SHAPES, widths, strict=True):
        middle = left + width / 2
        picture.add_text(middle, 16, name, bold=True, anchor="middle")
        picture.add_text(middle, 32, example, "soft", size=11, anchor="middle")
        draw(picture, middle, inputs, outputs)
        left += width + 24
    picture.save(Path(__file__).with_name("shapes.svg"))


def draw(
    picture: Picture, middle: float, inputs: tuple[str | None, ...], outputs: tuple[str | None, ...]
) -> None:
    """Draw a model over time: inputs below, states in the middle, outputs above."""
    width = len(inputs) * BOX + (len(inputs) - 1) * GAP
    top = 52.0
    for k, (source, output) in enumerate(zip(inputs, outputs, strict=True)):
        x = middle - width / 2 + k * (BOX + GAP)
        state = top + ROW
        picture.add_rectangle(x, state, BOX, BOX, "c3")
        if k:
            arrow(picture, x - GAP, state + BOX / 2, x, state + BOX / 2)
        for word, y, color in ((output, top, "c2"), (source, top + 2 * ROW, "c1")):
            if word is None:
                continue
            picture.add_rectangle(x, y, BOX, BOX, color, opacity=0.25)
            size = min(12, 52 / len(word))
            picture.add_text(x + BOX / 2, y + BOX / 2 + 4, word, size=size, anchor="middle")
        if output is not None:
            arrow(picture, x + BOX / 2, state, x + BOX / 2, top + BOX)
        if source is not None:
            arrow(picture, x + BOX / 2, top + 2 * ROW, x + BOX / 2, state + BOX)


def arrow(picture: Picture, x: float, y: float, to_x: float, to_y: float) -> None:
    """Draw an arrow to the right or upwards."""
    picture.add_line([(x, y), (to_x, to_y)], "soft")
    is_horizontal = y == to_y
    sides = ((-5, -3), (-5, 3)) if is_horizontal else ((-3, 5), (3, 5))
    picture.add_polygon([(to_x, to_y), *((to_x + a, to_y + b) for a, b in sides)], "soft")


if __name__ == "__main__":
    main()
