"""The benchmark's sheets, computed in plain numpy, agree with the package and with brute force."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from workings.problems import Problem

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    names = ("planting", "random_sheets", "rounding", "sheets", "slips", "styles", "uncatalogued")
    sys.path.insert(0, str(BENCH))
    try:
        yield SimpleNamespace(**{name: import_module(name) for name in names})
    finally:
        sys.path.remove(str(BENCH))
        for name in names:
            sys.modules.pop(name, None)


KINDS = ("attention", "positions", "layer_norm", "rnn", "lstm", "additive", "feed_forward", "block")


@pytest.mark.parametrize("kind", KINDS)
def test_sheets_agree_with_the_package(bench: SimpleNamespace, kind: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        sheet, worked = bench.random_sheets.random_sheet(rng, kind=kind)
        exact = bench.sheets.solve(sheet)
        solution = Problem.from_toml(bench.sheets.to_toml(sheet, worked)).solve()
        for key in sheet.claimable:
            expected = exact[key].T if sheet.columns else exact[key]
            np.testing.assert_allclose(solution[key], expected, rtol=1e-9, atol=1e-9)


def test_no_honest_style_is_beyond_rounding(bench: SimpleNamespace) -> None:
    for style in bench.styles.STYLES:
        # A coarse root is beyond rounding to the printed digits: a rule of its own.
        if style in ("coarse root", "blank cells"):
            continue
        rng = np.random.default_rng([2, *style.encode()])
        for _ in range(8):
            sheet, worked = bench.random_sheets.random_sheet(rng, style)
            exact = bench.sheets.solve(sheet)
            for key in sheet.claimed:
                beyond = bench.rounding.excess(sheet, worked, key, exact)
                assert beyond.max() <= 1.001, (style, key)


def test_the_range_of_rounding_contains_random_roundings(bench: SimpleNamespace) -> None:
    """Move all inputs of a product at random by up to one unit: the range holds every result."""
    rng = np.random.default_rng(3)
    sheet, worked = bench.random_sheets.random_sheet(rng, "1 decimal", kind="feed_forward")
    while not {"activated", "output"} <= set(sheet.claimed):
        sheet, worked = bench.random_sheets.random_sheet(rng, "1 decimal", kind="feed_forward")
    exact = bench.sheets.solve(sheet)
    low, high = bench.rounding.reachable_range(sheet, worked, "output", exact)
    claimed = np.array([[float(text) for text in row] for row in worked.texts["activated"]])
    unit = np.where(np.abs(claimed - exact["activated"]) < 1e-11, 0.0, 0.1)
    results = []
    for _ in range(500):
        moved = claimed + unit * rng.uniform(-1, 1, claimed.shape)
        results.append(sheet.steps["output"]({**sheet.given, "activated": moved}))
    assert (np.min(results, 0) >= low - 1e-9).all()
    assert (np.max(results, 0) <= high + 1e-9).all()
    ends = claimed + unit * np.sign(sheet.given["W_2"][:, 0])
    top = sheet.steps["output"]({**sheet.given, "activated": ends})
    np.testing.assert_allclose(top[:, 0], high[:, 0])


def test_exact_numbers_leave_nothing_to_rounding(bench: SimpleNamespace) -> None:
    """1.5 · 4.3 is 6.45 and not 6.95, although both factors have one decimal."""
    sheets = bench.sheets
    given = {
        "X": np.array([[3.0, 4.0]]),
        "W_Q": np.array([[0.1], [0.3]]),
        "W_K": np.array([[0.5], [0.7]]),
    }
    sheet = sheets.Sheet("attention", given, claimed=["Q", "K", "scores"])
    sheet.steps = {
        "Q": sheets.Product((("X", "W_Q"),)),
        "K": sheets.Product((("X", "W_K"),)),
        "scores": sheets.Product((("Q", "Kᵀ"),)),
    }
    worked = sheets.Worked({}, {"Q": [["1.5"]], "K": [["4.3"]], "scores": [["6.95"]]})
    beyond = bench.rounding.excess(sheet, worked, "scores", sheets.solve(sheet))
    assert beyond[0, 0] == pytest.approx(50)


def test_two_mistakes_of_a_step_are_merged(bench: SimpleNamespace) -> None:
    sheets, planting = bench.sheets, bench.planting
    given = {"X": np.eye(2), "W_Q": np.array([[1.0, 2], [3, 4]]), "b_Q": np.array([[5.0, 6]])}
    sheet = sheets.Sheet("attention", given)
    sheet.steps = {"Q": sheets.Product((("X", "W_Q"),), "b_Q")}
    transposed, without_bias = (
        {"Q": sheets.Product((("X", "W_Qᵀ"),), "b_Q")},
        {"Q": sheets.Product((("X", "W_Q"),))},
    )
    merged = planting.merge(sheet, transposed, without_bias)
    np.testing.assert_array_equal(merged["Q"](given), given["W_Q"].T)
    assert planting.merge(sheet, transposed, transposed) is None


def test_mistakes_without_a_name_differ_from_all_with_one(bench: SimpleNamespace) -> None:
    rng, uncatalogued = np.random.default_rng(4), bench.uncatalogued
    planted = []
    while len(planted) < 5:
        sheet, correct = bench.random_sheets.random_sheet(rng, "3 decimals", kind="attention")
        exact = bench.sheets.solve(sheet)
        result = uncatalogued.plant_uncatalogued(sheet, "squared", correct, exact, rng)
        if result is not None:
            planted.append(result)
            worked, key = result
            for variant in uncatalogued.list_variants(sheet):
                other = bench.planting.work_with_mistake(sheet, variant, correct)
                assert other is None or other.texts[key] != worked.texts[key]
