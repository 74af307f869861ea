"""What the experiments share: the finding and how it is shown, curves, and small trainings."""

import math
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workings.display import Renderable
from workings.errors import UserError
from workings.plain_text import escape_control, wrap_to_columns
from workings.render import register
from workings.render.chart import Series, line_chart
from workings.render.page import escape_html, html_page
from workings.render.pictures import Picture
from workings.render.svg_writer import Point
from workings.render.tables import html_table, text_table
from workings.render.training_report import REPORT_CSS

SMOOTHING_WINDOW = 10  # training steps averaged into one point of a loss curve
# Samples a batch of the given size: inputs and target classes.
ExampleSampler: TypeAlias = Callable[[torch.Generator, int], tuple[Tensor, Tensor]]
_CSS = """
.workings .found { max-width: 46rem; margin: 0 0 .6rem; }
.workings .otherwise { color: var(--soft); max-width: 46rem; margin: .8rem 0; }
"""


@dataclass(frozen=True)
class Finding(Renderable):
    """The answer to a question.

    `lines` state the result with its numbers; `caveats` say what would change it; `rows`, under
    their `header`, are the numbers that the `figure` draws.
    """

    question: str
    lines: Sequence[str]
    caveats: str
    figure: Picture
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def panel(self, number: int) -> Picture:
        """Return one panel of the figure, from 1."""
        panels = self.figure.panels or [self.figure]
        if not 1 <= number <= len(panels):
            raise UserError(f"panel {number}: the figure has {len(panels)}")
        return panels[number - 1]

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as data for JSON."""
        return {
            "question": self.question,
            "findings": list(self.lines),
            "caveats": self.caveats,
            "figures": [dict(zip(self.header, row, strict=True)) for row in self.rows],
        }


def render_text(finding: Finding, *, width: int | None = None, color: bool = False) -> str:
    """Return the question, the answer, the table and the caveats as text."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    question = escape_control(finding.question)
    return "\n".join(
        [
            f"\x1b[1m{question}\x1b[0m" if color else question,
            "",
            *(
                row
                for line in finding.lines
                for row in wrap_to_columns(escape_control(line), columns)
            ),
            "",
            text_table(finding.header, finding.rows),
            "",
            *wrap_to_columns(f"What would change it: {escape_control(finding.caveats)}", columns),
        ]
    )


def render_picture(finding: Finding) -> Picture:
    """Return the figure."""
    return finding.figure


def render_fragment(finding: Finding) -> str:
    """Return the same as a fragment of a page, with the figure."""
    lines = "".join(f'<p class="found">{escape_html(line)}</p>' for line in finding.lines)
    return f"""<h1>{escape_html(finding.question)}</h1>
{lines}
<div class="scroll">{finding.figure.svg()}</div>
<p class="otherwise">What would change it: {escape_html(finding.caveats)}</p>
<div class="scroll">{html_table(finding.header, finding.rows)}</div>"""


def render_page(finding: Finding) -> str:
    """Return one HTML page that needs no other file."""
    return html_page(finding.question, render_fragment(finding), style=REPORT_CSS + _CSS)


register(Finding, __name__)


# -- curves ----------------------------------------------------------------------------------------


def fit_power_law(points: Sequence[Point]) -> tuple[float, float]:
    """Fit `y = factor · x^exponent` by least squares in log space; return exponent and factor.

    >>> exponent, factor = fit_power_law([(1, 3), (2, 12), (4, 48)])
    >>> round(exponent, 6), round(factor, 6)
    (2.0, 3.0)
    """
    xs, ys = ([math.log(number) for number in axis] for axis in zip(*points, strict=True))
    exponent, intercept = statistics.linear_regression(xs, ys)
    return exponent, math.exp(intercept)


def smooth(losses: Sequence[float], window: int = SMOOTHING_WINDOW) -> list[tuple[int, float]]:
    """Average losses over consecutive windows; return points of last step and mean.

    >>> smooth([3.0, 1.0, 0.5, 0.5], window=2)
    [(2, 2.0), (4, 0.5)]
    """
    ends = range(window, len(losses) + 1, window)
    return [(end, sum(losses[end - window : end]) / window) for end in ends]


def draw_losses(
    losses: Mapping[str, Sequence[float]], title: str, minimum: float | None = None
) -> Picture:
    """Draw the training loss of each model by step, with the lowest possible loss if it is known.

    >>> draw_losses({"small": [2.0] * 40, "large": [1.0] * 40}, "Learning to count").width
    440
    """
    series = [Series(name, smooth(values)) for name, values in losses.items()]
    if minimum is not None:
        ends = series[0].points[0][0], series[0].points[-1][0]
        series.append(Series("lowest possible", [(x, minimum) for x in ends], dashed=True))
    return line_chart(
        series,
        title=title,
        x_label="training step",
        y_label=f"loss, nats (mean of {SMOOTHING_WINDOW} steps)",
        width=440,
    )


# -- training small models, for seconds, on examples that are sampled at every step ----------------


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed torch's global random state inside the block and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def train_model(
    model: nn.Module,
    sampler: ExampleSampler,
    *,
    steps: int,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    seed: int = 1,
) -> list[float]:
    """Train with AdamW on a new batch at every step; return the loss of each step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
    losses = []
    model.train()
    for _ in range(steps):
        inputs, targets = sampler(generator, batch_size)
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def measure_accuracy(
    model: nn.Module, sampler: ExampleSampler, *, num_examples: int = 2000, seed: int = 10**6
) -> float:
    """Return the accuracy on newly sampled examples."""
    inputs, targets = sampler(torch.Generator().manual_seed(seed), num_examples)
    model.eval()
    correct: Tensor = model(inputs).argmax(-1) == targets
    return correct.float().mean().item()


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
