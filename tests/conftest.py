"""Check tensor shapes in signatures during tests, and share fixtures."""

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# The modules with shapes in their signatures; the types of all others are checked by mypy.
CHECKED_MODULES = ["workings.attention", "workings.layers", "workings.trace"]
install_import_hook(CHECKED_MODULES, "beartype.beartype")

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded

import torch  # noqa: E402

from workings.threads import THREAD_COUNT_VARIABLES  # noqa: E402

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

pytest_plugins = ["trained_runs"]  # runs that test files share

DATA = Path(os.environ.get("WORKINGS_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_runtest_setup() -> None:
    """Run each test and its subprocesses on one thread, even if an earlier test called `--threads`.

    Threads of two pytest workers that spin while they wait would take several times as long, and a
    process that has started OpenMP threads cannot fork.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNT_VARIABLES, "1"))
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real data sets; skip the test if there is none."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}: set WORKINGS_DATA to test on it")
    return DATA


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """Switch off shape checks, as outside of tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
