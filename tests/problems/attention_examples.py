"""Random attention problems in plain numpy, beyond those of `numpy_problems`, with mistakes."""

from collections.abc import Iterator

import numpy as np
from numpy_problems import Env, Example, Matrix, Plant, Planter, Rng, draw, softmax


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
