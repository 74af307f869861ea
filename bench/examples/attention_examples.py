"""Random attention problems in plain numpy, beyond those of `numpy_problems`, with mistakes."""

from collections.abc import Iterator
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
)


def shift(x: Matrix) -> Matrix:
    return x - x.max(1, keepdims=True)


def make_exponentials(rng: Rng) -> Example:
    """Return attention with the softmax written out."""
    n, d = 3, int(rng.integers(2, 4))
    style, mask = str(rng.choice(["plain", "shifted"])), str(rng.choice(["none", "causal"]))
    given = {name: draw(rng, *shape) for name, shape in {"X": (n, d), "W_Q": (d, d)}.items()}
    example = Example("attention", given, {"exponentials": style, "mask": mask})
    steps, allowed = example.steps, np.tril(np.ones((n, n), dtype=bool))
    steps["Q"] = lambda e: e["X"] @ e["W_Q"]
    steps["scores"] = lambda e: e["Q"] @ e["X"].T
    steps["scaled"] = lambda e: e["scores"] / np.sqrt(d)
    if mask == "causal":
        steps["masked"] = lambda e: np.where(allowed, e["scaled"], -np.inf)
    else:
        steps["masked"] = lambda e: e["scaled"]
        example.inner.add("masked")
    prepare = shift if style == "shifted" else lambda x: x
    steps["exponentials"] = lambda e: np.exp(prepare(e["masked"]))
    steps["sums"] = lambda e: e["exponentials"].sum(1, keepdims=True)
    steps["weights"] = lambda e: e["exponentials"] / e["sums"]
    steps["mixed"] = lambda e: e["weights"] @ e["X"]
    return example


def plant_maximum(example: Example) -> Iterator[Plant]:
    prepare = (lambda x: x) if example.settings["exponentials"] == "shifted" else shift
    yield {"exponentials": lambda e: np.exp(prepare(e["masked"]))}


def plant_base(example: Example) -> Iterator[Plant]:
    prepare = shift if example.settings["exponentials"] == "shifted" else (lambda x: x)
    for base in (2.0, 10.0):
        yield {"exponentials": lambda e, b=base: b ** prepare(e["masked"])}


def when(setting: str, value: str, planter: Planter) -> Planter:
    """Plant nothing but an invisible mistake unless a setting has this value."""
    return lambda example: planter(example) if example.settings[setting] == value else iter([{}])


def divide_by_column_sums(e: Env) -> Matrix:
    return e["exponentials"] / e["exponentials"].sum(0)


EXPONENTIALS_MISTAKES: dict[str, Planter] = {
    "maximum-not-subtracted": when("exponentials", "shifted", plant_maximum),
    "maximum-subtracted": when("exponentials", "plain", plant_maximum),
    "wrong-base": plant_base,
    "exponential-forgotten": lambda _: iter(
        [{"sums": lambda e: np.where(np.isinf(e["masked"]), 0, e["masked"]).sum(1, keepdims=True)}]
    ),
    "mean-for-sum": lambda _: iter([{"sums": lambda e: e["exponentials"].mean(1, keepdims=True)}]),
    "divided-by-total": lambda _: iter(
        [{"weights": lambda e: e["exponentials"] / e["sums"].sum()}]
    ),
    "exp-not-normalised": lambda _: iter([{"weights": lambda e: e["exponentials"]}]),
    "own-term-left-out": lambda _: iter(
        [{"weights": lambda e: e["exponentials"] / (e["sums"] - e["exponentials"])}]
    ),
    "wrong-softmax-axis": lambda _: iter(
        [
            {"sums": lambda e: e["exponentials"].sum(0)[:, None]},
            {"weights": lambda e: softmax(e["masked"].T).T},
        ]
    ),
    "masked-with-zeros": when(
        "mask",
        "causal",
        lambda _: iter(
            [{"exponentials": lambda e: np.where(np.isinf(e["masked"]), 1, np.exp(e["masked"]))}]
        ),
    ),
}


# -- rotary positions and grouped heads ------------------------------------------------------------


def make_rope(rng: Rng) -> Example:
    """Return two heads with rotated queries and keys that share their keys and values."""
    n, d, part = 3, 4, 4
    given = {"X": draw(rng, n, d), "W_Q": draw(rng, d, 2 * part) / 2, "W_K": draw(rng, d, part) / 2}
    layout = str(rng.choice(["adjacent", "halves"]))
    settings = {"heads": 2, "kv_heads": 1, "rope": layout, "base": 10_000}
    example = Example("attention", given, settings)
    steps = example.steps
    steps["Q"] = lambda e: e["X"] @ e["W_Q"]
    steps["K"] = lambda e: e["X"] @ e["W_K"]
    for h in (1, 2):
        at = np.s_[:, (h - 1) * part : h * part]
        steps[f"Q.{h}"] = lambda e, at=at: e["Q"][at]
        steps[f"K.{h}"] = lambda e: e["K"]
        example.inner |= {f"Q.{h}", f"K.{h}"}
    for name in "QK":
        for h in (1, 2):
            steps[f"rotated_{name}.{h}"] = partial(rotate, key=f"{name}.{h}", layout=layout)
    for h in (1, 2):
        steps[f"scores.{h}"] = lambda e, h=h: e[f"rotated_Q.{h}"] @ e[f"rotated_K.{h}"].T
    for h in (1, 2):
        steps[f"scaled.{h}"] = lambda e, h=h: e[f"scores.{h}"] / 2
    return example


def rotate(
    e: Env,
    key: str,
    layout: str,
    base: float = 10_000,
    first: int = 0,
    sign: int = 1,
    unit: float = 1.0,
    exponent: int = 2,
) -> Matrix:
    x = e[key]
    count, width = x.shape
    angles = (np.arange(count)[:, None] + first) / base ** (
        exponent * np.arange(width // 2) / width
    )
    cos, sin = np.cos(angles * unit), np.sin(sign * angles * unit)
    if layout == "adjacent":
        a, b = x[:, ::2], x[:, 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], 2).reshape(count, width)
    a, b = x[:, : width // 2], x[:, width // 2 :]
    return np.hstack([a * cos - b * sin, a * sin + b * cos])


def plant_rotation(example: Example, other_layout: bool = False, **options: Any) -> Iterator[Plant]:
    layout = example.settings["rope"]
    if other_layout:
        layout = "halves" if layout == "adjacent" else "adjacent"
    for key in ("Q.1", "K.2"):
        yield {f"rotated_{key}": partial(rotate, key=key, layout=layout, **options)}


ROPE_MISTAKES: dict[str, Planter] = {
    "rotation-forgotten": partial(plant_rotation, sign=0, unit=0.0),
    "positions-from-1": partial(plant_rotation, first=1),
    "rotated-backwards": partial(plant_rotation, sign=-1),
    "wrong-pairs": partial(plant_rotation, other_layout=True),
    "degrees-for-radians": partial(plant_rotation, unit=np.pi / 180),
    "not-scaled": lambda _: iter(
        [{f"scaled.{h}": lambda e, h=h: e[f"scores.{h}"]} for h in (1, 2)]
    ),
    "queries-and-keys-swapped": lambda _: iter(
        [{"scores.1": lambda e: e["rotated_K.1"] @ e["rotated_Q.1"].T}]
    ),
}


# -- RMSNorm ---------------------------------------------------------------------------------------


def make_rms_norm(rng: Rng) -> Example:
    n, d, eps = 3, 3, 0.1
    given = {"X": draw(rng, n, d), "gamma": draw(rng, 1, d), "eps": eps}
    example = Example("rms_norm", given)
    example.steps["mean_square"] = mean_square
    example.steps["rms"] = lambda e: np.sqrt(e["mean_square"] + eps)
    example.steps["normalised"] = lambda e: e["X"] / e["rms"]
    example.steps["output"] = lambda e: e["normalised"] * e["gamma"]
    return example


def mean_square(e: Env) -> Matrix:
    return (e["X"] ** 2).mean(1, keepdims=True)


RMS_NORM_MISTAKES: dict[str, Planter] = {
    "mean-subtracted": lambda _: iter([{"mean_square": lambda e: e["X"].var(1, keepdims=True)}]),
    "sum-for-mean": lambda _: iter([{"mean_square": lambda e: 3 * mean_square(e)}]),
    "variance-over-n-minus-1": lambda _: iter([{"mean_square": lambda e: 1.5 * mean_square(e)}]),
    "root-forgotten": lambda _: iter(
        [{"rms": lambda e: e["mean_square"]}, {"normalised": lambda e: e["X"] / e["mean_square"]}]
    ),
    "eps-forgotten": lambda _: iter([{"rms": lambda e: np.sqrt(e["mean_square"])}]),
    "not-normalized": lambda _: iter([{"normalised": lambda e: e["X"]}]),
    "gamma-forgotten": lambda _: iter([{"output": lambda e: e["normalised"]}]),
}


# -- gated feed-forward ----------------------------------------------------------------------------

GATE_ACTIVATIONS = {"sigmoid": sigmoid, "tanh": np.tanh, "silu": lambda x: x * sigmoid(x)}


def make_gated(rng: Rng) -> Example:
    d, activation = 3, str(rng.choice(list(GATE_ACTIVATIONS)))
    shapes = {"X": (3, d), "W_1": (d, d), "W_2": (d, d), "W_3": (d, d), "b_3": (1, d)}
    given = {name: draw(rng, *shape) for name, shape in shapes.items()}
    example = Example("feed_forward", given, {"activation": activation})
    example.steps["hidden"] = lambda e: e["X"] @ e["W_1"]
    example.steps["gate_sum"] = lambda e: e["X"] @ e["W_3"] + e["b_3"]
    example.steps["gate"] = lambda e: GATE_ACTIVATIONS[activation](e["gate_sum"])
    example.steps["activated"] = lambda e: e["hidden"] * e["gate"]
    example.steps["output"] = lambda e: e["activated"] @ e["W_2"]
    return example


def plant_activation_on_wrong_part(example: Example) -> Iterator[Plant]:
    activate = GATE_ACTIVATIONS[example.settings["activation"]]
    yield {"activated": lambda e: activate(e["hidden"]) * e["gate_sum"]}


def plant_forgotten_gate(example: Example) -> Iterator[Plant]:
    activate = GATE_ACTIVATIONS[example.settings["activation"]]
    yield {"activated": lambda e: activate(e["hidden"])}


GATED_MISTAKES: dict[str, Planter] = {
    "gate-forgotten": plant_forgotten_gate,
    "gate-not-activated": lambda _: iter([{"activated": lambda e: e["hidden"] * e["gate_sum"]}]),
    "activation-on-wrong-part": plant_activation_on_wrong_part,
    "bias-forgotten": lambda _: iter([{"gate_sum": lambda e: e["X"] @ e["W_3"]}]),
    "activation-forgotten": lambda _: iter([{"gate": lambda e: e["gate_sum"]}]),
    "gate-added": lambda _: iter([{"activated": lambda e: e["hidden"] + e["gate"]}]),
}


# -- embedding and the next token ------------------------------------------------------------------


def make_embedding(rng: Rng) -> Example:
    n, v, d = 3, 4, 4
    scales = bool(rng.random() < 0.5)
    given = {"ids": np.array([rng.permutation(v)[:n] + 1]), "E": draw(rng, v, d)}
    given["P"] = draw(rng, n, d)
    example = Example("embedding", given, {"scale_embeddings": scales})
    example.steps["embedded"] = look_up
    if scales:
        example.steps["scaled"] = lambda e: e["embedded"] * np.sqrt(d)
    source = "scaled" if scales else "embedded"
    example.steps["output"] = lambda e: e[source] + e["P"]
    return example


def look_up(e: Env, shift: int = 0, transposed: bool = False) -> Matrix:
    rows = e["ids"][0] - 1 + shift
    table = e["E"].T if transposed else e["E"]
    if rows.min() < 0 or rows.max() >= len(table):
        return np.full((len(rows), len(table.T)), np.nan)
    return table[rows]


def plant_scale(example: Example, factor: float) -> Iterator[Plant]:
    is_scaled = example.settings["scale_embeddings"]
    return iter([{"scaled": lambda e: factor * e["embedded"]} if is_scaled else {}])


def plant_sum(example: Example, function: Any) -> Iterator[Plant]:
    source = "scaled" if example.settings["scale_embeddings"] else "embedded"
    return iter([{"output": lambda e: function(e[source], e["P"])}])


EMBEDDING_MISTAKES: dict[str, Planter] = {
    "ids-off-by-one": lambda _: iter(
        [{"embedded": partial(look_up, shift=shift)} for shift in (-1, 1)]
    ),
    "columns-for-rows": lambda _: iter([{"embedded": partial(look_up, transposed=True)}]),
    "embedding-not-scaled": partial(plant_scale, factor=1.0),
    "scaled-by-d": partial(plant_scale, factor=4.0),
    "divided-by-root": partial(plant_scale, factor=0.5),
    "positions-forgotten": partial(plant_sum, function=lambda x, _: x),
    "positions-multiplied": partial(plant_sum, function=lambda x, p: x * p),
    "embedding-forgotten": partial(plant_sum, function=lambda _, p: p),
}


def make_head(rng: Rng) -> Example:
    n, v, d = 2, 4, 4
    given = {"H": draw(rng, n, d), "E": draw(rng, v, d) / 2, "b": draw(rng, 1, v)}
    temperature = float(rng.choice([0.5, 2.0]))
    example = Example("lm_head", given, {"temperature": temperature})
    example.steps["logits"] = lambda e: e["H"] @ e["E"].T + e["b"]
    example.steps["scaled"] = lambda e: e["logits"] / temperature
    example.steps["probabilities"] = lambda e: softmax(e["scaled"])
    example.steps["token"] = lambda e: e["probabilities"].argmax(1)[:, None] + 1.0
    return example


def plant_temperature(example: Example, function: Any) -> Iterator[Plant]:
    temperature = example.settings["temperature"]
    yield {"scaled": lambda e: function(e["logits"], temperature)}


HEAD_MISTAKES: dict[str, Planter] = {
    "embedding-not-transposed": lambda _: iter([{"logits": lambda e: e["H"] @ e["E"] + e["b"]}]),
    "bias-forgotten": lambda _: iter([{"logits": lambda e: e["H"] @ e["E"].T}]),
    "temperature-forgotten": partial(plant_temperature, function=lambda u, _: u),
    "multiplied-by-temperature": partial(plant_temperature, function=lambda u, t: u * t),
    "smallest-for-largest": lambda _: iter(
        [{"token": lambda e: e["probabilities"].argmin(1)[:, None] + 1.0}]
    ),
    "temperature-after-softmax": lambda example: iter(
        [{"probabilities": lambda e: softmax(e["logits"]) / example.settings["temperature"]}]
    ),
    "exp-not-normalised": lambda _: iter([{"probabilities": lambda e: np.exp(e["scaled"])}]),
    "sigmoid-for-softmax": lambda _: iter(
        [{"probabilities": lambda e: 1 / (1 + np.exp(-e["scaled"]))}]
    ),
    "wrong-softmax-axis": lambda _: iter([{"probabilities": lambda e: softmax(e["scaled"].T).T}]),
}


# -- grouped heads ---------------------------------------------------------------------------------


def make_grouped(rng: Rng) -> Example:
    """Return four heads that share two groups of keys."""
    n, d, part = 2, 2, 2
    given = {"X": draw(rng, n, d), "W_Q": draw(rng, d, 4 * part), "W_K": draw(rng, d, 2 * part)}
    given |= {"b_Q": draw(rng, 1, 4 * part), "W_V": draw(rng, d, 2 * part)}
    example = Example("attention", given, {"heads": 4, "kv_heads": 2})
    steps = example.steps
    steps["Q"] = lambda e: e["X"] @ e["W_Q"] + e["b_Q"]
    steps["K"] = lambda e: e["X"] @ e["W_K"]
    steps["V"] = lambda e: e["X"] @ e["W_V"]
    for h in range(4):
        steps[f"Q.{h + 1}"] = partial(take_block, name="Q", block=h)
        for name in "KV":
            steps[f"{name}.{h + 1}"] = partial(take_block, name=name, block=h // 2)
        example.inner |= {f"{name}.{h + 1}" for name in "QKV"}
    functions = {
        "scores": lambda e, h: e[f"Q.{h}"] @ e[f"K.{h}"].T,
        "scaled": lambda e, h: e[f"scores.{h}"] / np.sqrt(part),
        "weights": lambda e, h: softmax(e[f"scaled.{h}"]),
        "mixed": lambda e, h: e[f"weights.{h}"] @ e[f"V.{h}"],
    }
    for name, function in functions.items():
        for h in range(1, 5):
            steps[f"{name}.{h}"] = partial(function, h=h)
    return example


def take_block(e: Env, name: str, block: int, part: int = 2) -> Matrix:
    return e[name][:, block * part : (block + 1) * part]


GROUPED_MISTAKES: dict[str, Planter] = {
    "heads-grouped-in-turn": lambda _: iter(
        [
            {f"{name}.{h + 1}": partial(take_block, name=name, block=h % 2) for h in (1, 2)}
            for name in "KV"
        ]
    ),
    "bias-forgotten": lambda _: iter([{"Q": lambda e: e["X"] @ e["W_Q"]}]),
    "not-scaled": lambda _: iter(
        [{f"scaled.{h}": lambda e, h=h: e[f"scores.{h}"]} for h in (1, 3)]
    ),
    "wrong-softmax-axis": lambda _: iter(
        [{f"weights.{h}": lambda e, h=h: softmax(e[f"scaled.{h}"].T).T} for h in (1, 4)]
    ),
    "queries-and-keys-swapped": lambda _: iter(
        [{f"scores.{h}": lambda e, h=h: e[f"K.{h}"] @ e[f"Q.{h}"].T} for h in (2, 3)]
    ),
    "keys-used-as-values": lambda _: iter(
        [{f"mixed.{h}": lambda e, h=h: e[f"weights.{h}"] @ e[f"K.{h}"]} for h in (1, 2)]
    ),
}


# -- a block of a decoder --------------------------------------------------------------------------


def make_decoder_block(rng: Rng) -> Example:
    """Return a block with norms after each part; its steps have one head and no biases."""
    n, m, d = 2, 3, 3
    given: dict[str, Any] = {"X": draw(rng, n, d), "context": draw(rng, m, d), "eps": 0.1}
    for part in ("self_attention", "cross_attention"):
        given |= {f"{part}.W_{name}": draw(rng, d, d) / 2 for name in "QV"}
    given |= {"W_1": draw(rng, d, d), "W_2": draw(rng, d, d)}
    example = Example("decoder_block", given, {"scale": "sqrt(d_k)", "normalizer": "softmax"})
    steps = example.steps
    add_part_attention(example, "self_attention.", "X", "X", np.tril(np.ones((n, n), dtype=bool)))
    add_residual(example, 1, "X", "self_attention.output")
    example.inner.add("self_attention.output")
    x = "norm_1.normalised"
    add_part_attention(example, "cross_attention.", x, "context", None)
    add_residual(example, 2, x, "cross_attention.output")
    example.inner.add("cross_attention.output")
    steps["feed_forward.hidden"] = lambda e: e["norm_2.normalised"] @ e["W_1"]
    steps["feed_forward.activated"] = lambda e: np.maximum(e["feed_forward.hidden"], 0)
    steps["feed_forward.output"] = lambda e: e["feed_forward.activated"] @ e["W_2"]
    steps["add_3"] = lambda e: e["norm_2.normalised"] + e["feed_forward.output"]
    return example


def add_part_attention(
    example: Example, prefix: str, x: str, context: str, allowed: Matrix | None
) -> None:
    steps = example.steps
    steps[f"{prefix}Q"] = lambda e: e[x] @ e[f"{prefix}W_Q"]
    steps[f"{prefix}V"] = lambda e: e[context] @ e[f"{prefix}W_V"]
    steps[f"{prefix}scores"] = lambda e: e[f"{prefix}Q"] @ e[context].T
    steps[f"{prefix}scaled"] = lambda e: e[f"{prefix}scores"] / np.sqrt(e[x].shape[1])
    if allowed is not None:
        steps[f"{prefix}masked"] = lambda e: np.where(allowed, e[f"{prefix}scaled"], -np.inf)
    last = list(steps)[-1]
    steps[f"{prefix}weights"] = lambda e: softmax(e[last])
    steps[f"{prefix}mixed"] = lambda e: e[f"{prefix}weights"] @ e[f"{prefix}V"]
    steps[f"{prefix}output"] = lambda e: e[f"{prefix}mixed"]


def add_residual(example: Example, which: int, x: str, output: str) -> None:
    add, steps = f"add_{which}", example.steps
    mean, variance = f"norm_{which}.mean", f"norm_{which}.variance"
    steps[add] = lambda e: e[x] + e[output]
    steps[mean] = lambda e: e[add].mean(1, keepdims=True)
    steps[variance] = lambda e: ((e[add] - e[mean]) ** 2).mean(1, keepdims=True)
    steps[f"norm_{which}.normalised"] = lambda e: (e[add] - e[mean]) / np.sqrt(e[variance] + 0.1)


DECODER_BLOCK_MISTAKES: dict[str, Planter] = {
    "residual-forgotten": lambda _: iter(
        [
            {"add_1": lambda e: e["self_attention.output"]},
            {"add_2": lambda e: e["cross_attention.output"]},
            {"add_3": lambda e: e["feed_forward.output"]},
        ]
    ),
    "mask-forgotten": lambda _: iter(
        [{"self_attention.masked": lambda e: e["self_attention.scaled"]}]
    ),
    "masked-with-zeros": lambda _: iter(
        [{"self_attention.masked": lambda e: np.tril(e["self_attention.scaled"])}]
    ),
    "weight-transposed": lambda _: iter(
        [
            {"self_attention.Q": lambda e: e["X"] @ e["self_attention.W_Q"].T},
            {"cross_attention.V": lambda e: e["context"] @ e["cross_attention.W_V"].T},
        ]
    ),
    "wrong-weight": lambda _: iter(
        [{"cross_attention.Q": lambda e: e["norm_1.normalised"] @ e["self_attention.W_Q"]}]
    ),
    "not-scaled": lambda _: iter(
        [{"cross_attention.scaled": lambda e: e["cross_attention.scores"]}]
    ),
    "variance-over-n-minus-1": lambda _: iter(
        [{"norm_2.variance": lambda e: e["add_2"].var(1, keepdims=True, ddof=1)}]
    ),
    "activation-forgotten": lambda _: iter(
        [{"feed_forward.activated": lambda e: e["feed_forward.hidden"]}]
    ),
}
