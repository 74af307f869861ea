"""Run implementations in separate processes that take turns: in one they affect each other."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

Turn = Callable[[], tuple[float, Any]]


def clock() -> Callable[[], float]:
    """Return the clock to measure with: CPU time on one thread, wall time on several.

    CPU time is not affected by other processes, but adds up over threads.
    """
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def serve(run: Callable[[], Any]) -> None:
    """Run once for each line on standard input; print the milliseconds and the result as JSON."""
    now = clock()
    with torch.inference_mode():
        for _ in sys.stdin:
            start = now()
            result = run()
            print(json.dumps([(now() - start) * 1e3, result]), flush=True)


@contextmanager
def start_server(command: Sequence[str]) -> Iterator[Turn]:
    """Start a script that calls `serve` and warm it up; yield a function that lets it run once."""
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    send, receive = process.stdin, process.stdout

    def run_once() -> tuple[float, Any]:
        send.write("\n")
        send.flush()
        ms, result = json.loads(receive.readline())
        return float(ms), result

    try:
        run_once()  # warm up
        yield run_once
    finally:
        process.kill()
        process.wait()


def run_in_turn(
    commands: Mapping[str, Sequence[str]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run all commands in every round, starting with a different one; return times and results."""
    names = list(commands)
    times: dict[str, list[float]] = {name: [] for name in names}
    results: dict[str, Any] = {}
    with ExitStack() as stack:
        turns = {n: stack.enter_context(start_server(command)) for n, command in commands.items()}
        for number in range(rounds):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                ms, results[name] = turns[name]()
                times[name].append(ms)
    return times, results
