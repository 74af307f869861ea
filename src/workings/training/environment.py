"""What a run was made with, so that it can be made again."""

import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from workings import __version__

PACKAGES = ("torch", "numpy", "safetensors", "tokenizers", "emoji")


def collect_environment() -> dict[str, Any]:
    """Versions, threads, command and time."""
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "workings": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "packages": packages,
        "command": ["workings", *(_to_utf8(word) for word in sys.argv[1:])],
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _to_utf8(word: str) -> str:
    """A word of the command line, whose bytes need not be UTF-8."""
    return word.encode("utf-8", "replace").decode()


def diff_environments(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Say what has changed, of what may change a result."""
    kinds = ("workings", "python", "system", "machine", "threads")
    old, new = ({kind: made.get(kind) for kind in kinds} for made in (before, now))
    told = _describe_changes(old, new)
    for table, prefix in (("data", "data."), ("packages", "")):
        both = (made.get(table) for made in (before, now))
        old, new = (given if isinstance(given, dict) else {} for given in both)
        told += _describe_changes(old, new, prefix)
    return told


def _describe_changes(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    def written(value: object) -> str:
        return "missing" if value is None else str(value)

    return [
        f"{prefix}{name} was {written(old.get(name))}, is {written(new.get(name))}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def measure_peak_memory() -> int | None:
    """The most memory that this process ever held, in MB; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10))
