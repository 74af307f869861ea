"""The mistakes that a problem has room for, step by step: what they lead to differs from the right.

This is the only place where sheets look into the catalogue of mistakes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workings.problems.make.by_hand import Env, asked
from workings.problems.mistakes import mistakes
from workings.problems.ops import Op
from workings.problems.problem import Problem


@dataclass(frozen=True)
class Wrong:
    """A wrong way to work one step out."""

    name: str
    key: str
    op: Op
    says: str


def wrong_ways(problem: Problem) -> list[Wrong]:
    """List the mistakes that can be made in one step, the steps before it being right."""
    return [wrong for wrong in _listed(problem) if _differs(problem, wrong)]


def _listed(problem: Problem) -> Iterator[Wrong]:
    for mistake in mistakes(problem, [step.key for step in asked(problem)]):
        if len(mistake.ops) == 1:  # not the same one in several heads or times at once
            ((key, op),) = mistake.ops.items()
            yield Wrong(mistake.name, key, op, mistake.says)


def _differs(problem: Problem, wrong: Wrong) -> bool:
    """Say whether it can be computed at all, to the right shape but not to the right numbers."""
    exact: Env = problem.exact
    try:
        with np.errstate(all="ignore"):
            result = wrong.op.compute(exact)
    except (ValueError, KeyError):  # matrices that do not fit together
        return False
    right = exact[wrong.key]
    return result.shape == right.shape and not np.allclose(
        result.mid, right.mid, rtol=0, atol=1e-12
    )
