"""Why positional encoding?

Attention compares words with words and adds up what it finds, in whichever order they come: turn a
sentence round, and the same vectors come out, turned round. What depends on order cannot be learned
until each vector says where it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.curves import draw_losses
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng, measure_accuracy, train_model
from workings.layers.positions import SinusoidalPositions, sinusoids
from workings.layers.transformer import EncoderBlock
from workings.render.chart import Series, line_chart
from workings.render.heatmap import heatmap
from workings.render.pictures import side_by_side

WIDTH, HEADS = 32, 2
NUM_POSITIONS, ENCODING_WIDTH = (
    64,
    64,
)  # places in the picture of the encoding, and how wide it is there
FAR_DISTANCE = 16  # places apart
WORDS, SYMBOLS = 8, 12  # of the task; symbols 0 and 1 are those that are asked about
STEPS, LEARNING_RATE = 150, 5e-3
POSITION_KINDS = ("none", "added", "concatenated")


@dataclass(frozen=True)
class PositionResult:
    """What a block learns with one kind of positions."""

    kind: str
    reversal_difference: float  # the largest between what "you love I" and "I love you" come out as
    losses: Sequence[float]
    accuracy: float


@dataclass(frozen=True)
class PositionMeasurements:
    """The encoding, and a block with each kind of positions."""

    encoding: Float[Tensor, "places width"]
    dot_products: Sequence[float]  # PE(p)·PE(p + k) over PE(p)·PE(p), by distance k
    results: Sequence[PositionResult]


class OrderClassifier(nn.Module):
    """Words, positions, one block, the mean, an answer."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        beside = kind == "concatenated"
        self.embedding = nn.Embedding(SYMBOLS, WIDTH // 2 if beside else WIDTH)
        self.positions: nn.Module = nn.Identity()
        if kind != "none":
            self.positions = SinusoidalPositions(
                self.embedding.embedding_dim, mode="concatenate" if beside else "add"
            )
        self.block = EncoderBlock(WIDTH, HEADS, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def encode(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch words width"]:
        """Give each word the vector that it has in its sentence."""
        out: Tensor = self.block(self.positions(self.embedding(x)))
        return out

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch answers"]:
        """Answer from the mean of what the words come out as."""
        out: Tensor = self.head(self.encode(x).mean(1))
        return out


def sample_which_first(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw sentences in which words 0 and 1 occur once each: is 1 the first of them?"""
    others = torch.randint(2, SYMBOLS, (count, WORDS), generator=generator)
    places = torch.rand(count, WORDS, generator=generator).argsort(-1)[:, :2]
    asked = torch.tensor([0, 1]).expand(count, 2)
    return others.scatter(1, places, asked), (places[:, 1] < places[:, 0]).long()


@torch.no_grad()
def measure_reversal(model: OrderClassifier) -> float:
    """Compare what three words come out as with what they come out as in a sentence turned round.

    Each word with itself: without positions, the bags of vectors are the same.
    """
    said = torch.tensor([[2, 3, 4]])  # I love you
    out, turned = model.encode(said), model.encode(said.flip(1)).flip(1)
    return (out - turned).abs().max().item()


def measure(seed: int = 1, steps: int = STEPS) -> PositionMeasurements:
    """Compare sentences turned round, and train each kind of positions to tell what came first."""
    encoding = sinusoids(NUM_POSITIONS, ENCODING_WIDTH)
    products = encoding @ encoding.T
    learned = []
    for way in POSITION_KINDS:
        with isolated_rng(seed):
            reader = OrderClassifier(way)
        difference = measure_reversal(reader)
        losses = train_model(
            reader, sample_which_first, steps=steps, learning_rate=LEARNING_RATE, seed=seed
        )
        learned.append(
            PositionResult(way, difference, losses, measure_accuracy(reader, sample_which_first))
        )
    return PositionMeasurements(encoding, (products[0] / products[0, 0]).tolist(), learned)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    none, added, beside = found.results
    far = found.dot_products[FAR_DISTANCE:]
    lines = (
        f"“I love you” and “you love I” come out of a block as the same vectors without positions: "
        f"the largest difference is {none.reversal_difference:.0e}, rounding. With sinusoids added it is "
        f"{added.reversal_difference:.2f}, concatenated {beside.reversal_difference:.2f}.",
        f"Which of two words came first, after {STEPS} steps: {none.accuracy:.0%} right without, "
        f"{added.accuracy:.0%} added, {beside.accuracy:.0%} concatenated in the same width "
        "(guessing: 50%).",
        f"The encodings of neighbours have {found.dot_products[1]:.0%} of the inner product that each "
        f"has with itself; from {FAR_DISTANCE} places on it goes up and down between {min(far):.0%} and "
        f"{max(far):.0%}.",
    )
    pictures = [
        heatmap(
            found.encoding.tolist(), title="The encoding",
            x_label="sine, cosine, sine, …: slower and slower",
            y_label=f"places 0 to {NUM_POSITIONS - 1}, from above",
        ),
        line_chart(
            [Series("", list(enumerate(found.dot_products)))],
            title="Near places are alike", x_label="distance of two places",
            y_label="inner product, as a share of its largest", width=400,
        ),
        draw_losses({x.kind: x.losses for x in found.results}, "Which of two words came first?"),
    ]  # fmt: skip
    rows = [(x.kind, f"{x.reversal_difference:.1e}", f"{x.accuracy:.1%}") for x in found.results]
    return Finding(
        QUESTIONS["positions"],
        lines,
        "a causal mask, which tells places apart by how much each may see; a task for which a bag "
        "of words is enough; a recurrent or convolutional layer before the block.",
        side_by_side(pictures, "A sentence is a bag of words until it has positions"),
        ("positions", "turned round, differs by", "which came first"),
        rows,
    )
