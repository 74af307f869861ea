"""Problems on a block of a Transformer decoder: self-attention, cross-attention, feed-forward.

The self-attention is masked; each part has its residual connection and its norm.
"""

from dataclasses import replace

import numpy as np

from workings.languages import gettext
from workings.problems.intervals import Bools
from workings.problems.kinds.attention import build_attention_steps
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layers import (
    FEED_FORWARD_MATRICES,
    NORM_OPTION,
    Residual,
    build_block_norm,
    build_feed_forward_steps,
)
from workings.problems.kinds.softmax import EXPONENTIALS_OPTION
from workings.problems.ops import Copy, Linear

_PARTS = ("self_attention", "cross_attention", "feed_forward")


def _build_decoder_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    steps, x = list[Step](), "X"
    for which, part in enumerate(_PARTS, start=1):
        inputs = x
        if setting.order == "pre":
            steps += build_block_norm(sizes, setting, which, x)
            inputs = f"norm_{which}.output"
        steps += _build_part(sizes, setting, part, inputs)
        steps.append(Step(f"add_{which}", Residual(x, f"{part}.output")))
        x = f"add_{which}"
        if setting.order == "post":
            steps += build_block_norm(sizes, setting, which, x)
            x = f"norm_{which}.output"
    return steps


def _build_part(sizes: Sizes, setting: Setting, part: str, x: str) -> list[Step]:
    prefix = f"{part}."
    if part == "feed_forward":
        return build_feed_forward_steps(sizes, setting, x, prefix)
    if part == "self_attention":
        mask: Bools = np.tril(np.ones((sizes["n"], sizes["n"]), dtype=np.bool_))
        own = replace(setting, mask=mask, causal=True)
        return build_attention_steps(sizes, own, prefix, x, weights=prefix, context=x)
    steps = build_attention_steps(sizes, setting, prefix, x, weights=prefix, context="context")
    return [_add_source_mistakes(step, x) for step in steps]


def _add_source_mistakes(step: Step, x: str) -> Step:
    """Add the mistake of taking the queries from the context, or keys and values from the block."""
    other = {x: "context", "context": x}
    op, name = step.op, "context-mixed-up"
    if isinstance(op, Copy) and op.x in other:
        description = gettext("took {other}, not {x}", other=other[op.x], x=op.x)
        return replace(step, mistakes=((name, Copy(other[op.x]), description),))
    if isinstance(op, Linear) and op.pairs[0][0] in other:
        ((source, weight),) = op.pairs
        wrong = replace(op, pairs=((other[source], weight),))
        return replace(
            step,
            mistakes=(
                (
                    name,
                    wrong,
                    gettext("took {other}, not {source}", other=other[source], source=source),
                ),
            ),
        )
    return step


def _make_attention_matrices(part: str, context_width: str) -> dict[str, tuple[str, str]]:
    """Return the weights of one attention; both have queries, keys and values of equal width."""
    shapes = {"W_Q": ("d", "k"), "W_K": (context_width, "g"), "W_V": (context_width, "v")}
    shapes |= {"b_Q": ("1", "k"), "b_K": ("1", "g"), "b_V": ("1", "v")}
    shapes |= {"W_O": ("w", "d"), "b_O": ("1", "d")}
    return {f"{part}.{name}": shape for name, shape in shapes.items()}


_SELF, _CROSS = (f"{part}." for part in _PARTS[:2])
DECODER_BLOCK = Kind(
    name="decoder_block",
    matrices={
        "X": ("n", "d"),
        "context": ("m", "e"),
        **_make_attention_matrices("self_attention", "d"),
        **_make_attention_matrices("cross_attention", "e"),
        **FEED_FORWARD_MATRICES,
        "W_2": ("h", "d"),
        "b_2": ("1", "d"),
        **{
            f"{name}{end}": ("1", "d")
            for name in ("gamma", "beta")
            for end in ("", "_1", "_2", "_3")
        },
    },
    required=("X", "context", "W_1", "W_2"),
    # Without a weight, what it would multiply keeps its width.
    tied_sizes=(
        ((f"{_SELF}W_Q",), "k", "d"),
        ((f"{_CROSS}W_Q",), "k", "d"),
        ((f"{_SELF}W_K",), "g", "d"),
        ((f"{_CROSS}W_K",), "g", "e"),
        ((f"{_SELF}W_V",), "v", "d"),
        ((f"{_CROSS}W_V",), "v", "e"),
        ((f"{_SELF}W_O",), "w", "d"),
        ((f"{_CROSS}W_O",), "w", "d"),
    ),
    settings=("heads", "scale", "normalizer", "activation", "order", "eps"),
    options={"exponentials": EXPONENTIALS_OPTION, "norm": NORM_OPTION},
    build=_build_decoder_steps,
    part_name="head",
    prefixes=(*_PARTS, "norm_1", "norm_2", "norm_3"),
)
