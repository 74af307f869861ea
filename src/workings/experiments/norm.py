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

from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import isolated_rng, measure_accuracy, train_model
from workings.layers.transformer import EncoderBlock, LayerNorm, SequenceBatchNorm
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side

WIDTH, SEQUENCE_LENGTH, SYMBOLS = 32, 8, 6
BATCH_SIZES = (1, 2, 4, 16)
STEPS = 200
DEPTHS = (1, 2, 4, 8, 16, 32)
TRAINED_DEPTH, TRAINED_DEPTH_STEPS = 16, 60  # of the stack that is trained

NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: LayerNorm(WIDTH),
    "batch norm": lambda: SequenceBatchNorm(WIDTH),
    "no norm": nn.Identity,
}


@dataclass(frozen=True)
class BatchDependence:
    """How a norm ties a sentence to its batch, for each of BATCHES."""

    name: str
    neighbor_shift: Sequence[float]  # by other neighbours: its vectors, relative to their size
    padding_shift: Sequence[float]  # by zeros behind each sentence of the batch
    train_accuracy: Sequence[float]  # right answers, by the batch's own statistics
    eval_accuracy: Sequence[float]  # right answers, by those kept while training


@dataclass(frozen=True)
class DepthResult:
    """What becomes of vectors in deep stacks, and of a loss."""

    name: str
    activation_rms: Sequence[float]  # of their numbers, after each of DEPTHS
    losses: Sequence[float]  # at each step


class EncoderStack(nn.Module):
    """Encoder blocks with norms of choice; the class is read off the mean of all places."""

    def __init__(self, norm: str, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            block = EncoderBlock(WIDTH, heads=2, d_ff=2 * WIDTH)
            for around in (block.attention_residual, block.feed_forward_residual):
                around.add_module("norm", NORMS[norm]())
            self.blocks.append(block)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def hidden_states(
        self, x: Int[Tensor, "batch time"]
    ) -> list[Float[Tensor, "batch time width"]]:
        """What the embedding and each block hand on."""
        states: list[Tensor] = [self.embedding(x)]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch classes"]:
        """Score the classes."""
        scores: Tensor = self.head(self.hidden_states(x)[-1].mean(1))
        return scores


def sample_topic_sentences(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw sentences in which every other word, or so, is what they are about."""
    topic = torch.randint(SYMBOLS, (count, 1), generator=generator)
    words = torch.randint(SYMBOLS, (count, SEQUENCE_LENGTH), generator=generator)
    on_topic = torch.rand(count, SEQUENCE_LENGTH, generator=generator) < 0.5
    return torch.where(on_topic, topic, words), topic.squeeze(1)


@torch.no_grad()
def measure_shift(norm: nn.Module, batch_size: int, seed: int) -> tuple[float, float]:
    """How far a sentence's vectors move with other neighbours, and with padding."""
    generator = torch.Generator().manual_seed(seed)
    x, others = (
        torch.randn(batch_size, SEQUENCE_LENGTH, WIDTH, generator=generator)
        + torch.randn(batch_size, 1, WIDTH, generator=generator)  # what a sentence has in common
        for _ in range(2)
    )
    others[0] = x[0]
    padded = torch.cat([x, torch.zeros_like(x)], 1)
    first = norm(x)[0]
    ways = norm(others)[0] - first, norm(padded)[0, :SEQUENCE_LENGTH] - first
    neighbours, padding = (float(way.norm() / first.norm()) for way in ways)
    return neighbours, padding


def measure_batch_dependence(
    name: str, seed: int, batch_sizes: Sequence[int] = BATCH_SIZES
) -> BatchDependence:
    """Move a sentence's neighbours, and train with batches of each size."""
    ways = [measure_shift(NORMS[name](), batch, seed) for batch in batch_sizes]
    training, afterwards = [], []
    for batch in batch_sizes:
        with isolated_rng(seed):
            model = EncoderStack(name, depth=1)
        train_model(model, sample_topic_sentences, steps=STEPS, batch_size=batch, seed=seed)
        afterwards.append(measure_accuracy(model, sample_topic_sentences))
        training.append(_measure_train_accuracy(model, batch))
    return BatchDependence(name, [n for n, _ in ways], [p for _, p in ways], training, afterwards)


@torch.no_grad()
def _measure_train_accuracy(model: nn.Module, batch_size: int) -> float:
    """How many answers are right while the statistics are those of each batch."""
    generator = torch.Generator().manual_seed(10**6)
    model.train()
    right = []
    for _ in range(512 // batch_size):
        inputs, targets = sample_topic_sentences(generator, batch_size)
        right.append((model(inputs).argmax(-1) == targets).float())
    return float(torch.cat(right).mean())


def measure_depth(name: str, seed: int, steps: int = TRAINED_DEPTH_STEPS) -> DepthResult:
    """Send sentences through a deep fresh stack; train one that is half as deep."""
    x, _ = sample_topic_sentences(torch.Generator().manual_seed(seed), 64)
    with isolated_rng(seed):
        fresh, model = EncoderStack(name, max(DEPTHS)), EncoderStack(name, TRAINED_DEPTH)
    with torch.no_grad():
        states = fresh.hidden_states(x)
    sizes = [states[depth].square().mean().sqrt().item() for depth in DEPTHS]
    return DepthResult(
        name,
        sizes,
        train_model(model, sample_topic_sentences, steps=steps, batch_size=32, seed=seed),
    )


def measure(seed: int = 1) -> tuple[Sequence[BatchDependence], Sequence[DepthResult]]:
    """Tie two norms to their batches; go deep with layer norm and without any."""
    return (
        [measure_batch_dependence(name, seed) for name in ("layer norm", "batch norm")],
        [measure_depth(name, seed) for name in ("layer norm", "no norm")],
    )


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    norms, stacks = measure(seed)
    layer, batch = norms
    normed, bare = stacks
    two = BATCH_SIZES.index(2)
    last, last_bare = (sum(one.losses[-10:]) / 10 for one in stacks)
    lines = (
        "With another neighbour in a batch of 2, batch norm moves a sentence's vectors by "
        f"{batch.neighbor_shift[two]:.0%} of their size, in a batch of {BATCH_SIZES[-1]} by "
        f"{batch.neighbor_shift[-1]:.0%}. Padding that is counted moves them in a batch of 2 by "
        f"{batch.padding_shift[two]:.0%}. Layer norm moves them by "
        f"{max(*layer.neighbor_shift, *layer.padding_shift):.0%}.",
        f"Trained for {STEPS} steps with one sentence at a time, batch norm is right in "
        f"{batch.train_accuracy[0]:.0%} with the batch's own mean and variance, and in "
        f"{batch.eval_accuracy[0]:.0%} with the running ones that are used at test time; layer norm "
        f"in {layer.eval_accuracy[0]:.0%} (guessing: {1 / SYMBOLS:.0%}). With two sentences it is "
        f"{batch.train_accuracy[two]:.0%}, {batch.eval_accuracy[two]:.0%} and {layer.eval_accuracy[two]:.0%}: "
        "here only batches of one cost accuracy.",
        f"After {DEPTHS[-1]} fresh blocks numbers are {normed.activation_rms[-1]:.1f} in size with layer "
        f"norm before each sublayer, {bare.activation_rms[-1]:,.0f} without. {TRAINED_DEPTH} blocks, trained for "
        f"{TRAINED_DEPTH_STEPS} steps: loss {last:.2f} with, {last_bare:.2f} without.",
    )
    head = ("batch", "moved by neighbours", "by padding", "right in training", "afterwards",
            "layer norm: moved", "right")  # fmt: skip
    rows = [
        (str(size), *(f"{x[k]:.3f}" for x in (batch.neighbor_shift, batch.padding_shift, batch.train_accuracy,
         batch.eval_accuracy, layer.neighbor_shift, layer.eval_accuracy)))
        for k, size in enumerate(BATCH_SIZES)
    ]  # fmt: skip
    return Finding(
        QUESTIONS["norm"],
        lines,
        "large batches of sentences that are alike, whose statistics hardly differ; batches that "
        "are masked, where padding does not count; a few blocks, which train without any norm; "
        "weights that start smaller the deeper the stack.",
        _draw_picture(norms, stacks),
        head,
        rows,
    )


def _draw_picture(norms: Sequence[BatchDependence], stacks: Sequence[DepthResult]) -> Picture:
    layer, batch = norms
    ways = line_chart(
        [
            Series(one.name, list(zip(BATCH_SIZES, one.neighbor_shift, strict=True))[1:])
            for one in norms
        ],
        title="A sentence moved by others",
        x_label="sentences in the batch",
        y_label="change of its vectors",
        percent=True,
        log_x=True,
        width=380,
    )
    right = line_chart(
        [
            Series("layer norm", list(zip(BATCH_SIZES, layer.eval_accuracy, strict=True))),
            Series("batch norm", list(zip(BATCH_SIZES, batch.eval_accuracy, strict=True)), color=1),
            Series(
                "… in training", list(zip(BATCH_SIZES, batch.train_accuracy, strict=True)), True, 1
            ),
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
            Series(one.name, list(zip(DEPTHS, one.activation_rms, strict=True)), color=colour)
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
