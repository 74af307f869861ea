"""Every kind of problem gives the numbers of `attend`, the layers and torch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem, Trace, attend
from workings.layers import (
    AdditiveSimilarity,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    sinusoids,
)
from workings.problems.numbers import transpose_rows

FEW = settings(max_examples=25)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 4)


@pytest.fixture(autouse=True)
def _float64_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def to_tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def assert_close(got: Any, expected: Any) -> None:
    got, expected = (
        a.detach().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)
        for a in (got, expected)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def to_column_vectors(fields: dict[str, Any]) -> dict[str, Any]:
    """Transpose every matrix of a problem."""
    transposed = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    if isinstance(fields.get("mask"), list):
        transposed["mask"] = transpose_rows(fields["mask"])
    return {**transposed, "vectors": "columns"}


def solve(columns: bool, **fields: Any) -> dict[str, np.ndarray]:
    """Solve in either convention; return every step with vectors as rows."""
    problem = Problem(**(to_column_vectors(fields) if columns else fields))
    keys = [step.key for step in problem.steps if step.is_claimable]
    solution = problem.solve()
    return {key: solution[key].T if columns else solution[key] for key in keys}


@FEW
@given(
    seed=SEEDS,
    shape=st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES),
    columns=st.booleans(),
    context=st.booleans(),
    weights=st.sets(st.sampled_from(["W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"])),
    mask=st.sampled_from(["none", "causal", "matrix"]),
    scale=st.sampled_from(["sqrt(d_k)", "none", 3]),
    normalizer=st.sampled_from(["softmax", "sigmoid", "sum"]),
)
def test_attention_equals_attend(
    seed: int,
    shape: tuple[int, ...],
    columns: bool,
    context: bool,
    weights: set[str],
    mask: str,
    scale: str | int,
    normalizer: str,
) -> None:
    rng, (n, m, d, k, v) = np.random.default_rng(seed), shape
    m = m if context else n
    x = rng.uniform(0.1, 2, (n, d)) if normalizer == "sum" else rng.normal(size=(n, d))
    source = np.abs(rng.normal(size=(m, d))) + 0.1 if context else x
    low = 0.1 if normalizer == "sum" else -2  # a sum of both signs may be zero
    k = k if {"W_Q", "W_K"} <= weights else d
    v = v if "W_V" in weights else d
    given = {
        name: rng.uniform(low, 2, (d if name.startswith("W") else 1, v if name[2] == "V" else k))
        for name in sorted(weights)
    }
    allowed = np.ones((n, m), dtype=bool)
    if mask == "causal":
        allowed = np.tril(allowed, m - n)
    elif mask == "matrix":
        allowed = rng.random((n, m)) < 0.6
    if mask != "none" and normalizer == "sum":
        allowed[:, 0] = True
        mask = "matrix"
    got = solve(
        columns,
        X=x,
        **({"context": source} if context else {}),
        **given,
        mask=allowed.astype(int).tolist() if mask == "matrix" else mask,
        scale=scale,
        normalizer=normalizer,
    )

    def project(name: str, source: np.ndarray) -> torch.Tensor:
        return to_tensor(source @ given.get(f"W_{name}", np.eye(d)) + given.get(f"b_{name}", 0))

    q, keys, values = project("Q", x), project("K", source), project("V", source)
    with Trace() as trace:
        attend(
            q,
            keys,
            values,
            mask=None if mask == "none" else torch.from_numpy(allowed),
            scale={"none": 1.0, 3: 1 / 3}.get(scale),
            normalizer=normalizer,
        )
    for name, expected in (("Q", q), ("K", keys), ("V", values)):
        assert_close(got[name], expected)
    for name in ("scores", "scaled", "masked", "weights", "mixed"):
        assert_close(got[name], trace[name])
    assert_close(got["output"], trace["mixed"])  # without W_O, output equals mixed


def test_large_scores_equal_attend() -> None:
    x = np.array([[1000.0], [-1000.0], [999.0]])
    ones = np.ones((1, 1))
    for normalizer in ("softmax", "sigmoid"):
        got = solve(False, X=np.ones((3, 1)), context=x, W_Q=ones, normalizer=normalizer)
        with Trace() as trace:
            attend(torch.ones(3, 1), to_tensor(x), to_tensor(x), normalizer=normalizer)
        assert_close(got["weights"], trace["weights"])
        assert np.isfinite(got["mixed"]).all()


@FEW
@given(
    seed=SEEDS,
    heads=st.sampled_from([1, 2, 3]),
    columns=st.booleans(),
    bias=st.booleans(),
    cross=st.booleans(),
    causal=st.booleans(),
)
def test_heads_equal_multi_head_attention(
    seed: int, heads: int, columns: bool, bias: bool, cross: bool, causal: bool
) -> None:
    rng, width = np.random.default_rng(seed), 2 * heads
    layer = MultiHeadAttention(width, heads, bias=bias)
    x, memory = rng.normal(size=(3, width)), rng.normal(size=(4, width))
    given = {f"W_{name}": rng.normal(size=(width, width)) for name in "QKVO"}
    if bias:
        given |= {f"b_{name}": rng.normal(size=(1, width)) for name in "QKVO"}
    with torch.no_grad():
        layer.qkv.weight.copy_(to_tensor(np.hstack([given[f"W_{n}"] for n in "QKV"]).T))
        layer.output.weight.copy_(to_tensor(given["W_O"].T))
        if bias:
            layer.qkv.bias.copy_(to_tensor(np.hstack([given[f"b_{n}"] for n in "QKV"])[0]))
            layer.output.bias.copy_(to_tensor(given["b_O"][0]))
    if cross:
        given["context"] = memory
    got = solve(columns, X=x, **given, heads=heads, mask="causal" if causal else "none")
    with Trace() as trace:
        output = layer(
            to_tensor(x)[None], to_tensor(memory)[None] if cross else None, causal=causal
        )
    for name in ("scores", "scaled", "masked", "weights", "mixed"):
        for h in range(heads):
            assert_close(got[name if heads == 1 else f"{name}.{h + 1}"], trace[name][0, h])
    assert_close(got["output"], output[0])


@FEW
@given(
    seed=SEEDS, columns=st.booleans(), n=SIZES, d=st.integers(2, 5), eps=st.sampled_from([0.0, 0.5])
)
def test_layer_norm_equals_layer(seed: int, columns: bool, n: int, d: int, eps: float) -> None:
    rng = np.random.default_rng(seed)
    x, gamma, beta = rng.normal(size=(n, d)), rng.normal(size=(1, d)), rng.normal(size=(1, d))
    layer = LayerNorm(d, eps=eps)
    with torch.no_grad():
        layer.gamma.copy_(to_tensor(gamma[0]))
        layer.beta.copy_(to_tensor(beta[0]))
    got = solve(columns, kind="layer_norm", X=x, gamma=gamma, beta=beta, eps=eps)
    with Trace() as trace:
        output = layer(to_tensor(x))
    for name in ("mean", "variance", "normalised"):
        assert_close(got[name], trace[name])
    assert_close(got["output"], output)
    assert_close(layer(to_tensor(x)), got["output"])  # the fused kernel


@FEW
@given(seed=SEEDS, columns=st.booleans(), n=SIZES, activation=st.sampled_from(["relu", "gelu"]))
def test_feed_forward_equals_layer(seed: int, columns: bool, n: int, activation: str) -> None:
    rng, d, h = np.random.default_rng(seed), 3, 5
    layer = FeedForward(d, h, activation=activation)
    shapes = {"W_1": (d, h), "b_1": (1, h), "W_2": (h, d), "b_2": (1, d)}
    given = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    _fill_feed_forward(layer, given)
    x = rng.normal(size=(n, d))
    got = solve(columns, kind="feed_forward", X=x, **given, activation=activation)
    with Trace() as trace:
        output = layer(to_tensor(x))
    for name in ("hidden", "activated"):
        assert_close(got[name], trace[name])
    assert_close(got["output"], output)


def _fill_feed_forward(layer: FeedForward, given: dict[str, np.ndarray]) -> None:
    with torch.no_grad():
        for linear, which in ((layer.inner, 1), (layer.outer, 2)):
            linear.weight.copy_(to_tensor(given[f"W_{which}"].T))
            linear.bias.copy_(to_tensor(given[f"b_{which}"][0]))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("count", "width", "base"), [(3, 4, 10_000.0), (5, 7, 100.0), (1, 1, 10.0)]
)
def test_positions_equal_sinusoids(count: int, width: int, base: float, columns: bool) -> None:
    got = solve(columns, kind="positions", count=count, width=width, base=base)
    assert_close(got["encoding"], sinusoids(count, width, base=base))


def test_angles_per_pair_of_columns() -> None:
    claim = {"angles": [[0, 0], [1, 0.01]]}
    problem = Problem(kind="positions", count=2, width=4, claim=claim)
    assert_close(problem.solve()["angles"], [[0, 0], [1, 0.01]])
    assert_close(problem.solve()["encoding"], sinusoids(2, 4))
    assert problem.check().verdict == "right"


@FEW
@given(seed=SEEDS, columns=st.booleans(), n=SIZES, a=SIZES, b=SIZES, hidden=SIZES)
def test_additive_attention_equals_layer(
    seed: int, columns: bool, n: int, a: int, b: int, hidden: int
) -> None:
    rng = np.random.default_rng(seed)
    s, states = rng.normal(size=(1, a)), rng.normal(size=(n, b))
    w_s, w_h, v = (rng.normal(size=shape) for shape in ((a, hidden), (b, hidden), (1, hidden)))
    similarity = AdditiveSimilarity(a, b, hidden)
    with torch.no_grad():
        similarity.query.weight.copy_(to_tensor(w_s.T))
        similarity.key.weight.copy_(to_tensor(w_h.T))
        similarity.score.weight.copy_(to_tensor(v))
    got = solve(columns, kind="additive", s=s, H=states, W_s=w_s, W_h=w_h, v=v)
    with Trace() as trace:
        mixed = attend(to_tensor(s), to_tensor(states), to_tensor(states), similarity=similarity)
    assert_close(got["scores"], trace["scores"])
    assert_close(got["weights"], trace["weights"])
    assert_close(got["mixed"], mixed)


@FEW
@given(
    seed=SEEDS, columns=st.booleans(), order=st.sampled_from(["pre", "post"]), causal=st.booleans()
)
def test_block_equals_layer(seed: int, columns: bool, order: str, causal: bool) -> None:
    rng, d, heads, h = np.random.default_rng(seed), 4, 2, 3
    block = EncoderBlock(d, heads, h, norm=order, activation="gelu")
    shapes = {f"W_{n}": (d, d) for n in "QKVO"} | {f"b_{n}": (1, d) for n in "QKVO"}
    shapes |= {"W_1": (d, h), "b_1": (1, h), "W_2": (h, d), "b_2": (1, d)}
    shapes |= {f"{name}_{which}": (1, d) for name in ("gamma", "beta") for which in (1, 2)}
    given = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    attention = block.attention
    with torch.no_grad():
        attention.qkv.weight.copy_(to_tensor(np.hstack([given[f"W_{n}"] for n in "QKV"]).T))
        attention.qkv.bias.copy_(to_tensor(np.hstack([given[f"b_{n}"] for n in "QKV"])[0]))
        attention.output.weight.copy_(to_tensor(given["W_O"].T))
        attention.output.bias.copy_(to_tensor(given["b_O"][0]))
        for which, residual in ((1, block.attention_residual), (2, block.feed_forward_residual)):
            residual.norm.gamma.copy_(to_tensor(given[f"gamma_{which}"][0]))
            residual.norm.beta.copy_(to_tensor(given[f"beta_{which}"][0]))
    _fill_feed_forward(block.feed_forward, given)
    x = rng.normal(size=(3, d))
    settings = {"heads": heads, "order": order, "eps": 1e-5, "activation": "gelu"}
    mask = "causal" if causal else "none"
    got = solve(columns, kind="block", X=x, **given, **settings, mask=mask)
    output = block(to_tensor(x)[None], causal=causal)[0]
    assert_close(got["norm_2.output" if order == "post" else "add_2"], output)


@FEW
@given(seed=SEEDS, columns=st.booleans(), times=SIZES, d=SIZES, h=SIZES, bias=st.booleans())
def test_rnn_equals_torch(seed: int, columns: bool, times: int, d: int, h: int, bias: bool) -> None:
    rng = np.random.default_rng(seed)
    x, h0 = rng.normal(size=(times, d)), rng.normal(size=(1, h))
    w_xh, w_hh, b = (rng.normal(size=shape) for shape in ((d, h), (h, h), (1, h)))
    layer = torch.nn.RNN(d, h, bias=bias, batch_first=True)
    _fill_recurrent(layer, w_xh, w_hh, b if bias else None)
    given = {"W_xh": w_xh, "W_hh": w_hh, "h0": h0} | ({"b": b} if bias else {})
    got = solve(columns, kind="rnn", X=x, **given)
    states, _ = layer(to_tensor(x)[None], to_tensor(h0)[None])
    for t in range(times):
        assert_close(got[f"h.{t + 1}"], states[0, t : t + 1])


@FEW
@given(seed=SEEDS, columns=st.booleans(), times=SIZES, d=SIZES, h=SIZES, zero=st.booleans())
def test_lstm_equals_torch(
    seed: int, columns: bool, times: int, d: int, h: int, zero: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, h0, c0 = (rng.normal(size=shape) for shape in ((times, d), (1, h), (1, h)))
    w_x, w_h, b = (rng.normal(size=shape) for shape in ((d, 4 * h), (h, 4 * h), (1, 4 * h)))
    layer = torch.nn.LSTM(d, h, batch_first=True)
    _fill_recurrent(layer, w_x, w_h, b)
    given = {"W_x": w_x, "W_h": w_h, "b": b} | ({} if zero else {"h0": h0, "c0": c0})
    h0, c0 = (0 * h0, 0 * c0) if zero else (h0, c0)  # missing states are zero
    got = solve(columns, kind="lstm", X=x, **given)
    states, (_, c) = layer(to_tensor(x)[None], (to_tensor(h0)[None], to_tensor(c0)[None]))
    for t in range(times):
        assert_close(got[f"h.{t + 1}"], states[0, t : t + 1])
    assert_close(got[f"c.{times}"], c[0])


def _fill_recurrent(
    layer: torch.nn.RNNBase, w_x: np.ndarray, w_h: np.ndarray, b: np.ndarray | None
) -> None:
    with torch.no_grad():
        layer.weight_ih_l0.copy_(to_tensor(w_x.T))
        layer.weight_hh_l0.copy_(to_tensor(w_h.T))
        if b is not None:
            layer.bias_ih_l0.copy_(to_tensor(b[0]))
            layer.bias_hh_l0.zero_()
