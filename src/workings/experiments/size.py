"""How does the loss fall with more parameters and more data?

Language models of one design, from small to less small, learn the characters of Python's own
library; one of them learns from more and more of it. On logarithmic axes, how straight is the line?
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.data.corpora import read_corpus
from workings.experiments import QUESTIONS
from workings.experiments.curves import fit_power_law
from workings.experiments.finding import Finding
from workings.experiments.toy_training import ExampleSampler, isolated_rng, train_model
from workings.models.language import build_language_model
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side
from workings.render.svg_writer import Point

WIDTHS = (8, 16, 32, 64)
DATA_WIDTH = 32  # the width that learns from less data, too
DATA_SIZES = (2_000, 8_000, 32_000)  # characters of less data
STEPS_PER_ROUND, NUM_ROUNDS = 50, 5  # steps between looks at the held-out text
WINDOW, BATCH_SIZE, LEARNING_RATE = 48, 16, 6e-3
MAX_CHARACTERS = 128_000  # characters: what the steps have read once and a half when they end
HELD_OUT_CHARACTERS = (
    20_000  # characters: one half says when a model was best, the other how good it was
)
VOCAB_SIZE = 128  # characters of ASCII; any other is read as a question mark


@dataclass(frozen=True)
class PowerLawFit:
    """Held-out losses by size, and the straight line through their logarithms."""

    points: Sequence[Point]
    line: Sequence[Point]
    slope: float
    max_deviation: float  # the share by which the farthest point lies beside the line


class CharacterModel(nn.Module):
    """A Transformer that scores the next character at every place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        table = {"kind": "transformer", "d_model": width, "layers": 2, "heads": 2}
        self.language_model = build_language_model(table, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time codes"]:
        """Read windows."""
        scores: Tensor = self.language_model(x)[0]
        return scores


def fit_line(points: Sequence[Point]) -> PowerLawFit:
    """Draw the straight line, and say how far the points are from it."""
    slope, factor = fit_power_law(points)
    line = [(x, factor * x**slope) for x, _ in points]
    off = max(abs(y / on - 1) for (_, y), (_, on) in zip(points, line, strict=True))
    return PowerLawFit(points, line, slope, off)


def make_window_sampler(text: Int[Tensor, " characters"]) -> ExampleSampler:
    """Draw windows of a text: characters, and at each place the one that follows."""

    def draw(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        first = torch.randint(len(text) - WINDOW, (count, 1), generator=generator)
        drawn = text[first + torch.arange(WINDOW + 1)]
        return drawn[:, :-1], drawn[:, 1:]

    return draw


def load_texts() -> tuple[Int[Tensor, " characters"], Int[Tensor, " characters"]]:
    """Python's own library: what is learned from, and what is held out."""
    text = next(read_corpus("python-source"))
    codes = torch.tensor(list(text.encode("ascii", "replace")))
    return codes[:MAX_CHARACTERS], codes[-HELD_OUT_CHARACTERS:]


def train_width(
    width: int,
    text: Int[Tensor, " characters"],
    held_out: Int[Tensor, " characters"],
    seed: int,
    rounds: int = NUM_ROUNDS,
) -> tuple[int, float]:
    """Train a model of a width; give its parameters, and its held-out loss when it was best."""
    with isolated_rng(seed):
        model = CharacterModel(width)
    losses = []
    for k in range(rounds):  # each with a smaller rate
        rate = LEARNING_RATE * (1 - k / rounds)
        train_model(
            model,
            make_window_sampler(text),
            steps=STEPS_PER_ROUND,
            batch_size=BATCH_SIZE,
            learning_rate=rate,
            seed=100 * seed + k,
        )
        losses.append([_evaluate_loss(model, half) for half in held_out.chunk(2)])
    _, measured = min(losses)
    return sum(p.numel() for p in model.parameters()), measured


@torch.no_grad()
def _evaluate_loss(model: CharacterModel, text: Int[Tensor, " characters"]) -> float:
    rows = text[: len(text) // WINDOW * WINDOW].view(-1, WINDOW)
    model.eval()
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()).item()


def measure(seed: int = 1) -> tuple[PowerLawFit, Sequence[Point]]:
    """Held-out loss by the parameters, and by the characters learned from; in nats each."""
    train, held_out = load_texts()
    by_width = {width: train_width(width, train, held_out, seed) for width in WIDTHS}
    less = [(n, train_width(DATA_WIDTH, train[:n], held_out, seed)[1]) for n in DATA_SIZES]
    all_of_it = (len(train), by_width[DATA_WIDTH][1])
    return fit_line(list(by_width.values())), [*less, all_of_it]


def answer(seed: int = 1) -> Finding:
    """Say and draw what was measured."""
    sizes, amounts = measure(seed)
    first, second, third, last = amounts
    lines = (
        f"From {sizes.points[0][0]:,} to {sizes.points[-1][0]:,} parameters the held-out loss goes "
        f"from {sizes.points[0][1]:.2f} to {sizes.points[-1][1]:.2f} nats a character: ten times "
        f"as many multiply it by {10**sizes.slope:.2f}. A straight line on logarithmic axes passes "
        f"within {sizes.max_deviation:.1%} of its {len(sizes.points)} points: a minute can but hint at it.",
        f"From {first[0]:,} to {last[0]:,} characters it goes from {first[1]:.2f} to "
        f"{last[1]:.2f}. The first four times as many multiply it by {second[1] / first[1]:.2f}, "
        f"the next by {third[1] / second[1]:.2f}, the last {last[0] / third[0]:.0f} times by "
        f"{last[1] / third[1]:.2f}, with a model of width {DATA_WIDTH} and {STEPS_PER_ROUND * NUM_ROUNDS} steps "
        "for each.",
    )
    rows = [
        *(("parameters", f"{x:,}", f"{y:.3f}") for x, y in sizes.points),
        *(("characters", f"{x:,}", f"{y:.3f}") for x, y in amounts),
    ]
    slope = Series(f"slope −{-sizes.slope:.3f}", sizes.line, dashed=True)
    charts = (
        _draw_chart("More parameters", "parameters", Series("held out", sizes.points), slope),
        _draw_chart(f"More data, width {DATA_WIDTH}", "characters", Series("held out", amounts)),
    )
    return Finding(
        QUESTIONS["size"],
        lines,
        "training until nothing is gained any more, which brings all losses down and keeps more "
        "data useful for longer; a text whose next character is less uncertain; models so large "
        "that the text is the limit, or texts so long that the model is.",
        side_by_side(charts, f"Held-out loss after {STEPS_PER_ROUND * NUM_ROUNDS} steps, by size"),
        ("what", "how many", "loss, nats"),
        rows,
    )


def _draw_chart(title: str, x_label: str, *series: Series) -> Picture:
    return line_chart(
        series,
        title=title,
        x_label=x_label,
        y_label="nats a character",
        log_x=True,
        log_y=True,
        width=460,
    )
