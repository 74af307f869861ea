"""Check tensor shapes in signatures where layers and models are tested, and share fixtures."""

import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from types import ModuleType

import pytest
from hypothesis import settings

from workings import registry
from workings.cli import THREAD_COUNT_VARIABLES

# The modules with shapes in their signatures; the types of all others are checked by mypy.
CHECKED_MODULES = ["workings.attention", "workings.layers", "workings.trace"]
SHAPE_CHECKED_FOLDERS = ("tests", "layers", "models")

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded

# A shell ignores SIGINT for commands in its background, nohup ignores SIGHUP, and processes inherit
# both; tests of signals need what a terminal has.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

HAS_TORCH = find_spec("torch") is not None  # `make test-base` has the base install only
if HAS_TORCH:
    import jaxtyping

    jaxtyping.install_import_hook(CHECKED_MODULES, "beartype.beartype")
    import torch

    pytest_plugins = ["trained_runs"]  # runs that test files share
else:  # torch is their reference
    collect_ignore = ["problems/documents/test_matrices.py", "problems/kinds/test_kinds.py"]

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")

DATA = Path(os.environ.get("WORKINGS_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the number of threads and the shape checks of a test.

    Each test and its subprocesses run on one thread, even if an earlier test called `--threads`.
    Threads of two pytest workers that spin while they wait would take several times as long, and a
    process that has started OpenMP threads cannot fork.

    Shape checks are a quarter of the time of a training. `make test` has them where layers and
    models are tested, `make test-all` everywhere.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNT_VARIABLES, "1"))
    if not HAS_TORCH:
        return
    torch.set_num_threads(1)
    is_checked = item.path.parent.name in SHAPE_CHECKED_FOLDERS or not item.config.option.markexpr
    jaxtyping.config.update("jaxtyping_disable", not is_checked)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real data sets; skip the test if there is none."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}: set WORKINGS_DATA to test on it")
    return DATA


@pytest.fixture
def without_shape_checks() -> None:
    """Switch off shape checks, as outside of tests; the next test sets them again."""
    jaxtyping.config.update("jaxtyping_disable", True)


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove after a test what its plug-ins registered and imported."""
    kinds = [kinds for _, kinds in registry.RECIPES.values()]
    names = (registry.RECIPES, registry.TASKS, registry.TOKENIZERS, registry.METRICS)
    dictionaries = [*names, *kinds, *registry.MODELS.values(), registry._providers, sys.modules]
    copies = [dict(dictionary) for dictionary in dictionaries]
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for dictionary, copy in zip(dictionaries, copies, strict=True):
        for name in dictionary.keys() - copy.keys():
            if dictionary is not sys.modules or not _is_installed(dictionary[name]):
                del dictionary[name]
    registry.import_installed_plugins.cache_clear()


def _is_installed(module: ModuleType) -> bool:
    """Return True if a module is of this repository or of an installed package."""
    return not str(getattr(module, "__file__", None) or "").startswith(gettempdir())
