"""What the recurrent kinds share: inputs and states by time, and mistakes with earlier states."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from workings.languages import gettext, ngettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Sizes, Step
from workings.problems.ops import Linear, MistakeOption, RowSlice

_STATE = re.compile(r"(?P<prefix>(?:[a-z]+\.)?)(?P<name>[hsc])(?:0|\.(?P<time>\d+))")
_MAX_OLDER_STATES = 4  # earlier states that are tried in the place of the previous one


def make_initial_states(sizes: Sizes, *names: str, size: str = "h") -> dict[str, IntervalMatrix]:
    """Return a state of zero for each that is not given."""
    zero = IntervalMatrix.exact(np.zeros((1, sizes[size])))
    return {name: zero for name in names if name not in sizes}


def build_input_steps(count: int, matrix: str = "X", name: str = "x") -> list[Step]:
    """Return one step per time that selects a row of the inputs."""
    return [
        Step(name, RowSlice(matrix, t - 1), part_index=t, is_shown=False, is_claimable=False)
        for t in range(1, count + 1)
    ]


def format_state(name: str, time: int) -> str:
    """Return the key of a state: `h.3`, or `h0` for the initial one."""
    return f"{name}.{time}" if time else f"{name}0"


def find_sibling(key: str, name: str) -> str:
    """Return the key of another step at the same time: `forward.f.2` for `forward.i.2` and f."""
    path, _, time = key.rpartition(".")
    prefix, dot, _ = path.rpartition(".")
    return f"{prefix}{dot}{name}.{time}"


def list_older_states(previous: str) -> list[str]:
    """Return the states before the previous one, `h.3`: the initial one, `h0`, and the latest."""
    match = _STATE.fullmatch(previous)
    if match is None or match["time"] is None:
        return []
    name, time = f"{match['prefix']}{match['name']}", int(match["time"])
    if match["prefix"] == "backward.":  # runs from the last time to the first
        return [f"{name}0"]
    before = [f"{name}.{t}" for t in range(time - 1, 0, -1)]
    return [f"{name}0", *before[:_MAX_OLDER_STATES]]


def describe_state(key: str, step: Step) -> str:
    """Describe an older state so that the same mistake at several times is described equally."""
    match = _STATE.fullmatch(key)
    assert match is not None
    if match["time"] is None:
        return gettext("the initial {name}0", name=match["name"])
    distance = (step.part_index or 0) - int(match["time"])
    return ngettext(
        "the {name} of {count} step before",
        "the {name} of {count} steps before",
        distance,
        name=match["name"],
    )


def list_state_mistakes(step: Step, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistakes with the state in a sum of products: left out, or an older one."""
    for k, (x, w) in enumerate(op.pairs):
        match = _STATE.fullmatch(x)
        if match is None or step.part_index is None:
            continue
        rest = (*op.pairs[:k], *op.pairs[k + 1 :])
        is_current = match["time"] == str(step.part_index)
        if rest and not is_current:
            left_out = gettext("left out the previous state")
            yield "recurrence-forgotten", replace(op, pairs=rest), left_out
        for older in list_older_states(x):
            wrong = replace(op, pairs=(*op.pairs[:k], (older, w), *op.pairs[k + 1 :]))
            yield (
                "state-not-updated",
                wrong,
                gettext("used {state}", state=describe_state(older, step)),
            )
