"""How much faster are several processes? Steps of the real training loop, interleaved in one run.

    python bench/distributed.py [--rounds 7] [--steps 4] [--processes 2 4]

Crews of 1, 2 and 4 processes, a thread each, stand by and take turns in every round. Weak scaling:
every process has a batch of its own size, however many there are; strong: all share one batch of a
fixed size. `apart` are processes that do not talk at all: what this machine's cores can do. Beside
each figure stand the cores that the crew got, and those that strangers took meanwhile (on Linux,
which can tell): a turn waits for a quiet moment, and a disturbed one is taken again once. Writes
results/distributed.json; docs/cluster.md has its tables.
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
EACH, SHARED = 8, 32  # examples in a step: of every process, and of all together
HOW = ("apart", "ddp", "fsdp")
CORES = os.cpu_count() or 1
ONE, THREADS = "one process", f"one process, {CORES} threads"
DISTURBED = 0.1  # cores


# -- one process of a crew ------------------------------------------------------------------------


class Generated:
    """A task of made-up tokens: nothing to read, nothing to evaluate."""

    metric, higher_is_better = "none", True

    def __init__(self) -> None:
        import torch

        from workings.models.classifiers import build_classifier

        torch.manual_seed(0)
        self.model = build_classifier(HEAVY, VOCABULARY, CLASSES)
        self.ids = torch.randint(VOCABULARY, (256, LENGTH))
        self.targets = torch.randint(CLASSES, (256,))

    def batches(self, epoch: int) -> list[range]:  # noqa: ARG002
        return [range(EACH)]

    def weight(self, batch: range) -> int:
        return len(batch)

    def describe(self, batch: range) -> str:
        return f"a batch of {len(batch)}"

    def evaluate(self, crew: Any) -> dict[str, float]:  # noqa: ARG002
        return {}

    def loss(self, batch: range, device: Any) -> Any:  # noqa: ARG002
        import torch
        import torch.nn.functional as F

        from workings.tasks.base import BatchLoss

        some = list(batch)
        scores = self.model(self.ids[some], torch.full((len(some),), LENGTH))
        return BatchLoss(F.cross_entropy(scores, self.targets[some]))


def serve() -> None:
    """Answer each question on the chief's standard input: `how examples steps`."""
    import torch

    from workings.distributed import ProcessGroup, init_process_group
    from workings.recipes import TrainConfig
    from workings.training.logging import Log
    from workings.training.trainer import Trainer

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with init_process_group() as crew, tempfile.TemporaryDirectory() as folder:
        alone = ProcessGroup(torch.device("cpu"))
        trainers = {
            how: Trainer(
                Generated(),
                TrainConfig(parallelism="fsdp" if how == "fsdp" else "ddp"),
                Path(folder),
                Log(None, "quiet"),
                0,
                alone if how == "apart" else crew,
            )
            for how in (HOW if crew.world_size > 1 else HOW[:1])
        }
        parameters = sum(p.numel() for p in trainers["apart"].task.model.parameters())
        told: Any = {"parameters": parameters, "all_reduce": all_reduce_ms(crew, parameters)}
        while True:
            if crew.is_main_process:
                print(json.dumps(told), flush=True)
            question = crew.broadcast_object(sys.stdin.readline() if crew.is_main_process else "")
            if not question:
                return
            how, examples, steps = question.split()
            trainer = trainers[how]
            batch = range(int(examples) // (crew.world_size if how == "apart" else 1))
            trainer._step([batch])
            crew.barrier()
            begun, worked = time.perf_counter(), time.process_time()
            for _ in range(int(steps)):
                trainer._step([batch])
            crew.barrier()
            seconds = time.perf_counter() - begun
            cores = sum(crew.all_gather_object((time.process_time() - worked) / seconds))
            told = {"step": 1e3 * seconds / int(steps), "seconds": seconds, "cores": cores}


def all_reduce_ms(crew: Any, numbers: int) -> float | None:
    """The best of a few rounds of adding up as many numbers as the model has, and nothing else."""
    if crew.size == 1:
        return None
    import torch

    gradients, times = torch.zeros(numbers), []
    for _ in range(10):
        crew.wait()
        begun = time.perf_counter()
        crew.joined(gradients)
        times.append(1e3 * (time.perf_counter() - begun))
    return min(times)


# -- all of them ----------------------------------------------------------------------------------


class Processes:
    """A crew that answers lines with lines, and ends with the block."""

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
        self.told: dict[str, Any] = {}

    def ask(self, *question: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, question)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def __enter__(self) -> "Processes":
        self.told = self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # the end of its input ends it


def busy_seconds() -> float:
    """Tell how long all cores have worked, for anybody."""
    if not Path("/proc/stat").exists():
        return 0.0
    user, nice, system, _idle, _iowait, *rest = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def calm(patience: float) -> None:
    """Wait for a moment in which nobody else is busy, but not for ever."""
    until = time.perf_counter() + patience
    while time.perf_counter() < until:
        begun, busy = time.perf_counter(), busy_seconds()
        time.sleep(0.3)
        if (busy_seconds() - busy) / (time.perf_counter() - begun) < DISTURBED:
            return


def quiet_turn(patience: float, *question: Any) -> dict[str, float]:
    """Take a turn, and once more if it was disturbed: the calmer one counts."""
    calm(patience)
    taken = turn(*question)
    if taken["others"] > DISTURBED:
        calm(patience)
        taken = min(taken, turn(*question), key=lambda t: t["others"])
    return taken


def turn(crew: Processes, how: str, examples: int, steps: int) -> dict[str, float]:
    """Ask for some steps; how many cores were meanwhile busy for others is told, too."""
    begun, busy = time.perf_counter(), busy_seconds()
    told = crew.ask(how, examples, steps)
    cores = (busy_seconds() - busy) / (time.perf_counter() - begun)
    return {
        "ms": told["step"],
        "rate": 1e3 * examples / told["step"],
        "cores": told["cores"],
        "others": max(cores - told["cores"], 0.0),
    }


def settings(counts: list[int]) -> list[tuple[str, str, int, int]]:
    """What is measured: scaling, how, processes, examples in a step."""
    several = [(how, count) for count in counts if count > 1 for how in HOW]
    return [
        ("weak", ONE, 1, EACH),
        *(("weak", how, count, EACH * count) for how, count in several),
        ("strong", ONE, 1, SHARED),
        ("strong", THREADS, 1, SHARED),
        *(("strong", how, count, SHARED) for how, count in several if how != "apart"),
    ]


def row(
    setting: tuple[str, str, int, int], turns: list[dict[str, float]], one: list[dict[str, float]]
) -> dict[str, Any]:
    """The medians of a setting's turns; its gain over one process, round by round.

    Where there are three rounds in which neither was disturbed, they alone count.
    """
    scaling, how, count, examples = setting
    pairs = list(zip(turns, one, strict=True))
    calm_ones = [pair for pair in pairs if max(turn["others"] for turn in pair) <= DISTURBED]
    pairs = calm_ones if len(calm_ones) >= 3 else pairs
    middle = {key: statistics.median(ours[key] for ours, _ in pairs) for key in turns[0]}
    gain = statistics.median(ours["rate"] / theirs["rate"] for ours, theirs in pairs)
    return {
        "scaling": scaling,
        "parallelism": how,
        "processes": count,
        "batch": examples,
        "ms a step": round(middle["ms"], 1),
        "examples/s": round(middle["rate"], 1),
        "× one": round(gain, 2),
        "cores got": round(middle["cores"], 2),
        "others' cores": round(middle["others"], 2),
        "calm rounds": len(calm_ones),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn")
    parser.add_argument(
        "--patience", type=float, default=10.0, help="seconds to wait for a quiet moment"
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    from report import environment, save, show

    turns: dict[Any, list[dict[str, float]]] = {}
    with ExitStack() as open_crews:
        many = open_crews.enter_context(Processes(1, CORES))
        crews = {n: open_crews.enter_context(Processes(n)) for n in (1, *options.processes)}
        asked = settings(options.processes)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            for setting in asked[number % len(asked) :] + asked[: number % len(asked)]:
                _, how, count, examples = setting
                crew = many if how == THREADS else crews[count]
                way = how if count > 1 else "apart"
                taken = quiet_turn(options.patience, crew, way, examples, options.steps)
                turns.setdefault(setting, []).append(taken)
    ones = {s[0]: turns[s] for s in asked if s[1] == ONE}
    rows = [row(s, turns[s], ones[s[0]]) for s in asked]
    show("Steps of a Transformer classifier; × one: examples/s over one process's", rows)
    save(
        "distributed",
        {
            **environment(),
            "threads": 1,  # of each process, but where it says otherwise
            "parameters": crews[1].told["parameters"],
            "length": LENGTH,
            "rounds": options.rounds,
            "all_reduce_ms": {n: crew.told["all_reduce"] for n, crew in crews.items()},
            "rows": rows,
        },
    )
    return None


if __name__ == "__main__":
    main()
