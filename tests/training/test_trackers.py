"""Experiment trackers get the numbers of log.jsonl, and cannot stop a training."""

import sys
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import toys

from workings.cli import main
from workings.errors import UserError, install_command
from workings.training import logging, trackers
from workings.training.logging import Log, read_log
from workings.training.runs import resume, train_recipe
from workings.training.trackers import select_values
from workings.training.trainer import Trainer

CRASH_STEP = 19  # in the second of three epochs of 11 steps


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.setattr(logging, "MIN_STEPS_BETWEEN_RECORDS", 4)
    return toys.texts_recipe(toys.write_texts(tmp_path / "texts.jsonl"))


def train_crash_and_resume(recipe, run, names, resume_names=None):
    """Train until a crash that loses the records after the first epoch; resume to the end."""

    def crash(self, micro_batches, original=Trainer._step):
        original(self, micro_batches)
        if self.progress.step == CRASH_STEP:
            raise RuntimeError("the power fails")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_step", crash)
        with pytest.raises(RuntimeError, match="power"):
            train_recipe(recipe, run, mode="quiet", trackers=names)
    resume(run, mode="quiet", trackers=names if resume_names is None else resume_names)


def expected_values(run):
    """Return the (step, value) pairs of each name, as log.jsonl has them."""
    values, step = {}, 0
    for record in read_log(run / "log.jsonl"):
        step, numbers = select_values(record, step)
        for name, value in numbers.items():
            values.setdefault(name, []).append((step, value))
    assert len(values["train/loss"]) > len(values["validation/accuracy"]) == 3
    assert values["test/accuracy"][0][0] == 33
    return values


# -- TensorBoard -----------------------------------------------------------------------------------


def read_events(folder):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    return {
        name: [(event.step, pytest.approx(event.value)) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


@pytest.mark.parametrize("before", [["tensorboard"], []], ids=["from the start", "from the resume"])
def test_tensorboard_reads_the_log_of_a_resumed_run(recipe, tmp_path, before):
    run = tmp_path / "run"
    train_crash_and_resume(recipe, run, before, ["tensorboard"])
    assert read_events(run / "tensorboard") == expected_values(run)


def test_log_command_exports_a_finished_run(recipe, tmp_path, capsys):
    run = tmp_path / "run"
    train_recipe(recipe, run, mode="quiet", trackers=["tensorboard"])
    other = tmp_path / "other"
    for folder, options in ((run / "tensorboard", []), (other, ["--out", str(other)])):
        assert main(["log", str(run), "--to", "tensorboard", *options]) == 0
        assert capsys.readouterr().out.endswith(f"log.jsonl → {folder}\n")
        assert read_events(folder) == expected_values(run)
    assert main(["log", str(run), "--to", "wandb", "--out", "x"]) == 2
    assert "--out is for tensorboard" in capsys.readouterr().err
    assert main(["log", str(tmp_path), "--to", "tensorboard"]) == 2
    assert "not a run" in capsys.readouterr().err


# -- Weights & Biases and MLflow, by their documented interfaces -----------------------------------


def add_module(patch, name, **contents):
    module = ModuleType(name)
    vars(module).update(contents, __spec__=ModuleSpec(name, None))
    patch.setitem(sys.modules, name, module)


class FakeWandb:
    """Runs by id, with their settings and rows."""

    def __init__(self):
        self.runs = {}

    def init(self, *, name, config, id, resume, **where):  # noqa: A002
        assert where.keys() == {"project", "dir"}
        assert (id is None) == (resume is None)
        run = self.runs.setdefault(id or f"id{len(self.runs)}", SimpleNamespace(rows=[]))
        run.id = id or f"id{len(self.runs) - 1}"
        run.name, run.config, run.is_open = name, config, True
        run.define_metric = lambda name, step_metric="": None  # noqa: ARG005
        run.log = run.rows.append
        run.finish = lambda: setattr(run, "is_open", False)
        return run


def values_of_rows(rows):
    """Return the (step, value) pairs of each name; a resumed run writes some of them again."""
    values = {}
    for row in rows:
        for name, value in row.items():
            if name != "step":
                values.setdefault(name, {})[row["step"]] = value
    return {name: list(by_step.items()) for name, by_step in values.items()}


def without_repetition(values):
    return {name: list(dict(pairs).items()) for name, pairs in values.items()}


def sorted_pairs(values):
    return {name: sorted(pairs) for name, pairs in values.items() if "seconds" not in name}


def test_wandb_continues_the_same_run(recipe, tmp_path, monkeypatch):
    wandb = FakeWandb()
    add_module(monkeypatch, "wandb", init=wandb.init)
    train_crash_and_resume(recipe, tmp_path / "run", ["wandb"])
    [run] = wandb.runs.values()
    assert (run.name, run.is_open) == ("run", False)
    assert run.config["train"]["epochs"] == 3
    expected = without_repetition(expected_values(tmp_path / "run"))
    assert sorted_pairs(values_of_rows(run.rows)) == sorted_pairs(expected)
    train_recipe(recipe, tmp_path / "other", mode="quiet", trackers=["wandb"])
    assert len(wandb.runs) == 2


class FakeMlflowClient:
    """One experiment; runs by id, with their parameters, metrics and status."""

    runs: dict = {}  # noqa: RUF012 - emptied by the test
    experiments: dict = {}  # noqa: RUF012

    def get_experiment_by_name(self, name):
        return self.experiments.get(name)

    def create_experiment(self, name):
        self.experiments[name] = SimpleNamespace(experiment_id="7")
        return "7"

    def create_run(self, experiment_id, run_name):
        assert experiment_id == "7"
        run_id = f"id{len(self.runs)}"
        self.runs[run_id] = SimpleNamespace(name=run_name, params={}, metrics=[], status="RUNNING")
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def update_run(self, run_id, status):
        self.runs[run_id].status = status

    def log_batch(self, run_id, metrics=(), params=()):
        assert len(params) <= 100
        self.runs[run_id].metrics += metrics
        self.runs[run_id].params.update(params)

    def set_terminated(self, run_id):
        self.runs[run_id].status = "FINISHED"


def test_mlflow_continues_the_same_run(recipe, tmp_path, monkeypatch):
    client = FakeMlflowClient
    client.runs.clear()
    add_module(monkeypatch, "mlflow", MlflowClient=client)
    add_module(
        monkeypatch,
        "mlflow.entities",
        Metric=lambda key, value, _timestamp, step: {"step": step, key: value},
        Param=lambda key, value: (key, value),
    )
    train_crash_and_resume(recipe, tmp_path / "run", ["mlflow"])
    [run] = client.runs.values()
    assert (run.name, run.status, run.params["train.epochs"]) == ("run", "FINISHED", "3")
    expected = without_repetition(expected_values(tmp_path / "run"))
    assert sorted_pairs(values_of_rows(run.metrics)) == sorted_pairs(expected)


# -- errors ----------------------------------------------------------------------------------------


class FailingTracker:
    is_new = True

    def __init__(self, fails, *_run_and_recipe):
        self.fails = fails
        if fails == "open":
            raise OSError("no route to host")

    def log(self, step, _values):
        if self.fails == "log" and step > 1:
            raise RuntimeError("quota\nexceeded")

    def close(self):
        if self.fails == "close":
            raise ValueError


@pytest.mark.parametrize("fails", ["open", "log", "close"])
def test_failing_tracker_costs_one_warning(recipe, tmp_path, monkeypatch, capsys, fails):
    monkeypatch.setitem(trackers.TRACKERS, "tensorboard", partial(FailingTracker, fails))
    log = Log(tmp_path / "log.jsonl", "quiet")
    with trackers.track(log, ["tensorboard"], tmp_path, recipe, 0):
        for step in range(1, 5):
            log.record(kind="epoch", epoch=step, step=step, train_loss=0.5)
    log.close()
    assert len(read_log(tmp_path / "log.jsonl")) == 4
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("workings: warning: --log tensorboard ends here: ")


def test_missing_package_is_reported_before_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr(trackers, "find_spec", lambda _name: None)
    out = tmp_path / "run"
    assert main(["train", "helo", "--out", str(out), "--log", "wandb"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"workings: wandb is missing: {install_command('wandb')}"
    assert not out.exists()


def test_unknown_tracker(recipe, tmp_path):
    with pytest.raises(UserError, match="no such tracker: did you mean 'wandb'"):
        train_recipe(recipe, tmp_path / "run", mode="quiet", trackers=["wanbd"])


# -- the packages themselves -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of its own packages
def test_wandb_itself_offline(recipe, tmp_path, monkeypatch, capfd):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = tmp_path / "run"
    train_crash_and_resume(recipe, run, ["wandb"])
    assert "warning: --log" not in capfd.readouterr().err
    assert len(list(run.glob("wandb/offline-run-*/*.wandb"))) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of its own packages
def test_mlflow_itself_with_a_local_database(recipe, tmp_path, monkeypatch, capfd):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = tmp_path / "run"
    train_crash_and_resume(recipe, run, ["mlflow"])
    assert "warning: --log" not in capfd.readouterr().err
    client = mlflow.MlflowClient()
    [stored] = client.search_runs([client.get_experiment_by_name("workings").experiment_id])
    assert stored.info.status == "FINISHED"
    expected = expected_values(run)["validation/accuracy"]
    history = client.get_metric_history(stored.info.run_id, "validation/accuracy")
    assert sorted((metric.step, metric.value) for metric in history) == expected
