"""What are queries, keys and values, and why do they exist?

`softmax(X Xᵀ) X` compares words by what they are and hands on what they are. So a word looks at
what is like it, itself first of all, and whom it looks at looks back. W_Q and W_K part what a word
looks for from what it is found by; W_V parts both from what it hands on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import attend
from workings.experiments import QUESTIONS
from workings.experiments.curves import draw_losses
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng, measure_accuracy, train_model
from workings.render.heatmap import heatmap
from workings.render.pictures import side_by_side
from workings.trace import Trace

CARDS, WIDTH = 8, 32
STEPS, LEARNING_RATE = 200, 5e-3
MAX_SYMMETRIC_ACCURACY = (CARDS - 1 + 1 / CARDS) / CARDS  # with scores that are the same both ways
# Which matrices there are. An equals sign: one matrix for both.
PROJECTIONS = {
    "X Xᵀ, X": "",
    "X Xᵀ, V": "v",
    "Q = K, V": "qv",
    "Q Kᵀ, X": "qk",
    "Q Kᵀ, V": "qkv",
}


@dataclass(frozen=True)
class ProjectionResult:
    """What attention learns with some of the matrices."""

    projections: str
    losses: Sequence[float]
    accuracy: float
    mean_weights: Sequence[Sequence[float]]  # how much each card looks at each, by name, on average


class CardModel(nn.Module):
    """Cards with a name and a number each; attention beside a residual path; an answer a card."""

    def __init__(self, matrices: str) -> None:
        super().__init__()
        self.name_embedding, self.number_embedding = (
            nn.Embedding(CARDS, WIDTH),
            nn.Embedding(CARDS, WIDTH),
        )
        self.query, self.key, self.value = (
            self._build_projection(which in matrices) for which in "qkv"
        )
        if "k" not in matrices:
            self.key = self.query
        self.head = nn.Linear(WIDTH, CARDS)

    def forward(self, x: Int[Tensor, "batch cards"]) -> Float[Tensor, "batch cards numbers"]:
        """Read cards, each as CARDS · name + number."""
        x = self.name_embedding(x // CARDS) + self.number_embedding(x % CARDS)
        out: Tensor = self.head(x + attend(self.query(x), self.key(x), self.value(x)))
        return out

    @staticmethod
    def _build_projection(is_learned: bool) -> nn.Module:
        return nn.Linear(WIDTH, WIDTH, bias=False) if is_learned else nn.Identity()


def deal_cards(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw shuffled cards, each as CARDS · name + number; and the numbers by name."""
    names = torch.rand(count, CARDS, generator=generator).argsort(-1)
    numbers = torch.randint(CARDS, (count, CARDS), generator=generator)
    return CARDS * names + numbers, torch.empty_like(numbers).scatter(1, names, numbers)


def sample_next_cards(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw shuffled cards: which number is on the card of the next name, after the last the first?

    A card looks for one name, is found by another, and hands on a third thing.
    """
    cards, by_name = deal_cards(generator, count)
    return cards, by_name.gather(1, (cards // CARDS + 1) % CARDS)


@torch.no_grad()
def measure_mean_weights(model: CardModel, seed: int) -> list[list[float]]:
    """Sort weights by the names of who looks and who is looked at; the mean over many deals."""
    dealt, _ = sample_next_cards(torch.Generator().manual_seed(seed), 200)
    with Trace() as trace:
        model(dealt)
    order = (dealt // CARDS).argsort(-1)  # where each name lies
    deal = torch.arange(len(dealt))[:, None, None]
    weights = trace["weights"][deal, order[:, :, None], order[:, None, :]]
    return weights.mean(0).tolist()


def measure(seed: int = 1) -> dict[str, ProjectionResult]:
    """Train with each choice of matrices."""
    learned = {}
    for way, matrices in PROJECTIONS.items():
        with isolated_rng(seed):
            model = CardModel(matrices)
        losses = train_model(
            model, sample_next_cards, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed
        )
        learned[way] = ProjectionResult(
            way,
            losses,
            measure_accuracy(model, sample_next_cards),
            measure_mean_weights(model, seed),
        )
    return learned


def compute_self_weight(weights: Sequence[Sequence[float]]) -> float:
    """The share of the weights that cards give to themselves."""
    return sum(weights[k][k] for k in range(CARDS)) / CARDS


def count_attending(result: ProjectionResult, offset: int) -> int:
    """How many cards look most at the one so many names after their own."""
    both = ((row, (k + offset) % CARDS) for k, row in enumerate(result.mean_weights))
    return sum(row[name] == max(row) for row, name in both)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    plain, only_value, shared, no_value, whole = found.values()
    lines = (
        f"Each of {CARDS} cards must give the number on the next card. softmax(X Xᵀ) X: "
        f"{plain.accuracy:.0%} right (guessing: {1 / CARDS:.0%}); cards give themselves "
        f"{compute_self_weight(plain.mean_weights):.0%} of their weight. With W_V besides: "
        f"{only_value.accuracy:.0%}.",
        f"With one matrix for queries and keys, {shared.accuracy:.0%}: here {count_attending(shared, 1)} "
        f"cards look at the next, {count_attending(shared, 0)} at themselves, who fit best unless the "
        f"next one's vector is longer. More than {MAX_SYMMETRIC_ACCURACY:.0%} is never reached: scores are the "
        "same both ways, and would have to rise all round the circle.",
        f"With W_Q and W_K, but no W_V, {no_value.accuracy:.0%}: the next card is found, but its "
        f"number cannot be told from one's own. With all three: {whole.accuracy:.0%}.",
    )
    charts = [
        draw_losses(
            {x.projections: x.losses for x in found.values()}, "The number on the next card"
        )
    ]
    framed = [*pairwise(range(CARDS)), (CARDS - 1, 0)]
    names = [chr(ord("A") + k) for k in range(CARDS)]
    charts += [
        heatmap(
            one.mean_weights, title=title, x_label="is looked at", y_label="looks (framed: the next card)",
            framed_cells=framed, row_names=names, column_names=names, max_value=1.0, width=270,
        )
        for title, one in (("X Xᵀ", plain), ("Q = K", shared), ("Q Kᵀ", whole))
    ]  # fmt: skip
    rows = [
        (x.projections, f"{x.accuracy:.1%}", f"{compute_self_weight(x.mean_weights):.2f}")
        for x in found.values()
    ]
    return Finding(
        QUESTIONS["qkv"],
        lines,
        "a task in which like looks at like, such as words of one topic; no residual path, where "
        "the layer after attention does W_V's work.",
        side_by_side(charts, "To look for one thing, be found by another, hand on a third"),
        ("scores, values", "right", "weight on itself"),
        rows,
    )
