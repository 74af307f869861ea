"""Which shapes can a task have: one to many, many to one, many to many?

Five shapes, each with a task about digits and their names and the smallest model for it. The shape
decides at which steps a network gets its inputs and at which its outputs are taken.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.decode import generate
from workings.experiments import QUESTIONS
from workings.experiments.base import ExampleSampler, Finding, isolated_rng, train_model
from workings.layers.recurrent import RecurrentStack
from workings.models.language import build_language_model
from workings.models.translation import PAD, START, SentenceBatch, build_translator
from workings.render.pictures import Picture, side_by_side
from workings.render.svg_writer import Point

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ALPHABET = "0123456789" + "".join(sorted(set("".join(NAMES))))
NUM_SPECIALS = max(PAD, START) + 1
VOCAB_SIZE = NUM_SPECIALS + len(ALPHABET)
MAX_NAME_LENGTH = max(map(len, NAMES))
WIDTH, STEPS, LEARNING_RATE = 48, 150, 1e-2
EDGE, CELL, BOX, ROW = 14, 36, 24, 64  # of the diagrams, in pixels; a cell is one time step


def encode(text: str, length: int) -> list[int]:
    """Encode a text as token ids, padded to a length."""
    ids = [NUM_SPECIALS + ALPHABET.index(character) for character in text]
    return ids + [PAD] * (length - len(ids))


def decode(ids: Sequence[int]) -> str:
    """Decode token ids to a text, without special tokens."""
    return "".join(ALPHABET[token - NUM_SPECIALS] for token in ids if token >= NUM_SPECIALS)


class ShapeModel(nn.Module):
    """A model of one shape: `forward` is teacher-forced, `predict` is not."""

    def predict(self, x: Int[Tensor, "batch inputs"]) -> Int[Tensor, "batch outputs"]:
        """Return the most likely tokens."""
        predicted: Tensor = self(x).argmax(-1)
        return predicted


class OneToOne(ShapeModel):
    """An embedding and a linear layer: one vector in, one out, no recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch 1"]) -> Float[Tensor, "batch 1 tokens"]:
        """Return logits."""
        logits: Tensor = self.head(self.embedding(x))
        return logits


class ManyToMany(ShapeModel):
    """A recurrent network with an output at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.recurrent = RecurrentStack("gru", WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time tokens"]:
        """Return logits at every step."""
        states, _, _ = self.recurrent(self.embedding(x))
        logits: Tensor = self.head(states)
        return logits


class ManyToOne(ManyToMany):
    """A recurrent network with one output, at the last step."""

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch 1 tokens"]:
        """Return logits at the last step."""
        return super().forward(x)[:, -1:]


class OneToMany(ShapeModel):
    """A language model whose prompt is one token; its outputs are its next inputs."""

    def __init__(self) -> None:
        super().__init__()
        table = {"kind": "recurrent", "cell": "gru", "d_model": WIDTH, "hidden_size": WIDTH}
        self.model = build_language_model(table, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time tokens"]:
        """Return logits of each letter, given those before it."""
        logits: Tensor = self.model(x)[0]
        return logits

    def predict(self, x: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
        return torch.stack([token for token, _ in generate(self.model, x[:, :1], x.shape[1])], 1)


class EncoderDecoder(ShapeModel):
    """A translator: the encoder reads all inputs, the decoder starts from its final state."""

    def __init__(self) -> None:
        super().__init__()
        table = {"kind": "recurrent", "d_model": WIDTH, "hidden_size": WIDTH, "dropout": 0.0}
        self.model = build_translator({**table, "attention": "fixed"}, VOCAB_SIZE, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch 2 tokens"]:
        """Return logits of both digits; `x` holds the names and then the first digit."""
        source = _to_source(x[:, :-1])
        decoder_input = torch.stack([source.start_tokens(), x[:, -1]], 1)
        logits: Tensor = self.model(source, decoder_input)
        return logits

    def predict(self, x: Int[Tensor, "batch time"]) -> Int[Tensor, "batch 2"]:
        return torch.stack(
            [token for token, _ in generate(self.model, _to_source(x[:, :-1]), 2)], 1
        )


def _to_source(x: Int[Tensor, "batch time"]) -> SentenceBatch:
    return SentenceBatch(x, (x != PAD).sum(1))


def sample_doubled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample a digit; the target is the last digit of its double."""
    digits = torch.randint(10, (count, 1), generator=generator)
    return digits + NUM_SPECIALS, digits * 2 % 10 + NUM_SPECIALS


def sample_spelled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample a digit; the target is its name."""
    digits = torch.randint(10, (count, 1), generator=generator)
    names = torch.tensor([encode(name, MAX_NAME_LENGTH) for name in NAMES])[digits[:, 0]]
    return torch.cat([digits + NUM_SPECIALS, names[:, :-1]], 1), names


def sample_running_max(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample two to six digits; the target at each step is the largest so far."""
    length = int(torch.randint(2, 7, (1,), generator=generator))
    digits = torch.randint(10, (count, length), generator=generator) + NUM_SPECIALS
    return digits, digits.cummax(1).values


def sample_max(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample two to six digits; the target is the largest."""
    digits, running_max = sample_running_max(generator, count)
    return digits, running_max[:, -1:]


def sample_number_names(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Sample the names of two digits, joined to one word; the targets are the digits."""
    numbers = torch.randint(100, (count,), generator=generator)
    words = [NAMES[n // 10] + NAMES[n % 10] for n in range(100)]
    letters = torch.tensor([encode(word, 2 * MAX_NAME_LENGTH) for word in words])[numbers]
    digits = torch.stack([numbers // 10, numbers % 10], 1) + NUM_SPECIALS
    return torch.cat([letters, digits[:, :1]], 1), digits


@dataclass(frozen=True)
class ShapeTask:
    """A task of one shape, with an example."""

    shape: str
    description: str
    model: Callable[[], ShapeModel]
    sampler: ExampleSampler
    example_input: str
    length: int  # to which inputs are padded
    delay: int  # input steps before the first output

    def encode_example(self) -> Int[Tensor, "1 inputs"]:
        """Return the example as a batch of one."""
        return torch.tensor([encode(self.example_input, self.length)])


TASKS = (
    ShapeTask(
        "one to one", "a digit, doubled: the last digit", OneToOne, sample_doubled, "7", 1, 0
    ),
    ShapeTask(
        "one to many", "a digit, spelled", OneToMany, sample_spelled, "3", MAX_NAME_LENGTH, 0
    ),
    ShapeTask("many to one", "the largest digit", ManyToOne, sample_max, "3825", 4, 3),
    ShapeTask(
        "many to many", "the largest digit so far", ManyToMany, sample_running_max, "3825", 4, 0
    ),
    ShapeTask(
        "encoder-decoder",
        "names as digits",
        EncoderDecoder,
        sample_number_names,
        "sixone",
        2 * MAX_NAME_LENGTH + 1,
        6,
    ),
)


@dataclass(frozen=True)
class ShapeResult:
    """Accuracy of the model trained on one task."""

    task: ShapeTask
    accuracy: float  # an output counts as correct if all of its tokens are
    majority_accuracy: float  # of always predicting the most frequent output
    example_output: str


def measure(seed: int = 1) -> list[ShapeResult]:
    """Train the model of each task, and measure its accuracy."""
    results = []
    for task in TASKS:
        with isolated_rng(seed):
            model = task.model()
        train_model(model, task.sampler, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed)
        results.append(_evaluate(task, model))
    return results


@torch.no_grad()
def _evaluate(task: ShapeTask, model: ShapeModel) -> ShapeResult:
    model.eval()
    generator = torch.Generator().manual_seed(10**6)
    batches = [task.sampler(generator, 100) for _ in range(20)]  # of several lengths
    is_correct = torch.cat([(model.predict(x) == y).all(1) for x, y in batches])
    example_output = decode(model.predict(task.encode_example())[0].tolist())
    outputs = Counter(tuple(y) for _, targets in batches for y in targets.tolist())
    [(_, majority)] = outputs.most_common(1)
    accuracy = is_correct.float().mean().item()
    return ShapeResult(task, accuracy, majority / len(is_correct), example_output)


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    results = measure(seed)
    lines = (
        "The five shapes differ in where inputs enter and outputs leave, and in the smallest model "
        f"that can do it. Accuracy of whole outputs after {STEPS} steps: "
        + "; ".join(f"{x.task.shape} {x.accuracy:.0%}" for x in results)
        + ". Tasks with a hundred inputs or fewer were trained on all of them.",
        "Accuracy of always predicting the most frequent output: "
        + "; ".join(f"{x.task.shape} {x.majority_accuracy:.0%}" for x in results)
        + ".",
    )
    rows = [
        (
            x.task.shape,
            x.task.description,
            f"{x.task.example_input} → {x.example_output}",
            f"{x.accuracy:.3f}",
            f"{x.majority_accuracy:.3f}",
        )
        for x in results
    ]
    return Finding(
        QUESTIONS["shapes"],
        lines,
        "longer sequences, for which one state is not enough (workings why bottleneck); outputs "
        "that depend on later inputs, which need an encoder or a bidirectional network; a "
        "Transformer, which has all five shapes, too, without sequential steps.",
        side_by_side([_draw_diagram(x) for x in results], "Inputs and outputs of five shapes"),
        ("shape", "task", "example", "accuracy", "majority"),
        rows,
    )


def _draw_diagram(result: ShapeResult) -> Picture:
    """Draw inputs at the bottom, states in the middle and outputs at the top, over time."""
    task = result.task
    steps = max(len(task.example_input), task.delay + len(result.example_output))
    picture = Picture(2 * EDGE + max(steps, 5.5) * CELL, 4 * ROW + 10, task.shape)
    picture.add_text(EDGE, 26, task.shape, size=15, bold=True)
    picture.add_text(EDGE, 46, task.description, "soft", 12)
    top = 66.0
    rows = {"c2": top, "line": top + ROW, "c1": top + 2 * ROW}

    def draw_box(step: int, row: str, label: str = "") -> Point:
        """Draw a box with a label; return its center."""
        x, y = EDGE + step * CELL + BOX / 2, rows[row] + BOX / 2
        picture.add_rectangle(x - BOX / 2, y - BOX / 2, BOX, BOX, row)
        picture.add_text(x, y + 5, label, "paper", 14, "middle", bold=True)
        return x, y

    states = [draw_box(step, "line") for step in range(steps)]
    for (x, y), (next_x, _) in pairwise(states):
        _draw_arrow(picture, (x + BOX / 2, y), (next_x - BOX / 2, y))
    for step, label in enumerate(task.example_input):
        x, y = draw_box(step, "c1", label)
        _draw_arrow(picture, (x, y - BOX / 2), (x, rows["line"] + BOX))
    for step, label in enumerate(result.example_output, task.delay):
        x, y = draw_box(step, "c2", label)
        _draw_arrow(picture, (x, rows["line"]), (x, y + BOX / 2))
        if len(task.example_input) <= step + 1 < steps:  # an output is the next input
            _draw_arrow(picture, (x + BOX / 2, y + BOX / 2), (x + CELL - 4, rows["line"]))
    picture.add_text(EDGE, rows["c1"] + BOX + 28, f"{result.accuracy:.0%} correct", size=13)
    return picture


def _draw_arrow(picture: Picture, start: Point, end: Point) -> None:
    """Draw an arrow that ends just before a point."""
    (x, y), (to_x, to_y) = start, end
    length = math.dist(start, end)
    right, down = (to_x - x) / length, (to_y - y) / length
    tip = to_x - 2 * right, to_y - 2 * down
    back = tip[0] - 6 * right, tip[1] - 6 * down
    picture.add_line([start, back], "soft", 1.5)
    sides = [(back[0] - 3 * k * down, back[1] + 3 * k * right) for k in (-1, 1)]
    picture.add_polygon([tip, *sides], "soft")
