"""What does one context vector cost?

Copying needs every symbol of the source. A decoder that gets one vector of it must find a dozen of
them packed into as many numbers as two; one that looks at all of the encoder's states finds the one
it needs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import (
    ExampleSampler,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.models.translation import PAD, START, SentenceBatch, build_translator
from workings.render.chart import Series, line_chart

SYMBOLS, MAX_LENGTH, STEPS = 12, 12, 400
LENGTHS = (1, 2, 3, 4, 6, 8, 10, 12)
NUM_SPECIALS = max(PAD, START) + 1

WIDTH = 48
RECURRENT_CONFIG = {
    "kind": "recurrent",
    "d_model": 32,
    "hidden_size": WIDTH,
    "bidirectional": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "one vector": {**RECURRENT_CONFIG, "attention": "fixed"},
    "attention": {**RECURRENT_CONFIG, "attention": "additive"},
    "Transformer": {
        "kind": "transformer",
        "d_model": WIDTH,
        "d_ff": 96,
        "layers": 1,
        "heads": 4,
    },
}


@dataclass(frozen=True)
class CopyResult:
    """How well a model copies what is so long."""

    name: str
    num_parameters: int
    accuracy: Sequence[float]  # the share of symbols, for each of LENGTHS


class Copier(nn.Module):
    """A translator whose two languages are one."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        vocabulary = NUM_SPECIALS + SYMBOLS
        self.translator = build_translator({**config, "dropout": 0.0}, vocabulary, vocabulary)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocabulary"]:
        """Score every symbol of the copy, given the right ones before it."""
        source = SentenceBatch(x, torch.full((len(x),), x.shape[1]))
        before = torch.cat([source.start_tokens().unsqueeze(1), x[:, :-1]], 1)
        scores: Tensor = self.translator(source, before)
        return scores


def make_copy_sampler(min_length: int, max_length: int) -> ExampleSampler:
    """Draw symbols to copy; all of a batch are equally many."""

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        length = int(torch.randint(min_length, max_length + 1, (1,), generator=generator))
        drawn = torch.randint(SYMBOLS, (count, length), generator=generator) + NUM_SPECIALS
        return drawn, drawn

    return draw


def measure(
    seed: int = 1, *, names: Sequence[str] = tuple(MODELS), steps: int = STEPS
) -> list[CopyResult]:
    """Train each model on all lengths, and let it copy every one of them."""
    found = []
    for name in names:
        with isolated_rng(seed):
            model = Copier(MODELS[name])
        train_model(
            model,
            make_copy_sampler(1, MAX_LENGTH),
            steps=steps,
            batch_size=32,
            learning_rate=5e-3,
            seed=seed,
        )
        right = [
            measure_accuracy(model, make_copy_sampler(n, n), num_examples=500) for n in LENGTHS
        ]
        found.append(CopyResult(name, sum(p.numel() for p in model.parameters()), right))
    return found


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    one_vector, attention, transformer = found
    short, long = LENGTHS.index(2), len(LENGTHS) - 1
    lines = (
        f"Given the right symbols so far, the share copied right of {LENGTHS[short]} and of "
        f"{LENGTHS[long]}: through one vector of {WIDTH} numbers {one_vector.accuracy[short]:.0%} "
        f"and {one_vector.accuracy[long]:.0%}; with "
        f"attention over all states {attention.accuracy[short]:.0%} and {attention.accuracy[long]:.0%}; "
        f"by a Transformer {transformer.accuracy[short]:.0%} and {transformer.accuracy[long]:.0%}. "
        f"A guess is right in {1 / SYMBOLS:.0%}.",
        f"{MAX_LENGTH} symbols are {MAX_LENGTH * math.log2(SYMBOLS):.0f} bits, for which {WIDTH} numbers "
        f"have room: it is hard to learn, in {STEPS} steps, to pack them into one vector and to "
        "find them in it again. Attention need not.",
    )
    picture = line_chart(
        [Series(one.name, list(zip(LENGTHS, one.accuracy, strict=True))) for one in found],
        title="Copying through one vector, and with all of the source in sight",
        x_label="symbols to copy",
        y_label="copied right",
        percent=True,
    )
    rows = [
        (one.name, f"{one.num_parameters:,}", *(f"{x:.3f}" for x in one.accuracy)) for one in found
    ]
    return Finding(
        QUESTIONS["bottleneck"],
        lines,
        "much longer training, in which the vector comes to hold more; shorter sources; a task "
        "that needs a summary of the source and not every word of it.",
        picture,
        ("model", "parameters", *map(str, LENGTHS)),
        rows,
    )
