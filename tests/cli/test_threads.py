"""`set_num_threads` and `count_cores`, and what the user's environment does to them."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from workings import UserError, cli

VARIABLES = (*cli.THREAD_COUNT_VARIABLES, "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
SLEEP_SOON = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Start with no thread variables set, torch not imported and five cores."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that monkeypatch removes what a test sets
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(cli, "count_cores", lambda: 5)


def set_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def test_default_is_all_cores_and_idle_threads_that_sleep():
    assert cli.set_num_threads() == 5
    assert set_variables() == {"OMP_NUM_THREADS": "5", **SLEEP_SOON}


@pytest.mark.parametrize(("processes", "threads_each"), [("1", 5), ("2", 2), ("8", 1)])
def test_processes_of_torchrun_share_the_cores(processes, threads_each, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    assert cli.set_num_threads() == threads_each


def test_setting_twice_changes_nothing():
    cli.set_num_threads()
    before = set_variables()
    assert cli.set_num_threads() == 5
    assert set_variables() == before


def test_environment_variables_win_over_the_default(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert cli.set_num_threads() == 3
    assert set_variables() == {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "active"}


def test_a_spin_count_of_the_user_is_kept(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "30000")
    cli.set_num_threads()
    assert set_variables() == {"OMP_NUM_THREADS": "5", **SLEEP_SOON, "GOMP_SPINCOUNT": "30000"}


def test_the_argument_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert cli.set_num_threads(2) == 2
    assert {set_variables()[name] for name in cli.THREAD_COUNT_VARIABLES} == {"2"}


@pytest.mark.parametrize(("given", "number"), [("4,2", 4), (" 7 ", 7), ("", 5)])
def test_every_openmp_spelling_of_the_number_is_read(given, number, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert cli.set_num_threads() == number


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "many", True])
@pytest.mark.usefixtures("without_shape_checks")
def test_an_invalid_number_is_refused_and_nothing_is_set(wrong):
    with pytest.raises(UserError, match=f"threads={wrong}: expected a whole number, 1 or more"):
        cli.set_num_threads(wrong)
    assert not set_variables()


def test_an_invalid_environment_variable_is_named_in_the_error(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(UserError, match="OMP_NUM_THREADS=many: expected a whole number"):
        cli.set_num_threads()


def test_an_imported_torch_gets_the_number(monkeypatch):
    numbers = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=numbers.append))
    cli.set_num_threads()
    cli.set_num_threads(2)
    assert numbers == [5, 2]


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
def test_count_cores_respects_affinity_and_cgroup_quota(
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
    monkeypatch.setattr(cli, "CGROUP_QUOTA_FILE", limit)
    assert cli.count_cores() == expected


def test_torch_uses_the_number_and_neither_torch_nor_numpy_is_imported():
    program = (
        "import sys; from workings.cli import set_num_threads; set_num_threads(1)\n"
        "assert not {'torch', 'numpy'} & sys.modules.keys()\n"
        "import torch; print(torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr
