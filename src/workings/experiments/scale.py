"""Why are scores divided by √d_k?

The inner product of two vectors of d independent numbers of variance 1 has variance d. Undivided,
scores of wide heads are so far apart that the softmax gives nearly everything to one key, where
its gradient is small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import Normalizer, attend
from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng, train_model
from workings.render.chart import Series, line_chart

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
NUM_KEYS = 64
NUM_QUERIES = 512
SYMBOLS, NUM_PAIRS = 16, 8  # of the look-up that is learned
STEPS, TRAINED_WIDTH = 200, 256


@dataclass(frozen=True)
class ScoreStatistics:
    """What scores of one width do to the softmax over them."""

    width: int
    variance: float
    entropy: float  # nats; log(KEYS) is the most
    jacobian_norm: float  # the norm of the softmax's Jacobian


@dataclass(frozen=True)
class ScaleMeasurements:
    """Scores as they are and divided, by width, and what a model learns with each."""

    unscaled: Sequence[ScoreStatistics]
    scaled: Sequence[ScoreStatistics]
    unscaled_losses: Sequence[float]
    scaled_losses: Sequence[float]

    @property
    def min_useful_width(self) -> int:
        """The least of the widths from which on dividing leaves the larger gradient."""
        both = zip(self.unscaled, self.scaled, strict=True)
        losing = [
            plain.width for plain, divided in both if divided.jacobian_norm <= plain.jacobian_norm
        ]
        return min(w for w in WIDTHS if w > max(losing, default=0))

    @property
    def widest_unaffected(self) -> ScoreStatistics:
        """The scores as they are of the width before that."""
        return self.unscaled[max(WIDTHS.index(self.min_useful_width) - 1, 0)]


def measure_scores(scores: Float[Tensor, "queries keys"], width: int) -> ScoreStatistics:
    """Measure scores, and what a softmax makes of them."""
    weights = scores.softmax(-1)
    entropy = torch.special.entr(weights).sum(-1).mean()
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    norm = torch.linalg.matrix_norm(jacobian).mean()
    return ScoreStatistics(width, scores.var().item(), entropy.item(), norm.item())


class LookupModel(nn.Module):
    """Pairs of symbols and a question: attention finds the pair whose first is asked for."""

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
        """Read all firsts, then all seconds, and the first that is asked for."""
        firsts, seconds = x[:, :-1].chunk(2, 1)
        query, key, value = (
            self.query_embedding(x[:, -1:]),
            self.key_embedding(firsts),
            self.value_embedding(seconds),
        )
        mixed = attend(query, key, value, scale=self.scale, normalizer=self.normalizer)
        scores: Tensor = self.head(mixed.squeeze(1))
        return scores


def sample_pairs(
    generator: torch.Generator, count: int, num_pairs: int = NUM_PAIRS
) -> tuple[Tensor, Tensor]:
    """Draw pairs with firsts that differ, a first to ask for, and its second."""
    firsts = torch.rand(count, SYMBOLS, generator=generator).argsort(-1)[:, :num_pairs]
    seconds = torch.randint(SYMBOLS, (count, num_pairs), generator=generator)
    place = torch.randint(num_pairs, (count, 1), generator=generator)
    return torch.cat([firsts, seconds, firsts.gather(1, place)], 1), seconds.gather(1, place)[:, 0]


def measure(seed: int = 1) -> ScaleMeasurements:
    """Draw queries and keys of every width, and train the look-up with and without dividing."""
    generator = torch.Generator().manual_seed(seed)
    plain, divided = [], []
    for width in WIDTHS:
        query = torch.randn(NUM_QUERIES, width, generator=generator)
        key = torch.randn(NUM_KEYS, width, generator=generator)
        scores = query @ key.T
        plain.append(measure_scores(scores, width))
        divided.append(measure_scores(scores / math.sqrt(width), width))
    losses = []
    for scale in (1.0, None):
        with isolated_rng(seed):
            model = LookupModel(TRAINED_WIDTH, scale)
        losses.append(train_model(model, sample_pairs, steps=STEPS, seed=seed))
    return ScaleMeasurements(plain, divided, *losses)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    wide, wide_divided = found.unscaled[-1], found.scaled[-1]
    last, last_divided = (sum(x[-20:]) / 20 for x in (found.unscaled_losses, found.scaled_losses))
    lines = (
        f"The variance of q·k grows as the width: {found.unscaled[0].variance:.1f} at {WIDTHS[0]}, "
        f"{wide.variance:,.0f} at {wide.width:,}. Divided by √d_k it stays near 1.",
        f"So a softmax over {NUM_KEYS} keys of width {wide.width:,} leaves {wide.entropy:.2f} nats of "
        f"{math.log(NUM_KEYS):.2f} open ({wide_divided.entropy:.2f} divided), and answers a change of "
        f"what goes into it {wide_divided.jacobian_norm / wide.jacobian_norm:.1f} times less (the norm of "
        f"its Jacobian). From width {found.min_useful_width:,} on that is so; in narrower heads the "
        f"softmax is sharp, but not yet deaf ({found.widest_unaffected.entropy:.2f} nats at "
        f"{found.widest_unaffected.width}).",
        f"A look-up of width {TRAINED_WIDTH}, trained for {STEPS} steps: loss {last:.2f} without, "
        f"{last_divided:.2f} with.",
    )
    picture = line_chart(
        [
            Series("as they are", [(s.width, s.entropy) for s in found.unscaled]),
            Series("divided by √d_k", [(s.width, s.entropy) for s in found.scaled]),
        ],
        title=f"What a softmax over {NUM_KEYS} keys leaves open",
        x_label="width d_k",
        y_label="entropy, nats",
        log_x=True,
    )
    rows = [
        (str(a.width), *(f"{x:.3g}" for x in (a.variance, a.entropy, a.jacobian_norm)),
         *(f"{x:.3g}" for x in (b.variance, b.entropy, b.jacobian_norm)))
        for a, b in zip(found.unscaled, found.scaled, strict=True)
    ]  # fmt: skip
    measured = ("variance", "entropy", "gradient")
    head = ("d_k", *measured, *(f"{name} ÷√d_k" for name in measured))
    return Finding(
        QUESTIONS["scale"],
        lines,
        "queries and keys that are normed or learn to be small; a narrow head, whose scores are "
        "small anyway.",
        picture,
        head,
        rows,
    )
