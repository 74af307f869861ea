"""What does a single context vector cost?

Copying needs every symbol of the source. A decoder that gets one vector must find all symbols
encoded in it; a decoder with attention can look up the encoder state that it needs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.base import (
    ExampleSampler,
    Finding,
    count_parameters,
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
    """Accuracy of one model by the length of the source."""

    name: str
    num_parameters: int
    accuracy: Sequence[float]  # per symbol, for each of LENGTHS


class Copier(nn.Module):
    """A translator trained to copy its source."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        vocab_size = NUM_SPECIALS + SYMBOLS
        self.translator = build_translator({**config, "dropout": 0.0}, vocab_size, vocab_size)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocabulary"]:
        """Return teacher-forced logits of the copy."""
        source = SentenceBatch(x, torch.full((len(x),), x.shape[1]))
        decoder_input = torch.cat([source.start_tokens().unsqueeze(1), x[:, :-1]], 1)
        logits: Tensor = self.translator(source, decoder_input)
        return logits


def make_copy_sampler(min_length: int, max_length: int) -> ExampleSampler:
    """Return a sampler of random symbols, which are input and target; a batch has one length."""

    def sample(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        length = int(torch.randint(min_length, max_length + 1, (1,), generator=generator))
        symbols = torch.randint(SYMBOLS, (count, length), generator=generator) + NUM_SPECIALS
        return symbols, symbols

    return sample


def measure(
    seed: int = 1, *, names: Sequence[str] = tuple(MODELS), steps: int = STEPS
) -> list[CopyResult]:
    """Train each model on all lengths; measure its accuracy for each of LENGTHS."""
    results = []
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
        accuracy = [
            measure_accuracy(model, make_copy_sampler(n, n), num_examples=500) for n in LENGTHS
        ]
        results.append(CopyResult(name, count_parameters(model), accuracy))
    return results


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    results = measure(seed)
    short, long = LENGTHS.index(2), len(LENGTHS) - 1
    one_vector, attention, transformer = (
        f"{result.accuracy[short]:.0%} and {result.accuracy[long]:.0%}" for result in results
    )
    lines = (
        f"Accuracy per symbol for {LENGTHS[short]} and for {LENGTHS[long]} symbols, "
        f"teacher-forced: with one vector of {WIDTH} numbers {one_vector}; with attention over all "
        f"encoder states {attention}; with a Transformer {transformer}. Chance: "
        f"{1 / SYMBOLS:.0%}.",
        f"{MAX_LENGTH} symbols are {MAX_LENGTH * math.log2(SYMBOLS):.0f} bits, which {WIDTH} "
        f"numbers can hold: what is hard to learn, in {STEPS} steps, is to encode them in one "
        "vector and to decode them from it. Attention avoids that.",
    )
    picture = line_chart(
        [Series(x.name, list(zip(LENGTHS, x.accuracy, strict=True))) for x in results],
        title="Copying through one vector, and with attention to the source",
        x_label="symbols to copy",
        y_label="accuracy per symbol",
        percent=True,
    )
    rows = [
        (x.name, f"{x.num_parameters:,}", *(f"{accuracy:.3f}" for accuracy in x.accuracy))
        for x in results
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
