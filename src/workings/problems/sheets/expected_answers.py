"""The wrong numbers that a quiz expects: what each named mistake leads to, cell by cell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workings.languages import gettext
from workings.problems.intervals import Floats
from workings.problems.problem import Problem
from workings.problems.sheets.mistake_space import StepMistake, list_step_mistakes
from workings.problems.sheets.rounded_solution import format_fixed, solve_rounded

_MAX_ALTERNATIVES = 3  # mistakes that one message names


@dataclass(frozen=True)
class ExpectedMistake:
    """A wrong number of one cell, give or take `tolerance`, and the mistakes that lead to it."""

    text: str
    spellings: tuple[str, ...]  # 0.5 and 0.500, for boxes that compare texts
    tolerance: float
    names: tuple[str, ...]
    description: str

    @property
    def value(self) -> float:
        """The wrong number."""
        return float(self.text)


def list_expected_mistakes(
    problem: Problem, keys: Sequence[str], tolerances: dict[str, list[list[float]]], decimals: int
) -> dict[str, list[list[list[ExpectedMistake]]]]:
    """Return for every cell of the steps the wrong numbers that named mistakes lead to.

    Each mistake is made in one step, with right numbers before it, as that is the first wrong one.
    A message must be true of everyone who gets it: a number within the tolerance of the right one
    has none, and mistakes with numbers that may be confused have one together.
    """
    env = solve_rounded(problem, decimals)
    mistakes: dict[str, list[tuple[StepMistake, Floats]]] = {key: [] for key in keys}
    for mistake in list_step_mistakes(problem):
        if mistake.key in mistakes and not problem.get_step(mistake.key).labels:
            with np.errstate(all="ignore"):
                result = problem.orient(mistake.op.compute(env).mid)
            mistakes[mistake.key].append((mistake, result))
    expected = {}
    for key in keys:
        exact = problem.orient(problem.exact_matrices[key].mid)
        expected[key] = [
            [
                list(
                    _list_for_cell(
                        float(exact[i, j]),
                        [(mistake, float(result[i, j])) for mistake, result in mistakes[key]],
                        tolerances[key][i][j],
                        decimals,
                    )
                )
                for j in range(exact.shape[1])
            ]
            for i in range(exact.shape[0])
        ]
    return expected


def _list_for_cell(
    exact: float, results: Sequence[tuple[StepMistake, float]], tolerance: float, decimals: int
) -> Iterator[ExpectedMistake]:
    """Yield the wrong numbers of a cell in order."""
    tolerance = max(tolerance, 10.0**-decimals)
    groups: dict[str, list[StepMistake]] = {}
    for mistake, value in results:
        if np.isfinite(value) and not abs(value - exact) <= 2 * tolerance:
            groups.setdefault(format_fixed(value, decimals), []).append(mistake)
    for texts in _cluster(sorted(groups, key=float), 2 * tolerance):
        mistakes = [mistake for text in texts for mistake in groups[text]]
        descriptions = dict.fromkeys(mistake.description for mistake in mistakes)
        if len(descriptions) > _MAX_ALTERNATIVES:
            continue
        sentence = gettext(" or ").join(descriptions)
        names = tuple(dict.fromkeys(mistake.name for mistake in mistakes))
        for text in texts:
            shortest = text.rstrip("0").rstrip(".") if "." in text else text
            yield ExpectedMistake(
                shortest,
                tuple(dict.fromkeys((shortest, text))),
                tolerance,
                names,
                f"{sentence[:1].upper()}{sentence[1:]}.",
            )


def _cluster(numbers: Sequence[str], distance: float) -> list[list[str]]:
    """Return sorted numbers in groups whose neighbors are at most a distance apart."""
    clusters: list[list[str]] = []
    for text in numbers:
        if clusters and float(text) - float(clusters[-1][-1]) <= distance:
            clusters[-1].append(text)
        else:
            clusters.append([text])
    return clusters
