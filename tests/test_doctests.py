"""The examples in docstrings are run."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import workings

found = (m.name for m in pkgutil.walk_packages(workings.__path__, "workings."))
MODULES = [name for name in found if name != "workings.__main__"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    outcome = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    examples = sum(len(t.examples) for m in MODULES for t in finder.find(import_module(m)))
    assert examples > 20
