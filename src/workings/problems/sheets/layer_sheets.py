"""Sheets on layers without attention: positions, layer norm and feed-forward."""

from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Floats
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import (
    SamplingError,
    draw_inputs,
    draw_until,
    draw_vector,
    draw_weight,
    is_small,
)
from workings.problems.sheets.sheet_kind import Fields, Givens, SheetKind, SheetPlan, SizeOption

WAVELENGTH_RATIOS = (10, 100, 4, 5, 20, 2, 50, 25, 8, 40)  # of adjacent wavelengths


def _list_positions(plan: SheetPlan) -> list[Fields]:
    """Return the problems whose base gives angles with few digits."""
    bases = [int(ratio ** (plan.width // 2)) for ratio in WAVELENGTH_RATIOS]
    tokens = [str(position) for position in range(plan.tokens)]
    return [
        {"tokens": tokens, "given": {"count": plan.tokens, "width": plan.width, "base": base}}
        for base in bases
    ]


def _describe_positions(plan: SheetPlan, problem: Problem) -> list[str]:
    return [
        gettext(
            "Positions 0 to {tokens}, width {width}, base {base:.0f}. {feature_axis} 1 and "
            "2 have i = 0, 3 and 4 have i = 1, and so on: the first of a pair holds the "
            "angle’s sine, the second its cosine.",
            tokens=plan.tokens - 1,
            width=plan.width,
            base=problem.setting.base,
            feature_axis=plan.feature_axis.capitalize(),
        )
    ]


def _check_positions_size(tokens: int, width: int) -> str:  # noqa: ARG001
    if width < 4 or width % 2:
        return "positions need an even width from 4, for several frequencies"
    return ""


def draw_layer_norm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X whose means, variances and, if possible, standard deviations have few digits."""
    n, d = plan.tokens, plan.width
    rows: list[Floats] = []
    while len(rows) < n:
        row = draw_until(
            lambda: draw_inputs(rng, 1, d, range(-2, 8)), lambda x: _has_short_moments(x[0]), 4000
        )
        if not any((row == other).all() for other in rows):
            rows.append(row)
    return {
        "X": np.concatenate(rows),
        "gamma": draw_vector(rng, d, (-1, 0.5, 1, 2, 2, 3)),
        "beta": draw_vector(rng, d, (-1, 0, 1, 2)),
    }


def _has_short_moments(row: Floats) -> bool:
    """Return True if mean, variance and (except for width 3) its root have few digits."""
    variance = row.var()
    if not _is_multiple(row.mean(), 0.5) or not _is_multiple(variance, 0.25) or variance < 1:
        return False
    return len(row) == 3 or _is_multiple(np.sqrt(variance), 0.5)


def _is_multiple(value: float, step: float) -> bool:
    return abs(value / step - round(value / step)) < 1e-9


def draw_feed_forward(rng: Random, plan: SheetPlan, x: Floats | None = None) -> Givens:
    """Draw a layer whose ReLU cuts some but not all cells of every row."""
    n, d, hidden = plan.tokens, plan.width, plan.hidden_size
    x = draw_inputs(rng, n, d) if x is None else x
    for _ in range(200):
        w_1, b_1 = draw_weight(rng, d, hidden), draw_vector(rng, hidden, (-2, -1, 0, 1))
        preactivation = x @ w_1 + b_1
        is_mixed = (preactivation < 0).any(1) & (preactivation > 0).any(1)
        if is_small(preactivation, 8.0) and is_mixed.all() and (preactivation > 0).any(0).all():
            w_2, b_2 = draw_weight(rng, hidden, d), draw_vector(rng, d, (-1, 0, 1, 2))
            return {"X": x, "W_1": w_1, "b_1": b_1, "W_2": w_2, "b_2": b_2}
    raise SamplingError


def describe_norm(plan: SheetPlan) -> str:
    """Return the sentence on the variance of a layer norm."""
    return gettext("The variance is divided by the width, {width}, and ε = 0.", width=plan.width)


def check_norm_width(tokens: int, width: int) -> str:  # noqa: ARG001
    """Return why a layer norm of two numbers teaches nothing."""
    if width > 2:
        return ""
    return "a layer norm of 2 numbers always gives −1 and 1: use a width from 3"


def _describe_layer_norm(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [gettext("Each token is a {vector}.", vector=plan.vector), describe_norm(plan)]


def _describe_feed_forward(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [gettext("Each token is a {vector}.", vector=plan.vector)]


LAYER_SHEETS = (
    SheetKind(
        name="positions",
        title=gettext_noop("Positional encoding"),
        problem_kind="positions",
        picture=gettext_noop("position → angles pos / base^(2i/d) → sine and cosine"),
        list_fields=_list_positions,
        describe=_describe_positions,
        sizes=((2, 4), (3, 4), (4, 6)),
        check_size=_check_positions_size,
        sentence="none",
    ),
    SheetKind(
        name="layer_norm",
        title=gettext_noop("Layer normalization"),
        problem_kind="layer_norm",
        picture=gettext_noop("X → mean, variance → (X − mean) / √variance → γ, β"),
        draw=draw_layer_norm,
        describe=_describe_layer_norm,
        check_size=check_norm_width,
        sentence="labels",
    ),
    SheetKind(
        name="feed_forward",
        title=gettext_noop("A feed-forward layer"),
        problem_kind="feed_forward",
        picture=gettext_noop("X → X W_1 + b_1 → ReLU → · W_2 + b_2"),
        draw=draw_feed_forward,
        describe=_describe_feed_forward,
        make_settings=lambda _: {"activation": "relu"},
        options={"hidden_size": SizeOption(lambda _, width: width)},
        sentence="labels",
    ),
)
