from workings.render.heatmap import heatmap
from workings.render.svg_writer import Grid, Polyline, TextLabel


def drawn(values, **given):
    return heatmap(values, title="A matrix", x_label="column", y_label="row", **given)


def test_signs_have_colours_and_the_largest_number_is_opaque():
    grids = [m for m in drawn([[2.0, -1.0], [0.0, 1.0]]).shapes if isinstance(m, Grid)]
    assert [(g.color, g.opacities) for g in grids[:2]] == [
        ("c2", ((1.0, 0.0), (0.0, 0.5))),
        ("c1", ((0.0, 0.5), (0.0, 0.0))),
    ]


def test_two_maps_can_share_their_colours():
    grid = next(m for m in drawn([[0.25, 0.5]], max_value=1.0).shapes if isinstance(m, Grid))
    assert grid.opacities == ((0.25, 0.5),)


def test_nothing_but_zeros_can_be_drawn():
    assert drawn([[0.0, 0.0]]).svg().startswith("<svg")


def test_a_frame_lies_around_its_cell():
    picture = drawn(
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], framed_cells=[(1, 2)], row_names=("one", "two")
    )
    grid = next(m for m in picture.shapes if isinstance(m, Grid))
    (frame,) = (m for m in picture.shapes if isinstance(m, Polyline) and m.width == 2)
    assert frame.points[0] == (grid.x + grid.width * 2 / 3, grid.y + grid.height / 2)
    assert {"one", "two"} < {m.text for m in picture.shapes if isinstance(m, TextLabel)}
