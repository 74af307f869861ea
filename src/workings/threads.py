"""How many threads compute, and how they wait for one another: chosen here and nowhere else.

OpenMP's threads spin while they wait, for milliseconds. On a machine that is busy with something
else, they spin away the very time that the thread they wait for would need, and a step takes ten
times as long as on one thread. Threads that sleep at once lose most of what a second thread gains
on a quiet machine, where a small model's pieces of work are short. So they spin for a moment, some
microseconds, and then sleep. docs/threads.md has the figures.
"""

import os
import sys
from pathlib import Path

from workings.errors import UserError

# OpenMP's is the number that the others look at, too, unless one of their own is set.
THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SPIN_COUNT = "1000"  # of GNU's OpenMP, which torch brings on Linux; others sleep at once
CGROUP_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")


def set_num_threads(threads: int | None = None) -> int:
    """Set how many threads numpy and torch compute with, and that idle ones soon sleep; return it.

    To be called before either is imported, for the wait policy is read once, when OpenMP is loaded.
    By default all the cores that this process may use; where torchrun started several, its share of
    them. What the environment says already is left alone, except that `threads` goes before it.

    >>> set_num_threads(threads=1)
    1
    """
    if threads is not None:
        threads = _parse_positive("threads", str(threads))
        os.environ.update(dict.fromkeys(THREAD_COUNT_VARIABLES, str(threads)))
    elif given := os.environ.get("OMP_NUM_THREADS"):  # perhaps "4,2": four, and two inside of each
        threads = _parse_positive("OMP_NUM_THREADS", given.split(",")[0])
    else:
        others = os.environ.get("LOCAL_WORLD_SIZE", "1")  # torchrun's: processes on this machine
        threads = max(1, count_cores() // _parse_positive("LOCAL_WORLD_SIZE", others))
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    if torch := sys.modules.get("torch"):  # too late for the policy, not for the number
        torch.set_num_threads(threads)
    return threads


def count_cores() -> int:
    """Count the cores that this process may use: not those that a container keeps from it.

    >>> 1 <= count_cores() <= os.cpu_count()
    True
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:  # macOS and Windows
        allowed = os.cpu_count() or 1
    try:
        quota, period = CGROUP_QUOTA_FILE.read_text().split()
        allowed = min(allowed, int(quota) // int(period))
    except (OSError, ValueError):  # no such file, or "max": no limit
        pass
    return max(1, allowed)


def _parse_positive(name: str, text: str) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if number < 1:
        raise UserError(f"{name}={text}: expected a whole number, 1 or more")
    return number
