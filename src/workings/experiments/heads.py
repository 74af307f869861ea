"""Why several heads, and why is each of them narrow?

A head has one softmax: it can attend to one position, or average over two. Several heads attend to
several positions at once and keep the results separate. If each has only a share of the width,
together they cost as much as one wide head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from workings.experiments import QUESTIONS
from workings.experiments.base import (
    Finding,
    count_parameters,
    draw_losses,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.experiments.qkv import CARDS, deal_cards
from workings.layers.attention import MultiHeadAttention
from workings.render.chart import Series, line_chart
from workings.render.heatmap import heatmap
from workings.render.pictures import Picture, side_by_side
from workings.trace import Trace

WIDTH = 32
STEPS, LEARNING_RATE = 200, 5e-3
HEADS = (1, 2, 4, 8)
COST_WIDTH, COST_TOKENS = 256, 64  # of the layers whose cost is counted
NUM_SHOWN = 3  # head counts in the heat map


@dataclass(frozen=True)
class HeadCountResult:
    """A model with a number of heads, and what each head attends to."""

    heads: int
    losses: Sequence[float]
    accuracy: float
    # [head, (first queried card, second queried card, all other cards)]
    attention_shares: Sequence[Sequence[float]]


@dataclass(frozen=True)
class LayerCost:
    """Operations and parameters of an attention layer."""

    heads: int
    flops: int
    num_parameters: int


@dataclass(frozen=True)
class HeadMeasurements:
    """Training results, and the cost of heads that share the width and of full-width heads."""

    results: Sequence[HeadCountResult]
    narrow: Sequence[LayerCost]
    wide: Sequence[LayerCost]


class TwoLookupModel(nn.Module):
    """Attention over cards with names and numbers, with one query for two names."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.name_embedding, self.number_embedding, self.first_embedding, self.second_embedding = (
            nn.Embedding(CARDS, WIDTH) for _ in range(4)
        )
        self.attention = MultiHeadAttention(WIDTH, heads)
        self.head = nn.Linear(WIDTH, 2 * CARDS)

    def forward(self, x: Int[Tensor, "batch symbols"]) -> Float[Tensor, "batch 2 numbers"]:
        """Return logits of both numbers; `x` holds the cards and the two names to look up."""
        names, numbers = x[:, :CARDS] // CARDS, x[:, :CARDS] % CARDS
        cards = self.name_embedding(names) + self.number_embedding(numbers)
        query = self.first_embedding(x[:, -2:-1]) + self.second_embedding(x[:, -1:])
        logits: Tensor = self.head(self.attention(query, cards))
        return logits.view(-1, 2, CARDS)


class WideHeads(nn.Module):
    """Heads that are each as wide as the model, summed."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(MultiHeadAttention(width, 1) for _ in range(heads))

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """Return the sum of all heads' outputs."""
        return torch.stack([head(x) for head in self.heads]).sum(0)


def sample_two_lookups(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample shuffled cards and two of their names; the targets are the numbers on those cards."""
    cards, by_name = deal_cards(generator, count)
    queried = torch.rand(count, CARDS, generator=generator).argsort(-1)[:, :2]
    return torch.cat([cards, queried], 1), by_name.gather(1, queried)


@torch.no_grad()
def measure_attention_shares(model: TwoLookupModel, seed: int) -> list[list[float]]:
    """Return each head's mean weight on the first and second queried card and on the others."""
    x, _ = sample_two_lookups(torch.Generator().manual_seed(seed), 200)
    with Trace() as trace:
        model(x)
    weights = trace["attention.weights"].squeeze(2)  # [batch, heads, cards]
    is_queried = x[:, None, :CARDS] // CARDS == x[:, -2:, None]  # [batch, 2, cards]
    shares = torch.einsum("bhc,bac->ha", weights, is_queried.float()) / len(x)
    return torch.cat([shares, 1 - shares.sum(1, keepdim=True)], 1).tolist()


@torch.no_grad()
def measure_cost(heads: int, layer: nn.Module) -> LayerCost:
    """Count the operations and parameters of a layer."""
    # The trace disables the fused kernel, whose operations torch does not count.
    with Trace(), FlopCounterMode(display=False) as counter:
        layer(torch.zeros(1, COST_TOKENS, COST_WIDTH))
    return LayerCost(heads, counter.get_total_flops(), count_parameters(layer))


def measure(seed: int = 1, heads: Sequence[int] = HEADS) -> HeadMeasurements:
    """Train a model for each number of heads, and count the cost of each."""
    results = []
    for count in heads:
        with isolated_rng(seed):
            model = TwoLookupModel(count)
        losses = train_model(
            model, sample_two_lookups, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed
        )
        accuracy = measure_accuracy(model, sample_two_lookups)
        shares = measure_attention_shares(model, seed)
        results.append(HeadCountResult(count, losses, accuracy, shares))
    with isolated_rng(seed):
        narrow = [measure_cost(count, MultiHeadAttention(COST_WIDTH, count)) for count in heads]
        wide = [measure_cost(count, WideHeads(COST_WIDTH, count)) for count in heads]
    return HeadMeasurements(results, narrow, wide)


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    result = measure(seed)
    one, two, *_ = result.results
    first, second, _ = one.attention_shares[0]
    (narrow_flops, narrow_parameters), (wide_flops, wide_parameters) = (
        (costs[-1].flops / costs[0].flops, costs[-1].num_parameters / costs[0].num_parameters)
        for costs in (result.narrow, result.wide)
    )
    lines = (
        f"Two lookups at once: one head of width {WIDTH} has an accuracy of {one.accuracy:.0%}, "
        f"two of width {WIDTH // 2} have {two.accuracy:.0%}.",
        f"The single head gives {first:.0%} of its weight to the first queried card and "
        f"{second:.0%} to the second: what one gets, the other does not. Of the two, one gives "
        f"{max(head[0] for head in two.attention_shares):.0%} to the first, one "
        f"{max(head[1] for head in two.attention_shares):.0%} to the second.",
        f"{HEADS[-1]} heads that share a width of {COST_WIDTH} take {narrow_flops:.2f} times the "
        f"operations of one, and {narrow_parameters:.2f} times its parameters; if each is as wide "
        f"as the model, {wide_flops:.2f} and {wide_parameters:.2f} times.",
    )
    rows = [
        (str(x.heads), f"{x.accuracy:.1%}", *_format_cost(narrow), *_format_cost(wide))
        for x, narrow, wide in zip(result.results, result.narrow, result.wide, strict=True)
    ]
    return Finding(
        QUESTIONS["heads"],
        lines,
        "one lookup at a time, for which one head is enough; a second layer, which can do the "
        "other lookup; heads of width 1, whose keys can hardly differ.",
        _draw_picture(result),
        ("heads", "accuracy", "Mflop", "parameters", "wide: Mflop", "wide: parameters"),
        rows,
    )


def _draw_picture(result: HeadMeasurements) -> Picture:
    rows_to_show = result.results[:NUM_SHOWN]
    losses = draw_losses(
        {_format_head_count(x.heads): x.losses for x in result.results}, "Two lookups at once"
    )
    shares = heatmap(
        [head for x in rows_to_show for head in x.attention_shares],
        title="What each head attends to",
        x_label="card",
        y_label="head",
        row_names=[f"{k + 1} of {x.heads}" for x in rows_to_show for k in range(x.heads)],
        column_names=("first query", "second", "the others"),
        max_value=1.0,
        width=340,
    )
    costs = line_chart(
        [
            Series("wide", [(x.heads, x.flops / 1e6) for x in result.wide]),
            Series("narrow", [(x.heads, x.flops / 1e6) for x in result.narrow]),
        ],
        title="The cost of heads",
        x_label="heads, as wide as the model or sharing its width",
        y_label=f"million operations, width {COST_WIDTH}, {COST_TOKENS} tokens",
        width=420,
    )
    return side_by_side([losses, shares, costs], "Several narrow heads at the cost of one")


def _format_head_count(heads: int) -> str:
    return "1 head" if heads == 1 else f"{heads} heads"


def _format_cost(cost: LayerCost) -> tuple[str, str]:
    return f"{cost.flops / 1e6:.1f}", f"{cost.num_parameters:,}"
