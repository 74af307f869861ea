"""Freed memory stays with the process, unless somebody chose otherwise."""

import os
import platform
import subprocess
import sys

import pytest

AGAIN = """
import resource
import numpy as np
from workings.training.trainer import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(2**26, dtype=np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), faults(), faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
@pytest.mark.parametrize("given", [{}, {"MALLOC_ARENA_MAX": "4"}])
def test_pages_come_once(given):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")} | given
    command = [sys.executable, "-c", AGAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    kept, first, second = done.stdout.split()
    assert kept == str(not given)
    if kept == "True":
        assert int(second) < int(first) / 10
