"""A recurrent network and an LSTM, worked step by step through time."""

from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.ops import Activated, Linear, Part, Row, SumOfProducts

GATES = (("i", "sigmoid"), ("f", "sigmoid"), ("g", "tanh"), ("o", "sigmoid"))


def _inputs(sizes: Sizes) -> list[Step]:
    return [
        Step("x", Row("X", t - 1), part=t, shown=False, claimable=False)
        for t in range(1, sizes["n"] + 1)
    ]


def _rnn(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    laid = _inputs(sizes)
    for t in range(1, sizes["n"] + 1):
        before = f"h.{t - 1}" if t > 1 else "h0"
        total = Linear(((f"x.{t}", "W_xh"), (before, "W_hh")), bias="b" if "b" in sizes else None)
        laid.append(Step("sum", total, part=t, rows=""))
        laid.append(Step("h", Activated(f"sum.{t}", "tanh"), part=t, rows=""))
    return laid


def _of_gate(matrix: str, gate: str) -> str:
    """Name a gate's part of a matrix: W_xi, b_f."""
    return f"{matrix}{gate}" if "_" in matrix else f"{matrix}_{gate}"


def _lstm(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    laid, width = _inputs(sizes), sizes["h"]
    for k, (gate, _) in enumerate(GATES):
        for matrix in ("W_x", "W_h", "b"):
            if matrix in sizes:
                part = Part(matrix, k * width, (k + 1) * width)
                laid.append(Step(_of_gate(matrix, gate), part, shown=False, claimable=False))
    for t in range(1, sizes["n"] + 1):
        h, c = (f"h.{t - 1}", f"c.{t - 1}") if t > 1 else ("h0", "c0")
        for gate, function in GATES:
            pairs = ((f"x.{t}", _of_gate("W_x", gate)), (h, _of_gate("W_h", gate)))
            bias = _of_gate("b", gate) if "b" in sizes else None
            op = Linear(pairs, bias=bias, function=function)
            laid.append(Step(gate, op, part=t, rows=""))
        cell = SumOfProducts(((f"f.{t}", c), (f"i.{t}", f"g.{t}")))
        laid.append(Step("c", cell, part=t, rows=""))
        laid.append(
            Step("h", SumOfProducts(((f"o.{t}", f"c.{t}"),), function="tanh"), part=t, rows="")
        )
    return laid


RNN = Kind(
    name="rnn",
    matrices={
        "X": ("n", "d"),
        "W_xh": ("d", "h"),
        "W_hh": ("h", "h"),
        "b": ("1", "h"),
        "h0": ("1", "h"),
    },
    needs=("X", "W_xh", "W_hh"),
    settings=(),
    build=_rnn,
    parts="t",
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
    needs=("X", "W_x", "W_h"),
    settings=(),
    build=_lstm,
    parts="t",
)
