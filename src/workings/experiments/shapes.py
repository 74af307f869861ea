"""What goes in, what comes out: one or many?

Five shapes of a task, each with digits and their names, and the smallest model for it: what is read
and what is written decides where a network gets its inputs and where its outputs are taken from.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.decode.sampling import generate
from workings.experiments import QUESTIONS
from workings.experiments.finding import Finding
from workings.experiments.toy_training import ExampleSampler, isolated_rng, train_model
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
EDGE, CELL, BOX, ROW = 14, 36, 24, 64  # of the picture; a cell is a step in time


def encode(text: str, length: int) -> list[int]:
    """Write a text as numbers, filled up with padding."""
    codes = [NUM_SPECIALS + ALPHABET.index(character) for character in text]
    return codes + [PAD] * (length - len(codes))


def decode(codes: Sequence[int]) -> str:
    """Read numbers as text."""
    return "".join(ALPHABET[code - NUM_SPECIALS] for code in codes if code >= NUM_SPECIALS)


class ShapeModel(nn.Module):
    """A model of one shape: scores in training; afterwards it answers without being told."""

    def predict(self, x: Int[Tensor, "batch inputs"]) -> Int[Tensor, "batch outputs"]:
        """Give the likeliest."""
        told: Tensor = self(x).argmax(-1)
        return told


class OneToOne(ShapeModel):
    """No time at all: a vector in, a vector out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch 1"]) -> Float[Tensor, "batch 1 codes"]:
        """Score what goes with it."""
        scores: Tensor = self.head(self.embedding(x))
        return scores


class ManyToMany(ShapeModel):
    """Read one after the other; say something at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.recurrent = RecurrentStack("gru", WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time codes"]:
        """Score at every step."""
        states, _, _ = self.recurrent(self.embedding(x))
        scores: Tensor = self.head(states)
        return scores


class ManyToOne(ManyToMany):
    """Read one after the other; say something at the end."""

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch 1 codes"]:
        """Score at the last step."""
        return super().forward(x)[:, -1:]


class OneToMany(ShapeModel):
    """A language model whose prompt is one token: what it writes, it reads again."""

    def __init__(self) -> None:
        super().__init__()
        table = {"kind": "recurrent", "cell": "gru", "d_model": WIDTH, "hidden_size": WIDTH}
        self.model = build_language_model(table, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time codes"]:
        """Score each letter, given those before it."""
        scores: Tensor = self.model(x)[0]
        return scores

    def predict(self, x: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
        return torch.stack([code for code, _ in generate(self.model, x[:, :1], x.shape[1])], 1)


class EncoderDecoder(ShapeModel):
    """A translator: one network reads to the end, another writes from what that remembers."""

    def __init__(self) -> None:
        super().__init__()
        table = {"kind": "recurrent", "d_model": WIDTH, "hidden_size": WIDTH, "dropout": 0.0}
        self.model = build_translator({**table, "attention": "fixed"}, VOCAB_SIZE, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch 2 codes"]:
        """Read names, then the first digit; score both digits."""
        source = _to_source(x[:, :-1])
        before = torch.stack([source.start_tokens(), x[:, -1]], 1)
        scores: Tensor = self.model(source, before)
        return scores

    def predict(self, x: Int[Tensor, "batch time"]) -> Int[Tensor, "batch 2"]:
        return torch.stack([code for code, _ in generate(self.model, _to_source(x[:, :-1]), 2)], 1)


def _to_source(x: Int[Tensor, "batch time"]) -> SentenceBatch:
    return SentenceBatch(x, (x != PAD).sum(1))


def sample_doubled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw a digit, and the last digit of twice as much."""
    digits = torch.randint(10, (count, 1), generator=generator)
    return digits + NUM_SPECIALS, digits * 2 % 10 + NUM_SPECIALS


def sample_spelled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw a digit and its name."""
    digits = torch.randint(10, (count, 1), generator=generator)
    names = torch.tensor([encode(name, MAX_NAME_LENGTH) for name in NAMES])[digits[:, 0]]
    return torch.cat([digits + NUM_SPECIALS, names[:, :-1]], 1), names


def sample_running_max(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw two to six digits, and the largest up to each."""
    length = int(torch.randint(2, 7, (1,), generator=generator))
    digits = torch.randint(10, (count, length), generator=generator) + NUM_SPECIALS
    return digits, digits.cummax(1).values


def sample_max(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw two to six digits, and the largest."""
    digits, so_far = sample_running_max(generator, count)
    return digits, so_far[:, -1:]


def sample_number_names(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw the names of two digits, written as one word, and the digits."""
    digits = torch.randint(100, (count,), generator=generator)
    words = [NAMES[n // 10] + NAMES[n % 10] for n in range(100)]
    letters = torch.tensor([encode(word, 2 * MAX_NAME_LENGTH) for word in words])[digits]
    both = torch.stack([digits // 10, digits % 10], 1) + NUM_SPECIALS
    return torch.cat([letters, both[:, :1]], 1), both


@dataclass(frozen=True)
class ShapeTask:
    """A task of one shape, and an example of it."""

    shape: str
    description: str
    model: Callable[[], ShapeModel]
    sampler: ExampleSampler
    example_input: str  # of the example
    length: int  # that inputs are filled up to
    delay: int  # steps that are read before the first output

    def encode_example(self) -> Int[Tensor, "1 inputs"]:
        """The example as the model takes it."""
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
        "read, then write",
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
    """How well a task was learned."""

    task: ShapeTask
    accuracy: float  # the share of whole answers
    majority_accuracy: float  # the same for whoever always gives the most frequent one
    example_output: str  # the example's


def measure(seed: int = 1) -> list[ShapeResult]:
    """Train the model of each shape, and let it answer."""
    found = []
    for task in TASKS:
        with isolated_rng(seed):
            model = task.model()
        train_model(model, task.sampler, steps=STEPS, learning_rate=LEARNING_RATE, seed=seed)
        model.eval()
        generator = torch.Generator().manual_seed(10**6)
        drawn = [task.sampler(generator, 100) for _ in range(20)]  # of several lengths
        with torch.no_grad():
            right = torch.cat([(model.predict(x) == y).all(1) for x, y in drawn])
            outputs = decode(model.predict(task.encode_example())[0].tolist())
        [(_, most)] = Counter(tuple(y) for _, ys in drawn for y in ys.tolist()).most_common(1)
        found.append(ShapeResult(task, right.float().mean().item(), most / len(right), outputs))
    return found


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    lines = (
        "The five differ in where inputs enter and outputs leave, and in the smallest model that "
        f"can do that. Whole answers that are right after {STEPS} steps: "
        + "; ".join(f"{one.task.shape} {one.accuracy:.0%}" for one in found)
        + ". Where there are a hundred inputs or fewer, all were trained on.",
        "The same for always giving the most frequent answer: "
        + "; ".join(f"{one.task.shape} {one.majority_accuracy:.0%}" for one in found)
        + ".",
    )
    return Finding(
        QUESTIONS["shapes"],
        lines,
        "longer sequences, for which one state is too little (workings why bottleneck); outputs "
        "that depend on what is read later, for which a network has to read first or to read both "
        "ways; a Transformer, which has all five shapes, too, without steps to wait for.",
        side_by_side([_draw_diagram(one) for one in found], "What goes in, what comes out"),
        ("shape", "task", "example", "right", "guessed"),
        [
            (one.task.shape, one.task.description, f"{one.task.example_input} → {one.example_output}",
             f"{one.accuracy:.3f}", f"{one.majority_accuracy:.3f}")
            for one in found
        ],
    )  # fmt: skip


def _draw_diagram(result: ShapeResult) -> Picture:
    """Draw inputs below, states in the middle, outputs above, and time from left to right."""
    task = result.task
    steps = max(len(task.example_input), task.delay + len(result.example_output))
    picture = Picture(2 * EDGE + max(steps, 5.5) * CELL, 4 * ROW + 10, task.shape)
    picture.add_text(EDGE, 26, task.shape, size=15, bold=True)
    picture.add_text(EDGE, 46, task.description, "soft", 12)
    top = 66.0
    rows = {"c2": top, "line": top + ROW, "c1": top + 2 * ROW}

    def box(step: int, row: str, words: str = "") -> Point:
        """Draw what stands somewhere; say where its middle is."""
        x, y = EDGE + step * CELL + BOX / 2, rows[row] + BOX / 2
        picture.add_rectangle(x - BOX / 2, y - BOX / 2, BOX, BOX, row)
        picture.add_text(x, y + 5, words, "paper", 14, "middle", bold=True)
        return x, y

    states = [box(step, "line") for step in range(steps)]
    for (x, y), (later, _) in pairwise(states):
        _draw_arrow(picture, (x + BOX / 2, y), (later - BOX / 2, y))
    for step, words in enumerate(task.example_input):
        x, y = box(step, "c1", words)
        _draw_arrow(picture, (x, y - BOX / 2), (x, rows["line"] + BOX))
    for step, words in enumerate(result.example_output, task.delay):
        x, y = box(step, "c2", words)
        _draw_arrow(picture, (x, rows["line"]), (x, y + BOX / 2))
        if len(task.example_input) <= step + 1 < steps:  # it reads what it wrote
            _draw_arrow(picture, (x + BOX / 2, y + BOX / 2), (x + CELL - 4, rows["line"]))
    picture.add_text(EDGE, rows["c1"] + BOX + 28, f"{result.accuracy:.0%} right", size=13)
    return picture


def _draw_arrow(picture: Picture, start: Point, end: Point) -> None:
    """Draw an arrow from a point nearly to another."""
    (x, y), (to_x, to_y) = start, end
    length = math.dist(start, end)
    right, down = (to_x - x) / length, (to_y - y) / length
    tip = to_x - 2 * right, to_y - 2 * down
    back = tip[0] - 6 * right, tip[1] - 6 * down
    picture.add_line([start, back], "soft", 1.5)
    sides = [(back[0] - 3 * k * down, back[1] + 3 * k * right) for k in (-1, 1)]
    picture.add_polygon([tip, *sides], "soft")
