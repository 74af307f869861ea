"""Verdicts, clause by clause as docs/problem-format.md defines them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem
from workings.problems.numbers import read_number


def check_means(rows: list[list[Any]], *claims: Any) -> list[str]:
    """Return the verdicts of claimed check_means of rows, whose exact values are easy to choose."""
    claim = {"mean": [[cell] for cell in claims]}
    report = Problem(kind="layer_norm", X=rows, eps=1, claim=claim).check()
    return [verdict for (verdict,) in report["mean"]]


def check_mean(value: float, claim: Any) -> str:
    return check_means([[value, value]], claim)[0]


# -- right: rounded (ties either way) or truncated to the digits written ---------------------------


@pytest.mark.parametrize("text", ["0.6667", "0.667", "0.67", "0.7", "0.66", "0.6", "0.666", "2/3"])
def test_rounded_and_truncated_numbers_are_right(text: str) -> None:
    assert check_means([[1, 1, 0]], text) == ["right"]
    assert check_means([[-1, -1, 0]], f"-{text}") == ["right"]
    assert check_means([[-1, -1, 0]], text) == ["wrong"]


@pytest.mark.parametrize(("value", "either"), [(0.125, ("0.12", "0.13")), (-2.5, ("-2", "-3"))])
def test_ties_round_either_way(value: float, either: tuple[str, str]) -> None:
    assert [check_mean(value, text) for text in either] == ["right", "right"]


def test_truncation_is_toward_zero() -> None:
    assert (
        check_mean(0.0099, "0.00")
        == check_mean(-0.0099, "0.00")
        == check_mean(-0.0099, "-0.00")
        == "right"
    )
    assert check_mean(1.0, "0.99") == "rounded"  # 1 truncates to 1, but 0.99 is within a unit
    assert check_mean(-1.0, "-0.99") == "rounded"


def test_trailing_zeros_are_digits() -> None:
    assert check_mean(0.46, "0.5") == "right"
    assert check_mean(0.46, "0.50") == "wrong"


@pytest.mark.parametrize("text", ["0,47", "4.7e-1", "0.47", "47/100", "4.7×10^-1"])
def test_every_number_format(text: str) -> None:
    assert check_mean(0.47, text) == "right"


# -- rounded: within one unit, or within the range -------------------------------------------------


def test_within_one_unit_is_rounded() -> None:
    assert check_mean(0.1234, "0.13") == "rounded"
    assert check_mean(0.1234, "0.11") == "wrong"  # 1.34 units away
    assert check_mean(0.13, "0.14") == "rounded"  # one unit exactly
    assert check_mean(0.1299, "0.141") == "wrong"


def test_fractions_are_exact() -> None:
    assert check_mean(0.5, "1/2") == "right"
    assert check_mean(0.5001, "1/2") == "wrong"


# -- the unit of an integer ------------------------------------------------------------------------


def test_integer_beside_decimals_has_their_lowest_precision() -> None:
    rows = [[2.04, 2.04], [0.3, 0.3], [0.25, 0.25]]
    assert check_means(rows, 2, "0.3", "0.25") == ["right"] * 3
    assert check_means([[2.06, 2.06], *rows[1:]], 2, "0.3", "0.25")[0] == "right"  # 2.0, truncated
    assert check_means([[2.3, 2.3], *rows[1:]], 2, "0.3", "0.25")[0] == "wrong"
    assert check_means([[2.04, 2.04], [0.3, 0.3]], 2, "0.30")[0] == "wrong"  # now 2.00


def test_exponent_numbers_do_not_set_precision_of_integers() -> None:
    assert check_means([[1.3, 1.3], [0.79, 0.79]], 1, "7.9e-1") == ["right", "right"]
    assert check_means([[1.3, 1.3], [0.79, 0.79]], 1, "0.79") == ["wrong", "right"]


def test_integer_matrix_is_exact_or_rounded() -> None:
    assert check_mean(12, 12) == "right"
    assert check_mean(12, 13) == "wrong"  # no unit of slack
    assert check_mean(2.6, 3) == "right"
    assert check_mean(2.6, 2) == "wrong"  # rounded, not truncated
    assert check_mean(2.4, 3) == "wrong"
    assert check_mean(7.9e-32, 0) == "right"  # not an integer, rounds to 0


@pytest.mark.parametrize(
    ("value", "claim", "verdict"),
    [
        (1399.06, 1400, "right"),
        (1404.4, 1400, "right"),
        (1405.4, 1400, "wrong"),  # the third digit counts
        (1399.06, 1401, "wrong"),
        (1399, 1400, "wrong"),  # an integer is not rounded
        (1399.06, "1400.00", "wrong"),
        (139.06, 140, "wrong"),
        (1_234_567.5, 1_230_000, "right"),
        (1_234_567_895_123, 1_234_567_895_120, "wrong"),
    ],
)
def test_zeros_at_the_end_of_an_integer_may_be_rounded(
    value: float, claim: Any, verdict: str
) -> None:
    assert check_mean(value, claim) == verdict


def test_integer_matrix_may_have_fractions() -> None:
    assert check_means([[12, 12], [0.5, 0.5]], 13, "1/2") == ["wrong", "right"]


# -- infinity and ranges with gaps -----------------------------------------------------------------


def test_loss_of_a_probability_that_was_cut_off_is_infinite() -> None:
    claim = {"probabilities": [["0.00", "0.99"]], "losses": [["inf"]], "loss": "inf"}
    problem = {"kind": "cross_entropy", "logits": [[0, 5]], "targets": [1]}
    assert Problem(**problem, claim=claim).check()["loss"] == [["rounded"]]
    claim["probabilities"] = [["0.01", "0.99"]]
    assert Problem(**problem, claim=claim).check().first.key == "losses"


def test_tie_allows_the_classes_in_it_and_accuracies_of_whole_numbers() -> None:
    problem = {"kind": "cross_entropy", "logits": [[1, 0, 1], [1, 0, 0]], "targets": [3, 3]}

    def check(key: str, cells: list[list[float]]) -> list[list[str]]:
        return Problem(**problem, claim={key: cells}).check()[key]

    assert [check("accuracy", [[share]]) for share in (0, 0.5)] == [[["right"]]] * 2
    assert [check("accuracy", [[share]]) for share in (0.14, 1)] == [[["wrong"]]] * 2
    predictions = [check("predictions", [[k], [1]]) for k in (1, 2, 3)]
    assert predictions == [[["right"], ["right"]], [["wrong"], ["right"]], [["right"], ["right"]]]


# -- minus infinity --------------------------------------------------------------------------------


def check_masked(cell: Any, value: Any = 1) -> list[list[str]]:
    claim = {"masked": [[1, cell], [value, 1]]}
    return Problem(X=[[1], [1]], scale="none", mask="causal", claim=claim).check()["masked"]


@pytest.mark.parametrize("cell", ["-inf", "-∞", -10_000, "-1e9", "-10000.5"])
def test_large_negative_number_counts_as_minus_infinity(cell: Any) -> None:
    assert check_masked(cell) == [["right", "right"], ["right", "right"]]


def test_large_negative_number_is_wrong_elsewhere() -> None:
    assert check_masked(-9_999)[0][1] == check_masked(0)[0][1] == "wrong"
    assert (
        check_masked("-inf", value="-inf")[1][0]
        == check_masked("-inf", value=-10_000)[1][0]
        == "wrong"
    )


def test_next_step_reads_large_negative_number_as_minus_infinity() -> None:
    claim = {"masked": [[1, -10_000], [1, 1]], "weights": [[1, 0], ["1/2", "1/2"]]}
    report = Problem(X=[[1], [1]], scale="none", mask="causal", claim=claim).check()
    assert report.verdict == "right"
    assert report.counts["right"] == 8


# -- carried values and their range ----------------------------------------------------------------

# Q = K = V = x and scores = x xᵀ, so values carried from Q are easy to compute.
THIRD = {"X": [["1/3"], [2]], "W_V": [[1]], "scale": "none"}


def check_score(q: Any, text: Any) -> str:
    claim = {"Q": [[q], [2]], "scores": [[text, "?"], ["?", "?"]]}
    return Problem(**THIRD, claim=claim).check()["scores"][0][0]


def test_rounded_number_may_be_used_further() -> None:
    # exact 0.1111; from Q = 0.3: 0.1, and 0.0667 … 0.1333 if Q is up to a unit off
    assert check_score("0.3", "0.1111") == "right"
    assert check_score("0.3", "0.1000") == "rounded"
    assert check_score("0.3", "0.1332") == "rounded"
    assert check_score("0.3", "0.0700") == "rounded"
    assert check_score("0.3", "0.1400") == "wrong"
    assert check_score("0.3", "0.0600") == "wrong"
    assert check_score("1/3", "0.1000") == "wrong"  # a fraction is exact
    assert check_score("0.33333333", "0.1000") == "wrong"  # almost exact


def test_number_computed_from_wrong_number_follows() -> None:
    assert check_score("0.5", "0.1667") == "follows"  # 0.5 · 1/3
    assert check_score("0.5", "0.1999") == "follows"  # within 0.4 · 1/3 … 0.6 · 1/3
    assert check_score("0.5", "0.2100") == "wrong"
    assert check_score("1/2", "0.17") == "follows"  # half a unit of the carried value
    assert check_score("1/2", "0.19") == "wrong"


def test_right_beats_follows() -> None:
    assert check_score("0.5", "0.1111") == "right"
    assert check_score("0.5", "0.11") == "right"


def test_near_exact_value_is_wrong_after_wrong_number() -> None:
    assert check_score("1/3", "0.12") == "rounded"  # a unit off
    assert check_score("5", "0.12") == "wrong"  # 5 leads to 1.67


def test_follows_propagates_through_steps() -> None:
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


def test_only_inputs_of_a_cell_count() -> None:
    claim = {"Q": [["1/2"], [2]], "scores": [["?", "?"], ["0.6667", "4.0001"]]}
    report = Problem(**THIRD, claim=claim).check()  # row 1 does not depend on Q[0]
    assert report["scores"] == [["blank", "blank"], ["right", "rounded"]]


def test_masked_cell_carries_no_error() -> None:
    claim = {
        "scores": [["1/9", 7], ["2/3", 4]],  # 7 is wrong but masked
        "weights": [["1.01", "0.0"], ["?", "?"]],
    }
    report = Problem(**THIRD, mask="causal", claim=claim).check()
    assert report["scores"] == [["right", "wrong"], ["right", "right"]]
    assert report["weights"] == [["rounded", "right"], ["blank", "blank"]]  # not: follows


def test_blank_cell_uses_carried_value() -> None:
    claim = {
        "Q": [["1/2"], ["?"]],
        "scores": [["?", "?"], ["?", 4]],
        "weights": [["0.303", "0.697"], ["0.034", "0.966"]],
    }
    report = Problem(**THIRD, claim=claim).check()
    assert report["Q"] == [["wrong"], ["blank"]]
    assert report["scores"] == [["blank", "blank"], ["blank", "right"]]
    assert report["weights"] == [["follows", "follows"], ["right", "right"]]


def test_unclaimed_step_uses_carried_values() -> None:
    claim = {"Q": [["1/2"], [2]], "weights": [["0.303", "0.697"], ["0.034", "0.966"]]}
    report = Problem(**THIRD, claim=claim).check()
    assert report["weights"] == [["follows", "follows"], ["right", "right"]]


def test_exact_integers_have_no_range() -> None:
    claim = {"Q": [[1, 2]], "scores": [["5.1"]]}
    given = {"X": [[1, 2]], "scale": "none"}
    assert Problem(**given, claim=claim).check()["scores"] == [["rounded"]]  # 5, a unit off
    claim["scores"] = [["5.2"]]
    assert Problem(**given, claim=claim).check()["scores"] == [["wrong"]]


def test_rounded_integers_have_the_range_of_rounding() -> None:
    given = {"X": [["1.4", 2]], "W_K": [[1, 0], [0, 1]], "scale": "none"}
    claim: dict[str, Any] = {"Q": [[1, 2]], "scores": [["5.40"]]}  # from the rounded 1
    assert Problem(**given, claim=claim).check()["scores"] == [["rounded"]]
    claim["scores"] = [["5.96"]]  # from 1.4
    assert Problem(**given, claim=claim).check()["scores"] == [["right"]]
    claim["scores"] = [["6.60"]]  # 1.857 does not round to 1
    assert Problem(**given, claim=claim).check()["scores"] == [["wrong"]]


# -- other valid routes ----------------------------------------------------------------------------


def test_masking_after_softmax_and_renormalizing_is_right() -> None:
    x = np.array([[1.0, 0.5], [0.25, 1.0], [1.0, 1.0]])
    e = np.exp(x @ x.T)
    weights = np.tril(e / e.sum(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    claim = {"weights": [[f"{w:.3f}" for w in row] for row in weights]}
    report = Problem(X=x, scale="none", mask="causal", claim=claim).check()
    assert report.counts["right"] == 9


def test_absent_step_may_be_claimed() -> None:
    same = [[1, 2], [2, 4]]
    claim = {"scores": same, "scaled": same, "masked": same, "output": [[1.5], [2]]}
    problem = Problem(X=[[1], [2]], scale="none", claim=claim)
    assert problem.check()["masked"] == [["right", "right"], ["right", "right"]]
    assert problem.check()["scaled"] == [["right", "right"], ["right", "right"]]


# -- repeated claims -------------------------------------------------------------------------------


def test_repeated_claim_is_checked_separately_and_may_be_used() -> None:
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
    claim["scores"] = [[3, 6], [2, 4]]  # from the wrong repetition
    assert Problem(**fields, claim=claim).check()["scores"][0] == ["follows", "follows"]
    claim["scores"] = [[4, 6], [2, 4]]  # from neither
    assert Problem(**fields, claim=claim).check()["scores"][0] == ["wrong", "follows"]


def test_follows_from_any_combination_of_repeated_claims() -> None:
    claim = {
        "Q": [[5], [2]],  # the first Q is wrong
        "K": [[1], [2]],
        "again": [{"Q": [[1], [2]], "K": [[7], [2]]}],  # and the second K
        "scores": [[35, 10], [14, 4]],  # and the scores use these two
    }
    report = Problem(X=[[1], [2]], scale="none", claim=claim).check()
    assert report["scores"] == [["follows", "follows"], ["follows", "right"]]


def test_step_may_be_repeated_many_times() -> None:
    prints = [{name: [[1], [2]] for name in "QKV"} for _ in range(6)]
    claim = {"again": prints, "scores": [[1, 2], [2, 4]]}
    report = Problem(X=[[1], [2]], scale="none", claim=claim).check()
    assert report.counts["right"] == 6 * 6 + 4


# -- no false alarms -------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    decimals=st.integers(0, 3),
    carry=st.booleans(),
    mask=st.sampled_from(["none", "causal"]),
    unclaimed=st.sets(st.sampled_from(["Q", "K", "V", "scores", "scaled", "masked", "weights"])),
)
def test_correct_solution_is_never_wrong(
    seed: int, decimals: int, carry: bool, mask: str, unclaimed: set[str]
) -> None:
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(1, 4, 3)
    given = {name: np.round(rng.normal(size=(d, k)), 1) for name in ("W_Q", "W_K", "W_V")}
    x = np.round(rng.normal(size=(n, d)), 1)
    claim: dict[str, list[list[str]]] = {}
    if decimals == 0:  # weights rounded to integers are no rounding
        unclaimed = {*unclaimed, "weights"}

    def write(step: str, matrix: np.ndarray) -> np.ndarray:
        if step in unclaimed:
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


# -- claims that are exact, and rounding that is not written --------------------------------------


def test_slip_after_exact_decimals_is_wrong() -> None:
    given = {"X": [[3, 4]], "W_Q": [[0.1], [0.3]], "W_K": [[0.5], [0.7]]}
    claim = {"Q": [["1.5"]], "K": [["4.3"]], "scores": [["6.95"]]}
    report = Problem(**given, claim=claim).check()
    assert (report["Q"], report["K"], report["scores"]) == ([["right"]], [["right"]], [["wrong"]])


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), slip=st.floats(0.2, 0.5))
def test_slips_after_one_decimal_inputs_are_found(seed: int, slip: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 10, (2, 2))
    weights = {name: np.round(rng.integers(-9, 10, (2, 2)) / 10, 1) for name in ("W_Q", "W_K")}
    q, k = (np.round(x @ w, 1) for w in weights.values())
    scores = np.round(q @ k.T, 2)
    scores[1, 0] = np.round(scores[1, 0] + slip, 2)
    claim = {"Q": q, "K": k, "scores": [[f"{v:.2f}" for v in row] for row in scores]}
    assert Problem(X=x, **weights, claim=claim).check()["scores"][1][0] == "wrong"


def test_argmax_is_no_rounding_of_weights() -> None:
    fields = {"Q": [[1, 0], [0, 9]], "K": [[1, 0], [0, 9]], "V": [[1], [2]], "scale": "none"}
    report = Problem(**fields, claim={"weights": [[1, 0], [0, 1]]}).check()
    assert report["weights"] == [["wrong", "wrong"], ["right", "right"]]
    report = Problem(**fields, claim={"weights": [["0.7", "0.3"], [0, 1]]}).check()
    assert report.verdict == "right"


@pytest.mark.parametrize("root", ["1.4", "1.41", "1.414", "1.4142"])
def test_rounded_square_root_is_rounding_if_all_numbers_use_it(root: str) -> None:
    x = [[3, 4], [5, 6]]
    scores = np.array(x) @ np.array(x).T
    scaled = [[f"{v / float(root):.3f}" for v in row] for row in scores]
    assert Problem(X=x, claim={"scaled": scaled}).check().verdict == "right"
    scaled[0][1] = f"{scores[0, 1] / 1.43:.3f}"
    assert Problem(X=x, claim={"scaled": scaled}).check()["scaled"][0][1] == "wrong"


def test_three_significant_digits_are_rounding() -> None:
    x = [[31.5, 0.4], [2.25, 17.3]]
    scores = np.array(x) @ np.array(x).T

    def write(v: float) -> str:
        text = f"{float(f'{v:.3g}'):f}".rstrip("0").rstrip(".")
        return text if "." in text or len(text) >= 3 else f"{float(text):.{3 - len(text)}f}"

    claim = {"scores": [[write(v) for v in row] for row in scores]}
    claim["scaled"] = [[write(v / 2**0.5) for v in row] for row in scores]
    claim["weights"] = [["1.00", "0.000"], ["0.000", "1.00"]]
    assert Problem(X=x, claim=claim).check().verdict == "right"


def test_small_number_may_have_many_zeros() -> None:
    text = "0." + "0" * 65 + "123"
    number = read_number(text, "weights")
    assert number is not None
    assert number.value == pytest.approx(1.23e-66)


def test_result_alone_may_be_computed_from_rounded_steps() -> None:
    x = np.array([[0.1, -0.5], [0.6, 0.4], [-0.5, 1.4]])
    scores = np.round(x @ x.T, 1)
    scaled = np.round(scores / 2**0.5, 1)
    powers = np.exp(scaled)
    weights = np.round(powers / powers.sum(1, keepdims=True), 1)
    report = Problem(
        X=x, claim={"mixed": [[f"{v:.1f}" for v in row] for row in weights @ x]}
    ).check()
    assert report.verdict == "right"
    assert report.counts["rounded"]
    assert report.notes == ["mixed cannot be judged closer without scores, scaled, weights"]
    far = np.round(weights @ x, 1) + np.array([[8, 0]] * 3)
    assert Problem(X=x, claim={"mixed": far}).check().verdict == "wrong"


def test_minus_infinity_is_kept_only_where_a_softmax_reads_it() -> None:
    fields = {"X": [[1], [2]], "scale": "none", "mask": "causal"}
    masked = [["-inf", "-inf"], ["2", "-inf"]]
    claim = {"masked": masked, "weights": [["0.00", "0.00"], ["1.00", "0.00"]]}
    report = Problem(**fields, claim=claim).check()
    assert report["weights"] == [["follows", "right"], ["follows", "follows"]]
    claim = {"Q": [["-inf"], ["2"]], "scores": [[77, 88], [2, 4]]}
    assert Problem(**fields, claim=claim).check()["scores"][0] == ["wrong", "wrong"]
