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
from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.scale import NUM_PAIRS, SYMBOLS, LookupModel, sample_pairs
from workings.experiments.toy_training import isolated_rng, measure_accuracy, train_model
from workings.render.chart import Series, line_chart
from workings.render.pictures import side_by_side
from workings.trace import Trace

KEY_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTH, STEPS = 32, 200
PAIR_COUNTS = (1, 2, 4, 8, 12, SYMBOLS)  # of pairs to look among


@dataclass(frozen=True)
class NormalizerResult:
    """What attention with one normaliser does: fresh, and after learning to look up."""

    name: str
    weight_sums: Sequence[float]  # of a query's weights, for each of KEYS
    accuracy: Sequence[float]  # looked up, for each of COUNTS


def measure_weight_sums(normalizer: Normalizer, seed: int) -> list[float]:
    """How much weight a query gives away, by the number of keys."""
    generator = torch.Generator().manual_seed(seed)
    sums = []
    for keys in KEY_COUNTS:
        query, key = (torch.randn(n, WIDTH, generator=generator) for n in (200, keys))
        with Trace() as trace:
            attend(query, key, key, normalizer=normalizer)
        sums.append(trace["weights"].sum(-1).mean().item())
    return sums


def measure_lookup(normalizer: Normalizer, steps: int, seed: int) -> list[float]:
    """Learn to look up among PAIRS pairs; how often that is right among fewer and among more."""
    with isolated_rng(seed):
        model = LookupModel(WIDTH, normalizer=normalizer)
    train_model(model, sample_pairs, steps=steps, seed=seed)
    return [measure_accuracy(model, partial(sample_pairs, num_pairs=n)) for n in PAIR_COUNTS]


def measure(seed: int = 1) -> tuple[NormalizerResult, NormalizerResult, NormalizerResult]:
    """Measure softmax, sigmoid, and sigmoid trained twice as long."""
    sums = measure_weight_sums("sigmoid", seed)
    return (
        NormalizerResult(
            "softmax", measure_weight_sums("softmax", seed), measure_lookup("softmax", STEPS, seed)
        ),
        NormalizerResult("sigmoid", sums, measure_lookup("sigmoid", STEPS, seed)),
        NormalizerResult("sigmoid, longer", sums, measure_lookup("sigmoid", 2 * STEPS, seed)),
    )


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    softmax, sigmoid, longer = found
    usual = PAIR_COUNTS.index(NUM_PAIRS)
    lines = (
        f"A softmax's weights sum to 1. A sigmoid's sum to {sigmoid.weight_sums[0]:.2f} for one key and "
        f"{sigmoid.weight_sums[-1]:.0f} for {KEY_COUNTS[-1]}: not an average, and its size depends on the "
        "length.",
        f"Looking up one of {NUM_PAIRS} pairs after {STEPS} steps: {softmax.accuracy[usual]:.0%} right "
        f"with a softmax, {sigmoid.accuracy[usual]:.0%} with a sigmoid; {longer.accuracy[usual]:.0%} "
        "after twice the steps.",
        f"Among {PAIR_COUNTS[-1]} pairs, more than it was trained with: {softmax.accuracy[-1]:.0%} with a "
        f"softmax, {sigmoid.accuracy[-1]:.0%} and {longer.accuracy[-1]:.0%} with a sigmoid.",
    )
    sums = line_chart(
        [
            Series(one.name, list(zip(KEY_COUNTS, one.weight_sums, strict=True)))
            for one in (softmax, sigmoid)
        ],
        title="The sum of a query's weights",
        x_label="keys",
        y_label="sum, before training",
        log_x=True,
        log_y=True,
        width=420,
    )
    right = line_chart(
        [Series(one.name, list(zip(PAIR_COUNTS, one.accuracy, strict=True))) for one in found],
        title=f"Looking up, trained with {NUM_PAIRS} pairs",
        x_label="pairs to look among",
        y_label="right",
        percent=True,
        width=520,
    )
    rows = [(one.name, *(f"{x:.3f}" for x in one.accuracy)) for one in found]
    return Finding(
        QUESTIONS["sigmoid"],
        lines,
        "a task that counts, where a sum that grows with the keys is what is wanted; scores that "
        "are lowered by the logarithm of the number of keys, so that a sigmoid's weights sum to "
        "about 1 to begin with; longer training with as many keys as there will be.",
        side_by_side([sums, right], "A sigmoid in the softmax's place"),
        ("right among so many pairs", *map(str, PAIR_COUNTS)),
        rows,
    )
