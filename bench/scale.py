"""Measure time and memory until the first step of a training, by the size of the data.

    python bench/scale.py [--only text] [--sizes 0.25,1,4] [--folder /tmp/scale]

Made-up data: words of Zipf's distribution, as a text, as pairs of sentences and as rows of CSV with
labels; and JPEGs of 96 × 96 pixels with captions in an archive. The sizes are factors of 100 MB of
text, 250,000 pairs, 250,000 rows and 10,000 pictures. Each measurement is
a process of its own that reads the data, trains the tokenizer, encodes the data and computes the
gradients of one batch: once with an empty cache, and once with that of the first time. The last
column is the peak of the resident memory. The data are removed afterwards. Writes
results/scale.json, where kinds that are not measured again stay as they are.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from report import save_parts

TEXT_BYTES, NUM_PAIRS, NUM_ROWS, NUM_PICTURES = 10**8, 250_000, 250_000, 10_000
PICTURES, PICTURE_SIZE = "pictures.zip", 96
NUM_WORDS = 60_000
CHUNK_WORDS = 10**6


def make_words() -> "np.ndarray[Any, Any]":
    """Return made-up words of two to five syllables; the frequent ones are short."""
    rng = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < NUM_WORDS:
        length = 1 + len(words) * 4 // NUM_WORDS + int(rng.integers(1, 3))
        words["".join(rng.choice(syllables, length))] = None
    return np.array(list(words), dtype=object)


def draw_words(words: "np.ndarray[Any, Any]", rng: np.random.Generator) -> list[str]:
    """Draw words of Zipf's distribution."""
    ranks = (NUM_WORDS ** rng.random(CHUNK_WORDS)).astype(np.int64) - 1
    return words[ranks].tolist()  # type: ignore[no-any-return]


def iter_sentences(seed: int, length: int) -> Any:
    """Yield sentences of about so many words, without end."""
    words, rng = make_words(), np.random.default_rng(seed)
    while True:
        drawn, start = draw_words(words, rng), 0
        for size in rng.integers(length // 2, length * 3 // 2, CHUNK_WORDS // length).tolist():
            if start + size > len(drawn):
                break
            yield drawn[start : start + size]
            start += size


def write_text(path: Path, factor: float) -> None:
    """Write a text of sentences, one per line."""
    size, limit = 0, int(TEXT_BYTES * factor)
    with path.open("w", encoding="utf-8") as file:
        for sentence in iter_sentences(1, 20):
            size += file.write(f"{' '.join(sentence)}.\n")
            if size >= limit:
                return


def write_pairs(path: Path, factor: float) -> None:
    """Write pairs of a sentence and the same one with its words reversed."""
    sentences = iter_sentences(2, 12)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(int(NUM_PAIRS * factor)):
            sentence = next(sentences)
            file.write(f"{' '.join(sentence)}\t{' '.join(sentence[::-1])}\n")


def write_rows(path: Path, factor: float) -> None:
    """Write texts whose label is that of the more frequent of their two halves of the words."""
    sentences = iter_sentences(3, 24)
    with path.open("w", encoding="utf-8") as file:
        file.write("text,label\n")
        for _ in range(int(NUM_ROWS * factor)):
            sentence = next(sentences)
            label = sum(word[0] < "m" for word in sentence) * 2 > len(sentence)
            file.write(f"{' '.join(sentence)},{'early' if label else 'late'}\n")


def write_pictures(path: Path, factor: float) -> None:
    """Write a table of captions, and beside it an archive of pictures of the colors they name."""
    from io import BytesIO
    from zipfile import ZipFile

    from PIL import Image

    rng, captions = np.random.default_rng(4), ["image,caption"]
    noise = rng.integers(0, 40, (PICTURE_SIZE, PICTURE_SIZE, 3), dtype=np.uint8)
    with ZipFile(path.with_name(PICTURES), "w") as archive:
        for k in range(int(NUM_PICTURES * factor)):
            pixels = noise.copy()
            left, right = rng.integers(0, 3, 2).tolist()
            pixels[:, : PICTURE_SIZE // 2, left] += 200
            pixels[:, PICTURE_SIZE // 2 :, right] += 200
            pixels[k % PICTURE_SIZE, :, :] = k // PICTURE_SIZE % 256
            raw = BytesIO()
            Image.fromarray(pixels).save(raw, "JPEG")
            archive.writestr(f"{k}.jpg", raw.getvalue())
            colors = ("red", "green", "blue")
            captions.append(f"{k}.jpg,{colors[left]} beside {colors[right]}")
    path.write_text("\n".join(captions) + "\n", encoding="utf-8")


SMALL = {"d_model": 64, "layers": 1, "heads": 2}
TASKS: dict[str, tuple[Callable[[Path, float], None], str, dict[str, Any]]] = {
    "text": (
        write_text,
        "text.txt",
        {
            "task": "language",
            "tokenizer": {"kind": "byte-pair", "vocab_size": 4000},
            "model": {"kind": "transformer", **SMALL},
        },
    ),
    "characters": (
        write_text,
        "text.txt",
        {"task": "language", "model": {"kind": "transformer", **SMALL}},
    ),
    "pairs": (
        write_pairs,
        "pairs.tsv",
        {
            "task": "translate",
            "data": {"source": "1", "target": "2"},
            "tokenizer": {"kind": "byte-pair", "vocab_size": 4000},
            "model": {"kind": "transformer", **SMALL},
        },
    ),
    "rows": (
        write_rows,
        "rows.csv",
        {"task": "classify", "model": {"kind": "perceptron", "pooling": "mean"}},
    ),
    "pictures": (
        write_pictures,
        "captions.csv",
        {"task": "caption", "data": {"image_size": 64}, "model": {"kind": "recurrent"}},
    ),
}


def run_first_step(recipe_file: str) -> None:
    """Prepare the data and compute the gradients of one batch; print the peak memory as JSON."""
    import resource

    import torch

    from workings.recipes import read_recipe
    from workings.training.runs import TASKS as TASK_CLASSES

    recipe = read_recipe(recipe_file)
    task = TASK_CLASSES[recipe.task].from_recipe(recipe)
    torch.autograd.backward(task.loss(task.batches(0)[0], torch.device("cpu")).mean)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    numbers = {
        "peak_mib": round(usage[0].ru_maxrss / 1024),
        "cpu_seconds": round(sum(u.ru_utime + u.ru_stime for u in usage), 1),
    }
    print(json.dumps(numbers))


def measure(name: str, factor: float, folder: Path, timeout: float) -> list[dict[str, Any]]:
    """Return what a first step needs, without and with a cache of the encoded data."""
    from workings.config import to_toml

    write, file_name, table = TASKS[name]
    data, recipe, cache = folder / file_name, folder / "recipe.toml", folder / "cache"
    write(data, factor)
    settings = {**table, "data": {**table.get("data", {}), "set": str(data)}}
    files = [data]
    if name == "pictures":
        files.append(folder / PICTURES)
        settings["data"]["images"] = str(files[1])
    size = sum(file.stat().st_size for file in files)
    recipe.write_text(to_toml(settings), encoding="utf-8")
    command = [sys.executable, __file__, "--child", str(recipe)]
    rows = []
    for state in ("empty", "filled"):
        start = time.perf_counter()
        env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        row: dict[str, Any] = {"megabytes": round(size / 1e6), "cache": state}
        try:
            done = subprocess.run(
                command, env=env, check=True, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            rows.append({**row, "seconds": None, "cpu_seconds": None, "peak_mib": None})
            break
        numbers = json.loads(done.stdout)
        seconds = round(time.perf_counter() - start, 1)
        rows.append({**row, "seconds": seconds, **numbers, "load": round(os.getloadavg()[0], 1)})
    for file in files:
        file.unlink()
    shutil.rmtree(cache, ignore_errors=True)  # few data are not cached
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--sizes", default="0.25,1")
    parser.add_argument("--folder", type=Path, help="where the data are made for the time being")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds per measurement")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_first_step(arguments.child)
        return
    sizes = [float(size) for size in arguments.sizes.split(",")]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        parts = {
            name: lambda name=name: [
                row
                for size in sizes
                for row in measure(name, size, Path(folder), arguments.timeout)
            ]
            for name in ([arguments.only] if arguments.only else TASKS)
        }
        save_parts("scale", parts, ("tokenizers",))


if __name__ == "__main__":
    main()
