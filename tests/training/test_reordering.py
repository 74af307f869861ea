"""French puts most adjectives behind their nouns: a translator looks where they were."""

import random
from itertools import product
from pathlib import Path

import pytest

from workings.config import build
from workings.interpret.attention_maps import compute_alignment
from workings.recipes import TranslationRecipe, read_recipe
from workings.training.runs import train_recipe

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
    task = train_recipe(read_recipe(RECIPE), tmp_path / "run", mode="quiet")
    crossed = 0
    for source, expected in REORDERED.items():
        found = compute_alignment(task, source, whole_words=True)
        assert (found.rows[0], found.rows[1]) == expected
        noun, adjective = (list(row[:2]) for row in found.maps[0].weights[:2])
        crossed += noun[1] > noun[0] and adjective[0] > adjective[1]
    assert crossed >= 4


AGREEMENTS = {"agreement": "accord", "treaty": "traité", "report": "rapport"}
ORIGINS = {"European": "européenne", "British": "britannique", "Russian": "russe"}
KINDS = {"Economic": "économique", "Political": "politique", "Historic": "historique"}
PLACES = {"Area": "zone", "Union": "union", "Crisis": "crise", "School": "école"}
MONTHS = {"August": "août", "May": "mai", "June": "juin", "March": "mars"}
LAST = "the agreement on the European Economic Area was signed in August"


def agreements(path):
    """Sentences like that of Bahdanau et al. (2015), figure 3, but for that one."""
    lines = []
    for words in product(AGREEMENTS, ORIGINS, KINDS, PLACES, MONTHS):
        what, origin, kind, place, month = words
        english = f"the {what} on the {origin} {kind} {place} was signed in {month}"
        tail = f"la {PLACES[place]} {KINDS[kind]} {ORIGINS[origin]} a été signé en {MONTHS[month]}"
        if english != LAST:
            lines.append(f"{english}\tle {AGREEMENTS[what]} sur {tail}")
    random.Random(0).shuffle(lines)  # noqa: S311
    path.write_text("\n".join(["en\tfr", *lines]) + "\n")
    return path


def test_the_european_economic_area_is_read_backwards(tmp_path):
    table = {
        "task": "translate",
        "seed": 1,
        "data": {"set": str(agreements(tmp_path / "pairs.tsv")), "source": "en", "target": "fr"},
        "tokenizer": {"kind": "words", "shared_vocab": False},
        "model": {"kind": "recurrent", "d_model": 24, "hidden_size": 32, "dropout": 0.0},
        "train": {"epochs": 12, "batch_size": 400, "learning_rate": 0.01, "schedule": "cosine"},
    }
    task = train_recipe(build(TranslationRecipe, table), tmp_path / "run", mode="quiet")
    found = compute_alignment(task, LAST)
    rows, columns = ([word.strip() for word in side] for side in (found.rows, found.columns))
    assert rows[:7] == ["le", "accord", "sur", "la", "zone", "économique", "européenne"]
    looked = {
        word: columns[max(range(len(columns)), key=weights.__getitem__)]
        for word, weights in zip(rows, found.maps[0].weights, strict=True)
    }
    backwards = {"zone": "area", "économique": "economic", "européenne": "european"}
    in_order = {"accord": "agreement", "août": "august"}
    assert {word: looked[word] for word in backwards | in_order} == backwards | in_order
