"""`attend` beside the written-out formula: time and peak extra memory as the length grows.

    python bench/attention.py [--longest 16384] [--rounds 3] [--threads 1]

8 heads of width 64, softmax, dropout 0, forward and backward. The two take turns in one process for
the time; for the memory each runs in a process of its own. Above 8,192 the formula is left out: at
16,384 it would take some 26 GiB. Writes results/attention.json.
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

from report import environment, peak_mib, run_apart, save, show
from workings.attention import attend
from workings.trace import tap

HEADS, WIDTH = 8, 64
LENGTHS = (1024, 2048, 4096, 8192, 16384)
LONGEST_FORMULA = 8192


def formula(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Write out softmax(Q Kᵀ / √d) V."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return torch.softmax(scores, dim=-1) @ value


WAYS: dict[str, Callable[..., Tensor]] = {"attend": attend, "formula": formula}


def make_step(way: str, length: int, causal: bool) -> Callable[[], Tensor]:
    """Prepare the inputs; a step goes forward and backward and returns the result."""
    torch.manual_seed(0)
    shape = 1, HEADS, length, WIDTH
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape)

    def step() -> Tensor:
        query.grad = key.grad = value.grad = None
        mixed = WAYS[way](query, key, value, causal=causal)
        mixed.backward(gradient)
        return mixed.detach()

    return step


# -- time ----------------------------------------------------------------------------------------


def seconds(ways: list[str], length: int, causal: bool, rounds: int) -> dict[str, list[float]]:
    """Time a step of each way, round by round; in each round every way has its turn."""
    steps = {way: make_step(way, length, causal) for way in ways}
    if len(ways) == 2 and length <= 2048:
        torch.testing.assert_close(*(step() for step in steps.values()), rtol=1e-3, atol=1e-5)
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, step in steps.items():
            start = time.perf_counter()
            step()
            times[way].append(time.perf_counter() - start)
    return times


# -- memory --------------------------------------------------------------------------------------


def peak_in_a_process(way: str, length: int, causal: bool, threads: int) -> float | None:
    """Measure the peak of one step, beyond its inputs, in MiB."""
    asked = ("--peak", way, str(length), str(int(causal)))
    told = run_apart(__file__, *asked, "--threads", str(threads))
    return None if told == "None" else float(told)


def print_peak(way: str, length: int, causal: bool) -> None:
    make_step(way, 16, causal)()  # whatever is set up once
    print(peak_mib(make_step(way, length, causal)))


def growth(rows: list[dict[str, Any]], causal: bool, column: str) -> dict[str, float]:
    """Fit memory = slope · length + rest, and memory ∝ length^exponent."""
    points = [
        (row["length"], row[column])
        for row in rows
        if row["causal"] == causal and row[column] is not None
    ]
    length, memory = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    slope, rest = np.polyfit(length, memory, 1)
    left = memory - (slope * length + rest)
    return {
        "MiB per 1,024": round(slope * 1024, 2),
        "R²": round(float(1 - left.var() / memory.var()), 5),
        "exponent": round(float(np.polyfit(np.log(length), np.log(memory), 1)[0]), 2),
    }


# -- a closed tap --------------------------------------------------------------------------------


def closed_tap_ns() -> float:
    """Time `tap` while no trace is open, the call included."""
    value, calls = torch.ones(1), 200_000
    return min(timeit.repeat(lambda: tap("weights", value), number=calls, repeat=9)) / calls * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        way, length, causal = options.peak
        print_peak(way, int(length), causal == "1")
        return

    tap_ns = round(closed_tap_ns(), 1)
    print(f"a closed tap: {tap_ns} ns")
    rows: list[dict[str, Any]] = []
    for causal in (False, True):
        for length in (n for n in LENGTHS if n <= options.longest):
            ways = ["attend", "formula"] if length <= LONGEST_FORMULA else ["attend"]
            times = seconds(ways, length, causal, options.rounds)
            time_of = {way: statistics.median(t) for way, t in times.items()}
            peak_of = {way: peak_in_a_process(way, length, causal, options.threads) for way in ways}
            row: dict[str, Any] = {"length": length, "causal": causal}
            row |= {f"{way} s": _rounded(time_of.get(way), 3) for way in WAYS}
            ratios = [b / a for a, b in zip(*times.values(), strict=True)] if len(ways) > 1 else []
            row["ratio"] = _rounded(statistics.median(ratios) if ratios else None, 2)
            row |= {f"{way} MiB": _rounded(peak_of.get(way), 1) for way in WAYS}
            rows.append(row)
            print(f"… {length:,}{' causal' if causal else ''}", file=sys.stderr)
    show(
        "Forward + backward, 8 heads of 64, one sequence; ratio: the formula's time over attend's; "
        "—: not run, needs too much memory",
        rows,
    )
    fits = [
        {"way": way, "causal": causal, **growth(rows, causal, f"{way} MiB")}
        for way in WAYS
        for causal in (False, True)
        if rows[0][f"{way} MiB"] is not None
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
