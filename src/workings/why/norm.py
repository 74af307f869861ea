"""Why layer norm, and not batch norm?

Layer norm looks along one vector. Batch norm takes mean and variance from the batch: what becomes
of a sentence depends on its neighbours and on their padding, small batches estimate badly, and what
was measured in training stands in for it afterwards. And what do deep stacks need either for?
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.layers.blocks import EncoderBlock
from workings.layers.norms import LayerNorm, SequenceBatchNorm
from workings.views.chart import Series, line_chart
from workings.views.panels import side_by_side
from workings.views.picture import Picture
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import accuracy, learn, seeded

WIDTH, TIME, SYMBOLS = 32, 8, 6
BATCHES = (1, 2, 4, 16)
STEPS = 200
DEPTHS = (1, 2, 4, 8, 16, 32)
DEEP, DEEP_STEPS = 16, 60  # of the stack that is trained

NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: LayerNorm(WIDTH),
    "batch norm": lambda: SequenceBatchNorm(WIDTH),
    "no norm": nn.Identity,
}


@dataclass(frozen=True)
class Tied:
    """How a norm ties a sentence to its batch, for each of BATCHES."""

    name: str
    moved: Sequence[float]  # by other neighbours: its vectors, relative to their size
    padded: Sequence[float]  # by zeros behind each sentence of the batch
    training: Sequence[float]  # right answers, by the batch's own statistics
    afterwards: Sequence[float]  # right answers, by those kept while training


@dataclass(frozen=True)
class Deep:
    """What becomes of vectors in deep stacks, and of a loss."""

    name: str
    sizes: Sequence[float]  # of their numbers, after each of DEPTHS
    losses: Sequence[float]  # at each step


class Stack(nn.Module):
    """Encoder blocks with norms of choice; the class is read off the mean of all places."""

    def __init__(self, norm: str, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            block = EncoderBlock(WIDTH, heads=2, hidden=2 * WIDTH)
            for around in (block.around_attention, block.around_feed_forward):
                around.add_module("norm", NORMS[norm]())
            self.blocks.append(block)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def states(self, x: Int[Tensor, "batch time"]) -> list[Float[Tensor, "batch time width"]]:
        """What the embedding and each block hand on."""
        states: list[Tensor] = [self.embedding(x)]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch classes"]:
        """Score the classes."""
        scores: Tensor = self.head(self.states(x)[-1].mean(1))
        return scores


def about(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw sentences in which every other word, or so, is what they are about."""
    topic = torch.randint(SYMBOLS, (count, 1), generator=generator)
    words = torch.randint(SYMBOLS, (count, TIME), generator=generator)
    on_topic = torch.rand(count, TIME, generator=generator) < 0.5
    return torch.where(on_topic, topic, words), topic.squeeze(1)


@torch.no_grad()
def moved(norm: nn.Module, batch: int, seed: int) -> tuple[float, float]:
    """How far a sentence's vectors move with other neighbours, and with padding."""
    generator = torch.Generator().manual_seed(seed)
    x, others = (
        torch.randn(batch, TIME, WIDTH, generator=generator)
        + torch.randn(batch, 1, WIDTH, generator=generator)  # what a sentence has in common
        for _ in range(2)
    )
    others[0] = x[0]
    padded = torch.cat([x, torch.zeros_like(x)], 1)
    first = norm(x)[0]
    ways = norm(others)[0] - first, norm(padded)[0, :TIME] - first
    neighbours, padding = (float(way.norm() / first.norm()) for way in ways)
    return neighbours, padding


def tied(name: str, seed: int, batches: Sequence[int] = BATCHES) -> Tied:
    """Move a sentence's neighbours, and train with batches of each size."""
    ways = [moved(NORMS[name](), batch, seed) for batch in batches]
    training, afterwards = [], []
    for batch in batches:
        with seeded(seed):
            model = Stack(name, depth=1)
        learn(model, about, steps=STEPS, batch=batch, seed=seed)
        afterwards.append(accuracy(model, about))
        training.append(_accuracy_in_training(model, batch))
    return Tied(name, [n for n, _ in ways], [p for _, p in ways], training, afterwards)


@torch.no_grad()
def _accuracy_in_training(model: nn.Module, batch: int) -> float:
    """How many answers are right while the statistics are those of each batch."""
    generator = torch.Generator().manual_seed(10**6)
    model.train()
    right = []
    for _ in range(512 // batch):
        inputs, targets = about(generator, batch)
        right.append((model(inputs).argmax(-1) == targets).float())
    return float(torch.cat(right).mean())


def deep(name: str, seed: int, steps: int = DEEP_STEPS) -> Deep:
    """Send sentences through a deep fresh stack; train one that is half as deep."""
    x, _ = about(torch.Generator().manual_seed(seed), 64)
    with seeded(seed):
        fresh, model = Stack(name, max(DEPTHS)), Stack(name, DEEP)
    with torch.no_grad():
        states = fresh.states(x)
    sizes = [states[depth].square().mean().sqrt().item() for depth in DEPTHS]
    return Deep(name, sizes, learn(model, about, steps=steps, batch=32, seed=seed))


def measure(seed: int = 1) -> tuple[Sequence[Tied], Sequence[Deep]]:
    """Tie two norms to their batches; go deep with layer norm and without any."""
    return (
        [tied(name, seed) for name in ("layer norm", "batch norm")],
        [deep(name, seed) for name in ("layer norm", "no norm")],
    )


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    norms, stacks = measure(seed)
    layer, batch = norms
    normed, bare = stacks
    two = BATCHES.index(2)
    last, last_bare = (sum(one.losses[-10:]) / 10 for one in stacks)
    lines = (
        "With another neighbour in a batch of 2, batch norm moves a sentence's vectors by "
        f"{batch.moved[two]:.0%} of their size, in a batch of {BATCHES[-1]} by "
        f"{batch.moved[-1]:.0%}. Padding that is counted moves them in a batch of 2 by "
        f"{batch.padded[two]:.0%}. Layer norm moves them by "
        f"{max(*layer.moved, *layer.padded):.0%}.",
        f"Trained for {STEPS} steps with one sentence at a time, batch norm is right in "
        f"{batch.training[0]:.0%} with the batch's own mean and variance, and in "
        f"{batch.afterwards[0]:.0%} with the running ones that are used at test time; layer norm "
        f"in {layer.afterwards[0]:.0%} (guessing: {1 / SYMBOLS:.0%}). With two sentences it is "
        f"{batch.training[two]:.0%}, {batch.afterwards[two]:.0%} and {layer.afterwards[two]:.0%}: "
        "here only batches of one cost accuracy.",
        f"After {DEPTHS[-1]} fresh blocks numbers are {normed.sizes[-1]:.1f} in size with layer "
        f"norm before each sublayer, {bare.sizes[-1]:,.0f} without. {DEEP} blocks, trained for "
        f"{DEEP_STEPS} steps: loss {last:.2f} with, {last_bare:.2f} without.",
    )
    head = ("batch", "moved by neighbours", "by padding", "right in training", "afterwards",
            "layer norm: moved", "right")  # fmt: skip
    rows = [
        (str(size), *(f"{x[k]:.3f}" for x in (batch.moved, batch.padded, batch.training,
         batch.afterwards, layer.moved, layer.afterwards)))
        for k, size in enumerate(BATCHES)
    ]  # fmt: skip
    return Finding(
        QUESTIONS["norm"],
        lines,
        "large batches of sentences that are alike, whose statistics hardly differ; batches that "
        "are masked, where padding does not count; a few blocks, which train without any norm; "
        "weights that start smaller the deeper the stack.",
        _picture(norms, stacks),
        head,
        rows,
    )


def _picture(norms: Sequence[Tied], stacks: Sequence[Deep]) -> Picture:
    layer, batch = norms
    ways = line_chart(
        [Series(one.name, list(zip(BATCHES, one.moved, strict=True))[1:]) for one in norms],
        title="A sentence moved by others",
        x_label="sentences in the batch",
        y_label="change of its vectors",
        percent=True,
        log_x=True,
        width=380,
    )
    right = line_chart(
        [
            Series("layer norm", list(zip(BATCHES, layer.afterwards, strict=True))),
            Series("batch norm", list(zip(BATCHES, batch.afterwards, strict=True)), colour=1),
            Series("… in training", list(zip(BATCHES, batch.training, strict=True)), True, 1),
        ],
        title="What small batches learn",
        x_label="sentences in the batch",
        y_label="right answers",
        percent=True,
        log_x=True,
        width=380,
    )
    sizes = line_chart(
        [
            Series(one.name, list(zip(DEPTHS, one.sizes, strict=True)), colour=colour)
            for one, colour in zip(stacks, (0, 2), strict=True)
        ],
        title="Numbers in a fresh deep stack",
        x_label="blocks",
        y_label="size",
        log_x=True,
        log_y=True,
        width=380,
    )
    return side_by_side([ways, right, sizes], "Norms, batches and depth")
