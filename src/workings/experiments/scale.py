"""Why are scores divided by √d_k?

The dot product of two vectors of d independent numbers with variance 1 has variance d. Without
scaling, the scores of wide heads are so far apart that the softmax puts nearly all weight on one
key, where its gradient is small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import Normalizer, attend
from workings.experiments import QUESTIONS
from workings.experiments.base import Finding, isolated_rng, train_model
from workings.render.chart import Series, line_chart

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
NUM_KEYS = 64
NUM_QUERIES = 512
SYMBOLS, NUM_PAIRS = 16, 8  # of the lookup task
STEPS, TRAINED_WIDTH = 200, 256


@dataclass(frozen=True)
class ScoreStatistics:
    """Scores of one width, and the softmax over them."""

    width: int
    variance: float
    entropy: float  # of the weights, in nats; at most log(NUM_KEYS)
    jacobian_norm: float  # Frobenius norm of the softmax's Jacobian


@dataclass(frozen=True)
class ScaleMeasurements:
    """Unscaled and scaled scores by width, and the training losses with each."""

    unscaled: Sequence[ScoreStatistics]
    scaled: Sequence[ScoreStatistics]
    unscaled_losses: Sequence[float]
    scaled_losses: Sequence[float]

    @property
    def min_useful_width(self) -> int:
        """The width from which on scaling gives the larger Jacobian."""
        pairs = zip(self.unscaled, self.scaled, strict=True)
        not_useful = [
            unscaled.width
            for unscaled, scaled in pairs
            if scaled.jacobian_norm <= unscaled.jacobian_norm
        ]
        return min(width for width in WIDTHS if width > max(not_useful, default=0))

    @property
    def widest_unaffected(self) -> ScoreStatistics:
        """The unscaled scores of the width just below `min_useful_width`."""
        return self.unscaled[max(WIDTHS.index(self.min_useful_width) - 1, 0)]


def measure_scores(scores: Float[Tensor, "queries keys"], width: int) -> ScoreStatistics:
    """Compute the statistics of scores and of the softmax over them."""
    weights = scores.softmax(-1)
    entropy = torch.special.entr(weights).sum(-1).mean()
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    norm = torch.linalg.matrix_norm(jacobian).mean()
    return ScoreStatistics(width, scores.var().item(), entropy.item(), norm.item())


class LookupModel(nn.Module):
    """Attention over key-value pairs of symbols, with one symbol as the query."""

    def __init__(
        self, width: int, scale: float | None = None, normalizer: Normalizer = "softmax"
    ) -> None:
        super().__init__()
        self.key_embedding, self.value_embedding, self.query_embedding = (
            nn.Embedding(SYMBOLS, width) for _ in range(3)
        )
        self.head = nn.Linear(width, SYMBOLS)
        self.scale, self.normalizer = scale, normalizer

    def forward(self, x: Int[Tensor, "batch symbols"]) -> Float[Tensor, "batch classes"]:
        """Return logits of the value; `x` holds all keys, then all values, then the query."""
        keys, values = x[:, :-1].chunk(2, 1)
        mixed = attend(
            self.query_embedding(x[:, -1:]),
            self.key_embedding(keys),
            self.value_embedding(values),
            scale=self.scale,
            normalizer=self.normalizer,
        )
        logits: Tensor = self.head(mixed.squeeze(1))
        return logits


def sample_pairs(
    generator: torch.Generator, count: int, num_pairs: int = NUM_PAIRS
) -> tuple[Tensor, Tensor]:
    """Sample pairs with distinct keys and one of the keys as the query; the target is its value."""
    keys = torch.rand(count, SYMBOLS, generator=generator).argsort(-1)[:, :num_pairs]
    values = torch.randint(SYMBOLS, (count, num_pairs), generator=generator)
    index = torch.randint(num_pairs, (count, 1), generator=generator)
    return torch.cat([keys, values, keys.gather(1, index)], 1), values.gather(1, index)[:, 0]


def measure(seed: int = 1) -> ScaleMeasurements:
    """Measure scores of random queries and keys for every width; train with and without scaling."""
    generator = torch.Generator().manual_seed(seed)
    unscaled, scaled = [], []
    for width in WIDTHS:
        query = torch.randn(NUM_QUERIES, width, generator=generator)
        key = torch.randn(NUM_KEYS, width, generator=generator)
        scores = query @ key.T
        unscaled.append(measure_scores(scores, width))
        scaled.append(measure_scores(scores / math.sqrt(width), width))
    losses = []
    for scale in (1.0, None):
        with isolated_rng(seed):
            model = LookupModel(TRAINED_WIDTH, scale)
        losses.append(train_model(model, sample_pairs, steps=STEPS, seed=seed))
    return ScaleMeasurements(unscaled, scaled, *losses)


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    result = measure(seed)
    narrow, wide, wide_scaled = result.unscaled[0], result.unscaled[-1], result.scaled[-1]
    unaffected = result.widest_unaffected
    loss, loss_scaled = (sum(x[-20:]) / 20 for x in (result.unscaled_losses, result.scaled_losses))
    lines = (
        f"The variance of q·k grows with the width: {narrow.variance:.1f} at {narrow.width}, "
        f"{wide.variance:,.0f} at {wide.width:,}. Divided by √d_k it stays near 1.",
        f"So the entropy of a softmax over {NUM_KEYS} keys of width {wide.width:,} falls to "
        f"{wide.entropy:.2f} of {math.log(NUM_KEYS):.2f} nats ({wide_scaled.entropy:.2f} scaled), "
        "and the norm of its Jacobian is "
        f"{wide_scaled.jacobian_norm / wide.jacobian_norm:.1f} times smaller. Scaling gives the "
        f"larger gradient from width {result.min_useful_width:,} on; in narrower heads the softmax "
        f"is sharp, but gradients still flow ({unaffected.entropy:.2f} nats at "
        f"{unaffected.width}).",
        f"A lookup with width {TRAINED_WIDTH}, trained for {STEPS} steps: loss {loss:.2f} without "
        f"scaling, {loss_scaled:.2f} with it.",
    )
    picture = line_chart(
        [
            Series("unscaled", [(s.width, s.entropy) for s in result.unscaled]),
            Series("divided by √d_k", [(s.width, s.entropy) for s in result.scaled]),
        ],
        title=f"The entropy of a softmax over {NUM_KEYS} keys",
        x_label="width d_k",
        y_label="entropy, nats",
        log_x=True,
    )
    rows = [
        (str(unscaled.width), *_format_statistics(unscaled), *_format_statistics(scaled))
        for unscaled, scaled in zip(result.unscaled, result.scaled, strict=True)
    ]
    columns = ("variance", "entropy", "Jacobian")
    return Finding(
        QUESTIONS["scale"],
        lines,
        "normalized queries and keys, or ones that learn to be small; a narrow head, whose scores "
        "are small anyway.",
        picture,
        ("d_k", *columns, *(f"{name} ÷√d_k" for name in columns)),
        rows,
    )


def _format_statistics(statistics: ScoreStatistics) -> list[str]:
    values = (statistics.variance, statistics.entropy, statistics.jacobian_norm)
    return [f"{value:.3g}" for value in values]
