"""Problems on an encoder–decoder of two RNNs, with a fixed context or with additive attention.

The encoder reads X. The decoder starts from the encoder's last state, s_0 = h_T, or from
tanh(h_T W_init + b_init), and reads its own inputs Y. With W_cs, a context c enters every step: the
last state of the encoder or, with `attention.v`, a weighted sum of all its states.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.outputs import OUTPUT_MATRICES, OUTPUT_OPTIONS, build_output_steps
from workings.problems.kinds.recurrence import (
    build_input_steps,
    format_state,
    make_initial_states,
)
from workings.problems.kinds.recurrent import RNN_ACTIVATION, RNN_MATRICES, build_rnn_steps
from workings.problems.kinds.softmax import build_weight_steps
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Normalization,
    Op,
    format_symbol,
)

if TYPE_CHECKING:
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class RowStack(Op):
    """Vectors one below the other: the states of the encoder."""

    parts: tuple[str, ...]

    def compute(self, env: Env) -> IntervalMatrix:
        return IntervalMatrix(
            *(
                np.concatenate([getattr(env[key], a) for key in self.parts])
                for a in IntervalMatrix.__slots__
            )
        )

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("stack", *(format_symbol(n, key) for key in self.parts))

    def sources(self) -> tuple[str, ...]:
        return self.parts


@dataclass(frozen=True)
class DecoderSum(Linear):
    """`y W_ys + s_before W_ss + c W_cs + b`; `first_state` is the encoder's first state."""

    first_state: str = ""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        without = replace(self, pairs=self.pairs[1:])
        yield "input-forgotten", without, gettext("left out the decoder's input")
        *others, (context, weight) = self.pairs
        if not weight.endswith("W_cs"):
            return
        left_out = replace(self, pairs=tuple(others))
        yield "context-forgotten", left_out, gettext("left out the context c")
        first = replace(self, pairs=(*others, (self.first_state, weight)))
        if context.startswith("encoder."):
            yield (
                "first-state-for-last",
                first,
                gettext("took the encoder's first state as the context"),
            )
        elif (step.part_index or 1) > 1:
            name, _, time = context.rpartition(".")
            older = replace(self, pairs=(*others, (f"{name}.{int(time) - 1}", weight)))
            yield "old-context-used", older, gettext("took the context of the time before")


@dataclass(frozen=True)
class InitialState(Linear):
    """`tanh(h_T W_init + b_init)`: the decoder's first state, predicted from the encoder's last."""

    first_state: str = ""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        ((_, weight),) = self.pairs
        first = replace(self, pairs=((self.first_state, weight),))
        yield "first-state-for-last", first, gettext("started from the encoder's first state")


def _build_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    count = sizes["n"]
    states = tuple(f"encoder.h.{t}" for t in range(1, count + 1))
    has_attention = "attention.v" in sizes
    steps = build_rnn_steps(sizes, setting, "encoder.")
    steps.append(_build_initial_state(sizes, states))
    if has_attention:
        steps.append(Step("H", RowStack(states), row_axis="tokens", is_shown="H" in sizes.claimed))
    times = range(1, sizes["m"] + 1)
    outputs = build_output_steps(sizes, setting, times, "decoder.s", "decoder.")
    steps += build_input_steps(sizes["m"], "decoder.Y", "decoder.y_in")
    for t in times:
        previous = format_state("decoder.s", t - 1)
        if has_attention:
            steps += _build_attention(sizes, setting, previous, t)
        context = f"decoder.c.{t}" if has_attention else states[-1]
        pairs = [(f"decoder.y_in.{t}", "decoder.W_ys"), (previous, "decoder.W_ss")]
        pairs += [(context, "decoder.W_cs")] if "decoder.W_cs" in sizes else []
        bias = "decoder.b" if "decoder.b" in sizes else None
        total = DecoderSum(tuple(pairs), bias, first_state=states[0])
        activation = Activation(f"decoder.sum.{t}", setting.options["activation"])
        steps.append(Step("decoder.sum", total, t, row_axis=""))
        steps.append(Step("decoder.s", activation, t, row_axis=""))
        steps += outputs.get(t, [])
    return steps + outputs.get(0, [])


def _build_initial_state(sizes: Sizes, states: tuple[str, ...]) -> Step:
    bias = "decoder.b_init" if "decoder.b_init" in sizes else None
    if "decoder.W_init" in sizes:
        pairs = ((states[-1], "decoder.W_init"),)
        op: Op = InitialState(pairs, bias, "tanh", first_state=states[0])
        return Step("decoder.s0", op, row_axis="")
    if sizes["s"] != sizes["h"]:
        raise UserError(
            f"{sizes.reasons['s']}, but the encoder's state has {sizes['h']}: without"
            " decoder.W_init the decoder starts from it"
        )
    first = Copy(states[0])
    mistake = ("first-state-for-last", first, gettext("started from the encoder's first state"))
    return Step("decoder.s0", Copy(states[-1]), row_axis="", mistakes=(mistake,))


def _build_attention(sizes: Sizes, setting: Setting, previous: str, t: int) -> list[Step]:
    """Return the steps of additive attention: hidden, scores, weights and c."""

    def weight(name: str, size: str) -> str:
        if f"attention.{name}" in sizes:
            return f"attention.{name}"
        if sizes[size] != sizes["k"]:
            width = sizes[size]
            raise UserError(f"{sizes.reasons['k']}: without attention.{name} it must be {width}")
        return f"I.{sizes['k']}"

    pairs = ((previous, weight("W_s", "s")), ("H", weight("W_h", "h")))
    hidden = Linear(pairs, function="tanh")
    scores, prefix = f"decoder.scores.{t}", "decoder."
    weights = Step(f"{prefix}weights", Normalization(scores), t, row_axis="", column_axis="tokens")
    products = Linear((("attention.v", f"decoder.hidden.{t}ᵀ"),))
    return [
        Step(f"{prefix}hidden", hidden, t, row_axis="tokens"),
        Step(f"{prefix}scores", products, t, row_axis="", column_axis="tokens"),
        *build_weight_steps(sizes, setting, weights, scores).values(),
        Step(f"{prefix}c", Linear(((f"decoder.weights.{t}", "H"),)), t, row_axis=""),
    ]


def _find_missing(given: Collection[str]) -> str | None:
    """Return what attention lacks: without W_cs its result would not be used."""
    names = [name for name in given if name.startswith("attention.")]
    if names and "attention.v" not in given:
        return "attention.v"
    return "decoder.W_cs" if names and "decoder.W_cs" not in given else None


ENCODER_DECODER = Kind(
    name="encoder_decoder",
    matrices={
        "X": ("n", "d"),
        **{f"encoder.{name}": shape for name, shape in RNN_MATRICES.items() if name != "X"},
        "decoder.Y": ("m", "e"),
        "decoder.W_ys": ("e", "s"),
        "decoder.W_ss": ("s", "s"),
        "decoder.W_cs": ("h", "s"),
        "decoder.b": ("1", "s"),
        "decoder.W_init": ("h", "s"),
        "decoder.b_init": ("1", "s"),
        "attention.W_s": ("s", "k"),
        "attention.W_h": ("h", "k"),
        "attention.v": ("1", "k"),
        **OUTPUT_MATRICES,
        "W_hy": ("s", "o"),
    },
    required=(
        "X",
        *(f"encoder.{name}" for name in ("W_xh", "W_hh")),
        *(f"decoder.{name}" for name in ("Y", "W_ys", "W_ss")),
    ),
    settings=(),
    options={"activation": RNN_ACTIVATION, **OUTPUT_OPTIONS},
    build=_build_steps,
    part_name="t",
    prefixes=("encoder", "decoder"),
    make_constants=lambda sizes: make_initial_states(sizes, "encoder.h0"),
    find_missing=_find_missing,
)
