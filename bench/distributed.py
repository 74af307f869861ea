"""Measure the speedup of several processes: steps of the training loop, interleaved in one run.

    python bench/distributed.py [--rounds 7] [--steps 4] [--processes 2 4]

Groups of 1, 2 and 4 processes with one thread each take turns in every round. Weak scaling: the
batch per process is fixed; strong scaling: the total batch is fixed. `independent` processes do not
communicate: the limit of this machine's cores. Each figure comes with the cores that the group
used, and those that other processes used meanwhile (on Linux). A turn waits for an idle machine,
and is repeated once if it was disturbed. Writes results/distributed.json; docs/cluster.md has its
tables.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HEAVY = {"kind": "transformer", "size": "large"}  # width 256, 4 layers
LENGTH, VOCABULARY, CLASSES = 128, 2000, 4
PER_PROCESS, TOTAL = 8, 32  # examples in a step: weak and strong scaling
MODES = ("independent", "ddp", "fsdp")
CORES = os.cpu_count() or 1
ONE, THREADS = "one process", f"one process, {CORES} threads"
DISTURBED = 0.1  # cores used by other processes


# -- one rank --------------------------------------------------------------------------------------


class RandomTask:
    """A task with random tokens: no data to read, nothing to evaluate."""

    metric, higher_is_better = "none", True

    def __init__(self) -> None:
        import torch

        from workings.models.classifiers import build_classifier

        torch.manual_seed(0)
        self.model = build_classifier(HEAVY, VOCABULARY, CLASSES)
        self.ids = torch.randint(VOCABULARY, (256, LENGTH))
        self.targets = torch.randint(CLASSES, (256,))

    def batches(self, epoch: int) -> list[range]:  # noqa: ARG002
        return [range(PER_PROCESS)]

    def weight(self, batch: range) -> int:
        return len(batch)

    def describe(self, batch: range) -> str:
        return f"a batch of {len(batch)}"

    def evaluate(self, group: Any) -> dict[str, float]:  # noqa: ARG002
        return {}

    def loss(self, batch: range, device: Any) -> Any:  # noqa: ARG002
        import torch
        import torch.nn.functional as F

        from workings.tasks.base import BatchLoss

        rows = list(batch)
        logits = self.model(self.ids[rows], torch.full((len(rows),), LENGTH))
        return BatchLoss(F.cross_entropy(logits, self.targets[rows]))


def serve() -> None:
    """Answer requests on the main process's standard input: `mode examples steps`."""
    import torch

    from workings.distributed import ProcessGroup, init_process_group
    from workings.recipes import TrainConfig
    from workings.training.logging import Log
    from workings.training.trainer import Trainer

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with init_process_group() as group, tempfile.TemporaryDirectory() as folder:
        single = ProcessGroup(torch.device("cpu"))
        trainers = {
            mode: Trainer(
                RandomTask(),
                TrainConfig(parallelism="fsdp" if mode == "fsdp" else "ddp"),
                Path(folder),
                Log(None, "quiet"),
                0,
                single if mode == "independent" else group,
            )
            for mode in (MODES if group.world_size > 1 else MODES[:1])
        }
        parameters = sum(p.numel() for p in trainers["independent"].task.model.parameters())
        answer: Any = {"parameters": parameters, "all_reduce": all_reduce_ms(group, parameters)}
        while True:
            if group.is_main_process:
                print(json.dumps(answer), flush=True)
            request = group.broadcast_object(sys.stdin.readline() if group.is_main_process else "")
            if not request:
                return
            mode, examples, steps = request.split()
            trainer = trainers[mode]
            batch = range(int(examples) // (group.world_size if mode == "independent" else 1))
            trainer._step([batch])
            group.barrier()
            start, cpu_start = time.perf_counter(), time.process_time()
            for _ in range(int(steps)):
                trainer._step([batch])
            group.barrier()
            seconds = time.perf_counter() - start
            cores = sum(group.all_gather_object((time.process_time() - cpu_start) / seconds))
            answer = {"step": 1e3 * seconds / int(steps), "seconds": seconds, "cores": cores}


def all_reduce_ms(group: Any, numbers: int) -> float | None:
    """Return the milliseconds of an all-reduce of as many numbers as the model has parameters."""
    if group.world_size == 1:
        return None
    import torch

    gradients, times = torch.zeros(numbers), []
    for _ in range(10):
        group.barrier()
        start = time.perf_counter()
        group.all_reduce_rows(gradients)
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


# -- all groups ------------------------------------------------------------------------------------


class ServerGroup:
    """A group of processes that answers requests line by line; it ends with the block."""

    def __init__(self, count: int, threads: int = 1) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", str(count), __file__, "--serve"),
            ],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.info: dict[str, Any] = {}

    def request(self, *values: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, values)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def __enter__(self) -> "ServerGroup":
        self.info = self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # closing its input ends it


def busy_seconds() -> float:
    """Return the CPU seconds of all processes of the machine since it started."""
    if not Path("/proc/stat").exists():
        return 0.0
    user, nice, system, _idle, _iowait, *rest = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def wait_until_idle(patience: float) -> None:
    """Wait until other processes are idle, at most `patience` seconds."""
    deadline = time.perf_counter() + patience
    while time.perf_counter() < deadline:
        start, busy = time.perf_counter(), busy_seconds()
        time.sleep(0.3)
        if (busy_seconds() - busy) / (time.perf_counter() - start) < DISTURBED:
            return


def measure_undisturbed(patience: float, *request: Any) -> dict[str, float]:
    """Measure once, and again if other processes were busy; return the less disturbed result."""
    wait_until_idle(patience)
    result = measure(*request)
    if result["others"] > DISTURBED:
        wait_until_idle(patience)
        result = min(result, measure(*request), key=lambda r: r["others"])
    return result


def measure(group: ServerGroup, mode: str, examples: int, steps: int) -> dict[str, float]:
    """Return the speed of some steps, and the cores that other processes used meanwhile."""
    start, busy = time.perf_counter(), busy_seconds()
    answer = group.request(mode, examples, steps)
    cores = (busy_seconds() - busy) / (time.perf_counter() - start)
    return {
        "ms": answer["step"],
        "rate": 1e3 * examples / answer["step"],
        "cores": answer["cores"],
        "others": max(cores - answer["cores"], 0.0),
    }


def settings(counts: list[int]) -> list[tuple[str, str, int, int]]:
    """Return all settings: scaling, mode, processes, examples in a step."""
    several = [(mode, count) for count in counts if count > 1 for mode in MODES]
    return [
        ("weak", ONE, 1, PER_PROCESS),
        *(("weak", mode, count, PER_PROCESS * count) for mode, count in several),
        ("strong", ONE, 1, TOTAL),
        ("strong", THREADS, 1, TOTAL),
        *(("strong", mode, count, TOTAL) for mode, count in several if mode != "independent"),
    ]


def row(
    setting: tuple[str, str, int, int], turns: list[dict[str, float]], one: list[dict[str, float]]
) -> dict[str, Any]:
    """Return the medians over a setting's rounds, and its speedup over one process.

    If at least three rounds were undisturbed, only those count.
    """
    scaling, mode, count, examples = setting
    pairs = list(zip(turns, one, strict=True))
    undisturbed = [pair for pair in pairs if max(turn["others"] for turn in pair) <= DISTURBED]
    pairs = undisturbed if len(undisturbed) >= 3 else pairs
    median = {key: statistics.median(ours[key] for ours, _ in pairs) for key in turns[0]}
    speedup = statistics.median(ours["rate"] / theirs["rate"] for ours, theirs in pairs)
    return {
        "scaling": scaling,
        "parallelism": mode,
        "processes": count,
        "batch": examples,
        "ms a step": round(median["ms"], 1),
        "examples/s": round(median["rate"], 1),
        "× one": round(speedup, 2),
        "cores got": round(median["cores"], 2),
        "others' cores": round(median["others"], 2),
        "calm rounds": len(undisturbed),
    }


def rotate(items: list[Any], count: int) -> list[Any]:
    """Return a list that starts with another item."""
    return items[count % len(items) :] + items[: count % len(items)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="steps per turn")
    parser.add_argument(
        "--patience", type=float, default=10.0, help="seconds to wait for an idle machine"
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    from report import environment, save, show

    turns: dict[Any, list[dict[str, float]]] = {}
    with ExitStack() as stack:
        threaded = stack.enter_context(ServerGroup(1, CORES))
        groups = {n: stack.enter_context(ServerGroup(n)) for n in (1, *options.processes)}
        all_settings = settings(options.processes)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            for setting in rotate(all_settings, number):
                _, mode, count, examples = setting
                group = threaded if mode == THREADS else groups[count]
                mode = mode if count > 1 else "independent"
                result = measure_undisturbed(options.patience, group, mode, examples, options.steps)
                turns.setdefault(setting, []).append(result)
    ones = {s[0]: turns[s] for s in all_settings if s[1] == ONE}
    rows = [row(s, turns[s], ones[s[0]]) for s in all_settings]
    show("Steps of a Transformer classifier; × one: examples/s over one process's", rows)
    save(
        "distributed",
        {
            **environment(),
            "threads": 1,  # per process, unless the row says otherwise
            "parameters": groups[1].info["parameters"],
            "length": LENGTH,
            "rounds": options.rounds,
            "all_reduce_ms": {n: group.info["all_reduce"] for n, group in groups.items()},
            "rows": rows,
        },
    )
    return None


if __name__ == "__main__":
    main()
