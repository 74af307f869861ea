"""Fixtures shared by the tests of the experiments."""

from functools import partial
from importlib import import_module

import pytest

from workings.experiments import QUESTIONS, norm, parallel, size
from workings.experiments.base import train_model

SHORT_STEPS = 20  # enough for every average over the last steps of a run


@pytest.fixture(autouse=True)
def _experiment_as_a_user_runs_it(without_shape_checks):
    """Skip the shape checks, which take half of the time; the tests of the layers have them."""


@pytest.fixture
def short_training(monkeypatch):
    """Limit training and measurements to a few steps, for tests of how a finding is presented."""

    def train_shortly(*arguments, steps, **options):
        return train_model(*arguments, steps=min(steps, SHORT_STEPS), **options)

    for name in QUESTIONS:
        module = import_module(f"workings.experiments.{name}")
        if hasattr(module, "train_model"):
            monkeypatch.setattr(module, "train_model", train_shortly)
    monkeypatch.setattr(size, "measure", partial(size.measure, rounds=1))
    monkeypatch.setattr(parallel, "measure", partial(parallel.measure, repeats=1))
    monkeypatch.setattr(norm, "NUM_TRAIN_MODE_EXAMPLES", 16)
