"""Several real processes train what one would: the same losses, one folder, one voice."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from workings.storage import read_json, read_tensors

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and torch.distributed.is_gloo_available()),
    reason="finds torchrun's workers in /proc",
)
DRIVER = Path(__file__).with_name("crew_runs.py")
alone = runpy.run_path(str(DRIVER))["run"]

MODELS = {
    "recurrent": {"d_model": 8, "hidden_size": 8},
    # The last state is read off one direction: the other one's weights never get a gradient.
    "idle": {"kind": "recurrent", "d_model": 8, "hidden_size": 8, "layers": 2}
    | {"bidirectional": True, "pooling": "last"},
    "perceptron": {"d_model": 4, "length": 3, "hidden_sizes": [8, 5]},
    "convolution": {"d_model": 8, "channels": [6, 6], "kernel": 2, "stride": 1, "hidden_size": 7},
    "transformer": {"d_model": 8, "heads": 2, "layers": 2, "d_ff": 16},
    "ngrams": {"max_n": 2},
}


@pytest.fixture
def recipe(toy):
    """A recipe's table: two epochs of 11 steps, without chance."""

    def made(kind="recurrent", *, dropout=0.0, **training):
        usual = {"epochs": 2, "batch_size": 16, "learning_rate": 0.02, "save_every": 4}
        model = {"kind": kind} | MODELS[kind] | {"dropout": dropout}
        return {"data": {"set": str(toy)}, "model": model, "train": usual | training}

    return made


def torchrun(processes, *command, restarts=0):
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(processes), "--max-restarts", str(restarts)),
        *map(str, command),
    ]


def carry_out(processes, plan, tmp_path):
    """Let a crew do the trainings of a plan, one after the other."""
    (tmp_path / "plan.json").write_text(json.dumps(plan, default=str))
    done = subprocess.run(
        torchrun(processes, DRIVER, tmp_path / "plan.json"),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def losses(folder):
    return json.loads(Path(f"{folder}.steps.json").read_text())


def log_of(folder):
    """The log, without what tells the time."""
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(s).items() if "seconds" not in k} for s in lines]


def assert_same(folder, other, *, exactly):
    ours, theirs = (read_tensors(f / "model.safetensors") for f in (folder, other))
    if exactly:
        assert log_of(folder) == log_of(other)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    else:
        # Only losses: where a gradient is nothing but rounding, Adam makes a step of it.
        # Nor what they remark: a model that is spread over a crew is not asked.
        logs = ([r for r in log_of(f) if r["kind"] != "sample"] for f in (folder, other))
        for one, two in zip(*logs, strict=True):
            assert one.keys() == two.keys()
            assert one == pytest.approx(two, abs=1e-5)


def compare_with_one(processes, recipes, tmp_path, also=()):
    plan = [{"folder": tmp_path / name, "recipe": r} for name, r in recipes.items()]
    carry_out(processes, [*plan, *also], tmp_path)
    for name, recipe in recipes.items():
        expected = alone(str(tmp_path / f"{name}-alone"), recipe)
        assert losses(tmp_path / name) == pytest.approx(expected, abs=1e-5)
        assert_same(tmp_path / name, tmp_path / f"{name}-alone", exactly=False)
        assert read_json(tmp_path / name / "result.json")["processes"] == processes


def test_two_processes_train_as_one_and_go_on_where_they_stopped(tmp_path, recipe):
    recipes = {
        "replicated": recipe("transformer"),
        "sharded": recipe("transformer", parallelism="fsdp", average="ema", ema_decay=0.9),
        # 172 examples: three batches of 57 are one step, and one is left over for two processes.
        "accumulated": recipe(
            "ngrams", batch_size=57, accumulate=3, epochs=11, patience=3, learning_rate=2.0
        ),  # at such a rate the loss is nothing at once, and cannot fall any more
        "idle": recipe("idle", average="last"),
    }
    by_chance, stopped = recipe(dropout=0.2), tmp_path / "stopped"
    stopping = [
        {"folder": tmp_path / "whole", "recipe": by_chance},
        {"folder": stopped, "recipe": by_chance, "stop_at": 14},
        {"folder": stopped},
    ]
    compare_with_one(2, recipes, tmp_path, also=stopping)
    assert {name: len(losses(tmp_path / name)) for name in recipes} == {
        "replicated": 22,
        "sharded": 22,
        "accumulated": 8,  # patience, the same for all, ended it
        "idle": 22,
    }
    assert len(losses(stopped)) == 8  # the rest of 22
    assert_same(stopped, tmp_path / "whole", exactly=True)


LANGUAGE = {
    "transformer": {"heads": 2, "layers": 2, "positions": "learned", "max_positions": 8},
    "recurrent": {"hidden_size": 8, "layers": 2},
}


@pytest.fixture
def language(tmp_path, monkeypatch):
    """A language recipe's table: two epochs of six steps, seven windows each, without chance."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("hello world, yellow mellow fellow\n" * 60)

    def made(kind, *, carry=False, student=0.0, **training):
        data = {
            "set": str(tmp_path / "text.txt"),
            "context_length": 8,
            "eval_every": 6,
            "sample": 0,
        }
        model = {"kind": kind, "d_model": 8} | LANGUAGE[kind]
        train = {"epochs": 2, "batch_size": 7, "learning_rate": 0.01} | training
        forcing = {"scheduled_sampling": {"rate": student}} if student else {}
        table = {"task": "language", "data": data | {"stateful": carry}, "model": model}
        return table | {"train": train} | forcing

    return made


def test_language_models_are_trained_as_by_one(tmp_path, language):
    carried, whole, stopped = (tmp_path / name for name in ("carried", "whole", "stopped"))
    streams = language("recurrent", carry=True)
    recipes = {
        "carried": streams,
        "muon": language(
            "transformer", parallelism="fsdp", optimizer="muon", average="ema", ema_decay=0.9
        ),
    }
    stopping = [
        {"folder": stopped, "recipe": streams, "stop_at": 4},
        {"folder": whole, "recipe": streams, "stop_at": 4},
        {"folder": whole},
    ]
    compare_with_one(2, recipes, tmp_path, also=stopping)
    assert_same(whole, carried, exactly=True)
    # One process takes up the states that two of them carried.
    assert alone(str(stopped)) == pytest.approx(losses(carried)[4:], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_every_language_model_loses_what_one_process_does(tmp_path, language, how):
    recipes = {
        "transformer": language("transformer", parallelism=how, accumulate=2),
        "muon": language("transformer", parallelism=how, optimizer="muon", average="last"),
        "recurrent": language("recurrent", parallelism=how, optimizer="muon"),
        "carried": language("recurrent", parallelism=how, carry=True),
        "forced": language("recurrent", parallelism=how, student=1e-12),  # never asked
    }
    compare_with_one(2, recipes, tmp_path)


def test_translators_are_trained_as_by_one_also_where_they_read_their_own_words(tmp_path):
    words = ["red", "green", "blue", "big", "small", "old"]
    names = [f"{a} {b}" for a in words for b in words if a != b]
    lines = [f"{name}\t{' '.join(reversed(name.split()))}" for name in names]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget", *lines]) + "\n")

    def recipe(model, **training):
        return {
            "task": "translate",
            "data": {"set": str(tmp_path / "pairs.tsv"), "validation": 0.2}
            | {"source": "source", "target": "target"},
            "tokenizer": {"kind": "words", "lower": True},
            "model": {"d_model": 8, "dropout": 0.0} | model,
            "train": {"epochs": 3, "batch_size": 30, "learning_rate": 0.02} | training,
        }

    looking = {"kind": "recurrent", "hidden_size": 8, "attention": "additive"}
    forced = {
        "scheduled_sampling": {"rate": 1e-12}
    }  # its own way through the model, and never asked
    transformer = {"kind": "transformer", "heads": 2, "layers": 1, "d_ff": 16}
    recipes = {
        "forced": recipe(looking, metric="bleu") | forced,
        "sharded": recipe(looking, parallelism="fsdp") | forced,
        "transformer": recipe(transformer, parallelism="fsdp", average="ema", ema_decay=0.9),
    }
    compare_with_one(2, recipes, tmp_path)


def write_recipe(tmp_path, table):
    lines = []
    for section, keys in table.items():
        lines += [f"[{section}]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items())]
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join(lines))
    return path


def test_a_mistake_is_told_once(tmp_path, recipe):
    path = write_recipe(tmp_path, recipe())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    done = subprocess.run(
        torchrun(2, "-m", "workings", "train", path, "--out", tmp_path / "run"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if "is not empty" in line]
    assert [line.startswith("workings: ") for line in told] == [True, False]
    assert "traceback : workings: " in told[1]  # in torchrun's summary, for those who read its end
    assert done.stderr.count("Traceback") == 1  # and that is torchrun's own


def children(process):
    """The workers that a torchrun has started."""
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found = {}
    for pid in task.read_text().split():
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if rank := re.search(rb"(?:^|\0)RANK=(\d+)", environment):
            found[int(rank.group(1))] = int(pid)
    return found


def started(tmp_path, table, *, processes=2, restarts=0):
    """Start a training, and wait for its first checkpoint."""
    run = tmp_path / "run"
    train = ("-m", "workings", "train", write_recipe(tmp_path, table), "--out", run)
    process = subprocess.Popen(
        torchrun(processes, *train, restarts=restarts), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(run.glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return process, run


def ended(process):
    """Wait for the end; leave nothing behind where it does not come."""
    try:
        return process.communicate(timeout=300)[1]
    finally:
        if process.poll() is None:
            for pid in (*children(process).values(), process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.parametrize(
    ("number", "status"), [("SIGTERM", 143), pytest.param("SIGINT", 130, marks=pytest.mark.slow)]
)
def test_whoever_is_asked_all_stop_after_the_same_step(tmp_path, recipe, number, status):
    process, run = started(tmp_path, recipe(epochs=10_000))
    os.kill(children(process)[1], getattr(signal, number))
    told = ended(process)
    assert re.findall(r"exitcode\s+: (\d+)", told) == [str(status)] * 2
    assert told.count(f"workings resume {run}") == 1
    assert told.count("Traceback") == 1
    steps = [int(p.name[5:]) for p in run.glob("checkpoints/step-*")]
    state = read_json(run / "checkpoints" / f"step-{max(steps)}" / "state.json")
    assert state["progress"]["step"] == max(steps)


# -- the long ones --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_every_kind_loses_what_one_process_does(tmp_path, recipe, processes, how):
    recipes = {}
    for kind in MODELS:
        recipes[kind] = recipe(kind, parallelism=how)
        recipes[f"{kind}-accumulated"] = recipe(
            kind, parallelism=how, accumulate=3, clip_norm=0.1, average="ema", ema_decay=0.9
        )
        recipes[f"{kind}-uneven"] = recipe(
            kind,
            parallelism=how,
            batch_size=57,
            average="last",
            optimizer="sgd",
            patience=1,
            epochs=6,
        )
    compare_with_one(processes, recipes, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
@pytest.mark.parametrize("processes", [2, 4])
def test_every_kind_goes_on_bit_for_bit(tmp_path, recipe, how, processes):
    tables = {kind: recipe(kind, dropout=0.2, parallelism=how, average="last") for kind in MODELS}
    plan = []
    for kind, table in tables.items():
        plan += [
            {"folder": tmp_path / f"{kind}-whole", "recipe": table},
            {"folder": tmp_path / kind, "recipe": table, "stop_at": 3},
        ]
    carry_out(processes, plan, tmp_path)
    carry_out(processes, [{"folder": tmp_path / kind} for kind in tables], tmp_path)
    for kind in tables:
        assert_same(tmp_path / kind, tmp_path / f"{kind}-whole", exactly=True)


@pytest.mark.slow
def test_a_run_goes_on_with_any_number_of_processes_either_way(tmp_path, recipe):
    """One process, two replicated, four sharded, two sharded, one: each takes up the last's."""
    kinds = ["recurrent", "transformer", "ngrams"]
    tables = {
        f"{kind}-{average}": recipe(kind, epochs=4, average=average, ema_decay=0.9)
        for kind in kinds
        for average in ("ema", "last")
    }
    for name, table in tables.items():
        alone(str(tmp_path / f"{name}-whole"), table)
        alone(str(tmp_path / name), table, stop_at=7)

    def go_on(processes, how, stop_at):
        plan = [{"folder": tmp_path / name, "stop_at": stop_at, "how": how} for name in tables]
        carry_out(processes, plan, tmp_path)

    go_on(2, "ddp", 16)
    go_on(4, "fsdp", 25)
    go_on(2, "fsdp", 36)
    for name in tables:
        assert len(alone(str(tmp_path / name))) == 8
        assert_same(tmp_path / name, tmp_path / f"{name}-whole", exactly=False)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_a_killed_worker_is_replaced_and_the_run_goes_on(tmp_path, recipe, how, victim):
    table = recipe(dropout=0.2, epochs=40, parallelism=how)
    process, run = started(tmp_path, table, restarts=2)
    before = children(process)
    os.kill(before[victim], signal.SIGKILL)
    told = ended(process)
    assert process.returncode == 0, told
    assert (run / "result.json").is_file()
    assert not list(run.glob(".*.part"))
    carry_out(2, [{"folder": tmp_path / "whole", "recipe": table}], tmp_path)
    assert_same(run, tmp_path / "whole", exactly=True)
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_restart_does_not_take_up_somebody_elses_run(tmp_path, recipe):
    alone(str(tmp_path / "run"), recipe(epochs=1))
    before = (tmp_path / "run" / "log.jsonl").read_bytes()
    done = subprocess.run(
        torchrun(
            *(2, "-m", "workings", "train", write_recipe(tmp_path, recipe(epochs=2))),
            *("--out", tmp_path / "run"),
            restarts=1,
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert len(re.findall(r"(?m)^workings: .* is not empty", done.stderr)) == 2  # a try each
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


@pytest.mark.slow
def test_sigterm_to_torchrun_reaches_everybody(tmp_path, recipe):
    process, run = started(tmp_path, recipe(epochs=10_000))
    process.send_signal(signal.SIGTERM)
    told = ended(process)
    assert told.count(f"workings resume {run}") == 1
    assert "SignalException" in told  # torchrun's own way to end


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--train.epoch", "3"], "did you mean 'epochs'"),
        (["--data.set", "nowhere.csv"], "neither a file nor a named dataset"),
        (
            [
                "--train.learning_rate",
                "1e38",
                "--train.clip_norm",
                "none",
                "--train.optimizer",
                "sgd",
            ],
            "the loss",
        ),
        (["--train.device", "nonsense"], "not on this machine"),
    ],
)
def test_every_mistake_is_told_once(tmp_path, recipe, changes, said):
    path = write_recipe(tmp_path, recipe())
    done = subprocess.run(
        torchrun(2, "-m", "workings", "train", path, "--out", tmp_path / "run", *changes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("workings: ")]
    assert len(told) == 1
    assert said in told[0]
    assert done.stderr.count("Traceback") == 1


@pytest.mark.slow
def test_the_chief_alone_writes_the_record_and_prints_the_log(tmp_path, recipe):
    path = write_recipe(tmp_path, recipe())
    train = ("-m", "workings", "train", path, "--out", tmp_path / "run", "--json")
    done = subprocess.run(
        torchrun(4, *train, "--record", tmp_path / "record.json"),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["kind"] for record in lines] == ["epoch", "epoch", "test"]
    assert len(read_json(tmp_path / "record.json")["curves"]) == 2
