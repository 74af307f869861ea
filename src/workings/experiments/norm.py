"""Why layer norm, and not batch norm?

Layer norm uses the mean and variance of one vector. Batch norm uses those of the batch: its output
for a sentence depends on the other sentences and on their padding, small batches give poor
estimates, and running averages replace them at test time. Deep stacks need some norm to keep
activations from growing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.experiments import QUESTIONS
from workings.experiments.base import Finding, isolated_rng, measure_accuracy, train_model
from workings.layers.transformer import EncoderBlock, LayerNorm, SequenceBatchNorm
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side

WIDTH, SEQUENCE_LENGTH, SYMBOLS = 32, 8, 6
BATCH_SIZES = (1, 2, 4, 16)
STEPS = 200
DEPTHS = (1, 2, 4, 8, 16, 32)
TRAINED_DEPTH, TRAINED_DEPTH_STEPS = 16, 60
NUM_TRAIN_MODE_EXAMPLES = 512  # on which the accuracy in training mode is measured

NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: LayerNorm(WIDTH),
    "batch norm": lambda: SequenceBatchNorm(WIDTH),
    "no norm": nn.Identity,
}


@dataclass(frozen=True)
class BatchDependence:
    """How the output for a sentence depends on its batch, for each of BATCH_SIZES."""

    name: str
    neighbor_shift: Sequence[float]  # relative change of its vectors with other sentences
    padding_shift: Sequence[float]  # relative change with zeros after each sentence
    train_accuracy: Sequence[float]  # with the batch's own statistics
    eval_accuracy: Sequence[float]  # with the running averages from training


@dataclass(frozen=True)
class DepthResult:
    """Activations of untrained stacks by depth, and the training losses of one stack."""

    name: str
    activation_rms: Sequence[float]  # after each of DEPTHS
    losses: Sequence[float]  # at each step


class EncoderStack(nn.Module):
    """Encoder blocks with a given norm; the class is predicted from the mean over positions."""

    def __init__(self, norm: str, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            block = EncoderBlock(WIDTH, heads=2, d_ff=2 * WIDTH)
            for connection in (block.attention_residual, block.feed_forward_residual):
                connection.add_module("norm", NORMS[norm]())
            self.blocks.append(block)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def hidden_states(
        self, x: Int[Tensor, "batch time"]
    ) -> list[Float[Tensor, "batch time width"]]:
        """Return the embeddings and the output of each block."""
        states: list[Tensor] = [self.embedding(x)]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch classes"]:
        """Return class logits."""
        logits: Tensor = self.head(self.hidden_states(x)[-1].mean(1))
        return logits


def sample_topic_sentences(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample sentences in which about half of the words are the topic, which is the target."""
    topic = torch.randint(SYMBOLS, (count, 1), generator=generator)
    words = torch.randint(SYMBOLS, (count, SEQUENCE_LENGTH), generator=generator)
    is_topic = torch.rand(count, SEQUENCE_LENGTH, generator=generator) < 0.5
    return torch.where(is_topic, topic, words), topic.squeeze(1)


@torch.no_grad()
def measure_shift(norm: nn.Module, batch_size: int, seed: int) -> tuple[float, float]:
    """Return the relative change of a sentence's vectors with other neighbors and with padding."""
    generator = torch.Generator().manual_seed(seed)
    batch, other_batch = (
        torch.randn(batch_size, SEQUENCE_LENGTH, WIDTH, generator=generator)
        + torch.randn(batch_size, 1, WIDTH, generator=generator)  # shared within a sentence
        for _ in range(2)
    )
    other_batch[0] = batch[0]
    padded = torch.cat([batch, torch.zeros_like(batch)], 1)
    output = norm(batch)[0]
    neighbor_shift = norm(other_batch)[0] - output
    padding_shift = norm(padded)[0, :SEQUENCE_LENGTH] - output
    return float(neighbor_shift.norm() / output.norm()), float(padding_shift.norm() / output.norm())


def measure_batch_dependence(
    name: str, seed: int, batch_sizes: Sequence[int] = BATCH_SIZES
) -> BatchDependence:
    """Measure the shifts, and the accuracies after training, for each batch size."""
    shifts = [measure_shift(NORMS[name](), size, seed) for size in batch_sizes]
    train_accuracy, eval_accuracy = [], []
    for size in batch_sizes:
        with isolated_rng(seed):
            model = EncoderStack(name, depth=1)
        train_model(model, sample_topic_sentences, steps=STEPS, batch_size=size, seed=seed)
        eval_accuracy.append(measure_accuracy(model, sample_topic_sentences))
        train_accuracy.append(_measure_train_accuracy(model, size))
    neighbor_shift, padding_shift = zip(*shifts, strict=True)
    return BatchDependence(name, neighbor_shift, padding_shift, train_accuracy, eval_accuracy)


@torch.no_grad()
def _measure_train_accuracy(model: nn.Module, batch_size: int) -> float:
    """Return the accuracy in training mode, where batch norm uses the batch's statistics."""
    generator = torch.Generator().manual_seed(10**6)
    model.train()
    correct = []
    for _ in range(NUM_TRAIN_MODE_EXAMPLES // batch_size):
        inputs, targets = sample_topic_sentences(generator, batch_size)
        correct.append((model(inputs).argmax(-1) == targets).float())
    return float(torch.cat(correct).mean())


def measure_depth(name: str, seed: int, steps: int = TRAINED_DEPTH_STEPS) -> DepthResult:
    """Measure activations of a deep untrained stack; train one of TRAINED_DEPTH blocks."""
    x, _ = sample_topic_sentences(torch.Generator().manual_seed(seed), 64)
    with isolated_rng(seed):
        deep, model = EncoderStack(name, max(DEPTHS)), EncoderStack(name, TRAINED_DEPTH)
    with torch.no_grad():
        states = deep.hidden_states(x)
    rms = [states[depth].square().mean().sqrt().item() for depth in DEPTHS]
    losses = train_model(model, sample_topic_sentences, steps=steps, batch_size=32, seed=seed)
    return DepthResult(name, rms, losses)


def measure(seed: int = 1) -> tuple[Sequence[BatchDependence], Sequence[DepthResult]]:
    """Measure batch dependence of both norms; measure depth with layer norm and without a norm."""
    return (
        [measure_batch_dependence(name, seed) for name in ("layer norm", "batch norm")],
        [measure_depth(name, seed) for name in ("layer norm", "no norm")],
    )


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    norms, stacks = measure(seed)
    layer, batch = norms
    with_norm, without_norm = stacks
    two = BATCH_SIZES.index(2)
    loss, loss_without = (sum(stack.losses[-10:]) / 10 for stack in stacks)
    lines = (
        "With another neighbor in a batch of 2, batch norm changes a sentence's vectors by "
        f"{batch.neighbor_shift[two]:.0%} of their size, in a batch of {BATCH_SIZES[-1]} by "
        f"{batch.neighbor_shift[-1]:.0%}. Unmasked padding changes them in a batch of 2 by "
        f"{batch.padding_shift[two]:.0%}. Layer norm changes them by "
        f"{max(*layer.neighbor_shift, *layer.padding_shift):.0%}.",
        f"Trained for {STEPS} steps with one sentence per batch, batch norm has an accuracy of "
        f"{batch.train_accuracy[0]:.0%} with the batch's own mean and variance, and of "
        f"{batch.eval_accuracy[0]:.0%} with the running averages that are used at test time; layer "
        f"norm has {layer.eval_accuracy[0]:.0%} (chance: {1 / SYMBOLS:.0%}). With two sentences it "
        f"is {batch.train_accuracy[two]:.0%}, {batch.eval_accuracy[two]:.0%} and "
        f"{layer.eval_accuracy[two]:.0%}: here only batches of one cost accuracy.",
        f"After {DEPTHS[-1]} untrained blocks, activations have a root mean square of "
        f"{with_norm.activation_rms[-1]:.1f} with layer norm before each sublayer, "
        f"{without_norm.activation_rms[-1]:,.0f} without. {TRAINED_DEPTH} blocks, trained for "
        f"{TRAINED_DEPTH_STEPS} steps: loss {loss:.2f} with, {loss_without:.2f} without.",
    )
    columns = {
        "neighbor shift": batch.neighbor_shift,
        "padding shift": batch.padding_shift,
        "train accuracy": batch.train_accuracy,
        "test accuracy": batch.eval_accuracy,
        "layer norm: shift": layer.neighbor_shift,
        "test accuracy, layer norm": layer.eval_accuracy,
    }
    rows = [
        (str(size), *(f"{values[k]:.3f}" for values in columns.values()))
        for k, size in enumerate(BATCH_SIZES)
    ]
    return Finding(
        QUESTIONS["norm"],
        lines,
        "large batches of similar sentences, whose statistics hardly differ; masked batches, where "
        "padding does not count; a few blocks, which train without any norm; initial weights that "
        "are smaller the deeper the stack.",
        _draw_picture(norms, stacks),
        ("batch size", *columns),
        rows,
    )


def _draw_picture(norms: Sequence[BatchDependence], stacks: Sequence[DepthResult]) -> Picture:
    layer, batch = norms
    shifts = line_chart(
        [
            Series(norm.name, list(zip(BATCH_SIZES, norm.neighbor_shift, strict=True))[1:])
            for norm in norms
        ],
        title="A sentence changed by its neighbors",
        x_label="batch size",
        y_label="change of its vectors",
        percent=True,
        log_x=True,
        width=380,
    )
    accuracies = line_chart(
        [
            Series("layer norm", list(zip(BATCH_SIZES, layer.eval_accuracy, strict=True))),
            Series("batch norm", list(zip(BATCH_SIZES, batch.eval_accuracy, strict=True)), color=1),
            Series(
                "… in training", list(zip(BATCH_SIZES, batch.train_accuracy, strict=True)), True, 1
            ),
        ],
        title="Training with small batches",
        x_label="batch size",
        y_label="accuracy",
        percent=True,
        log_x=True,
        width=380,
    )
    activations = line_chart(
        [
            Series(stack.name, list(zip(DEPTHS, stack.activation_rms, strict=True)), color=color)
            for stack, color in zip(stacks, (0, 2), strict=True)
        ],
        title="Activations of a deep stack",
        x_label="blocks",
        y_label="root mean square",
        log_x=True,
        log_y=True,
        width=380,
    )
    return side_by_side([shifts, accuracies, activations], "Norms, batches and depth")
