"""The softmax written out: exponentials and sums are optional steps of attention."""

import numpy as np
import pytest

from workings import Problem, UserError

X = np.random.default_rng(5).normal(size=(3, 2))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("style", ["plain", "shifted"])
@pytest.mark.parametrize("mask", ["none", "causal", [[1, 1, 0], [0, 0, 0], [0, 1, 1]]])
def test_exponentials_and_sums_lead_to_the_same_weights(
    style: str, mask: str, columns: bool
) -> None:
    fields = {"X": X.T if columns else X, "vectors": "columns" if columns else "rows"}
    if columns and not isinstance(mask, str):
        mask = np.transpose(mask).tolist()
    plain = Problem(**fields, mask=mask).solve()
    full = Problem(**fields, mask=mask, exponentials=style).solve()
    np.testing.assert_allclose(full["weights"], plain["weights"], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(full["mixed"], plain["mixed"], rtol=1e-12, atol=1e-15)
    masked = full["masked"].T if columns else full["masked"]
    top = np.where(np.isinf(masked.max(1)), 0, masked.max(1))[:, None]
    expected = np.exp(masked - (top if style == "shifted" else 0))
    got = full["exponentials"].T if columns else full["exponentials"]
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    np.testing.assert_allclose(full["sums"].ravel(), expected.sum(1), rtol=1e-12)


def test_the_steps_exist_only_if_claimed_or_asked_for() -> None:
    plain = Problem(X=X).solve().keys()
    assert plain == ["Q", "K", "V", "scores", "scaled", "weights", "mixed"]
    claimed = Problem(X=X, claim={"sums": ["?", "?", "?"]}).solve().keys()
    assert claimed == [
        "Q",
        "K",
        "V",
        "scores",
        "scaled",
        "exponentials",
        "sums",
        "weights",
        "mixed",
    ]
    heads = Problem(X=X, heads=2, claim={"head": {"2": {"sums": ["?", "?", "?"]}}}).solve().keys()
    assert {"exponentials.1", "sums.2"} <= set(heads)
    with pytest.raises(UserError, match="no such step"):
        Problem(X=X, normalizer="sigmoid", claim={"sums": ["?", "?", "?"]})


def test_block_and_additive_attention_have_them_too() -> None:
    eye = np.eye(2)
    block = Problem(kind="block", X=X, W_1=eye, W_2=eye, exponentials="plain").solve()
    np.testing.assert_allclose(
        block["attention.sums"], block["attention.exponentials"].sum(1, keepdims=True)
    )
    additive = {"kind": "additive", "s": X[:1], "H": X, "v": [[1.0, 2.0]]}
    sums = Problem(**additive, exponentials="plain").solve()["sums"]
    np.testing.assert_allclose(sums, np.exp(Problem(**additive).solve()["scores"]).sum())


def test_subtracted_maximum_need_not_be_declared() -> None:
    weights = Problem(X=X, exponentials="shifted").solve()["exponentials"].round(3).tolist()
    report = Problem(X=X, claim={"exponentials": weights}).check()
    assert report.verdict == "right"
    assert 'exponentials = "shifted"' in report.assumption
    declared = Problem(X=X, exponentials="plain", claim={"exponentials": weights}).check()
    assert declared.first is not None
    assert [cause.name for cause in declared.first.causes] == ["maximum-subtracted"]


def test_too_large_exponentials_name_the_way_out() -> None:
    with pytest.raises(UserError, match=r'declare exponentials = "shifted"'):
        Problem(X=X * 100, exponentials="plain").solve()["weights"]
    large = Problem(X=X * 100, exponentials="shifted").solve()
    np.testing.assert_allclose(large["weights"], Problem(X=X * 100).solve()["weights"], atol=1e-12)
    with pytest.raises(UserError, match="exponentials = 'max': "):
        Problem(X=X, exponentials="max")


def test_cells_are_written_out() -> None:
    problem = Problem(X=[[1, 0], [0, 2]], scale="none", exponentials="shifted")
    solution = problem.solve()
    assert solution.cell("exponentials", 2, 1) == "exponentials[2,1] = e^(0−4) = 0.018"
    assert solution.cell("sums", 2, 1) == "sums[2,1] = 0.018 + 1 = 1.018"
    assert solution.cell("weights", 2, 2) == "weights[2,2] = 1/1.018 = 0.982"
