"""What if a sigmoid replaces the softmax?

A softmax distributes one unit of weight over the keys, so that they compete. A sigmoid computes
each weight independently: the sum grows with the number of keys, and each key that does not match
has to be suppressed on its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from workings.attention import Normalizer, attend
from workings.experiments import QUESTIONS
from workings.experiments.base import Finding, isolated_rng, measure_accuracy, train_model
from workings.experiments.scale import NUM_PAIRS, SYMBOLS, LookupModel, sample_pairs
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side
from workings.trace import Trace

KEY_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTH, STEPS = 32, 200
PAIR_COUNTS = (1, 2, 4, 8, 12, SYMBOLS)  # of the lookups at test time


@dataclass(frozen=True)
class NormalizerResult:
    """Attention with one normalizer: weight sums before training, accuracy after it."""

    name: str
    weight_sums: Sequence[float]  # of a query's weights, for each of KEY_COUNTS
    accuracy: Sequence[float]  # of lookups, for each of PAIR_COUNTS


def measure_weight_sums(normalizer: Normalizer, seed: int) -> list[float]:
    """Return the mean sum of a query's weights for each number of keys."""
    generator = torch.Generator().manual_seed(seed)
    sums = []
    for num_keys in KEY_COUNTS:
        query, key = (torch.randn(n, WIDTH, generator=generator) for n in (200, num_keys))
        with Trace() as trace:
            attend(query, key, key, normalizer=normalizer)
        sums.append(trace["weights"].sum(-1).mean().item())
    return sums


def measure_lookup(normalizer: Normalizer, steps: int, seed: int) -> list[float]:
    """Train a lookup among NUM_PAIRS pairs; return the accuracy for each of PAIR_COUNTS."""
    with isolated_rng(seed):
        model = LookupModel(WIDTH, normalizer=normalizer)
    train_model(model, sample_pairs, steps=steps, seed=seed)
    return [measure_accuracy(model, partial(sample_pairs, num_pairs=n)) for n in PAIR_COUNTS]


def measure(seed: int = 1) -> tuple[NormalizerResult, NormalizerResult, NormalizerResult]:
    """Measure softmax, sigmoid, and sigmoid trained for twice as many steps."""
    softmax_sums = measure_weight_sums("softmax", seed)
    sigmoid_sums = measure_weight_sums("sigmoid", seed)
    return (
        NormalizerResult("softmax", softmax_sums, measure_lookup("softmax", STEPS, seed)),
        NormalizerResult("sigmoid", sigmoid_sums, measure_lookup("sigmoid", STEPS, seed)),
        NormalizerResult(
            "sigmoid, longer", sigmoid_sums, measure_lookup("sigmoid", 2 * STEPS, seed)
        ),
    )


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    results = measure(seed)
    softmax, sigmoid, longer = results
    trained = PAIR_COUNTS.index(NUM_PAIRS)
    lines = (
        "The weights of a softmax sum to 1. Those of a sigmoid sum to "
        f"{sigmoid.weight_sums[0]:.2f} for one key and {sigmoid.weight_sums[-1]:.0f} for "
        f"{KEY_COUNTS[-1]}: the output is no average, and its size depends on the length.",
        f"Accuracy of a lookup among {NUM_PAIRS} pairs after {STEPS} steps: "
        f"{softmax.accuracy[trained]:.0%} with a softmax, {sigmoid.accuracy[trained]:.0%} with a "
        f"sigmoid; {longer.accuracy[trained]:.0%} after twice as many steps.",
        f"Among {PAIR_COUNTS[-1]} pairs, more than in training: {softmax.accuracy[-1]:.0%} with a "
        f"softmax, {sigmoid.accuracy[-1]:.0%} and {longer.accuracy[-1]:.0%} with a sigmoid.",
    )
    rows = [
        (result.name, *(f"{accuracy:.3f}" for accuracy in result.accuracy)) for result in results
    ]
    return Finding(
        QUESTIONS["sigmoid"],
        lines,
        "a counting task, which needs a sum that grows with the number of keys; scores lowered by "
        "the logarithm of the number of keys, so that a sigmoid's weights sum to about 1 before "
        "training; longer training with as many keys as at test time.",
        _draw_picture(results),
        ("accuracy by number of pairs", *map(str, PAIR_COUNTS)),
        rows,
    )


def _draw_picture(results: Sequence[NormalizerResult]) -> Picture:
    sums = line_chart(
        [
            Series(result.name, list(zip(KEY_COUNTS, result.weight_sums, strict=True)))
            for result in results[:2]
        ],
        title="The sum of a query's weights",
        x_label="keys",
        y_label="sum, before training",
        log_x=True,
        log_y=True,
        width=420,
    )
    accuracy = line_chart(
        [
            Series(result.name, list(zip(PAIR_COUNTS, result.accuracy, strict=True)))
            for result in results
        ],
        title=f"Lookup, trained with {NUM_PAIRS} pairs",
        x_label="pairs at test time",
        y_label="accuracy",
        percent=True,
        width=520,
    )
    return side_by_side([sums, accuracy], "A sigmoid in place of the softmax")
