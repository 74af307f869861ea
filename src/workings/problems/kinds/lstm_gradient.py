"""Problems on back-propagation through one time step of an LSTM.

`sum` has the four pre-activations side by side, in the order input, forget, cell, output.
"""

from itertools import permutations

import numpy as np

from workings.languages import gettext
from workings.problems.elementwise import ElementwiseSum, Factor, make_factors, make_product
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.gated import (
    JOINT_INPUT,
    LSTM_GATES,
    make_gate_labels,
    make_gate_order,
)
from workings.problems.kinds.joined_gates import join_gates
from workings.problems.kinds.layer_gradients import (
    list_input_gradient_mistakes,
    list_weight_gradient_mistakes,
)
from workings.problems.ops import (
    Activation,
    ColumnSlice,
    Concatenation,
    Copy,
    Linear,
    MistakeOption,
)

_SLOPES = {gate: f"slope of {function}" for gate, function in LSTM_GATES.items()}


def _get_order(setting: Setting) -> tuple[str, ...]:
    """Return the order in which the gates are side by side."""
    return tuple(setting.options["gates"] or LSTM_GATES)


def _build_forward_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    width, order = sizes["h"], _get_order(setting)
    pairs = (("x", "W_x"), ("h0", "W_h"))
    total = Linear(pairs, bias="b" if "b" in sizes else None)
    without = Linear(pairs[:1], bias=total.bias)
    forgotten = (("recurrence-forgotten", without, gettext("left out the previous state")),)
    steps = [Step("sum", total, row_axis="", mistakes=forgotten)]
    steps += [
        Step(
            f"sum_{gate}",
            ColumnSlice("sum", order.index(gate) * width, (order.index(gate) + 1) * width),
            is_shown=False,
            is_claimable=f"sum_{gate}" in sizes.claimed,
        )
        for gate in LSTM_GATES
    ]
    steps += [
        Step(gate, Activation(f"sum_{gate}", f), row_axis="") for gate, f in LSTM_GATES.items()
    ]
    swapped = _add_products(("i", "c0"), ("f", "g"))
    return [
        *steps,
        Step(
            "c",
            _add_products(("f", "c0"), ("i", "g")),
            row_axis="",
            mistakes=(
                (
                    "gates-swapped",
                    swapped,
                    gettext("used i as the forget gate and f as the input gate"),
                ),
                (
                    "recurrence-forgotten",
                    make_product("i", "g"),
                    gettext("left out the previous cell"),
                ),
            ),
        ),
        Step("tanh_c", Activation("c", "tanh"), row_axis=""),
        Step(
            "h",
            make_product("o", "tanh_c"),
            row_axis="",
            mistakes=(
                (
                    "cell-not-squashed",
                    make_product("o", "c"),
                    gettext("multiplied by c, not tanh(c)"),
                ),
            ),
        ),
    ]


def _add_products(*terms: tuple[str | Factor, ...]) -> ElementwiseSum:
    return ElementwiseSum(tuple((1.0, make_factors(*factors)) for factors in terms))


def _build_cell_gradient_step(has_next: bool) -> Step:
    """Return the gradient of the cell: from the state, and from the next cell."""
    slope = ("tanh_c", "slope of tanh")

    def add(*factors: str | Factor) -> ElementwiseSum:
        terms = (("dc_next",),) if has_next else ()
        return _add_products(factors, *terms)

    mistakes: list[MistakeOption] = [
        ("slope-forgotten", add("dh", "o"), gettext("left out the slope of tanh")),
        (
            "slope-at-wrong-value",
            add("dh", "o", ("c", slope[1])),
            gettext("took 1 − c², not 1 − tanh(c)²"),
        ),
        ("square-forgotten", add("dh", "o", ("tanh_c", "complement")), gettext("took 1 − tanh(c)")),
        (
            "activation-for-slope",
            add("dh", "o", "tanh_c"),
            gettext("multiplied by tanh(c), not its slope"),
        ),
        ("gate-forgotten", add("dh", slope), gettext("left out the output gate")),
    ]
    for gate in "if":
        used = gettext("used {gate}, not o", gate=gate)
        mistakes.append(("gates-swapped", add("dh", gate, slope), used))
    if has_next:
        alone = make_product("dh", "o", slope)
        forgotten = gettext("left out the gradient of the next cell")
        mistakes.append(("not-accumulated-over-time", alone, forgotten))
    return Step("dc", add("dh", "o", slope), row_axis="", mistakes=tuple(mistakes))


def _build_gate_gradient_steps() -> list[Step]:
    """Return the gradients of the gates, of the candidate and of the previous cell."""
    partners = {"i": "g", "f": "c0", "g": "i", "c0": "f"}
    wrong = {
        "i": (("gates-swapped", "c0"), ("gates-swapped", "i")),
        "f": (("new-cell-used", "c"), ("gates-swapped", "g")),
        "g": (("gates-swapped", "f"), ("gates-swapped", "o")),
        "c0": (("gates-swapped", "i"), ("gates-swapped", "o")),
    }
    steps = [
        Step(
            "do",
            make_product("dh", "tanh_c"),
            row_axis="",
            mistakes=(
                (
                    "cell-not-squashed",
                    make_product("dh", "c"),
                    gettext("multiplied by c, not by tanh(c)"),
                ),
                ("cell-gradient-used", make_product("dc", "tanh_c"), gettext("used dc, not dh")),
            ),
        )
    ]
    for name, partner in partners.items():
        mistakes: list[MistakeOption] = [
            (
                mistake,
                make_product("dc", other),
                gettext("multiplied by {other}, not by {partner}", other=other, partner=partner),
            )
            for mistake, other in wrong[name]
        ]
        mistakes.append(
            ("state-gradient-used", make_product("dh", partner), gettext("used dh, not dc"))
        )
        mistakes.append(
            (
                "gate-forgotten",
                Copy("dc"),
                gettext("did not multiply by {partner}", partner=partner),
            )
        )
        op = make_product("dc", partner)
        steps.append(Step(f"d{name}", op, row_axis="", mistakes=tuple(mistakes)))
    return steps


def _build_slope_step(gate: str) -> Step:
    own = _SLOPES[gate]
    other = "slope of sigmoid" if own == "slope of tanh" else "slope of tanh"
    upstream = f"d{gate}"
    return Step(
        f"dsum_{gate}",
        make_product(upstream, (gate, own)),
        row_axis="",
        mistakes=(
            ("slope-forgotten", Copy(upstream), gettext("left out the slope of the activation")),
            (
                "wrong-slope",
                make_product(upstream, (gate, other)),
                gettext("used the {other}", other=other),
            ),
            (
                "slope-at-wrong-value",
                make_product(upstream, (f"sum_{gate}", own)),
                gettext("computed the slope from the sum, before the activation"),
            ),
            (
                "activation-for-slope",
                make_product(upstream, gate),
                gettext("multiplied by the activation, not by its slope"),
            ),
            (
                "square-forgotten",
                make_product(upstream, (gate, "complement")),
                gettext("multiplied by 1 − {gate} only", gate=gate),
            ),
        ),
    )


def _build_weight_gradient_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    """Return the gradients of weights and inputs, from all four pre-activations."""
    right = _get_order(setting)
    parts = tuple(f"dsum_{gate}" for gate in right)
    unsloped = Concatenation(tuple(f"d{gate}" for gate in right))
    steps = [
        Step(
            "dsum",
            Concatenation(parts),
            row_axis="",
            mistakes=(
                *(
                    (
                        "gates-in-wrong-order",
                        Concatenation(tuple(f"dsum_{gate}" for gate in order)),
                        gettext("put the gates in the order {order}", order=", ".join(order)),
                    )
                    for order in permutations(LSTM_GATES)
                    if order != right
                ),
                ("slope-forgotten", unsloped, gettext("left out the slopes of the activations")),
            ),
        )
    ]
    for weight, x in (("W_x", "x"), ("W_h", "h0")):
        mistakes = list_weight_gradient_mistakes(x, "dsum")
        if x == "h0":
            new = Linear((("hᵀ", "dsum"),))
            mistakes += (
                ("state-of-same-time", new, gettext("used the new state, not the previous one")),
            )
        steps.append(
            Step(f"d{weight}", Linear(((f"{x}ᵀ", "dsum"),)), row_axis="", mistakes=mistakes)
        )
    if "b" in sizes:
        steps.append(Step("db", Copy("dsum"), row_axis="", is_shown=False))
    steps += _build_gate_slices(sizes, right)
    for weight, x in (("W_x", "x"), ("W_h", "h0")):
        mistakes = list_input_gradient_mistakes("dsum", weight)
        steps.append(
            Step(f"d{x}", Linear((("dsum", f"{weight}ᵀ"),)), row_axis="", mistakes=mistakes)
        )
    return steps


def _build_gate_slices(sizes: Sizes, order: tuple[str, ...]) -> list[Step]:
    """Return the gradients of single gates' weights, if they are claimed: dW_f, dU_f, db_f."""
    width = sizes["h"]
    names = {"dW": "dW_x", "dU": "dW_h", "db": "dsum"}
    return [
        Step(f"{name}_{gate}", ColumnSlice(matrix, k * width, (k + 1) * width), row_axis="")
        for name, matrix in names.items()
        for k, gate in enumerate(order)
        if f"{name}_{gate}" in sizes.claimed
    ]


def _build_lstm_gradient_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    return [
        *_build_forward_steps(sizes, setting),
        _build_cell_gradient_step("dc_next" in sizes),
        *_build_gate_gradient_steps(),
        *(_build_slope_step(gate) for gate in LSTM_GATES),
        *_build_weight_gradient_steps(sizes, setting),
    ]


def _make_initial_states(sizes: Sizes) -> dict[str, IntervalMatrix]:
    zero = IntervalMatrix.exact(np.zeros((1, sizes["h"])))
    return {name: zero for name in ("h0", "c0") if name not in sizes}


LSTM_GRADIENT = Kind(
    name="lstm_gradient",
    matrices={
        "x": ("1", "d"),
        "W_x": ("d", "4h"),
        "W_h": ("h", "4h"),
        "b": ("1", "4h"),
        "h0": ("1", "h"),
        "c0": ("1", "h"),
        "dh": ("1", "h"),
        "dc_next": ("1", "h"),
    },
    required=("x", "W_x", "W_h", "dh"),
    settings=(),
    options={
        "gates": make_gate_order(LSTM_GATES, "ifog", "figo", "fiog"),
        "concat": JOINT_INPUT,
    },
    build=_build_lstm_gradient_steps,
    label_size=make_gate_labels(LSTM_GATES, "4h"),
    make_constants=_make_initial_states,
    rewrite_givens=join_gates,
)
