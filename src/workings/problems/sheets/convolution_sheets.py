"""Sheets on convolution with pooling, and on batch norm."""

from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Floats
from workings.problems.kinds.convolution import count_windows
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import (
    SamplingError,
    draw_inputs,
    draw_until,
    draw_vector,
    draw_weight,
)
from workings.problems.sheets.sheet_kind import Fields, SheetKind, SheetPlan

_KERNEL, _FILTERS, _STRIDE, _PADDING = 3, 2, 2, 1
_MOMENTUM = 0.1


def _draw_conv1d(rng: Random, plan: SheetPlan) -> Fields:
    """Draw a convolution whose ReLU cuts some outputs and whose windows differ."""
    n, channels = plan.tokens, plan.width
    x = (
        draw_inputs(rng, n, channels)
        if channels > 1
        else draw_until(
            lambda: draw_inputs(rng, 1, n, (-2, -1, 0, 1, 2, 3)).T, lambda x: bool(x[0] != x[-1])
        )
    )
    for _ in range(200):
        filters = [_draw_filter(rng, channels) for _ in range(_FILTERS)]
        fields: Fields = {
            "X": x,
            "W": np.concatenate(filters),
            "b": draw_vector(rng, _FILTERS, (-2, -1, 1, 2)),
        }
        output = _convolve(x, filters) + fields["b"]
        is_cut = (output < 0).any() and (output > 0).any(0).all()
        has_last = (output.argmax(0) == len(output) - 1).any()  # a shorter maximum shows
        if is_cut and has_last and np.abs(output).max() <= 12 and len(np.unique(output)) > 2:
            return fields
    raise SamplingError


def _draw_filter(rng: Random, channels: int) -> Floats:
    """Draw a kernel that is not symmetric, so that flipping it shows."""
    if channels > 1:
        return draw_until(
            lambda: draw_weight(rng, _KERNEL, channels, density=0.7),
            lambda w: bool((w != w[::-1]).any()),
        )
    return draw_vector(rng, _KERNEL, (-2, -1, 1, 2, 3)).T


def _convolve(x: Floats, filters: list[Floats]) -> Floats:
    padded = np.pad(x, ((_PADDING, _PADDING), (0, 0)))
    count = count_windows(len(x), _KERNEL, _STRIDE, _PADDING)
    windows = [padded[_STRIDE * t : _STRIDE * t + _KERNEL] for t in range(count)]
    return np.array([[float((window * w).sum()) for w in filters] for window in windows])


def _describe_conv1d(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "Each position is a {vector}, each channel is one of its numbers.", vector=plan.vector
        ),
        gettext(
            "W has {filters} filters of {kernel} positions: the first {kernel} {vectors} "
            "are filter 1. A kernel is not flipped.",
            filters=_FILTERS,
            kernel=_KERNEL,
            vectors=plan.vectors,
        ),
        gettext(
            "Zeros are added on each side (padding {padding}), and the window moves by "
            "{stride} (the stride). Last, the maximum over all positions is taken.",
            padding=_PADDING,
            stride=_STRIDE,
        ),
    ]


def _draw_batch_norm(rng: Random, plan: SheetPlan) -> Fields:
    """Draw features whose means, variances and, if possible, deviations have few digits."""
    columns: list[Floats] = []
    while len(columns) < plan.width:
        column = draw_until(
            lambda: draw_inputs(rng, 1, plan.tokens, range(-3, 9)), _has_short_moments, 4000
        )
        if not any((column == other).all() for other in columns):
            columns.append(column)
    return {
        "X": np.concatenate(columns).T,
        "gamma": draw_vector(rng, plan.width, (-1, 0.5, 1, 2, 3)),
        "beta": draw_vector(rng, plan.width, (-1, 1, 2)),
        "running_mean": draw_vector(rng, plan.width, (-2, -1, 1, 2, 3)),
        "running_variance": draw_vector(rng, plan.width, (1, 2, 3, 4)),
    }


def _has_short_moments(row: Floats) -> bool:
    """Return True if mean, variance and (except for 3 examples) its root have few digits."""
    variance = float(row.var())
    multiples = [float(row.mean()) * 2, variance * 4]
    if row.size != 3:
        multiples.append(variance**0.5 * 2)
    return variance >= 1 and all(abs(v - round(v)) < 1e-9 for v in multiples)


def _describe_batch_norm(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "Each example is a {vector}; the batch has {tokens} of them. ε = 0.",
            vector=plan.vector,
            tokens=plan.tokens,
        ),
        gettext(
            "The batch is normalized with the variance divided by {tokens}. The running "
            "moments have momentum {momentum}; the running variance gets the variance "
            "divided by {tokens_2}.",
            tokens=plan.tokens,
            momentum=_MOMENTUM,
            tokens_2=plan.tokens - 1,
        ),
    ]


CONVOLUTION_SHEETS = (
    SheetKind(
        name="conv1d",
        title=gettext_noop("Convolution and pooling"),
        problem_kind="conv1d",
        picture=gettext_noop("X → padded → windows · W + b → ReLU → global maximum"),
        draw=_draw_conv1d,
        describe=_describe_conv1d,
        make_settings=lambda _: {
            "filters": _FILTERS,
            "stride": _STRIDE,
            "padding": _PADDING,
            "activation": "relu",
            "pooling": "global max",
        },
        sizes=((4, 1), (5, 2), (6, 2)),
        min_size=(4, 1),
        max_size=(8, 3),
        size_names=("positions", "channels"),
        size_text=gettext_noop("{tokens} positions of {width} channels"),
        sentence="none",
    ),
    SheetKind(
        name="batch_norm",
        title=gettext_noop("Batch normalization"),
        problem_kind="batch_norm",
        picture=gettext_noop(
            "X → mean, variance of each feature → normalised → γ, β; running moments"
        ),
        draw=_draw_batch_norm,
        describe=_describe_batch_norm,
        make_settings=lambda _: {"mode": "training", "momentum": _MOMENTUM, "eps": 0},
        sizes=((3, 2), (4, 2), (5, 3)),
        min_size=(3, 2),
        max_size=(6, 6),
        size_names=("examples", "features"),
        size_text=gettext_noop("{tokens} examples of {width} features"),
        sentence="none",
        takes_any_numbers=False,
    ),
)
