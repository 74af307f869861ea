"""A language whose words come in reverse order: its pairs, and a recipe for them."""

import random

from workings.config import build, override
from workings.recipes import TranslationRecipe

WORDS = {"one": "un", "two": "deux", "six": "six", "ten": "dix", "cat": "chat", "dog": "chien"}


def write_pairs(path, count=1200):
    """Sentences of two to five words, and their words translated, the last one first."""
    draw = random.Random(0)  # noqa: S311
    some = {tuple(draw.choices(list(WORDS), k=draw.randint(2, 5))) for _ in range(count)}
    lines = [f"{' '.join(s)}\t{' '.join(WORDS[w] for w in reversed(s))}" for s in sorted(some)]
    draw.shuffle(lines)
    path.write_text("\n".join(["en\tfr", *lines]) + "\n")
    return path


def recipe_for(pairs, *changes):
    width = "d_ff" if "transformer" in changes else "hidden_size"
    table = {
        "task": "translate",
        "seed": 1,
        "data": {"set": str(pairs), "source": "en", "target": "fr"},
        "tokenizer": {"kind": "words", "shared_vocab": False},
        "model": {"kind": "recurrent", "d_model": 24, width: 32, "dropout": 0.0},
        "search": {"beams": 3},
        "train": {"epochs": 12, "batch_size": 200, "learning_rate": 0.01, "schedule": "cosine"},
    }
    return build(TranslationRecipe, override(table, changes))
