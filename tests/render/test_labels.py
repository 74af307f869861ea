"""Names beside the ends of lines: in order, apart, on nothing else."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.render.chart import Box, place_label, spread_apart


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(1, 12))
def test_apart_keeps_order_gap_and_limits(wanted: list[float], gap: float) -> None:
    places = spread_apart(wanted, gap, 0, 100)
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    moved = [places[k] for k in order]
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(moved))
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in places)
    if all(b - a > gap for a, b in itertools.pairwise(sorted(wanted))):
        assert places == pytest.approx(wanted)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=2, max_size=2))
def test_a_box_knows_what_crosses_it(ends: list[tuple[float, float]]) -> None:
    (x, y), (end_x, end_y) = ends
    steps = [k / 200 for k in range(201)]
    on_it = [(x + (end_x - x) * k, y + (end_y - y) * k) for k in steps]
    if any(abs(a) < 0.999 and abs(b) < 0.999 for a, b in on_it):
        assert Box(-1, -1, 1, 1).is_crossed_by(*ends)
    elif not any(abs(a) < 1.05 and abs(b) < 1.05 for a, b in on_it):
        assert not Box(-1, -1, 1, 1).is_crossed_by(*ends)


def test_a_name_gives_way_to_lines_and_names() -> None:
    room, size, end = Box(0, 0, 200, 100), (40.0, 10.0), (50.0, 50.0)
    assert place_label(end, size, room, [], []) == Box(57, 45, 97, 55)
    flat = [(0.0, 52.0), (200.0, 52.0)]
    assert (place_label(end, size, room, [flat], []) or room).bottom <= 52
    above = Box(40, 0, 200, 48)
    assert (place_label(end, size, room, [], [above]) or room).top >= 48
    assert place_label(end, size, room, [], [room]) is None
    assert place_label((190.0, 50.0), size, room, [], []) is None
