"""How does a causal mask hide the future?

A causal model must not attend to later tokens. Setting weights to zero after the softmax is too
late: the softmax has already divided by the future's terms. Setting scores to zero before it hides
nothing: e⁰ is 1. Only a score of −∞ becomes a weight of zero and leaves the others with a sum of 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import causal_mask, scaled_dot
from workings.experiments import QUESTIONS
from workings.experiments.base import Finding, draw_losses, isolated_rng, smooth, train_model
from workings.layers.positions import SinusoidalPositions
from workings.layers.transformer import FeedForward
from workings.render.heatmap import heatmap
from workings.render.pictures import Picture, side_by_side

SYMBOLS, WORDS, WIDTH = 8, 8, 32
MIN_LOSS = math.log(SYMBOLS)  # in nats: uniformly random words cannot be predicted
STEPS, LEARNING_RATE = 300, 5e-3
NUM_SHOWN = 6  # words in the heat maps
MASK_METHODS = ("−∞ before", "0 before", "0 after")  # the softmax


@dataclass(frozen=True)
class MaskingResult:
    """Weights, leakage and losses of one masking method."""

    method: str
    weights: Float[Tensor, "queries keys"]
    leak: float  # largest change of an output before the position whose input was changed
    losses: Sequence[float]  # in training
    generation_loss: float  # when later tokens do not exist yet, as in generation


def compute_masked_weights(scores: Float[Tensor, "*b q k"], method: str) -> Float[Tensor, "*b q k"]:
    """Compute attention weights with one of MASK_METHODS."""
    allowed = causal_mask(*scores.shape[-2:])
    if method == "−∞ before":
        return scores.masked_fill(~allowed, -math.inf).softmax(-1)
    if method == "0 before":
        return (scores * allowed).softmax(-1)
    return scores.softmax(-1) * allowed


class CausalModel(nn.Module):
    """A language model with one block."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method
        self.embedding, self.positions = nn.Embedding(SYMBOLS, WIDTH), SinusoidalPositions(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.feed_forward = FeedForward(WIDTH, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch words symbols"]:
        """Return next-word logits at every position."""
        x = self.positions(self.embedding(x))
        scores = scaled_dot(self.query(x), self.key(x))
        x = x + compute_masked_weights(scores, self.method) @ self.value(x)
        logits: Tensor = self.head(x + self.feed_forward(x))
        return logits


def sample_random_words(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample uniformly random words and, as targets, the next word at every position."""
    words = torch.randint(SYMBOLS, (count, WORDS + 1), generator=generator)
    return words[:, :-1], words[:, 1:]


@torch.no_grad()
def measure_leak(model: CausalModel, seed: int) -> float:
    """Change the last word of each text; return the largest change of an earlier output."""
    words, _ = sample_random_words(torch.Generator().manual_seed(seed), 100)
    changed_words = torch.cat([words[:, :-1], (words[:, -1:] + 1) % SYMBOLS], 1)
    difference: Tensor = model(words) - model(changed_words)
    return difference[:, :-1].abs().max().item()


@torch.no_grad()
def measure_generation_loss(model: CausalModel, seed: int) -> float:
    """Return the mean next-word loss when the input ends at the position of the prediction."""
    words, targets = sample_random_words(torch.Generator().manual_seed(seed + 10**6), 500)
    losses = [
        F.cross_entropy(model(words[:, :end])[:, -1], targets[:, end - 1]).item()
        for end in range(1, WORDS + 1)
    ]
    return sum(losses) / WORDS


def measure(seed: int = 1, steps: int = STEPS) -> list[MaskingResult]:
    """Train a model with each masking method, all from the same initial weights."""
    scores = torch.randn(NUM_SHOWN, NUM_SHOWN, generator=torch.Generator().manual_seed(seed))
    results = []
    for method in MASK_METHODS:
        with isolated_rng(seed):
            model = CausalModel(method)
        leak = measure_leak(model, seed)
        losses = train_model(
            model, sample_random_words, steps=steps, learning_rate=LEARNING_RATE, seed=seed
        )
        weights = compute_masked_weights(scores, method)
        generation_loss = measure_generation_loss(model, seed)
        results.append(MaskingResult(method, weights, leak, losses, generation_loss))
    return results


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    results = measure(seed)
    minus_infinity, before, after = results
    final = {x.method: smooth(x.losses, 20)[-1][1] for x in results}
    sums = after.weights.sum(-1)
    lines = (
        f"With weights set to 0 after the softmax, rows sum to {sums.min():.2f} to "
        f"{sums.max():.2f}. With scores set to 0 before it, the first word still gives "
        f"{before.weights[0, 1:].sum():.0%} of its weight to the future. With scores of −∞, rows "
        f"sum to 1, and {minus_infinity.weights.triu(1).sum():.0%} goes to the future.",
        "If the last word changes, earlier outputs change by up to "
        f"{before.leak:.2f} (0 before) and {after.leak:.2f} (0 after: through the softmax's "
        f"denominator), with −∞ by {minus_infinity.leak:.2g}.",
        f"Random words cannot be predicted with a loss below {MIN_LOSS:.2f} nats. The training "
        f"loss is {final[minus_infinity.method]:.2f} with −∞; with zeros before and after it is "
        f"{final[before.method]:.2f} and {final[after.method]:.2f}, too good to be true. In "
        f"generation, where the future does not exist yet: {minus_infinity.generation_loss:.2f}, "
        f"{before.generation_loss:.2f} and {after.generation_loss:.2f}.",
    )
    rows = [
        (
            x.method,
            f"{x.weights.sum(-1).min():.2f}",
            f"{x.leak:.3f}",
            f"{final[x.method]:.2f}",
            f"{x.generation_loss:.2f}",
        )
        for x in results
    ]
    return Finding(
        QUESTIONS["mask"],
        lines,
        "zeros after the softmax with each row divided by its new sum, which equals −∞ before it; "
        "an encoder, which never generates and may attend to all tokens.",
        _draw_picture(results),
        ("mask", "smallest row sum", "leak", "training loss", "generation loss"),
        rows,
    )


def _draw_picture(results: Sequence[MaskingResult]) -> Picture:
    maps = [
        heatmap(
            x.weights.tolist(),
            title=f"{x.method} the softmax",
            x_label="key",
            y_label="query, with the sum of its row",
            max_value=1.0,
            width=250,
            row_names=[f"{total:.2f}" for total in x.weights.sum(-1)],
        )
        for x in results
    ]
    losses: Mapping[str, Sequence[float]] = {x.method: x.losses for x in results}
    chart = draw_losses(losses, "Predicting random words", MIN_LOSS)
    return side_by_side([*maps, chart], "Three ways to mask the future; only −∞ hides it")
