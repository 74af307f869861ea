"""Problems on an Elman RNN, unrolled over time, with or without outputs."""

from collections.abc import Sequence

from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.outputs import OUTPUT_MATRICES, OUTPUT_OPTIONS, build_output_steps
from workings.problems.kinds.recurrence import (
    build_input_steps,
    format_state,
    make_initial_states,
)
from workings.problems.ops import Activation, Linear
from workings.problems.options import make_choice

RNN_MATRICES = {
    "X": ("n", "d"),
    "W_xh": ("d", "h"),
    "W_hh": ("h", "h"),
    "b": ("1", "h"),
    "h0": ("1", "h"),
}
RNN_ACTIVATION = make_choice("tanh", "relu", "sigmoid", "gelu", "none")


def build_rnn_steps(
    sizes: Sizes, setting: Setting, prefix: str = "", times: Sequence[int] | None = None
) -> list[Step]:
    """Return the steps of an RNN; `times` are in the order in which it reads the inputs."""
    steps, before = build_input_steps(sizes["n"]), 0
    times = times or range(1, sizes["n"] + 1)
    outputs = {} if prefix else build_output_steps(sizes, setting, times)
    bias = f"{prefix}b" if f"{prefix}b" in sizes else None
    for t in times:
        previous = format_state(f"{prefix}h", before)
        total = Linear(((f"x.{t}", f"{prefix}W_xh"), (previous, f"{prefix}W_hh")), bias=bias)
        steps.append(Step(f"{prefix}sum", total, part_index=t, row_axis=""))
        state = Activation(f"{prefix}sum.{t}", setting.options["activation"])
        steps.append(Step(f"{prefix}h", state, part_index=t, row_axis=""))
        steps += outputs.get(t, [])
        before = t
    return steps + outputs.get(0, [])


RNN = Kind(
    name="rnn",
    matrices={**RNN_MATRICES, **OUTPUT_MATRICES},
    required=("X", "W_xh", "W_hh"),
    settings=(),
    options={"activation": RNN_ACTIVATION, **OUTPUT_OPTIONS},
    build=build_rnn_steps,
    part_name="t",
    make_constants=lambda sizes: make_initial_states(sizes, "h0"),
)
