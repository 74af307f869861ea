"""The tree of a search: every hypothesis that was extended, and which ones were kept."""

from dataclasses import dataclass

import numpy as np

from workings.display import Renderable
from workings.errors import UserError
from workings.problems.kinds.beam_search import BEAM_SEARCH
from workings.problems.labels import get_label
from workings.problems.problem import Problem

MAX_CHILDREN = 6  # drawn below a hypothesis, besides those that are kept


@dataclass(frozen=True)
class SearchNode:
    """A hypothesis extended by a token; `rank` is its place among those kept, from 1."""

    token: str
    score: float
    rank: int | None
    is_best: bool  # on the path of the best hypothesis
    children: tuple["SearchNode", ...] = ()
    num_hidden: int = 0  # further children that are not drawn

    @property
    def is_kept(self) -> bool:
        """True if the hypothesis is extended further, or is among the last ones."""
        return self.rank is not None


@dataclass(frozen=True)
class SearchTree(Renderable):
    """The extensions of the empty hypothesis; `in_logs`: scores are log probabilities."""

    title: str
    beams: int
    in_logs: bool
    root: SearchNode


def build_search_tree(problem: Problem) -> SearchTree:
    """Return the tree of a problem of kind beam_search.

    >>> problem = Problem(kind="beam_search", table=[[0.6, 0.4]], beams=1, tokens=["yes", "no"])
    >>> [(node.token, node.rank) for node in build_search_tree(problem).root.children]
    [('yes', 1), ('no', None)]
    """
    if problem.kind is not BEAM_SEARCH:
        raise UserError(f"a tree is drawn of kind beam_search, not of {problem.kind.name}")
    options = problem.setting.options
    root = _TreeBuilder(problem).extend((), 1)
    return SearchTree(problem.title, options["beams"], options["scores"] == "log", root)


class _TreeBuilder:
    """Builds the tree from the exact scores and hypotheses of every time."""

    def __init__(self, problem: Problem) -> None:
        self.labels = problem.get_step("best").labels
        exact = problem.exact_matrices
        self.num_times = sum(step.name == "beams" for step in problem.steps)
        self.scores = {t: exact[f"scores.{t}"].mid for t in range(1, self.num_times + 1)}
        self.ranks = {
            tuple(row): k + 1
            for t in range(1, self.num_times + 1)
            for k, row in enumerate(np.rint(exact[f"beams.{t}"].mid).astype(int).tolist())
        }
        self.best = tuple(np.rint(exact["best"].mid[0]).astype(int).tolist())
        self.impossible = -np.inf if problem.setting.options["scores"] == "log" else 0.0

    def extend(self, prefix: tuple[int, ...], rank: int | None, score: float = 0.0) -> SearchNode:
        """Return the node of a hypothesis with everything below it."""
        time, children = len(prefix) + 1, list[SearchNode]()
        if rank is not None and time <= self.num_times:
            row = self.scores[time][rank - 1 if prefix else 0]
            for token in range(1, len(row) + 1):
                own = float(row[token - 1])
                if own > self.impossible:
                    extended = (*prefix, token)
                    children.append(self.extend(extended, self.ranks.get(extended), own))
        others = sorted((c.score for c in children if not c.is_kept), reverse=True)
        floor = others[MAX_CHILDREN - 1] if len(others) > MAX_CHILDREN else -np.inf
        visible = tuple(c for c in children if c.is_kept or c.score >= floor)
        return SearchNode(
            get_label(prefix[-1], self.labels) if prefix else "",
            score,
            rank if prefix else None,
            prefix == self.best[: len(prefix)],
            visible,
            len(children) - len(visible),
        )
