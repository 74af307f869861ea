"""Measure how long a training step of a captioner waits for its images.

    python bench/pictures.py [RECIPE …] [--steps 20] [--threads 1]

For each recipe (default: the two for Flickr8k, and the drawn scenes) it takes the first steps of an
epoch. Waiting is everything before the model has its batch: reading images from the cache,
augmenting them and collating them with their captions. Decoding, which is done once and cached, is
reported separately. A recipe whose images are missing is left out. Writes results/pictures.json.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from report import environment, save, show
from workings.errors import UserError
from workings.recipes import read_recipe
from workings.tasks.captioning import Captioning
from workings.training.optimizers import build_optimizer

RECIPES = Path(__file__).parents[1] / "recipes"
NAMES = ("flickr8k-attention", "flickr8k-vector", "scenes")


def measure(path: Path, steps: int) -> dict[str, Any]:
    """Return how long a training step takes, and how long it waits for its images."""
    start = time.perf_counter()
    task, device = Captioning.from_recipe(read_recipe(path)), torch.device("cpu")
    open_seconds = time.perf_counter() - start
    optimizer = build_optimizer(task.model.train(), task.recipe.train)
    waiting = total = 0.0
    batches = task.batches(0)[: steps + 1]
    for number, batch in enumerate(batches):
        start = time.perf_counter()
        source, target, labels = task.collate("train", batch, device)
        ready = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = task.model(source, target, labels, task.recipe.train.label_smoothing)
        torch.autograd.backward(loss / task.weight(batch))
        optimizer.step()
        if number:  # the first step warms up
            waiting += ready - start
            total += time.perf_counter() - start
    count = len(batches) - 1
    return {
        "recipe": path.stem,
        "pictures in a step": len(batches[0]),
        "ms a step": round(1e3 * total / count, 1),
        "ms waiting": round(1e3 * waiting / count, 2),
        "waiting, %": round(100 * waiting / total, 2),
        "s to open": round(open_seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", type=Path, metavar="RECIPE")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for path in options.recipes or [RECIPES / f"{name}.toml" for name in NAMES]:
        try:
            rows.append(measure(path, options.steps))
        except UserError as error:
            print(f"{path.stem} is left out: {error}")
    if not rows:
        raise SystemExit("nothing was measured")
    show("Waiting for images", rows)
    save("pictures", {**environment(), "steps": options.steps, "rows": rows})


if __name__ == "__main__":
    main()
