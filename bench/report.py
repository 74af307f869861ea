"""What the benchmarks share: where they ran, a table for the terminal, a file in results/."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results"


def environment() -> dict[str, Any]:
    """Say what the figures depend on, and nothing about whose machine it was."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
    }


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


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int | float) else str(value)
