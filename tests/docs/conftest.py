"""The package as users have it: built as a wheel and installed, once per session."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT

from workings.io import file_lock


@pytest.fixture(scope="session")
def installed_package(tmp_path_factory) -> Path:
    """Return a folder for `PYTHONPATH` with the package installed from its wheel."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel: pip install it")
    base = tmp_path_factory.getbasetemp()
    if base.name.startswith("popen-"):  # a worker of pytest-xdist: all workers share the folder
        base = base.parent
    folder, wheels = base / "installed", base / "wheel"
    with file_lock(base / "installed.lock"):
        if not folder.is_dir():
            _run("hatchling", "build", "--target", "wheel", "--directory", str(wheels))
            [wheel] = wheels.glob("*.whl")
            pip = ("--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index")
            _run("pip", *pip, "--target", str(folder), str(wheel))
    return folder


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=True)
