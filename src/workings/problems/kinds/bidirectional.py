"""Problems on bidirectional networks: two RNNs, LSTMs or GRUs, one of which reads backwards."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workings.languages import gettext
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.gated import (
    GRU,
    GRU_GATES,
    LSTM,
    LSTM_GATES,
    build_gru_steps,
    build_lstm_steps,
    make_missing_finder,
)
from workings.problems.kinds.outputs import OUTPUT_MATRICES, OUTPUT_OPTIONS, build_output_steps
from workings.problems.kinds.recurrence import make_initial_states
from workings.problems.kinds.recurrent import RNN_ACTIVATION, RNN_MATRICES, build_rnn_steps
from workings.problems.notation import Notation
from workings.problems.ops import Concatenation, MistakeOption, format_symbol
from workings.problems.options import Option

if TYPE_CHECKING:
    from workings.problems.problem import Problem

_DIRECTIONS = ("forward", "backward")
_OUTPUT_OPTIONS = {name: option for name, option in OUTPUT_OPTIONS.items() if name != "outputs"}


@dataclass(frozen=True)
class JointState(Concatenation):
    """The states of both directions at one time, side by side."""

    other_time: str = ""  # the backward state as it is counted when read backwards

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        states = ((part.partition(".")[0], format_symbol(n, part)) for part in self.parts)
        return n.apply("concat", *(n.row(n.word(f"{name} "), state) for name, state in states))

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        forward, backward = self.parts
        swapped = replace(self, parts=(backward, forward))
        yield "directions-swapped", swapped, gettext("put the backward state first")
        if self.other_time != backward:
            unaligned = replace(self, parts=(forward, self.other_time))
            description = gettext(
                "took the backward states in the order in which they are computed"
            )
            yield "backward-not-realigned", unaligned, description
        for part, name in ((forward, "forward"), (backward, "backward")):
            twice = replace(self, parts=(part, part))
            yield (
                "direction-used-twice",
                twice,
                gettext("took the {name} state for both directions", name=name),
            )


def _make_builder(build_steps: Callable[..., list[Step]]) -> Callable[[Sizes, Setting], list[Step]]:
    def build(sizes: Sizes, setting: Setting) -> list[Step]:
        times = range(1, sizes["n"] + 1)
        forward = build_steps(sizes, setting, "forward.", times)
        backward = build_steps(sizes, setting, "backward.", times[::-1])
        known = {step.key for step in forward}  # both read the same inputs
        steps = forward + [step for step in backward if step.key not in known]
        outputs = build_output_steps(sizes, setting, times)
        for t in times:
            parts = (f"forward.h.{t}", f"backward.h.{t}")
            joint = JointState(parts, other_time=f"backward.h.{sizes['n'] + 1 - t}")
            steps += [Step("h", joint, t, row_axis=""), *outputs.get(t, [])]
        return steps + outputs.get(0, [])

    return build


def _make_kind(
    name: str,
    matrices: Mapping[str, tuple[str, str]],
    required: tuple[str, ...],
    options: Mapping[str, Option],
    build_steps: Callable[..., list[Step]],
    base: Kind | None = None,
    gates: Mapping[str, str] | None = None,
) -> Kind:
    own = {key: shape for key, shape in matrices.items() if key not in ("X", *OUTPUT_MATRICES)}
    states = [key for key in own if key in ("h0", "c0")]
    initial = [f"{direction}.{state}" for direction in _DIRECTIONS for state in states]
    prefixes = tuple(f"{direction}." for direction in _DIRECTIONS)
    return Kind(
        name=f"bidirectional_{name}",
        matrices={
            "X": ("n", "d"),
            **{f"{prefix}{key}": shape for prefix in prefixes for key, shape in own.items()},
            **OUTPUT_MATRICES,
            "W_hy": ("2h", "o"),
        },
        required=("X", *(f"{prefix}{key}" for prefix in prefixes for key in required)),
        settings=(),
        options={**{k: v for k, v in options.items() if k != "outputs"}, **_OUTPUT_OPTIONS},
        build=_make_builder(build_steps),
        part_name="t",
        prefixes=_DIRECTIONS,
        make_constants=lambda sizes: make_initial_states(sizes, *initial),
        find_missing=make_missing_finder(gates, prefixes) if gates else lambda _: None,
        relate_sizes=base.relate_sizes if base else lambda _: None,
    )


BIDIRECTIONAL_RNN = _make_kind(
    "rnn", RNN_MATRICES, ("W_xh", "W_hh"), {"activation": RNN_ACTIVATION}, build_rnn_steps
)
BIDIRECTIONAL_LSTM = _make_kind(
    "lstm", LSTM.matrices, (), LSTM.options, build_lstm_steps, LSTM, LSTM_GATES
)
BIDIRECTIONAL_GRU = _make_kind(
    "gru", GRU.matrices, (), GRU.options, build_gru_steps, GRU, GRU_GATES
)
