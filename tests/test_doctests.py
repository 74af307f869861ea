"""Run the examples in the docstrings of all modules."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import workings

names = (m.name for m in pkgutil.walk_packages(workings.__path__, "workings."))
MODULES = ["workings", *(name for name in names if name != "workings.__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    outcome = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_examples_are_found():
    finder = doctest.DocTestFinder()
    examples = sum(len(t.examples) for m in MODULES for t in finder.find(import_module(m)))
    assert examples > 20
