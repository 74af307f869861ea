"""How long a training step of a captioner waits for its pictures.

    python bench/pictures.py [RECIPE …] [--steps 20] [--threads 1]

Of each recipe (default: Flickr8k's two and the drawn scenes) so many steps are taken as in its
first epoch. Waiting is all that comes before the model has its batch: pictures taken from the
cache, changed (shifted, mirrored, brightened) and put beside their captions. Reading and decoding
them, which is done once and kept, is not among it, and is told apart. A recipe whose pictures are
not there is left out. Writes results/pictures.json.
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


def measured(path: Path, steps: int) -> dict[str, Any]:
    """Take steps; how long each waited for its pictures, and took in all."""
    began = time.perf_counter()
    task, device = Captioning.from_recipe(read_recipe(path)), torch.device("cpu")
    opened = time.perf_counter() - began
    update = build_optimizer(task.model.train(), task.recipe.train)
    waited = whole = 0.0
    batches = task.batches(0)[: steps + 1]
    for number, batch in enumerate(batches):
        start = time.perf_counter()
        about, target, following = task.collate("train", batch, device)
        there = time.perf_counter()
        update.zero_grad(set_to_none=True)
        loss = task.model(about, target, following, task.recipe.train.label_smoothing)
        torch.autograd.backward(loss / task.weight(batch))
        update.step()
        if number:  # the first one is for warming up
            waited += there - start
            whole += time.perf_counter() - start
    taken = len(batches) - 1
    return {
        "recipe": path.stem,
        "pictures in a step": len(batches[0]),
        "ms a step": round(1e3 * whole / taken, 1),
        "ms waiting": round(1e3 * waited / taken, 2),
        "waiting, %": round(100 * waited / whole, 2),
        "s to open": round(opened, 1),
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
            rows.append(measured(path, options.steps))
        except UserError as error:
            print(f"{path.stem} is left out: {error}")
    if not rows:
        raise SystemExit("nothing was measured")
    show("waiting for pictures", rows)
    save("pictures", {**environment(), "steps": options.steps, "rows": rows})


if __name__ == "__main__":
    main()
