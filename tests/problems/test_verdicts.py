"""The contract's verdicts, clause by clause."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem


def means(rows: list[list[Any]], *claims: Any) -> list[str]:
    """Judge claimed means of rows: a step whose exact value is easy to choose."""
    claim = {"mean": [[cell] for cell in claims]}
    report = Problem(kind="layer_norm", X=rows, eps=1, claim=claim).check()
    return [verdict for (verdict,) in report["mean"]]


def mean(value: float, claim: Any) -> str:
    return means([[value, value]], claim)[0]


# -- right: rounded (ties either way) or truncated to the digits written --------------------------


@pytest.mark.parametrize("text", ["0.6667", "0.667", "0.67", "0.7", "0.66", "0.6", "0.666", "2/3"])
def test_rounded_and_truncated_are_right(text: str) -> None:
    assert means([[1, 1, 0]], text) == ["right"]
    assert means([[-1, -1, 0]], f"-{text}") == ["right"]
    assert means([[-1, -1, 0]], text) == ["wrong"]


@pytest.mark.parametrize(("value", "either"), [(0.125, ("0.12", "0.13")), (-2.5, ("-2", "-3"))])
def test_ties_go_either_way(value: float, either: tuple[str, str]) -> None:
    assert [mean(value, text) for text in either] == ["right", "right"]


def test_truncation_is_towards_zero() -> None:
    assert mean(0.0099, "0.00") == mean(-0.0099, "0.00") == mean(-0.0099, "-0.00") == "right"
    assert mean(1.0, "0.99") == "rounded"  # 1 is not cut off to 0.99, but it is within a unit
    assert mean(-1.0, "-0.99") == "rounded"


def test_trailing_noughts_are_digits() -> None:
    assert mean(0.46, "0.5") == "right"
    assert mean(0.46, "0.50") == "wrong"


@pytest.mark.parametrize("text", ["0,47", "4.7e-1", "0.47", "47/100", "4.7×10^-1"])
def test_numbers_in_every_spelling(text: str) -> None:
    assert mean(0.47, text) == "right"


# -- rounded: within one unit, or within the range -------------------------------------------------


def test_within_one_unit_is_rounded() -> None:
    assert mean(0.1234, "0.13") == "rounded"
    assert mean(0.1234, "0.11") == "wrong"  # 1.34 units away
    assert mean(0.13, "0.14") == "rounded"  # one unit exactly
    assert mean(0.1299, "0.141") == "wrong"


def test_fractions_are_exact() -> None:
    assert mean(0.5, "1/2") == "right"
    assert mean(0.5001, "1/2") == "wrong"


# -- the unit of a whole number --------------------------------------------------------------------


def test_whole_numbers_beside_decimals_have_the_least_precise_ones_digits() -> None:
    rows = [[2.04, 2.04], [0.3, 0.3], [0.25, 0.25]]
    assert means(rows, 2, "0.3", "0.25") == ["right"] * 3
    assert means([[2.06, 2.06], *rows[1:]], 2, "0.3", "0.25")[0] == "right"  # 2.0, cut off
    assert means([[2.3, 2.3], *rows[1:]], 2, "0.3", "0.25")[0] == "wrong"
    assert means([[2.04, 2.04], [0.3, 0.3]], 2, "0.30")[0] == "wrong"  # now 2.00


def test_numbers_with_an_exponent_say_nothing_about_whole_ones() -> None:
    assert means([[1.3, 1.3], [0.79, 0.79]], 1, "7.9e-1") == ["right", "right"]
    assert means([[1.3, 1.3], [0.79, 0.79]], 1, "0.79") == ["wrong", "right"]


def test_whole_numbers_among_whole_numbers_are_exact_or_rounded() -> None:
    assert mean(12, 12) == "right"
    assert mean(12, 13) == "wrong"  # no unit of slack
    assert mean(2.6, 3) == "right"
    assert mean(2.6, 2) == "wrong"  # rounded, not truncated
    assert mean(2.4, 3) == "wrong"
    assert mean(7.9e-32, 0) == "right"  # not whole, and rounds to nought


def test_a_matrix_of_whole_numbers_may_hold_fractions() -> None:
    assert means([[12, 12], [0.5, 0.5]], 13, "1/2") == ["wrong", "right"]


# -- minus infinity --------------------------------------------------------------------------------


def masked(cell: Any, value: Any = 1) -> list[list[str]]:
    claim = {"masked": [[1, cell], [value, 1]]}
    return Problem(X=[[1], [1]], scale="none", mask="causal", claim=claim).check()["masked"]


@pytest.mark.parametrize("cell", ["-inf", "-∞", -10_000, "-1e9", "-10000.5"])
def test_a_very_negative_number_counts_as_minus_infinity(cell: Any) -> None:
    assert masked(cell) == [["right", "right"], ["right", "right"]]


def test_only_where_minus_infinity_is_right() -> None:
    assert masked(-9_999)[0][1] == masked(0)[0][1] == "wrong"
    assert masked("-inf", value="-inf")[1][0] == masked("-inf", value=-10_000)[1][0] == "wrong"


def test_the_next_step_takes_it_for_minus_infinity() -> None:
    claim = {"masked": [[1, -10_000], [1, 1]], "weights": [[1, 0], ["1/2", "1/2"]]}
    report = Problem(X=[[1], [1]], scale="none", mask="causal", claim=claim).check()
    assert report.verdict == "right"
    assert report.counts["right"] == 8


# -- carried values and their range ---------------------------------------------------------------

# Q = K = V = x; scores x xᵀ: the next step of a claimed number is easy to follow.
THIRD = {"X": [["1/3"], [2]], "W_V": [[1]], "scale": "none"}


def scores(q: Any, text: Any) -> str:
    claim = {"Q": [[q], [2]], "scores": [[text, "?"], ["?", "?"]]}
    return Problem(**THIRD, claim=claim).check()["scores"][0][0]


def test_a_rounded_number_may_be_carried_on() -> None:
    # exact 0.1111; from Q = 0.3: 0.1, and 0.0667 … 0.1333 if Q is up to a unit off
    assert scores("0.3", "0.1111") == "right"
    assert scores("0.3", "0.1000") == "rounded"
    assert scores("0.3", "0.1332") == "rounded"
    assert scores("0.3", "0.0700") == "rounded"
    assert scores("0.3", "0.1400") == "wrong"
    assert scores("0.3", "0.0600") == "wrong"
    assert scores("1/3", "0.1000") == "wrong"  # a fraction is no excuse
    assert scores("0.33333333", "0.1000") == "wrong"  # nor are so many digits


def test_what_comes_from_a_wrong_number_follows() -> None:
    assert scores("0.5", "0.1667") == "follows"  # 0.5 · 1/3
    assert scores("0.5", "0.1999") == "follows"  # within 0.4 · 1/3 … 0.6 · 1/3
    assert scores("0.5", "0.2100") == "wrong"
    assert scores("1/2", "0.17") == "follows"  # half a unit of the carried value
    assert scores("1/2", "0.19") == "wrong"


def test_right_beats_follows() -> None:
    assert scores("0.5", "0.1111") == "right"
    assert scores("0.5", "0.11") == "right"


def test_near_the_exact_value_is_not_enough_after_a_wrong_number() -> None:
    assert scores("1/3", "0.12") == "rounded"  # a unit off
    assert scores("5", "0.12") == "wrong"  # 5 leads to 1.67


def test_what_follows_is_no_excuse_for_what_comes_after_it() -> None:
    claim = {
        "Q": [["1/2"], [2]],  # wrong
        "scores": [["1/6", "2/2"], ["?", "?"]],  # follows: 1/2 · 1/3 and 1/2 · 2
        "weights": [["0.303", "0.697"], ["?", "?"]],  # follows again
        "mixed": [["1.495"], ["?"]],
    }
    report = Problem(**THIRD, claim=claim).check()
    assert report["Q"] == [["wrong"], ["right"]]
    assert report["scores"][0] == ["follows", "follows"]
    assert report["weights"][0] == ["follows", "follows"]
    assert report["mixed"] == [["follows"], ["blank"]]
    assert report.counts == {"right": 1, "rounded": 0, "follows": 5, "wrong": 1, "blank": 5}


def test_only_the_cells_it_is_computed_from_count() -> None:
    claim = {"Q": [["1/2"], [2]], "scores": [["?", "?"], ["0.6667", "4.0001"]]}
    report = Problem(**THIRD, claim=claim).check()  # row 1 has nothing to do with Q[0]
    assert report["scores"] == [["blank", "blank"], ["right", "rounded"]]


def test_a_masked_or_zero_cell_carries_nothing_on() -> None:
    claim = {
        "scores": [["1/9", 7], ["2/3", 4]],  # 7 is wrong, and hidden by the mask
        "weights": [["1.01", "0.0"], ["?", "?"]],
    }
    report = Problem(**THIRD, mask="causal", claim=claim).check()
    assert report["scores"] == [["right", "wrong"], ["right", "right"]]
    assert report["weights"] == [["rounded", "right"], ["blank", "blank"]]  # not: follows


def test_a_blank_is_carried_on_from_its_own_carried_value() -> None:
    claim = {
        "Q": [["1/2"], ["?"]],
        "scores": [["?", "?"], ["?", 4]],
        "weights": [["0.303", "0.697"], ["0.034", "0.966"]],
    }
    report = Problem(**THIRD, claim=claim).check()
    assert report["Q"] == [["wrong"], ["blank"]]
    assert report["scores"] == [["blank", "blank"], ["blank", "right"]]
    assert report["weights"] == [["follows", "follows"], ["right", "right"]]


def test_a_step_left_out_is_carried_like_a_blank() -> None:
    claim = {"Q": [["1/2"], [2]], "weights": [["0.303", "0.697"], ["0.034", "0.966"]]}
    report = Problem(**THIRD, claim=claim).check()
    assert report["weights"] == [["follows", "follows"], ["right", "right"]]


def test_whole_numbers_that_are_exact_give_no_range() -> None:
    claim = {"Q": [[1, 2]], "scores": [["5.1"]]}
    given = {"X": [[1, 2]], "scale": "none"}
    assert Problem(**given, claim=claim).check()["scores"] == [["rounded"]]  # 5, a unit off
    claim["scores"] = [["5.2"]]
    assert Problem(**given, claim=claim).check()["scores"] == [["wrong"]]


def test_whole_numbers_that_were_rounded_give_what_was_rounded_away() -> None:
    given = {"X": [["1.4", 2]], "W_K": [[1, 0], [0, 1]], "scale": "none"}
    claim: dict[str, Any] = {"Q": [[1, 2]], "scores": [["5.40"]]}  # from the rounded 1
    assert Problem(**given, claim=claim).check()["scores"] == [["rounded"]]
    claim["scores"] = [["5.96"]]  # from 1.4
    assert Problem(**given, claim=claim).check()["scores"] == [["right"]]
    claim["scores"] = [["6.60"]]  # 1.857 does not round to 1
    assert Problem(**given, claim=claim).check()["scores"] == [["wrong"]]


# -- other valid routes ----------------------------------------------------------------------------


def test_masking_after_the_softmax_and_renormalising_is_right() -> None:
    x = np.array([[1.0, 0.5], [0.25, 1.0], [1.0, 1.0]])
    e = np.exp(x @ x.T)
    weights = np.tril(e / e.sum(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    claim = {"weights": [[f"{w:.3f}" for w in row] for row in weights]}
    report = Problem(X=x, scale="none", mask="causal", claim=claim).check()
    assert report.counts["right"] == 9


def test_a_step_that_the_problem_does_not_have_may_be_claimed() -> None:
    same = [[1, 2], [2, 4]]
    claim = {"scores": same, "scaled": same, "masked": same, "output": [[1.5], [2]]}
    problem = Problem(X=[[1], [2]], scale="none", claim=claim)
    assert problem.check()["masked"] == [["right", "right"], ["right", "right"]]
    assert problem.check()["scaled"] == [["right", "right"], ["right", "right"]]


# -- printed again ---------------------------------------------------------------------------------


def test_a_reprint_is_judged_on_its_own_and_may_be_carried_on() -> None:
    claim: dict[str, Any] = {
        "Q": [[1], [2]],
        "again": [{"Q": [[3], [2]]}],
        "scores": [[1, 2], [2, 4]],
    }
    fields = {"X": [[1], [2]], "scale": "none"}
    report = Problem(**fields, claim=claim).check()
    verdicts = [(one.claim.reprint, one.verdicts.tolist()) for one in report.steps[:2]]
    assert verdicts == [(0, [["right"], ["right"]]), (1, [["wrong"], ["right"]])]
    assert report["scores"] == [["right", "right"], ["right", "right"]]
    claim["scores"] = [[3, 6], [2, 4]]  # from the wrong reprint
    assert Problem(**fields, claim=claim).check()["scores"][0] == ["follows", "follows"]
    claim["scores"] = [[4, 6], [2, 4]]  # from neither
    assert Problem(**fields, claim=claim).check()["scores"][0] == ["wrong", "follows"]


def test_what_follows_may_take_one_step_from_a_reprint_and_another_from_the_first() -> None:
    claim = {
        "Q": [[5], [2]],  # the first Q is wrong,
        "K": [[1], [2]],
        "again": [{"Q": [[1], [2]], "K": [[7], [2]]}],  # the second K is, too,
        "scores": [[35, 10], [14, 4]],  # and the scores use just these two
    }
    report = Problem(X=[[1], [2]], scale="none", claim=claim).check()
    assert report["scores"] == [["follows", "follows"], ["follows", "right"]]


def test_a_step_may_be_printed_many_times() -> None:
    prints = [{name: [[1], [2]] for name in "QKV"} for _ in range(6)]
    claim = {"again": prints, "scores": [[1, 2], [2, 4]]}
    report = Problem(X=[[1], [2]], scale="none", claim=claim).check()
    assert report.counts["right"] == 6 * 6 + 4


# -- the promise -----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    decimals=st.integers(0, 3),
    carry=st.booleans(),
    mask=st.sampled_from(["none", "causal"]),
    left_out=st.sets(st.sampled_from(["Q", "K", "V", "scores", "scaled", "masked", "weights"])),
)
def test_an_honest_solution_is_never_called_wrong(
    seed: int, decimals: int, carry: bool, mask: str, left_out: set[str]
) -> None:
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(1, 4, 3)
    given = {name: np.round(rng.normal(size=(d, k)), 1) for name in ("W_Q", "W_K", "W_V")}
    x = np.round(rng.normal(size=(n, d)), 1)
    claim: dict[str, list[list[str]]] = {}

    def write(step: str, matrix: np.ndarray) -> np.ndarray:
        if step in left_out:
            return matrix
        claim[step] = [[f"{round(v, 12):.{decimals}f}" for v in row] for row in matrix]
        return np.array(claim[step], dtype=float) if carry else matrix

    q, keys, values = (write(name[-1], x @ w) for name, w in given.items())
    scores = write("scores", q @ keys.T)
    scaled = write("scaled", scores / np.sqrt(k))
    allowed = np.tril(np.ones((n, n))) > 0 if mask == "causal" else np.ones((n, n)) > 0
    hidden = write("masked", np.where(allowed, scaled, -np.inf))
    e = np.exp(hidden - hidden.max(1, keepdims=True))
    weights = write("weights", e / e.sum(1, keepdims=True))
    write("mixed", weights @ values)
    report = Problem(X=x, **given, mask=mask, claim=claim).check()
    assert report.verdict == "right", report.to_json()
