"""Names of other books, and other ways to write the givens of a kind."""

from typing import Any

import numpy as np
import pytest

from workings import Problem
from workings.errors import UserError
from workings.problems.letters import GIVENS, STEPS

RNN = {"X": [[1.0], [0.5]], "W_xh": [[0.5]], "W_hh": [[0.8]], "b": [0.1], "W_hy": [[2.0]]}
GATES = {"i": 0.5, "f": 1.0, "g": 1.5, "o": -0.5}
LSTM = {"x": [[1.0, 0.5]], "h0": [[0.5]], "c0": [[-1.0]], "dh": [[1.0]]}
W_X = np.array([[0.5, 1.0, 1.0, 0.0], [0.2, -0.4, 0.6, 0.3]])
W_H, BIAS = np.array([[0.1, 0.2, 1.0, 2.0]]), np.array([[0.0, 0.1, 0.0, -1.0]])
STACKED = Problem(kind="lstm_gradient", **LSTM, W_x=W_X, W_h=W_H, b=BIAS)


@pytest.mark.parametrize(
    "names",
    [
        {"X": "x", "W_xh": "W_x", "W_hh": "W_h", "b": "b_h", "W_hy": "W_y"},
        {"X": "x", "W_xh": "U", "W_hh": "W", "W_hy": "V"},
    ],
)
def test_other_letters_of_an_rnn(names: dict[str, str]) -> None:
    other = {names.get(name, name): value for name, value in RNN.items()}
    expected = Problem(kind="rnn", **RNN).solve()["y.2"]
    np.testing.assert_array_equal(Problem(kind="rnn", **other).solve()["y.2"], expected)
    np.testing.assert_array_equal(Problem(kind="rnn", given=other).solve()["y.2"], expected)


def test_a_letter_beside_the_usual_name_is_refused() -> None:
    with pytest.raises(UserError, match=r"given\.b_h: no such given"):
        Problem(kind="rnn", given={**RNN, "b_h": [0.2]})


def test_candidate_of_a_gru_may_be_h() -> None:
    usual = {f"{m}_{gate}": [[0.5]] for m in "WU" for gate in "zrn"}
    other = {name.replace("_n", "_h"): value for name, value in usual.items()}
    claim = {"t": {"1": {"h_tilde": [[0.3]]}}}
    problem = Problem(kind="gru", given={"X": [[1.0]], **other}, claim=claim)
    expected = Problem(kind="gru", X=[[1.0]], **usual).solve()
    np.testing.assert_array_equal(problem.solve()["h.1"], expected["h.1"])
    assert problem.check().first.key == "n.1"  # type: ignore[union-attr]


def test_every_letter_stands_for_a_name_of_its_kind() -> None:
    from workings.problems.kinds import KINDS

    for kind, letters in GIVENS.items():
        kind = kind.partition(".")[0]
        known = {*KINDS[kind].matrices, *KINDS[kind].setting_names}
        inner = {name.rpartition(".")[2] for name in known}
        alternative = {"W_c", "U_c", "b_c"}  # of lstm_gradient, in another form
        assert set(letters.values()) <= known | inner | alternative, kind
    assert STEPS.keys() <= KINDS.keys()


def test_jacobian_of_given_probabilities() -> None:
    p = np.array([0.7, 0.2, 0.1])
    solution = Problem(kind="softmax_jacobian", p=p.tolist()).solve()
    np.testing.assert_allclose(solution["jacobian"], np.diag(p) - np.outer(p, p), atol=1e-15)


def make_gates_one_by_one(order: str) -> dict[str, Any]:
    k = {gate: "ifgo".index(gate) for gate in order}
    given = {f"W_{gate}": W_X[:, [k[gate]]].tolist() for gate in order}
    given |= {f"U_{gate}": W_H[:, [k[gate]]].tolist() for gate in order}
    return {**given, **{f"b_{gate}": BIAS[:, [k[gate]]].tolist() for gate in order}}


JOINT = np.vstack([W_H, W_X])


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (make_gates_one_by_one("ifgo"), {}),
        ({"W": JOINT.tolist(), "b": BIAS.tolist()}, {}),
        ({"W": np.vstack([W_X, W_H]).tolist(), "b": BIAS.tolist()}, {"concat": "x,h"}),
        ({"W": JOINT.T.tolist(), "b": BIAS.T.tolist()}, {"vectors": "columns"}),
    ],
)
def test_gates_in_every_form(given: dict[str, Any], settings: dict[str, Any]) -> None:
    columns = settings.get("vectors") == "columns"
    own = {name: np.transpose(value).tolist() if columns else value for name, value in LSTM.items()}
    problem = Problem(kind="lstm_gradient", given={**own, **given}, **settings)
    solved, expected = problem.solve(), STACKED.solve()
    for key in ("dsum", "dW_x", "dW_h", "dx", "dh0"):
        value = solved[key].T if columns else solved[key]
        np.testing.assert_allclose(value, expected[key], atol=1e-15, err_msg=key)


def test_gates_side_by_side_in_another_order() -> None:
    order = [1, 0, 3, 2]
    weights = {"W_x": W_X[:, order], "W_h": W_H[:, order], "b": BIAS[:, order]}
    solved = Problem(kind="lstm_gradient", gates="fiog", **LSTM, **weights).solve()
    expected = STACKED.solve()
    np.testing.assert_allclose(solved["dW_x"], expected["dW_x"][:, order], atol=1e-15)
    np.testing.assert_allclose(solved["dx"], expected["dx"], atol=1e-15)


def test_gradient_of_one_gate_can_be_claimed() -> None:
    given, right = make_gates_one_by_one("ifgo"), STACKED.solve()["dW_h"]
    claim = {"dU_f": [[f"{right[0, 1]:.4f}"]], "db_o": [["0.5"]]}
    report = Problem(kind="lstm_gradient", given={**LSTM, **given}, claim=claim).check()
    assert report.first is not None
    assert (report.first.key, report.counts["right"]) == ("db_o", 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"W_i": [[1], [1]]}, r"W_f is missing"),
        ({**make_gates_one_by_one("ifgo"), "W_x": W_X.tolist()}, r"both W_x and W_i"),
        ({"W": [[1, 1, 1, 1]]}, r"some for x and some for h"),
        ({**make_gates_one_by_one("ifgo"), "W_f": [[1]]}, r"W_f must have the shape of W_i"),
        ({**make_gates_one_by_one("ifgo"), "W_f": "?"}, r"W_f"),
    ],
)
def test_bad_forms_of_gates_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Problem(kind="lstm_gradient", given={**LSTM, **given})


@pytest.mark.parametrize("ids", ["the sat", ["the", "sat"], [1, "sat"], [1, 3]])
def test_ids_may_be_words(ids: Any) -> None:
    given = {"vocabulary": ["the", "cat", "sat"], "ids": ids, "E": [[1, 0], [0, 1], [2, 2]]}
    embedded = Problem(kind="embedding", given=given).solve()["embedded"]
    np.testing.assert_array_equal(embedded, [[1, 0], [2, 2]])


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(UserError, match=r"given\.ids: 'dog' is not a token"):
        Problem(kind="embedding", vocabulary=["the"], ids=["dog"], E=[[1, 0]])


EYE, TOKENS = [[1, 0], [0, 1]], [[1, 0], [0, 1], [1, 1]]
SPELLINGS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {"kind": "attention", "mask": "causal", "X": TOKENS, "W_Q": EYE, "W_K": EYE, "W_V": EYE},
        [
            {"kind": "Masked self-attention", "x": TOKENS, "Wq": EYE, "W^K": EYE, "W_{V}": EYE},
            {"mask": "look-ahead", "x1": [1, 0], "x_2": [0, 1], "x₃": [1, 1], "W_query": EYE},
            {"mask": [[0, "-inf", "-inf"], [0, 0, "-∞"], [0, 0, 0]], "X": TOKENS},
            {"vectors": "column", "mask": "Causal", "x1": [1, 0], "x2": [0, 1], "x3": [1, 1]},
        ],
    ),
    (
        {"X": TOKENS, "heads": 2, "scale": "none"},
        [
            {"X": TOKENS, "num_heads": 2, "scale": False},
            {"X": TOKENS, "n_heads": 2, "scale": "none"},
        ],
    ),
    (
        {"Q": [[1, 0]], "K": EYE, "V": [[1], [2]], "scale": "sqrt(d_k)"},
        [
            {"q": [1, 0], "k1": [1, 0], "k2": [0, 1], "v1": 1, "v2": 2, "scale": "√d_k"},
            {"query": [1, 0], "keys": EYE, "values": [[1], [2]], "scale": "√2"},
        ],
    ),
    (
        {"kind": "layer_norm", "X": [[1, 2, 4]], "gamma": [2, 2, 2], "beta": [1, 1, 1], "eps": 0.1},
        [
            {"kind": "LayerNorm", "x": [1, 2, 4], "γ": 2, "β": 1, "ε": 0.1},
            {"kind": "layer normalization", "X": [1, 2, 4], "weight": 2, "bias": 1, "epsilon": 0.1},
        ],
    ),
    (
        {"kind": "rnn", "X": [[1], [2]], "W_xh": 0.5, "W_hh": 0.1, "b": 0.2, "activation": "relu"},
        [
            {
                "kind": "RNN",
                "x": [1, 2],
                "Wxh": 0.5,
                "Whh": 0.1,
                "b_h": 0.2,
                "nonlinearity": "ReLU",
            },
            {"kind": "vanilla RNN", "x_1": 1, "x_2": 2, "U": 0.5, "W": 0.1, "bias": 0.2, "h_0": 0}
            | {"activation": "relu"},
        ],
    ),
    (
        {"kind": "lstm", "X": [[1]], "W_i": 1, "U_i": 2, "W_f": 3, "U_f": 4, "W_g": 5, "U_g": 6}
        | {"W_o": 7, "U_o": 8, "b_i": 1, "c0": 0.5},
        [
            {"kind": "LSTM", "x": 1, "W_xi": 1, "W_hi": 2, "W_xf": 3, "W_hf": 4, "W_xc": 5}
            | {"W_hc": 6, "W_xo": 7, "W_ho": 8, "b_i": 1, "c_prev": 0.5},
            {"kind": "lstm", "x": 1, "W_ix": 1, "W_ih": 2, "W_fx": 3, "W_fh": 4, "W_cx": 5}
            | {"W_ch": 6, "W_ox": 7, "W_oh": 8, "b_i": 1, "c_{t-1}": 0.5},
            {"kind": "lstm", "x_t": 1, "W": [[7, 1, 5, 3]], "U": [[8, 2, 6, 4]], "c_0": 0.5}
            | {"b": [0, 1, 0, 0], "gates": "output, input, cell, forget"},
        ],
    ),
    (
        {"kind": "gru", "X": [[1, 2]], "h0": [0, 0], "W_z": EYE, "U_z": EYE, "W_r": EYE}
        | {"U_r": EYE, "W_n": EYE, "U_n": EYE, "b_z": [1, 1]},
        [
            {"kind": "GRU", "x": [1, 2], "h0": 0, "W_xz": EYE, "W_hz": EYE, "W_xr": EYE}
            | {"W_hr": EYE, "W_xh": EYE, "W_hh": EYE, "b_z": 1},
            {"kind": "gru", "x": [1, 2], "W_u": EYE, "U_u": EYE, "W_r": EYE, "U_r": EYE}
            | {"W": EYE, "U": EYE, "b_u": [1, 1]},
        ],
    ),
    (
        {"kind": "cross_entropy", "logits": [[1, 2, 3]], "targets": [3], "reduction": "mean"},
        [
            {"kind": "cross-entropy loss", "z": [1, 2, 3], "y": 3, "reduction": "average"},
            {"kind": "Cross Entropy", "scores": [1, 2, 3], "label": [3]},
        ],
    ),
    (
        {
            "kind": "bidirectional_rnn",
            "given": {"X": [[1], [2]]}
            | {part: {"W_xh": 1, "W_hh": 0.5} for part in ("forward", "backward")},
        },
        [
            {
                "kind": "BiRNN",
                "given": {"x": [1, 2]} | {p: {"U": 1, "W": 0.5} for p in ("fwd", "bwd")},
            }
        ],
    ),
    (
        {"kind": "cross_entropy", "logits": [[1, 2, 3]], "Y": [[0, 0, 1]]},
        [{"kind": "cross_entropy", "logits": [1, 2, 3], "targets": [0, 0, 1]}],
    ),
    (
        {"kind": "optimizer_step", "W": [1, 2], "dW": [0.5, 1], "learning_rate": 0.1}
        | {"optimizer": "adam", "beta_1": 0.8, "t": 2, "m0": [0, 0], "v0": [0, 0]},
        [
            {"kind": "Adam", "θ": [1, 2], "g": [0.5, 1], "η": 0.1, "β1": 0.8, "step": 2}
            | {"m": [0, 0], "v": [0, 0]},
        ],
    ),
    (
        {"kind": "beam_search", "P": [[0.5, 0.5], [0.2, 0.8]], "start": [0.6, 0.4]}
        | {"beams": 2, "length": 2, "tokens": ["a", "b"]},
        [
            {"kind": "Beam search", "transitions": [[0.5, 0.5], [0.2, 0.8]], "pi": [0.6, 0.4]}
            | {"beam_width": 2, "max_length": 2, "vocabulary": ["a", "b"]},
        ],
    ),
    (
        {
            "kind": "conv1d",
            "X": [1, 2, 3],
            "W": [[[1], [-1]], [[1], [1]]],
            "pooling": "global mean",
        },
        [
            {"kind": "CNN", "x": [1, 2, 3], "kernel": [[1, -1], [1, 1]]}
            | {"pooling": "global average pooling"},
        ],
    ),
    (
        {"kind": "layers", "length": 9, "width": 4}
        | {"layers": ["conv1d out=3 kernel=2", "batch_norm", "pool kernel=2", "linear out=2"]},
        [
            {"kind": "layers", "n": 9, "channels": 4}
            | {
                "layers": [
                    *("Conv1D(filters=3, kernel_size=2)", "BatchNorm"),
                    *("max_pool kernel=2", "Dense units=2"),
                ]
            },
        ],
    ),
    (
        {"kind": "softmax", "logits": [1, 2], "temperature": 2, "vocabulary": ["a", "b"]},
        [{"kind": "softmax with temperature", "z": [1, 2], "T": 2, "tokens": ["a", "b"]}],
    ),
    (
        {"kind": "linear_gradient", "X": [[1, 2]], "W": EYE, "b": [0, 0], "dY": [[1, 1]]},
        [{"kind": "linear backward", "x": [1, 2], "w": EYE, "b": 0, "∂L/∂y": [1, 1]}],
    ),
]


@pytest.mark.parametrize(("usual", "others"), SPELLINGS, ids=lambda value: str(value)[:30])
def test_other_spellings_are_the_same_problem(
    usual: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    expected = Problem(**usual).solve()
    for other in others:
        solution = Problem(**other).solve()
        assert solution.keys() == expected.keys()
        for key in expected.keys():  # noqa: SIM118
            got = solution[key].T if other.get("vectors") == "column" else solution[key]
            np.testing.assert_array_equal(got, expected[key], err_msg=str(other))


@pytest.mark.parametrize(
    ("kind", "given", "claim", "keys"),
    [
        ("attention", {"X": EYE}, {"Attention_Weights": EYE, "SCORES": EYE}, ["weights", "scores"]),
        ("rnn", {"x": [1, 2], "W_x": 0.5, "W_h": 0.1}, {"h_1": 0.5, "h2": 1}, ["h.1", "h.2"]),
        (
            "lstm",
            {"x": 1, "W_x": [1] * 4, "W_h": [1] * 4},
            {"I_1": 0.5, "tanh_c1": 0.3},
            ["i.1", "tanh_c.1"],
        ),
        ("layer_norm", {"x": [1, 2]}, {"μ": 1.5, "σ²": 0.25}, ["mean", "variance"]),
    ],
)
def test_other_spellings_of_steps(
    kind: str, given: dict[str, Any], claim: dict[str, Any], keys: list[str]
) -> None:
    assert [claim.key for claim in Problem(kind=kind, given=given, claim=claim).claims] == keys


def test_recurrence_without_activation_is_linear() -> None:
    given = {"x": [1, 2, -1], "W_x": 0.5, "W_h": -0.5, "dh": 1}
    for kind, key, value in [("rnn", "h.3", -0.875), ("rnn_jacobian", "product.3", -0.125)]:
        own = {name: matrix for name, matrix in given.items() if name != "dh"}
        assert Problem(kind=kind, activation="linear", **own).solve()[key] == value
    solution = Problem(kind="rnn_gradient", activation="none", **given).solve()
    assert solution["dW_xh"] == -1 - 1 + 0.25
