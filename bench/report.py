"""What the benchmarks share: where they ran, peak memory, a table, a file in results/."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results"
MIB = 2**20


def environment() -> dict[str, Any]:
    """Say what the figures depend on, and nothing about whose machine it was."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
    }


def versions(*packages: str) -> dict[str, str]:
    """The versions of the peers that are installed."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """How many times as long theirs took: the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(theirs, ours, strict=True))


def run_apart(*command: str) -> str:
    """Run a script in a process of its own; return what it prints."""
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def peak_mib(step: Callable[[], Any]) -> float | None:
    """Take a step; return how far it drove this process's memory, in MiB. Only Linux tells."""
    before = _status("VmRSS")
    if before is None:
        return None
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step()
    return ((_status("VmHWM") or 0) - before) / MIB


def _status(field: str) -> int | None:
    """Read a field of /proc/self/status, in bytes."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as a table, a column a key."""
    table = Table(box=SIMPLE)
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console().print(title, table, sep="\n")


def save(name: str, result: Mapping[str, Any]) -> None:
    """Write results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    Console().print(f"written: {path.relative_to(RESULTS.parent)}")


def save_parts(
    name: str,
    made: Mapping[str, Callable[[], list[dict[str, Any]]]],
    packages: Sequence[str],
    **told: Any,
) -> None:
    """Measure part after part; show each, and write it into results/NAME.json beside the others."""
    path = RESULTS / f"{name}.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    for part, measure in made.items():
        rows = measure()
        show(part, rows)
        result[part] = {**environment(), **versions(*packages), **told, "rows": rows}
        save(name, result)


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int | float) else str(value)
