"""Sheets on dot-product and additive attention, and on a Transformer block."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from workings.errors import UserError
from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, Floats
from workings.problems.kinds.rotation import Rotation
from workings.problems.notation import Real
from workings.problems.points import PointMatrix
from workings.problems.problem import Problem
from workings.problems.sheets.layer_sheets import check_norm_width, describe_norm, draw_feed_forward
from workings.problems.sheets.sampling import (
    INPUT_VALUES,
    MAX_PREACTIVATION,
    SMALL_INPUT_VALUES,
    TANH_WEIGHT_VALUES,
    SamplingError,
    draw_inputs,
    draw_until,
    draw_vector,
    draw_weight,
    hill_climb,
    is_small,
    is_useful_weight,
    softmax_penalty,
)
from workings.problems.sheets.sheet_kind import (
    MAX_SIZE,
    MAX_TOKENS,
    Fields,
    Givens,
    SheetKind,
    SheetPlan,
    SizeOption,
    format_shares,
    make_fixed_option,
)

_MAX_PROJECTION, _MAX_SCORE = 6.0, 25.0
_MAX_EXPONENT = 4.0  # where e^score is written down
_ROPE_BASE = 100.0
_HALF_VALUES = (-1.5, -1, -0.5, 0, 0.5, 0.5, 1, 1.5, 2)
_NUM_KEY_HEADS = 2  # of grouped heads
_MAX_HEAD_TRIES = 8
_MANY_TOKENS = 5  # that two numbers per query can hardly tell apart


def draw_attention(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X (and the context), then weights that lead to reasonable scores."""
    n, d = plan.tokens, plan.width
    values: Sequence[Real] = INPUT_VALUES if n * d < 13 else SMALL_INPUT_VALUES
    if plan.kind.name == "rope":  # whole numbers that are not rotated would look like rounded ones
        values = _HALF_VALUES
    given = {"X": draw_inputs(rng, n, d, values)}
    context = given["X"]
    if plan.context:
        context = given["context"] = draw_inputs(rng, plan.context, d, values)
    allowed = make_mask(plan)

    given["W_Q"], given["W_K"] = _draw_query_key_weights(rng, plan, given["X"], context, allowed)
    given["W_V"] = draw_until(
        lambda: draw_weight(rng, d, _count_key_heads(plan) * plan.d_k),
        lambda w: is_small(context @ w, _MAX_PROJECTION),
    )
    if plan.heads > 1 or plan.kind.name == "block":
        given["W_O"] = draw_weight(rng, plan.heads * plan.d_k, d)
    return given


def _count_key_heads(plan: SheetPlan) -> int:
    """Return how many heads the keys and values have."""
    return _NUM_KEY_HEADS if plan.kind.name == "grouped" else plan.heads


def make_mask(plan: SheetPlan) -> Bools:
    """Return the mask `[queries, keys]`; True: may attend."""
    allowed = np.ones((plan.tokens, plan.context or plan.tokens), dtype=np.bool_)
    return np.tril(allowed) if _is_masked(plan) else allowed


def _draw_query_key_weights(
    rng: Random, plan: SheetPlan, query_input: Floats, key_input: Floats, allowed: Bools
) -> tuple[Floats, Floats]:
    """Draw W_Q and W_K head by head, so that their scores are reasonable.

    Heads that share their keys have one W_K: it is drawn with the first of them.
    """
    queries, keys = list[Floats](), list[Floats]()
    group = plan.heads // _count_key_heads(plan)
    # That all heads of several groups succeed at once is rare.
    tries = _MAX_HEAD_TRIES if group > 1 and plan.d_k > 2 else 1
    for head in range(plan.heads):
        shared = keys[-1] if head % group else None
        for k in range(tries):
            try:
                weights = draw_query_key_head(rng, plan, query_input, key_input, allowed, shared)
                break
            except SamplingError:
                if k == tries - 1:
                    raise
        queries.append(weights[0])
        if shared is None:
            keys.append(weights[1])
    return np.concatenate(queries, axis=1), np.concatenate(keys, axis=1)


def draw_query_key_head(
    rng: Random,
    plan: SheetPlan,
    query_input: Floats,
    key_input: Floats,
    allowed: Bools,
    w_k: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Draw the W_Q and W_K of a head, or W_Q alone for a given W_K."""
    max_score = _MAX_SCORE
    if plan.kind.name == "exponentials":
        max_score = _MAX_EXPONENT * plan.divisor

    def split(weights: Floats) -> tuple[Floats, Floats]:
        return (weights[:, : plan.d_k], weights[:, plan.d_k :] if w_k is None else w_k)

    def penalty(weights: Floats) -> float:
        w_q, own_w_k = split(weights)
        queries, keys = query_input @ w_q, key_input @ own_w_k
        useless = sum(not is_useful_weight(w) for w in (w_q, own_w_k))
        large = sum(not is_small(x, _MAX_PROJECTION) for x in (queries, keys))
        if plan.kind.name == "rope":
            queries, keys = _rotate(queries), _rotate(keys)
        scores = queries @ keys.T
        excess = np.maximum(np.abs(scores) - max_score, 0).sum()
        return float(useless + large + excess + softmax_penalty(scores / plan.divisor, allowed))

    count = 2 if w_k is None else 1
    start = np.concatenate([draw_weight(rng, plan.width, plan.d_k) for _ in range(count)], axis=1)
    return split(hill_climb(rng, start, penalty))


def _rotate(x: Floats) -> Floats:
    """Rotate adjacent pairs of columns by the positions of their rows."""
    rotation = Rotation("x", _ROPE_BASE, "adjacent")
    return rotation.compute({"x": PointMatrix.of(x)}).mid


def draw_additive(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a query, hidden states and the weights of additive attention."""
    d, hidden = plan.width, plan.hidden_size
    states = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    query = draw_vector(rng, d, SMALL_INPUT_VALUES)
    for _ in range(200):
        w_s, w_h = (draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES) for _ in range(2))
        if is_small(query @ w_s + states @ w_h, MAX_PREACTIVATION):
            v = draw_vector(rng, hidden, (-2, -1, 1, 2, 3))
            return {"s": query, "H": states, "W_s": w_s, "W_h": w_h, "v": v}
    raise SamplingError


def describe_attention(plan: SheetPlan, problem: Problem) -> list[str]:
    """Return sentences on the tokens, the mask, the context, the heads and d_k."""
    sentences = [gettext("Each token is a {vector}.", vector=plan.vector)]
    if problem.setting.causal:
        sentences.append(
            gettext("M hides later tokens: a token attends to itself and to those before it.")
        )
    if plan.context:
        sentences.append(gettext("Queries come from X, keys and values from the context."))
    if plan.kind.name == "grouped":
        sentences.append(_describe_groups(plan))
    elif plan.heads > 1:
        heads = [gettext("to head {head}", head=head + 1) for head in range(plan.heads)]
        shares = format_shares(plan.feature_axis, plan.d_k, heads)
        sentences.append(gettext("Q, K and V are split: {shares}.", shares=shares))
    if plan.kind.name == "rope":
        sentences.append(
            gettext(
                "Before the scores, adjacent pairs of {axis} of Q and K are rotated by"
                " pos / {base:.0f}^(2i/{d_k}); the first token has position 0, the first pair"
                " i = 0.",
                axis=plan.feature_axis,
                base=_ROPE_BASE,
                d_k=plan.d_k,
            )
        )
    if plan.is_scaled:
        sentences.append(
            gettext("A query of a head has d_k\xa0=\xa0{d_k} numbers.", d_k=plan.d_k)
            if plan.heads > 1
            else gettext("A query has d_k\xa0=\xa0{d_k} numbers.", d_k=plan.d_k)
        )
    return sentences


def _describe_groups(plan: SheetPlan) -> str:
    heads = [gettext("to head {head}", head=k + 1) for k in range(plan.heads)]
    groups = [gettext("to group {group}", group=k + 1) for k in range(_NUM_KEY_HEADS)]
    return gettext(
        "Q is split: {head_shares}. K and V are split: {group_shares}. Adjacent heads share a"
        " group: the first {count} heads group 1, the others group 2.",
        head_shares=format_shares(plan.feature_axis, plan.d_k, heads),
        group_shares=format_shares(plan.feature_axis, plan.d_k, groups),
        count=plan.heads // _NUM_KEY_HEADS,
    )


def make_attention_settings(plan: SheetPlan) -> Fields:
    """Return the settings of dot-product attention."""
    return {
        **({"heads": plan.heads} if plan.heads > 1 else {}),
        "scale": "sqrt(d_k)" if plan.is_scaled else "none",
        "mask": "causal" if _is_masked(plan) else "none",
        "normalizer": "softmax",
        **_SETTINGS_OF_KIND.get(plan.kind.name, {}),
    }


_SETTINGS_OF_KIND: dict[str, Fields] = {
    "exponentials": {"exponentials": "plain"},
    "rope": {"rope": "adjacent", "base": int(_ROPE_BASE)},
    "grouped": {"kv_heads": _NUM_KEY_HEADS},
}


def _is_masked(plan: SheetPlan) -> bool:
    return plan.kind.name == "masked"


def check_distinct_tokens(tokens: int, width: int) -> str:
    """Return why a width is too small for so many distinct tokens."""
    if tokens <= 2 * width:
        return ""
    return f"{tokens} distinct tokens need a width of {-(-tokens // 2)}"


def choose_d_k(plan: SheetPlan, given: Mapping[str, int]) -> SheetPlan:
    """Choose d_k so that the mistakes in scaling lead to different numbers.

    With several heads, width / heads is tried first; then 4, whose root is an integer.
    """
    width, heads, d_k = plan.width, plan.heads, given.get("d_k")
    notes = plan.notes
    per_head = (width // heads,) if heads > 1 and width % heads == 0 else ()
    candidates = (*per_head, 4, 3, 2, 5)
    default = next(k for k in candidates if k > 1 and k * k != width and k != width)
    if d_k is not None and plan.is_scaled:
        _check_scaling(d_k, width, default)
        if d_k == width:
            notes += (
                f"d_k and the width are both {width}, so ÷ √d_model is not a mistake; to"
                f" distinguish it from ÷ √d_k, use --d-k {default}",
            )
    chosen = default if d_k is None else d_k
    if heads * chosen > 2 * MAX_SIZE:
        raise UserError(
            f"--heads {heads} with --d-k {chosen} need {heads * chosen} columns:"
            f" at most {2 * MAX_SIZE} are allowed"
        )
    return replace(plan, sizes={**plan.sizes, "d_k": chosen}, notes=notes)


def _check_scaling(d_k: int, width: int, default: int) -> None:
    """Reject a d_k for which mistakes in scaling cannot be told apart."""
    if d_k == 1:
        raise UserError(
            f"--d-k 1: √1 = 1, so a forgotten scaling cannot be detected: use --d-k {default}"
            " or --scale none"
        )
    if d_k * d_k == width:
        raise UserError(
            f"--d-k {d_k} with width {width}: ÷ d_k and ÷ √d_model are both ÷ {d_k} and cannot be"
            f" distinguished: use --d-k {default} or another width"
        )


def _choose_multi_head(plan: SheetPlan, given: Mapping[str, int]) -> SheetPlan:
    if plan.heads == 1:
        raise UserError("--heads 1: multi-head attention needs at least 2; use --kind self for one")
    return choose_d_k(plan, given)


def _choose_grouped(plan: SheetPlan, given: Mapping[str, int]) -> SheetPlan:
    if plan.heads % _NUM_KEY_HEADS:
        raise UserError(f"--heads {plan.heads}: two groups need an even number of heads")
    default = 3 if plan.width == 4 else 2
    if plan.tokens >= _MANY_TOKENS:
        default = 3 if plan.width == 4 else 4
        if plan.heads > 4:
            raise UserError(
                f"--heads {plan.heads}: they are too narrow to tell {plan.tokens} tokens apart:"
                f" use --heads 4, or at most {_MANY_TOKENS - 1} tokens"
            )
    return choose_d_k(plan, {"d_k": default, **given})


def _choose_even_d_k(plan: SheetPlan, given: Mapping[str, int]) -> SheetPlan:
    """Choose a d_k whose columns form pairs."""
    d_k = given.get("d_k")
    if d_k is not None and d_k % 2:
        raise UserError(f"--d-k {d_k}: pairs of numbers are rotated, so it must be even")
    default = next(k for k in (4, 6) if k != plan.width)
    return choose_d_k(plan, {"d_k": default, **given})


def _draw_block(rng: Random, plan: SheetPlan) -> Givens:
    return {**draw_feed_forward(rng, plan), **draw_attention(rng, plan)}


def _describe_block(plan: SheetPlan, problem: Problem) -> list[str]:
    return [*describe_attention(plan, problem), describe_norm(plan)]


def _describe_additive(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        gettext("The query's part is added to every {vector}.", vector=plan.vector),
    ]


_QUERY_OPTIONS = {
    "heads": make_fixed_option(1, minimum=1),
    "d_k": make_fixed_option(4, minimum=1),  # choose_d_k finds a better one
}
_SELF_ATTENTION = SheetKind(
    name="self",
    title=gettext_noop("Self-attention"),
    problem_kind="attention",
    picture=gettext_noop("X → Q, K, V → Q Kᵀ / √d_k → softmax → · V"),
    draw=draw_attention,
    describe=describe_attention,
    make_settings=make_attention_settings,
    check_size=check_distinct_tokens,
    options=_QUERY_OPTIONS,
    complete_plan=choose_d_k,
)
ATTENTION_SHEETS = (
    _SELF_ATTENTION,
    replace(
        _SELF_ATTENTION,
        name="masked",
        title=gettext_noop("Masked self-attention"),
        picture=gettext_noop("X → Q, K, V → Q Kᵀ / √d_k + mask → softmax → · V"),
    ),
    replace(
        _SELF_ATTENTION,
        name="cross",
        title=gettext_noop("Cross-attention"),
        picture=gettext_noop("X, context → Q, K, V → Q Kᵀ / √d_k → softmax → · V"),
        options={
            **_QUERY_OPTIONS,
            "context": SizeOption(lambda tokens, _: tokens, maximum=MAX_TOKENS),
        },
    ),
    replace(
        _SELF_ATTENTION,
        name="multi-head",
        title=gettext_noop("Multi-head attention"),
        picture=gettext_noop("X → Q, K, V → split into heads → attention of each → joined · W_O"),
        options={**_QUERY_OPTIONS, "heads": make_fixed_option(2, minimum=1)},
        complete_plan=_choose_multi_head,
    ),
    replace(
        _SELF_ATTENTION,
        name="exponentials",
        title=gettext_noop("Attention with its exponentials"),
        picture=gettext_noop("Q Kᵀ / √d_k → e^score → their sum → e^score / sum → · V"),
    ),
    replace(
        _SELF_ATTENTION,
        name="rope",
        title=gettext_noop("Attention with rotary positions"),
        picture=gettext_noop("X → Q, K, V → rotate Q and K → Q Kᵀ / √d_k → softmax → · V"),
        options={"d_k": make_fixed_option(4)},
        complete_plan=_choose_even_d_k,
    ),
    replace(
        _SELF_ATTENTION,
        name="grouped",
        title=gettext_noop("Attention with grouped heads"),
        picture=gettext_noop("X → Q of 4 heads, K and V of 2 → attention of each → joined · W_O"),
        options={**_QUERY_OPTIONS, "heads": make_fixed_option(4, minimum=4)},
        complete_plan=_choose_grouped,
    ),
    replace(
        _SELF_ATTENTION,
        name="block",
        title=gettext_noop("A Transformer block"),
        problem_kind="block",
        picture=gettext_noop("X → attention → add → norm → feed-forward → add → norm"),
        draw=_draw_block,
        describe=_describe_block,
        check_size=lambda n, width: check_distinct_tokens(n, width) or check_norm_width(n, width),
        options={**_QUERY_OPTIONS, "hidden_size": SizeOption(lambda _, width: width)},
    ),
    SheetKind(
        name="additive",
        title=gettext_noop("Additive attention"),
        problem_kind="additive",
        picture=gettext_noop("s, H → tanh(s W_s + H W_h) → · v → softmax → · H"),
        draw=draw_additive,
        describe=_describe_additive,
        options={"hidden_size": SizeOption(lambda _, width: min(width, 3))},
    ),
)
