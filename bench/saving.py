"""Measure what a checkpoint costs: the time until `save` returns, and of the steps after it.

    python bench/saving.py [--rounds 20] [--threads 1]

A Transformer of about 3 million parameters with averaged weights, steps of about 100 ms, and a
checkpoint every 20 steps. Runs of 20 steps with a checkpoint alternate with runs without one. On a
busy machine wall time includes other processes: `computing` is the CPU time of the training thread.
Writes results/saving.json.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from report import environment, save, show
from workings.config import build
from workings.data import Example, Splits
from workings.distributed import ProcessGroup
from workings.recipes import ClassificationRecipe
from workings.tasks.classification import Classification
from workings.training.logging import Log
from workings.training.trainer import Trainer

EVERY = 20  # steps between checkpoints


def trainer_in(folder: Path) -> Trainer:
    """Return a trainer on random words."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(8000, (1280, 64), generator=generator).tolist()
    examples = tuple(
        Example(" ".join(f"w{word}" for word in text), "ab"[i % 2]) for i, text in enumerate(words)
    )
    table = {
        "data": {"set": "random words"},
        "model": {"kind": "transformer", "d_model": 256, "layers": 2, "heads": 4, "d_ff": 512},
        "train": {"batch_size": 8, "average": "ema", "epochs": 10**6},
    }
    recipe = build(ClassificationRecipe, table)
    task = Classification.from_recipe(recipe, splits=Splits("random words", examples, (), ()))
    log = Log(folder / "log.jsonl", "quiet")
    return Trainer(task, recipe.train, folder, log, 0, ProcessGroup(torch.device("cpu")))


def run_steps(trainer: Trainer, batches: list[list[int]], saving: bool) -> dict[str, float]:
    """Return the seconds of 20 steps and of `save` in them, in wall and CPU time."""
    trainer.checkpoints.wait()
    start, computing = time.perf_counter(), time.thread_time()
    if saving:
        trainer.save()
    saved, computed = time.perf_counter(), time.thread_time()
    for _ in range(EVERY):
        trainer._step([batches[trainer.progress.step % len(batches)]])
    return {
        "all": time.perf_counter() - start,
        "save": saved - start,
        "computing all": time.thread_time() - computing,
        "computing save": computed - computing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        trainer = trainer_in(Path(name))
        batches = trainer.task.batches(0)
        trainer.task.model.train()
        run_steps(trainer, batches, True)
        rounds, writing = [], []
        for i in range(options.rounds):
            order = (True, False) if i % 2 else (False, True)
            rounds.append({saving: run_steps(trainer, batches, saving) for saving in order})
            trainer.checkpoints.wait()
            trainer.save()
            start = time.perf_counter()
            trainer.checkpoints.wait()
            writing.append(time.perf_counter() - start)
        newest = trainer.checkpoints.list_folders()[-1]
        size = sum(p.stat().st_size for p in newest.iterdir())
        trainer.checkpoints.close()
        trainer.log.close()

    def median(saving: bool, what: str) -> float:
        return statistics.median(r[saving][what] for r in rounds)

    ratio = statistics.median(r[True]["all"] / r[False]["all"] for r in rounds)
    row = {
        "parameters": sum(p.numel() for p in trainer.task.model.parameters()),
        "checkpoint MB": round(size / 1e6, 1),
        "step ms": round(median(False, "all") / EVERY * 1e3, 1),
        "computing": round(median(False, "computing all") / EVERY * 1e3, 1),
        "save() ms": round(median(True, "save") * 1e3, 1),
        "computing it": round(median(True, "computing save") * 1e3, 1),
        "stall %": round(100 * median(True, "save") / median(False, "all"), 2),
        "with / without": round(ratio, 3),
        "written after ms": round(statistics.median(writing) * 1e3),
    }
    show(f"A checkpoint every {EVERY} steps", [row])
    save("saving", {**environment(), "rounds": options.rounds, "every": EVERY, "rows": [row]})


if __name__ == "__main__":
    main()
