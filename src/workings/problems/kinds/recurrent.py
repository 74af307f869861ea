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


def _lstm(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    laid, width = _inputs(sizes), sizes["h"]
    for k, (gate, _) in enumerate(GATES):
        for matrix in ("W_x", "W_h", "b"):
            if matrix in sizes:
                part = Part(matrix, k * width, (k + 1) * width)
                laid.append(Step(f"{matrix}{gate}", part, shown=False, claimable=False))
    for t in range(1, sizes["n"] + 1):
        h, c = (f"h.{t - 1}", f"c.{t - 1}") if t > 1 else ("h0", "c0")
        for gate, function in GATES:
            pairs = ((f"x.{t}", f"W_x{gate}"), (h, f"W_h{gate}"))
            op = Linear(pairs, bias=f"b{gate}" if "b" in sizes else None, function=function)
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
