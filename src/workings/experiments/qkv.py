"""What are queries, keys and values, and why do they exist?

`softmax(X Xᵀ) X` compares words by their own vectors and passes those vectors on. So each word
attends to similar words, to itself first of all, and the scores are symmetric. W_Q and W_K separate
what a word looks for from what it can be found by; W_V separates both from what it passes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import attend
from workings.experiments import QUESTIONS
from workings.experiments.base import (
    Finding,
    draw_losses,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.render.heatmap import heatmap
from workings.render.pictures import Picture, side_by_side
from workings.trace import Trace

CARDS, WIDTH = 8, 32
STEPS, LEARNING_RATE = 200, 5e-3
MAX_SYMMETRIC_ACCURACY = (CARDS - 1 + 1 / CARDS) / CARDS  # the bound if scores are symmetric
# The learned matrices of each variant. An equals sign: one matrix for both.
PROJECTIONS = {
    "X Xᵀ, X": "",
    "X Xᵀ, V": "v",
    "Q = K, V": "qv",
    "Q Kᵀ, X": "qk",
    "Q Kᵀ, V": "qkv",
}


@dataclass(frozen=True)
class ProjectionResult:
    """Attention trained with some of the three matrices."""

    projections: str
    losses: Sequence[float]
    accuracy: float
    mean_weights: Sequence[Sequence[float]]  # [query card, key card], by name, over many deals


class CardModel(nn.Module):
    """Cards with a name and a number; attention with a residual connection; one output per card."""

    def __init__(self, matrices: str) -> None:
        super().__init__()
        self.name_embedding = nn.Embedding(CARDS, WIDTH)
        self.number_embedding = nn.Embedding(CARDS, WIDTH)
        self.query, self.key, self.value = (
            self._build_projection(letter in matrices) for letter in "qkv"
        )
        if "k" not in matrices:
            self.key = self.query
        self.head = nn.Linear(WIDTH, CARDS)

    def forward(self, x: Int[Tensor, "batch cards"]) -> Float[Tensor, "batch cards numbers"]:
        """Return logits; a card is encoded as CARDS · name + number."""
        x = self.name_embedding(x // CARDS) + self.number_embedding(x % CARDS)
        logits: Tensor = self.head(x + attend(self.query(x), self.key(x), self.value(x)))
        return logits

    @staticmethod
    def _build_projection(is_learned: bool) -> nn.Module:
        return nn.Linear(WIDTH, WIDTH, bias=False) if is_learned else nn.Identity()


def deal_cards(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample shuffled cards, encoded as CARDS · name + number, and the numbers by name."""
    names = torch.rand(count, CARDS, generator=generator).argsort(-1)
    numbers = torch.randint(CARDS, (count, CARDS), generator=generator)
    return CARDS * names + numbers, torch.empty_like(numbers).scatter(1, names, numbers)


def sample_next_cards(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample shuffled cards; each card's target is the number on the card with the next name.

    The next name after the last is the first. So a card looks for one name, is found by another,
    and passes on its number.
    """
    cards, by_name = deal_cards(generator, count)
    return cards, by_name.gather(1, (cards // CARDS + 1) % CARDS)


@torch.no_grad()
def measure_mean_weights(model: CardModel, seed: int) -> list[list[float]]:
    """Return weights by the names of query and key card, averaged over many deals."""
    cards, _ = sample_next_cards(torch.Generator().manual_seed(seed), 200)
    with Trace() as trace:
        model(cards)
    order = (cards // CARDS).argsort(-1)  # the position of each name
    batch = torch.arange(len(cards))[:, None, None]
    weights = trace["weights"][batch, order[:, :, None], order[:, None, :]]
    return weights.mean(0).tolist()


def measure(seed: int = 1) -> dict[str, ProjectionResult]:
    """Train each variant of PROJECTIONS."""
    results = {}
    for name, matrices in PROJECTIONS.items():
        with isolated_rng(seed):
            model = CardModel(matrices)
        losses = train_model(
            model, sample_next_cards, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed
        )
        accuracy = measure_accuracy(model, sample_next_cards)
        results[name] = ProjectionResult(name, losses, accuracy, measure_mean_weights(model, seed))
    return results


def compute_self_weight(weights: Sequence[Sequence[float]]) -> float:
    """Return the mean weight that a card gives to itself."""
    return sum(weights[k][k] for k in range(CARDS)) / CARDS


def count_attending(result: ProjectionResult, offset: int) -> int:
    """Return how many cards give their largest weight to the card `offset` names after theirs."""
    return sum(row[(k + offset) % CARDS] == max(row) for k, row in enumerate(result.mean_weights))


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    results = measure(seed)
    plain, only_value, shared, no_value, full = results.values()
    lines = (
        f"Each of {CARDS} cards must output the number on the next card. Accuracy of "
        f"softmax(X Xᵀ) X: {plain.accuracy:.0%} (chance: {1 / CARDS:.0%}); a card gives "
        f"{compute_self_weight(plain.mean_weights):.0%} of its weight to itself. With W_V added: "
        f"{only_value.accuracy:.0%}.",
        f"With one matrix for queries and keys: {shared.accuracy:.0%}. Here "
        f"{count_attending(shared, 1)} cards attend to the next card and "
        f"{count_attending(shared, 0)} to themselves, the best match unless the next card's vector "
        f"is longer. It cannot exceed {MAX_SYMMETRIC_ACCURACY:.0%}: scores are symmetric, and "
        "would have to increase all the way around the circle of cards.",
        f"With W_Q and W_K, but no W_V: {no_value.accuracy:.0%}. The next card is found, but its "
        f"number cannot be told from the card's own. With all three: {full.accuracy:.0%}.",
    )
    rows = [
        (x.projections, f"{x.accuracy:.1%}", f"{compute_self_weight(x.mean_weights):.2f}")
        for x in results.values()
    ]
    return Finding(
        QUESTIONS["qkv"],
        lines,
        "a task in which similar words attend to each other, such as words of one topic; no "
        "residual connection, where the layer after attention does W_V's work.",
        _draw_picture(results),
        ("scores, values", "accuracy", "weight on itself"),
        rows,
    )


def _draw_picture(results: Mapping[str, ProjectionResult]) -> Picture:
    plain, _, shared, _, full = results.values()
    losses = draw_losses(
        {x.projections: x.losses for x in results.values()}, "The number on the next card"
    )
    names = [chr(ord("A") + k) for k in range(CARDS)]
    maps = [
        heatmap(
            result.mean_weights,
            title=title,
            x_label="key",
            y_label="query (framed: the next card)",
            framed_cells=[*pairwise(range(CARDS)), (CARDS - 1, 0)],
            row_names=names,
            column_names=names,
            max_value=1.0,
            width=270,
        )
        for title, result in (("X Xᵀ", plain), ("Q = K", shared), ("Q Kᵀ", full))
    ]
    title = "To look for one thing, be found by another, and pass on a third"
    return side_by_side([losses, *maps], title)
