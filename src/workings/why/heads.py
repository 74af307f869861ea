"""Why several heads, and why is each of them narrow?

A head has one softmax: it can look in one place, or blur two. Heads side by side look in several
places at once and keep what they found apart. Cut to a share of the width each, they cost together
what one wide head costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from workings.layers.multi_head import MultiHeadAttention
from workings.trace import Trace
from workings.views.chart import Series, line_chart
from workings.views.heat import heat_map
from workings.views.panels import side_by_side
from workings.why import QUESTIONS
from workings.why.curves import loss_chart
from workings.why.finding import Finding
from workings.why.learning import accuracy, learn, seeded
from workings.why.qkv import CARDS, deal

WIDTH = 32
STEPS, RATE = 200, 5e-3
HEADS = (1, 2, 4, 8)
COSTLY, TOKENS = 256, 64  # the width, and the length, whose cost is measured


@dataclass(frozen=True)
class Learned:
    """What so many heads learn, and where each looks."""

    heads: int
    losses: Sequence[float]
    right: float
    looks: Sequence[Sequence[float]]  # of each head: at what is asked first, second; elsewhere


@dataclass(frozen=True)
class Cost:
    """What so many heads of one width take."""

    heads: int
    operations: int
    parameters: int


@dataclass(frozen=True)
class Measured:
    """Learning, and the cost with heads that share the width and with heads as wide as it."""

    learned: Sequence[Learned]
    narrow: Sequence[Cost]
    wide: Sequence[Cost]


class TwoQuestions(nn.Module):
    """Cards with names and numbers, two names in one question: attention, and two answers."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.names, self.numbers, self.first, self.second = (
            nn.Embedding(CARDS, WIDTH) for _ in range(4)
        )
        self.attention = MultiHeadAttention(WIDTH, heads)
        self.head = nn.Linear(WIDTH, 2 * CARDS)

    def forward(self, x: Int[Tensor, "batch symbols"]) -> Float[Tensor, "batch 2 numbers"]:
        """Read the cards, each as CARDS · name + number, and the two names that are asked for."""
        cards = self.names(x[:, :CARDS] // CARDS) + self.numbers(x[:, :CARDS] % CARDS)
        asked = self.first(x[:, -2:-1]) + self.second(x[:, -1:])
        out: Tensor = self.head(self.attention(asked, cards))
        return out.view(-1, 2, CARDS)


class WideHeads(nn.Module):
    """Heads that are each as wide as the model, added up."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(MultiHeadAttention(width, 1) for _ in range(heads))

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """Let each look, and add what they found."""
        return torch.stack([head(x) for head in self.heads]).sum(0)


def two_questions(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw shuffled cards and two of their names: which numbers are on those?"""
    cards, by_name = deal(generator, count)
    asked = torch.rand(count, CARDS, generator=generator).argsort(-1)[:, :2]
    return torch.cat([cards, asked], 1), by_name.gather(1, asked)


@torch.no_grad()
def looks(model: TwoQuestions, seed: int) -> list[list[float]]:
    """How much each head looks at the first card that is asked for, the second, the others."""
    x, _ = two_questions(torch.Generator().manual_seed(seed), 200)
    with Trace() as trace:
        model(x)
    weights = trace["attention.weights"].squeeze(2)  # [batch, heads, cards]
    asked = x[:, None, :CARDS] // CARDS == x[:, -2:, None]  # [batch, 2, cards]
    on_asked = torch.einsum("bhc,bac->ha", weights, asked.float()) / len(x)
    return torch.cat([on_asked, 1 - on_asked.sum(1, keepdim=True)], 1).tolist()


@torch.no_grad()
def cost(heads: int, layer: nn.Module) -> Cost:
    """Count what a layer does with a text."""
    # Traced, since torch does not count what its fused kernel does.
    with Trace(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, TOKENS, COSTLY))
    return Cost(heads, counter.get_total_flops(), sum(p.numel() for p in layer.parameters()))


def measure(seed: int = 1, heads: Sequence[int] = HEADS) -> Measured:
    """Train with each number of heads, and count what they cost."""
    learned = []
    for count in heads:
        with seeded(seed):
            model = TwoQuestions(count)
        losses = learn(model, two_questions, steps=STEPS, rate=RATE, seed=seed)
        right = accuracy(model, two_questions)
        learned.append(Learned(count, losses, right, looks(model, seed)))
    with seeded(seed):
        narrow = [cost(count, MultiHeadAttention(COSTLY, count)) for count in heads]
        wide = [cost(count, WideHeads(COSTLY, count)) for count in heads]
    return Measured(learned, narrow, wide)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    one, two, *_ = found.learned
    narrow, wide = found.narrow, found.wide
    first, second, _ = one.looks[0]
    lines = (
        f"Two look-ups at once: one head of width {WIDTH} is right in {one.right:.0%} of answers, "
        f"two of width {WIDTH // 2} in {two.right:.0%}.",
        f"The one head gives {first:.0%} of its weight to the card that is asked for first and "
        f"{second:.0%} to the second: what one gets, the other does not. Of the two, one gives "
        f"{max(head[0] for head in two.looks):.0%} to the first, one "
        f"{max(head[1] for head in two.looks):.0%} to the second.",
        f"{HEADS[-1]} heads that share a width of {COSTLY} take "
        f"{narrow[-1].operations / narrow[0].operations:.2f} times the operations of one, and "
        f"{narrow[-1].parameters / narrow[0].parameters:.2f} times its parameters; each as wide as "
        f"the model, {wide[-1].operations / wide[0].operations:.2f} and "
        f"{wide[-1].parameters / wide[0].parameters:.2f} times.",
    )
    names = [f"{k + 1} of {x.heads}" for x in found.learned[:3] for k in range(x.heads)]
    pictures = [
        loss_chart({_named(x.heads): x.losses for x in found.learned}, "Two look-ups at once"),
        heat_map(
            [head for x in found.learned[:3] for head in x.looks],
            title="Where each head looks", x_label="card", y_label="head", rows=names,
            columns=("asked first", "second", "the others"), most=1.0, width=340,
        ),
        line_chart(
            [
                Series("wide", [(x.heads, x.operations / 1e6) for x in wide]),
                Series("narrow", [(x.heads, x.operations / 1e6) for x in narrow]),
            ],
            title="What heads cost", x_label="heads, as wide as the model or sharing it",
            y_label=f"million operations, width {COSTLY}, {TOKENS} tokens", width=420,
        ),
    ]  # fmt: skip
    rows = [
        (str(x.heads), f"{x.right:.1%}", *_cells(a), *_cells(b))
        for x, a, b in zip(found.learned, narrow, wide, strict=True)
    ]
    return Finding(
        QUESTIONS["heads"],
        lines,
        "one look-up at a time, for which one head is enough; a second layer, which can look for "
        "the other thing; heads of width 1, whose keys have hardly room to differ.",
        side_by_side(pictures, "Several narrow heads for the price of one"),
        ("heads", "right", "Mflop", "parameters", "wide: Mflop", "wide: parameters"),
        rows,
    )


def _named(heads: int) -> str:
    return "1 head" if heads == 1 else f"{heads} heads"


def _cells(cost: Cost) -> tuple[str, str]:
    return f"{cost.operations / 1e6:.1f}", f"{cost.parameters:,}"
