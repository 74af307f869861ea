"""A power law through measured points: a straight line on logarithmic axes."""

import math
import statistics
from collections.abc import Sequence

from workings.views.marks import Point


def power_law(points: Sequence[Point]) -> tuple[float, float]:
    """Fit `y = factor · x^exponent` by least squares of the logarithms; give exponent and factor.

    >>> exponent, factor = power_law([(1, 3), (2, 12), (4, 48)])
    >>> round(exponent, 6), round(factor, 6)
    (2.0, 3.0)
    """
    xs, ys = ([math.log(number) for number in side] for side in zip(*points, strict=True))
    exponent, start = statistics.linear_regression(xs, ys)
    return exponent, math.exp(start)
