"""What if a sigmoid stands in the softmax's place?

A softmax shares one unit of weight among the keys, so that they compete. A sigmoid judges each key
on its own: the weights add up to more with every key, and what does not fit has to be turned down
key by key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from workings.attention import Normalizer, attend
from workings.trace import Trace
from workings.views.chart import Series, line_chart
from workings.views.panels import side_by_side
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import accuracy, learn, seeded
from workings.why.scale import PAIRS, SYMBOLS, LookUp, pairs

KEYS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTH, STEPS = 32, 200
COUNTS = (1, 2, 4, 8, 12, SYMBOLS)  # of pairs to look among


@dataclass(frozen=True)
class Mixed:
    """What attention with one normaliser does: fresh, and after learning to look up."""

    name: str
    sums: Sequence[float]  # of a query's weights, for each of KEYS
    right: Sequence[float]  # looked up, for each of COUNTS


def weight_sums(normalizer: Normalizer, seed: int) -> list[float]:
    """How much weight a query gives away, by the number of keys."""
    generator = torch.Generator().manual_seed(seed)
    sums = []
    for keys in KEYS:
        query, key = (torch.randn(n, WIDTH, generator=generator) for n in (200, keys))
        with Trace() as trace:
            attend(query, key, key, normalizer=normalizer)
        sums.append(trace["weights"].sum(-1).mean().item())
    return sums


def looked_up(normalizer: Normalizer, steps: int, seed: int) -> list[float]:
    """Learn to look up among PAIRS pairs; how often that is right among fewer and among more."""
    with seeded(seed):
        model = LookUp(WIDTH, normalizer=normalizer)
    learn(model, pairs, steps=steps, seed=seed)
    return [accuracy(model, partial(pairs, pairs=n)) for n in COUNTS]


def measure(seed: int = 1) -> tuple[Mixed, Mixed, Mixed]:
    """Measure softmax, sigmoid, and sigmoid trained twice as long."""
    sums = weight_sums("sigmoid", seed)
    return (
        Mixed("softmax", weight_sums("softmax", seed), looked_up("softmax", STEPS, seed)),
        Mixed("sigmoid", sums, looked_up("sigmoid", STEPS, seed)),
        Mixed("sigmoid, longer", sums, looked_up("sigmoid", 2 * STEPS, seed)),
    )


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    softmax, sigmoid, longer = found
    usual = COUNTS.index(PAIRS)
    lines = (
        f"A softmax's weights sum to 1. A sigmoid's sum to {sigmoid.sums[0]:.2f} for one key and "
        f"{sigmoid.sums[-1]:.0f} for {KEYS[-1]}: not an average, and its size depends on the "
        "length.",
        f"Looking up one of {PAIRS} pairs after {STEPS} steps: {softmax.right[usual]:.0%} right "
        f"with a softmax, {sigmoid.right[usual]:.0%} with a sigmoid; {longer.right[usual]:.0%} "
        "after twice the steps.",
        f"Among {COUNTS[-1]} pairs, more than it was trained with: {softmax.right[-1]:.0%} with a "
        f"softmax, {sigmoid.right[-1]:.0%} and {longer.right[-1]:.0%} with a sigmoid.",
    )
    sums = line_chart(
        [Series(one.name, list(zip(KEYS, one.sums, strict=True))) for one in (softmax, sigmoid)],
        title="The sum of a query's weights",
        x_label="keys",
        y_label="sum, before training",
        log_x=True,
        log_y=True,
        width=420,
    )
    right = line_chart(
        [Series(one.name, list(zip(COUNTS, one.right, strict=True))) for one in found],
        title=f"Looking up, trained with {PAIRS} pairs",
        x_label="pairs to look among",
        y_label="right",
        percent=True,
        width=520,
    )
    rows = [(one.name, *(f"{x:.3f}" for x in one.right)) for one in found]
    return Finding(
        QUESTIONS["sigmoid"],
        lines,
        "a task that counts, where a sum that grows with the keys is what is wanted; scores that "
        "are lowered by the logarithm of the number of keys, so that a sigmoid's weights sum to "
        "about 1 to begin with; longer training with as many keys as there will be.",
        side_by_side([sums, right], "A sigmoid in the softmax's place"),
        ("right among so many pairs", *map(str, COUNTS)),
        rows,
    )
