"""Runs for the tests of the page: every kind of model, as small as possible."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from workings.config import build, to_table, to_toml
from workings.recipes import (
    CaptionRecipe,
    ClassificationRecipe,
    LanguageRecipe,
    Recipe,
    TranslationRecipe,
)
from workings.training.runs import train_recipe

TEXT = 'She said "well, well" and\nwent <on>. "Yes," he (who else) said.\n\n'
WORDS = {"one": "un", "two": "deux", "cat": "chat", "dog": "chien", "red": "rouge"}
TRANSFORMER = {"kind": "transformer", "d_model": 8, "d_ff": 8, "layers": 2, "heads": 2}
RECURRENT = {"kind": "recurrent", "d_model": 8, "hidden_size": 8}
ONE_EPOCH = {"epochs": 1, "batch_size": 8}
MARKUP = '<img src=x onerror=alert(1)> "quoted" & \u202e'
"""Text that must be shown as text, never as markup."""


def train_small_runs(folder: Path) -> dict[str, Path]:
    """Train one run of each kind; return their folders by name."""
    learned = {**TRANSFORMER, "positions": "learned", "max_positions": 64}
    recipes: dict[str, Recipe] = {
        "gpt": _language_recipe(folder, learned, title="A small one"),
        "rotary": _language_recipe(folder, TRANSFORMER),
        "lstm": _language_recipe(folder, {**RECURRENT, "hidden_size": 6}),
        "fruit": _classification_recipe(folder),
        "french": _translation_recipe(folder, {**TRANSFORMER, "share_embeddings": False}),
        "french-rnn": _translation_recipe(folder, RECURRENT),
        "squares": _caption_recipe(folder, RECURRENT),
        "grids": _caption_recipe(folder, TRANSFORMER),
    }
    for name, recipe in recipes.items():
        train_recipe(recipe, folder / name, mode="quiet")
    return {name: folder / name for name in recipes}


def write_new_run(folder: Path) -> Path:
    """Write the recipe of a run of four epochs whose training has not begun."""
    table = {
        "title": MARKUP,
        "train": {"epochs": 4, "learning_rate": 0.02},
        "data": {"set": "toy.csv"},
    }
    folder.mkdir()
    recipe = to_table(build(ClassificationRecipe, table))
    (folder / "config.toml").write_text(to_toml(recipe), encoding="utf-8")
    return folder


def step_record(step: int, loss: float, epoch: int = 1, steps: int = 1200) -> dict[str, Any]:
    """Return a record of a training log after a step, with 300 steps per epoch."""
    progress = {"epoch": epoch, "step": step, "steps": steps, "seconds": step / 50}
    examples = 64 * (step - 300 * (epoch - 1))
    return {"kind": "step", **progress, "examples": examples, "train_loss": loss}


def epoch_record(epoch: int, loss: float) -> dict[str, Any]:
    """Return a record of a training log after an epoch."""
    progress = {"epoch": epoch, "step": 300 * epoch, "seconds": 6.0 * epoch}
    metrics = {"train_loss": loss, "validation_loss": loss + 0.25, "validation_accuracy": 1 - loss}
    return {"kind": "epoch", **progress, "evaluation_seconds": 0.5, **metrics}


def append_to_log(run: Path, *records: dict[str, Any]) -> None:
    """Append records to the log of a run."""
    with (run / "log.jsonl").open("a", encoding="utf-8") as log:
        log.writelines(json.dumps(record) + "\n" for record in records)


def _language_recipe(folder: Path, model: dict[str, Any], title: str = "") -> LanguageRecipe:
    text = folder / "text.txt"
    text.write_text(TEXT * 20, encoding="utf-8")
    data = {"set": str(text), "context_length": 16, "eval_every": 3, "sample": 0}
    table = {"title": title, "data": data, "model": model, "train": ONE_EPOCH}
    return build(LanguageRecipe, table)


def _classification_recipe(folder: Path) -> ClassificationRecipe:
    words = {"fruit": ["fig", "pear", "plum"], "metal": ["tin", "iron", "<b>"]}
    lines = [
        json.dumps({"text": " ".join(triple), "label": label})
        for label, choices in words.items()
        for triple in product(choices, repeat=3)
    ]
    (folder / "fruit.jsonl").write_text("\n".join(lines), encoding="utf-8")
    data = {"set": str(folder / "fruit.jsonl")}
    return build(ClassificationRecipe, {"data": data, "model": TRANSFORMER, "train": ONE_EPOCH})


def _translation_recipe(folder: Path, model: dict[str, Any]) -> TranslationRecipe:
    lines = [
        f"{' '.join(triple)}\t{' '.join(WORDS[word] for word in reversed(triple))}"
        for triple in product(WORDS, repeat=3)
    ]
    (folder / "pairs.tsv").write_text("\n".join(["en\tfr", *lines]) + "\n", encoding="utf-8")
    table = {
        "task": "translate",
        "data": {"set": str(folder / "pairs.tsv"), "source": "en", "target": "fr"},
        "tokenizer": {"kind": "words", "shared_vocab": False},
        "model": model,
        "search": {"beams": 2},
        "train": {"epochs": 1, "batch_size": 200},
    }
    return build(TranslationRecipe, table)


def _caption_recipe(folder: Path, model: dict[str, Any]) -> CaptionRecipe:
    from PIL import Image

    (folder / "pictures").mkdir(exist_ok=True)
    lines = ["image,caption"]
    for k, gray in enumerate(range(0, 240, 8)):
        pixels = np.full((32, 32, 3), gray, np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{k}.png")
        lines.append(f"{k}.png,a {'dark' if gray < 120 else 'light'} square")
    captions = folder / "pictures" / "captions.txt"
    captions.write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = {
        "task": "caption",
        "data": {"set": str(captions), "image_size": 32, "validation": 0.2},
        "model": {**model, "channels": [8, 8]},
        "search": {"beams": 1, "max_length": 6},
        "train": ONE_EPOCH,
    }
    return build(CaptionRecipe, table)
