"""Random problems of every kind solved in plain numpy, and the mistakes to plant in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from workings import Problem
from workings.problems.kinds import KINDS as PROBLEM_KINDS

Rng = np.random.Generator
Matrix = np.ndarray
Env = dict[str, Matrix]
StepFunction = Callable[[Env], Matrix]
Plant = dict[str, StepFunction]  # wrong functions by step
Texts = list[list[str]]


@dataclass
class Example:
    """A problem: its givens, settings and steps in order.

    `inner` steps cannot be claimed, `integers` are written as whole numbers. The cells of a step
    in `labels` are classes or tokens, from 1 to the number there.
    """

    kind: str
    given: Env
    settings: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, StepFunction] = field(default_factory=dict)
    inner: set[str] = field(default_factory=set)
    constants: Env = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)
    labels: dict[str, int] = field(default_factory=dict)
    texts: tuple[Any, ...] = ()  # the words of a problem on texts

    @property
    def claimable(self) -> list[str]:
        return [key for key in self.steps if key not in self.inner]


@dataclass(frozen=True)
class Style:
    """How numbers are written, and whether the next step uses the rounded number."""

    decimals: int
    carries_rounded: bool

    def write(self, value: float) -> str:
        if np.isneginf(value):
            return "-inf"
        text = f"{value + 0.0:.{self.decimals}f}"
        return text.removeprefix("-") if float(text) == 0 else text


def write_whole(value: float) -> str:
    return f"{value:.0f}" if np.isclose(value, round(value)) else f"{value:.3f}"


def solve(
    example: Example,
    style: Style,
    wrong: Plant | None = None,
    spoil: Callable[[str, Texts], Texts] | None = None,
    claimed: list[str] | None = None,
) -> dict[str, Texts]:
    """Return the claimed steps as written; `spoil` changes what is written for a step."""
    env, texts = {**example.given, **example.constants}, dict[str, Texts]()
    for key, function in example.steps.items():
        with np.errstate(all="ignore"):
            env[key] = (wrong or {}).get(key, function)(env)
        if key in example.inner or (claimed is not None and key not in claimed):
            continue
        write = write_whole if key in example.integers else style.write
        correct = [[write(v) for v in row] for row in env[key]]
        texts[key] = correct if spoil is None else spoil(key, correct)
        values = np.array([[float(text) for text in row] for row in texts[key]])
        is_changed = np.array(texts[key]) != np.array(correct)
        env[key] = np.where(is_changed | style.carries_rounded, values, env[key])
    return texts


def make_problem(example: Example, texts: dict[str, Texts]) -> Problem:
    """Return the problem with a claim; every convention is declared."""
    claim: dict[str, Any] = {}
    for key, cells in texts.items():
        *path, name = key.split(".")
        if name.isdigit():
            *path, name, part = key.split(".")
            path = [*path, PROBLEM_KINDS[example.kind].part_name or "", part]
        table = claim
        for part in path:
            table = table.setdefault(part, {})
        table[name] = cells
    given = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in example.given.items()}
    vectors = ("h0", "c0", "b", "s", "v", "gamma", "beta")
    given = {
        k: v[0] if k.split("_")[0] in vectors and isinstance(v, list) else v
        for k, v in given.items()
    }
    for name in [name for name in given if "." in name]:  # of a part of the problem
        part, _, inner = name.partition(".")
        given.setdefault(part, {})[inner] = given.pop(name)
    settings = {"vectors": "rows", **example.settings}
    if example.kind in ("attention", "block"):
        defaults = {"scale": "sqrt(d_k)", "mask": "none", "normalizer": "softmax"}
        settings = defaults | settings
    return Problem(kind=example.kind, given=given, claim=claim, **settings)


def truncate_claims(texts: dict[str, Texts], key: str) -> dict[str, Texts]:
    """Return the claims up to a step: a wrong number may lead to one that cannot be written."""
    keys = list(texts)
    return {k: texts[k] for k in keys[: keys.index(key) + 1]}


# -- kinds -----------------------------------------------------------------------------------------


def sigmoid(x: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-x))


def softmax(x: Matrix) -> Matrix:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def relu(x: Matrix) -> Matrix:
    return np.maximum(x, 0)


ACTIVATIONS = {"relu": relu, "tanh": np.tanh, "sigmoid": sigmoid}
GATES = {"i": sigmoid, "f": sigmoid, "g": np.tanh, "o": sigmoid}


def draw(rng: Rng, rows: int, columns: int, decimals: int = 1) -> Matrix:
    """Draw a matrix of small numbers, none of them zero."""
    cells = np.round(rng.uniform(0.1, 1.5, (rows, columns)), decimals)
    return np.maximum(cells, 10.0**-decimals) * rng.choice([-1, 1], (rows, columns))


def make_rnn(rng: Rng) -> Example:
    times, d, h = 3, 3, 3
    given = {"X": draw(rng, times, d), "W_xh": draw(rng, d, h), "W_hh": draw(rng, h, h)}
    given |= {"b": draw(rng, 1, h), "h0": draw(rng, 1, h)}
    example = Example("rnn", given)
    for t in range(1, times + 1):
        before = f"h.{t - 1}" if t > 1 else "h0"
        example.steps[f"sum.{t}"] = partial(rnn_sum, t=t, before=before)
        example.steps[f"h.{t}"] = lambda e, t=t: np.tanh(e[f"sum.{t}"])
    return example


def rnn_sum(e: Env, t: int, before: str, recurs: bool = True, biased: bool = True) -> Matrix:
    total = e["X"][[t - 1]] @ e["W_xh"] + (e[before] @ e["W_hh"] if recurs else 0)
    return total + e["b"] if biased else total


def make_lstm(rng: Rng) -> Example:
    times, d, h = 3, 2, 2
    given = {"X": draw(rng, times, d), "W_x": draw(rng, d, 4 * h), "W_h": draw(rng, h, 4 * h)}
    given |= {"b": draw(rng, 1, 4 * h), "h0": draw(rng, 1, h), "c0": draw(rng, 1, h)}
    example = Example("lstm", given)
    for t in range(1, times + 1):
        for gate in GATES:
            example.steps[f"{gate}.{t}"] = partial(lstm_gate, gate=gate, t=t)
        example.steps[f"c.{t}"] = partial(lstm_cell, t=t)
        example.steps[f"h.{t}"] = partial(lstm_state, t=t)
    return example


def state(name: str, t: int) -> str:
    return f"{name}.{t}" if t else f"{name}0"


def lstm_gate(
    e: Env,
    gate: str,
    t: int,
    before: int | None = None,
    recurs: bool = True,
    biased: bool = True,
    function: Callable[[Matrix], Matrix] | None = None,
) -> Matrix:
    width = len(e["W_h"])
    at = np.s_[:, "ifgo".index(gate) * width : ("ifgo".index(gate) + 1) * width]
    total = e["X"][[t - 1]] @ e["W_x"][at]
    if recurs:
        total = total + e[state("h", t - 1 if before is None else before)] @ e["W_h"][at]
    return (function or GATES[gate])(total + e["b"][at] if biased else total)


def lstm_cell(e: Env, t: int, gates: str = "fi", before: int | None = None) -> Matrix:
    old = e[state("c", t - 1 if before is None else before)]
    return e[f"{gates[0]}.{t}"] * old + e[f"{gates[1]}.{t}"] * e[f"g.{t}"]


def lstm_state(
    e: Env,
    t: int,
    gate: str = "o",
    cell: int | None = None,
    squash: Callable[[Matrix], Matrix] = np.tanh,
) -> Matrix:
    return e[f"{gate}.{t}"] * squash(e[state("c", t if cell is None else cell)])


def make_layer_norm(rng: Rng) -> Example:
    n, d = 3, int(rng.choice([3, 4]))
    given = {"X": draw(rng, n, d), "gamma": draw(rng, 1, d), "beta": draw(rng, 1, d)}
    example = Example("layer_norm", {**given, "eps": 0.1})
    add_norm(example, "", "X", "gamma", "beta", 0.1)
    return example


def add_norm(example: Example, prefix: str, x: str, gamma: str, beta: str, eps: float) -> None:
    mean, variance = f"{prefix}mean", f"{prefix}variance"
    example.steps[mean] = lambda e: e[x].mean(1, keepdims=True)
    example.steps[variance] = lambda e: ((e[x] - e[mean]) ** 2).mean(1, keepdims=True)
    example.steps[f"{prefix}normalised"] = lambda e: (e[x] - e[mean]) / np.sqrt(e[variance] + eps)
    example.steps[f"{prefix}output"] = lambda e: e[f"{prefix}normalised"] * e[gamma] + e[beta]


def make_positions(rng: Rng) -> Example:
    count, width = int(rng.integers(3, 6)), int(rng.choice([4, 6]))
    example = Example("positions", {"count": count, "width": width, "base": 10_000})
    example.steps["angles"] = partial(angles, count=count, width=width)
    example.steps["encoding"] = encoding
    return example


def angles(
    e: Env,
    count: int,
    width: int,
    base: float = 10_000,
    first: int = 0,
    divided_by: int = 0,
    by_column: bool = False,
) -> Matrix:
    columns = np.arange(width)
    exponents = columns if by_column else columns - columns % 2
    positions = first + np.arange(count)[:, None]
    return positions / base ** (exponents / (divided_by or width))


def encoding(e: Env, even: Any = np.sin, odd: Any = np.cos, factor: float = 1.0) -> Matrix:
    x = e["angles"] * factor
    return np.where(np.arange(x.shape[1]) % 2 == 0, even(x), odd(x))


def make_feed_forward(rng: Rng) -> Example:
    n, d = 3, 3
    example = Example("feed_forward", {"X": draw(rng, n, d)})
    activation = str(rng.choice(list(ACTIVATIONS)))
    example.settings["activation"] = activation
    add_feed_forward(rng, example, "", "X", d, activation)
    return example


def add_feed_forward(
    rng: Rng, example: Example, prefix: str, x: str, d: int, activation: str
) -> None:
    example.given |= {"W_1": draw(rng, d, d), "b_1": draw(rng, 1, d)}
    example.given |= {"W_2": draw(rng, d, d), "b_2": draw(rng, 1, d)}
    hidden, activated = f"{prefix}hidden", f"{prefix}activated"
    example.steps[hidden] = lambda e: e[x] @ e["W_1"] + e["b_1"]
    example.steps[activated] = lambda e: ACTIVATIONS[activation](e[hidden])
    example.steps[f"{prefix}output"] = lambda e: e[activated] @ e["W_2"] + e["b_2"]


def make_additive(rng: Rng) -> Example:
    given = {"s": draw(rng, 1, 3), "H": draw(rng, 3, 3), "v": draw(rng, 1, 3)}
    given |= {"W_s": draw(rng, 3, 3), "W_h": draw(rng, 3, 3)}
    example = Example("additive", given)
    example.steps["hidden"] = additive_hidden
    example.steps["scores"] = lambda e: e["v"] @ e["hidden"].T
    example.steps["weights"] = lambda e: softmax(e["scores"])
    example.steps["mixed"] = lambda e: e["weights"] @ e["H"]
    return example


def additive_hidden(e: Env, function: Callable[[Matrix], Matrix] = np.tanh) -> Matrix:
    return function(e["s"] @ e["W_s"] + e["H"] @ e["W_h"])


def make_attention(rng: Rng) -> Example:
    example = Example("attention", {"X": draw(rng, 3, 4)}, {"heads": 2})
    add_attention(rng, example, "", "X", 4)
    return example


def add_attention(rng: Rng, example: Example, prefix: str, x: str, d: int, heads: int = 2) -> None:
    given, steps, part = example.given, example.steps, d // heads
    for name in "QKV":
        given |= {f"W_{name}": draw(rng, d, d), f"b_{name}": draw(rng, 1, d)}
        steps[f"{prefix}{name}"] = lambda e, n=name: e[x] @ e[f"W_{n}"] + e[f"b_{n}"]
    for name in "QKV":
        for h in range(heads):
            at, key = np.s_[:, h * part : (h + 1) * part], f"{prefix}{name}.{h + 1}"
            steps[key] = lambda e, n=name, at=at: e[f"{prefix}{n}"][at]
            example.inner.add(key)
    functions: dict[str, Callable[[Env, int], Matrix]] = {
        "scores": lambda e, h: e[f"{prefix}Q.{h}"] @ e[f"{prefix}K.{h}"].T,
        "scaled": lambda e, h: e[f"{prefix}scores.{h}"] / np.sqrt(part),
        "weights": lambda e, h: softmax(e[f"{prefix}scaled.{h}"]),
        "mixed": lambda e, h: e[f"{prefix}weights.{h}"] @ e[f"{prefix}V.{h}"],
    }
    for name, function in functions.items():
        for h in range(1, heads + 1):
            steps[f"{prefix}{name}.{h}"] = partial(function, h=h)
    steps[f"{prefix}mixed"] = lambda e: np.hstack(
        [e[f"{prefix}mixed.{h}"] for h in range(1, heads + 1)]
    )
    given |= {"W_O": draw(rng, d, d), "b_O": draw(rng, 1, d)}
    steps[f"{prefix}output"] = lambda e: e[f"{prefix}mixed"] @ e["W_O"] + e["b_O"]


def make_block(rng: Rng) -> Example:
    d, eps = 4, 0.1
    example = Example("block", {"X": draw(rng, 3, d)}, {"heads": 2, "order": "post"})
    for which in (1, 2):
        example.given |= {f"gamma_{which}": draw(rng, 1, d), f"beta_{which}": draw(rng, 1, d)}
    add_attention(rng, example, "attention.", "X", d)
    example.steps["add_1"] = lambda e: e["X"] + e["attention.output"]
    add_norm(example, "norm_1.", "add_1", "gamma_1", "beta_1", eps)
    add_feed_forward(rng, example, "feed_forward.", "norm_1.output", d, "relu")
    example.steps["add_2"] = lambda e: e["norm_1.output"] + e["feed_forward.output"]
    add_norm(example, "norm_2.", "add_2", "gamma_2", "beta_2", eps)
    example.given["eps"] = eps
    return example


KINDS: dict[str, Callable[[Rng], Example]] = {
    "attention": make_attention,
    "positions": make_positions,
    "layer_norm": make_layer_norm,
    "rnn": make_rnn,
    "lstm": make_lstm,
    "additive": make_additive,
    "feed_forward": make_feed_forward,
    "block": make_block,
}


# -- mistakes --------------------------------------------------------------------------------------

Planter = Callable[[Example], Iterator[Plant]]


def times(example: Example) -> range:
    return range(1, len(example.given["X"]) + 1)


def once_and_everywhere(changed: Plant) -> Iterator[Plant]:
    yield changed
    yield from ({key: function} for key, function in changed.items())


def plant_rnn_sum(example: Example, **options: Any) -> Iterator[Plant]:
    befores = {t: f"h.{t - 1}" if t > 1 else "h0" for t in times(example)}
    changed = {
        f"sum.{t}": partial(rnn_sum, t=t, **{"before": before, **options})
        for t, before in befores.items()
    }
    yield from once_and_everywhere(changed)


def plant_lstm_gates(example: Example, gates: str = "ifgo", **options: Any) -> Iterator[Plant]:
    for t in times(example):
        yield {f"{g}.{t}": partial(lstm_gate, gate=g, t=t, **options) for g in gates}
        yield from ({f"{g}.{t}": partial(lstm_gate, gate=g, t=t, **options)} for g in gates)


def plant_biases(example: Example, prefix: str = "") -> Iterator[Plant]:
    """Leave out the bias of a product `x W + b`."""
    for key, bias in (("Q", "b_Q"), ("K", "b_K"), ("V", "b_V"), ("output", "b_O")):
        key = f"{prefix}{key}"
        if key in example.steps and bias in example.given:
            yield {key: lambda e, k=key, b=bias: example.steps[k](e) - e[b]}


def plant_feed_forward_biases(example: Example, prefix: str = "") -> Iterator[Plant]:
    for key, bias in (("hidden", "b_1"), ("output", "b_2")):
        key = f"{prefix}{key}"
        yield {key: lambda e, k=key, b=bias: example.steps[k](e) - e[b]}


def plant_activations(example: Example, prefix: str = "") -> Iterator[Plant]:
    for other in ACTIVATIONS.values():
        yield {f"{prefix}activated": lambda e, f=other: f(e[f"{prefix}hidden"])}


def plant_weight_order(example: Example, prefix: str = "", x: str = "X") -> Iterator[Plant]:
    hidden, activated, output = (f"{prefix}{s}" for s in ("hidden", "activated", "output"))
    for first, second in (("b_1", "b_2"), ("b_2", "b_1")):
        yield {
            hidden: lambda e, b=first: e[x] @ e["W_2"] + e[b],
            output: lambda e, b=second: e[activated] @ e["W_1"] + e[b],
        }


def plant_norm(
    example: Example, name: str, prefix: str = "", x: str = "X", end: str = ""
) -> Iterator[Plant]:
    mean, variance, normalised = (f"{prefix}{s}" for s in ("mean", "variance", "normalised"))
    gamma, beta, eps = f"gamma{end}", f"beta{end}", example.given["eps"]

    def over_batch(e: Env) -> Matrix:
        return (e[x] - e[x].mean(0)) / np.sqrt(e[x].var(0) + eps)

    yield {
        "variance-over-n-minus-1": {variance: lambda e: e[x].var(1, keepdims=True, ddof=1)},
        "deviation-for-variance": {variance: lambda e: e[x].std(1, keepdims=True)},
        "variance-for-deviation": {
            normalised: lambda e: (e[x] - e[mean]) / (e[variance] + eps),
        },
        "eps-forgotten": {normalised: lambda e: (e[x] - e[mean]) / np.sqrt(e[variance])},
        "normalized-over-batch": {normalised: over_batch},
        "gamma-forgotten": {f"{prefix}output": lambda e: e[normalised] + e[beta]},
        "beta-forgotten": {f"{prefix}output": lambda e: e[normalised] * e[gamma]},
    }[name]


def plant_angles(example: Example, **options: Any) -> Iterator[Plant]:
    sizes = {"count": example.given["count"], "width": example.given["width"]}
    yield {"angles": partial(angles, **{**sizes, **options})}


def plant_widths(example: Example) -> Iterator[Plant]:
    width = int(example.given["width"])  # type: ignore[call-overload]
    for other in (width // 2, width - 1, width + 1, 2 * width):
        yield from plant_angles(example, divided_by=other)


def plant_interleaved(example: Example, prefix: str = "", heads: int = 2) -> Iterator[Plant]:
    split = {
        f"{prefix}{name}.{h + 1}": lambda e, n=name, h=h: e[f"{prefix}{n}"][:, h::heads]
        for name in "QKV"
        for h in range(heads)
    }
    yield split

    def in_turn(e: Env) -> Matrix:
        parts = [e[f"{prefix}mixed.{h}"] for h in range(1, heads + 1)]
        return np.stack(parts, axis=2).reshape(len(parts[0]), -1)

    yield {f"{prefix}mixed": in_turn}


def plant_early_projection(example: Example, prefix: str = "", heads: int = 2) -> Iterator[Plant]:
    def own_blocks(e: Env) -> Matrix:
        part = len(e["W_O"]) // heads
        blocks = [np.s_[h * part : (h + 1) * part] for h in range(heads)]
        parts = [
            e[f"{prefix}mixed.{h + 1}"] @ e["W_O"][block, block] for h, block in enumerate(blocks)
        ]
        return np.hstack(parts) + e["b_O"]

    yield {f"{prefix}output": own_blocks}

    def values_first(e: Env) -> Matrix:
        values = np.hsplit(e[f"{prefix}V"] @ e["W_O"], heads)
        return (
            np.hstack([e[f"{prefix}weights.{h + 1}"] @ v for h, v in enumerate(values)]) + e["b_O"]
        )

    yield {f"{prefix}output": values_first}


def plant_gates(example: Example) -> Iterator[Plant]:
    for t in times(example):
        for gates in ("if", "oi", "fo", "of", "io"):
            yield {f"c.{t}": partial(lstm_cell, t=t, gates=gates)}
        for gate in "if":
            yield {f"h.{t}": partial(lstm_state, t=t, gate=gate)}
        for old, new in ("fo", "io"):  # exchanged in both places
            swap = {old: new, new: old}
            gates = "".join(swap.get(g, g) for g in "fi")
            yield {
                f"c.{t}": partial(lstm_cell, t=t, gates=gates),
                f"h.{t}": partial(lstm_state, t=t, gate=swap["o"]),
            }


def plant_old_cells(example: Example) -> Iterator[Plant]:
    for t in times(example):
        yield {f"h.{t}": partial(lstm_state, t=t, cell=t - 1)}
        if t > 1:
            yield {f"c.{t}": partial(lstm_cell, t=t, before=0)}


def plant_lstm_functions(example: Example, forgotten: bool) -> Iterator[Plant]:
    others = [lambda x: x] if forgotten else [sigmoid, np.tanh, relu]
    for function in others:
        for gates in ("ifo", "g"):
            yield from plant_lstm_gates(example, gates, function=function)


def plant_rnn_functions(example: Example, forgotten: bool) -> Iterator[Plant]:
    for function in [lambda x: x] if forgotten else [sigmoid, relu]:
        changed = {f"h.{t}": lambda e, t=t, f=function: f(e[f"sum.{t}"]) for t in times(example)}
        yield from once_and_everywhere(changed)


def plant_old_lstm_states(example: Example) -> Iterator[Plant]:
    for t in times(example):
        for before in range(t - 1):
            yield {f"{g}.{t}": partial(lstm_gate, gate=g, t=t, before=before) for g in "ifgo"}
            yield {f"i.{t}": partial(lstm_gate, gate="i", t=t, before=before)}


def plant_old_rnn_states(example: Example) -> Iterator[Plant]:
    for t in times(example):
        for before in range(t - 1):
            yield {f"sum.{t}": partial(rnn_sum, t=t, before=state("h", before))}
    yield {f"sum.{t}": partial(rnn_sum, t=t, before="h0") for t in times(example)}


def plant_cells(example: Example) -> Iterator[Plant]:
    for t in times(example):
        yield {f"h.{t}": partial(lstm_state, t=t, squash=lambda x: x)}


def plant_block_norms(name: str, example: Example) -> Iterator[Plant]:
    for which in (1, 2):
        yield from plant_norm(example, name, f"norm_{which}.", f"add_{which}", f"_{which}")


NORM_MISTAKES = (
    "variance-over-n-minus-1",
    "deviation-for-variance",
    "variance-for-deviation",
    "eps-forgotten",
    "normalized-over-batch",
    "gamma-forgotten",
    "beta-forgotten",
)

PLANTERS: dict[tuple[str, str], Planter] = {
    ("attention", "bias-forgotten"): plant_biases,
    ("attention", "heads-interleaved"): plant_interleaved,
    ("attention", "projected-before-concatenation"): plant_early_projection,
    ("block", "bias-forgotten"): partial(plant_biases, prefix="attention."),
    ("block", "heads-interleaved"): partial(plant_interleaved, prefix="attention."),
    ("block", "projected-before-concatenation"): partial(
        plant_early_projection, prefix="attention."
    ),
    ("block", "wrong-activation"): partial(plant_activations, prefix="feed_forward."),
    ("block", "activation-forgotten"): lambda _: iter(
        [{"feed_forward.activated": lambda e: e["feed_forward.hidden"]}]
    ),
    ("block", "weights-in-wrong-order"): partial(
        plant_weight_order, prefix="feed_forward.", x="norm_1.output"
    ),
    ("positions", "positions-from-1"): partial(plant_angles, first=1),
    ("positions", "exponent-by-column"): partial(plant_angles, by_column=True),
    ("positions", "wrong-base"): lambda x: (
        p for base in (100, 1000) for p in plant_angles(x, base=base)
    ),
    ("positions", "wrong-width"): plant_widths,
    ("positions", "sin-and-cos-swapped"): lambda _: iter(
        [{"encoding": partial(encoding, even=np.cos, odd=np.sin)}]
    ),
    ("positions", "degrees-for-radians"): lambda _: iter(
        [{"encoding": partial(encoding, factor=np.pi / 180)}]
    ),
    ("rnn", "bias-forgotten"): partial(plant_rnn_sum, biased=False),
    ("rnn", "recurrence-forgotten"): partial(plant_rnn_sum, recurs=False),
    ("rnn", "state-not-updated"): plant_old_rnn_states,
    ("rnn", "activation-forgotten"): partial(plant_rnn_functions, forgotten=True),
    ("rnn", "wrong-activation"): partial(plant_rnn_functions, forgotten=False),
    ("lstm", "bias-forgotten"): partial(plant_lstm_gates, biased=False),
    ("lstm", "recurrence-forgotten"): partial(plant_lstm_gates, recurs=False),
    ("lstm", "state-not-updated"): plant_old_lstm_states,
    ("lstm", "activation-forgotten"): partial(plant_lstm_functions, forgotten=True),
    ("lstm", "wrong-activation"): partial(plant_lstm_functions, forgotten=False),
    ("lstm", "gates-swapped"): plant_gates,
    ("lstm", "cell-not-squashed"): plant_cells,
    ("lstm", "old-cell-used"): plant_old_cells,
    ("additive", "activation-forgotten"): lambda _: iter(
        [{"hidden": partial(additive_hidden, function=lambda x: x)}]
    ),
    ("additive", "wrong-activation"): lambda _: iter(
        [{"hidden": partial(additive_hidden, function=f)} for f in (sigmoid, relu)]
    ),
    ("feed_forward", "bias-forgotten"): plant_feed_forward_biases,
    ("feed_forward", "activation-forgotten"): lambda _: iter(
        [{"activated": lambda e: e["hidden"]}]
    ),
    ("feed_forward", "wrong-activation"): plant_activations,
    ("feed_forward", "weights-in-wrong-order"): plant_weight_order,
    **{("layer_norm", name): partial(plant_norm, name=name) for name in NORM_MISTAKES},
    **{("block", name): partial(plant_block_norms, name) for name in NORM_MISTAKES},
}
