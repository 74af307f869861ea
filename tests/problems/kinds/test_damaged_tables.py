"""Damaged tables of the kinds on convolution, counting, decoding and texts: one-line errors."""

import copy
from random import Random
from typing import Any

import pytest

from workings import Problem
from workings.errors import UserError
from workings.problems.sheets import make_sheet
from workings.problems.sheets.rounded_solution import make_answer_key, nest_claims

KINDS = (
    *("conv1d", "batch_norm", "layers", "cost", "kv_cache"),
    *("sampling", "sentence", "beam_search", "bleu", "rouge_l", "edit_distance"),
)
DAMAGE: list[Any] = [
    *(None, 0, -1, 1e308, True, 10**20, 0.5, "x", "?", "-inf", "inf", "1/0", "NaN", ""),
    *([], [[]], {}, [[1]], [1, 2, 3], [["?"]], "the cat", ["a"] * 300, [[1, 2], [3]]),
]


def damage(rng: Random, table: dict[str, Any]) -> dict[str, Any]:
    """Replace a random value of a table, at any depth, by something else."""
    node: Any = table
    while True:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.75:
            node = inner
            continue
        node[key] = copy.deepcopy(rng.choice(DAMAGE))
        return table


def check_damaged(kind: str, count: int) -> None:
    (exercise,) = make_sheet(kind, count=1, seed=2).exercises
    claim = nest_claims(exercise.problem, make_answer_key(exercise.problem, 3))
    rng = Random(kind)  # noqa: S311
    for _ in range(count):
        table = damage(rng, copy.deepcopy({**exercise.table, "claim": claim}))
        message = ""
        try:
            Problem(**table).check().to_json()
        except UserError as error:
            message = str(error)
        assert "\n" not in message


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_a_line(kind: str) -> None:
    check_damaged(kind, 15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_more_damage_is_a_line(kind: str) -> None:
    check_damaged(kind, 1_000)


def test_huge_claims_are_wrong_without_a_warning() -> None:
    fields = {"kind": "edit_distance", "reference": "a b", "hypothesis": "a c"}
    assert Problem(**fields, claim={"distance": "1.7e308"}).check().verdict == "wrong"
