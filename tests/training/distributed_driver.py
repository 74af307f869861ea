"""Runs the trainings of a plan and records the loss of each step: for test_distributed.py.

`torchrun … distributed_driver.py PLAN`: PLAN is a JSON file with a list of trainings that the same
processes do one after the other, since starting processes takes longer than training a toy. Each
has a `folder` and a `recipe` (a table), or none to resume, perhaps with another `parallelism`;
`stop_at` is a step at which the last process alone gets a signal to stop. The losses are written
to FOLDER.steps.json.
"""

import json
import os
import signal
import sys
from pathlib import Path

PICKLING_COLLECTIVES = (
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
)


def refuse_to_pickle(*_arguments, **_keywords):
    raise AssertionError("a Python object is pickled between processes")


def main(plan: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in PICKLING_COLLECTIVES:
        setattr(dist, name, refuse_to_pickle)
    for training in json.loads(Path(plan).read_text()):
        run(**training)
    dist.destroy_process_group()


def run(
    folder: str,
    recipe: dict | None = None,
    stop_at: int | None = None,
    parallelism: str | None = None,
) -> list[float]:
    """Train or resume in a folder; return the losses of the steps."""
    from workings.recipes import build_recipe
    from workings.training import report, runs
    from workings.training.trainer import Trainer, TrainingInterrupt

    losses: list[float] = []
    original, write_report = Trainer._step, report.write_report

    def step(self, micro_batches):
        group = self.process_group
        if self.progress.step + 1 == stop_at and group.rank == group.world_size - 1:
            self._received_signal = signal.SIGTERM
        before = self.progress.sums.get("loss", 0.0), self.progress.num_items
        original(self, micro_batches)
        after = self.progress.sums["loss"], self.progress.num_items
        losses.append((after[0] - before[0]) / (after[1] - before[1]))

    Trainer._step = step
    report.write_report = lambda *_: None  # takes longer than the training
    try:
        if recipe is None:
            runs.resume(folder, mode="quiet", parallelism=parallelism)
        else:
            runs.train_recipe(build_recipe(recipe), folder, mode="quiet")
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
