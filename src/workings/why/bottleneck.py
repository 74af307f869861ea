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

from workings.models.translators import PAD, START, Sentences, build_translator
from workings.views.chart import Series, line_chart
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import Draw, accuracy, learn, seeded

SYMBOLS, LONGEST, STEPS = 12, 12, 400
LENGTHS = (1, 2, 3, 4, 6, 8, 10, 12)
SPECIALS = max(PAD, START) + 1

WIDTH = 48
RECURRENT = {"kind": "recurrent", "embedding": 32, "hidden": WIDTH, "bidirectional": False}
MODELS: dict[str, dict[str, Any]] = {
    "one vector": {**RECURRENT, "context": "fixed"},
    "attention": {**RECURRENT, "context": "additive"},
    "Transformer": {
        "kind": "transformer",
        "embedding": WIDTH,
        "hidden": 96,
        "layers": 1,
        "heads": 4,
    },
}


@dataclass(frozen=True)
class Copied:
    """How well a model copies what is so long."""

    name: str
    parameters: int
    right: Sequence[float]  # the share of symbols, for each of LENGTHS


class Copier(nn.Module):
    """A translator whose two languages are one."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__()
        vocabulary = SPECIALS + SYMBOLS
        self.translator = build_translator({**table, "dropout": 0.0}, vocabulary, vocabulary)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocabulary"]:
        """Score every symbol of the copy, given the right ones before it."""
        source = Sentences(x, torch.full((len(x),), x.shape[1]))
        before = torch.cat([source.starts().unsqueeze(1), x[:, :-1]], 1)
        scores: Tensor = self.translator(source, before)
        return scores


def symbols(shortest: int, longest: int) -> Draw:
    """Draw symbols to copy; all of a batch are equally many."""

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        length = int(torch.randint(shortest, longest + 1, (1,), generator=generator))
        drawn = torch.randint(SYMBOLS, (count, length), generator=generator) + SPECIALS
        return drawn, drawn

    return draw


def measure(
    seed: int = 1, *, names: Sequence[str] = tuple(MODELS), steps: int = STEPS
) -> list[Copied]:
    """Train each model on all lengths, and let it copy every one of them."""
    found = []
    for name in names:
        with seeded(seed):
            model = Copier(MODELS[name])
        learn(model, symbols(1, LONGEST), steps=steps, batch=32, rate=5e-3, seed=seed)
        right = [accuracy(model, symbols(n, n), examples=500) for n in LENGTHS]
        found.append(Copied(name, sum(p.numel() for p in model.parameters()), right))
    return found


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    one_vector, attention, transformer = found
    short, long = LENGTHS.index(2), len(LENGTHS) - 1
    lines = (
        f"Given the right symbols so far, the share copied right of {LENGTHS[short]} and of "
        f"{LENGTHS[long]}: through one vector of {WIDTH} numbers {one_vector.right[short]:.0%} "
        f"and {one_vector.right[long]:.0%}; with "
        f"attention over all states {attention.right[short]:.0%} and {attention.right[long]:.0%}; "
        f"by a Transformer {transformer.right[short]:.0%} and {transformer.right[long]:.0%}. "
        f"A guess is right in {1 / SYMBOLS:.0%}.",
        f"{LONGEST} symbols are {LONGEST * math.log2(SYMBOLS):.0f} bits, for which {WIDTH} numbers "
        f"have room: it is hard to learn, in {STEPS} steps, to pack them into one vector and to "
        "find them in it again. Attention need not.",
    )
    picture = line_chart(
        [Series(one.name, list(zip(LENGTHS, one.right, strict=True))) for one in found],
        title="Copying through one vector, and with all of the source in sight",
        x_label="symbols to copy",
        y_label="copied right",
        percent=True,
    )
    rows = [(one.name, f"{one.parameters:,}", *(f"{x:.3f}" for x in one.right)) for one in found]
    return Finding(
        QUESTIONS["bottleneck"],
        lines,
        "much longer training, in which the vector comes to hold more; shorter sources; a task "
        "that needs a summary of the source and not every word of it.",
        picture,
        ("model", "parameters", *map(str, LENGTHS)),
        rows,
    )
