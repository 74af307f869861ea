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

from workings.layers.blocks import EncoderBlock
from workings.layers.positions import SinusoidalPositions, sinusoids
from workings.views.chart import Series, line_chart
from workings.views.heat import heat_map
from workings.views.panels import side_by_side
from workings.why import QUESTIONS
from workings.why.curves import loss_chart
from workings.why.finding import Finding
from workings.why.learning import accuracy, learn, seeded

WIDTH, HEADS = 32, 2
COUNT, SHOWN = 64, 64  # places in the picture of the encoding, and how wide it is there
FAR = 16  # places apart
WORDS, SYMBOLS = 8, 12  # of the task; symbols 0 and 1 are those that are asked about
STEPS, RATE = 150, 5e-3
WAYS = ("none", "added", "concatenated")


@dataclass(frozen=True)
class Learned:
    """What a block learns with one kind of positions."""

    way: str
    difference: float  # the largest between what "you love I" and "I love you" come out as
    losses: Sequence[float]
    right: float


@dataclass(frozen=True)
class Measured:
    """The encoding, and a block with each kind of positions."""

    encoding: Float[Tensor, "places width"]
    products: Sequence[float]  # PE(p)·PE(p + k) over PE(p)·PE(p), by distance k
    learned: Sequence[Learned]


class Reader(nn.Module):
    """Words, positions, one block, the mean, an answer."""

    def __init__(self, way: str) -> None:
        super().__init__()
        beside = way == "concatenated"
        self.words = nn.Embedding(SYMBOLS, WIDTH // 2 if beside else WIDTH)
        self.positions: nn.Module = nn.Identity()
        if way != "none":
            self.positions = SinusoidalPositions(
                self.words.embedding_dim, how="concatenate" if beside else "add"
            )
        self.block = EncoderBlock(WIDTH, HEADS, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def read(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch words width"]:
        """Give each word the vector that it has in its sentence."""
        out: Tensor = self.block(self.positions(self.words(x)))
        return out

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch answers"]:
        """Answer from the mean of what the words come out as."""
        out: Tensor = self.head(self.read(x).mean(1))
        return out


def which_first(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw sentences in which words 0 and 1 occur once each: is 1 the first of them?"""
    others = torch.randint(2, SYMBOLS, (count, WORDS), generator=generator)
    places = torch.rand(count, WORDS, generator=generator).argsort(-1)[:, :2]
    asked = torch.tensor([0, 1]).expand(count, 2)
    return others.scatter(1, places, asked), (places[:, 1] < places[:, 0]).long()


@torch.no_grad()
def turned_round(reader: Reader) -> float:
    """Compare what three words come out as with what they come out as in a sentence turned round.

    Each word with itself: without positions, the bags of vectors are the same.
    """
    said = torch.tensor([[2, 3, 4]])  # I love you
    out, turned = reader.read(said), reader.read(said.flip(1)).flip(1)
    return (out - turned).abs().max().item()


def measure(seed: int = 1, steps: int = STEPS) -> Measured:
    """Compare sentences turned round, and train each kind of positions to tell what came first."""
    encoding = sinusoids(COUNT, SHOWN)
    products = encoding @ encoding.T
    learned = []
    for way in WAYS:
        with seeded(seed):
            reader = Reader(way)
        difference = turned_round(reader)
        losses = learn(reader, which_first, steps=steps, rate=RATE, seed=seed)
        learned.append(Learned(way, difference, losses, accuracy(reader, which_first)))
    return Measured(encoding, (products[0] / products[0, 0]).tolist(), learned)


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    none, added, beside = found.learned
    far = found.products[FAR:]
    lines = (
        f"“I love you” and “you love I” come out of a block as the same vectors without positions: "
        f"the largest difference is {none.difference:.0e}, rounding. With sinusoids added it is "
        f"{added.difference:.2f}, concatenated {beside.difference:.2f}.",
        f"Which of two words came first, after {STEPS} steps: {none.right:.0%} right without, "
        f"{added.right:.0%} added, {beside.right:.0%} concatenated in the same width "
        "(guessing: 50%).",
        f"The encodings of neighbours have {found.products[1]:.0%} of the inner product that each "
        f"has with itself; from {FAR} places on it goes up and down between {min(far):.0%} and "
        f"{max(far):.0%}.",
    )
    pictures = [
        heat_map(
            found.encoding.tolist(), title="The encoding",
            x_label="sine, cosine, sine, …: slower and slower",
            y_label=f"places 0 to {COUNT - 1}, from above",
        ),
        line_chart(
            [Series("", list(enumerate(found.products)))],
            title="Near places are alike", x_label="distance of two places",
            y_label="inner product, as a share of its largest", width=400,
        ),
        loss_chart({x.way: x.losses for x in found.learned}, "Which of two words came first?"),
    ]  # fmt: skip
    rows = [(x.way, f"{x.difference:.1e}", f"{x.right:.1%}") for x in found.learned]
    return Finding(
        QUESTIONS["positions"],
        lines,
        "a causal mask, which tells places apart by how much each may see; a task for which a bag "
        "of words is enough; a recurrent or convolutional layer before the block.",
        side_by_side(pictures, "A sentence is a bag of words until it has positions"),
        ("positions", "turned round, differs by", "which came first"),
        rows,
    )
