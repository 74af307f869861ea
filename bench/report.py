"""Helpers of all benchmarks: environment, peak memory, tables, and files in results/."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    """Return what the figures depend on, without identifying the machine."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
    }


@contextmanager
def explain_import_error() -> Iterator[None]:
    """End in one line if models of transformers cannot be imported.

    The usual cause is a torchvision that was built for another torch.
    """
    try:
        yield
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise SystemExit(
            f"transformers cannot be imported: {reason} (a torchvision that does not fit this "
            "torch? pip uninstall torchvision)"
        ) from None


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    installed = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Return the median over the rounds of their time divided by ours."""
    return statistics.median(a / b for a, b in zip(theirs, ours, strict=True))


def run_script(*command: str) -> str:
    """Run a script in a separate process; return its output."""
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def peak_mib(step: Callable[[], Any]) -> float | None:
    """Run a step; return the peak of the memory it needed, in MiB; None except on Linux."""
    before = _status("VmRSS")
    if before is None:
        return None
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    step()
    return ((_status("VmHWM") or 0) - before) / MIB


def _status(field: str) -> int | None:
    """Read a field of /proc/self/status, in bytes."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as a table with one column per key."""
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
    parts: Mapping[str, Callable[[], list[dict[str, Any]]]],
    packages: Sequence[str],
    **settings: Any,
) -> None:
    """Measure each part, print it, and write it into results/NAME.json next to the others."""
    path = RESULTS / f"{name}.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    for part, measure in parts.items():
        rows = measure()
        show(part, rows)
        result[part] = {**environment(), **versions(*packages), **settings, "rows": rows}
        save(name, result)


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int | float) else str(value)
