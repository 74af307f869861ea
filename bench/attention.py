"""Compare `attend` with the explicit formula: time and peak extra memory by length.

    python bench/attention.py [--max-length 16384] [--rounds 3] [--threads 1]

8 heads of width 64, softmax, dropout 0, forward and backward. For the time, both take turns in one
process; for the memory, each runs in a separate one. Above 8,192 positions the formula is left out:
at 16,384 it would need about 26 GiB. Writes results/attention.json.
"""

import argparse
import math
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from report import environment, peak_mib, run_script, save, show
from workings.attention import attend
from workings.trace import tap

HEADS, WIDTH = 8, 64
LENGTHS = (1024, 2048, 4096, 8192, 16384)
MAX_FORMULA_LENGTH = 8192


def formula(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Compute softmax(Q Kᵀ / √d) V step by step."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return torch.softmax(scores, dim=-1) @ value


IMPLEMENTATIONS: dict[str, Callable[..., Tensor]] = {"attend": attend, "formula": formula}


def make_step(name: str, length: int, causal: bool) -> Callable[[], Tensor]:
    """Return a step: forward and backward of one implementation on random inputs."""
    torch.manual_seed(0)
    shape = 1, HEADS, length, WIDTH
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape)

    def step() -> Tensor:
        query.grad = key.grad = value.grad = None
        mixed = IMPLEMENTATIONS[name](query, key, value, causal=causal)
        mixed.backward(gradient)
        return mixed.detach()

    return step


# -- time ------------------------------------------------------------------------------------------


def measure_seconds(
    names: list[str], length: int, causal: bool, rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of a step of each implementation in every round."""
    steps = {name: make_step(name, length, causal) for name in names}
    if len(names) == 2 and length <= 2048:
        torch.testing.assert_close(*(step() for step in steps.values()), rtol=1e-3, atol=1e-5)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return times


# -- memory ----------------------------------------------------------------------------------------


def peak_in_process(name: str, length: int, causal: bool, threads: int) -> float | None:
    """Return the peak memory of one step beyond its inputs, in MiB."""
    arguments = ("--peak", name, str(length), str(int(causal)), "--threads", str(threads))
    output = run_script(__file__, *arguments)
    return None if output == "None" else float(output)


def print_peak(name: str, length: int, causal: bool) -> None:
    make_step(name, 16, causal)()  # warm up
    print(peak_mib(make_step(name, length, causal)))


def growth(rows: list[dict[str, Any]], causal: bool, column: str) -> dict[str, float]:
    """Fit memory = slope · length + intercept, and memory ∝ length^exponent."""
    points = [
        (row["length"], row[column])
        for row in rows
        if row["causal"] == causal and row[column] is not None
    ]
    length, memory = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    slope, intercept = np.polyfit(length, memory, 1)
    residual = memory - (slope * length + intercept)
    return {
        "MiB per 1,024": round(slope * 1024, 2),
        "R²": round(float(1 - residual.var() / memory.var()), 5),
        "exponent": round(float(np.polyfit(np.log(length), np.log(memory), 1)[0]), 2),
    }


# -- a tap without a trace -------------------------------------------------------------------------


def closed_tap_ns() -> float:
    """Return the nanoseconds of a `tap` call without an open trace."""
    value, calls = torch.ones(1), 200_000
    return min(timeit.repeat(lambda: tap("weights", value), number=calls, repeat=9)) / calls * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-length", type=int, default=LENGTHS[-1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        name, length, causal = options.peak
        print_peak(name, int(length), causal == "1")
        return

    tap_ns = round(closed_tap_ns(), 1)
    print(f"a tap without a trace: {tap_ns} ns")
    rows: list[dict[str, Any]] = []
    for causal in (False, True):
        for length in (n for n in LENGTHS if n <= options.max_length):
            names = ["attend", "formula"] if length <= MAX_FORMULA_LENGTH else ["attend"]
            times = measure_seconds(names, length, causal, options.rounds)
            medians = {name: statistics.median(t) for name, t in times.items()}
            peaks = {name: peak_in_process(name, length, causal, options.threads) for name in names}
            row: dict[str, Any] = {"length": length, "causal": causal}
            row |= {f"{name} s": _rounded(medians.get(name), 3) for name in IMPLEMENTATIONS}
            ratios = [b / a for a, b in zip(*times.values(), strict=True)] if len(names) > 1 else []
            row["ratio"] = _rounded(statistics.median(ratios) if ratios else None, 2)
            row |= {f"{name} MiB": _rounded(peaks.get(name), 1) for name in IMPLEMENTATIONS}
            rows.append(row)
            print(f"… {length:,}{' causal' if causal else ''}", file=sys.stderr)
    show(
        "Forward + backward, 8 heads of 64, one sequence; ratio: the formula's time over attend's; "
        "—: not run because of its memory",
        rows,
    )
    fits = [
        {"way": name, "causal": causal, **growth(rows, causal, f"{name} MiB")}
        for name in IMPLEMENTATIONS
        for causal in (False, True)
        if rows[0][f"{name} MiB"] is not None
    ]
    if fits:
        show("Peak extra memory as the length grows (exponent 1: linear, 2: quadratic)", fits)
    save(
        "attention",
        {
            **environment(),
            "rounds": options.rounds,
            "heads": HEADS,
            "width": WIDTH,
            "closed tap ns": tap_ns,
            "rows": rows,
            "memory": fits,
        },
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


if __name__ == "__main__":
    main()
