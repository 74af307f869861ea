from workings.render.heatmap import heatmap
from workings.render.svg_writer import Grid, Polyline, SignedGrid, TextLabel
from workings.render.themes import split_signed_grids


def make_heatmap(values, **options):
    return heatmap(values, title="A matrix", x_label="column", y_label="row", **options)


def test_signs_have_colors_and_the_largest_value_is_opaque():
    shapes = split_signed_grids(make_heatmap([[2.0, -1.0], [0.0, 1.0]]).shapes)
    grids = [shape for shape in shapes if isinstance(shape, Grid)]
    assert [(grid.color, grid.opacities) for grid in grids[:2]] == [
        ("c2", ((1.0, 0.0), (0.0, 0.5))),
        ("c1", ((0.0, 0.5), (0.0, 0.0))),
    ]


def test_max_value_sets_the_full_color():
    grid = next(
        shape
        for shape in make_heatmap([[0.25, 0.5]], max_value=1.0).shapes
        if isinstance(shape, SignedGrid)
    )
    assert grid.values == ((0.25, 0.5),)


def test_zeros_can_be_drawn():
    assert make_heatmap([[0.0, 0.0]]).svg().startswith("<svg")


def test_frame_is_around_its_cell():
    picture = make_heatmap(
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], framed_cells=[(1, 2)], row_names=("one", "two")
    )
    grid = next(shape for shape in picture.shapes if isinstance(shape, SignedGrid))
    (frame,) = (
        shape for shape in picture.shapes if isinstance(shape, Polyline) and shape.width == 2
    )
    assert frame.points[0] == (grid.x + grid.width * 2 / 3, grid.y + grid.height / 2)
    assert {"one", "two"} < {shape.text for shape in picture.shapes if isinstance(shape, TextLabel)}
