"""What a training frees stays with its process, for the next step."""

import ctypes
import os

# The numbers of glibc's malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
OWN_SETTINGS = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory instead of giving it back to the system; say whether it does.

    A step asks for hundreds of mebibytes and frees them again. By default large blocks go back at
    once and come anew in pages of zeros: a third of the time of an LSTM's step. Somebody who chose
    settings, or an allocator, for this process is left alone; other C libraries are, too.
    """
    if any(name.startswith(OWN_SETTINGS) for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl, Windows
        return False
    return bool(mallopt(MMAP_THRESHOLD, 2**28) and mallopt(TRIM_THRESHOLD, 2**31 - 1))
