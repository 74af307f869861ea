"""Contestants in processes of their own, which take turns: in one they disturb each other."""

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
    """What to measure by: on one thread the processor's time, for the machine has others to serve.

    Of several threads the processor's time is the sum of theirs.
    """
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def serve(run: Callable[[], Any]) -> None:
    """Run once for each line that comes in; answer with the milliseconds and what came of it."""
    now = clock()
    with torch.inference_mode():
        for _ in sys.stdin:
            start = now()
            found = run()
            print(json.dumps([(now() - start) * 1e3, found]), flush=True)


@contextmanager
def served(command: Sequence[str]) -> Iterator[Turn]:
    """Start a script that serves; give what has it run once more. It has run once by then."""
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

    def once() -> tuple[float, Any]:
        send.write("\n")
        send.flush()
        ms, found = json.loads(receive.readline())
        return float(ms), found

    try:
        once()  # warm
        yield once
    finally:
        process.kill()
        process.wait()


def in_turn(
    commands: Mapping[str, Sequence[str]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Let all run in every round, each round beginning with another; times, and what came last."""
    names = list(commands)
    times: dict[str, list[float]] = {name: [] for name in names}
    found: dict[str, Any] = {}
    with ExitStack() as open_ones:
        turns = {n: open_ones.enter_context(served(command)) for n, command in commands.items()}
        for number in range(rounds):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                ms, found[name] = turns[name]()
                times[name].append(ms)
    return times, found
