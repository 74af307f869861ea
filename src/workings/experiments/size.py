"""How does the loss fall with more parameters and more data?

Transformer language models of several widths are trained on the characters of Python's standard
library; one of them also on less text. On logarithmic axes, how close is the loss to a line?
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.data.corpora import read_corpus
from workings.experiments import QUESTIONS
from workings.experiments.base import (
    ExampleSampler,
    Finding,
    count_parameters,
    fit_power_law,
    isolated_rng,
    train_model,
)
from workings.models.language import build_language_model
from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture, side_by_side
from workings.render.svg_writer import Point

WIDTHS = (8, 16, 32, 64)
DATA_WIDTH = 32  # the width that is also trained on less text
DATA_SIZES = (2_000, 8_000, 32_000)  # characters
STEPS_PER_ROUND, NUM_ROUNDS = 50, 5  # the held-out loss is evaluated after each round
WINDOW, BATCH_SIZE, LEARNING_RATE = 48, 16, 6e-3
MAX_CHARACTERS = 128_000  # of training text: about one and a half epochs
HELD_OUT_CHARACTERS = 20_000  # one half selects the best round, the other measures its loss
VOCAB_SIZE = 128  # ASCII; other characters are replaced by question marks


@dataclass(frozen=True)
class PowerLawFit:
    """Held-out losses by size, and the power law fitted to them."""

    points: Sequence[Point]
    line: Sequence[Point]
    slope: float
    max_deviation: float  # largest relative distance of a point from the line


class CharacterModel(nn.Module):
    """A Transformer language model of characters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        table = {"kind": "transformer", "d_model": width, "layers": 2, "heads": 2}
        self.language_model = build_language_model(table, VOCAB_SIZE)

    def forward(self, x: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time codes"]:
        """Return next-character logits at every position."""
        logits: Tensor = self.language_model(x)[0]
        return logits


def fit_line(points: Sequence[Point]) -> PowerLawFit:
    """Fit a power law to points, and measure how far they are from it."""
    slope, factor = fit_power_law(points)
    line = [(x, factor * x**slope) for x, _ in points]
    deviation = max(abs(y / fitted - 1) for (_, y), (_, fitted) in zip(points, line, strict=True))
    return PowerLawFit(points, line, slope, deviation)


def make_window_sampler(text: Int[Tensor, " characters"]) -> ExampleSampler:
    """Return a sampler of windows of a text, with the next character at every position."""

    def sample(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        start = torch.randint(len(text) - WINDOW, (count, 1), generator=generator)
        windows = text[start + torch.arange(WINDOW + 1)]
        return windows[:, :-1], windows[:, 1:]

    return sample


def load_texts() -> tuple[Int[Tensor, " characters"], Int[Tensor, " characters"]]:
    """Load source code of Python's standard library; return training and held-out text."""
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
    """Train a model; return its number of parameters and the held-out loss of its best round."""
    with isolated_rng(seed):
        model = CharacterModel(width)
    losses = []
    for k in range(rounds):
        train_model(
            model,
            make_window_sampler(text),
            steps=STEPS_PER_ROUND,
            batch_size=BATCH_SIZE,
            learning_rate=LEARNING_RATE * (1 - k / rounds),
            seed=100 * seed + k,
        )
        losses.append([_evaluate_loss(model, half) for half in held_out.chunk(2)])
    _, best_loss = min(losses)
    return count_parameters(model), best_loss


@torch.no_grad()
def _evaluate_loss(model: CharacterModel, text: Int[Tensor, " characters"]) -> float:
    rows = text[: len(text) // WINDOW * WINDOW].view(-1, WINDOW)
    model.eval()
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()).item()


def measure(
    seed: int = 1, *, widths: Sequence[int] = WIDTHS, rounds: int = NUM_ROUNDS
) -> tuple[PowerLawFit, Sequence[Point]]:
    """Measure the held-out loss, in nats, by parameters and by characters of training text."""
    train, held_out = load_texts()
    by_width = {width: train_width(width, train, held_out, seed, rounds) for width in widths}
    by_data = [
        (n, train_width(DATA_WIDTH, train[:n], held_out, seed, rounds)[1]) for n in DATA_SIZES
    ]
    by_data.append((len(train), by_width[DATA_WIDTH][1]))
    return fit_line(list(by_width.values())), by_data


def answer(seed: int = 1) -> Finding:
    """Describe and draw the measurements."""
    by_size, by_data = measure(seed)
    smallest, largest = by_size.points[0], by_size.points[-1]
    first, second, third, last = by_data
    steps = STEPS_PER_ROUND * NUM_ROUNDS
    lines = (
        f"From {smallest[0]:,} to {largest[0]:,} parameters the held-out loss falls from "
        f"{smallest[1]:.2f} to {largest[1]:.2f} nats per character: ten times the parameters "
        f"multiply it by {10**by_size.slope:.2f}. A straight line on logarithmic axes is within "
        f"{by_size.max_deviation:.1%} of its {len(by_size.points)} points; a minute of training "
        "can only hint at the law.",
        f"From {first[0]:,} to {last[0]:,} characters it falls from {first[1]:.2f} to "
        f"{last[1]:.2f}. The first fourfold increase multiplies it by {second[1] / first[1]:.2f}, "
        f"the next by {third[1] / second[1]:.2f}, the last ({last[0] / third[0]:.0f} times) by "
        f"{last[1] / third[1]:.2f}, with a model of width {DATA_WIDTH} and {steps} steps for each.",
    )
    rows = [
        *(("parameters", f"{x:,}", f"{y:.3f}") for x, y in by_size.points),
        *(("characters", f"{x:,}", f"{y:.3f}") for x, y in by_data),
    ]
    slope = Series(f"slope −{-by_size.slope:.3f}", by_size.line, dashed=True)
    charts = (
        _draw_chart("More parameters", "parameters", Series("held out", by_size.points), slope),
        _draw_chart(f"More data, width {DATA_WIDTH}", "characters", Series("held out", by_data)),
    )
    return Finding(
        QUESTIONS["size"],
        lines,
        "training to convergence, which lowers all losses and keeps more data useful for longer; a "
        "text whose next character is more predictable; models so large that the text is the "
        "limit, or texts so long that the model is.",
        side_by_side(charts, f"Held-out loss after {steps} steps, by size"),
        ("axis", "size", "loss, nats"),
        rows,
    )


def _draw_chart(title: str, x_label: str, *series: Series) -> Picture:
    return line_chart(
        series,
        title=title,
        x_label=x_label,
        y_label="nats per character",
        log_x=True,
        log_y=True,
        width=460,
    )
