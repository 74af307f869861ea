"""Answers to other texts, by which work on texts is told from the answers of a neighbor.

Tables of texts have few different numbers: half of the answers to other texts are right by chance,
and neighboring cells agree together. So an answer is compared with simulated ones: it shows work if
it has fewer wrong numbers than nearly all answers to other texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from workings.errors import UserError
from workings.problems.check import check_problem
from workings.problems.intervals import Bools
from workings.problems.problem import Problem
from workings.problems.sheets.rounded_solution import make_answer_key, nest_claims
from workings.problems.sheets.text_sheets import draw_text_pair, draw_translation

_NUM_PEERS = 40
# Of the peers that may have as few wrong numbers. In tables of n-grams most numbers are 1 or 0.
_MAX_SHARE, _MAX_SHARE_OF_NGRAMS = 0.08, 0.04
_PAIRS = (
    ("reference", "hypothesis", draw_text_pair),
    ("reference", "candidate", draw_text_pair),
    ("references", "candidate", draw_translation),
)


def draw_other_texts(given: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return pairs of texts of the same lengths, as sheets draw them; [] if the givens are none."""
    rng = Random("unrelated texts")  # noqa: S311
    for first, second, draw in _PAIRS:
        texts = given.get(first), given.get(second)
        if all(isinstance(text, str) and len(text.split()) > 1 for text in texts):
            sizes = [len(str(text).split()) for text in texts]
            pairs = (draw(rng, *sizes) for _ in range(_NUM_PEERS))
            return [dict(zip((first, second), pair, strict=True)) for pair in pairs]
    return []


@dataclass(frozen=True)
class TextPeers:
    """Solutions of problems with other texts, judged as answers to this problem."""

    problem: Problem
    others: list[Problem]
    decimals: int

    @cached_property
    def _wrong_cells(self) -> list[dict[str, Bools]]:
        """The cells of each solution that are wrong here, by step."""
        return [self._find_wrong_cells(other) for other in self.others]

    def _find_wrong_cells(self, other: Problem) -> dict[str, Bools]:
        exact = self.problem.exact_matrices
        claims = {
            key: texts
            for key, texts in make_answer_key(other, self.decimals).items()
            if key in exact and exact[key].mid.shape == other.exact_matrices[key].mid.shape
        }
        table = {**self.problem.table, "claim": nest_claims(self.problem, claims)}
        # A solution of another shape is wrong everywhere.
        wrong = {step.key: np.ones_like(exact[step.key].mid, bool) for step in self.problem.steps}
        try:
            report = check_problem(Problem(**table), self.decimals)
        except UserError:
            return wrong
        return {**wrong, **{c.step.key: np.equal(c.verdicts, "wrong") for c in report.steps}}

    def has_varying_size(self, key: str) -> bool:
        """Return True if a step has more rows for some texts than for others."""
        shapes = {other.exact_matrices[key].mid.shape for other in self.others}
        return len(shapes | {self.problem.exact_matrices[key].mid.shape}) > 1

    def is_better_than_most(self, filled: Mapping[str, Bools], num_wrong: int) -> bool:
        """Return True if nearly all peers have more wrong numbers in the cells that are filled."""
        counts = [
            sum(int(wrong[key][cells].sum()) for key, cells in filled.items())
            for wrong in self._wrong_cells
        ]
        share = _MAX_SHARE_OF_NGRAMS if "references" in self.problem.table["given"] else _MAX_SHARE
        return sum(count <= num_wrong for count in counts) <= share * len(counts)
