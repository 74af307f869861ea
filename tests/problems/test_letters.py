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
