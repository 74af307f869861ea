"""Decoding from a table with a row for each context, and from a start token."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from workings import Problem
from workings.errors import UserError

TOKENS = ["the", "cat", "sat"]
TABLE = {
    "": [0.5, 0.4, 0.1],
    "the": [0.1, 0.6, 0.3],
    "cat": [0.05, 0.05, 0.9],
    "the cat": [0.2, 0.1, 0.7],
}


def get_row(text: tuple[int, ...]) -> list[float]:
    """Return the row of the longest ending of a text."""
    words = [TOKENS[k] for k in text]
    return next(row for s in range(len(words) + 1) if (row := TABLE.get(" ".join(words[s:]))))


def test_a_wide_beam_finds_the_best_text() -> None:
    search = Problem(kind="beam_search", tokens=TOKENS, table=TABLE, beams=10, scores="probability")
    texts = {
        text: np.prod([get_row(text[:k])[token] for k, token in enumerate(text)])
        for text in product(range(3), repeat=3)  # the longest context has two tokens
    }
    best = max(texts, key=lambda text: texts[text])
    solution = search.solve()
    np.testing.assert_array_equal(solution["best"][0] - 1, best)
    np.testing.assert_allclose(solution["totals.3"][0, 0], texts[best])


def test_contexts_may_be_a_list() -> None:
    other = {"contexts": list(TABLE), "table": list(TABLE.values())}
    for fields in ({"table": TABLE}, other):
        given = {"sentence": "the cat sat", **fields}
        solution = Problem(kind="sentence", tokens=TOKENS, given=given).solve()
        np.testing.assert_allclose(solution["probabilities"], [[0.5, 0.6, 0.7]])


def test_a_wrong_row_is_wrong() -> None:
    claim = {"t": {"2": {"scores": [["0.05", "0.30", "0.15"], ["0.08", "0.04", "0.28"]]}}}
    given = {"table": TABLE, "beams": 2}
    fields: dict[str, Any] = {"kind": "beam_search", "tokens": TOKENS, "scores": "probability"}
    first = Problem(**fields, given=given, claim=claim).check().first
    assert first is not None
    assert (first.key, first.cell) == ("scores.2", (1, 0))


@pytest.mark.parametrize("columns", [False, True])
def test_a_start_token_stands_for_its_row(columns: bool) -> None:
    p = np.array([[0, 0.7, 0.3], [0, 0.2, 0.8], [0, 0.5, 0.5]])
    fields: dict[str, Any] = {"kind": "sentence", "tokens": ["<s>", "a", "b"], "sentence": "a b"}
    fields["vectors"] = "columns" if columns else "rows"
    for start in ("<s>", 1):
        given = {"P": (p.T if columns else p).tolist(), "start": start}
        solution = Problem(**fields, given=given).solve()
        np.testing.assert_allclose(solution["probability"], [[0.7 * 0.8]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": {"the": [1, 0, 0]}}, r'needs ""'),
        ({"table": {"": [1, 0, 0], "dog": [1, 0, 0]}}, r"'dog' is not a token"),
        ({"contexts": ["", "the"], "table": [[1, 0, 0]]}, r"contexts has 2 texts"),
        ({"contexts": ["", ""], "table": [[1, 0, 0]] * 2}, r"same context"),
        ({"contexts": [""], "P": np.eye(3), "start": [1, 0, 0]}, r"give table, not P"),
        ({"contexts": 3, "table": [[1, 0, 0]]}, r"must be a list of texts"),
        ({"P": [[1, 0, 0]] * 3, "start": "dog"}, r"given\.start: 'dog' is not a token"),
        ({"table": {"": "?"}}, r"table"),
    ],
)
def test_bad_models_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Problem(kind="beam_search", tokens=TOKENS, given={"length": 2, **given})
