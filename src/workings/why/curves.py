"""Losses while models learn, in words and as a chart."""

from collections.abc import Mapping, Sequence

from workings.views.chart import Series, line_chart
from workings.views.picture import Picture

OVER = 10  # steps that a point of a curve is the mean of


def smooth(losses: Sequence[float], over: int = OVER) -> list[tuple[int, float]]:
    """The means of so many steps each, by the last of them.

    >>> smooth([3.0, 1.0, 0.5, 0.5], over=2)
    [(2, 2.0), (4, 0.5)]
    """
    ends = range(over, len(losses) + 1, over)
    return [(end, sum(losses[end - over : end]) / over) for end in ends]


def loss_chart(
    losses: Mapping[str, Sequence[float]], title: str, least: float | None = None
) -> Picture:
    """Draw the loss of each model by training step, and the least that is possible if it is known.

    >>> loss_chart({"small": [2.0] * 40, "large": [1.0] * 40}, "Learning to count").width
    440
    """
    series = [Series(name, smooth(some)) for name, some in losses.items()]
    if least is not None:
        ends = series[0].points[0][0], series[0].points[-1][0]
        series.append(Series("least possible", [(x, least) for x in ends], dashed=True))
    return line_chart(
        series,
        title=title,
        x_label="training step",
        y_label=f"loss, nats (mean of {OVER} steps)",
        width=440,
    )
