"""Solutions as written by hand: rounded in many styles, honest or with one mistake in a step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from workings import Problem
from workings.problems.check import Report
from workings.problems.intervals import IntervalMatrix
from workings.problems.mistakes import Mistake, list_mistakes
from workings.problems.sheets.rounded_solution import nest_claims

Rng = np.random.Generator
Draw = Callable[[Rng], dict[str, Any]]  # draws the fields of a problem
MAX_WRITTEN = 1e15  # nobody writes a larger number out
MIN_UNITS = 4  # by which a planted number differs, at least


@dataclass(frozen=True)
class Style:
    """How a solution is written: decimals, rounded or truncated, and which steps are claimed."""

    decimals: int
    truncates: bool
    claimed: frozenset[str]

    def write(self, value: float) -> str:
        if np.isneginf(value):
            return "-inf"
        scaled = round(value * 10**self.decimals, 6)
        number = np.trunc(scaled) if self.truncates else np.floor(scaled + 0.5)
        return f"{number / 10**self.decimals:.{self.decimals}f}"


def draw_style(rng: Rng, problem: Problem) -> Style:
    keys = [step.key for step in problem.asked_steps]
    if rng.random() < 0.4:
        keys = [key for key in keys if rng.random() < 0.6] or keys[-1:]
    decimals = int(rng.choice([2, 3, 4]))
    return Style(decimals, bool(rng.random() < 0.3), frozenset(keys))


def write_solution(
    problem: Problem, style: Style, wrong: Mapping[str, Any] | None = None
) -> dict[str, list[list[str]]]:
    """Solve step by step from the written numbers; `wrong` operations replace those of steps."""
    env, claims = dict(problem.given), {}
    for step in problem.steps:
        op = (wrong or {}).get(step.key, step.op)
        with np.errstate(all="ignore"):
            mid = op.compute(env).mid
        if step.key in style.claimed:
            whole = bool(step.labels) or is_whole(mid)
            texts = [[f"{v:.0f}" if whole else style.write(v) for v in row] for row in mid]
            claims[step.key] = problem.orient(np.array(texts)).tolist()
            mid = np.array([[float(text) for text in row] for row in texts])
        env[step.key] = IntervalMatrix.exact(mid)
    return claims


def is_whole(matrix: np.ndarray) -> bool:
    finite = matrix[np.isfinite(matrix)]
    return bool((np.abs(finite - np.round(finite)) < 1e-9).all())


def check(fields: dict[str, Any], problem: Problem, claims: Mapping[str, Any]) -> Report:
    return Problem(**fields, claim=nest_claims(problem, claims)).check()


def assert_honest_is_right(draw: Draw, count: int, seed: int) -> None:
    """Check `count` solutions without a mistake, in random styles and both conventions."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        fields = draw(rng)
        problem = Problem(**fields)
        style = draw_style(rng, problem)
        claims = write_solution(problem, style)
        report = check(fields, problem, claims)
        assert report.verdict == "right", (fields, style, claims, report.summarize())


def find_first_visible(
    right: Mapping[str, Any], wrong: Mapping[str, Any], style: Style
) -> str | None:
    """Return the first step that a mistake changes by more than rounding."""
    for key, texts in wrong.items():
        if texts != right[key]:
            a, b = (np.array(matrix, dtype=float) for matrix in (texts, right[key]))
            if not np.isfinite(a).all() or not np.isfinite(b).all():
                return None
            units = 1.0 if is_whole(a) and is_whole(b) else 10.0**-style.decimals
            enough = 1 if units == 1.0 else MIN_UNITS
            return key if np.abs(a - b).max() >= enough * units else None
    return None


def count_named(draw: Draw, count: int, seed: int) -> dict[str, tuple[int, int]]:
    """Plant every mistake up to `count` times; return how often it was named, and planted."""
    rng = np.random.default_rng(seed)
    counts: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        fields = draw(rng)
        problem = Problem(**fields)
        mistakes: dict[str, list[Mistake]] = {}
        for mistake in list_mistakes(problem, [step.key for step in problem.steps]):
            mistakes.setdefault(mistake.name, []).append(mistake)
        for name, variants in mistakes.items():
            result = _plant(rng, fields, problem, variants[rng.integers(len(variants))])
            if result is not None:
                named, planted = counts.get(name, (0, 0))
                counts[name] = (named + result, planted + 1)
    return counts


def _plant(rng: Rng, fields: dict[str, Any], problem: Problem, mistake: Mistake) -> bool | None:
    """Return whether a planted mistake is named in its step; None if it does not show."""
    style = draw_style(rng, problem)
    right = write_solution(problem, style)
    try:
        wrong = write_solution(problem, style, mistake.ops)
    except ValueError:  # the mistake does not fit the shapes
        return None
    if any(np.shape(wrong[key]) != np.shape(right[key]) for key in right):
        return None
    key = find_first_visible(right, wrong, style)
    if key is None or (key not in mistake.ops and set(mistake.ops) & style.claimed):
        return None
    numbers = [np.array(texts, dtype=float) for texts in wrong.values()]
    if not all((np.abs(matrix) < MAX_WRITTEN).all() for matrix in numbers):
        return None
    first = check(fields, problem, wrong).first
    if first is None or first.key != key:
        return None
    return mistake.name in [cause.name for cause in first.causes]


def assert_mistakes_are_named(draw: Draw, count: int, seed: int, least_names: int = 6) -> None:
    """Every mistake that shows is named in at least 95 % of the solutions it is planted in."""
    counts = count_named(draw, count, seed)
    total = sum(planted for _, planted in counts.values())
    missed = {name: (a, b) for name, (a, b) in counts.items() if a < b}
    assert len(counts) >= least_names, counts
    assert sum(b - a for a, b in missed.values()) <= 0.05 * total, missed


def solve_rows(fields: dict[str, Any]) -> dict[str, np.ndarray]:
    """Solve a problem and return every asked step with vectors as rows."""
    problem = Problem(**fields)
    solution = problem.solve()
    return {
        step.key: solution[step.key].T if problem.column_vectors else solution[step.key]
        for step in problem.asked_steps
    }


def transpose(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields in the convention of column vectors."""
    matrices = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    return {**matrices, "vectors": "columns"}
