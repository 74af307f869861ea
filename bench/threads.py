"""Measure thread settings: a training step alone, and while other processes are busy.

Each setting has its own process (OpenMP reads its environment once, when it is loaded) and takes a
turn in every round, so that changes of the machine's load affect all of them. A figure is the
median over the rounds of the mean step of a turn; the best and worst turn, and the cores used by
unrelated processes (on Linux), are reported as well: a turn disturbed by a tenth of a core is
repeated once. Writes results/threads.json and prints the table of docs/threads.md.

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
SEVERAL = max(2, CORES)

# width, heads, batch, length: a model for a laptop, and the largest that a CPU trains in hours.
WORKLOADS = {"small": (128, 4, 12, 64), "middle": (384, 6, 8, 256)}

ONE = "1 thread"
SETTINGS = {
    ONE: {"OMP_NUM_THREADS": "1"},
    "1 thread, passive": {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
    f"{SEVERAL} threads": {"OMP_NUM_THREADS": f"{SEVERAL}"},
    f"{SEVERAL} threads, spin 10,000": {"OMP_NUM_THREADS": f"{SEVERAL}", "GOMP_SPINCOUNT": "10000"},
    f"{SEVERAL} threads, spin 1,000": {"OMP_NUM_THREADS": f"{SEVERAL}", "GOMP_SPINCOUNT": "1000"},
    f"{SEVERAL} threads, passive": {"OMP_NUM_THREADS": f"{SEVERAL}", "OMP_WAIT_POLICY": "passive"},
    f"{SEVERAL} threads, passive, spin 1,000": {
        "OMP_NUM_THREADS": f"{SEVERAL}",
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "1000",
    },
}

# Busy processes that end when the benchmark ends, even if it is killed.
LOOP = (
    sys.executable,
    "-c",
    "import os; parent = os.getppid(); print(flush=True)\nwhile os.getppid() == parent: pass",
)
# With torch's default threads, which spin.
TRAINING = (sys.executable, __file__, "--background-training")
LOADS = {
    "none": [],
    "a busy loop": [LOOP],
    f"{SEVERAL} busy loops": [LOOP] * SEVERAL,
    "a training": [TRAINING],
}


Turn: TypeAlias = tuple[float, float]  # cores busy with something else, mean step in ms


# -- one process: a model and its steps ------------------------------------------------------------


def make_step(workload: str) -> Callable[[], None]:
    import torch
    from torch import nn

    from workings.layers import EncoderBlock

    width, heads, batch, length = WORKLOADS[workload]
    torch.manual_seed(0)
    model = nn.Sequential(*(EncoderBlock(width, heads, 4 * width) for _ in range(2)))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(batch, length, width)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()
    return step


def mean_step(step: Callable[[], None], seconds: float) -> float:
    """Return the mean milliseconds of steps taken for `seconds`, at least two."""
    step()
    start, steps = time.perf_counter(), 0
    while steps < 2 or time.perf_counter() < start + seconds:
        step()
        steps += 1
    return 1e3 * (time.perf_counter() - start) / steps


def serve() -> None:
    """Answer each line `workload seconds` on standard input with the mean step."""
    steps = {workload: make_step(workload) for workload in WORKLOADS}
    print(flush=True)
    for line in sys.stdin:
        workload, seconds = line.split()
        print(mean_step(steps[workload], float(seconds)), flush=True)


def train_forever() -> None:
    step, parent = make_step("small"), os.getppid()
    print(flush=True)
    while os.getppid() == parent:
        step()


# -- all processes ---------------------------------------------------------------------------------


class Process:
    """A process that prints a line when ready and answers requests; it ends with the block."""

    def __init__(self, command: tuple[str, ...], settings: dict[str, str]) -> None:
        prefixes = ("OMP", "GOMP", "MKL", "KMP")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
        self.process = subprocess.Popen(
            command,
            env=clean | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def request(self, line: str) -> str:
        """Send a line; return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> str:
        """Wait for a line and return it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of this process and its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "Process":
        self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def foreign_seconds(ours: list[Process]) -> float:
    """Return the CPU seconds of all processes of the machine but these."""
    if not Path("/proc/stat").exists():
        return 0.0
    user, nice, system, _idle, _iowait, *rest = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    total = (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
    return total - sum(process.cpu_seconds() for process in ours)


def measure_turn(runner: Process, line: str, ours: list[Process]) -> Turn:
    """Return the cores that unrelated processes used meanwhile, and the mean step."""
    start, foreign = time.perf_counter(), foreign_seconds(ours)
    answer = float(runner.request(line))
    elapsed = time.perf_counter() - start
    return (foreign_seconds(ours) - foreign) / elapsed, answer


def measure(rounds: int, seconds: float) -> Iterator[dict[str, dict[str, dict[str, list[Turn]]]]]:
    """Yield all turns so far after each round."""
    times = {w: {n: {s: [] for s in SETTINGS} for n in LOADS} for w in WORKLOADS}
    with ExitStack() as stack:
        runners = {
            setting: stack.enter_context(
                Process((sys.executable, __file__, "--serve"), environment)
            )
            for setting, environment in SETTINGS.items()
        }
        for number in range(rounds):
            for load, commands in LOADS.items():
                print(f"round {number + 1} of {rounds}, background load: {load}", file=sys.stderr)
                with ExitStack() as busy_stack:
                    busy = [busy_stack.enter_context(Process(c, {})) for c in commands]
                    for workload in WORKLOADS:
                        for setting, runner in runners.items():
                            request = (runner, f"{workload} {seconds}", [*runners.values(), *busy])
                            result = measure_turn(*request)
                            if result[0] > 0.1:
                                result = min(result, measure_turn(*request))
                            times[workload][load][setting].append(result)
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
    """Return a Markdown table: milliseconds, and the ratio to one thread under the same load."""
    lines = []
    for workload, by_load in steps.items():
        lines.append(f"| {workload}: ms a step (× one thread) | {' | '.join(by_load)} |")
        lines.append("|---" * (1 + len(by_load)) + "|")
        for setting in SETTINGS:
            cells = [
                f"{figures[setting]['median']:.0f} "
                f"({figures[setting]['median'] / figures[ONE]['median']:.2f})"
                for figures in by_load.values()
            ]
            lines.append(f"| {setting} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--background-training", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    if options.background_training:
        return train_forever()
    for done, times in enumerate(measure(options.rounds, options.seconds), start=1):
        steps = {
            workload: {
                load: {setting: summary(turns) for setting, turns in by_setting.items()}
                for load, by_setting in by_load.items()
            }
            for workload, by_load in times.items()
        }
        machine = {"cores": CORES, "machine": platform.machine(), "torch": version("torch")}
        result = {"format": 1, "machine": machine, "rounds": done, "step_ms": steps}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(table(steps))
    return None


if __name__ == "__main__":
    main()
