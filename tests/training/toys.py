"""Small datasets for tests, recipes that learn them in seconds, and what their runs wrote."""

import json
import random
from pathlib import Path

import numpy as np

from workings.recipes import build_recipe
from workings.training.logging import read_log

KINDS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "fig"],
    "metal": ["iron", "zinc", "tin", "lead", "gold", "copper"],
}
ENGLISH_FRENCH = {
    "one": "un", "two": "deux", "six": "six", "ten": "dix", "cat": "chat", "dog": "chien"
}  # fmt: skip
COLORS = {"red": (220, 30, 30), "green": (30, 160, 60), "blue": (40, 80, 220)}
TRANSFORMER = {"kind": "transformer", "d_model": 16, "layers": 1, "heads": 2, "dropout": 0.1}


def write_texts(path, words=6, last_words=3):
    """Write labeled texts of three words, all fruit or all metal."""
    lines = [
        json.dumps({"text": f"{a} {b} {c}", "label": label})
        for label, kind in KINDS.items()
        for a in kind[:words] for b in kind[:words] for c in kind[:last_words]
    ]  # fmt: skip
    path.write_text("\n".join(lines))
    return path


def texts_recipe(data, *overrides):
    """Return a recipe for labeled texts: three epochs of 11 steps."""
    width = "d_ff" if "transformer" in overrides else "hidden_size"
    table = {
        "data": {"set": str(data)},
        "model": {"kind": "recurrent", "d_model": 8, width: 8, "dropout": 0.2},
        "train": {
            "epochs": 3,
            "batch_size": 16,
            "learning_rate": 0.02,
            "average": "ema",
            "ema_decay": 0.9,
        },
    }
    return build_recipe(table, overrides)


def write_corpus(path):
    """Write a text that can be predicted, but not from the last character alone."""
    path.write_text("hello world, yellow mellow fellow\n" * 60)
    return path


def corpus_recipe(text, *overrides, model=TRANSFORMER):
    """Return a recipe for a Transformer language model: three epochs of 12 steps."""
    table = {
        "task": "language",
        "data": {"set": str(text), "context_length": 16, "eval_every": 12, "sample": 10},
        "model": model,
        "train": {"epochs": 3, "batch_size": 8, "learning_rate": 0.01},
    }
    return build_recipe(table, overrides)


def recurrent_recipe(text, *overrides, cell="lstm"):
    """Return a recipe for a recurrent language model."""
    model = {"kind": "recurrent", "cell": cell, "hidden_size": 24, "d_model": 8, "dropout": 0.1}
    return corpus_recipe(text, *overrides, model=model)


def write_pairs(path, count=1200):
    """Write sentences of two to five words with their translations, in reversed word order."""
    rng = random.Random(0)  # noqa: S311
    sentences = {
        tuple(rng.choices(list(ENGLISH_FRENCH), k=rng.randint(2, 5))) for _ in range(count)
    }
    lines = [
        f"{' '.join(s)}\t{' '.join(ENGLISH_FRENCH[w] for w in reversed(s))}"
        for s in sorted(sentences)
    ]
    rng.shuffle(lines)
    path.write_text("\n".join(["en\tfr", *lines]) + "\n")
    return path


def pairs_recipe(pairs, *overrides):
    """Return a recipe for a translator with attention: eight epochs."""
    width = "d_ff" if "transformer" in overrides else "hidden_size"
    table = {
        "task": "translate",
        "seed": 1,
        "data": {"set": str(pairs), "source": "en", "target": "fr"},
        "tokenizer": {"kind": "words", "shared_vocab": False},
        "model": {"kind": "recurrent", "d_model": 24, width: 32, "dropout": 0.0},
        "search": {"beams": 3},
        "train": {"epochs": 8, "batch_size": 200, "learning_rate": 0.01, "schedule": "cosine"},
    }
    return build_recipe(table, overrides)


def write_squares(folder):
    """Write images with one colored square each, left or right, and their captions."""
    from PIL import Image

    rng, lines = np.random.default_rng(0), ["image,caption"]
    for k in range(150):
        color, side = rng.choice(list(COLORS)), rng.choice(["left", "right"])
        pixels = np.full((32, 32, 3), 235, np.uint8)
        x, y = rng.integers(1, 7) + (16 if side == "right" else 0), rng.integers(2, 22)
        pixels[y : y + 8, x : x + 8] = COLORS[color]
        Image.fromarray(pixels).save(folder / f"{k}.png")
        lines += [f"{k}.png,a {color} square on the {side}", f"{k}.png,{color} on the {side}"]
    (folder / "captions.txt").write_text("\n".join(lines) + "\n")
    return folder / "captions.txt"


def squares_recipe(captions, *overrides):
    """Return a recipe for a captioner with attention: ten epochs of eight steps."""
    width = "d_ff" if "transformer" in overrides else "hidden_size"
    table = {
        "task": "caption",
        "seed": 1,
        "data": {"set": str(captions), "image_size": 16, "validation": 0.1},
        "model": {
            "kind": "recurrent",
            "channels": [16, 32],
            "d_model": 24,
            width: 32,
            "dropout": 0.0,
        },
        "search": {"beams": 2, "max_length": 12},
        "train": {"epochs": 10, "batch_size": 15, "learning_rate": 0.005, "schedule": "cosine"},
    }
    return build_recipe(table, overrides)


def weights(run):
    """Return the bytes of a run's best weights."""
    return (Path(run) / "model.safetensors").read_bytes()


def result(run):
    """Return a run's result."""
    return json.loads((Path(run) / "result.json").read_text())


def log_without_times(run):
    """Return the records of a run's log, without what differs between equal trainings."""
    records = read_log(Path(run) / "log.jsonl")
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


def newest_checkpoint(run):
    """Return the folder of a run's newest checkpoint."""
    return list_checkpoints(run)[-1]


def list_checkpoints(run):
    """Return the folders of a run's checkpoints, oldest first."""
    folders = (p for p in (Path(run) / "checkpoints").iterdir() if p.name[5:].isdigit())
    return sorted(folders, key=lambda p: int(p.name[5:]))
