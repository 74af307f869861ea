"""The steps of a solution are what `attend`, the layers and torch compute; its workings add up."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem, Trace, UserError, attend
from workings.layers import (
    AdditiveSimilarity,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    sinusoids,
)

few = settings(max_examples=25)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def same(got: Any, expected: Any) -> None:
    got, expected = (
        a.detach().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)
        for a in (got, expected)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def in_columns(fields: dict[str, Any]) -> dict[str, Any]:
    """Turn every matrix of a problem over."""
    turned = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    if isinstance(fields.get("mask"), list):
        turned["mask"] = [list(column) for column in zip(*fields["mask"], strict=True)]
    return {**turned, "vectors": "columns"}


def solved(columns: bool, **fields: Any) -> dict[str, np.ndarray]:
    """Solve in either convention; give every step back with vectors as rows."""
    problem = Problem(**(in_columns(fields) if columns else fields))
    keys = [step.key for step in problem.steps if step.is_claimable]
    solution = problem.solve()
    return {key: solution[key].T if columns else solution[key] for key in keys}


@few
@given(
    seed=seeds,
    shape=st.tuples(sizes, sizes, sizes, sizes, sizes),
    columns=st.booleans(),
    context=st.booleans(),
    weights=st.sets(st.sampled_from(["W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"])),
    mask=st.sampled_from(["none", "causal", "matrix"]),
    scale=st.sampled_from(["sqrt(d_k)", "none", 3]),
    normalizer=st.sampled_from(["softmax", "sigmoid", "sum"]),
)
def test_attention_is_attend(
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
    asked = np.abs(rng.normal(size=(m, d))) + 0.1 if context else x
    low = 0.1 if normalizer == "sum" else -2  # a sum of both signs may vanish
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
    got = solved(
        columns,
        X=x,
        **({"context": asked} if context else {}),
        **given,
        mask=allowed.astype(int).tolist() if mask == "matrix" else mask,
        scale=scale,
        normalizer=normalizer,
    )

    def projected(name: str, source: np.ndarray) -> torch.Tensor:
        return tensor(source @ given.get(f"W_{name}", np.eye(d)) + given.get(f"b_{name}", 0))

    q, keys, values = projected("Q", x), projected("K", asked), projected("V", asked)
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
        same(got[name], expected)
    for name in ("scores", "scaled", "masked", "weights", "mixed"):
        same(got[name], trace[name])
    same(got["output"], trace["mixed"])  # no W_O: the step before it


def test_scores_of_a_thousand_are_no_trouble() -> None:
    x = np.array([[1000.0], [-1000.0], [999.0]])
    ones = np.ones((1, 1))
    for normalizer in ("softmax", "sigmoid"):
        got = solved(False, X=np.ones((3, 1)), context=x, W_Q=ones, normalizer=normalizer)
        with Trace() as trace:
            attend(torch.ones(3, 1), tensor(x), tensor(x), normalizer=normalizer)
        same(got["weights"], trace["weights"])
        assert np.isfinite(got["mixed"]).all()


@few
@given(
    seed=seeds,
    heads=st.sampled_from([1, 2, 3]),
    columns=st.booleans(),
    bias=st.booleans(),
    cross=st.booleans(),
    causal=st.booleans(),
)
def test_heads_are_multi_head_attention(
    seed: int, heads: int, columns: bool, bias: bool, cross: bool, causal: bool
) -> None:
    rng, width = np.random.default_rng(seed), 2 * heads
    layer = MultiHeadAttention(width, heads, bias=bias)
    x, memory = rng.normal(size=(3, width)), rng.normal(size=(4, width))
    given = {f"W_{name}": rng.normal(size=(width, width)) for name in "QKVO"}
    if bias:
        given |= {f"b_{name}": rng.normal(size=(1, width)) for name in "QKVO"}
    with torch.no_grad():
        layer.qkv.weight.copy_(tensor(np.hstack([given[f"W_{n}"] for n in "QKV"]).T))
        layer.output.weight.copy_(tensor(given["W_O"].T))
        if bias:
            layer.qkv.bias.copy_(tensor(np.hstack([given[f"b_{n}"] for n in "QKV"])[0]))
            layer.output.bias.copy_(tensor(given["b_O"][0]))
    if cross:
        given["context"] = memory
    got = solved(columns, X=x, **given, heads=heads, mask="causal" if causal else "none")
    with Trace() as trace:
        output = layer(tensor(x)[None], tensor(memory)[None] if cross else None, causal=causal)
    for name in ("scores", "scaled", "masked", "weights", "mixed"):
        for h in range(heads):
            same(got[name if heads == 1 else f"{name}.{h + 1}"], trace[name][0, h])
    same(got["output"], output[0])


@few
@given(
    seed=seeds, columns=st.booleans(), n=sizes, d=st.integers(2, 5), eps=st.sampled_from([0.0, 0.5])
)
def test_layer_norm_is_the_layer(seed: int, columns: bool, n: int, d: int, eps: float) -> None:
    rng = np.random.default_rng(seed)
    x, gamma, beta = rng.normal(size=(n, d)), rng.normal(size=(1, d)), rng.normal(size=(1, d))
    layer = LayerNorm(d, eps=eps)
    with torch.no_grad():
        layer.gamma.copy_(tensor(gamma[0]))
        layer.beta.copy_(tensor(beta[0]))
    got = solved(columns, kind="layer_norm", X=x, gamma=gamma, beta=beta, eps=eps)
    with Trace() as trace:
        output = layer(tensor(x))
    for name in ("mean", "variance", "normalised"):
        same(got[name], trace[name])
    same(got["output"], output)
    same(layer(tensor(x)), got["output"])  # torch's own kernel, too


@few
@given(seed=seeds, columns=st.booleans(), n=sizes, activation=st.sampled_from(["relu", "gelu"]))
def test_feed_forward_is_the_layer(seed: int, columns: bool, n: int, activation: str) -> None:
    rng, d, h = np.random.default_rng(seed), 3, 5
    layer = FeedForward(d, h, activation=activation)
    shapes = {"W_1": (d, h), "b_1": (1, h), "W_2": (h, d), "b_2": (1, d)}
    given = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    _fill_feed_forward(layer, given)
    x = rng.normal(size=(n, d))
    got = solved(columns, kind="feed_forward", X=x, **given, activation=activation)
    with Trace() as trace:
        output = layer(tensor(x))
    for name in ("hidden", "activated"):
        same(got[name], trace[name])
    same(got["output"], output)


def _fill_feed_forward(layer: FeedForward, given: dict[str, np.ndarray]) -> None:
    with torch.no_grad():
        for linear, which in ((layer.inner, 1), (layer.outer, 2)):
            linear.weight.copy_(tensor(given[f"W_{which}"].T))
            linear.bias.copy_(tensor(given[f"b_{which}"][0]))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("count", "width", "base"), [(3, 4, 10_000.0), (5, 7, 100.0), (1, 1, 10.0)]
)
def test_positions_are_sinusoids(count: int, width: int, base: float, columns: bool) -> None:
    got = solved(columns, kind="positions", count=count, width=width, base=base)
    same(got["encoding"], sinusoids(count, width, base=base))


def test_angles_may_be_written_once_for_each_pair() -> None:
    claim = {"angles": [[0, 0], [1, 0.01]]}
    problem = Problem(kind="positions", count=2, width=4, claim=claim)
    same(problem.solve()["angles"], [[0, 0], [1, 0.01]])
    same(problem.solve()["encoding"], sinusoids(2, 4))
    assert problem.check().verdict == "right"


@few
@given(seed=seeds, columns=st.booleans(), n=sizes, a=sizes, b=sizes, hidden=sizes)
def test_additive_attention_is_the_layer(
    seed: int, columns: bool, n: int, a: int, b: int, hidden: int
) -> None:
    rng = np.random.default_rng(seed)
    s, states = rng.normal(size=(1, a)), rng.normal(size=(n, b))
    w_s, w_h, v = (rng.normal(size=shape) for shape in ((a, hidden), (b, hidden), (1, hidden)))
    similarity = AdditiveSimilarity(a, b, hidden)
    with torch.no_grad():
        similarity.query.weight.copy_(tensor(w_s.T))
        similarity.key.weight.copy_(tensor(w_h.T))
        similarity.score.weight.copy_(tensor(v))
    got = solved(columns, kind="additive", s=s, H=states, W_s=w_s, W_h=w_h, v=v)
    with Trace() as trace:
        mixed = attend(tensor(s), tensor(states), tensor(states), similarity=similarity)
    same(got["scores"], trace["scores"])
    same(got["weights"], trace["weights"])
    same(got["mixed"], mixed)


@few
@given(
    seed=seeds, columns=st.booleans(), order=st.sampled_from(["pre", "post"]), causal=st.booleans()
)
def test_block_is_the_layer(seed: int, columns: bool, order: str, causal: bool) -> None:
    rng, d, heads, h = np.random.default_rng(seed), 4, 2, 3
    block = EncoderBlock(d, heads, h, norm=order, activation="gelu")
    shapes = {f"W_{n}": (d, d) for n in "QKVO"} | {f"b_{n}": (1, d) for n in "QKVO"}
    shapes |= {"W_1": (d, h), "b_1": (1, h), "W_2": (h, d), "b_2": (1, d)}
    shapes |= {f"{name}_{which}": (1, d) for name in ("gamma", "beta") for which in (1, 2)}
    given = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    attention = block.attention
    with torch.no_grad():
        attention.qkv.weight.copy_(tensor(np.hstack([given[f"W_{n}"] for n in "QKV"]).T))
        attention.qkv.bias.copy_(tensor(np.hstack([given[f"b_{n}"] for n in "QKV"])[0]))
        attention.output.weight.copy_(tensor(given["W_O"].T))
        attention.output.bias.copy_(tensor(given["b_O"][0]))
        for which, around in ((1, block.attention_residual), (2, block.feed_forward_residual)):
            around.norm.gamma.copy_(tensor(given[f"gamma_{which}"][0]))
            around.norm.beta.copy_(tensor(given[f"beta_{which}"][0]))
    _fill_feed_forward(block.feed_forward, given)
    x = rng.normal(size=(3, d))
    settings = {"heads": heads, "order": order, "eps": 1e-5, "activation": "gelu"}
    mask = "causal" if causal else "none"
    got = solved(columns, kind="block", X=x, **given, **settings, mask=mask)
    output = block(tensor(x)[None], causal=causal)[0]
    same(got["norm_2.output" if order == "post" else "add_2"], output)


@few
@given(seed=seeds, columns=st.booleans(), times=sizes, d=sizes, h=sizes, bias=st.booleans())
def test_rnn_is_torchs(seed: int, columns: bool, times: int, d: int, h: int, bias: bool) -> None:
    rng = np.random.default_rng(seed)
    x, h0 = rng.normal(size=(times, d)), rng.normal(size=(1, h))
    w_xh, w_hh, b = (rng.normal(size=shape) for shape in ((d, h), (h, h), (1, h)))
    layer = torch.nn.RNN(d, h, bias=bias, batch_first=True)
    _fill_recurrent(layer, w_xh, w_hh, b if bias else None)
    given = {"W_xh": w_xh, "W_hh": w_hh, "h0": h0} | ({"b": b} if bias else {})
    got = solved(columns, kind="rnn", X=x, **given)
    states, _ = layer(tensor(x)[None], tensor(h0)[None])
    for t in range(times):
        same(got[f"h.{t + 1}"], states[0, t : t + 1])


@few
@given(seed=seeds, columns=st.booleans(), times=sizes, d=sizes, h=sizes, zero=st.booleans())
def test_lstm_is_torchs(seed: int, columns: bool, times: int, d: int, h: int, zero: bool) -> None:
    rng = np.random.default_rng(seed)
    x, h0, c0 = (rng.normal(size=shape) for shape in ((times, d), (1, h), (1, h)))
    w_x, w_h, b = (rng.normal(size=shape) for shape in ((d, 4 * h), (h, 4 * h), (1, 4 * h)))
    layer = torch.nn.LSTM(d, h, batch_first=True)
    _fill_recurrent(layer, w_x, w_h, b)
    given = {"W_x": w_x, "W_h": w_h, "b": b} | ({} if zero else {"h0": h0, "c0": c0})
    h0, c0 = (0 * h0, 0 * c0) if zero else (h0, c0)  # states that are not given start at zero
    got = solved(columns, kind="lstm", X=x, **given)
    states, (_, c) = layer(tensor(x)[None], (tensor(h0)[None], tensor(c0)[None]))
    for t in range(times):
        same(got[f"h.{t + 1}"], states[0, t : t + 1])
    same(got[f"c.{times}"], c[0])


def _fill_recurrent(
    layer: torch.nn.RNNBase, w_x: np.ndarray, w_h: np.ndarray, b: np.ndarray | None
) -> None:
    with torch.no_grad():
        layer.weight_ih_l0.copy_(tensor(w_x.T))
        layer.weight_hh_l0.copy_(tensor(w_h.T))
        if b is not None:
            layer.bias_ih_l0.copy_(tensor(b[0]))
            layer.bias_hh_l0.zero_()


def test_json_is_exact_and_has_no_infinity() -> None:
    solution = Problem(X=[[1, 2], [3, 1]], mask="causal", scale="none", title="t").solve()
    data = json.loads(solution.to_json())
    steps = {step["step"]: step["cells"] for step in data["steps"]}
    assert data["title"] == "t"
    assert steps["masked"] == [[5.0, "-inf"], [5.0, 10.0]]
    assert steps["weights"][1] == solution["weights"][1].tolist()


def test_decimals_have_bounds() -> None:
    with pytest.raises(UserError, match="from 0 to 15"):
        Problem(X=[[1]]).solve(decimals=16)
