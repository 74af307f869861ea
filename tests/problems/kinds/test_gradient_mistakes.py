"""Mistakes in losses and gradients, computed in plain numpy, are named; bad input is refused."""

from typing import Any

import numpy as np
import pytest

from workings import Problem
from workings.errors import UserError

X = np.array([[1.0, 0.5], [-0.5, 2.0]])
W = np.array([[0.6, -0.4], [0.3, 0.8]])
UPSTREAM = np.array([[1.0, -0.5], [0.4, 2.0]])
LOGITS = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 1.2]])
Y = np.eye(3)[[1, 0]]
P = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
Z = X @ W
H = np.tanh(Z)
H_0 = np.array([[0.2, -0.3]])
H_1 = np.tanh(X[[0]] @ W + H_0 @ W.T)
H_2 = np.tanh(X[[1]] @ W + H_1 @ W.T)
DSUM_2 = UPSTREAM[[1]] * (1 - H_2**2)
DSUM_1 = (UPSTREAM[[0]] + DSUM_2 @ W) * (1 - H_1**2)

LOSS = {"kind": "cross_entropy", "logits": LOGITS, "targets": [2, 1]}
LINEAR = {"kind": "linear_gradient", "X": X, "W": W, "b": [0, 0], "dY": UPSTREAM}
TANH = {**LINEAR, "activation": "tanh"}
RNN: dict[str, Any] = {"kind": "rnn_gradient", "X": X, "W_xh": W, "W_hh": W.T}
RNN |= {"h0": H_0, "dH": UPSTREAM, "b": [0, 0]}
NORM = {"kind": "layer_norm_gradient", "X": LOGITS, "dY": LOGITS[::-1], "eps": 0.1}
NORMALIZED = (LOGITS - LOGITS.mean(1, keepdims=True)) / np.sqrt(LOGITS.var(1, keepdims=True) + 0.1)
DEVIATION = np.sqrt(LOGITS.var(1, keepdims=True) + 0.1)
CENTERED = LOGITS[::-1] - LOGITS[::-1].mean(1, keepdims=True)
SGD = {"kind": "optimizer_step", "W": W, "dW": UPSTREAM, "learning_rate": 0.1}
ADAM = {**SGD, "optimizer": "adam", "beta_1": 0.8, "beta_2": 0.9, "eps": 0, "t": 1}

MISTAKES: list[tuple[str, dict[str, Any], str, np.ndarray]] = [
    ("p-minus-y-reversed", LOSS, "dlogits", (Y - P) / 2),
    ("one-over-n-forgotten", LOSS, "dlogits", P - Y),
    ("one-over-n-forgotten", LOSS, "loss", -np.log(P[Y > 0]).sum()[None, None]),
    ("loss-not-negated", LOSS, "losses", np.log((P * Y).sum(1, keepdims=True))),
    ("wrong-logarithm", LOSS, "losses", -np.log2((P * Y).sum(1, keepdims=True))),
    ("class-index-off-by-one", LOSS, "losses", -np.log(P[[0, 1], [2, 1]])[:, None]),
    ("target-not-subtracted", LOSS, "dlogits", P / 2),
    ("jacobian-transposed", LINEAR, "dX", UPSTREAM @ W),
    ("gradient-transposed", LINEAR, "dW", UPSTREAM.T @ X),
    ("summed-over-wrong-axis", LINEAR, "db", UPSTREAM.sum(1)[None]),
    ("mean-for-sum", LINEAR, "db", UPSTREAM.mean(0)[None]),
    ("slope-forgotten", TANH, "dX", UPSTREAM @ W.T),
    ("slope-forgotten", TANH, "dZ", UPSTREAM),
    ("activation-for-slope", TANH, "dZ", UPSTREAM * H),
    ("slope-at-wrong-value", TANH, "dZ", UPSTREAM * (1 - Z**2)),
    ("wrong-slope", TANH, "dZ", UPSTREAM * H * (1 - H)),
    ("square-forgotten", TANH, "dZ", UPSTREAM * (1 - H)),
    ("not-accumulated-over-time", RNN, "dW_hh", H_1.T @ DSUM_2),
    ("not-accumulated-over-time", RNN, "db", DSUM_2),
    ("state-of-same-time", RNN, "dW_hh", H_1.T @ DSUM_1 + H_2.T @ DSUM_2),
    ("mean-for-sum", RNN, "db", (DSUM_1 + DSUM_2) / 2),
    ("mean-held-constant", NORM, "dX", (
        LOGITS[::-1] - NORMALIZED * (LOGITS[::-1] * NORMALIZED).mean(1, keepdims=True)
    ) / DEVIATION),
    ("variance-held-constant", NORM, "dX", CENTERED / DEVIATION),
    ("statistics-held-constant", NORM, "dX", LOGITS[::-1] / DEVIATION),
    ("learning-rate-forgotten", SGD, "W_new", W - UPSTREAM),
    ("gradient-added", SGD, "W_new", W + 0.1 * UPSTREAM),
    ("bias-correction-forgotten", ADAM, "W_new", W - 0.1 * 0.2 * UPSTREAM / np.sqrt(
        0.1 * UPSTREAM**2
    )),
    ("square-forgotten", ADAM, "v", 0.1 * UPSTREAM),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "key", "wrong"), MISTAKES)
def test_mistake_is_named(name: str, fields: dict[str, Any], key: str, wrong: np.ndarray) -> None:
    claim = {key: [[f"{value:.4f}" for value in row] for row in wrong]}
    first = Problem(**fields, vectors="rows", claim=claim).check().first
    assert first is not None
    assert first.key == key
    assert name in [cause.name for cause in first.causes]


def test_right_numbers_by_hand() -> None:
    assert Problem(**RNN).solve()["dW_hh"] == pytest.approx(H_0.T @ DSUM_1 + H_1.T @ DSUM_2)
    assert Problem(**LOSS).solve()["dlogits"] == pytest.approx((P - Y) / 2)
    uniform = Problem(kind="cross_entropy", logits=[[0, 0, 0, 0]], targets=[3]).solve()
    assert uniform["perplexity"] == pytest.approx(4)
    one = Problem(kind="rnn_jacobian", X=[[0]], W_xh=[[1]], W_hh=[[3]]).solve()
    assert one["norm", 1] == pytest.approx(3)  # the slope at zero is one: it explodes


def test_given_probabilities_and_soft_targets() -> None:
    given = {"probabilities": [[0.7, 0.2, 0.1]], "Y": [[0.5, 0.5, 0]]}
    solution = Problem(kind="cross_entropy", **given).solve()
    assert solution["losses"] == pytest.approx(-0.5 * np.log(0.7 * 0.2))
    assert solution.keys() == ["losses", "perplexity", "predictions", "accuracy"]


BAD_INPUT: list[tuple[dict[str, Any], str]] = [
    ({"kind": "cross_entropy", "targets": [1]}, "given.logits is missing"),
    ({"kind": "cross_entropy", "logits": [[1, 2]]}, "given.targets is missing: .* targets or Y"),
    ({**LOSS, "Y": Y}, "given has both targets and Y"),
    ({**LOSS, "probabilities": P}, "given has both logits and probabilities"),
    ({**LOSS, "targets": [4, 1]}, "given.targets: 4 is no class: .* from 1 to 3"),
    ({**LOSS, "targets": [1.5, 1]}, "given.targets: 1.5 is no class"),
    ({**LOSS, "targets": [1, 2, 3]}, "targets has 3 columns, but logits has 2 rows"),
    ({**LOSS, "label_smoothing": 2}, "label_smoothing = 2: it must be from 0 to 1"),
    ({**LOSS, "reduction": "max"}, "reduction = 'max'"),
    (
        {"kind": "cross_entropy", "probabilities": [[0, 1]], "targets": [1]},
        "losses cannot be computed: vector 1 of it takes the logarithm",
    ),
    ({**LINEAR, "activation": "softmax"}, "activation = 'softmax'"),
    ({**LINEAR, "dY": [[1, 2, 3]] * 2}, "dY has 3 columns, but W has 2 columns"),
    ({"kind": "linear_gradient", "X": X, "W": W}, "given.dY is missing"),
    ({**RNN, "dh": [1, 1]}, "needs given.dH .*not both dH and dh"),
    ({k: v for k, v in RNN.items() if k != "dH"}, "kind rnn_gradient needs given.dH"),
    ({**NORM, "X": np.ones((2, 3)), "eps": 0}, "normalised cannot be computed: .* give an eps"),
    ({"kind": "optimizer_step", "W": W, "dW": W}, "given.learning_rate is missing"),
    ({**SGD, "momentum": 0.9}, 'momentum: optimizer "sgd" has none; "momentum" has'),
    ({**SGD, "m0": W}, 'm0: optimizer "sgd" has none; "adam" has'),
    ({**SGD, "learning_rate": 0}, "learning_rate = 0: it must be at least"),
    ({**ADAM, "beta_1": 1}, "beta_1 = 1: it must be from 0 to"),
    ({**ADAM, "t": 0}, "t = 0: it must be a whole number"),
    (
        {"kind": "attention_gradient", "X": X, "doutput": [[1, 2, 3]] * 2},
        "without W_O, doutput has 3 columns|doutput has 3 columns",
    ),
    ({"kind": "lstm_gradient", "x": [1], "W_x": [[1, 2, 3]], "dh": [1]}, "multiple of 4|W_h"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), BAD_INPUT)
def test_bad_input_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        Problem(**fields)
    assert "\n" not in str(error.value)
