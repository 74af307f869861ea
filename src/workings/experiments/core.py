"""What is the core of self-attention?

A linear layer or a perceptron over the whole sentence has one fixed weight per position. Attention
computes its weights from the words themselves. So when the relevant word changes its position,
attention follows it, and fixed weights do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import attend
from workings.experiments import QUESTIONS
from workings.experiments.base import (
    ExampleSampler,
    Finding,
    count_parameters,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.render.chart import Series, line_chart
from workings.render.heatmap import heatmap
from workings.render.pictures import Picture, side_by_side
from workings.trace import Trace

WORDS, SYMBOLS, WIDTH = 16, 16, 32
POSITION_COUNTS = (1, 2, 4, 8, 16)  # number of positions at which the marked word can be
HALF = WORDS // 2
NUM_SHOWN = 8  # sentences in the picture
STEPS, LEARNING_RATE = 200, 5e-3


@dataclass(frozen=True)
class MixingResult:
    """Accuracy of one way to mix word vectors."""

    num_parameters: int
    accuracy: Sequence[float]  # for each of POSITION_COUNTS
    transfer_accuracy: float  # trained with the marked word in the first half, tested in the second


@dataclass(frozen=True)
class CoreMeasurements:
    """Results of the three ways to mix, and their weights on a few sentences."""

    attention: MixingResult
    linear: MixingResult
    perceptron: MixingResult
    marked_positions: Sequence[int]  # of the marked word in each sentence of the picture
    attention_weights: Sequence[Sequence[float]]  # [sentence, position]
    linear_weights: Sequence[float]  # share of each position in the squared weights


def make_marked_sampler(num_positions: int, first: int = 0) -> ExampleSampler:
    """Return a sampler of sentences with one marked word, which is the target.

    The marked word is at one of `num_positions` positions, from `first` on. A word is a symbol;
    a marked word is a symbol plus SYMBOLS.
    """

    def sample(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        words = torch.randint(SYMBOLS, (count, WORDS), generator=generator)
        position = torch.randint(first, first + num_positions, (count, 1), generator=generator)
        marked = words.gather(1, position)
        return words.scatter(1, position, marked + SYMBOLS), marked.squeeze(1)

    return sample


class MarkedWordClassifier(nn.Module):
    """Word embeddings, mixed into one vector, and a linear classifier."""

    def __init__(self, mixing: nn.Module) -> None:
        super().__init__()
        self.symbol_embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.mark_embedding = nn.Embedding(2, WIDTH)
        self.mixing = mixing
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch symbols"]:
        """Return logits; a word vector is the sum of its symbol's and its mark's embedding."""
        embedded = self.symbol_embedding(x % SYMBOLS) + self.mark_embedding(x // SYMBOLS)
        logits: Tensor = self.head(self.mixing(embedded))
        return logits


class AttentionMixing(nn.Module):
    """Weights computed from the input: one learned query, shared by all sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, WIDTH))
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Float[Tensor, "batch words width"]) -> Float[Tensor, "batch width"]:
        """Average the values, weighted by how well each key matches the query."""
        query = self.query.expand(len(x), -1, -1)
        return attend(query, self.key(x), self.value(x)).squeeze(1)


class LinearMixing(nn.Sequential):
    """One linear layer from all word vectors to one vector: fixed weights per position."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(WORDS * WIDTH, WIDTH))


class PerceptronMixing(nn.Sequential):
    """A perceptron with one hidden layer over all word vectors: fixed weights per position."""

    def __init__(self) -> None:
        layers = nn.Linear(WORDS * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
        super().__init__(nn.Flatten(), *layers)


def train_mixing(kind: type[nn.Module], num_positions: int, seed: int) -> MarkedWordClassifier:
    """Train a classifier on sentences whose marked word has `num_positions` positions."""
    with isolated_rng(seed):
        model = MarkedWordClassifier(kind())
    sampler = make_marked_sampler(num_positions)
    train_model(model, sampler, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed)
    return model


def measure(seed: int = 1, position_counts: Sequence[int] = POSITION_COUNTS) -> CoreMeasurements:
    """Train each way to mix for each number of positions; record the weights of the last ones."""
    models = {
        kind: [train_mixing(kind, count, seed) for count in position_counts]
        for kind in (AttentionMixing, LinearMixing, PerceptronMixing)
    }
    attention, linear, perceptron = (
        _evaluate(trained, position_counts) for trained in models.values()
    )
    words, _ = make_marked_sampler(WORDS)(torch.Generator().manual_seed(seed), NUM_SHOWN)
    with Trace() as trace, torch.no_grad():
        models[AttentionMixing][-1](words)
    return CoreMeasurements(
        attention,
        linear,
        perceptron,
        (words >= SYMBOLS).int().argmax(1).tolist(),
        trace["mixing.weights"].squeeze(1).tolist(),
        compute_position_shares(models[LinearMixing][-1].mixing),
    )


def _evaluate(
    models: Sequence[MarkedWordClassifier], position_counts: Sequence[int]
) -> MixingResult:
    accuracy = [
        measure_accuracy(model, make_marked_sampler(count))
        for model, count in zip(models, position_counts, strict=True)
    ]
    trained_on_first_half = models[position_counts.index(HALF)]
    transfer = measure_accuracy(trained_on_first_half, make_marked_sampler(HALF, first=HALF))
    return MixingResult(count_parameters(models[0].mixing), accuracy, transfer)


def compute_position_shares(linear: nn.Module) -> list[float]:
    """Return the share of each position in a linear layer's squared weights."""
    weight = next(linear.parameters()).detach().view(WIDTH, WORDS, WIDTH)
    squares = weight.square().sum((0, 2))
    return (squares / squares.sum()).tolist()


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    measurement = measure(seed)
    results = {
        "attention": measurement.attention,
        "linear layer": measurement.linear,
        "perceptron": measurement.perceptron,
    }
    attention, linear, perceptron = results.values()
    size_ratio = linear.num_parameters / attention.num_parameters
    lines = (
        f"If the marked word is always at the same position, a linear layer over {WORDS} words has "
        f"an accuracy of {linear.accuracy[0]:.0%}, attention {attention.accuracy[0]:.0%}. If it "
        f"can be at any of {WORDS} positions, the linear layer has {linear.accuracy[-1]:.0%}, a "
        f"perceptron {perceptron.accuracy[-1]:.0%}, and attention {attention.accuracy[-1]:.0%}, "
        f"with {size_ratio:.1f} times fewer parameters (chance: {1 / SYMBOLS:.0%}).",
        f"Trained with the word at the first {HALF} positions and tested at the others: attention "
        f"{attention.transfer_accuracy:.0%}, perceptron {perceptron.transfer_accuracy:.0%}, linear "
        f"layer {linear.transfer_accuracy:.0%}.",
        "So the core is that the weights are computed from the input, not stored per position. "
        "(Here one learned query serves all sentences, the smallest form; in self-attention every "
        "word has its own query.)",
    )
    rows = [
        (str(count), *(f"{result.accuracy[k]:.1%}" for result in results.values()))
        for k, count in enumerate(POSITION_COUNTS)
    ]
    return Finding(
        QUESTIONS["core"],
        lines,
        "a word that never moves, where fixed weights do as well; a perceptron with a hidden unit "
        f"for each position and symbol ({WORDS * SYMBOLS}, not {WIDTH}) and ten times the training "
        "steps.",
        _draw_picture(measurement, results),
        ("positions", *results),
        rows,
    )


def _draw_picture(measurement: CoreMeasurements, results: Mapping[str, MixingResult]) -> Picture:
    chart = line_chart(
        [
            *(
                Series(name, list(zip(POSITION_COUNTS, result.accuracy, strict=True)))
                for name, result in results.items()
            ),
            Series("chance", [(x, 1 / SYMBOLS) for x in POSITION_COUNTS], dashed=True),
        ],
        title="Finding a word that moves",
        x_label="possible positions of the word",
        y_label="accuracy",
        percent=True,
        log_x=True,
        width=460,
    )
    maps = [
        heatmap(
            weights,
            title=title,
            x_label="position in the sentence",
            y_label=f"{NUM_SHOWN} sentences",
            framed_cells=list(enumerate(measurement.marked_positions)),
            max_value=1.0,
        )
        for title, weights in (
            ("Attention's weights: the marked word is framed", measurement.attention_weights),
            (
                "The linear layer's weights: the same for all",
                [measurement.linear_weights] * NUM_SHOWN,
            ),
        )
    ]
    return side_by_side([chart, *maps], "Weights from the input, and weights by position")
