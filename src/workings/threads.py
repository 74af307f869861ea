"""The number of threads that numpy and torch use, and how long idle threads spin.

OpenMP threads spin for milliseconds while they wait. On a busy machine this takes away the time
that the thread they wait for needs, and a step takes ten times as long as on one thread. Threads
that sleep at once lose most of what a second thread gains on a quiet machine, because a small
model's pieces of work are short. So threads spin for some microseconds and then sleep;
docs/threads.md has the measurements.
"""

import os
import sys
from pathlib import Path

from workings.errors import UserError

# MKL and OpenBLAS read OpenMP's variable as well, unless their own is set.
THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SPIN_COUNT = "1000"  # for GNU's OpenMP, which torch uses on Linux; others sleep at once
CGROUP_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")


def set_num_threads(threads: int | None = None) -> int:
    """Set the number of threads of numpy and torch, and let idle ones sleep; return the number.

    Call it before either is imported: OpenMP reads the wait policy once, when it is loaded. The
    default is all cores that this process may use, divided by the processes that torchrun started
    on this machine. Environment variables that are already set win over the default, and `threads`
    wins over them.

    >>> set_num_threads(threads=1)
    1
    """
    if threads is not None:
        threads = _parse_positive("threads", str(threads))
        os.environ.update(dict.fromkeys(THREAD_COUNT_VARIABLES, str(threads)))
    elif given := os.environ.get("OMP_NUM_THREADS"):  # "4,2": four, and two for nested parallelism
        threads = _parse_positive("OMP_NUM_THREADS", given.split(",")[0])
    else:
        processes = os.environ.get("LOCAL_WORLD_SIZE", "1")  # set by torchrun
        threads = max(1, count_cores() // _parse_positive("LOCAL_WORLD_SIZE", processes))
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    if torch := sys.modules.get("torch"):  # too late for the wait policy, but not for the number
        torch.set_num_threads(threads)
    return threads


def count_cores() -> int:
    """Return the number of cores that this process may use, by CPU affinity and cgroup quota.

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
    except (OSError, ValueError):  # no such file, or "max", which means no limit
        pass
    return max(1, allowed)


def _parse_positive(name: str, text: str) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if number < 1:
        raise UserError(f"{name}={text}: expected a whole number, 1 or more")
    return number
