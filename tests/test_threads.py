import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from workings import UserError, threads

OURS = (*threads.THREAD_COUNT_VARIABLES, "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
SLEEPY = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing chosen, torch not loaded, five cores."""
    for name in OURS:
        monkeypatch.setenv(name, "")  # so that what a test leaves is taken back
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(threads, "count_cores", lambda: 5)


def chosen() -> dict[str, str]:
    return {name: os.environ[name] for name in OURS if name in os.environ}


def test_by_default_every_core_works_and_idle_threads_soon_sleep():
    assert threads.set_num_threads() == 5
    assert chosen() == {"OMP_NUM_THREADS": "5", **SLEEPY}


@pytest.mark.parametrize(("processes", "threads_each"), [("1", 5), ("2", 2), ("8", 1)])
def test_processes_of_torchruns_share_the_cores(processes, threads_each, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    assert threads.set_num_threads() == threads_each


def test_choosing_again_changes_nothing():
    threads.set_num_threads()
    before = chosen()
    assert threads.set_num_threads() == 5
    assert chosen() == before


def test_what_the_user_has_set_is_left_alone(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert threads.set_num_threads() == 3
    assert chosen() == {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "active"}


def test_how_long_the_user_lets_threads_spin_is_left_alone(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "30000")
    threads.set_num_threads()
    assert chosen() == {"OMP_NUM_THREADS": "5", **SLEEPY, "GOMP_SPINCOUNT": "30000"}


def test_an_argument_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert threads.set_num_threads(2) == 2
    assert {chosen()[name] for name in threads.THREAD_COUNT_VARIABLES} == {"2"}


@pytest.mark.parametrize(("given", "number"), [("4,2", 4), (" 7 ", 7), ("", 5)])
def test_the_ways_openmp_lets_a_number_be_written(given, number, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert threads.set_num_threads() == number


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "many", True])
@pytest.mark.usefixtures("without_shape_checks")
def test_what_is_no_number_of_threads_is_refused_and_nothing_is_set(wrong):
    with pytest.raises(UserError, match=f"threads={wrong}: expected a whole number, 1 or more"):
        threads.set_num_threads(wrong)
    assert not chosen()


def test_a_wrong_number_in_the_environment_is_named(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(UserError, match="OMP_NUM_THREADS=many: expected a whole number"):
        threads.set_num_threads()


def test_a_torch_that_is_loaded_already_is_told_the_number(monkeypatch):
    told = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=told.append))
    threads.set_num_threads()
    threads.set_num_threads(2)
    assert told == [5, 2]


@pytest.mark.parametrize(
    ("affinity", "machine", "quota", "expected"),
    [
        ({0, 3}, 8, None, 2),
        (None, 8, None, 8),
        (None, None, None, 1),
        ({0, 1, 2, 3}, 8, "max 100000\n", 4),
        ({0, 1, 2, 3}, 8, "250000 100000\n", 2),
        ({0, 1, 2, 3}, 8, "50000 100000\n", 1),
        ({0}, 8, "400000 100000\n", 1),
        ({0, 1}, 8, "what?", 2),
    ],
)
def test_cores_are_those_that_this_process_may_use(
    affinity, machine, quota, expected, monkeypatch, tmp_path
):
    monkeypatch.undo()
    if affinity is None:  # as on macOS and Windows
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: affinity, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    limit = tmp_path / "cpu.max"
    if quota is not None:
        limit.write_text(quota)
    monkeypatch.setattr(threads, "CGROUP_QUOTA_FILE", limit)
    assert threads.count_cores() == expected


def test_torch_takes_the_number_and_choosing_loads_neither_torch_nor_numpy():
    program = (
        "import sys; from workings.threads import set_num_threads; set_num_threads(1)\n"
        "assert not {'torch', 'numpy'} & sys.modules.keys()\n"
        "import torch; print(torch.get_num_threads())"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout == "1\n", answer.stderr
