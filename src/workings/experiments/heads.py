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

from workings.experiments import QUESTIONS
from workings.experiments.curves import draw_losses
from workings.experiments.finding import Finding
from workings.experiments.qkv import CARDS, deal_cards
from workings.experiments.toy_training import isolated_rng, measure_accuracy, train_model
from workings.layers.attention import MultiHeadAttention
from workings.render.chart import Series, line_chart
from workings.render.heatmap import heatmap
from workings.render.pictures import side_by_side
from workings.trace import Trace

WIDTH = 32
STEPS, LEARNING_RATE = 200, 5e-3
HEADS = (1, 2, 4, 8)
COST_WIDTH, COST_TOKENS = 256, 64  # the width, and the length, whose cost is measured


@dataclass(frozen=True)
class HeadCountResult:
    """What so many heads learn, and where each looks."""

    heads: int
    losses: Sequence[float]
    accuracy: float
    attention_shares: Sequence[
        Sequence[float]
    ]  # of each head: at what is asked first, second; elsewhere


@dataclass(frozen=True)
class LayerCost:
    """What so many heads of one width take."""

    heads: int
    flops: int
    num_parameters: int


@dataclass(frozen=True)
class HeadMeasurements:
    """Learning, and the cost with heads that share the width and with heads as wide as it."""

    results: Sequence[HeadCountResult]
    narrow: Sequence[LayerCost]
    wide: Sequence[LayerCost]


class TwoLookupModel(nn.Module):
    """Cards with names and numbers, two names in one question: attention, and two answers."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.name_embedding, self.number_embedding, self.first_embedding, self.second_embedding = (
            nn.Embedding(CARDS, WIDTH) for _ in range(4)
        )
        self.attention = MultiHeadAttention(WIDTH, heads)
        self.head = nn.Linear(WIDTH, 2 * CARDS)

    def forward(self, x: Int[Tensor, "batch symbols"]) -> Float[Tensor, "batch 2 numbers"]:
        """Read the cards, each as CARDS · name + number, and the two names that are asked for."""
        cards = self.name_embedding(x[:, :CARDS] // CARDS) + self.number_embedding(
            x[:, :CARDS] % CARDS
        )
        asked = self.first_embedding(x[:, -2:-1]) + self.second_embedding(x[:, -1:])
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


def sample_two_lookups(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw shuffled cards and two of their names: which numbers are on those?"""
    cards, by_name = deal_cards(generator, count)
    asked = torch.rand(count, CARDS, generator=generator).argsort(-1)[:, :2]
    return torch.cat([cards, asked], 1), by_name.gather(1, asked)


@torch.no_grad()
def measure_attention_shares(model: TwoLookupModel, seed: int) -> list[list[float]]:
    """How much each head looks at the first card that is asked for, the second, the others."""
    x, _ = sample_two_lookups(torch.Generator().manual_seed(seed), 200)
    with Trace() as trace:
        model(x)
    weights = trace["attention.weights"].squeeze(2)  # [batch, heads, cards]
    asked = x[:, None, :CARDS] // CARDS == x[:, -2:, None]  # [batch, 2, cards]
    on_asked = torch.einsum("bhc,bac->ha", weights, asked.float()) / len(x)
    return torch.cat([on_asked, 1 - on_asked.sum(1, keepdim=True)], 1).tolist()


@torch.no_grad()
def measure_cost(heads: int, layer: nn.Module) -> LayerCost:
    """Count what a layer does with a text."""
    # Traced, since torch does not count what its fused kernel does.
    with Trace(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, COST_TOKENS, COST_WIDTH))
    return LayerCost(heads, counter.get_total_flops(), sum(p.numel() for p in layer.parameters()))


def measure(seed: int = 1, heads: Sequence[int] = HEADS) -> HeadMeasurements:
    """Train with each number of heads, and count what they cost."""
    learned = []
    for count in heads:
        with isolated_rng(seed):
            model = TwoLookupModel(count)
        losses = train_model(
            model, sample_two_lookups, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed
        )
        right = measure_accuracy(model, sample_two_lookups)
        learned.append(HeadCountResult(count, losses, right, measure_attention_shares(model, seed)))
    with isolated_rng(seed):
        narrow = [measure_cost(count, MultiHeadAttention(COST_WIDTH, count)) for count in heads]
        wide = [measure_cost(count, WideHeads(COST_WIDTH, count)) for count in heads]
    return HeadMeasurements(learned, narrow, wide)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    one, two, *_ = found.results
    narrow, wide = found.narrow, found.wide
    first, second, _ = one.attention_shares[0]
    lines = (
        f"Two look-ups at once: one head of width {WIDTH} is right in {one.accuracy:.0%} of answers, "
        f"two of width {WIDTH // 2} in {two.accuracy:.0%}.",
        f"The one head gives {first:.0%} of its weight to the card that is asked for first and "
        f"{second:.0%} to the second: what one gets, the other does not. Of the two, one gives "
        f"{max(head[0] for head in two.attention_shares):.0%} to the first, one "
        f"{max(head[1] for head in two.attention_shares):.0%} to the second.",
        f"{HEADS[-1]} heads that share a width of {COST_WIDTH} take "
        f"{narrow[-1].flops / narrow[0].flops:.2f} times the operations of one, and "
        f"{narrow[-1].num_parameters / narrow[0].num_parameters:.2f} times its parameters; each as wide as "
        f"the model, {wide[-1].flops / wide[0].flops:.2f} and "
        f"{wide[-1].num_parameters / wide[0].num_parameters:.2f} times.",
    )
    names = [f"{k + 1} of {x.heads}" for x in found.results[:3] for k in range(x.heads)]
    pictures = [
        draw_losses({_format_head_count(x.heads): x.losses for x in found.results}, "Two look-ups at once"),
        heatmap(
            [head for x in found.results[:3] for head in x.attention_shares],
            title="Where each head looks", x_label="card", y_label="head", row_names=names,
            column_names=("asked first", "second", "the others"), max_value=1.0, width=340,
        ),
        line_chart(
            [
                Series("wide", [(x.heads, x.flops / 1e6) for x in wide]),
                Series("narrow", [(x.heads, x.flops / 1e6) for x in narrow]),
            ],
            title="What heads cost", x_label="heads, as wide as the model or sharing it",
            y_label=f"million operations, width {COST_WIDTH}, {COST_TOKENS} tokens", width=420,
        ),
    ]  # fmt: skip
    rows = [
        (str(x.heads), f"{x.accuracy:.1%}", *_format_cost(a), *_format_cost(b))
        for x, a, b in zip(found.results, narrow, wide, strict=True)
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


def _format_head_count(heads: int) -> str:
    return "1 head" if heads == 1 else f"{heads} heads"


def _format_cost(cost: LayerCost) -> tuple[str, str]:
    return f"{cost.flops / 1e6:.1f}", f"{cost.num_parameters:,}"
