"""Problems on gated recurrent networks: LSTM and GRU, unrolled over time.

The weights of the gates are side by side (`W_x`, `W_h`, `b`), one by one (`W_i`, `U_i`, `b_i`), or
for the state and the input at once (`W`, or `W_i` without `U_i`: W·[h, x]).
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workings.errors import UserError, safe_repr
from workings.languages import gettext, gettext_noop
from workings.problems.intervals import IntervalMatrix, interpolate
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.outputs import OUTPUT_MATRICES, OUTPUT_OPTIONS, build_output_steps
from workings.problems.kinds.recurrence import (
    build_input_steps,
    describe_state,
    find_sibling,
    format_state,
    list_older_states,
    make_initial_states,
)
from workings.problems.notation import Notation
from workings.problems.ops import (
    Activation,
    ColumnSlice,
    Concatenation,
    Copy,
    Env,
    Linear,
    MistakeOption,
    Op,
    SumOfProducts,
    Terms,
    format_symbol,
)
from workings.problems.options import Alternative, Option, make_convention, make_flag
from workings.problems.spellings import fold

if TYPE_CHECKING:
    from workings.problems.problem import Problem

LSTM_GATES = {"i": "sigmoid", "f": "sigmoid", "g": "tanh", "o": "sigmoid"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
GRU_GATES = {"z": "sigmoid", "r": "sigmoid", "n": "tanh"}
_ALIASES = {"g": "gc"}  # the candidate of an LSTM is g or c̃: its weights are W_g or W_c
# Wrong orders of the gates: which are used as the forget, the input and the output gate.
_GATE_ORDERS = (
    ("i", "f", "o"),
    ("o", "i", "f"),
    ("f", "o", "i"),
    ("o", "f", "i"),
    ("i", "o", "f"),
)
_SEPARATORS = re.compile(r"[\s,;]+")
_FUNCTIONS = ("relu", "gelu", "tanh", "sigmoid")


# -- the weights of the gates ----------------------------------------------------------------------


@dataclass(frozen=True)
class GateWeights:
    """The keys of each gate's weights: for x and h, or one for both, and its bias."""

    weights: Mapping[str, tuple[str, ...]]
    biases: Mapping[str, str | None]
    slices: Sequence[Step]  # of matrices in which the gates are side by side

    @property
    def are_joint(self) -> bool:
        """True if one matrix multiplies the state and the input: W·[h, x]."""
        return any(len(keys) == 1 for keys in self.weights.values())


def _format_gate_key(matrix: str, gate: str) -> str:
    """Return the key of a gate's part of a matrix: W_xi, b_f."""
    return f"{matrix}{gate}" if "_" in matrix else f"{matrix}_{gate}"


def _find_weight(given: Collection[str], prefix: str, matrix: str, gate: str) -> str | None:
    """Return the key of a gate's own matrix: W_i, or W_c for the candidate g."""
    names = (f"{prefix}{matrix}_{letter}" for letter in _ALIASES.get(gate, gate))
    return next((name for name in names if name in given), None)


def _locate_weights(
    sizes: Sizes, setting: Setting, gates: Collection[str], prefix: str
) -> GateWeights:
    if not any(f"{prefix}{name}" in sizes for name in ("W", "W_x")):
        own = {
            matrix: {gate: _find_weight(sizes.given, prefix, matrix, gate) for gate in gates}
            for matrix in "WUb"
        }
        weights = {
            gate: tuple(key for key in (own["W"][gate], own["U"][gate]) if key) for gate in gates
        }
        return GateWeights(weights, own["b"], ())
    matrices = [name for name in ("W", "W_x", "W_h", "b") if f"{prefix}{name}" in sizes]
    order, width = setting.options["gates"] or "".join(gates), sizes["h"]
    slices, keys = list[Step](), dict[tuple[str, str], str]()
    for gate in gates:
        start = order.index(gate) * width
        for matrix in matrices:
            keys[matrix, gate] = key = f"{prefix}{_format_gate_key(matrix, gate)}"
            part = ColumnSlice(f"{prefix}{matrix}", start, start + width)
            slices.append(Step(key, part, is_shown=False, is_claimable=False))
    weights = {
        gate: tuple(keys[matrix, gate] for matrix in matrices if matrix != "b") for gate in gates
    }
    return GateWeights(weights, {gate: keys.get(("b", gate)) for gate in gates}, slices)


def _relate_sizes(sizes: Sizes) -> None:
    """Bind the rows of weights: p rows for x, or for the state and x; q rows always for both."""
    has_own_state_weights = any(name.rpartition(".")[2].startswith("U_") for name in sizes.given)
    if "p" in sizes.sizes and has_own_state_weights:
        sizes.bind("d", sizes["p"], sizes.reasons["p"])
    for size in "q" if has_own_state_weights else "pq":
        if size in sizes.sizes and "h" in sizes.sizes:
            rows, width = sizes[size], sizes["h"]
            if rows != sizes.sizes.get("d", rows - width) + width:
                raise UserError(
                    f"{sizes.reasons[size]}, but {sizes.reasons['d']} and the state has {width}:"
                    f" it must be {sizes['d'] + width}"
                )
            sizes.bind("d", rows - width, f"{sizes.reasons[size]}, {width} of them for the state")


def make_missing_finder(
    gates: Collection[str], prefixes: tuple[str, ...] = ("",)
) -> Callable[[Collection[str]], str | None]:
    """Return the function that names a missing given, or rejects two forms of the weights."""

    def find_missing(given: Collection[str]) -> str | None:
        for prefix in prefixes:
            missing = _find_missing_weight(given, gates, prefix)
            if missing:
                return missing
        return None

    return find_missing


def _find_missing_weight(given: Collection[str], gates: Collection[str], prefix: str) -> str | None:
    own = {
        matrix: {gate: _find_weight(given, prefix, matrix, gate) for gate in gates}
        for matrix in "WUb"
    }
    single = [key for keys in own.values() for key in keys.values() if key]
    stacked = [key for name in ("W", "W_x", "W_h", "b") if (key := f"{prefix}{name}") in given]
    if single and stacked:
        raise UserError(
            f"given has both {stacked[0]} and {single[0]}:"
            " give the gates side by side or one by one"
        )
    if single:
        needed = "WU" if any(own["U"].values()) else "W"
        names = {f"{prefix}{m}_{gate}": own[m][gate] for m in needed for gate in gates}
        return next((name for name, key in names.items() if key is None), None)
    if f"{prefix}W" in given:
        rival = next((k for k in stacked if not k.endswith(("W", "b"))), None)
        if rival:
            raise UserError(f"given has both {prefix}W and {rival}: {prefix}W multiplies [h, x]")
        return None
    return next((k for k in (f"{prefix}W_x", f"{prefix}W_h") if k not in given), None)


@dataclass(frozen=True)
class JointInput(Concatenation):
    """The previous state and the input side by side: [h, x]."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        swapped = replace(self, parts=self.parts[::-1])
        yield (
            "concatenated-in-wrong-order",
            swapped,
            gettext("put the state and the input in other order"),
        )
        for k, part in enumerate(self.parts):
            for older in list_older_states(part):
                parts = (*self.parts[:k], older, *self.parts[k + 1 :])
                wrong = replace(self, parts=parts)
                yield (
                    "state-not-updated",
                    wrong,
                    gettext("used {state}", state=describe_state(older, step)),
                )


class _GateBuilder:
    """Builds the gates of one time step; `prefix` is that of a direction."""

    def __init__(self, sizes: Sizes, setting: Setting, gates: Mapping[str, str], prefix: str):
        self.sizes, self.setting, self.gates, self.prefix = sizes, setting, gates, prefix
        self.weights = _locate_weights(sizes, setting, gates, prefix)

    def is_asked(self, name: str) -> bool:
        """Return True if an optional step is claimed or all of them are asked for."""
        is_claimed = f"{self.prefix}{name}" in self.sizes.claimed
        return is_claimed or bool(self.setting.options["preactivations"])

    def make_step(self, name: str, op: Op, time: int, *, is_shown: bool = True) -> Step:
        """Return a step of one time."""
        return Step(f"{self.prefix}{name}", op, time, row_axis="", is_shown=is_shown)

    def build_joint_input(self, time: int, state: str, name: str = "input") -> list[Step]:
        """Return the step of [h, x], if the weights multiply both at once."""
        if not self.weights.are_joint:
            return []
        parts = (state, f"x.{time}")
        parts = parts if self.setting.options["concat"] in (None, "h,x") else parts[::-1]
        is_shown = f"{self.prefix}{name}" in self.sizes.claimed
        return [self.make_step(name, JointInput(parts), time, is_shown=is_shown)]

    def make_sum(self, gate: str, time: int, state: str, joint_input: str = "input") -> Linear:
        """Return the sum inside a gate, with its function."""
        weights, bias = self.weights.weights[gate], self.weights.biases[gate]
        if self.weights.are_joint:
            (weight,) = weights
            pairs: tuple[tuple[str, str], ...] = ((f"{self.prefix}{joint_input}.{time}", weight),)
        else:
            pairs = ((f"x.{time}", weights[0]), (state, weights[1]))
        return Linear(pairs, bias=bias, function=self.gates[gate])

    def build_gate(self, gate: str, time: int, total: Linear) -> list[Step]:
        """Return the step of a gate, after that of its sum if it is asked for."""
        if not self.is_asked(f"sum_{gate}"):
            return [self.make_step(gate, total, time)]
        key = f"{self.prefix}sum_{gate}.{time}"
        return [
            self.make_step(f"sum_{gate}", replace(total, function="none"), time),
            self.make_step(gate, Activation(key, total.function), time),
        ]


# -- LSTM ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellUpdate(SumOfProducts):
    """`c = f ∘ c_before + i ∘ g`."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        (gate, before), (_, candidate) = self.pairs
        for forget, write, output in _GATE_ORDERS:
            pairs = (
                (find_sibling(gate, forget), before),
                (find_sibling(gate, write), candidate),
            )
            yield (
                "gates-swapped",
                replace(self, pairs=pairs),
                _describe_gates(forget, write, output),
            )
        without = replace(self, pairs=self.pairs[1:])
        yield "recurrence-forgotten", without, gettext("left out the previous cell")
        for older in list_older_states(before):
            wrong = replace(self, pairs=((gate, older), self.pairs[1]))
            yield "old-cell-used", wrong, gettext("used {state}", state=describe_state(older, step))


@dataclass(frozen=True)
class CellOutput(SumOfProducts):
    """`h = o ∘ tanh(c)`; `new_cell` and `old_cell` are the keys of c now and before."""

    new_cell: str = ""
    old_cell: str = ""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        ((gate, inside),) = self.pairs
        for other in "fi":
            swapped = replace(self, pairs=((find_sibling(gate, other), inside),))
            yield "gates-swapped", swapped, gettext("used {other} as the output gate", other=other)
            for order in _GATE_ORDERS:
                if order[2] == other:  # together with the same order in the step before
                    yield "gates-swapped", swapped, _describe_gates(*order)
        squashed = replace(self, pairs=((gate, self.new_cell),), function="none")
        yield "cell-not-squashed", squashed, gettext("left out tanh: multiplied by the cell itself")
        if self.function == "none":  # tanh(c) is a step of its own
            return
        for function in _FUNCTIONS:
            if function != self.function:
                description = gettext(
                    "used {function}, not {function_2}", function=function, function_2=self.function
                )
                yield "wrong-activation", replace(self, function=function), description
        yield (
            "old-cell-used",
            replace(self, pairs=((gate, self.old_cell),)),
            gettext("used the previous c, not the new one"),
        )
        for older in list_older_states(self.old_cell):
            description = gettext("used {state}", state=describe_state(older, step))
            yield "old-cell-used", replace(self, pairs=((gate, older),)), description


def _describe_gates(forget: str, write: str, output: str) -> str:
    gates = (("forget", forget, "f"), ("input", write, "i"), ("output", output, "o"))
    parts = [
        gettext("{used} as the {name} gate", used=used, name=name)
        for name, used, own in gates
        if used != own
    ]
    return gettext("used {parts}", parts=", ".join(parts))


def build_lstm_steps(
    sizes: Sizes, setting: Setting, prefix: str = "", times: Sequence[int] | None = None
) -> list[Step]:
    """Return the steps of an LSTM; `times` are in the order in which it reads the inputs."""
    builder = _GateBuilder(sizes, setting, LSTM_GATES, prefix)
    steps, before = [*build_input_steps(sizes["n"]), *builder.weights.slices], 0
    times = times or range(1, sizes["n"] + 1)
    outputs = {} if prefix else build_output_steps(sizes, setting, times)
    for t in times:
        h, c = (format_state(f"{prefix}{name}", before) for name in "hc")
        steps += builder.build_joint_input(t, h)
        for gate in LSTM_GATES:
            steps += builder.build_gate(gate, t, builder.make_sum(gate, t, h))
        i, f, g, o, cell = (f"{prefix}{name}.{t}" for name in "ifgoc")
        steps.append(builder.make_step("c", CellUpdate(((f, c), (i, g))), t))
        inside, function = cell, "tanh"
        if builder.is_asked("tanh_c"):
            inside, function = f"{prefix}tanh_c.{t}", "none"
            steps.append(builder.make_step("tanh_c", Activation(cell, "tanh"), t))
        output = CellOutput(((o, inside),), function, new_cell=cell, old_cell=c)
        steps += [builder.make_step("h", output, t), *outputs.get(t, [])]
        before = t
    return steps + outputs.get(0, [])


# -- GRU -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResetState(SumOfProducts):
    """`r ∘ h_before`: the state that the candidate of a GRU sees."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        ((gate, state),) = self.pairs
        yield "reset-forgotten", Copy(state), gettext("did not multiply the state by r")
        swapped = replace(self, pairs=((find_sibling(gate, "z"), state),))
        yield "gates-swapped", swapped, gettext("used z as the reset gate")
        for older in list_older_states(state):
            wrong = replace(self, pairs=((gate, older),))
            yield (
                "state-not-updated",
                wrong,
                gettext("used {state}", state=describe_state(older, step)),
            )


@dataclass(frozen=True)
class MisplacedReset(Op):
    """A candidate whose reset gate multiplies before the product with U_n, or by mistake after."""

    right: Linear  # the candidate, of which x, its weight and the bias are the same
    gate: str
    state: str
    weight: str
    is_after: bool

    def compute(self, env: Env) -> IntervalMatrix:
        state, gate, weight = env[self.state], env[self.gate], env[self.weight]
        product = gate * (state @ weight) if self.is_after else (gate * state) @ weight
        base = replace(self.right, pairs=self.right.pairs[:1], products=(), function="none")
        return Activation("", self.right.function).compute({"": base.compute(env) + product})

    def formula(self, n: Notation, column_vectors: bool) -> str:
        return self.right.formula(n, column_vectors)

    def sources(self) -> tuple[str, ...]:
        return (*self.right.sources(), self.gate, self.state, self.weight)


@dataclass(frozen=True)
class Candidate(Linear):
    """`n = tanh(x W_n + (r ∘ h) U_n + b_n)`, or with r ∘ (h U_n + b_hn) added."""

    gate: str = ""
    state: str = ""
    weight: str = ""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        is_after = bool(self.products)
        without = replace(self, pairs=self.pairs[:1], products=())
        yield "recurrence-forgotten", without, gettext("left out the previous state")
        if is_after:
            ((gate, recurrent),) = self.products
            identity = f"I.{problem.exact_matrices[recurrent].shape[1]}"
            plain = replace(self, pairs=(*self.pairs, (recurrent, identity)), products=())
            yield "reset-forgotten", plain, gettext("did not multiply by r")
            swapped = replace(self, products=((find_sibling(gate, "z"), recurrent),))
            yield "gates-swapped", swapped, gettext("used z as the reset gate")
        misplaced = MisplacedReset(self, self.gate, self.state, self.weight, not is_after)
        place = gettext("before, not after") if is_after else gettext("after, not before")
        yield (
            "reset-in-wrong-place",
            misplaced,
            gettext("multiplied by r {place} the product with U", place=place),
        )


@dataclass(frozen=True)
class Interpolation(Op):
    """`(1 − z) ∘ h_before + z ∘ n`, or with the two exchanged (`keeps`: z is what is kept)."""

    gate: str
    old: str
    new: str
    keeps: bool = False
    # The remaining fields describe mistakes.
    leaves_out_old: bool = False
    leaves_out_new: bool = False

    def compute(self, env: Env) -> IntervalMatrix:
        gate, old, new = env[self.gate], env[self.old], env[self.new]
        zero = IntervalMatrix.exact(0.0)
        old, new = (zero if self.leaves_out_old else old), (zero if self.leaves_out_new else new)
        return interpolate(gate, new, old) if self.keeps else interpolate(gate, old, new)

    def _format(self, n: Notation, gate: str, old: str, new: str) -> str:
        rest = n.row("(", n.number(1), "−", gate, ")")
        first, second = (gate, rest) if self.keeps else (rest, gate)
        return n.total([n.product(first, old), n.product(second, new)])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return self._format(n, *(format_symbol(n, key) for key in self.sources()))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        gate, old, new = (float(env[key].mid[i, j]) for key in self.sources())
        return self._format(n, n.number(gate), n.factor(old), n.factor(new))

    def terms(self, env: Env, i: int, j: int) -> Terms:
        gate, old, new = (float(env[key].mid[i, j]) for key in self.sources())
        first, second = (gate, 1 - gate) if self.keeps else (1 - gate, gate)
        return Terms([(first, old), (second, new)])

    def sources(self) -> tuple[str, ...]:
        return (self.gate, self.old, self.new)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        inverted = replace(self, keeps=not self.keeps)
        yield "update-gate-inverted", inverted, gettext("exchanged z and 1 − z")
        both = SumOfProducts(((self.gate, self.old), (self.gate, self.new)))
        yield "complement-forgotten", both, gettext("used z for both parts, not z and 1 − z")
        without = replace(self, leaves_out_old=True)
        yield "recurrence-forgotten", without, gettext("left out the previous state")
        without = replace(self, leaves_out_new=True)
        yield "candidate-forgotten", without, gettext("left out the candidate n")
        swapped = replace(self, gate=find_sibling(self.gate, "r"))
        yield "gates-swapped", swapped, gettext("used r as the update gate")
        for older in list_older_states(self.old):
            wrong = replace(self, old=older)
            yield (
                "state-not-updated",
                wrong,
                gettext("used {state}", state=describe_state(older, step)),
            )


def build_gru_steps(
    sizes: Sizes, setting: Setting, prefix: str = "", times: Sequence[int] | None = None
) -> list[Step]:
    """Return the steps of a GRU; `times` are in the order in which it reads the inputs."""
    builder = _GateBuilder(sizes, setting, GRU_GATES, prefix)
    steps, before = [*build_input_steps(sizes["n"]), *builder.weights.slices], 0
    times = times or range(1, sizes["n"] + 1)
    outputs = {} if prefix else build_output_steps(sizes, setting, times)
    for t in times:
        h = format_state(f"{prefix}h", before)
        z, r, n = (f"{prefix}{gate}.{t}" for gate in GRU_GATES)
        steps += builder.build_joint_input(t, h)
        for gate in "zr":
            steps += builder.build_gate(gate, t, builder.make_sum(gate, t, h))
        steps += _build_candidate(builder, t, h, r)
        keeps = setting.options["update"] == "state"
        steps += [builder.make_step("h", Interpolation(z, h, n, keeps), t), *outputs.get(t, [])]
        before = t
    return steps + outputs.get(0, [])


def _build_candidate(builder: _GateBuilder, t: int, h: str, r: str) -> list[Step]:
    """Return the steps of the candidate: r ∘ h before the product with U_n, or r ∘ (h U_n)."""
    prefix, sizes = builder.prefix, builder.sizes
    reset_key, recurrent_key = f"{prefix}reset.{t}", f"{prefix}recurrent.{t}"
    is_after = builder.setting.options["reset"] == "after"
    inner_bias = f"{prefix}b_hn" if f"{prefix}b_hn" in sizes else None
    if is_after and builder.weights.are_joint:
        raise UserError('reset = "after" needs U_n, which multiplies the state alone')
    if inner_bias and not is_after:
        raise UserError('b_hn is added to h U_n before the reset gate: declare reset = "after"')
    if is_after:
        total = builder.make_sum("n", t, h)
        (own, (_, weight)) = total.pairs
        recurrent = Linear(((h, weight),), bias=inner_bias)
        is_shown = builder.is_asked("recurrent")
        steps = [builder.make_step("recurrent", recurrent, t, is_shown=is_shown)]
        candidate = Candidate(
            (own,), total.bias, total.function, ((r, recurrent_key),), r, h, weight
        )
        return steps + builder.build_gate("n", t, candidate)
    is_shown = builder.is_asked("reset")
    steps = [builder.make_step("reset", ResetState(((r, h),)), t, is_shown=is_shown)]
    steps += builder.build_joint_input(t, reset_key, "reset_input")
    total = builder.make_sum("n", t, reset_key, "reset_input")
    if builder.weights.are_joint:
        return steps + builder.build_gate("n", t, total)
    weight = total.pairs[1][1]
    candidate = Candidate(total.pairs, total.bias, total.function, (), r, h, weight)
    return steps + builder.build_gate("n", t, candidate)


# -- kinds -----------------------------------------------------------------------------------------


def _make_gate_matrices(gates: Collection[str], side_by_side: str) -> dict[str, tuple[str, str]]:
    """Return the givens of a gated network with their shapes, in every form of its weights."""
    letters = [letter for gate in gates for letter in _ALIASES.get(gate, gate)]
    return {
        "X": ("n", "d"),
        "W_x": ("d", side_by_side),
        "W_h": ("h", side_by_side),
        "W": ("q", side_by_side),
        "b": ("1", side_by_side),
        **{f"W_{letter}": ("p", "h") for letter in letters},
        **{f"U_{letter}": ("h", "h") for letter in letters},
        **{f"b_{letter}": ("1", "h") for letter in letters},
        "h0": ("1", "h"),
    }


def read_gate_order(value: Any, gates: Collection[str]) -> str | None:
    """Return an order of the gates: `ifgo`, `i, f, c, o`, ["input", "forget", "cell", "output"].

    None if it is not one.
    """
    words = value if isinstance(value, list | tuple) else _SEPARATORS.split(str(value).strip())
    letters = words if len(words) > 1 else fold(str(value))
    order = "".join(str(word)[:1].lower() for word in letters)
    order = order.replace("c", "g" if "g" in gates else "n").replace(
        "u", "z" if "z" in gates else "g"
    )
    return order if sorted(order) == sorted(gates) else None


def make_gate_order(gates: Collection[str], *alternatives: str) -> Option:
    """Return the option of the order in which the gates are side by side."""

    def parse(where: str, value: Any) -> str:
        order = read_gate_order(value, gates)
        if order is None:
            known = "".join(gates)
            raise UserError(
                f"{where} = {safe_repr(value, 30)}: it must be an order of the gates, as {known}"
            )
        return order

    # A single wrong gate is another mistake: in another order, at least two differ.
    options = (
        Alternative(
            order,
            gettext("the gates are side by side as {order}", order=order),
            tuple(gates),
            min_steps=2,
        )
        for order in alternatives
    )
    return Option(None, parse, alternatives=tuple(options))


def make_gate_labels(
    gates: Collection[str], size_name: str
) -> Callable[[str, Sizes, Setting], tuple[str, ...]]:
    """Return a function that names the columns of gates that are side by side: i₁, i₂, f₁, …"""

    def label(size: str, sizes: Sizes, setting: Setting) -> tuple[str, ...]:
        if size != size_name:
            return ()
        units = range(1, sizes["h"] + 1)
        order = setting.options["gates"] or gates
        return tuple(f"{gate}{str(k).translate(_SUBSCRIPTS)}" for gate in order for k in units)

    return label


JOINT_INPUT = make_convention(
    "h,x",
    "x,h",
    alternatives=(
        Alternative("x,h", gettext_noop("the weights multiply [x, h]"), ("input", *"ifgozrn")),
    ),
)
_GATE_OPTIONS = {"concat": JOINT_INPUT, "preactivations": make_flag()}

LSTM = Kind(
    name="lstm",
    matrices={**_make_gate_matrices(LSTM_GATES, "4h"), "c0": ("1", "h"), **OUTPUT_MATRICES},
    required=("X",),
    find_missing=make_missing_finder(LSTM_GATES),
    relate_sizes=_relate_sizes,
    settings=(),
    options={
        "gates": make_gate_order(LSTM_GATES, "ifog", "figo", "fiog"),
        **_GATE_OPTIONS,
        **OUTPUT_OPTIONS,
    },
    build=build_lstm_steps,
    label_size=make_gate_labels(LSTM_GATES, "4h"),
    part_name="t",
    make_constants=lambda sizes: make_initial_states(sizes, "h0", "c0"),
)
GRU = Kind(
    name="gru",
    matrices={**_make_gate_matrices(GRU_GATES, "3h"), "b_hn": ("1", "h"), **OUTPUT_MATRICES},
    required=("X",),
    find_missing=make_missing_finder(GRU_GATES),
    relate_sizes=_relate_sizes,
    settings=(),
    options={
        "reset": make_convention(
            "before",
            "after",
            alternatives=(
                Alternative(
                    "after", gettext_noop("the reset gate multiplies h U_n"), ("n", "h", "sum_n")
                ),
            ),
        ),
        "update": make_convention(
            "candidate",
            "state",
            alternatives=(
                Alternative(
                    "state", gettext_noop("the update gate multiplies the previous state"), ("h",)
                ),
            ),
        ),
        "gates": make_gate_order(GRU_GATES, "rzn"),
        **_GATE_OPTIONS,
        **OUTPUT_OPTIONS,
    },
    build=build_gru_steps,
    label_size=make_gate_labels(GRU_GATES, "3h"),
    part_name="t",
    make_constants=lambda sizes: make_initial_states(sizes, "h0"),
)
