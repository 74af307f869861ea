"""Claims on losses and gradients: rounding is no mistake, slips are placed, mistakes are named."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gradient_problems import DRAWS
from rounded_claims import (
    Rng,
    RoundingStyle,
    Texts,
    add_claims,
    draw_style,
    orient_fields,
    write_claims,
)

from workings import Problem
from workings.problems.mistakes import Mistake, list_mistakes
from workings.problems.points import PointMatrix

ROOT = Path(__file__).parents[3]
NUM_SHEETS, NUM_SLOW_SHEETS = 5, 1_500  # of each kind
NUM_PLANTED, NUM_SLOW_PLANTED = 1, 60  # of each name
MIN_NAMED = 0.95
MIN_UNITS = 4  # by which a planted number differs from the right one, at least


def draw_problem(rng: Rng, kind: str) -> tuple[dict, Problem]:
    fields = orient_fields(DRAWS[kind](rng).fields, bool(rng.random() < 0.3))
    return fields, Problem(**fields)


def draw_claimed(rng: Rng, problem: Problem) -> list[str]:
    """Draw which steps a solution has: mostly all of them."""
    keys = [step.key for step in problem.asked_steps]
    if rng.random() < 0.4:
        return [key for key in keys if rng.random() < 0.6] or keys[-1:]
    return keys


def check_honest_solutions(kind: str, count: int) -> None:
    for seed in range(count):
        rng = np.random.default_rng([7, seed, *kind.encode()])
        fields, problem = draw_problem(rng, kind)
        texts = write_claims(problem, draw_style(rng), draw_claimed(rng, problem))
        report = add_claims(fields, texts).check()
        assert report.verdict == "right", (seed, report.summarize(), fields, texts)


@pytest.mark.parametrize("kind", DRAWS)
def test_rounded_solutions_are_right(kind: str) -> None:
    check_honest_solutions(kind, NUM_SHEETS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWS)
def test_thousands_of_rounded_solutions_are_right(kind: str) -> None:
    check_honest_solutions(kind, NUM_SLOW_SHEETS)


@pytest.mark.parametrize("kind", DRAWS)
def test_exact_solutions_are_right_in_every_cell(kind: str) -> None:
    fields, problem = draw_problem(np.random.default_rng(5), kind)
    style = RoundingStyle(12, carries_rounded=False)
    report = add_claims(fields, write_claims(problem, style, [s.key for s in problem.asked_steps]))
    counts = report.check().counts
    assert counts["right"] == sum(counts.values())


@pytest.mark.parametrize("kind", DRAWS)
def test_slips_are_found_and_placed(kind: str) -> None:
    """A number beyond what rounding leads to is the first wrong cell."""
    for seed in range(NUM_SHEETS):
        rng = np.random.default_rng([8, seed, *kind.encode()])
        fields, problem = draw_problem(rng, kind)
        keys = [step.key for step in problem.asked_steps]
        texts = write_claims(problem, RoundingStyle(3, carries_rounded=False), keys)
        steps = add_claims(fields, texts).check().steps
        step = steps[rng.integers(len(steps))]
        key, (i, j) = step.step.key, (int(k) for k in rng.integers(step.carried_matrix.shape))
        ends = (step.carried_matrix.lo[i, j], step.carried_matrix.hi[i, j])
        sign = int(rng.choice([-1, 1]))
        texts[key][i][j] = f"{ends[sign > 0] + sign * rng.uniform(5e-3, 0.5):.3f}"
        first = add_claims(fields, texts).check().first
        assert first is not None, (seed, key, i, j)
        assert (first.key, first.cell) == (key, (j, i) if problem.column_vectors else (i, j))


def find_first_difference(right: dict[str, Texts], wrong: dict[str, Texts]) -> str | None:
    """Return the first step that differs; None if it looks like rounding."""
    for key, texts in wrong.items():
        if texts != right[key]:
            a, b = (np.array(m, dtype=float) for m in (texts, right[key]))
            unit = 10.0 ** -len(texts[0][0].partition(".")[2])
            is_visible = np.isfinite(a).all() and np.abs(a - b).max() > MIN_UNITS * unit
            return key if is_visible else None
    return None


def plant(rng: Rng, kind: str, name: str) -> Iterator[bool]:
    """Plant a mistake of a name in a drawn problem; yield whether it is named, if it shows."""
    fields, problem = draw_problem(rng, kind)
    keys = [step.key for step in problem.steps]
    mistakes = [m for m in list_mistakes(problem, keys) if m.name == name]
    if not mistakes:
        return
    mistake = mistakes[rng.integers(len(mistakes))]
    style, claimed = RoundingStyle(int(rng.choice([3, 3, 4]))), draw_claimed(rng, problem)
    right = write_claims(problem, style, claimed)
    try:
        wrong = write_claims(problem, style, claimed, mistake.ops)
    except (ValueError, KeyError):  # shapes that do not fit, or a missing matrix
        return
    if any(np.shape(wrong[key]) != np.shape(right[key]) for key in wrong):
        return
    key = find_first_difference(right, wrong)
    if key is None or (key not in mistake.ops and set(mistake.ops) & set(claimed)):
        return
    texts = {k: wrong[k] for k in list(wrong)[: list(wrong).index(key) + 1]}
    first = add_claims(fields, texts).check().first
    if first is not None and first.key == key:
        yield name in [cause.name for cause in first.causes]


def check_planted_mistakes(kind: str, count: int, max_names: int | None = None) -> None:
    rng = np.random.default_rng([9, *kind.encode()])
    names = rng.permutation(list_names(kind)).tolist()[:max_names]
    named: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for name in names:
        for _ in range(40 * count):
            for is_named in plant(rng, kind, name):
                planted[name] += 1
                named[name] += is_named
            if planted[name] == count:
                break
    missed = {name: (planted[name], named[name]) for name in planted if named[name] < planted[name]}
    assert len([name for name in planted if planted[name] == count]) >= 6, planted
    assert planted.total() - named.total() <= max((1 - MIN_NAMED) * planted.total(), 1), missed


def list_names(kind: str) -> list[str]:
    """Return the names of the mistakes that are possible in some problems of a kind."""
    names: dict[str, None] = {}
    for seed in range(12):
        _, problem = draw_problem(np.random.default_rng(seed), kind)
        names |= dict.fromkeys(m.name for m in list_all_mistakes(problem))
    return list(names)


def list_all_mistakes(problem: Problem) -> list[Mistake]:
    return list(list_mistakes(problem, [step.key for step in problem.steps]))


@pytest.mark.parametrize("kind", DRAWS)
def test_planted_mistakes_are_named(kind: str) -> None:
    check_planted_mistakes(kind, NUM_PLANTED, max_names=8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWS)
def test_many_planted_mistakes_are_named(kind: str) -> None:
    check_planted_mistakes(kind, NUM_SLOW_PLANTED)


def test_mistake_without_a_result_explains_nothing() -> None:
    """Without exponentials a probability is negative and has no logarithm."""
    given = {"logits": [[2, 1, 0], [1, 3, -1]], "targets": [1, 3]}
    problem = Problem(kind="cross_entropy", given=given, claim={"loss": "1.7384"})
    first = problem.check().first
    assert first is not None
    assert [cause.name for cause in first.causes] == ["unknown"]


def test_catalog_equals_the_contract() -> None:
    contract = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = contract.partition("## Mistakes in losses and gradients")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`([a-z_0-9-]+)`", section))
    before = contract.partition("## Mistakes by name")[2].partition("\n## ")[0]
    common = set(re.findall(r"`([a-z_0-9-]+)`", before))
    names = {name for kind in DRAWS for name in list_names(kind)}
    assert listed - common == names - common
    assert listed <= names


@pytest.mark.parametrize("kind", DRAWS)
def test_points_have_the_values_of_intervals(kind: str) -> None:
    _, problem = draw_problem(np.random.default_rng(3), kind)
    env = problem.exact_matrices
    points = {key: PointMatrix.of(matrix.mid) for key, matrix in env.items()}
    ops = [step.op for step in problem.steps]
    ops += [op for mistake in list_all_mistakes(problem) for op in mistake.ops.values()]
    for op in ops:
        with np.errstate(all="ignore"):
            try:
                expected = op.compute(env).mid
            except (ValueError, KeyError):
                with pytest.raises((ValueError, KeyError)):
                    op.compute(points)
                continue
            np.testing.assert_allclose(op.compute(points).mid, expected, rtol=1e-12, atol=1e-12)
