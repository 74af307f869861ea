"""What is the core of self-attention?

A fixed mixing, a linear layer or a perceptron over the whole sentence, has a weight for each place
that it keeps whatever is said. Attention works its weights out from the words themselves. So where
the word that matters moves, attention moves along.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import attend
from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import (
    ExampleSampler,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.render.chart import Series, line_chart
from workings.render.heatmap import heatmap
from workings.render.pictures import side_by_side
from workings.trace import Trace

WORDS, SYMBOLS, WIDTH = 16, 16, 32
POSITION_COUNTS = (1, 2, 4, 8, 16)  # how many places the word that matters may have
HALF = WORDS // 2
NUM_SHOWN = 8  # sentences in the picture
STEPS, LEARNING_RATE = 200, 5e-3


@dataclass(frozen=True)
class MixingResult:
    """What a way of mixing words learns, by how many places the word that matters may have."""

    num_parameters: int
    accuracy: Sequence[float]  # for each of MOVES
    transfer_accuracy: float  # learned with the word in the first half, asked with it in the second


@dataclass(frozen=True)
class CoreMeasurements:
    """The ways of mixing, and what each weighs by in a few sentences."""

    attention: MixingResult
    linear: MixingResult
    perceptron: MixingResult
    marked_positions: Sequence[int]  # of the marked word in each sentence that is shown
    attention_weights: Sequence[Sequence[float]]  # attention's weights there
    linear_weights: Sequence[float]  # the share of each place in the linear layer's weights


def make_marked_sampler(num_positions: int, first: int = 0) -> ExampleSampler:
    """Draw sentences with one word marked, at one of so many places from `first` on: which is it?

    A word is a symbol, and SYMBOLS more where it is marked.
    """

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        words = torch.randint(SYMBOLS, (count, WORDS), generator=generator)
        place = torch.randint(first, first + num_positions, (count, 1), generator=generator)
        asked = words.gather(1, place)
        return words.scatter(1, place, asked + SYMBOLS), asked.squeeze(1)

    return draw


class MarkedWordClassifier(nn.Module):
    """Words as vectors, mixed into one, read off by a linear layer."""

    def __init__(self, mixing: nn.Module) -> None:
        super().__init__()
        self.symbol_embedding, self.mark_embedding = (
            nn.Embedding(SYMBOLS, WIDTH),
            nn.Embedding(2, WIDTH),
        )
        self.mixing = mixing
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch symbols"]:
        """A vector is the sum of what the word is and whether it is marked."""
        out: Tensor = self.head(
            self.mixing(self.symbol_embedding(x % SYMBOLS) + self.mark_embedding(x // SYMBOLS))
        )
        return out


class AttentionMixing(nn.Module):
    """Weights from the input: one query, the same for every sentence, over keys of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, WIDTH))
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Float[Tensor, "batch words width"]) -> Float[Tensor, "batch width"]:
        """Mix by how well each word fits the query."""
        query = self.query.expand(len(x), -1, -1)
        return attend(query, self.key(x), self.value(x)).squeeze(1)


class LinearMixing(nn.Sequential):
    """Weights by place: every number of every word to every number of the mixture."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(WORDS * WIDTH, WIDTH))


class PerceptronMixing(nn.Sequential):
    """Weights by place, a bend, and weights again."""

    def __init__(self) -> None:
        bent = nn.Linear(WORDS * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
        super().__init__(nn.Flatten(), *bent)


def train_mixing(kind: type[nn.Module], num_positions: int, seed: int) -> MarkedWordClassifier:
    """Let a way of mixing learn sentences whose marked word has so many places."""
    with isolated_rng(seed):
        reader = MarkedWordClassifier(kind())
    train_model(
        reader,
        make_marked_sampler(num_positions),
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        seed=seed,
    )
    return reader


def measure(seed: int = 1, position_counts: Sequence[int] = POSITION_COUNTS) -> CoreMeasurements:
    """Train each way of mixing for each number of places; look at the weights of the last."""
    readers = {
        kind: [train_mixing(kind, places, seed) for places in position_counts]
        for kind in (AttentionMixing, LinearMixing, PerceptronMixing)
    }
    attention, linear, perceptron = (
        MixingResult(
            sum(p.numel() for p in some[0].mixing.parameters()),
            [
                measure_accuracy(one, make_marked_sampler(places))
                for one, places in zip(some, position_counts, strict=True)
            ],
            measure_accuracy(
                some[position_counts.index(HALF)], make_marked_sampler(HALF, first=HALF)
            ),
        )
        for some in readers.values()
    )
    words, _ = make_marked_sampler(WORDS)(torch.Generator().manual_seed(seed), NUM_SHOWN)
    with Trace() as trace, torch.no_grad():
        readers[AttentionMixing][-1](words)
    return CoreMeasurements(
        attention,
        linear,
        perceptron,
        (words >= SYMBOLS).int().argmax(1).tolist(),
        trace["mixing.weights"].squeeze(1).tolist(),
        compute_position_shares(readers[LinearMixing][-1].mixing),
    )


def compute_position_shares(linear: nn.Module) -> list[float]:
    """The share of each place in a linear layer's squared weights."""
    weight = next(linear.parameters()).detach().view(WIDTH, WORDS, WIDTH)
    squares = weight.square().sum((0, 2))
    return (squares / squares.sum()).tolist()


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    ways = {
        "attention": found.attention,
        "linear layer": found.linear,
        "perceptron": found.perceptron,
    }
    lines = (
        f"Where the word that matters stands still, a linear layer over {WORDS} words is right in "
        f"{found.linear.accuracy[0]:.0%} of sentences, attention in {found.attention.accuracy[0]:.0%}. "
        f"Where it may be at any of {WORDS} places, the linear layer is right in "
        f"{found.linear.accuracy[-1]:.0%}, a perceptron in {found.perceptron.accuracy[-1]:.0%}, and "
        f"attention in {found.attention.accuracy[-1]:.0%}, with "
        f"{found.linear.num_parameters / found.attention.num_parameters:.1f} times fewer parameters "
        f"(guessing: {1 / SYMBOLS:.0%}).",
        f"Learned with the word in the first {HALF} places and asked with it in the others: "
        f"attention {found.attention.transfer_accuracy:.0%}, perceptron {found.perceptron.transfer_accuracy:.0%}, "
        f"linear layer {found.linear.transfer_accuracy:.0%}.",
        "So the core is that the weights are worked out from the input, not kept by place. (Here "
        "one learned query asks all words, the smallest form; in self-attention every word asks.)",
    )
    chart = line_chart(
        [
            *(
                Series(name, list(zip(POSITION_COUNTS, way.accuracy, strict=True)))
                for name, way in ways.items()
            ),
            Series("guessing", [(x, 1 / SYMBOLS) for x in POSITION_COUNTS], dashed=True),
        ],
        title="Finding a word that moves",
        x_label="places that the word may have",
        y_label="right answers",
        percent=True,
        log_x=True,
        width=460,
    )
    framed = list(enumerate(found.marked_positions))
    maps = [
        heatmap(
            weights, title=title, x_label="place in the sentence", y_label=f"{NUM_SHOWN} sentences",
            framed_cells=framed, max_value=1.0,
        )
        for title, weights in (
            ("Attention's weights: the marked word is framed", found.attention_weights),
            ("The linear layer's weights: the same for all", [found.linear_weights] * NUM_SHOWN),
        )
    ]  # fmt: skip
    rows = [
        (str(places), *(f"{way.accuracy[k]:.1%}" for way in ways.values()))
        for k, places in enumerate(POSITION_COUNTS)
    ]
    return Finding(
        QUESTIONS["core"],
        lines,
        f"a word that never moves, where fixed weights do as well; a perceptron with a hidden unit "
        f"for each place and symbol ({WORDS * SYMBOLS}, not {WIDTH}) and ten times the training.",
        side_by_side([chart, *maps], "Weights from the input, and weights by place"),
        ("places", *ways),
        rows,
    )
