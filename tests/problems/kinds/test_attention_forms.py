"""Attention in its other forms: given scores, several sources, grouped heads, rotated keys."""

from typing import Any

import numpy as np
import pytest

from workings import Problem, UserError

RNG = np.random.default_rng(7)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def solve(columns: bool, **fields: Any) -> dict[str, np.ndarray]:
    """Solve in either convention; return every step with vectors as rows."""
    if columns:
        fields = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
        fields["vectors"] = "columns"
    problem = Problem(**fields)
    solution = problem.solve()
    keys = [step.key for step in problem.steps if step.is_claimable]
    return {key: solution[key].T if columns else solution[key] for key in keys}


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [False, True])
def test_given_scores_are_a_start(columns: bool) -> None:
    scores, values = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))
    alone = solve(columns, scores=scores, exponentials="plain")
    assert_close(alone["weights"], softmax(scores))
    assert "mixed" not in alone
    scaled = solve(columns, scores=scores, V=values, scale=2)
    assert_close(scaled["mixed"], softmax(scores / 2) @ values)
    x = RNG.normal(size=(3, 2))
    square = RNG.normal(size=(3, 3))
    own = solve(columns, scores=square, X=x, W_V=RNG.normal(size=(2, 2)), mask="causal")
    allowed = np.tril(np.ones((3, 3), dtype=bool))
    assert_close(own["mixed"], softmax(np.where(allowed, square, -np.inf)) @ own["V"])


@pytest.mark.parametrize("columns", [False, True])
def test_three_sources(columns: bool) -> None:
    shapes = {"X_Q": (2, 3), "X_K": (4, 2), "X_V": (4, 5), "W_Q": (3, 2), "W_V": (5, 3)}
    own = {name: RNG.normal(size=shape) for name, shape in shapes.items()}
    got = solve(columns, **own)
    weights = softmax(own["X_Q"] @ own["W_Q"] @ own["X_K"].T / np.sqrt(2))
    assert_close(got["output"], weights @ (own["X_V"] @ own["W_V"]))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads_share_keys_and_values(columns: bool, kv_heads: int) -> None:
    d, heads, part = 4, 4, 2
    own = {"X": RNG.normal(size=(3, d)), "W_Q": RNG.normal(size=(d, heads * part))}
    own |= {f"W_{name}": RNG.normal(size=(d, kv_heads * part)) for name in "KV"}
    own["W_O"] = RNG.normal(size=(heads * part, d))
    got = solve(columns, **own, heads=heads, kv_heads=kv_heads)
    q = (own["X"] @ own["W_Q"]).reshape(3, heads, part)
    k, v = ((own["X"] @ own[f"W_{n}"]).reshape(3, kv_heads, part) for n in "KV")
    k, v = (np.repeat(m, heads // kv_heads, axis=1) for m in (k, v))
    mixed = [softmax(q[:, h] @ k[:, h].T / np.sqrt(part)) @ v[:, h] for h in range(heads)]
    assert_close(got["output"], np.hstack(mixed) @ own["W_O"])


@pytest.mark.parametrize("columns", [False, True])
def test_weights_of_each_head(columns: bool) -> None:
    d, heads, part = 3, 2, 2
    x = RNG.normal(size=(3, d))
    own = {f"W_{name}": [RNG.normal(size=(d, part)) for _ in range(heads)] for name in "QKV"}
    outer = [RNG.normal(size=(part, d)) for _ in range(heads)]
    biases = [RNG.normal(size=part) for _ in range(heads)]

    def write(matrix: np.ndarray) -> list[Any]:
        return (matrix.T if columns else matrix).tolist()

    def by_number(parts: list[np.ndarray]) -> dict[str, Any]:
        return {str(h): write(m) for h, m in enumerate(parts, start=1)}

    stacked = {name: [write(m) for m in parts] for name, parts in own.items()}
    numbered = {name: by_number(parts) for name, parts in own.items()}
    b_q = {str(h): b.tolist() for h, b in enumerate(biases, start=1)}
    expected = sum(
        softmax((x @ q + b) @ (x @ k).T / np.sqrt(part)) @ (x @ v) @ o
        for q, k, v, o, b in zip(*own.values(), outer, biases, strict=True)
    )
    for weights, w_o in ((stacked, [write(m) for m in outer]), (numbered, by_number(outer))):
        given = {"X": write(x), **weights, "W_O": w_o, "b_Q": b_q}
        vectors = "columns" if columns else "rows"
        problem = Problem(given=given, vectors=vectors)
        assert problem.setting.heads == heads
        output = problem.solve()["output"]
        assert_close(output.T if columns else output, expected)
    first = (x @ own["W_Q"][0] + biases[0]).round(3)
    claim = {"head": {"1": {"Q": write(first)}}}
    problem = Problem(given=given, vectors=vectors, claim=claim)
    assert problem.check().verdict == "right"


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("layout", ["adjacent", "halves"])
@pytest.mark.parametrize("heads", [1, 2])
def test_rope_rotates_queries_and_keys(columns: bool, layout: str, heads: int) -> None:
    n, d = 3, 4 * heads
    x = RNG.normal(size=(n, d))
    got = solve(columns, X=x, rope=layout, heads=heads, base=100)

    def rotate(q: np.ndarray) -> np.ndarray:
        angles = np.arange(n)[:, None] / 100 ** (2 * np.arange(2) / 4)
        pairs = q.reshape(n, 2, 2) if layout == "adjacent" else q.reshape(n, 2, 2).swapaxes(1, 2)
        rotated = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
        both = np.stack([rotated.real, rotated.imag], 2)
        return (both if layout == "adjacent" else both.swapaxes(1, 2)).reshape(n, 4)

    for h in range(heads):
        part = x[:, 4 * h : 4 * h + 4]
        end = "" if heads == 1 else f".{h + 1}"
        assert_close(got[f"rotated_Q{end}"], rotate(part))
        assert_close(got[f"weights{end}"], softmax(rotate(part) @ rotate(part).T / 2))


X = [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": X, "heads": 2, "kv_heads": 3}, "kv_heads = 3: it must divide heads = 2"),
        ({"X": X, "heads": 2, "kv_heads": 1}, "it must be 1"),
        ({"scores": [[1, 2, 3]], "X": X}, "scores has 1 rows, but X has 2 rows"),
        ({"scores": [[1, 2, 3]], "V": X}, "V has 2 rows"),
        ({"scores": X, "heads": 2}, "given scores are those of one head"),
        ({"X_K": X}, "given.X is missing"),
        ({"X": [[1, 2, 3]], "rope": "adjacent"}, "has 3 columns: rope rotates pairs"),
        ({"X": X, "rope": "pairs"}, "rope = 'pairs': "),
        ({"X": X, "W_Q": {"1": X, "3": X}}, "given.W_Q: expected one matrix per head"),
        ({"X": X, "heads": 3, "W_Q": [X, X]}, "heads = 3, but given.W_Q has 2"),
        ({"X": X, "W_Q": {"1": X, "2": [[1, 0]]}}, "given.W_Q: every head must have as many rows"),
        ({"X": X, "W_Q": {"1": 3}}, "given.W_Q: head 1 must have a matrix"),
    ],
)
def test_bad_forms_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**fields)
    assert message in str(error.value)
