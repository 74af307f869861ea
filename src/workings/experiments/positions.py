"""Why does attention need positional encodings?

Attention is permutation-equivariant: if the words of a sentence are reversed, the same output
vectors come out, reversed. A task that depends on the order cannot be learned until each vector
says where it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.base import (
    Finding,
    draw_losses,
    isolated_rng,
    measure_accuracy,
    train_model,
)
from workings.layers.positions import SinusoidalPositions, sinusoids
from workings.layers.transformer import EncoderBlock
from workings.render.chart import Series, line_chart
from workings.render.heatmap import heatmap
from workings.render.pictures import Picture, side_by_side

WIDTH, HEADS = 32, 2
NUM_POSITIONS, ENCODING_WIDTH = 64, 64  # of the encoding in the picture
FAR_DISTANCE = 16
WORDS, SYMBOLS = 8, 12  # of the task, which asks for the order of symbols 0 and 1
STEPS, LEARNING_RATE = 150, 5e-3
POSITION_KINDS = ("none", "added", "concatenated")


@dataclass(frozen=True)
class PositionResult:
    """A block trained with one kind of positional encoding."""

    kind: str
    reversal_difference: float  # largest change of a word's output if the sentence is reversed
    losses: Sequence[float]
    accuracy: float


@dataclass(frozen=True)
class PositionMeasurements:
    """The encoding, and the results for each of POSITION_KINDS."""

    encoding: Float[Tensor, "positions width"]
    dot_products: Sequence[float]  # PE(p)·PE(p + k) / PE(p)·PE(p), by distance k
    results: Sequence[PositionResult]


class OrderClassifier(nn.Module):
    """Embeddings with positions, one encoder block, mean pooling and a linear classifier."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        concatenate = kind == "concatenated"
        self.embedding = nn.Embedding(SYMBOLS, WIDTH // 2 if concatenate else WIDTH)
        self.positions: nn.Module = nn.Identity()
        if kind != "none":
            self.positions = SinusoidalPositions(
                self.embedding.embedding_dim, mode="concatenate" if concatenate else "add"
            )
        self.block = EncoderBlock(WIDTH, HEADS, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def encode(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch words width"]:
        """Return the block's output for each word."""
        encoded: Tensor = self.block(self.positions(self.embedding(x)))
        return encoded

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch classes"]:
        """Return class logits."""
        logits: Tensor = self.head(self.encode(x).mean(1))
        return logits


def sample_which_first(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample sentences with words 0 and 1 once each; the target is 1 if word 1 comes first."""
    others = torch.randint(2, SYMBOLS, (count, WORDS), generator=generator)
    positions = torch.rand(count, WORDS, generator=generator).argsort(-1)[:, :2]
    words = torch.tensor([0, 1]).expand(count, 2)
    return others.scatter(1, positions, words), (positions[:, 1] < positions[:, 0]).long()


@torch.no_grad()
def measure_reversal(model: OrderClassifier) -> float:
    """Return the largest difference between the outputs of a word in a sentence and its reversal.

    Without positions there is none: each word has the same output vector.
    """
    sentence = torch.tensor([[2, 3, 4]])  # I love you
    output, reversed_output = model.encode(sentence), model.encode(sentence.flip(1)).flip(1)
    return (output - reversed_output).abs().max().item()


def measure(seed: int = 1, steps: int = STEPS) -> PositionMeasurements:
    """For each of POSITION_KINDS, measure the effect of reversing a sentence, and train a model."""
    encoding = sinusoids(NUM_POSITIONS, ENCODING_WIDTH)
    products = encoding @ encoding.T
    results = []
    for kind in POSITION_KINDS:
        with isolated_rng(seed):
            model = OrderClassifier(kind)
        difference = measure_reversal(model)
        losses = train_model(
            model, sample_which_first, steps=steps, learning_rate=LEARNING_RATE, seed=seed
        )
        accuracy = measure_accuracy(model, sample_which_first)
        results.append(PositionResult(kind, difference, losses, accuracy))
    return PositionMeasurements(encoding, (products[0] / products[0, 0]).tolist(), results)


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    result = measure(seed)
    none, added, concatenated = result.results
    far = result.dot_products[FAR_DISTANCE:]
    lines = (
        "Without positions, “I love you” and “you love I” have the same output vectors after a "
        f"block: the largest difference is {none.reversal_difference:.0e}, rounding. With "
        f"sinusoids added it is {added.reversal_difference:.2f}, concatenated "
        f"{concatenated.reversal_difference:.2f}.",
        f"Accuracy of telling which of two words came first, after {STEPS} steps: "
        f"{none.accuracy:.0%} without, {added.accuracy:.0%} added, {concatenated.accuracy:.0%} "
        "concatenated within the same width (chance: 50%).",
        "The dot product of neighboring encodings is "
        f"{result.dot_products[1]:.0%} of an encoding's product with itself; from distance "
        f"{FAR_DISTANCE} on it varies between {min(far):.0%} and {max(far):.0%}.",
    )
    rows = [(x.kind, f"{x.reversal_difference:.1e}", f"{x.accuracy:.1%}") for x in result.results]
    return Finding(
        QUESTIONS["positions"],
        lines,
        "a causal mask, which distinguishes positions by how much each can attend to; a task for "
        "which a bag of words is enough; a recurrent or convolutional layer before the block.",
        _draw_picture(result),
        ("positions", "difference if reversed", "accuracy"),
        rows,
    )


def _draw_picture(result: PositionMeasurements) -> Picture:
    encoding = heatmap(
        result.encoding.tolist(),
        title="The encoding",
        x_label="sine, cosine, sine, …: slower and slower",
        y_label=f"positions 0 to {NUM_POSITIONS - 1}, from the top",
    )
    products = line_chart(
        [Series("", list(enumerate(result.dot_products)))],
        title="Nearby positions are similar",
        x_label="distance of two positions",
        y_label="dot product, relative to distance 0",
        width=400,
    )
    losses = draw_losses(
        {x.kind: x.losses for x in result.results}, "Which of two words came first?"
    )
    title = "A sentence is a bag of words until it has positions"
    return side_by_side([encoding, products, losses], title)
