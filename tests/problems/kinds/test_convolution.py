"""Convolution, pooling and batch norm: equal to torch, checked fairly, mistakes named."""

from typing import Any

import numpy as np
import pytest
import torch
from hand_solutions import (
    Rng,
    assert_honest_is_right,
    assert_mistakes_are_named,
    solve_rows,
    transpose,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from workings import Problem
from workings.errors import UserError
from workings.problems.kinds.convolution import count_windows

FEW = settings(max_examples=12)
SEEDS = st.integers(0, 2**32 - 1)


def assert_close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-12, atol=1e-12)


def draw_conv1d(rng: Rng) -> dict[str, Any]:
    n, c, kernel, filters = (int(k) for k in rng.integers([5, 1, 2, 1], [9, 3, 4, 4]))
    fields: dict[str, Any] = {
        "kind": "conv1d",
        "X": rng.integers(-4, 5, (n, c)).astype(float),
        "W": rng.integers(-3, 4, (filters * kernel, c)) / rng.choice([1, 2, 3]),
        "filters": filters,
        "stride": int(rng.integers(1, 3)),
        "padding": int(rng.integers(0, 3)),
        "activation": str(rng.choice(["none", "relu", "tanh"])),
        "pooling": str(rng.choice(["none", "max", "mean", "global max", "global mean"])),
    }
    if rng.random() < 0.6:
        fields["b"] = rng.integers(-3, 4, (1, filters)).astype(float)
    return transpose(fields) if rng.random() < 0.5 else fields


def draw_batch_norm(rng: Rng) -> dict[str, Any]:
    n, d = (int(k) for k in rng.integers([3, 1], [6, 4]))
    fields: dict[str, Any] = {
        "kind": "batch_norm",
        "X": rng.integers(-5, 6, (n, d)) + rng.permutation(n)[:, None] * 0.5,
        "eps": float(rng.choice([0.01, 0.5])),
        "running_mean": rng.integers(-2, 3, (1, d)) / 2,
        "running_variance": rng.integers(1, 5, (1, d)) / 2,
        "mode": str(rng.choice(["training", "training", "evaluation"])),
        "momentum": float(rng.choice([0.1, 0.2])),
    }
    if rng.random() < 0.7:
        fields |= {name: rng.integers(1, 5, (1, d)) / 2 for name in ("gamma", "beta")}
    return transpose(fields) if rng.random() < 0.5 else fields


@FEW
@given(
    seed=SEEDS,
    shape=st.tuples(*[st.integers(1, 4)] * 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    columns=st.booleans(),
)
def test_conv1d_equals_torch(
    seed: int, shape: tuple[int, ...], stride: int, padding: int, columns: bool
) -> None:
    rng, (extra, c, kernel, filters) = np.random.default_rng(seed), shape
    n = kernel + extra
    x, b = rng.normal(size=(n, c)), rng.normal(size=(1, filters))
    w = rng.normal(size=(filters, kernel, c))
    options = {"stride": stride, "padding": padding, "activation": "relu", "pooling": "global max"}
    nested = [(matrix.T if columns else matrix).tolist() for matrix in w]
    fields = {"kind": "conv1d", "X": x, "b": b, **options}
    rows = solve_rows({**(transpose(fields) if columns else fields), "W": nested})
    tensors = [torch.from_numpy(a) for a in (x.T.copy(), w.transpose(0, 2, 1).copy(), b[0])]
    expected = F.conv1d(tensors[0][None], *tensors[1:], stride=stride, padding=padding)[0]
    assert_close(rows["output"], expected.T)
    assert_close(rows["activated"], expected.T.relu())
    assert_close(rows["pooled"][0], expected.relu().amax(1))


@FEW
@given(
    seed=SEEDS,
    length=st.integers(3, 9),
    size=st.integers(1, 3),
    stride=st.integers(1, 3),
    function=st.sampled_from(["max", "mean"]),
)
def test_pooling_equals_torch(
    seed: int, length: int, size: int, stride: int, function: str
) -> None:
    x = np.random.default_rng(seed).normal(size=(length, 2))
    problem = Problem(
        kind="conv1d",
        X=x,
        W=np.eye(2)[:, None].tolist(),
        pooling=function,
        pool_size=size,
        pool_stride=stride,
    )
    pool = F.max_pool1d if function == "max" else F.avg_pool1d
    expected = pool(torch.from_numpy(x.T.copy())[None], size, stride)[0].T
    assert_close(problem.solve()["pooled"], expected)


@FEW
@given(
    seed=SEEDS, n=st.integers(2, 5), d=st.integers(1, 4), columns=st.booleans(),
    training=st.booleans(),
)  # fmt: skip
def test_batch_norm_equals_torch(seed: int, n: int, d: int, columns: bool, training: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    names = ("running_mean", "running_variance", "gamma", "beta")
    given = {name: rng.uniform(0.5, 2, (1, d)) for name in names}
    tensors = [torch.from_numpy(given[name][0].copy()) for name in names]
    expected = F.batch_norm(torch.from_numpy(x), *tensors, training=training, momentum=0.2, eps=0.1)
    mode = "training" if training else "evaluation"
    fields = {"kind": "batch_norm", "X": x, **given, "momentum": 0.2, "eps": 0.1, "mode": mode}
    rows = solve_rows(transpose(fields) if columns else fields)
    assert_close(rows["output"], expected)
    if training:  # torch updates the running moments in place
        assert_close(rows["new_mean"][0], tensors[0])
        assert_close(rows["new_variance"][0], tensors[1])


def test_flat_lists_are_one_channel() -> None:
    for vectors in ("rows", "columns"):
        problem = Problem(kind="conv1d", X=[1, 2, 0, 3], W=[1, 0, -1], vectors=vectors)
        assert problem.solve()["output"].ravel().tolist() == [1, -1]


CONV = {"kind": "conv1d", "X": [1, 2, 0, 3, 1, 4], "W": [1, 0, -2], "stride": 2, "padding": 1}


@pytest.mark.parametrize(
    ("name", "output"),
    [  # padded: 0 1 2 0 3 1 4 0; windows 0 1 2, 2 0 3, 3 1 4; right: −4, −4, −5
        ("kernel-flipped", [2, 3 - 4, 4 - 6]),
        ("stride-forgotten", [0 - 4, 1 - 0, 2 - 6]),
        ("window-shifted", [1 - 0, 0 - 2, 1 - 0]),
        ("padding-on-one-side", [1 - 0, 0 - 2, 1 - 0]),
        ("padding-repeats-edge", [1 - 4, 2 - 6, 3 - 8]),
    ],
)
def test_mistakes_by_hand(name: str, output: list[int]) -> None:
    report = Problem(**CONV, claim={"output": output}).check()
    assert report.first is not None
    assert name in [cause.name for cause in report.first.causes]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"W": [1] * 9}, "the kernel has 9 positions, but X has 6 + 2·1 positions"),
        ({"W": [[1], [2], [3]], "filters": 2}, "W has 3 rows: it must be a multiple of 2"),
        ({"b": [1, 2], "filters": 3}, "b has 2 numbers: it must have 3, one per filter"),
        ({"stride": 0}, "stride = 0: it must be a whole number from 1"),
        ({"padding": -1}, "padding = -1: it must be a whole number from 0"),
        ({"pooling": "maximum"}, "pooling = 'maximum'"),
        ({"pooling": "max", "pool_size": 9}, "pool_size = 9, but there are 3 positions to pool"),
        ({"W": [[[1], [2]], [[1]]], "filters": 3}, "filters = 3, but given.W has 2"),
        ({"W": [[[1], [2]], 3]}, "given.W: expected a list of matrices"),
        ({"W": [[[1], ["x"]], [[1], [2]]]}, "given.W: 'x' is not a number"),
        ({"X": [[1, 2]] * 4}, "W has 1 columns, but X has 2 columns: it must be 2"),
    ],
)
def test_bad_conv1d_is_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**{**CONV, **fields})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": [[1, 2]]}, "X has 1 rows: a batch needs at least two examples"),
        ({"mode": "evaluation"}, "given.running_mean is missing: evaluation needs it"),
        ({"momentum": 2}, "momentum = 2: it must be from 0 to 1"),
        ({"running_variance": [-1, 1]}, "given.running_variance: a variance must not be negative"),
        ({"X": [[1, 2], [1, 3]]}, "normalised cannot be computed"),
    ],
)
def test_bad_batch_norm_is_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Problem(**{"kind": "batch_norm", "X": [[1, 2], [3, 4]], **fields})


def test_count_windows_equals_torch() -> None:
    for length in range(1, 9):
        for kernel in range(1, 5):
            for stride in (1, 2, 3):
                for padding in (0, 1, 2):
                    count = count_windows(length, kernel, stride, padding)
                    starts = range(0, length + 2 * padding - kernel + 1, stride)
                    assert count == len(starts)


@pytest.mark.parametrize("draw", [draw_conv1d, draw_batch_norm])
def test_rounded_solutions_are_right(draw: Any) -> None:
    assert_honest_is_right(draw, 12, 1)


@pytest.mark.parametrize("draw", [draw_conv1d, draw_batch_norm])
def test_planted_mistakes_are_named(draw: Any) -> None:
    assert_mistakes_are_named(draw, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw_conv1d, draw_batch_norm])
def test_many_solutions(draw: Any) -> None:
    assert_honest_is_right(draw, 2_000, 3)
    assert_mistakes_are_named(draw, 200, 4)
