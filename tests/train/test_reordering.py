"""French puts most adjectives behind their nouns: the built-in translator looks where they were."""

from pathlib import Path

import pytest

from workings.lens.alignments import alignment
from workings.recipes import read_recipe
from workings.train.runs import train

RECIPE = Path(__file__).parents[2] / "recipes" / "emoji-french.toml"
REORDERED = {
    "red heart": ("cœur", "rouge"),
    "green heart": ("cœur", "vert"),
    "yellow heart": ("cœur", "jaune"),
    "blue book": ("livre", "bleu"),
    "white flag": ("drapeau", "blanc"),
}


@pytest.mark.slow
def test_the_largest_weights_leave_the_diagonal(tmp_path):
    task = train(read_recipe(RECIPE), tmp_path / "run", mode="quiet")
    crossed = 0
    for source, expected in REORDERED.items():
        found = alignment(task, source, whole_words=True)
        assert (found.rows[0], found.rows[1]) == expected
        noun, adjective = (list(row[:2]) for row in found.maps[0].weights[:2])
        crossed += noun[1] > noun[0] and adjective[0] > adjective[1]
    assert crossed >= 4
