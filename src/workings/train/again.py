"""To compute as a run did: with as many threads, and on what else there was."""

import os
from pathlib import Path

import torch

from workings.errors import shown
from workings.storage import Damaged, read_json
from workings.threads import cores
from workings.train.environment import differences, environment
from workings.train.runs import recipe_of

MOST_THREADS = 4096  # no machine has more to offer


def as_it_was(folder: Path) -> list[str]:
    """Compute with as many threads as a run did; say what else is not as it was then."""
    recipe_of(folder)
    before = read_json(folder / "environment.json")
    torch.set_num_threads(_threads_of(folder))
    now = environment() | {key: before[key] for key in ("data", "went_on") if key in before}
    went_on = [f"it went on from {before['went_on']}"] if "went_on" in before else []
    return differences(before, now) + went_on


def _threads_of(folder: Path) -> int:
    """How many threads a run was begun with: with another number it would round differently."""
    threads = read_json(folder / "environment.json").get("threads")
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise Damaged(f"{folder / 'environment.json'}: threads = {shown(threads)}: not a run's")
    return threads


def keep_threads(folder: Path) -> None:
    """Go on with as many threads as a run was begun with, if this machine has so many cores."""
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # torchrun's: a crew shares the cores
    if alone and (folder / "environment.json").exists():
        threads = _threads_of(folder)
        if threads <= cores():
            torch.set_num_threads(threads)
