"""Scores of cells, against scikit-learn, numpy, and counting pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import roc_auc_score

from workings.interpret.neurons import (
    build_contrast,
    compute_association,
    compute_centered_ranks,
    compute_null_distribution,
    normalize_activations,
)


@pytest.mark.parametrize("kind", ["smooth", "rounded", "relu"])
def test_auc_is_scikit_learns(kind):
    random = np.random.default_rng(0)
    cells = random.standard_normal((700, 70))
    cells = {"smooth": cells, "rounded": cells.round(1), "relu": cells.clip(0)}[kind]
    values = random.random(700) < 0.2 + 0.6 * (cells[:, 3] > 0)
    found = (1 + compute_association(cells, values)) / 2
    expected = [roc_auc_score(values, cell) for cell in cells.T]
    assert found == pytest.approx(expected, abs=1e-12)
    assert found[3] > 0.7


def test_correlation_is_numpys():
    random = np.random.default_rng(1)
    cells, values = random.standard_normal((500, 9)), random.standard_normal(500)
    expected = [np.corrcoef(cell, values)[0, 1] for cell in cells.T]
    assert compute_association(cells, values) == pytest.approx(expected, abs=1e-12)


@given(
    cells=arrays(float, (12, 2), elements=st.integers(-2, 2)),
    values=arrays(bool, 12, elements=st.booleans()),
)
def test_auc_counts_pairs_and_ties_half(cells, values):
    found = compute_association(cells, values)
    if not 0 < values.sum() < 12:
        assert (found == 0).all()
        return
    for cell, strength in zip(cells.T, found, strict=True):
        pairs = np.sign(cell[values][:, None] - cell[~values][None, :])
        assert strength == pytest.approx(pairs.mean(), abs=1e-12)


def test_what_never_changes_tracks_nothing():
    cells = np.stack([np.ones(50), np.arange(50.0)], 1)
    assert compute_association(cells, np.arange(50) > 30)[0] == 0
    assert compute_association(cells, np.arange(50.0))[0] == 0
    assert (compute_association(cells, np.zeros(50)) == 0).all()


def test_single_precision_is_enough():
    random = np.random.default_rng(2)
    cells = random.standard_normal((40_000, 3)).astype(np.float32)
    values = random.random(40_000) < 0.3
    rough = compute_centered_ranks(cells).T @ build_contrast(values).astype(np.float32)
    assert rough == pytest.approx(compute_association(cells.astype(float), values), abs=1e-5)


def test_chances_best_is_what_shifting_one_by_one_gives():
    random = np.random.default_rng(3)
    cells, values = random.standard_normal((300, 5)), random.random(300) < 0.4
    places = np.sort(random.choice(300, 100, replace=False))
    shifts = [20, 77, 201]
    ranks = normalize_activations(cells[places], use_ranks=True)
    expected = [
        np.abs(compute_association(cells[places], np.roll(values, shift)[places])).max()
        for shift in shifts
    ]
    assert compute_null_distribution(ranks, values, places, np.array(shifts)) == pytest.approx(
        expected
    )
