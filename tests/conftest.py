"""Shapes in every signature of the package are checked while the tests run."""

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# The rooms whose signatures have shapes; elsewhere mypy says as much, and an int is a float.
ROOMS = ["workings.attention", "workings.layers", "workings.trace"]
install_import_hook(ROOMS, "beartype.beartype")

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded

import torch  # noqa: E402

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

DATA = Path(os.environ.get("WORKINGS_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_runtest_setup() -> None:
    """One thread for each test: a verb that one before it called may have chosen all cores.

    The threads of two workers, spinning while they wait for each other, would take several times
    as long.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data sets; the test is skipped where there is none."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}: set WORKINGS_DATA to test on it")
    return DATA


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """What a user runs: outside the tests nothing checks the signatures."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
