"""Runs for the tests of the workbench: every kind of model, as small as can be."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from workings.config import build
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
ONCE = {"epochs": 1, "batch_size": 8}


def small_runs(folder: Path) -> dict[str, Path]:
    """Train all of them into a folder."""
    learned = {**TRANSFORMER, "positions": "learned", "max_positions": 64}
    made: dict[str, Recipe] = {
        "gpt": _language(folder, learned, title="A small one"),
        "rotary": _language(folder, TRANSFORMER),
        "lstm": _language(folder, {"kind": "recurrent", "d_model": 8, "hidden_size": 6}),
        "fruit": _classify(folder),
        "french": _translate(folder, {**TRANSFORMER, "share_embeddings": False}),
        "looks": _translate(folder, {"kind": "recurrent", "d_model": 8, "hidden_size": 8}),
        "squares": _caption(folder, {"kind": "recurrent", "d_model": 8, "hidden_size": 8}),
        "grids": _caption(folder, TRANSFORMER),
    }
    for name, recipe in made.items():
        train_recipe(recipe, folder / name, mode="quiet")
    return {name: folder / name for name in made}


def _language(folder: Path, model: dict[str, Any], title: str = "") -> LanguageRecipe:
    text = folder / "text.txt"
    text.write_text(TEXT * 20, encoding="utf-8")
    data = {"set": str(text), "context_length": 16, "eval_every": 3, "sample": 0}
    return build(LanguageRecipe, {"title": title, "data": data, "model": model, "train": ONCE})


def _classify(folder: Path) -> ClassificationRecipe:
    words = {"fruit": ["fig", "pear", "plum"], "metal": ["tin", "iron", "<b>"]}
    lines = [
        json.dumps({"text": " ".join(some), "label": label})
        for label, of in words.items()
        for some in product(of, repeat=3)
    ]
    (folder / "fruit.jsonl").write_text("\n".join(lines), encoding="utf-8")
    data = {"set": str(folder / "fruit.jsonl")}
    return build(ClassificationRecipe, {"data": data, "model": TRANSFORMER, "train": ONCE})


def _translate(folder: Path, model: dict[str, Any]) -> TranslationRecipe:
    lines = [
        f"{' '.join(some)}\t{' '.join(WORDS[w] for w in reversed(some))}"
        for some in product(WORDS, repeat=3)
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


def _caption(folder: Path, model: dict[str, Any]) -> CaptionRecipe:
    from PIL import Image

    (folder / "pictures").mkdir(exist_ok=True)
    lines = ["image,caption"]
    for k, grey in enumerate(range(0, 240, 8)):
        pixels = np.full((32, 32, 3), grey, np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{k}.png")
        lines.append(f"{k}.png,a {'dark' if grey < 120 else 'light'} square")
    captions = folder / "pictures" / "captions.txt"
    captions.write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = {
        "task": "caption",
        "data": {"set": str(captions), "image_size": 32, "validation": 0.2},
        "model": {**model, "channels": [8, 8]},
        "search": {"beams": 1, "max_length": 6},
        "train": ONCE,
    }
    return build(CaptionRecipe, table)
