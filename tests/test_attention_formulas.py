"""`attend` against formulas in plain Python, and the examples of the lecture notes."""

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workings.attention import attend, dot, scaled_dot
from workings.errors import UserError
from workings.layers import AdditiveSimilarity, GeneralSimilarity
from workings.trace import Trace

LECTURES = Path(__file__).parents[1] / "lectures"
Vector = list[float]


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def inner(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def softmax(row: Vector) -> Vector:
    powers = [math.exp(s) for s in row]
    return [p / sum(powers) for p in powers]


def sigmoid(row: Vector) -> Vector:
    return [1 / (1 + math.exp(-s)) for s in row]


def by_sum(row: Vector) -> Vector:
    return [s / sum(row) for s in row]


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Callable[[Vector, Vector], float],
    normalize: Callable[[Vector], Vector] = softmax,
) -> Tensor:
    """Compute attention query by query and key by key, with Python floats."""
    rows = []
    for q in query.tolist():
        weights = normalize([score(q, k) for k in key.tolist()])
        rows.append([inner(weights, column) for column in value.T.tolist()])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.fixture
def qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Return five queries and seven keys of width 4, and values of width 3."""
    return draw(5, 4, seed=1), draw(7, 4, seed=2), draw(7, 3, seed=3)


def test_scaled_dot_product_is_the_default(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    expected = reference(*qkv, lambda q, k: inner(q, k) / 2)  # √4
    torch.testing.assert_close(attend(*qkv), expected)
    torch.testing.assert_close(attend(*qkv, similarity=scaled_dot), expected)
    assert not torch.allclose(attend(*qkv, similarity=dot), expected, rtol=1e-2)


def test_scale_multiplies_the_scores(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    expected = reference(*qkv, lambda q, k: 0.3 * inner(q, k))
    torch.testing.assert_close(attend(*qkv, scale=0.3), expected)
    torch.testing.assert_close(attend(*qkv, similarity=dot, scale=0.3), expected)


def test_unscaled_inner_product(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    expected = reference(*qkv, inner)
    torch.testing.assert_close(attend(*qkv, similarity=dot), expected)
    torch.testing.assert_close(attend(*qkv, scale=1.0), expected)


def test_sigmoid_weights_each_key_independently(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    expected = reference(*qkv, lambda q, k: inner(q, k) / 2, sigmoid)
    torch.testing.assert_close(attend(*qkv, normalizer="sigmoid"), expected)


def test_sum_divides_by_the_sum(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    query, key, value = (t.abs() for t in qkv)
    expected = reference(query, key, value, lambda q, k: inner(q, k) / 2, by_sum)
    torch.testing.assert_close(attend(query, key, value, normalizer="sum"), expected)


def test_sum_divides_by_the_sum_of_the_unmasked_keys(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    query, key, value = (t.abs() for t in qkv)
    masked = attend(query, key, value, normalizer="sum", mask=torch.arange(7) < 3)
    unmasked = reference(query, key[:3], value[:3], lambda q, k: inner(q, k) / 2, by_sum)
    torch.testing.assert_close(masked, unmasked)


def test_softcap_bounds_the_scores(qkv: tuple[Tensor, Tensor, Tensor]) -> None:
    expected = reference(*qkv, lambda q, k: 0.5 * math.tanh(inner(q, k) / 2 / 0.5))
    torch.testing.assert_close(attend(*qkv, softcap=0.5), expected)
    with Trace() as trace:
        attend(*qkv, softcap=0.5, causal=True)
    assert trace["scaled"].abs().max() > 0.5 > trace["capped"].abs().max()
    assert (trace["masked"] == -math.inf).any()  # the mask is applied after the cap


def test_an_additive_mask_is_added_to_the_scaled_scores(
    qkv: tuple[Tensor, Tensor, Tensor],
) -> None:
    query, key, value = qkv
    mask = draw(5, 7, seed=4)
    rows = [
        reference(
            query[i : i + 1],
            torch.cat([key, mask[i, :, None]], dim=1),  # the mask as an extra feature of each key
            value,
            lambda q, k: inner(q, k[:4]) / 2 + k[4],
        )
        for i in range(5)
    ]
    torch.testing.assert_close(attend(query, key, value, mask=mask), torch.cat(rows))


def test_additive_similarity_is_an_mlp_of_query_and_key() -> None:
    query, key, value = draw(5, 4, seed=1), draw(7, 6, seed=2), draw(7, 3, seed=3)
    similarity = AdditiveSimilarity(4, 6, hidden_size=5).double()
    W_q, W_k, v = (layer.weight.tolist() for layer in similarity.children())

    def score(q: Vector, k: Vector) -> float:
        hidden = [math.tanh(inner(a, q) + inner(b, k)) for a, b in zip(W_q, W_k, strict=True)]
        return inner(v[0], hidden)

    expected = reference(query, key, value, score)
    torch.testing.assert_close(attend(query, key, value, similarity=similarity), expected)


def test_general_similarity_multiplies_by_a_matrix() -> None:
    query, key, value = draw(5, 4, seed=1), draw(7, 6, seed=2), draw(7, 3, seed=3)
    similarity = GeneralSimilarity(4, 6).double()
    W = similarity.projection.weight.tolist()
    expected = reference(query, key, value, lambda q, k: inner([inner(row, q) for row in W], k))
    torch.testing.assert_close(attend(query, key, value, similarity=similarity), expected)


def test_similarities_with_batches_and_grouped_heads() -> None:
    query, key, value = draw(2, 4, 5, 8, seed=1), draw(2, 2, 7, 8, seed=2), draw(2, 2, 7, 3, seed=3)
    for similarity in (
        dot,
        scaled_dot,
        GeneralSimilarity(8, 8).double(),
        AdditiveSimilarity(8, 8, 6).double(),
    ):
        batched = attend(query, key, value, similarity=similarity)
        for batch in range(2):
            for head in range(4):
                shared = key[batch, head // 2], value[batch, head // 2]
                alone = attend(query[batch, head], *shared, similarity=similarity)
                torch.testing.assert_close(batched[batch, head], alone)


def test_attention_without_parameters() -> None:
    x = draw(6, 4)
    X = x.numpy()
    powers = np.exp(X @ X.T / np.sqrt(4))
    expected = powers / powers.sum(axis=1, keepdims=True) @ X
    torch.testing.assert_close(attend(x, x, x), torch.from_numpy(expected))


def test_adjacent_query_heads_share_a_key_head() -> None:
    query, key, value = draw(6, 5, 8, seed=1), draw(2, 7, 8, seed=2), draw(2, 7, 8, seed=3)
    mixed = attend(query, key, value)
    for head in range(6):
        alone = attend(query[head], key[head // 3], value[head // 3])
        torch.testing.assert_close(mixed[head], alone)


# -- the lecture notes ---------------------------------------------------------------------------


def lecture(name: str) -> tuple[Trace, dict[str, Any]]:
    """Return the trace of `attend` on an example of the notes, and the values that they print."""
    problem = tomllib.loads((LECTURES / f"{name}.toml").read_text(encoding="utf-8"))
    given = {n: torch.tensor(m, dtype=torch.float64) for n, m in problem["given"].items()}
    if problem["vectors"] == "columns":
        given = {n: m.T for n, m in given.items()}
    x, identity = given["X"], torch.eye(len(given["X"].T), dtype=torch.float64)
    context = given.get("context", x)
    with Trace() as trace:
        attend(
            x @ given.get("W_Q", identity),
            context @ given.get("W_K", identity),
            context @ given.get("W_V", identity),
            causal=problem["mask"] == "causal",
            scale=1.0 if problem["scale"] == "none" else None,
        )
    return trace, problem["claim"]


@pytest.mark.parametrize(
    ("name", "step", "tolerance"),
    [
        ("L0-example-1", "scaled", 1e-3),
        ("L0-example-1", "mixed", 1e-2),
        ("L0-example-2", "scaled", 1e-3),
        ("L0-example-2", "weights", 1e-2),
        ("L0-example-2", "mixed", 1e-2),
        ("L0-masked", "weights", 1e-2),
        ("L0-masked", "mixed", 1e-2),
        ("L0-cross", "weights", 1e-2),
        ("L0-cross", "mixed", 1e-2),
        ("L2-masked", "scores", 1e-2),
        ("L2-masked", "masked", 1e-2),
        ("L2-masked", "mixed", 1e-2),
        ("L2-cross", "scores", 1e-2),
        ("L2-cross", "mixed", 1e-2),
        ("L3-dot-product", "scores", 0),
    ],
)
def test_examples_of_the_notes_to_the_printed_digits(
    name: str, step: str, tolerance: float
) -> None:
    """Check the printed steps that are right; L2's scores, up to 552, saturate the softmax."""
    trace, claim = lecture(name)
    expected = torch.tensor(
        [[float(cell) for cell in row] for row in claim[step]], dtype=torch.float64
    )
    torch.testing.assert_close(trace[step], expected, rtol=0, atol=tolerance + 1e-9)


def test_saturated_weights_of_the_notes() -> None:
    trace, claim = lecture("L2-cross")
    printed = [[math.log(float(weight)) for weight in row] for row in claim["weights"]]  # e-89 … 1
    expected = torch.tensor(printed, dtype=torch.float64)
    torch.testing.assert_close(trace["weights"].log(), expected, rtol=0, atol=0.05)


# -- dropout -------------------------------------------------------------------------------------


def test_dropout_drops_weights_and_scales_up_the_rest() -> None:
    torch.manual_seed(0)
    n, rate = 200, 0.3
    x, one_hot = torch.zeros(n, 4), torch.eye(n)
    weights = attend(x, x, one_hot, dropout=rate)  # one-hot values return the weights
    dropped = weights == 0
    assert dropped.float().mean().item() == pytest.approx(rate, abs=0.01)
    kept = torch.full((), 1 / n / (1 - rate))
    torch.testing.assert_close(weights[~dropped], kept.expand(int((~dropped).sum())))
    assert (dropped != dropped[0]).any()  # each query drops other keys


def test_dropout_keeps_the_mean_and_is_not_in_the_traced_weights() -> None:
    torch.manual_seed(0)
    query, key, value = draw(1, 4, seed=1), draw(7, 4, seed=2), draw(7, 3, seed=3)
    copies = query.expand(20_000, 4)
    with Trace(only="weights") as trace:
        mean = attend(copies, key, value, dropout=0.4).mean(0)
    torch.testing.assert_close(mean, attend(query, key, value)[0], rtol=0, atol=0.02)
    torch.testing.assert_close(trace["weights"].sum(-1), torch.ones(20_000).double())


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("query", "key", "value", "options", "message"),
    [
        ((5, 4), (5, 4), (5, 4), {"normalizer": "sofmax"}, "did you mean 'softmax'?"),
        ((5, 4), (5, 4), (5, 4), {"normalizer": "max norm"}, "one of softmax, sigmoid, sum"),
        ((5, 4), (5, 3), (5, 4), {}, "queries of width 4 but keys of width 3"),
        ((5, 4), (5, 4), (6, 4), {}, r"keys of shape \(5, 4\) but values of shape \(6, 4\)"),
        ((2, 5, 4), (2, 5, 4), (1, 5, 4), {}, "one value for each key"),
        ((3, 5, 4), (2, 5, 4), (2, 5, 4), {}, "2 key heads cannot serve 3 query heads"),
        ((2, 5, 4), (4, 5, 4), (4, 5, 4), {}, "4 key heads cannot serve 2 query heads"),
        ((5, 4), (5, 4), (5, 4), {"mask": torch.ones(5, 5).int()}, "a mask of torch.int32"),
        ((5, 4), (6, 4), (6, 4), {"mask": torch.ones(6, 5)}, "does not fit 5 queries and 6 keys"),
        ((1, 4), (6, 4), (6, 4), {"mask": torch.ones(3, 6)}, "does not fit 1 queries and 6 keys"),
    ],
)
def test_errors_are_one_line(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(UserError, match=message) as error:
        attend(draw(*query), draw(*key), draw(*value), **options)
    assert "\n" not in str(error.value)


def test_other_similarities_may_compare_different_widths() -> None:
    similarity = GeneralSimilarity(4, 3).double()
    assert attend(draw(5, 4), draw(6, 3), draw(6, 2), similarity=similarity).shape == (5, 2)
