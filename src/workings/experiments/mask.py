"""How is the future hidden?

A causal model must not look ahead. To set weights to zero after the softmax is too late: it has
divided by the future already. To set scores to zero before it hides nothing: e⁰ is 1. Only a score
of −∞ becomes a weight of zero and leaves the others a whole.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import causal_mask, scaled_dot
from workings.experiments import QUESTIONS
from workings.experiments.curves import draw_losses, smooth
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng, train_model
from workings.layers.positions import SinusoidalPositions
from workings.layers.transformer import FeedForward
from workings.render.heatmap import heatmap
from workings.render.pictures import side_by_side

SYMBOLS, WORDS, WIDTH = 8, 8, 32
MIN_LOSS = math.log(SYMBOLS)  # nats: nobody foresees dice
STEPS, LEARNING_RATE = 300, 5e-3
NUM_SHOWN = 6  # words in the pictures of weights
MASK_METHODS = ("−∞ before", "0 before", "0 after")  # the softmax


@dataclass(frozen=True)
class MaskingResult:
    """What one way of masking does."""

    method: str
    weights: Float[Tensor, "queries keys"]
    leak: float  # the largest change of what comes out before a word that is changed
    losses: Sequence[float]  # in training
    generation_loss: float  # the loss where the future is not there yet, as when text is written


def compute_masked_weights(scores: Float[Tensor, "*b q k"], method: str) -> Float[Tensor, "*b q k"]:
    """Turn scores into weights, hiding the future in one of three ways."""
    allowed = causal_mask(*scores.shape[-2:])
    if method == "−∞ before":
        return scores.masked_fill(~allowed, -math.inf).softmax(-1)
    if method == "0 before":
        return (scores * allowed).softmax(-1)
    return scores.softmax(-1) * allowed


class CausalModel(nn.Module):
    """One block that foretells the next word at each place."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method
        self.embedding, self.positions = nn.Embedding(SYMBOLS, WIDTH), SinusoidalPositions(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.feed_forward = FeedForward(WIDTH, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch words symbols"]:
        """Score what comes after each word."""
        x = self.positions(self.embedding(x))
        scores = scaled_dot(self.query(x), self.key(x))
        x = x + compute_masked_weights(scores, self.method) @ self.value(x)
        out: Tensor = self.head(x + self.feed_forward(x))
        return out


def sample_random_words(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw words by dice: each is to be foretold from those before it, which tell nothing."""
    words = torch.randint(SYMBOLS, (count, WORDS + 1), generator=generator)
    return words[:, :-1], words[:, 1:]


@torch.no_grad()
def measure_leak(model: CausalModel, seed: int) -> float:
    """Change the last word of texts, and see how much changes before it."""
    words, _ = sample_random_words(torch.Generator().manual_seed(seed), 100)
    other = torch.cat([words[:, :-1], (words[:, -1:] + 1) % SYMBOLS], 1)
    changed: Tensor = model(words) - model(other)
    return changed[:, :-1].abs().max().item()


@torch.no_grad()
def measure_generation_loss(model: CausalModel, seed: int) -> float:
    """The loss of each next word where only those before it are there."""
    words, following = sample_random_words(torch.Generator().manual_seed(seed + 10**6), 500)
    losses = [
        F.cross_entropy(model(words[:, :end])[:, -1], following[:, end - 1]).item()
        for end in range(1, WORDS + 1)
    ]
    return sum(losses) / WORDS


def measure(seed: int = 1, steps: int = STEPS) -> list[MaskingResult]:
    """Hide the future in each way, from the same scores and with the same fresh weights."""
    scores = torch.randn(NUM_SHOWN, NUM_SHOWN, generator=torch.Generator().manual_seed(seed))
    found = []
    for way in MASK_METHODS:
        with isolated_rng(seed):
            model = CausalModel(way)
        leaks = measure_leak(model, seed)
        losses = train_model(
            model, sample_random_words, steps=steps, learning_rate=LEARNING_RATE, seed=seed
        )
        written = measure_generation_loss(model, seed)
        found.append(
            MaskingResult(way, compute_masked_weights(scores, way), leaks, losses, written)
        )
    return found


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    right, before, after = found
    last = {x.method: smooth(x.losses, 20)[-1][1] for x in found}
    sums = after.weights.sum(-1)
    lines = (
        f"Weights set to 0 after the softmax: rows sum to {sums.min():.2f} to {sums.max():.2f}. "
        "Scores set to 0 before it: the first word still gives "
        f"{before.weights[0, 1:].sum():.0%} of its weight to the future. Scores of −∞: rows sum to "
        f"1, and {right.weights.triu(1).sum():.0%} goes to the future.",
        f"Change the last word, and what comes out before it changes by up to {before.leak:.2f} (0 "
        f"before) and {after.leak:.2f} (0 after: it leaks through the softmax's denominator), "
        f"with −∞ by {right.leak:.2g}.",
        f"Words drawn at random cannot be predicted with a loss below {MIN_LOSS:.2f} nats. In "
        f"training: {last[right.method]:.2f} with −∞, {last[before.method]:.2f} and "
        f"{last[after.method]:.2f} with zeros before and after, too good to be true. When the future "
        f"is not there yet: {right.generation_loss:.2f}, {before.generation_loss:.2f} and {after.generation_loss:.2f}.",
    )
    maps = [
        heatmap(
            x.weights.tolist(), title=f"{x.method} the softmax", x_label="key",
            y_label="query, by the sum of its row", max_value=1.0, width=250,
            row_names=[f"{total:.2f}" for total in x.weights.sum(-1)],
        )
        for x in found
    ]  # fmt: skip
    chart = draw_losses({x.method: x.losses for x in found}, "Foretelling dice", MIN_LOSS)
    rows = [
        (x.method, f"{x.weights.sum(-1).min():.2f}", f"{x.leak:.3f}", f"{last[x.method]:.2f}",
         f"{x.generation_loss:.2f}")
        for x in found
    ]  # fmt: skip
    return Finding(
        QUESTIONS["mask"],
        lines,
        "zeros after the softmax, with each row divided by its new sum, which is −∞ by another "
        "road; a model that reads and never writes, which may see it all.",
        side_by_side([*maps, chart], "Three ways to hide the future, of which one does"),
        ("mask", "least row sum", "leak", "loss in training", "loss when written"),
        rows,
    )
