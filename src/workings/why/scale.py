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
from workings.views.chart import Series, line_chart
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import learn, seeded

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEYS = 64
QUERIES = 512
SYMBOLS, PAIRS = 16, 8  # of the look-up that is learned
STEPS, TRAINED_WIDTH = 200, 256


@dataclass(frozen=True)
class Spread:
    """What scores of one width do to the softmax over them."""

    width: int
    variance: float
    entropy: float  # nats; log(KEYS) is the most
    gradient: float  # the norm of the softmax's Jacobian


@dataclass(frozen=True)
class Measured:
    """Scores as they are and divided, by width, and what a model learns with each."""

    plain: Sequence[Spread]
    divided: Sequence[Spread]
    plain_losses: Sequence[float]
    divided_losses: Sequence[float]

    @property
    def pays_from(self) -> int:
        """The least of the widths from which on dividing leaves the larger gradient."""
        both = zip(self.plain, self.divided, strict=True)
        losing = [plain.width for plain, divided in both if divided.gradient <= plain.gradient]
        return min(w for w in WIDTHS if w > max(losing, default=0))

    @property
    def last_sharp(self) -> Spread:
        """The scores as they are of the width before that."""
        return self.plain[max(WIDTHS.index(self.pays_from) - 1, 0)]


def spread(scores: Float[Tensor, "queries keys"], width: int) -> Spread:
    """Measure scores, and what a softmax makes of them."""
    weights = scores.softmax(-1)
    entropy = torch.special.entr(weights).sum(-1).mean()
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    norm = torch.linalg.matrix_norm(jacobian).mean()
    return Spread(width, scores.var().item(), entropy.item(), norm.item())


class LookUp(nn.Module):
    """Pairs of symbols and a question: attention finds the pair whose first is asked for."""

    def __init__(
        self, width: int, scale: float | None = None, normalizer: Normalizer = "softmax"
    ) -> None:
        super().__init__()
        self.firsts, self.seconds, self.asked = (nn.Embedding(SYMBOLS, width) for _ in range(3))
        self.head = nn.Linear(width, SYMBOLS)
        self.scale, self.normalizer = scale, normalizer

    def forward(self, x: Int[Tensor, "batch symbols"]) -> Float[Tensor, "batch classes"]:
        """Read all firsts, then all seconds, and the first that is asked for."""
        firsts, seconds = x[:, :-1].chunk(2, 1)
        query, key, value = self.asked(x[:, -1:]), self.firsts(firsts), self.seconds(seconds)
        mixed = attend(query, key, value, scale=self.scale, normalizer=self.normalizer)
        scores: Tensor = self.head(mixed.squeeze(1))
        return scores


def pairs(generator: torch.Generator, count: int, pairs: int = PAIRS) -> tuple[Tensor, Tensor]:
    """Draw pairs with firsts that differ, a first to ask for, and its second."""
    firsts = torch.rand(count, SYMBOLS, generator=generator).argsort(-1)[:, :pairs]
    seconds = torch.randint(SYMBOLS, (count, pairs), generator=generator)
    place = torch.randint(pairs, (count, 1), generator=generator)
    return torch.cat([firsts, seconds, firsts.gather(1, place)], 1), seconds.gather(1, place)[:, 0]


def measure(seed: int = 1) -> Measured:
    """Draw queries and keys of every width, and train the look-up with and without dividing."""
    generator = torch.Generator().manual_seed(seed)
    plain, divided = [], []
    for width in WIDTHS:
        query = torch.randn(QUERIES, width, generator=generator)
        key = torch.randn(KEYS, width, generator=generator)
        scores = query @ key.T
        plain.append(spread(scores, width))
        divided.append(spread(scores / math.sqrt(width), width))
    losses = []
    for scale in (1.0, None):
        with seeded(seed):
            model = LookUp(TRAINED_WIDTH, scale)
        losses.append(learn(model, pairs, steps=STEPS, seed=seed))
    return Measured(plain, divided, *losses)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    wide, wide_divided = found.plain[-1], found.divided[-1]
    last, last_divided = (sum(x[-20:]) / 20 for x in (found.plain_losses, found.divided_losses))
    lines = (
        f"The variance of q·k grows as the width: {found.plain[0].variance:.1f} at {WIDTHS[0]}, "
        f"{wide.variance:,.0f} at {wide.width:,}. Divided by √d_k it stays near 1.",
        f"So a softmax over {KEYS} keys of width {wide.width:,} leaves {wide.entropy:.2f} nats of "
        f"{math.log(KEYS):.2f} open ({wide_divided.entropy:.2f} divided), and answers a change of "
        f"what goes into it {wide_divided.gradient / wide.gradient:.1f} times less (the norm of "
        f"its Jacobian). From width {found.pays_from:,} on that is so; in narrower heads the "
        f"softmax is sharp, but not yet deaf ({found.last_sharp.entropy:.2f} nats at "
        f"{found.last_sharp.width}).",
        f"A look-up of width {TRAINED_WIDTH}, trained for {STEPS} steps: loss {last:.2f} without, "
        f"{last_divided:.2f} with.",
    )
    picture = line_chart(
        [
            Series("as they are", [(s.width, s.entropy) for s in found.plain]),
            Series("divided by √d_k", [(s.width, s.entropy) for s in found.divided]),
        ],
        title=f"What a softmax over {KEYS} keys leaves open",
        x_label="width d_k",
        y_label="entropy, nats",
        log_x=True,
    )
    rows = [
        (str(a.width), *(f"{x:.3g}" for x in (a.variance, a.entropy, a.gradient)),
         *(f"{x:.3g}" for x in (b.variance, b.entropy, b.gradient)))
        for a, b in zip(found.plain, found.divided, strict=True)
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
