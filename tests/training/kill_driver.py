"""Kills trainings at random moments and resumes them: for test_kills.py.

`python kill_driver.py PLAN`: PLAN is a JSON file with a `folder`, a number of `rounds`, a number of
`attempts` per round, and `trainings`, a table from names to

- `recipe`: a table;
- `processes`: how many processes train; of several numbers, each attempt chooses one;
- `parallelism`: likewise, ddp or fsdp; without it, that of the recipe.

Each training is done without a kill (FOLDER/NAME/uninterrupted), then in rounds (FOLDER/NAME/N) of
attempts that are killed, if they do not end before, and a last one that is not. After each kill
the files must be intact, and the other processes of the training must end. The kills are printed as
JSON: the training, who was killed, and what was under way.

All processes are forks of one that has imported everything, so an attempt takes a fraction of a
second.
"""

import json
import mmap
import os
import random
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from workings.cli import set_num_threads

set_num_threads(1)  # a process that has started OpenMP threads cannot fork

from workings.distributed import ErrorOnOtherRank  # noqa: E402
from workings.errors import UserError  # noqa: E402
from workings.recipes import build_recipe  # noqa: E402
from workings.tasks.base import Task  # noqa: E402
from workings.training import report, runs  # noqa: E402
from workings.training.checkpoints import Checkpoints  # noqa: E402
from workings.training.logging import Log  # noqa: E402
from workings.training.trainer import Trainer, TrainingInterrupt  # noqa: E402
from workings.training.verify import verify_run  # noqa: E402

FILE_CALLS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")
# What may be under way, and at most how many calls of it an attempt lets pass.
MOMENTS = {
    "preparation": (runs, "_build_task", 1),
    "description": (runs, "_write_description", 1),
    "restore": (Trainer, "restore", 1),
    "step": (Trainer, "_step", 12),
    "evaluation": (Task, "validate", 2),
    "best weights": (Trainer, "_save_best", 2),
    "checkpoint": (Checkpoints, "_write", 4),
    "log line": (Log, "record", 3),
    "end": (runs, "_finish", 1),
    "report": (report, "write_report", 1),
}
MAIN_PROCESS_ONLY = ("file call", "description", "best weights", "checkpoint", "log line", "report")
SECONDS_TO_END = 30  # what torchrun gives the other processes, once one is dead
MAX_PROCESSES = 2
LOST = 3  # exit status of a process that has lost the others
# One byte per process and moment, shared by all processes: whether it is under way.
activity = mmap.mmap(-1, MAX_PROCESSES * len(MOMENTS))


@dataclass
class Death:
    """When and which processes of an attempt are killed."""

    ranks: list[int]
    kind: str = "never"  # a moment, "file call" or "time"
    call: int = 0
    delay: float = 0.0
    is_terminated: bool = True  # the other processes get SIGTERM, as from torchrun

    @classmethod
    def choose(cls, rng: random.Random, processes: int) -> "Death":
        kind = rng.choice(["time", "file call", "file call", *MOMENTS])
        every_rank = list(range(processes))
        ranks = rng.choice([every_rank, *([rank] for rank in every_rank)])
        if ranks == [1] and kind in MAIN_PROCESS_ONLY:
            kind = "step"
        calls = MOMENTS[kind][2] if kind in MOMENTS else 60
        return cls(
            ranks=ranks,
            kind=kind,
            call=rng.randint(1, calls),
            delay=rng.uniform(0.0, 0.4) if kind == "time" else rng.choice([0, 1, 4, 16]) / 1000,
            is_terminated=rng.random() < 0.5,
        )


@dataclass
class Training:
    """A recipe, and how it is trained."""

    recipe: dict
    processes: list[int] = field(default_factory=lambda: [1])
    parallelism: list[str | None] = field(default_factory=lambda: [None])


def main(plan_file: str) -> None:
    plan = json.loads(Path(plan_file).read_text())
    kills = []
    for name, table in plan["trainings"].items():
        training, folder = Training(**table), Path(plan["folder"]) / name
        train_uninterrupted(training, folder)
        for number in range(plan["rounds"]):
            rng = random.Random(f"{name} {number}")  # noqa: S311
            for _ in range(plan["attempts"]):
                processes = rng.choice(training.processes)
                death = Death.choose(rng, processes)
                parallelism = rng.choice(training.parallelism)
                killed = attempt(
                    training.recipe, folder / str(number), processes, parallelism, death
                )
                kills += [{"training": name, **killed}] if killed else []
                check_intact(folder / str(number))
            train_to_the_end(training, folder / str(number), training.processes[-1])
    sys.stdout.write(json.dumps(kills))


def train_uninterrupted(training: Training, folder: Path) -> None:
    """Train without a kill.

    One process is this one: its forks then have all modules, some of which take a second to import.
    """
    is_alone = training.processes == [1]
    alone = folder / ("uninterrupted" if is_alone else "alone")
    os.environ["XDG_CACHE_HOME"] = f"{alone}-cache"
    runs.train_recipe(build_recipe(training.recipe), alone, mode="quiet")
    if not is_alone:
        import torch.distributed._composable.replicate
        import torch.distributed.fsdp  # noqa: F401

        train_to_the_end(training, folder / "uninterrupted", training.processes[0])


def train_to_the_end(training: Training, folder: Path, processes: int) -> None:
    attempt(training.recipe, folder, processes, training.parallelism[-1], Death([]))


def check_intact(run: Path) -> None:
    """Exit if a file of a killed run is damaged."""
    if not (run / "config.toml").is_file():
        return
    damaged = [file for file in verify_run(run) if file.state == "damaged"]
    if damaged:
        sys.exit(f"{run}: {damaged}")


# -- processes -------------------------------------------------------------------------------------


def attempt(
    recipe: dict, folder: Path, processes: int, parallelism: str | None, death: Death
) -> dict | None:
    """Train or resume; return who was killed and what was under way, or None if nobody was."""
    activity[:] = bytes(len(activity))
    port = find_free_port()
    workers = {}
    for rank in range(processes):
        if (pid := os.fork()) == 0:
            if processes > 1:
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
                os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            work(recipe, folder, parallelism, rank, death)
        workers[pid] = rank
    if death.kind == "time":
        time.sleep(death.delay)
        for pid, rank in workers.items():
            if rank in death.ranks:
                os.kill(pid, signal.SIGKILL)
    statuses = wait_for_workers(workers, death, folder)
    killed = [rank for rank, s in statuses.items() if s in (-signal.SIGKILL, -signal.SIGALRM)]
    if killed:
        return {
            "ranks": killed,
            "processes": processes,
            "kind": death.kind,
            "during": read_activity(),
        }
    if any(statuses.values()):
        sys.exit(f"{folder}: exit statuses {statuses}")
    return None


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_workers(workers: dict[int, int], death: Death, folder: Path) -> dict[int, int]:
    """Wait for all processes of an attempt, as torchrun does; return the exit status of each rank.

    Once one is dead, the others must end, with or without SIGTERM.
    """
    statuses: dict[int, int] = {}
    deadline = time.monotonic() + 300
    while workers:
        pid, raw_status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            if time.monotonic() > deadline:
                hanging = {rank: read_activity(rank) for rank in workers.values()}
                for other in workers:
                    os.kill(other, signal.SIGKILL)
                sys.exit(f"{folder}: processes that did not end: {hanging}, after {death}")
            time.sleep(0.002)
            continue
        status = os.waitstatus_to_exitcode(raw_status)
        is_first_failure = status and not any(statuses.values())
        statuses[workers.pop(pid)] = status
        if is_first_failure:
            deadline = time.monotonic() + SECONDS_TO_END
            end_others(workers, death)
    return statuses


def end_others(workers: dict[int, int], death: Death) -> None:
    """Kill the other victims; terminate the rest, if they do not end by themselves."""
    # Before all processes are connected, they wait for the missing one.
    is_connected = all(activity[rank * len(MOMENTS)] for rank in range(len(workers) + 1))
    for pid, rank in workers.items():
        if rank in death.ranks:
            os.kill(pid, signal.SIGKILL)
        elif death.is_terminated or not is_connected:
            os.kill(pid, signal.SIGTERM)


def read_activity(only_rank: int | None = None) -> list[str]:
    """List what is under way; a byte is 2 while it is, and 1 afterwards."""
    return sorted(
        {
            moment
            for rank in range(MAX_PROCESSES)
            for k, moment in enumerate(MOMENTS)
            if only_rank in (None, rank) and activity[rank * len(MOMENTS) + k] == 2
        }
    )


def work(recipe: dict, folder: Path, parallelism: str | None, rank: int, death: Death) -> None:
    """Train or resume in a forked process, and end it."""
    os.environ["XDG_CACHE_HOME"] = str(folder.with_name(f"{folder.name}-cache"))
    watch(rank, death)
    status = 1
    try:
        if (folder / "config.toml").is_file():
            runs.resume(folder, mode="quiet", parallelism=parallelism)
        else:
            train = {**recipe["train"], "parallelism": parallelism or "ddp"}
            runs.train_recipe(build_recipe({**recipe, "train": train}), folder, mode="quiet")
        status = 0
    except TrainingInterrupt as interrupt:
        status = interrupt.exit_status
    except (ErrorOnOtherRank, UserError) as error:
        if "lost the connection" in str(error):
            status = LOST
        else:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    os._exit(status)


# -- moments ---------------------------------------------------------------------------------------


def watch(rank: int, death: Death) -> None:
    """Note what is under way in this process, and let it die when it is due."""
    is_victim = rank == death.ranks[0] if death.ranks else False
    for k, (moment, (owner, name, _)) in enumerate(MOMENTS.items()):
        due = death.call if is_victim and moment == death.kind else 0
        setattr(
            owner, name, watched(getattr(owner, name), rank * len(MOMENTS) + k, due, death.delay)
        )
    if is_victim and death.kind == "file call":
        calls = iter(range(1, death.call + 1))
        for name in FILE_CALLS:
            setattr(os, name, deadly(getattr(os, name), calls, death.call))


def watched(function, index: int, due: int, delay: float):
    """Wrap a function: in its `due`-th call, the process dies after so many seconds."""
    calls = 0

    def wrapper(*arguments, **options):
        nonlocal calls
        calls += 1
        activity[index] = 2
        if calls == due:
            if not delay:
                os.kill(os.getpid(), signal.SIGKILL)
            signal.setitimer(signal.ITIMER_REAL, delay)  # SIGALRM has no handler, so it kills
        try:
            return function(*arguments, **options)
        finally:
            activity[index] = 1

    return wrapper


def deadly(function, calls, last: int):
    """Wrap a function of os: the process dies before the last of the calls that are counted."""

    def wrapper(*arguments, **options):
        if next(calls) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    return wrapper


if __name__ == "__main__":
    main(sys.argv[1])
