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
from workings.trace import Trace
from workings.views.chart import Series, line_chart
from workings.views.heat import heat_map
from workings.views.panels import side_by_side
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import Draw, accuracy, learn, seeded

WORDS, SYMBOLS, WIDTH = 16, 16, 32
MOVES = (1, 2, 4, 8, 16)  # how many places the word that matters may have
HALF = WORDS // 2
SHOWN = 8  # sentences in the picture
STEPS, RATE = 200, 5e-3


@dataclass(frozen=True)
class Mixed:
    """What a way of mixing words learns, by how many places the word that matters may have."""

    parameters: int
    right: Sequence[float]  # for each of MOVES
    elsewhere: float  # learned with the word in the first half, asked with it in the second


@dataclass(frozen=True)
class Measured:
    """The ways of mixing, and what each weighs by in a few sentences."""

    attention: Mixed
    linear: Mixed
    perceptron: Mixed
    places: Sequence[int]  # of the marked word in each sentence that is shown
    looked: Sequence[Sequence[float]]  # attention's weights there
    fixed: Sequence[float]  # the share of each place in the linear layer's weights


def marked(places: int, first: int = 0) -> Draw:
    """Draw sentences with one word marked, at one of so many places from `first` on: which is it?

    A word is a symbol, and SYMBOLS more where it is marked.
    """

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        words = torch.randint(SYMBOLS, (count, WORDS), generator=generator)
        place = torch.randint(first, first + places, (count, 1), generator=generator)
        asked = words.gather(1, place)
        return words.scatter(1, place, asked + SYMBOLS), asked.squeeze(1)

    return draw


class Reader(nn.Module):
    """Words as vectors, mixed into one, read off by a linear layer."""

    def __init__(self, mixing: nn.Module) -> None:
        super().__init__()
        self.symbols, self.marks = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(2, WIDTH)
        self.mixing = mixing
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, x: Int[Tensor, "batch words"]) -> Float[Tensor, "batch symbols"]:
        """A vector is the sum of what the word is and whether it is marked."""
        out: Tensor = self.head(self.mixing(self.symbols(x % SYMBOLS) + self.marks(x // SYMBOLS)))
        return out


class Attention(nn.Module):
    """Weights from the input: one query, the same for every sentence, over keys of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, WIDTH))
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Float[Tensor, "batch words width"]) -> Float[Tensor, "batch width"]:
        """Mix by how well each word fits the query."""
        query = self.query.expand(len(x), -1, -1)
        return attend(query, self.key(x), self.value(x)).squeeze(1)


class Linear(nn.Sequential):
    """Weights by place: every number of every word to every number of the mixture."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(WORDS * WIDTH, WIDTH))


class Perceptron(nn.Sequential):
    """Weights by place, a bend, and weights again."""

    def __init__(self) -> None:
        bent = nn.Linear(WORDS * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
        super().__init__(nn.Flatten(), *bent)


def trained(kind: type[nn.Module], places: int, seed: int) -> Reader:
    """Let a way of mixing learn sentences whose marked word has so many places."""
    with seeded(seed):
        reader = Reader(kind())
    learn(reader, marked(places), steps=STEPS, rate=RATE, seed=seed)
    return reader


def measure(seed: int = 1, moves: Sequence[int] = MOVES) -> Measured:
    """Train each way of mixing for each number of places; look at the weights of the last."""
    readers = {
        kind: [trained(kind, places, seed) for places in moves]
        for kind in (Attention, Linear, Perceptron)
    }
    attention, linear, perceptron = (
        Mixed(
            sum(p.numel() for p in some[0].mixing.parameters()),
            [accuracy(one, marked(places)) for one, places in zip(some, moves, strict=True)],
            accuracy(some[moves.index(HALF)], marked(HALF, first=HALF)),
        )
        for some in readers.values()
    )
    words, _ = marked(WORDS)(torch.Generator().manual_seed(seed), SHOWN)
    with Trace() as trace, torch.no_grad():
        readers[Attention][-1](words)
    return Measured(
        attention,
        linear,
        perceptron,
        (words >= SYMBOLS).int().argmax(1).tolist(),
        trace["mixing.weights"].squeeze(1).tolist(),
        by_place(readers[Linear][-1].mixing),
    )


def by_place(linear: nn.Module) -> list[float]:
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
        f"{found.linear.right[0]:.0%} of sentences, attention in {found.attention.right[0]:.0%}. "
        f"Where it may be at any of {WORDS} places, the linear layer is right in "
        f"{found.linear.right[-1]:.0%}, a perceptron in {found.perceptron.right[-1]:.0%}, and "
        f"attention in {found.attention.right[-1]:.0%}, with "
        f"{found.linear.parameters / found.attention.parameters:.1f} times fewer parameters "
        f"(guessing: {1 / SYMBOLS:.0%}).",
        f"Learned with the word in the first {HALF} places and asked with it in the others: "
        f"attention {found.attention.elsewhere:.0%}, perceptron {found.perceptron.elsewhere:.0%}, "
        f"linear layer {found.linear.elsewhere:.0%}.",
        "So the core is that the weights are worked out from the input, not kept by place. (Here "
        "one learned query asks all words, the smallest form; in self-attention every word asks.)",
    )
    chart = line_chart(
        [
            *(Series(name, list(zip(MOVES, way.right, strict=True))) for name, way in ways.items()),
            Series("guessing", [(x, 1 / SYMBOLS) for x in MOVES], dashed=True),
        ],
        title="Finding a word that moves",
        x_label="places that the word may have",
        y_label="right answers",
        percent=True,
        log_x=True,
        width=460,
    )
    framed = list(enumerate(found.places))
    maps = [
        heat_map(
            weights, title=title, x_label="place in the sentence", y_label=f"{SHOWN} sentences",
            framed=framed, most=1.0,
        )
        for title, weights in (
            ("Attention's weights: the marked word is framed", found.looked),
            ("The linear layer's weights: the same for all", [found.fixed] * SHOWN),
        )
    ]  # fmt: skip
    rows = [
        (str(places), *(f"{way.right[k]:.1%}" for way in ways.values()))
        for k, places in enumerate(MOVES)
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
