"""Sheets on a block of a Transformer decoder."""

from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, Floats
from workings.problems.problem import Problem
from workings.problems.sheets.attention_sheets import (
    check_distinct_tokens,
    choose_d_k,
    describe_attention,
    draw_query_key_head,
)
from workings.problems.sheets.layer_sheets import check_norm_width, describe_norm, draw_feed_forward
from workings.problems.sheets.rounded_solution import solve_rounded
from workings.problems.sheets.sampling import (
    INPUT_VALUES,
    SMALL_INPUT_VALUES,
    SamplingError,
    draw_inputs,
    draw_until,
    draw_weight,
    is_small,
)
from workings.problems.sheets.sheet_kind import (
    MAX_TOKENS,
    Fields,
    Givens,
    SheetKind,
    SheetPlan,
    SizeOption,
    make_fixed_option,
)

_MAX_PROJECTION = 6.0
_MIN_VARIANCE = 0.5  # a smaller one magnifies the rounding of every step before it
_DECIMALS, _NUM_ROUNDINGS, _MAX_ERROR = 3, 4, 0.05


def draw_decoder_block(rng: Random, plan: SheetPlan) -> Givens:
    """Draw the weights of each part for the numbers that reach it."""
    n, d = plan.tokens, plan.width
    values = INPUT_VALUES if n * d < 13 else SMALL_INPUT_VALUES
    x, context = draw_inputs(rng, n, d, values), draw_inputs(rng, plan.context, d, values)
    causal: Bools = np.tril(np.ones((n, n), dtype=np.bool_))
    every: Bools = np.ones((n, plan.context), dtype=np.bool_)
    givens: Givens = {"X": x, "context": context}
    states = x
    for part, source, allowed in (("self", None, causal), ("cross", context, every)):
        keys = states if source is None else source
        weights = _draw_attention(rng, plan, states, keys, allowed)
        givens |= {f"{part}_attention.{name}": weight for name, weight in weights.items()}
        states = _normalize(states + _attend(plan, states, keys, allowed, weights))
    layer = draw_feed_forward(rng, plan, states)
    return {**givens, **{name: layer[name] for name in ("W_1", "b_1", "W_2", "b_2")}}


def _draw_attention(
    rng: Random, plan: SheetPlan, queries: Floats, keys: Floats, allowed: Bools
) -> Givens:
    w_q, w_k = draw_query_key_head(rng, plan, queries, keys, allowed)
    w_v = draw_until(
        lambda: draw_weight(rng, plan.width, plan.d_k),
        lambda w: is_small(keys @ w, _MAX_PROJECTION),
    )
    return {"W_Q": w_q, "W_K": w_k, "W_V": w_v, "W_O": draw_weight(rng, plan.d_k, plan.width)}


def _attend(
    plan: SheetPlan, queries: Floats, keys: Floats, allowed: Bools, weights: Givens
) -> Floats:
    scores = queries @ weights["W_Q"] @ (keys @ weights["W_K"]).T / plan.divisor
    powers = np.where(allowed, np.exp(scores), 0.0)
    shares = powers / powers.sum(1, keepdims=True)
    output: Floats = shares @ keys @ weights["W_V"] @ weights["W_O"]
    return output


def _normalize(x: Floats) -> Floats:
    variance = x.var(1, keepdims=True)
    if variance.min() < _MIN_VARIANCE:
        raise SamplingError
    normalized: Floats = (x - x.mean(1, keepdims=True)) / np.sqrt(variance)
    return normalized


def _is_stable(problem: Problem) -> bool:
    """Return True if rounding at every step changes no number by much: norms may magnify it."""
    rng, exact = Random("roundings"), problem.exact_matrices  # noqa: S311
    for _ in range(_NUM_ROUNDINGS):
        rounded = solve_rounded(problem, _DECIMALS, rounding_rng=rng)
        with np.errstate(invalid="ignore"):  # −∞ minus −∞
            errors = [rounded[s.key].mid - exact[s.key].mid for s in problem.asked_steps]
        if max(float(np.nanmax(np.abs(error))) for error in errors) > _MAX_ERROR:
            return False
    return True


def _make_settings(plan: SheetPlan) -> Fields:
    return {
        "scale": "sqrt(d_k)" if plan.is_scaled else "none",
        "normalizer": "softmax",
        "activation": "relu",
        "order": "post",
        "norm": "layer",
    }


def _describe(plan: SheetPlan, problem: Problem) -> list[str]:
    token, *others = describe_attention(plan, problem)
    return [
        token,
        gettext(
            "The self-attention is masked: a token attends to itself and to those before it. The"
            " queries of the cross-attention come from norm 1, its keys and values from the"
            " context."
        ),
        *(others[-1:] if plan.is_scaled else []),
        describe_norm(plan),
    ]


DECODER_SHEETS = (
    SheetKind(
        name="decoder_block",
        title=gettext_noop("A decoder block"),
        problem_kind="decoder_block",
        picture=gettext_noop(
            "X → masked attention → norm → cross-attention → norm → feed-forward → norm"
        ),
        draw=draw_decoder_block,
        describe=_describe,
        make_settings=_make_settings,
        is_suitable=_is_stable,
        sizes=((2, 3), (2, 4), (3, 4)),
        max_size=(4, 6),
        check_size=lambda n, width: check_distinct_tokens(n, width) or check_norm_width(n, width),
        options={
            "d_k": make_fixed_option(4, minimum=1),
            "context": SizeOption(lambda tokens, _: tokens, maximum=MAX_TOKENS),
            "hidden_size": SizeOption(lambda _, width: width),
        },
        complete_plan=choose_d_k,
    ),
)
