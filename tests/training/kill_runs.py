"""Trains a recipe again and again, killing it, and going on with what is left: for test_kills.py.

The program is loaded once and forked for each attempt, so that a kill costs milliseconds.
`python kill_runs.py RECIPE FOLDER HOW SEED KILLS`: HOW is `when` (SIGKILL after a random time) or
`where` (at a random call that makes a file whole or takes one away). Prints how often it killed.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path


def main(recipe_file: str, folder: str, how: str, seed: str, kills: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    draw = random.Random(int(seed))  # noqa: S311
    left, done = int(kills), 0
    import workings.training.runs  # noqa: F401 - loaded before forking

    while True:
        deadly, patience = draw.randint(1, 60), draw.uniform(0.0, 0.6)
        child = os.fork()
        if child == 0:
            attempt(recipe_file, Path(folder), deadly if left and how == "where" else 0)
        if left and how == "when":
            time.sleep(patience)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit(f"an attempt failed with {os.WEXITSTATUS(status)} after {done} kills")
            break
        done += 1
        left -= 1
    sys.stdout.write(str(done))


def attempt(recipe_file: str, folder: Path, at_call: int) -> None:
    """Train or go on, in a forked process; die at the given call, if any."""
    from workings.recipes import read_recipe
    from workings.training.runs import resume, train_recipe

    if at_call:
        _die_at(at_call)
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


def _die_at(call: int) -> None:
    counter = iter(range(1, call + 1))

    def deadly(function):
        def called(*args, **kwargs):
            if next(counter) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return called

    for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
        setattr(os, name, deadly(getattr(os, name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
