"""Random problems on recurrent networks in plain numpy, with mistakes to plant."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from examples.numpy_problems import (
    Env,
    Example,
    Matrix,
    Plant,
    Planter,
    Rng,
    draw,
    sigmoid,
    softmax,
    state,
)

Function = Callable[[Matrix], Matrix]


def identity(x: Matrix) -> Matrix:
    return x


def count_times(example: Example) -> int:
    return len(example.given["X"])


def each_time(function: Callable[..., Matrix], step: str, /, **options: Any) -> Planter:
    """Plant a step computed with other options, at each time alone."""

    def planter(example: Example) -> Iterator[Plant]:
        for t in range(1, count_times(example) + 1):
            yield {f"{step}.{t}": partial(function, t=t, **options)}

    return planter


def each_output(function: Callable[..., Matrix], step: str, /, **options: Any) -> Planter:
    """Plant a step of a decoder of two steps computed with other options, at each time alone."""
    return lambda _: iter([{f"{step}.{t}": partial(function, t=t, **options)} for t in (1, 2)])


def several(*planters: Planter) -> Planter:
    return lambda example: (plant for planter in planters for plant in planter(example))


# -- GRU -------------------------------------------------------------------------------------------


def make_gru(rng: Rng) -> Example:
    times, d, h = 3, 2, 2
    given = {"X": draw(rng, times, d), "h0": draw(rng, 1, h)}
    for gate in "zrn":
        given |= {f"W_{gate}": draw(rng, d, h), f"U_{gate}": draw(rng, h, h)}
        given[f"b_{gate}"] = draw(rng, 1, h)
    settings = {
        "update": str(rng.choice(["candidate", "state"])),
        "reset": str(rng.choice(["before", "after"])),
        "gates": "zrn",
        "concat": "h,x",
    }
    if settings["reset"] == "after":
        given["b_hn"] = draw(rng, 1, h)
    example = Example("gru", given, settings)
    for t in range(1, times + 1):
        for gate in "zr":
            example.steps[f"{gate}.{t}"] = partial(gru_gate, gate=gate, t=t)
        example.steps[f"n.{t}"] = partial(gru_candidate, t=t, is_after=settings["reset"] == "after")
        example.steps[f"h.{t}"] = partial(gru_state, t=t, keeps=settings["update"] == "state")
    return example


def gru_gate(
    e: Env,
    gate: str,
    t: int,
    before: int | None = None,
    recurs: bool = True,
    biased: bool = True,
    function: Function = sigmoid,
) -> Matrix:
    h = e[state("h", t - 1 if before is None else before)]
    total = e["X"][[t - 1]] @ e[f"W_{gate}"] + (h @ e[f"U_{gate}"] if recurs else 0)
    return function(total + (e[f"b_{gate}"] if biased else 0))


def gru_candidate(
    e: Env,
    t: int,
    is_after: bool,
    reset: str | None = "r",
    recurs: bool = True,
    function: Function = np.tanh,
) -> Matrix:
    h, r = e[state("h", t - 1)], 1.0 if reset is None else e[f"{reset}.{t}"]
    recurrent = r * (h @ e["U_n"] + e.get("b_hn", 0)) if is_after else (r * h) @ e["U_n"]
    return function(e["X"][[t - 1]] @ e["W_n"] + e["b_n"] + (recurrent if recurs else 0))


def gru_state(
    e: Env,
    t: int,
    keeps: bool,
    gate: str = "z",
    parts: str = "both",
    complement: bool = True,
    before: int | None = None,
) -> Matrix:
    z, n, h = e[f"{gate}.{t}"], e[f"n.{t}"], e[state("h", t - 1 if before is None else before)]
    old, new = (z, 1 - z if complement else z) if keeps else (1 - z if complement else z, z)
    return old * h * (parts != "new") + new * n * (parts != "old")


def plant_gru_candidate(example: Example, flipped: bool = False, **options: Any) -> Iterator[Plant]:
    is_after = (example.settings["reset"] == "after") != flipped
    if flipped and "b_hn" in example.given:
        return iter([{}])  # the two biases have no counterpart
    return each_time(gru_candidate, "n", is_after=is_after, **options)(example)


def plant_gru_state(example: Example, inverted: bool = False, **options: Any) -> Iterator[Plant]:
    keeps = (example.settings["update"] == "state") != inverted
    return each_time(gru_state, "h", keeps=keeps, **options)(example)


def plant_gru_gates(example: Example, **options: Any) -> Iterator[Plant]:
    for gate in "zr":
        yield from each_time(gru_gate, gate, gate=gate, **options)(example)


GRU_MISTAKES: dict[str, Planter] = {
    "update-gate-inverted": partial(plant_gru_state, inverted=True),
    "complement-forgotten": partial(plant_gru_state, complement=False),
    "candidate-forgotten": partial(plant_gru_state, parts="old"),
    "recurrence-forgotten": several(
        partial(plant_gru_state, parts="new"),
        partial(plant_gru_gates, recurs=False),
        partial(plant_gru_candidate, recurs=False),
    ),
    "reset-forgotten": partial(plant_gru_candidate, reset=None),
    "gates-swapped": several(
        partial(plant_gru_state, gate="r"), partial(plant_gru_candidate, reset="z")
    ),
    "reset-in-wrong-place": partial(plant_gru_candidate, flipped=True),
    "state-not-updated": lambda _: iter(
        [{f"z.{t}": partial(gru_gate, gate="z", t=t, before=0)} for t in (2, 3)]
    ),
    "bias-forgotten": partial(plant_gru_gates, biased=False),
    "activation-forgotten": several(
        partial(plant_gru_gates, function=identity),
        partial(plant_gru_candidate, function=identity),
    ),
    "wrong-activation": several(
        partial(plant_gru_gates, function=np.tanh),
        partial(plant_gru_candidate, function=sigmoid),
    ),
}


# -- LSTM with one matrix per gate for [h, x] ------------------------------------------------------


def make_joint_lstm(rng: Rng) -> Example:
    """Return an LSTM whose sums and tanh(c) are claimed, with W·[h, x]."""
    times, d, h = 2, 2, 2
    given = {"X": draw(rng, times, d), "h0": draw(rng, 1, h), "c0": draw(rng, 1, h)}
    for gate in "ifco":
        given |= {f"W_{gate}": draw(rng, d + h, h), f"b_{gate}": draw(rng, 1, h)}
    settings = {"preactivations": True, "concat": "h,x", "gates": "ifgo"}
    example = Example("lstm", given, settings)
    for t in range(1, times + 1):
        for gate in "ifgo":
            example.steps[f"sum_{gate}.{t}"] = partial(joint_sum, gate=gate, t=t)
            function = np.tanh if gate == "g" else sigmoid
            example.steps[f"{gate}.{t}"] = partial(activate, step=f"sum_{gate}", function=function)
            example.steps[f"{gate}.{t}"].keywords["t"] = t
        example.steps[f"c.{t}"] = partial(joint_cell, t=t)
        example.steps[f"tanh_c.{t}"] = partial(activate, step="c", t=t, function=np.tanh)
        example.steps[f"h.{t}"] = partial(joint_state, t=t)
    return example


def joint_sum(e: Env, gate: str, t: int, order: str = "hx", biased: bool = True) -> Matrix:
    parts = {"h": e[state("h", t - 1)], "x": e["X"][[t - 1]]}
    letter = gate.replace("g", "c")
    total = np.hstack([parts[name] for name in order]) @ e[f"W_{letter}"]
    return total + (e[f"b_{letter}"] if biased else 0)


def activate(e: Env, step: str, t: int, function: Function) -> Matrix:
    return function(e[f"{step}.{t}"])


def joint_cell(e: Env, t: int, gates: str = "fi", parts: str = "both") -> Matrix:
    old = e[f"{gates[0]}.{t}"] * e[state("c", t - 1)]
    return old * (parts == "both") + e[f"{gates[1]}.{t}"] * e[f"g.{t}"]


def joint_state(e: Env, t: int, gate: str = "o", inside: str = "tanh_c") -> Matrix:
    return e[f"{gate}.{t}"] * e[f"{inside}.{t}"]


def plant_joint_gates(
    function: Callable[..., Matrix], step: str = "sum_{}", **options: Any
) -> Planter:
    return several(
        *(each_time(function, step.format(gate), gate=gate, **options) for gate in "ifgo")
    )


JOINT_LSTM_MISTAKES: dict[str, Planter] = {
    "concatenated-in-wrong-order": plant_joint_gates(joint_sum, order="xh"),
    "bias-forgotten": plant_joint_gates(joint_sum, biased=False),
    "activation-forgotten": several(
        *(each_time(activate, g, step=f"sum_{g}", function=identity) for g in "ifgo")
    ),
    "wrong-activation": several(
        *(each_time(activate, g, step=f"sum_{g}", function=np.tanh) for g in "ifo"),
        each_time(activate, "tanh_c", step="c", function=sigmoid),
    ),
    "gates-swapped": several(
        *(each_time(joint_cell, "c", gates=gates) for gates in ("if", "oi", "fo")),
        each_time(joint_state, "h", gate="f"),
    ),
    "recurrence-forgotten": each_time(joint_cell, "c", parts="new"),
    "cell-not-squashed": each_time(joint_state, "h", inside="c"),
}


# -- RNN with output, softmax and loss -------------------------------------------------------------


def make_rnn_output(rng: Rng) -> Example:
    times, d, h, o = 2, 2, 2, 3
    given = {"X": draw(rng, times, d), "W_xh": draw(rng, d, h), "W_hh": draw(rng, h, h)}
    given |= {"b": draw(rng, 1, h), "W_hy": draw(rng, h, o) / 2, "b_y": draw(rng, 1, o)}
    given["Y"] = np.eye(o)[rng.integers(0, o, times)]
    settings = {"reduction": str(rng.choice(["mean", "sum"])), "activation": "sigmoid"}
    example = Example("rnn", given, settings, constants={"h0": np.zeros((1, h))})
    for t in range(1, times + 1):
        example.steps[f"sum.{t}"] = partial(output_sum, t=t)
        example.steps[f"h.{t}"] = partial(activate, step="sum", t=t, function=sigmoid)
        example.steps[f"y.{t}"] = partial(output_logits, t=t)
        example.steps[f"probabilities.{t}"] = partial(activate, step="y", t=t, function=softmax)
        example.steps[f"loss.{t}"] = partial(output_loss, t=t)
    example.steps["loss"] = partial(total_loss, is_mean=settings["reduction"] == "mean")
    return example


def output_sum(e: Env, t: int, recurs: bool = True) -> Matrix:
    recurrent = e[state("h", t - 1)] @ e["W_hh"] if recurs else 0
    return e["X"][[t - 1]] @ e["W_xh"] + recurrent + e["b"]


def output_logits(e: Env, t: int, before: int = 0, biased: bool = True) -> Matrix:
    return e[state("h", t - before)] @ e["W_hy"] + (e["b_y"] if biased else 0)


def output_loss(
    e: Env, t: int, function: Function = np.log, sign: float = -1, every: bool = False
) -> Matrix:
    y = np.ones_like(e["Y"][[t - 1]]) if every else e["Y"][[t - 1]]
    p = np.where(y == 0, 1, e[f"probabilities.{t}"])
    return sign * (y * function(p)).sum(1, keepdims=True)


def total_loss(e: Env, is_mean: bool, last: bool = False) -> Matrix:
    return e["loss.2"] if last else (e["loss.1"] + e["loss.2"]) / (2 if is_mean else 1)


def plant_total(example: Example, is_mean: bool) -> Iterator[Plant]:
    is_wrong = (example.settings["reduction"] == "mean") != is_mean
    return iter([{"loss": partial(total_loss, is_mean=is_mean)} if is_wrong else {}])


RNN_OUTPUT_MISTAKES: dict[str, Planter] = {
    "loss-not-negated": each_time(output_loss, "loss", sign=1),
    "wrong-logarithm": several(
        each_time(output_loss, "loss", function=np.log2),
        each_time(output_loss, "loss", function=np.log10),
    ),
    "logarithm-forgotten": each_time(output_loss, "loss", function=identity, sign=1),
    "summed-over-all-classes": each_time(output_loss, "loss", every=True),
    "one-over-n-forgotten": partial(plant_total, is_mean=False),
    "mean-for-sum": partial(plant_total, is_mean=True),
    "only-last-loss": lambda _: iter([{"loss": partial(total_loss, is_mean=False, last=True)}]),
    "bias-forgotten": each_time(output_logits, "y", biased=False),
    "exp-not-normalised": each_time(activate, "probabilities", step="y", function=np.exp),
    "wrong-activation": each_time(activate, "h", step="sum", function=np.tanh),
    "recurrence-forgotten": lambda _: iter([{"sum.2": partial(output_sum, t=2, recurs=False)}]),
}


# -- encoder and decoder with attention ------------------------------------------------------------


def make_encoder_decoder(rng: Rng) -> Example:
    """Return an encoder of three steps and a decoder of two that attends to its states."""
    n, m, h = 3, 2, 2
    given = {"X": draw(rng, n, h), "decoder.Y": draw(rng, m, h)}
    given |= {f"encoder.{name}": draw(rng, h, h) for name in ("W_xh", "W_hh")}
    given |= {f"decoder.{name}": draw(rng, h, h) for name in ("W_ys", "W_ss", "W_cs")}
    given |= {f"attention.{name}": draw(rng, h, h) for name in ("W_s", "W_h")}
    given["attention.v"] = draw(rng, 1, h)
    constants = {"encoder.h0": np.zeros((1, h))}
    example = Example("encoder_decoder", given, {"activation": "tanh"}, constants=constants)
    steps = example.steps
    for t in range(1, n + 1):
        steps[f"encoder.sum.{t}"] = partial(encoder_sum, t=t)
        steps[f"encoder.h.{t}"] = partial(activate, step="encoder.sum", t=t, function=np.tanh)
    steps["decoder.s0"] = lambda e: e["encoder.h.3"]
    steps["H"] = lambda e: np.vstack([e[f"encoder.h.{t}"] for t in range(1, n + 1)])
    example.inner.add("H")
    for t in range(1, m + 1):
        steps[f"decoder.hidden.{t}"] = partial(decoder_hidden, t=t)
        steps[f"decoder.scores.{t}"] = lambda e, t=t: e["attention.v"] @ e[f"decoder.hidden.{t}"].T
        steps[f"decoder.weights.{t}"] = partial(
            activate, step="decoder.scores", t=t, function=softmax
        )
        steps[f"decoder.c.{t}"] = lambda e, t=t: e[f"decoder.weights.{t}"] @ e["H"]
        steps[f"decoder.sum.{t}"] = partial(decoder_sum, t=t)
        steps[f"decoder.s.{t}"] = partial(activate, step="decoder.sum", t=t, function=np.tanh)
    return example


def encoder_sum(e: Env, t: int, recurs: bool = True) -> Matrix:
    recurrent = e[state("encoder.h", t - 1)] @ e["encoder.W_hh"] if recurs else 0
    return e["X"][[t - 1]] @ e["encoder.W_xh"] + recurrent


def decoder_hidden(
    e: Env, t: int, function: Function = np.tanh, before: int | None = None
) -> Matrix:
    s = e[state("decoder.s", t - 1 if before is None else before)]
    return function(s @ e["attention.W_s"] + e["H"] @ e["attention.W_h"])


def decoder_sum(e: Env, t: int, parts: str = "ysc", context: int = 0) -> Matrix:
    terms = {
        "y": e["decoder.Y"][[t - 1]] @ e["decoder.W_ys"],
        "s": e[state("decoder.s", t - 1)] @ e["decoder.W_ss"],
        "c": e[f"decoder.c.{t - context}"] @ e["decoder.W_cs"],
    }
    return sum((terms[part] for part in parts), np.zeros(()))


ENCODER_DECODER_MISTAKES: dict[str, Planter] = {
    "input-forgotten": each_output(decoder_sum, "decoder.sum", parts="sc"),
    "context-forgotten": each_output(decoder_sum, "decoder.sum", parts="ys"),
    "old-context-used": lambda _: iter([{"decoder.sum.2": partial(decoder_sum, t=2, context=1)}]),
    "first-state-for-last": lambda _: iter([{"decoder.s0": lambda e: e["encoder.h.1"]}]),
    "recurrence-forgotten": several(
        each_output(decoder_sum, "decoder.sum", parts="yc"),
        lambda _: iter([{"encoder.sum.2": partial(encoder_sum, t=2, recurs=False)}]),
    ),
    "state-not-updated": lambda _: iter(
        [{"decoder.hidden.2": partial(decoder_hidden, t=2, before=0)}]
    ),
    "activation-forgotten": each_output(decoder_hidden, "decoder.hidden", function=identity),
    "exp-not-normalised": each_output(
        activate, "decoder.weights", step="decoder.scores", function=np.exp
    ),
}


# -- both directions -------------------------------------------------------------------------------


def make_bidirectional(rng: Rng) -> Example:
    n, d, h, o = 3, 2, 2, 2
    given = {"X": draw(rng, n, d), "W_hy": draw(rng, 2 * h, o), "b_y": draw(rng, 1, o)}
    constants = {}
    for direction in ("forward", "backward"):
        given |= {f"{direction}.W_xh": draw(rng, d, h), f"{direction}.W_hh": draw(rng, h, h)}
        given[f"{direction}.b"] = draw(rng, 1, h)
        constants[f"{direction}.h0"] = np.zeros((1, h))
    example = Example("bidirectional_rnn", given, {"activation": "tanh"}, constants=constants)
    for direction, times in (("forward", (1, 2, 3)), ("backward", (3, 2, 1))):
        before = f"{direction}.h0"
        for t in times:
            key = f"{direction}.sum.{t}"
            example.steps[key] = partial(direction_sum, direction=direction, t=t, before=before)
            example.steps[f"{direction}.h.{t}"] = partial(
                activate, step=f"{direction}.sum", t=t, function=np.tanh
            )
            before = f"{direction}.h.{t}"
    for t in (1, 2, 3):
        example.steps[f"h.{t}"] = partial(joint_directions, t=t)
        example.steps[f"y.{t}"] = partial(joint_output, t=t)
    return example


def direction_sum(
    e: Env, direction: str, t: int, before: str, recurs: bool = True, biased: bool = True
) -> Matrix:
    recurrent = e[before] @ e[f"{direction}.W_hh"] if recurs else 0
    total = e["X"][[t - 1]] @ e[f"{direction}.W_xh"] + recurrent
    return total + (e[f"{direction}.b"] if biased else 0)


def joint_directions(
    e: Env, t: int, order: tuple[str, str] = ("forward", "backward"), aligned: bool = True
) -> Matrix:
    times = {"forward": t, "backward": t if aligned else 4 - t}
    return np.hstack([e[f"{name}.h.{times[name]}"] for name in order])


def joint_output(e: Env, t: int, biased: bool = True) -> Matrix:
    return e[f"h.{t}"] @ e["W_hy"] + (e["b_y"] if biased else 0)


def plant_direction_sums(example: Example, **options: Any) -> Iterator[Plant]:
    for direction, t, before in (("forward", 2, "forward.h.1"), ("backward", 1, "backward.h.2")):
        wrong = partial(direction_sum, direction=direction, t=t, before=before, **options)
        yield {f"{direction}.sum.{t}": wrong}


BIDIRECTIONAL_MISTAKES: dict[str, Planter] = {
    "directions-swapped": each_time(joint_directions, "h", order=("backward", "forward")),
    "backward-not-realigned": lambda _: iter(
        [{f"h.{t}": partial(joint_directions, t=t, aligned=False)} for t in (1, 3)]
    ),
    "direction-used-twice": several(
        each_time(joint_directions, "h", order=("forward", "forward")),
        each_time(joint_directions, "h", order=("backward", "backward")),
    ),
    "recurrence-forgotten": partial(plant_direction_sums, recurs=False),
    "bias-forgotten": several(
        partial(plant_direction_sums, biased=False), each_time(joint_output, "y", biased=False)
    ),
    "activation-forgotten": each_time(
        activate, "backward.h", step="backward.sum", function=identity
    ),
    "wrong-activation": each_time(activate, "forward.h", step="forward.sum", function=sigmoid),
}
