"""What a cell reads, and how errors are carried on."""

from pathlib import Path

import numpy as np
import pytest

from workings import Problem
from workings.problems.derivation import find_error_links, find_inputs

LECTURES = Path(__file__).parents[2] / "lectures"


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("columns", [False, True])
def test_what_a_cell_reads_is_what_changes_it(heads: int, columns: bool) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    if columns:
        x, w = x.T.copy(), w.T.copy()
    fields = {"heads": heads, "vectors": "columns" if columns else "rows"}
    problem = Problem(X=x, W_Q=w, **fields)
    for block in find_inputs(problem, "Q", 1, 2):
        for i, j in np.ndindex(x.shape if block.key == "X" else w.shape):
            changed = {"X": x.copy(), "W_Q": w.copy()}
            changed[block.key][i, j] += 1
            same = Problem(**changed, **fields).solve()["Q"][1, 2] == problem.solve()["Q"][1, 2]
            assert same != (i in block.rows and j in block.columns)


def test_hidden_parts_are_looked_through() -> None:
    problem = Problem(X=[[1, 2, 0, 1], [3, 1, 1, 1]], heads=2, scale="none")
    blocks = {block.key: block for block in find_inputs(problem, "scores.2", 1, 0)}
    assert (blocks["Q"].rows, blocks["Q"].columns) == ([1], [2, 3])
    assert (blocks["K"].rows, blocks["K"].columns) == ([0], [2, 3])


def test_errors_are_carried_from_claim_to_claim() -> None:
    report = Problem.load(LECTURES / "L2-self.toml").check()
    links = [(link.source, link.cell, link.target) for link in find_error_links(report)]
    assert links == [("scores", (1, 2), "weights"), ("weights", (1, 0), "mixed")]
    for link in find_error_links(report):
        assert report[link.target][link.first[0]][link.first[1]] == "follows"
        assert report[link.source][link.cell[0]][link.cell[1]] in ("wrong", "follows")
