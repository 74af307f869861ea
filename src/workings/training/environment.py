"""The environment of a run: versions, hardware and command, so that it can be reproduced."""

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
    """Return versions, system, number of threads, command and time."""
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
    """Replace the bytes of a command line argument that are not UTF-8."""
    return word.encode("utf-8", "replace").decode()


def diff_environments(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Describe the differences between two environments that may change results."""
    keys = ("workings", "python", "system", "machine", "threads")
    old, new = ({key: environment.get(key) for key in keys} for environment in (before, now))
    changes = _describe_changes(old, new)
    for key, prefix in (("data", "data."), ("packages", "")):
        tables = (environment.get(key) for environment in (before, now))
        old, new = (table if isinstance(table, dict) else {} for table in tables)
        changes += _describe_changes(old, new, prefix)
    return changes


def _describe_changes(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    def format_value(value: object) -> str:
        return "missing" if value is None else str(value)

    return [
        f"{prefix}{name} was {format_value(old.get(name))}, is {format_value(new.get(name))}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def measure_peak_memory() -> int | None:
    """Return the peak memory of this process in MB; None where the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))
