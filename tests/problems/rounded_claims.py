"""Worked solutions as people write them: rounded or truncated at every step, with mistakes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from workings import Problem
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds import KINDS
from workings.problems.ops import Op

Rng = np.random.Generator
Texts = list[list[str]]


@dataclass(frozen=True)
class RoundingStyle:
    """How numbers are written, and whether the next step starts from the rounded ones."""

    decimals: int
    truncates: bool = False
    carries_rounded: bool = True

    def write(self, value: float) -> str:
        scale = 10**self.decimals
        if self.truncates:  # a number next to a multiple is that multiple
            value = np.trunc(value * scale + np.sign(value) * 1e-7) / scale
        text = f"{value:.{self.decimals}f}"
        return text.removeprefix("-") if float(text) == 0 else text


def draw_style(rng: Rng) -> RoundingStyle:
    """Draw two to four decimals, rounded or truncated, carried on rounded or exact."""
    return RoundingStyle(int(rng.integers(2, 5)), *(bool(v) for v in rng.random(2) < (0.25, 0.6)))


def write_claims(
    problem: Problem,
    style: RoundingStyle,
    claimed: Collection[str],
    wrong: Mapping[str, Op] | None = None,
) -> dict[str, Texts]:
    """Return the claimed steps as written, vectors as rows; `wrong` replaces operations."""
    env, texts = dict(problem.given), dict[str, Texts]()
    for step in problem.steps:
        op = (wrong or {}).get(step.key, step.op)
        with np.errstate(all="ignore"):
            env[step.key] = op.compute(env).point
        if not np.isfinite(env[step.key].mid).all():  # the logarithm of a number rounded to zero
            env[step.key] = op.compute(problem.exact_matrices).point
        if step.key in claimed:
            texts[step.key] = [[style.write(v) for v in row] for row in env[step.key].mid]
            if style.carries_rounded:
                env[step.key] = IntervalMatrix.exact(np.array(texts[step.key], dtype=float))
    return texts


def add_claims(fields: Mapping[str, Any], texts: Mapping[str, Texts]) -> Problem:
    """Return the problem of these fields with claims, written in its convention."""
    claim: dict[str, Any] = {}
    for key, rows in texts.items():
        cells = rows if fields.get("vectors") != "columns" else np.array(rows).T.tolist()
        name, _, part = key.partition(".")
        table = claim
        if part:
            part_name = KINDS[fields["kind"]].part_name
            table = claim.setdefault(part_name, {}).setdefault(part, {})
        table[name] = cells
    return Problem(**fields, claim=claim)


def draw_matrix(rng: Rng, rows: int, columns: int, largest: float = 1.5) -> np.ndarray:
    """Draw a matrix of numbers with one decimal, none of them zero."""
    cells = np.maximum(np.round(rng.uniform(0.1, largest, (rows, columns)), 1), 0.1)
    return cells * rng.choice([-1, 1], (rows, columns))


def orient_fields(fields: Mapping[str, Any], columns: bool) -> dict[str, Any]:
    """Return the fields of a problem with every convention declared, in rows or columns."""
    if not columns:
        return {**fields, "vectors": "rows"}
    transposed = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    return {**transposed, "vectors": "columns"}
