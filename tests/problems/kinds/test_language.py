"""RMSNorm, embeddings, softmax with temperature and the next token give the numbers of torch."""

from typing import Any

import numpy as np
import pytest
import torch

from workings import Problem, UserError
from workings.layers import sinusoids

RNG = np.random.default_rng(11)


def solve(columns: bool, **fields: Any) -> dict[str, np.ndarray]:
    """Solve in either convention; return every step with vectors as rows."""
    if columns:
        fields = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
        fields["vectors"] = "columns"
    problem = Problem(**fields)
    solution = problem.solve()
    keys = [step.key for step in problem.steps if step.is_claimable]
    return {key: solution[key].T if columns else solution[key] for key in keys}


def assert_close(got: np.ndarray, expected: Any) -> None:
    np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_rms_norm_equals_torch(columns: bool, eps: float) -> None:
    x, gamma = RNG.normal(size=(3, 4)), RNG.normal(size=(1, 4))
    got = solve(columns, kind="rms_norm", X=x, gamma=gamma, eps=eps)
    expected = torch.nn.functional.rms_norm(
        torch.from_numpy(x), (4,), torch.from_numpy(gamma[0]), eps
    )
    assert_close(got["output"], expected)
    assert_close(got["rms"], np.sqrt((x**2).mean(1, keepdims=True) + eps))


@pytest.mark.parametrize("columns", [False, True])
def test_embedding_equals_torch(columns: bool) -> None:
    table, ids = RNG.normal(size=(5, 4)), [3, 1, 5]
    rows = torch.nn.functional.embedding(torch.tensor(ids) - 1, torch.from_numpy(table))
    learned = RNG.normal(size=(3, 4))
    plain = solve(columns, kind="embedding", ids=ids, E=table)
    assert_close(plain["output"], rows)
    added = solve(columns, kind="embedding", ids=ids, E=table, P=learned, scale_embeddings=True)
    assert_close(added["output"], 2 * rows + torch.from_numpy(learned))
    sine = solve(columns, kind="embedding", ids=ids, E=table, positions="sinusoids")
    np.testing.assert_allclose(sine["output"], rows + sinusoids(3, 4), atol=1e-6)
    assert_close(sine["output"], sine["embedded"] + sine["positions"])


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_head_equals_torch(columns: bool, temperature: float) -> None:
    h, table, b = RNG.normal(size=(2, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(1, 5))
    got = solve(columns, kind="lm_head", H=h, E=table, b=b, temperature=temperature)
    logits = torch.nn.functional.linear(*(torch.from_numpy(m) for m in (h, table, b[0])))
    assert_close(got["logits"], logits)
    assert_close(got["probabilities"], (logits / temperature).softmax(1))
    assert_close(got["token"], logits.argmax(1, keepdim=True) + 1)
    alone = solve(columns, kind="softmax", logits=logits.numpy(), temperature=temperature)
    assert_close(alone["probabilities"], got["probabilities"])
    full = {"temperature": temperature, "exponentials": "shifted"}
    assert_close(
        solve(columns, kind="softmax", logits=logits.numpy(), **full)["probabilities"],
        got["probabilities"],
    )


def test_next_token_is_named() -> None:
    words = ["the", "cat", "sat"]
    claim = {"probabilities": [0.09, 0.245, 0.665], "token": "sat"}
    problem = Problem(kind="softmax", logits=[1, 2, 3], vocabulary=words, claim=claim)
    assert problem.check().verdict == "right"
    wrong = {"token": "the"}
    first = Problem(kind="softmax", logits=[1, 2, 3], vocabulary=words, claim=wrong).check().first
    assert first is not None
    assert first.key == "token"
    assert "smallest-for-largest" in [cause.name for cause in first.causes]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "embedding", "ids": [0], "E": [[1, 2]]}, "given.ids: 0 is no row of E"),
        ({"kind": "embedding", "ids": [1.5], "E": [[1, 2]]}, "given.ids: 1.5 is no row of E"),
        ({"kind": "embedding", "ids": [1]}, "given.E is missing"),
        (
            {"kind": "embedding", "ids": [1], "E": 1, "P": 2, "positions": "sinusoids"},
            'given has P, but positions = "sinusoids"',
        ),
        ({"kind": "softmax", "logits": [1, 2], "temperature": 0}, "temperature = 0: it must be at"),
        ({"kind": "softmax", "logits": [1, 2], "vocabulary": ["a"]}, "vocabulary has 1 words, but"),
        ({"kind": "rms_norm", "X": [[0, 0]]}, "give an eps"),
    ],
)
def test_bad_input_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**fields).solve()["output" if fields["kind"] == "rms_norm" else "probabilities"]
    assert message in str(error.value)
