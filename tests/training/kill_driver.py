"""Trains a recipe that is repeatedly killed and resumed: for test_trainer.py.

`python kill_driver.py RECIPE FOLDER ROUNDS KILLS` trains FOLDER/uninterrupted, then ROUNDS runs
each of two kinds, killed up to KILLS times: FOLDER/time-N by SIGKILL after a random time, and
FOLDER/call-N at a random call that writes or removes a file. It prints the number of kills of each
run as JSON. Each attempt is a fork of one process that has loaded everything, so that it is quick.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

CALLS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")


def main(recipe_file: str, folder: str, rounds: str, kills: str) -> None:
    from workings.cli import set_num_threads

    set_num_threads(1)  # a process that has started OpenMP threads cannot fork
    from workings.recipes import read_recipe
    from workings.training.runs import train_recipe

    train_recipe(read_recipe(recipe_file), Path(folder) / "uninterrupted", mode="quiet")
    counts = {
        f"{kind}-{seed}": kill_repeatedly(
            recipe_file, Path(folder) / f"{kind}-{seed}", kind, seed, int(kills)
        )
        for kind in ("time", "call")
        for seed in range(int(rounds))
    }
    sys.stdout.write(json.dumps(counts))


def kill_repeatedly(recipe_file: str, folder: Path, kind: str, seed: int, max_kills: int) -> int:
    """Train and resume until an attempt succeeds; return how many were killed."""
    rng = random.Random(f"{kind} {seed}")  # noqa: S311
    kills = 0
    while True:
        deadly_call, seconds = rng.randint(1, 60), rng.uniform(0.0, 0.4)
        child = os.fork()
        if child == 0:
            attempt(recipe_file, folder, deadly_call if kind == "call" and kills < max_kills else 0)
        if kind == "time" and kills < max_kills:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit(f"{folder}: failed with {os.WEXITSTATUS(status)} after {kills} kills")
            return kills
        kills += 1


def attempt(recipe_file: str, folder: Path, deadly_call: int) -> None:
    """Train or resume in a forked process, which is killed at the given call, if any."""
    from workings.recipes import read_recipe
    from workings.training.runs import resume, train_recipe

    if deadly_call:
        die_at(deadly_call)
    try:
        if (folder / "config.toml").is_file():
            resume(folder, mode="quiet")
        else:
            train_recipe(read_recipe(recipe_file), folder, mode="quiet")
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def die_at(call: int) -> None:
    counter = iter(range(1, call + 1))

    def deadly(function):
        def wrapper(*args, **kwargs):
            if next(counter) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return wrapper

    for name in CALLS:
        setattr(os, name, deadly(getattr(os, name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
