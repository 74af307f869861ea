"""Recurrent kinds in every form of their weights give the numbers of torch."""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem, UserError

FEW = settings(max_examples=20, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def _float64_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def assert_close(got: Any, expected: Any) -> None:
    expected = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def solve(columns: bool, fields: dict[str, Any]) -> dict[str, np.ndarray]:
    """Solve in either convention; return every step with vectors as rows."""
    if columns:
        fields = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
        fields["vectors"] = "columns"
    problem = Problem(**fields)
    solution = problem.solve()
    keys = [step.key for step in problem.steps if step.is_claimable]
    return {key: solution[key].T if columns else solution[key] for key in keys}


def fill(layer: torch.nn.RNNBase, suffix: str = "_l0", **weights: np.ndarray) -> None:
    """Copy weights, vectors as rows, into a layer of torch; missing biases are zero."""
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            parameter = getattr(layer, f"{name}{suffix}")
            value = weights.get(name)
            parameter.copy_(torch.zeros(()) if value is None else torch.from_numpy(value.T.copy()))


def run(layer: torch.nn.RNNBase, x: np.ndarray, *states: np.ndarray) -> torch.Tensor:
    initial = tuple(torch.from_numpy(s)[None] for s in states)
    outputs, _ = layer(torch.from_numpy(x)[None], initial if len(initial) > 1 else initial[0])
    return outputs[0]


# -- RNN with outputs ------------------------------------------------------------------------------


@FEW
@given(
    seed=SEEDS,
    columns=st.booleans(),
    last=st.booleans(),
    activation=st.sampled_from(["tanh", "relu"]),
    reduction=st.sampled_from(["mean", "sum"]),
)
def test_rnn_with_outputs_equals_torch(
    seed: int, columns: bool, last: bool, activation: str, reduction: str
) -> None:
    rng, (n, d, h, o) = np.random.default_rng(seed), (3, 2, 2, 4)
    shapes = {"X": (n, d), "h0": (1, h), "W_xh": (d, h), "W_hh": (h, h), "b": (1, h)}
    shapes |= {"W_hy": (h, o), "b_y": (1, o)}
    own = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    times = [n] if last else [1, 2, 3]
    classes = rng.integers(0, o, len(times))
    layer = torch.nn.RNN(d, h, batch_first=True, nonlinearity=activation)
    fill(layer, weight_ih=own["W_xh"], weight_hh=own["W_hh"], bias_ih=own["b"][0])
    states = run(layer, own["X"], own["h0"])[[t - 1 for t in times]]
    logits = states @ torch.from_numpy(own["W_hy"]) + torch.from_numpy(own["b_y"])
    loss = torch.nn.functional.cross_entropy
    options = {"activation": activation, "reduction": reduction}
    options |= {"outputs": "last" if last else "all", "Y": np.eye(o)[classes]}
    got = solve(columns, {"kind": "rnn", **own, **options})
    for k, t in enumerate(times):
        assert_close(got[f"y.{t}"], logits[[k]])
        assert_close(got[f"probabilities.{t}"], logits[[k]].softmax(1))
        assert_close(got[f"loss.{t}"], loss(logits[[k]], torch.tensor(classes[[k]])).reshape(1, 1))
    assert sum(key.startswith("y.") for key in got) == len(times)
    total = loss(logits, torch.tensor(classes), reduction=reduction)
    assert_close(got["loss.3" if last else "loss"], total.reshape(1, 1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"b_y": 1}, "b_y is given, but not W_hy"),
        ({"W_hy": [[1, 2]], "Y": [[1, 0]]}, "Y has 1 rows, but there are 2 outputs"),
        ({"W_hy": [[1, 2], [3, 4]]}, "W_hy has 2 rows, but W_xh has 1 columns"),
        ({"W_hy": [[1, 2]], "targets": [1, 1], "Y": [[1, 0], [0, 1]]}, "give one of them"),
        ({"activation": "exp"}, "activation = 'exp': "),
        ({"outputs": "some"}, "outputs = 'some': "),
    ],
)
def test_bad_outputs_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(kind="rnn", X=[[1], [2]], W_xh=1, W_hh=1, **fields)
    assert message in str(error.value)


# -- LSTM ------------------------------------------------------------------------------------------


def draw_lstm(seed: int, n: int = 3, d: int = 2, h: int = 3) -> tuple[dict[str, Any], torch.Tensor]:
    """Return the weights of each gate, and the states that torch computes from them."""
    rng = np.random.default_rng(seed)
    own: dict[str, Any] = {"X": rng.normal(size=(n, d))}
    own |= {"h0": rng.normal(size=(1, h)), "c0": rng.normal(size=(1, h))}
    for gate in "ifgo":
        own |= {f"W_{gate}": rng.normal(size=(d, h)), f"U_{gate}": rng.normal(size=(h, h))}
        own[f"b_{gate}"] = rng.normal(size=(1, h))
    layer = torch.nn.LSTM(d, h, batch_first=True)
    stacked = {m: np.hstack([own[f"{m}_{gate}"] for gate in "ifgo"]) for m in "WUb"}
    fill(layer, weight_ih=stacked["W"], weight_hh=stacked["U"], bias_ih=stacked["b"][0])
    return own, run(layer, own["X"], own["h0"], own["c0"])


def list_lstm_forms(own: dict[str, Any], order: str) -> Iterator[dict[str, Any]]:
    """Yield the same LSTM with its weights in every form."""
    yield own
    yield {name.replace("_g", "_c"): matrix for name, matrix in own.items()}
    plain = {name: own[name] for name in ("X", "h0", "c0")}
    stacked = {m: np.hstack([own[f"{m}_{gate}"] for gate in order]) for m in "WUb"}
    yield {**plain, "W_x": stacked["W"], "W_h": stacked["U"], "b": stacked["b"], "gates": order}
    biases = {name: matrix for name, matrix in own.items() if name.startswith("b_")}
    for concat in ("h,x", "x,h"):
        names = "UW" if concat == "h,x" else "WU"
        joint = {g: np.vstack([own[f"{name}_{g}"] for name in names]) for g in "ifgo"}
        yield {**plain, **biases, **{f"W_{g}": m for g, m in joint.items()}, "concat": concat}
        whole = np.hstack([joint[gate] for gate in order])
        yield {**plain, "W": whole, "b": stacked["b"], "gates": order, "concat": concat}


@FEW
@given(
    seed=SEEDS,
    columns=st.booleans(),
    order=st.sampled_from(["".join(p) for p in permutations("ifgo")]),
    full=st.booleans(),
)
def test_lstm_in_every_form_equals_torch(seed: int, columns: bool, order: str, full: bool) -> None:
    own, expected = draw_lstm(seed)
    for form in list_lstm_forms(own, order):
        got = solve(columns, {"kind": "lstm", **form, "preactivations": full})
        for t in range(3):
            assert_close(got[f"h.{t + 1}"], expected[t : t + 1])
        assert ("sum_i.1" in got) == full
        if full:
            assert_close(got["i.2"], 1 / (1 + np.exp(-got["sum_i.2"])))
            assert_close(got["h.2"], got["o.2"] * got["tanh_c.2"])


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_lstm_with_outputs_equals_torch(columns: bool, last: bool) -> None:
    own, states = draw_lstm(7)
    rng, times = np.random.default_rng(8), [3] if last else [1, 2, 3]
    own |= {"W_hy": rng.normal(size=(3, 4)), "b_y": rng.normal(size=(1, 4))}
    classes = [2, 0, 3][: len(times)]
    own |= {"outputs": "many-to-one" if last else "all", "targets": np.array(classes) + 1}
    got = solve(columns, {"kind": "lstm", **own})
    logits = states[[t - 1 for t in times]] @ torch.from_numpy(own["W_hy"])
    logits = logits + torch.from_numpy(own["b_y"])
    for k, t in enumerate(times):
        assert_close(got[f"y.{t}"], logits[[k]])
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(classes))
    assert_close(got["loss.3" if last else "loss"], loss.reshape(1, 1))


def test_single_cell_needs_no_brackets() -> None:
    """The weights of a network with one unit are numbers."""
    text = """kind = "lstm"
[given]
X = [1.0, 2.0]
W_i = 0.5
U_i = 0.1
b_i = 0
W_f = 0.3
U_f = 0.2
b_f = 1
W_o = 0.6
U_o = 0.3
b_o = -0.1
W_c = 1
U_c = -0.4
b_c = 0
[claim.t.1]
sum_i = 0.500
i = 0.622
f = 0.786
o = 0.622
g = 0.762
c = 0.474
h = 0.274
[claim.t.2]
h = 0.613
"""
    report = Problem.from_toml(text).check()
    assert report.verdict == "right", report.summarize()
    wrong = Problem.from_toml(text.replace("f = 0.786", "f = 0.886")).check().first
    assert wrong is not None
    assert wrong.key == "f.1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W_x": np.eye(2)}, "given has both W_x and W_i: give the gates side by side or one by"),
        ({"W_f": None}, "given.W_f is missing: kind lstm needs it"),
        ({"U_o": None}, "given.U_o is missing: kind lstm needs it"),
        ({"W_i": np.eye(3)}, "W_f has 2 rows, but W_i has 3 rows: it must be 3"),
        (
            {"U_i": None, "U_f": None, "U_g": None, "U_o": None},
            "W_i has 2 rows, but X has 2 columns and the state has 3: it must be 5",
        ),
        ({"U_g": np.eye(2)}, "U_g has 2 rows, but W_i has 3 columns: it must be 3"),
        ({"gates": "ifg"}, "gates = 'ifg': it must be an order of the gates, as ifgo"),
        ({"concat": "xx"}, "concat = 'xx': "),
    ],
)
def test_bad_lstm_is_refused(change: dict[str, Any], message: str) -> None:
    own, _ = draw_lstm(0)
    fields = {k: v for k, v in {**own, **change}.items() if v is not None}
    with pytest.raises(UserError) as error:
        Problem(kind="lstm", **fields)
    assert message in str(error.value)


def test_order_of_gates_need_not_be_declared() -> None:
    own, _ = draw_lstm(1)
    *_, form = list(list_lstm_forms(own, "ifog"))[:3]
    right = Problem(kind="lstm", **form).solve()
    claim = {"t": {str(t): {g: right[g, t].round(3).tolist() for g in "ifgoch"} for t in (1, 2)}}
    undeclared = {name: value for name, value in form.items() if name != "gates"}
    report = Problem(kind="lstm", **undeclared, claim=claim).check()
    assert report.verdict == "right"
    assert 'gates = "ifog"' in report.assumption


# -- GRU -------------------------------------------------------------------------------------------


def draw_gru(seed: int, n: int = 3, d: int = 2, h: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    own: dict[str, Any] = {"X": rng.normal(size=(n, d)), "h0": rng.normal(size=(1, h))}
    for gate in "zrn":
        own |= {f"W_{gate}": rng.normal(size=(d, h)), f"U_{gate}": rng.normal(size=(h, h))}
        own[f"b_{gate}"] = rng.normal(size=(1, h))
    return own


@FEW
@given(seed=SEEDS, columns=st.booleans(), n=st.integers(1, 3), d=st.integers(1, 3))
def test_gru_equals_torch(seed: int, columns: bool, n: int, d: int) -> None:
    own = draw_gru(seed, n, d)
    own["b_hn"] = np.random.default_rng(seed + 1).normal(size=(1, 3))
    layer = torch.nn.GRU(d, 3, batch_first=True)
    stacked = {m: np.hstack([own[f"{m}_{gate}"] for gate in "rzn"]) for m in "WUb"}
    inner = np.hstack([np.zeros((1, 6)), own["b_hn"]])[0]
    weights = {"weight_ih": stacked["W"], "weight_hh": stacked["U"], "bias_ih": stacked["b"][0]}
    fill(layer, **weights, bias_hh=inner)
    expected = run(layer, own["X"], own["h0"])
    convention = {"kind": "gru", "reset": "after", "update": "state"}
    plain = {name: own[name] for name in ("X", "h0", "b_hn")}
    side_by_side = {"W_x": stacked["W"], "W_h": stacked["U"], "b": stacked["b"], "gates": "rzn"}
    for form in (own, {**plain, **side_by_side}):
        got = solve(columns, {**convention, **form})
        for t in range(n):
            assert_close(got[f"h.{t + 1}"], expected[t : t + 1])


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("update", ["candidate", "state"])
@pytest.mark.parametrize("joint", [False, True])
def test_gru_that_resets_before_the_product(columns: bool, update: str, joint: bool) -> None:
    own = draw_gru(4)
    form = dict(own)
    if joint:
        form = {k: v for k, v in own.items() if not k.startswith("U_")}
        form |= {f"W_{g}": np.vstack([own[f"U_{g}"], own[f"W_{g}"]]) for g in "zrn"}
    got = solve(columns, {"kind": "gru", **form, "update": update, "preactivations": True})
    h = own["h0"]
    for t, x in enumerate(own["X"], start=1):
        z, r = (
            1 / (1 + np.exp(-(x @ own[f"W_{g}"] + h @ own[f"U_{g}"] + own[f"b_{g}"]))) for g in "zr"
        )
        n = np.tanh(x @ own["W_n"] + (r * h) @ own["U_n"] + own["b_n"])
        assert_close(got[f"reset.{t}"], r * h)
        h = (1 - z) * h + z * n if update == "candidate" else (1 - z) * n + z * h
        assert_close(got[f"h.{t}"], h)


def test_conventions_of_a_gru_need_not_be_declared() -> None:
    own = draw_gru(5)
    for name, value in (("update", "state"), ("reset", "after")):
        right = Problem(kind="gru", **own, **{name: value}).solve()
        claim = {"t": {str(t): {g: right[g, t].round(3).tolist() for g in "zrnh"} for t in (1, 2)}}
        report = Problem(kind="gru", **own, claim=claim).check()
        assert report.verdict == "right"
        assert f'{name} = "{value}"' in report.assumption


def test_gru_of_one_unit_as_it_is_printed() -> None:
    numbers = {"W_z": 0.4, "U_z": 0.6, "W_r": 0.7, "U_r": -0.5, "W_n": 0.8, "U_n": 1}
    claim = {"t": {"1": {"z": "0.673", "r": "0.721", "n": "0.873", "h": "0.652"}}}
    problem = Problem(kind="gru", X=1.5, h0=0.2, **numbers, claim=claim)
    assert problem.check().verdict == "right"
    assert problem.solve().cell("h.1", 1, 1) == ("h.1[1,1] = (1 − 0.673)·0.2 + 0.673·0.873 = 0.652")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"b_hn": np.ones((1, 3))}, 'declare reset = "after"'),
        ({"update": "new"}, "update = 'new': "),
        ({"W_z": np.ones((2, 2))}, "W_z has 2 columns"),
    ],
)
def test_bad_gru_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(kind="gru", **{**draw_gru(0), **fields})
    assert message in str(error.value)


# -- both directions -------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_bidirectional_networks_equal_torch(cell: str, columns: bool) -> None:
    rng, (n, d, h, o) = np.random.default_rng(8), (3, 2, 2, 3)
    names = {"rnn": ("W_xh", "W_hh"), "lstm": ("W_x", "W_h"), "gru": ("W_x", "W_h")}[cell]
    width = {"rnn": h, "lstm": 4 * h, "gru": 3 * h}[cell]
    layer = getattr(torch.nn, cell.upper())(d, h, batch_first=True, bidirectional=True)
    given: dict[str, Any] = {"X": rng.normal(size=(n, d)), "W_hy": rng.normal(size=(2 * h, o))}
    for direction, suffix in (("forward", "_l0"), ("backward", "_l0_reverse")):
        own = {names[0]: rng.normal(size=(d, width)), names[1]: rng.normal(size=(h, width))}
        own["b"] = rng.normal(size=(1, width))
        weights = {"weight_ih": own[names[0]], "weight_hh": own[names[1]], "bias_ih": own["b"][0]}
        fill(layer, suffix, **weights)
        given[direction] = own
    states = layer(torch.from_numpy(given["X"])[None])[0][0]
    settings = {"gru": {"gates": "rzn", "update": "state", "reset": "after"}}.get(cell, {})
    if columns:
        given = {
            name: {k: v.T for k, v in value.items()} if isinstance(value, dict) else value.T
            for name, value in given.items()
        }
        settings["vectors"] = "columns"
    solution = Problem(kind=f"bidirectional_{cell}", given=given, **settings).solve()
    for t in range(n):
        got = solution["h", t + 1]
        assert_close(got.T if columns else got, states[t : t + 1])
    output = states.detach().numpy()[[1]] @ (given["W_hy"].T if columns else given["W_hy"])
    assert_close(solution["y", 2].ravel(), output.ravel())


def test_bad_bidirectional_network_is_refused() -> None:
    with pytest.raises(UserError, match=r"given\.backward\.W_xh is missing"):
        Problem(kind="bidirectional_rnn", given={"X": 1, "forward": {"W_xh": 1, "W_hh": 1}})
    directions = {name: {"W_xh": 1, "W_hh": 1} for name in ("forward", "backward")}
    with pytest.raises(UserError, match="W_hy has 3 rows: it must be a multiple of 2"):
        Problem(kind="bidirectional_rnn", given={"X": 1, **directions, "W_hy": [[1], [1], [1]]})


# -- encoder and decoder ---------------------------------------------------------------------------


def draw_encoder_decoder(seed: int, attention: bool, initial: bool) -> dict[str, Any]:
    rng, (n, m, d, e, h, o) = np.random.default_rng(seed), (3, 2, 2, 3, 2, 4)
    s = 3 if initial else h
    shapes: dict[str, dict[str, tuple[int, int]]] = {
        "encoder": {"W_xh": (d, h), "W_hh": (h, h), "b": (1, h)},
        "decoder": {"Y": (m, e), "W_ys": (e, s), "W_ss": (s, s), "W_cs": (h, s), "b": (1, s)},
    }
    if initial:
        shapes["decoder"] |= {"W_init": (h, s), "b_init": (1, s)}
    if attention:
        shapes["attention"] = {"W_s": (s, 4), "W_h": (h, 4), "v": (1, 4)}
    given: dict[str, Any] = {
        part: {name: rng.normal(size=shape) for name, shape in own.items()}
        for part, own in shapes.items()
    }
    given |= {"X": rng.normal(size=(n, d)), "W_hy": rng.normal(size=(s, o))}
    return given | {"b_y": rng.normal(size=(1, o)), "Y": np.eye(o)[[2, 0]]}


def run_encoder_decoder(given: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the decoder's logits and the mean loss, computed with torch."""
    own = {
        part: {name: torch.from_numpy(m) for name, m in given.get(part, {}).items()}
        for part in ("encoder", "decoder", "attention")
    }
    encoder, decoder, attention = own.values()
    states, h = [], torch.zeros(1, 2)
    for x in torch.from_numpy(given["X"]):
        h = torch.tanh(x @ encoder["W_xh"] + h @ encoder["W_hh"] + encoder["b"])
        states.append(h)
    memory = torch.cat(states)
    s = torch.tanh(h @ decoder["W_init"] + decoder["b_init"]) if "W_init" in decoder else h
    logits = []
    for y in decoder["Y"]:
        c = h
        if attention:
            hidden = torch.tanh(s @ attention["W_s"] + memory @ attention["W_h"])
            c = (hidden @ attention["v"].T).softmax(0).T @ memory
        total = y @ decoder["W_ys"] + s @ decoder["W_ss"] + c @ decoder["W_cs"] + decoder["b"]
        s = torch.tanh(total)
        logits.append(s @ torch.from_numpy(given["W_hy"]) + torch.from_numpy(given["b_y"]))
    outputs = torch.cat(logits)
    return outputs, torch.nn.functional.cross_entropy(outputs, torch.from_numpy(given["Y"]))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("initial", [False, True])
def test_encoder_decoder_equals_torch(columns: bool, attention: bool, initial: bool) -> None:
    given = draw_encoder_decoder(3, attention, initial)
    logits, loss = run_encoder_decoder(given)
    if columns:
        given = {
            name: {k: v.T for k, v in value.items()} if isinstance(value, dict) else value.T
            for name, value in given.items()
        }
    vectors = "columns" if columns else "rows"
    solution = Problem(kind="encoder_decoder", given=given, vectors=vectors).solve()
    for t in (1, 2):
        assert_close(solution[f"decoder.y.{t}"].ravel(), logits[t - 1])
    assert_close(solution["decoder.loss"], loss.reshape(1, 1))
    assert ("decoder.weights.2" in solution.keys()) == attention  # noqa: SIM118


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": {"W_s": np.eye(2)}}, "given.attention.v is missing"),
        ({"attention": {"v": np.ones((1, 3))}}, "without attention.W_s it must be 2"),
        ({"decoder": {"Y": np.eye(2)}}, "given.decoder.W_ys is missing"),
        ({"encoder": {"W_xh": np.eye(3)}}, "given.encoder.W_hh is missing"),
    ],
)
def test_bad_encoder_decoder_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(kind="encoder_decoder", given={**draw_encoder_decoder(0, False, False), **change})
    assert message in str(error.value)
