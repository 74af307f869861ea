"""Training with several processes: the losses of one process, one run folder, one error message."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import toys
from toys import log_without_times

from workings.storage import read_json, read_tensors

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and torch.distributed.is_gloo_available()),
    reason="finds the workers of torchrun in /proc",
)
DRIVER = Path(__file__).with_name("distributed_driver.py")
train_alone = runpy.run_path(str(DRIVER))["run"]

CLASSIFIERS = {
    "recurrent": {"d_model": 8, "hidden_size": 8},
    # Only the last state of one direction is used: the weights of the other get no gradient.
    "unused": {"kind": "recurrent", "d_model": 8, "hidden_size": 8, "layers": 2}
    | {"bidirectional": True, "pooling": "last"},
    "perceptron": {"d_model": 4, "length": 3, "hidden_sizes": [8, 5]},
    "convolution": {"d_model": 8, "channels": [6, 6], "kernel": 2, "stride": 1, "hidden_size": 7},
    "transformer": {"d_model": 8, "heads": 2, "layers": 2, "d_ff": 16},
    "ngrams": {"max_n": 2},
    "regions": {"regions": [1, 2], "channels": 6},
}
LANGUAGE_MODELS = {
    "transformer": {"heads": 2, "layers": 2, "positions": "learned", "max_positions": 8},
    "recurrent": {"hidden_size": 8, "layers": 2},
}


class Tables:
    """Tables of recipes without dropout, on small data in one folder."""

    def __init__(self, folder):
        self.folder = folder
        toys.write_texts(folder / "texts.jsonl")
        toys.write_corpus(folder / "text.txt")
        words = ["red", "green", "blue", "big", "small", "old"]
        lines = [f"{a} {b}\t{b} {a}" for a in words for b in words if a != b]
        (folder / "pairs.tsv").write_text("\n".join(["source\ttarget", *lines]) + "\n")

    def classifier(self, kind="recurrent", *, dropout=0.0, **train):
        """Two epochs of 11 steps."""
        defaults = {"epochs": 2, "batch_size": 16, "learning_rate": 0.02, "save_every": 4}
        return {
            "data": {"set": str(self.folder / "texts.jsonl")},
            "model": {"kind": kind} | CLASSIFIERS[kind] | {"dropout": dropout},
            "train": defaults | train,
        }

    def language(self, kind, *, stateful=False, sampling_rate=0.0, **train):
        """Two epochs of six steps, with seven windows each."""
        data = {"set": str(self.folder / "text.txt"), "context_length": 8, "eval_every": 6}
        return {
            "task": "language",
            "data": data | {"sample": 0, "stateful": stateful},
            "model": {"kind": kind, "d_model": 8} | LANGUAGE_MODELS[kind],
            "scheduled_sampling": {"rate": sampling_rate},
            "train": {"epochs": 2, "batch_size": 7, "learning_rate": 0.01} | train,
        }

    def translator(self, kind, *, sampling_rate=0.0, **train):
        width = {"d_ff": 16, "heads": 2, "layers": 1} if kind == "transformer" else {}
        return {
            "task": "translate",
            "data": {"set": str(self.folder / "pairs.tsv"), "validation": 0.2}
            | {"source": "source", "target": "target"},
            "tokenizer": {"kind": "words", "lower": True},
            "model": {"kind": kind, "d_model": 8, "dropout": 0.0}
            | (width or {"hidden_size": 8, "attention": "additive"}),
            "scheduled_sampling": {"rate": sampling_rate},
            "train": {"epochs": 2, "batch_size": 30, "learning_rate": 0.02} | train,
        }


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Tables(tmp_path)


def torchrun(processes, *command, restarts=0):
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(processes), "--max-restarts", str(restarts)),
        *map(str, command),
    ]


def run_plan(processes, plan, tmp_path):
    """Let several processes do the trainings of a plan, one after the other."""
    (tmp_path / "plan.json").write_text(json.dumps(plan, default=str))
    done = subprocess.run(
        torchrun(processes, DRIVER, tmp_path / "plan.json"),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    # Warnings of Python code; on a busy machine, torch's sockets may print others.
    assert not re.search(r"(?m)^\S+\.py:\d+: \w*Warning: ", done.stderr), done.stderr


def read_losses(folder):
    return json.loads(Path(f"{folder}.steps.json").read_text())


def check_same(folder, other, *, exactly):
    if exactly:
        ours, theirs = (read_tensors(f / "model.safetensors") for f in (folder, other))
        assert log_without_times(folder) == log_without_times(other)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        return
    # Losses only: where a gradient is only rounding error, Adam makes a full step of its sign.
    # Without samples, which a sharded model does not generate.
    logs = ([r for r in log_without_times(f) if r["kind"] != "sample"] for f in (folder, other))
    for one, two in zip(*logs, strict=True):
        assert one.keys() == two.keys()
        assert one == pytest.approx(two, abs=1e-5)


def check_same_as_one_process(processes, recipes, tmp_path, also=()):
    plan = [{"folder": tmp_path / name, "recipe": r} for name, r in recipes.items()]
    run_plan(processes, [*plan, *also], tmp_path)
    for name, recipe in recipes.items():
        expected = train_alone(str(tmp_path / f"{name}-alone"), recipe)
        assert read_losses(tmp_path / name) == pytest.approx(expected, abs=1e-5), name
        check_same(tmp_path / name, tmp_path / f"{name}-alone", exactly=False)
        assert read_json(tmp_path / name / "result.json")["processes"] == processes


MORE = ("unused", "sampled", "translator", "finetuned-ddp")  # in a slow test


@pytest.mark.parametrize("left_out", [MORE, pytest.param((), marks=pytest.mark.slow)])
def test_two_processes_train_like_one(tmp_path, tables, left_out):
    """All tasks, ddp and fsdp, in one torchrun; some are stopped by one process and resumed."""
    stateful, with_dropout = (
        tables.language("recurrent", stateful=True),
        tables.classifier(dropout=0.2),
    )
    ema = {"average": "ema", "ema_decay": 0.9}
    # With so small a rate it takes the path of scheduled sampling, but never samples.
    never = {"sampling_rate": 1e-12}
    recipes = {
        "ddp": tables.classifier("transformer"),
        "fsdp": tables.classifier("transformer", parallelism="fsdp", **ema),
        # 172 examples: three batches of 57 are one step; the one left over is for one process only.
        # At this learning rate the loss is 0 at once, and patience runs out.
        "accumulated": tables.classifier(
            "ngrams", batch_size=57, accumulate=3, epochs=11, patience=3, learning_rate=2.0
        ),
        "unused": tables.classifier("unused", average="last"),
        "stateful": stateful,
        "muon": tables.language("transformer", parallelism="fsdp", optimizer="muon", **ema),
        "sampled": tables.translator("recurrent", metric="bleu", **never),
        "sampled-fsdp": tables.translator("recurrent", parallelism="fsdp", **never),
        "translator": tables.translator("transformer", parallelism="fsdp", **ema),
    }
    frozen = {"freeze": ["embedding", "blocks.0"], "layer_decay": 0.5, "epochs": 1}
    for name in ("ddp", "fsdp"):  # trained further, once they are done
        table = tables.classifier("transformer", parallelism=name, **frozen)
        recipes[f"finetuned-{name}"] = table | {"start_from": str(tmp_path / name)}
    recipes = {name: table for name, table in recipes.items() if name not in left_out}
    stopping = [
        {"folder": tmp_path / "uninterrupted", "recipe": with_dropout},
        {"folder": tmp_path / "stopped", "recipe": with_dropout, "stop_at": 14},
        {"folder": tmp_path / "stopped"},
        {"folder": tmp_path / "stateful-stopped", "recipe": stateful, "stop_at": 4},
        {"folder": tmp_path / "stateful-resumed", "recipe": stateful, "stop_at": 4},
        {"folder": tmp_path / "stateful-resumed"},
    ]
    check_same_as_one_process(2, recipes, tmp_path, also=stopping)
    steps = {name: len(read_losses(tmp_path / name)) for name in recipes}
    assert [steps[name] for name in ("ddp", "fsdp", "accumulated")] == [22, 22, 8]
    assert len(read_losses(tmp_path / "stopped")) == 8  # the rest of 22
    check_same(tmp_path / "stopped", tmp_path / "uninterrupted", exactly=True)
    check_same(tmp_path / "stateful-resumed", tmp_path / "stateful", exactly=True)
    # One process resumes with the hidden states that two saved.
    resumed = train_alone(str(tmp_path / "stateful-stopped"))
    assert resumed == pytest.approx(read_losses(tmp_path / "stateful")[4:], abs=1e-5)


def write_recipe(tmp_path, table):
    lines = []
    for section, keys in table.items():
        lines += [f"[{section}]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items())]
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join(lines))
    return path


# -- slow tests ------------------------------------------------------------------------------------


def list_workers(process):
    """Return the process ids of the workers of a torchrun, by rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = {}
    for pid in children.read_text().split():
        environment = b""
        with suppress(FileNotFoundError, ProcessLookupError):  # a child that has ended since
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        if rank := re.search(rb"(?:^|\0)RANK=(\d+)", environment):
            workers[int(rank.group(1))] = int(pid)
    return workers


def start_training(tmp_path, table, *, processes=2, restarts=0):
    """Start a training, and wait for its first checkpoint."""
    run = tmp_path / "run"
    command = ("-m", "workings", "train", write_recipe(tmp_path, table), "--out", run)
    process = subprocess.Popen(
        torchrun(processes, *command, restarts=restarts), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(run.glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return process, run


def wait_for_end(process):
    """Wait for the end, and return what was printed; kill what does not end."""
    try:
        return process.communicate(timeout=300)[1]
    finally:
        if process.poll() is None:
            for pid in (*list_workers(process).values(), process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.slow
def test_an_error_is_printed_once(tmp_path, tables):
    path = write_recipe(tmp_path, tables.classifier())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    done = subprocess.run(
        torchrun(2, "-m", "workings", "train", path, "--out", tmp_path / "run"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "is not empty" in line]
    assert [line.startswith("workings: ") for line in lines] == [True, False]
    assert "traceback : workings: " in lines[1]  # in the summary of torchrun
    assert done.stderr.count("Traceback") == 1  # that of torchrun itself


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_a_signal_to_one_process_stops_all_after_the_same_step(tmp_path, tables, number, status):
    process, run = start_training(tmp_path, tables.classifier(epochs=10_000))
    os.kill(list_workers(process)[1], getattr(signal, number))
    printed = wait_for_end(process)
    assert re.findall(r"exitcode\s+: (\d+)", printed) == [str(status)] * 2
    assert printed.count(f"workings resume {run}") == 1
    assert printed.count("Traceback") == 1
    newest = toys.newest_checkpoint(run)
    assert f"step-{read_json(newest / 'state.json')['progress']['step']}" == newest.name


@pytest.mark.slow
def test_sigusr1_to_one_process_saves_and_all_go_on(tmp_path, tables):
    table = tables.classifier(epochs=10_000, save_every=11, keep_checkpoints=10_000)
    process, run = start_training(tmp_path, table)  # with checkpoints after its 11-step epochs only
    workers, deadline = list_workers(process), time.monotonic() + 60
    while time.monotonic() < deadline:
        os.kill(workers[1], signal.SIGUSR1)
        time.sleep(0.1)
        steps = [int(folder.name[5:]) for folder in run.glob("checkpoints/step-*")]
        if within_epochs := [step for step in steps if step % 11]:
            break
    os.kill(workers[1], signal.SIGTERM)
    wait_for_end(process)
    assert within_epochs
    step = within_epochs[0]
    assert read_json(run / f"checkpoints/step-{step}" / "state.json")["progress"]["step"] == step


@pytest.mark.slow
def test_sigterm_to_torchrun_stops_all_processes(tmp_path, tables):
    process, run = start_training(tmp_path, tables.classifier(epochs=10_000))
    process.send_signal(signal.SIGTERM)
    printed = wait_for_end(process)
    assert printed.count(f"workings resume {run}") == 1
    assert "SignalException" in printed  # torchrun's own


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp"])
def test_all_language_models_train_like_one_process(tmp_path, tables, parallelism):
    def language(kind, **options):
        return tables.language(kind, parallelism=parallelism, **options)

    recipes = {
        "transformer": language("transformer", accumulate=2),
        "muon": language("transformer", optimizer="muon", average="last"),
        "recurrent": language("recurrent", optimizer="muon"),
        "stateful": language("recurrent", stateful=True),
        "sampled": language("recurrent", sampling_rate=1e-12),
    }
    check_same_as_one_process(2, recipes, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp"])
def test_all_classifiers_train_like_one_process(tmp_path, tables, processes, parallelism):
    recipes = {}
    for kind in CLASSIFIERS:
        recipes[kind] = tables.classifier(kind, parallelism=parallelism)
        recipes[f"{kind}-accumulated"] = tables.classifier(
            kind, parallelism=parallelism, accumulate=3, clip_norm=0.1, average="ema", ema_decay=0.9
        )
        recipes[f"{kind}-uneven"] = tables.classifier(
            kind,
            parallelism=parallelism,
            batch_size=57,
            average="last",
            optimizer="sgd",
            patience=1,
            epochs=6,
        )
    check_same_as_one_process(processes, recipes, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp"])
@pytest.mark.parametrize("processes", [2, 4])
def test_all_classifiers_resume_exactly(tmp_path, tables, parallelism, processes):
    recipes = {
        kind: tables.classifier(kind, dropout=0.2, parallelism=parallelism, average="last")
        for kind in CLASSIFIERS
    }
    plan = []
    for kind, recipe in recipes.items():
        plan += [
            {"folder": tmp_path / f"{kind}-uninterrupted", "recipe": recipe},
            {"folder": tmp_path / kind, "recipe": recipe, "stop_at": 3},
        ]
    run_plan(processes, plan, tmp_path)
    run_plan(processes, [{"folder": tmp_path / kind} for kind in recipes], tmp_path)
    for kind in recipes:
        check_same(tmp_path / kind, tmp_path / f"{kind}-uninterrupted", exactly=True)


@pytest.mark.slow
def test_a_run_resumes_with_any_number_of_processes_and_either_parallelism(tmp_path, tables):
    """One process, two with ddp, four with fsdp, two with fsdp, one: each resumes the last."""
    recipes = {
        f"{kind}-{average}": tables.classifier(kind, epochs=4, average=average, ema_decay=0.9)
        for kind in ("recurrent", "transformer", "ngrams")
        for average in ("ema", "last")
    }
    for name, recipe in recipes.items():
        train_alone(str(tmp_path / f"{name}-uninterrupted"), recipe)
        train_alone(str(tmp_path / name), recipe, stop_at=7)
    for processes, parallelism, step in ((2, "ddp", 16), (4, "fsdp", 25), (2, "fsdp", 36)):
        options = {"stop_at": step, "parallelism": parallelism}
        run_plan(processes, [{"folder": tmp_path / name, **options} for name in recipes], tmp_path)
    for name in recipes:
        assert len(train_alone(str(tmp_path / name))) == 8
        check_same(tmp_path / name, tmp_path / f"{name}-uninterrupted", exactly=False)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp"])
def test_a_killed_worker_is_replaced_and_the_run_continues(tmp_path, tables, parallelism, victim):
    recipe = tables.classifier(dropout=0.2, epochs=40, parallelism=parallelism)
    process, run = start_training(tmp_path, recipe, restarts=2)
    os.kill(list_workers(process)[victim], signal.SIGKILL)
    printed = wait_for_end(process)
    assert process.returncode == 0, printed
    assert (run / "result.json").is_file()
    assert not list(run.glob(".*.part"))
    run_plan(2, [{"folder": tmp_path / "uninterrupted", "recipe": recipe}], tmp_path)
    check_same(run, tmp_path / "uninterrupted", exactly=True)
    assert "Traceback" not in printed


@pytest.mark.slow
def test_a_restart_does_not_resume_the_run_of_another_launch(tmp_path, tables):
    train_alone(str(tmp_path / "run"), tables.classifier(epochs=1))
    before = (tmp_path / "run" / "log.jsonl").read_bytes()
    path = write_recipe(tmp_path, tables.classifier(epochs=2))
    done = subprocess.run(
        torchrun(2, "-m", "workings", "train", path, "--out", tmp_path / "run", restarts=1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    errors = re.findall(r"(?m)^workings: .* is not empty", done.stderr)
    assert len(errors) == 2  # one per attempt
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--train.epoch", "3"], "did you mean --train.epochs"),
        (["--data.set", "nowhere.csv"], "neither a file nor a named dataset"),
        (
            [
                *("--train.learning_rate", "1e38"),
                *("--train.clip_norm", "none", "--train.optimizer", "sgd"),
            ],
            "the loss",
        ),
        (["--train.device", "nonsense"], "not on this machine"),
    ],
)
def test_all_errors_are_printed_once(tmp_path, tables, overrides, message):
    path = write_recipe(tmp_path, tables.classifier())
    done = subprocess.run(
        torchrun(2, "-m", "workings", "train", path, "--out", tmp_path / "run", *overrides),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("workings: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert done.stderr.count("Traceback") == 1


@pytest.mark.slow
def test_only_the_main_process_writes_the_record_and_prints_the_log(tmp_path, tables):
    path = write_recipe(tmp_path, tables.classifier())
    command = ("-m", "workings", "train", path, "--out", tmp_path / "run", "--json")
    done = subprocess.run(
        torchrun(4, *command, "--record", tmp_path / "record.json"),
        capture_output=True,
        text=True,
        check=True,
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["kind"] for record in records] == ["epoch", "epoch", "test"]
    assert len(read_json(tmp_path / "record.json")["curves"]) == 2
