"""Problems on an Elman RNN, unrolled over time."""

from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.recurrence import (
    build_input_steps,
    format_state,
    make_initial_states,
)
from workings.problems.ops import Activation, Linear


def _build_rnn_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    steps = build_input_steps(sizes["n"])
    for t in range(1, sizes["n"] + 1):
        pairs = ((f"x.{t}", "W_xh"), (format_state("h", t - 1), "W_hh"))
        total = Linear(pairs, bias="b" if "b" in sizes else None)
        steps.append(Step("sum", total, part_index=t, row_axis=""))
        steps.append(Step("h", Activation(f"sum.{t}", "tanh"), part_index=t, row_axis=""))
    return steps


RNN = Kind(
    name="rnn",
    matrices={
        "X": ("n", "d"),
        "W_xh": ("d", "h"),
        "W_hh": ("h", "h"),
        "b": ("1", "h"),
        "h0": ("1", "h"),
    },
    required=("X", "W_xh", "W_hh"),
    settings=(),
    build=_build_rnn_steps,
    part_name="t",
    make_constants=lambda sizes: make_initial_states(sizes, "h0"),
)
