"""Curves of the experiments: power-law fits and charts of the training loss."""

import math
import statistics
from collections.abc import Mapping, Sequence

from workings.render.chart import Series, line_chart
from workings.render.pictures import Picture
from workings.render.svg_writer import Point

SMOOTHING_WINDOW = 10  # training steps averaged into one point of a loss curve


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
