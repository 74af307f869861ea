"""How many threads, and how should they wait? One training step, beside busy neighbours.

Every setting lives in a process of its own (OpenMP reads its environment once, when it is loaded)
and takes its turn in every round, so that a change in the machine's mood meets all of them. A
figure is the mean step of a turn, its median over the rounds; beside it are kept the best and the
worst turn, and how many cores were busy with anything that is not ours (on Linux, which can tell):
a turn disturbed by a tenth of a core is taken again once. Writes results/threads.json and prints
the table of docs/threads.md.

    python bench/threads.py [--rounds 5] [--seconds 1.5]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

RESULTS = Path(__file__).parents[1] / "results" / "threads.json"
CORES = os.cpu_count() or 1
MANY = max(2, CORES)

# width, heads, batch, length: a model for a laptop, and the largest that one trains with patience.
WORKLOADS = {"small": (128, 4, 12, 64), "middle": (384, 6, 8, 256)}

ONE = "1 thread"
SETTINGS = {
    ONE: {"OMP_NUM_THREADS": "1"},
    "1 thread, passive": {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
    f"{MANY} threads": {"OMP_NUM_THREADS": f"{MANY}"},
    f"{MANY} threads, spin 10,000": {"OMP_NUM_THREADS": f"{MANY}", "GOMP_SPINCOUNT": "10000"},
    f"{MANY} threads, spin 1,000": {"OMP_NUM_THREADS": f"{MANY}", "GOMP_SPINCOUNT": "1000"},
    f"{MANY} threads, passive": {"OMP_NUM_THREADS": f"{MANY}", "OMP_WAIT_POLICY": "passive"},
    f"{MANY} threads, passive, spin 1,000": {
        "OMP_NUM_THREADS": f"{MANY}",
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "1000",
    },
}

# Neighbours end when the benchmark does, however it does.
LOOP = (
    sys.executable,
    "-c",
    "import os; parent = os.getppid(); print(flush=True)\nwhile os.getppid() == parent: pass",
)
TRAINING = (sys.executable, __file__, "--neighbour")  # with torch's own number of spinning threads
NEIGHBOURS = {
    "nobody": [],
    "a busy loop": [LOOP],
    f"{MANY} busy loops": [LOOP] * MANY,
    "a training": [TRAINING],
}


Turn: TypeAlias = tuple[float, float]  # cores busy with something else, mean step in ms


# -- one process: a model and its steps ---------------------------------------------------------


def stepper(workload: str) -> Callable[[], None]:
    import torch
    from torch import nn

    from workings.layers import EncoderBlock

    width, heads, batch, length = WORKLOADS[workload]
    torch.manual_seed(0)
    model = nn.Sequential(*(EncoderBlock(width, heads, 4 * width) for _ in range(2)))
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(batch, length, width)

    def step() -> None:
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()

    step()
    return step


def mean_step(step: Callable[[], None], seconds: float) -> float:
    """Take steps for so long, at least two; the mean in milliseconds."""
    step()
    start, steps = time.perf_counter(), 0
    while steps < 2 or time.perf_counter() < start + seconds:
        step()
        steps += 1
    return 1e3 * (time.perf_counter() - start) / steps


def serve() -> None:
    """Answer each `workload seconds` on standard input with a mean step."""
    steps = {workload: stepper(workload) for workload in WORKLOADS}
    print(flush=True)
    for line in sys.stdin:
        workload, seconds = line.split()
        print(mean_step(steps[workload], float(seconds)), flush=True)


def train_meanwhile() -> None:
    step, parent = stepper("small"), os.getppid()
    print(flush=True)
    while os.getppid() == parent:
        step()


# -- all of them ----------------------------------------------------------------------------------


class Process:
    """A process that says when it is ready, answers lines with lines, and ends with the block."""

    def __init__(self, command: tuple[str, ...], settings: dict[str, str]) -> None:
        chosen = ("OMP", "GOMP", "MKL", "KMP")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(chosen)}
        self.process = subprocess.Popen(
            command,
            env=clean | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: str) -> str:
        """Send a line; give back the next one."""
        assert self.process.stdin is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> str:
        """Wait for a line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def cpu_seconds(self) -> float:
        """Tell how long this process has worked, on all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "Process":
        self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def foreign_seconds(ours: list[Process]) -> float:
    """Tell how long the machine has worked for anybody but these processes."""
    if not Path("/proc/stat").exists():
        return 0.0
    user, nice, system, _idle, _iowait, *rest = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    whole = (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
    return whole - sum(process.cpu_seconds() for process in ours)


def turn(runner: Process, question: str, ours: list[Process]) -> Turn:
    """Ask for a mean step; how many cores were meanwhile busy with something else stands first."""
    start, foreign = time.perf_counter(), foreign_seconds(ours)
    answer = float(runner.ask(question))
    elapsed = time.perf_counter() - start
    return (foreign_seconds(ours) - foreign) / elapsed, answer


def measure(rounds: int, seconds: float) -> Iterator[dict[str, dict[str, dict[str, list[Turn]]]]]:
    """Give all turns so far after each round."""
    times = {w: {n: {s: [] for s in SETTINGS} for n in NEIGHBOURS} for w in WORKLOADS}
    with ExitStack() as open_processes:
        runners = {
            setting: open_processes.enter_context(
                Process((sys.executable, __file__, "--serve"), environment)
            )
            for setting, environment in SETTINGS.items()
        }
        for number in range(rounds):
            for neighbours, commands in NEIGHBOURS.items():
                print(f"round {number + 1} of {rounds}, beside {neighbours}", file=sys.stderr)
                with ExitStack() as open_neighbours:
                    busy = [open_neighbours.enter_context(Process(c, {})) for c in commands]
                    for workload in WORKLOADS:
                        for setting, runner in runners.items():
                            ask = (runner, f"{workload} {seconds}", [*runners.values(), *busy])
                            taken = turn(*ask)
                            if taken[0] > 0.1:
                                taken = min(taken, turn(*ask))
                            times[workload][neighbours][setting].append(taken)
            yield times


def summary(turns: list[Turn]) -> dict[str, float]:
    steps = [step for _, step in turns]
    return {
        "median": round(statistics.median(steps), 1),
        "best": round(min(steps), 1),
        "worst": round(max(steps), 1),
        "foreign_cores": round(statistics.median(foreign for foreign, _ in turns), 2),
    }


def table(steps: dict[str, dict[str, dict[str, dict[str, float]]]]) -> str:
    """Each figure as milliseconds, and as a multiple of one thread in the same company."""
    lines = []
    for workload, by_neighbours in steps.items():
        lines.append(f"| {workload}: ms a step (× one thread) | {' | '.join(by_neighbours)} |")
        lines.append("|---" * (1 + len(by_neighbours)) + "|")
        for setting in SETTINGS:
            cells = [
                f"{figures[setting]['median']:.0f} "
                f"({figures[setting]['median'] / figures[ONE]['median']:.2f})"
                for figures in by_neighbours.values()
            ]
            lines.append(f"| {setting} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--neighbour", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    if options.neighbour:
        return train_meanwhile()
    for done, times in enumerate(measure(options.rounds, options.seconds), start=1):
        steps = {
            workload: {
                neighbours: {setting: summary(turns) for setting, turns in by_setting.items()}
                for neighbours, by_setting in by_neighbours.items()
            }
            for workload, by_neighbours in times.items()
        }
        machine = {"cores": CORES, "machine": platform.machine(), "torch": version("torch")}
        found = {"format": 1, "machine": machine, "rounds": done, "step_ms": steps}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(table(steps))
    return None


if __name__ == "__main__":
    main()
