from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side


def drawn() -> Picture:
    """A picture with every kind of mark that has a place of its own way."""
    picture = line_chart(
        [Series("one", [(1, 2), (2, 3)])], title="Up", x_label="x", y_label="y", width=300
    )
    picture.add_polygon([(1, 1), (9, 1), (9, 9)], "c1")
    picture.add_grid((10, 20, 30, 40), [[0.5]], "c2")
    return picture


def test_a_panel_is_the_picture_moved():
    whole, one = side_by_side([drawn(), drawn()], "Both"), drawn()
    count = len(one.shapes)
    first, second = whole.shapes[1 : count + 1], whole.shapes[count + 1 :]
    assert len(second) == count
    moves = set()
    for a, b in zip(first, second, strict=True):
        places = [(m.points[0] if hasattr(m, "points") else (m.x, m.y)) for m in (a, b)]
        moves.add((round(places[1][0] - places[0][0], 6), places[1][1] - places[0][1]))
    assert moves == {(310.0, 0.0)}


def test_everything_lies_inside_and_the_panels_stay_as_they_were():
    panel = drawn()
    before = list(panel.shapes)
    whole = side_by_side([panel, Picture(50, 600, "tall")], "A title that is far too long " * 9)
    assert panel.shapes == before
    assert (whole.width, whole.height) == (360, 634)
    assert whole.shapes[0].text.endswith("…")
    assert whole.svg().startswith("<svg")
