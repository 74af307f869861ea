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

from workings.decode.sample import generate
from workings.layers.recurrent import Recurrent
from workings.models.language import build_language_model
from workings.models.translators import PAD, START, Sentences, build_translator
from workings.views.marks import Point
from workings.views.panels import side_by_side
from workings.views.picture import Picture
from workings.why import QUESTIONS
from workings.why.finding import Finding
from workings.why.learning import Draw, learn, seeded

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ALPHABET = "0123456789" + "".join(sorted(set("".join(NAMES))))
SPECIALS = max(PAD, START) + 1
CODES = SPECIALS + len(ALPHABET)
LONGEST = max(map(len, NAMES))
WIDTH, STEPS, RATE = 48, 150, 1e-2
EDGE, CELL, BOX, ROW = 14, 36, 24, 64  # of the picture; a cell is a step in time


def encoded(text: str, length: int) -> list[int]:
    """Write a text as numbers, filled up with padding."""
    codes = [SPECIALS + ALPHABET.index(character) for character in text]
    return codes + [PAD] * (length - len(codes))


def decoded(codes: Sequence[int]) -> str:
    """Read numbers as text."""
    return "".join(ALPHABET[code - SPECIALS] for code in codes if code >= SPECIALS)


class Shape(nn.Module):
    """A model of one shape: scores in training; afterwards it answers without being told."""

    def answer(self, x: Int[Tensor, "batch inputs"]) -> Int[Tensor, "batch outputs"]:
        """Give the likeliest."""
        told: Tensor = self(x).argmax(-1)
        return told


class OneToOne(Shape):
    """No time at all: a vector in, a vector out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CODES, WIDTH)
        self.head = nn.Linear(WIDTH, CODES)

    def forward(self, x: Int[Tensor, "batch 1"]) -> Float[Tensor, "batch 1 codes"]:
        """Score what goes with it."""
        scores: Tensor = self.head(self.embedding(x))
        return scores


class ManyToMany(Shape):
    """Read one after the other; say something at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CODES, WIDTH)
        self.recurrent = Recurrent("gru", WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CODES)

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


class OneToMany(Shape):
    """A language model whose prompt is one token: what it writes, it reads again."""

    def __init__(self) -> None:
        super().__init__()
        table = {"kind": "recurrent", "cell": "gru", "embedding": WIDTH, "hidden": WIDTH}
        self.model = build_language_model(table, CODES)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time codes"]:
        """Score each letter, given those before it."""
        scores: Tensor = self.model(x)[0]
        return scores

    def answer(self, x: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
        return torch.stack([code for code, _ in generate(self.model, x[:, :1], x.shape[1])], 1)


class ReadThenWrite(Shape):
    """A translator: one network reads to the end, another writes from what that remembers."""

    def __init__(self) -> None:
        super().__init__()
        table = {"kind": "recurrent", "embedding": WIDTH, "hidden": WIDTH, "dropout": 0.0}
        self.model = build_translator({**table, "context": "fixed"}, CODES, CODES)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch 2 codes"]:
        """Read names, then the first digit; score both digits."""
        source = _sentences(x[:, :-1])
        before = torch.stack([source.starts(), x[:, -1]], 1)
        scores: Tensor = self.model(source, before)
        return scores

    def answer(self, x: Int[Tensor, "batch time"]) -> Int[Tensor, "batch 2"]:
        return torch.stack([code for code, _ in generate(self.model, _sentences(x[:, :-1]), 2)], 1)


def _sentences(x: Int[Tensor, "batch time"]) -> Sentences:
    return Sentences(x, (x != PAD).sum(1))


def doubled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw a digit, and the last digit of twice as much."""
    digits = torch.randint(10, (count, 1), generator=generator)
    return digits + SPECIALS, digits * 2 % 10 + SPECIALS


def spelled(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw a digit and its name."""
    digits = torch.randint(10, (count, 1), generator=generator)
    names = torch.tensor([encoded(name, LONGEST) for name in NAMES])[digits[:, 0]]
    return torch.cat([digits + SPECIALS, names[:, :-1]], 1), names


def largest_so_far(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw two to six digits, and the largest up to each."""
    length = int(torch.randint(2, 7, (1,), generator=generator))
    digits = torch.randint(10, (count, length), generator=generator) + SPECIALS
    return digits, digits.cummax(1).values


def largest(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw two to six digits, and the largest."""
    digits, so_far = largest_so_far(generator, count)
    return digits, so_far[:, -1:]


def read(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
    """Draw the names of two digits, written as one word, and the digits."""
    digits = torch.randint(100, (count,), generator=generator)
    words = [NAMES[n // 10] + NAMES[n % 10] for n in range(100)]
    letters = torch.tensor([encoded(word, 2 * LONGEST) for word in words])[digits]
    both = torch.stack([digits // 10, digits % 10], 1) + SPECIALS
    return torch.cat([letters, both[:, :1]], 1), both


@dataclass(frozen=True)
class Task:
    """A task of one shape, and an example of it."""

    shape: str
    told: str
    model: Callable[[], Shape]
    draw: Draw
    inputs: str  # of the example
    length: int  # that inputs are filled up to
    waits: int  # steps that are read before the first output

    def example(self) -> Int[Tensor, "1 inputs"]:
        """The example as the model takes it."""
        return torch.tensor([encoded(self.inputs, self.length)])


TASKS = (
    Task("one to one", "a digit, doubled: the last digit", OneToOne, doubled, "7", 1, 0),
    Task("one to many", "a digit, spelled", OneToMany, spelled, "3", LONGEST, 0),
    Task("many to one", "the largest digit", ManyToOne, largest, "3825", 4, 3),
    Task("many to many", "the largest digit so far", ManyToMany, largest_so_far, "3825", 4, 0),
    Task("read, then write", "names as digits", ReadThenWrite, read, "sixone", 2 * LONGEST + 1, 6),
)


@dataclass(frozen=True)
class Learned:
    """How well a task was learned."""

    task: Task
    right: float  # the share of whole answers
    guessed: float  # the same for whoever always gives the most frequent one
    outputs: str  # the example's


def measure(seed: int = 1) -> list[Learned]:
    """Train the model of each shape, and let it answer."""
    found = []
    for task in TASKS:
        with seeded(seed):
            model = task.model()
        learn(model, task.draw, steps=STEPS, rate=RATE, seed=seed)
        model.eval()
        generator = torch.Generator().manual_seed(10**6)
        drawn = [task.draw(generator, 100) for _ in range(20)]  # of several lengths
        with torch.no_grad():
            right = torch.cat([(model.answer(x) == y).all(1) for x, y in drawn])
            outputs = decoded(model.answer(task.example())[0].tolist())
        [(_, most)] = Counter(tuple(y) for _, ys in drawn for y in ys.tolist()).most_common(1)
        found.append(Learned(task, right.float().mean().item(), most / len(right), outputs))
    return found


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    found = measure(seed)
    lines = (
        "The five differ in where inputs enter and outputs leave, and in the smallest model that "
        f"can do that. Whole answers that are right after {STEPS} steps: "
        + "; ".join(f"{one.task.shape} {one.right:.0%}" for one in found)
        + ". Where there are a hundred inputs or fewer, all were trained on.",
        "The same for always giving the most frequent answer: "
        + "; ".join(f"{one.task.shape} {one.guessed:.0%}" for one in found)
        + ".",
    )
    return Finding(
        QUESTIONS["shapes"],
        lines,
        "longer sequences, for which one state is too little (workings why bottleneck); outputs "
        "that depend on what is read later, for which a network has to read first or to read both "
        "ways; a Transformer, which has all five shapes, too, without steps to wait for.",
        side_by_side([_diagram(one) for one in found], "What goes in, what comes out"),
        ("shape", "task", "example", "right", "guessed"),
        [
            (one.task.shape, one.task.told, f"{one.task.inputs} → {one.outputs}",
             f"{one.right:.3f}", f"{one.guessed:.3f}")
            for one in found
        ],
    )  # fmt: skip


def _diagram(one: Learned) -> Picture:
    """Draw inputs below, states in the middle, outputs above, and time from left to right."""
    task = one.task
    steps = max(len(task.inputs), task.waits + len(one.outputs))
    picture = Picture(2 * EDGE + max(steps, 5.5) * CELL, 4 * ROW + 10, task.shape)
    picture.text(EDGE, 26, task.shape, size=15, bold=True)
    picture.text(EDGE, 46, task.told, "soft", 12)
    top = 66.0
    rows = {"c2": top, "line": top + ROW, "c1": top + 2 * ROW}

    def box(step: int, row: str, words: str = "") -> Point:
        """Draw what stands somewhere; say where its middle is."""
        x, y = EDGE + step * CELL + BOX / 2, rows[row] + BOX / 2
        picture.rectangle(x - BOX / 2, y - BOX / 2, BOX, BOX, row)
        picture.text(x, y + 5, words, "paper", 14, "middle", bold=True)
        return x, y

    states = [box(step, "line") for step in range(steps)]
    for (x, y), (later, _) in pairwise(states):
        _arrow(picture, (x + BOX / 2, y), (later - BOX / 2, y))
    for step, words in enumerate(task.inputs):
        x, y = box(step, "c1", words)
        _arrow(picture, (x, y - BOX / 2), (x, rows["line"] + BOX))
    for step, words in enumerate(one.outputs, task.waits):
        x, y = box(step, "c2", words)
        _arrow(picture, (x, rows["line"]), (x, y + BOX / 2))
        if len(task.inputs) <= step + 1 < steps:  # it reads what it wrote
            _arrow(picture, (x + BOX / 2, y + BOX / 2), (x + CELL - 4, rows["line"]))
    picture.text(EDGE, rows["c1"] + BOX + 28, f"{one.right:.0%} right", size=13)
    return picture


def _arrow(picture: Picture, start: Point, end: Point) -> None:
    """Draw an arrow from a point nearly to another."""
    (x, y), (to_x, to_y) = start, end
    length = math.dist(start, end)
    right, down = (to_x - x) / length, (to_y - y) / length
    tip = to_x - 2 * right, to_y - 2 * down
    back = tip[0] - 6 * right, tip[1] - 6 * down
    picture.line([start, back], "soft", 1.5)
    sides = [(back[0] - 3 * k * down, back[1] + 3 * k * right) for k in (-1, 1)]
    picture.polygon([tip, *sides], "soft")
