"""Trains what a plan says, step by step on record: for test_crew.py, by torchrun or alone.

`torchrun … crew_runs.py PLAN`: PLAN is a JSON file, a list of trainings that one crew does one
after the other (starting processes takes longer than training a toy). Each has a `folder` and
either a `recipe` (a table) or none, to resume, perhaps in another way (`how`: ddp, fsdp);
`stop_at` has the last process alone asked to stop at a step. Beside the folder, FOLDER.steps.json
gets the loss of every step.
"""

import json
import os
import signal
import sys
from pathlib import Path


def main(plan: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for training in json.loads(Path(plan).read_text()):
        run(**training)
    dist.destroy_process_group()


def run(
    folder: str, recipe: dict | None = None, stop_at: int | None = None, how: str | None = None
) -> list[float]:
    """Train or resume in a folder; give back the losses of the steps."""
    from workings.config import build
    from workings.recipes.registry import RECIPES
    from workings.training import report, runs
    from workings.training.trainer import Trainer, TrainingInterrupt

    losses: list[float] = []
    original, write_report = Trainer._step, report.write_report

    def step(self, group):
        if (
            self.progress.step + 1 == stop_at
            and self.process_group.rank == self.process_group.world_size - 1
        ):
            self._received_signal = signal.SIGTERM
        before = self.progress.sums.get("loss", 0.0), self.progress.num_items
        original(self, group)
        after = self.progress.sums["loss"], self.progress.num_items
        losses.append((after[0] - before[0]) / (after[1] - before[1]))

    Trainer._step = step
    report.write_report = lambda *_: None  # it takes longer than the training
    try:
        if recipe is None:
            runs.resume(folder, mode="quiet", parallelism=how)
        else:
            kind, _ = RECIPES[recipe.get("task", "classify")]
            runs.train_recipe(build(kind, recipe), folder, mode="quiet")
    except TrainingInterrupt as stopped:
        if stopped.exit_status != 143:
            raise
    finally:
        Trainer._step, report.write_report = original, write_report
    if os.environ.get("RANK", "0") == "0":
        Path(f"{folder}.steps.json").write_text(json.dumps(losses))
    return losses


if __name__ == "__main__":
    main(sys.argv[1])
