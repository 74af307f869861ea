"""Problems on recurrent networks: an Elman RNN and an LSTM, unrolled over time."""

import numpy as np

from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.ops import Activation, ColumnSlice, Linear, RowSlice, SumOfProducts

GATES = (("i", "sigmoid"), ("f", "sigmoid"), ("g", "tanh"), ("o", "sigmoid"))


def _make_initial_states(sizes: Sizes, *names: str) -> dict[str, IntervalMatrix]:
    """Return a state of zero for each that is not given."""
    zero = IntervalMatrix.exact(np.zeros((1, sizes["h"])))
    return {name: zero for name in names if name not in sizes}


def _build_input_steps(sizes: Sizes) -> list[Step]:
    """Return one step per time that selects the row of X."""
    return [
        Step("x", RowSlice("X", t - 1), part_index=t, is_shown=False, is_claimable=False)
        for t in range(1, sizes["n"] + 1)
    ]


def _build_rnn_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    steps = _build_input_steps(sizes)
    for t in range(1, sizes["n"] + 1):
        previous = f"h.{t - 1}" if t > 1 else "h0"
        total = Linear(((f"x.{t}", "W_xh"), (previous, "W_hh")), bias="b" if "b" in sizes else None)
        steps.append(Step("sum", total, part_index=t, row_axis=""))
        steps.append(Step("h", Activation(f"sum.{t}", "tanh"), part_index=t, row_axis=""))
    return steps


def _format_gate_key(matrix: str, gate: str) -> str:
    """Return the key of a gate's part of a matrix: W_xi, b_f."""
    return f"{matrix}{gate}" if "_" in matrix else f"{matrix}_{gate}"


def _build_lstm_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    steps, width = _build_input_steps(sizes), sizes["h"]
    for k, (gate, _) in enumerate(GATES):
        for matrix in ("W_x", "W_h", "b"):
            if matrix in sizes:
                part = ColumnSlice(matrix, k * width, (k + 1) * width)
                steps.append(
                    Step(_format_gate_key(matrix, gate), part, is_shown=False, is_claimable=False)
                )
    for t in range(1, sizes["n"] + 1):
        h, c = (f"h.{t - 1}", f"c.{t - 1}") if t > 1 else ("h0", "c0")
        for gate, function in GATES:
            pairs = ((f"x.{t}", _format_gate_key("W_x", gate)), (h, _format_gate_key("W_h", gate)))
            bias = _format_gate_key("b", gate) if "b" in sizes else None
            op = Linear(pairs, bias=bias, function=function)
            steps.append(Step(gate, op, part_index=t, row_axis=""))
        cell = SumOfProducts(((f"f.{t}", c), (f"i.{t}", f"g.{t}")))
        steps.append(Step("c", cell, part_index=t, row_axis=""))
        steps.append(
            Step(
                "h",
                SumOfProducts(((f"o.{t}", f"c.{t}"),), function="tanh"),
                part_index=t,
                row_axis="",
            )
        )
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
    make_constants=lambda sizes: _make_initial_states(sizes, "h0"),
)
LSTM = Kind(
    name="lstm",
    matrices={
        "X": ("n", "d"),
        "W_x": ("d", "4h"),
        "W_h": ("h", "4h"),
        "b": ("1", "4h"),
        "h0": ("1", "h"),
        "c0": ("1", "h"),
    },
    required=("X", "W_x", "W_h"),
    settings=(),
    build=_build_lstm_steps,
    part_name="t",
    make_constants=lambda sizes: _make_initial_states(sizes, "h0", "c0"),
)
