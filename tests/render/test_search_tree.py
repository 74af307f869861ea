"""The tree of a search: its nodes, its text and its picture."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from workings import Problem
from workings.cli import main
from workings.errors import UserError
from workings.problems.search_tree import MAX_CHILDREN, SearchNode, build_search_tree

SEARCH = """
title = "A <small> search"
kind = "beam_search"
tokens = ["a", "<b>", "</s>"]
[given]
beams = 2
length = 2
start = [0.6, 0.3, 0.1]
P = [[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]]
"""


def list_nodes(node: SearchNode) -> list[SearchNode]:
    return [node, *(other for child in node.children for other in list_nodes(child))]


@pytest.mark.parametrize("scores", ["log", "probability"])
@pytest.mark.parametrize("beams", [1, 2, 3])
def test_the_tree_has_the_numbers_of_the_solution(scores: str, beams: int) -> None:
    fields: dict[str, Any] = {"table": [[0.5, 0.3, 0.2], [0.1, 0.7, 0.2]], "beams": beams}
    problem = Problem(kind="beam_search", **fields, scores=scores)
    solution, root = problem.solve(), build_search_tree(problem).root
    assert [child.score for child in root.children] == solution["scores", 1][0].tolist()
    kept = [node for child in root.children for node in child.children if node.is_kept]
    kept.sort(key=lambda node: node.rank or 0)
    assert [node.score for node in kept] == pytest.approx(solution["totals", 2][:, 0].tolist())
    path = [node.token for node in list_nodes(root) if node.is_best and node.token]
    assert path == [str(int(token)) for token in solution["best"][0]]


def test_many_tokens_are_not_all_drawn() -> None:
    count = 20
    row = [(k + 1) / 210 for k in range(count)]
    root = build_search_tree(Problem(kind="beam_search", table=[row], beams=2)).root
    assert len(root.children) == MAX_CHILDREN + 2
    assert root.num_hidden == count - MAX_CHILDREN - 2


def test_text_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "search.toml", tmp_path / "tree.svg"
    file.write_text(SEARCH)
    assert main(["solve", str(file), "--tree"]) == 0
    text = capsys.readouterr().out
    assert "├─ a −0.511  [1] ★" in text
    assert "└─ </s> −2.303" in text
    assert main(["solve", str(file), "--tree", "--out", str(picture)]) == 0
    svg = ElementTree.fromstring(picture.read_text())  # noqa: S314 - written above
    labels = ["".join(element.itertext()) for element in svg.iter() if element.tag.endswith("text")]
    assert {"start", "<b>", "</s>", "−0.511"} <= set(labels)
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    for element in svg.iter():
        if element.tag.endswith("text"):
            assert 0 <= float(element.attrib["x"]) <= width
            assert 0 <= float(element.attrib["y"]) <= height


def test_only_searches_have_a_tree() -> None:
    with pytest.raises(UserError, match="a tree is drawn of kind beam_search, not of sampling"):
        build_search_tree(Problem(kind="sampling", p=[0.5, 0.5]))
