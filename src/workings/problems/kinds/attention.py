"""Attention problems: Q, K, V, scores, scaled, masked, weights, mixed, output."""

import math
from collections.abc import Collection

from workings.errors import UserError
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.softmax import EXPONENTIALS_OPTION, build_weight_steps
from workings.problems.ops import (
    ColumnSlice,
    Concatenation,
    Copy,
    Linear,
    Masking,
    Normalization,
    Op,
    Scaling,
)

ATTENTION_MATRICES = {
    "X": ("n", "d"),
    "context": ("m", "e"),
    "W_Q": ("d", "k"),
    "b_Q": ("1", "k"),
    "Q": ("n", "k"),
    "W_K": ("e", "k"),
    "b_K": ("1", "k"),
    "K": ("m", "k"),
    "W_V": ("e", "v"),
    "b_V": ("1", "v"),
    "V": ("m", "v"),
    "W_O": ("v", "o"),
    "b_O": ("1", "o"),
}


def build_attention_steps(
    sizes: Sizes, setting: Setting, prefix: str = "", x: str = "X"
) -> list[Step]:
    """Return the steps of attention; a block adds a prefix and takes another matrix as input."""
    context = "context" if "context" in sizes else x

    def projection(name: str, source: str) -> Op:
        weight, bias = f"W_{name}", f"b_{name}"
        if name in sizes:
            return Copy(f"given.{name}")
        if weight in sizes:
            return Linear(((source, weight),), bias=bias if bias in sizes else None)
        identity = f"I.{sizes['k' if name != 'V' else 'v']}"
        return Linear(((source, identity),), bias=bias) if bias in sizes else Copy(source)

    steps = [
        Step(f"{prefix}{name}", projection(name, source), row_axis=rows, is_shown=name not in sizes)
        for name, source, rows in (
            ("Q", x, "tokens"),
            ("K", context, "context"),
            ("V", context, "context"),
        )
    ]
    heads = range(1, setting.heads + 1) if setting.heads > 1 else (None,)
    if setting.heads > 1:
        steps += _build_head_slices(sizes, setting, prefix)
    by_head = [_build_head_steps(sizes, setting, prefix, head) for head in heads]
    for name in by_head[0]:
        steps += [head_steps[name] for head_steps in by_head]
    if setting.heads > 1:
        outputs = tuple(f"{prefix}mixed.{head}" for head in heads)
        steps.append(Step(f"{prefix}mixed", Concatenation(outputs)))
    mixed, bias = f"{prefix}mixed", "b_O" if "b_O" in sizes else None
    has_projection = "W_O" in sizes or bias is not None
    output = Linear(((mixed, "W_O" if "W_O" in sizes else f"I.{sizes['v']}"),), bias=bias)
    steps.append(
        Step(f"{prefix}output", output if has_projection else Copy(mixed), is_shown=has_projection)
    )
    return steps


def _build_head_slices(sizes: Sizes, setting: Setting, prefix: str) -> list[Step]:
    """Split Q, K and V into adjacent blocks of equal width, one per head."""
    steps = []
    for name, width in (("Q", sizes["k"]), ("K", sizes["k"]), ("V", sizes["v"])):
        if width % setting.heads:
            raise UserError(f"heads = {setting.heads} does not divide {name}'s width of {width}")
        part = width // setting.heads
        steps += [
            Step(
                f"{prefix}{name}",
                ColumnSlice(f"{prefix}{name}", part * (head - 1), part * head),
                part_index=head,
                is_shown=False,
                is_claimable=False,
            )
            for head in range(1, setting.heads + 1)
        ]
    return steps


def _build_head_steps(
    sizes: Sizes, setting: Setting, prefix: str, head: int | None
) -> dict[str, Step]:
    """Return the steps of one head by name; `head` is None if there is only one."""
    end = "" if head is None else f".{head}"

    def key(step: str) -> str:
        return f"{prefix}{step}{end}"

    def make(name: str, op: Op, *, is_shown: bool = True, column_axis: str = "context") -> Step:
        return Step(f"{prefix}{name}", op, head, column_axis=column_axis, is_shown=is_shown)

    divisor, radicand = resolve_scale(sizes, setting)
    scores, scaled, masked = key("scores"), key("scaled"), key("masked")
    scaling = Copy(scores) if divisor is None else Scaling(scores, divisor, radicand)
    masking = Copy(scaled) if setting.mask is None else Masking(scaled, setting.mask)
    weights = make("weights", Normalization(masked, setting.normalizer))
    return {
        "scores": make("scores", Linear(((key("Q"), key("K") + "ᵀ"),))),
        "scaled": make("scaled", scaling, is_shown=divisor is not None),
        "masked": make("masked", masking, is_shown=setting.mask is not None),
        **build_weight_steps(sizes, setting, weights, masked),
        "mixed": make("mixed", Linear(((key("weights"), key("V")),)), column_axis=""),
    }


def resolve_scale(sizes: Sizes, setting: Setting) -> tuple[float | None, float | None]:
    """Return the divisor of the scores and, if it is a square root, the number under the root.

    Return (None, None) if the scores are not scaled. `workings.attend` multiplies by its `scale`;
    the `scale` of a problem is a divisor, as textbooks write it.
    """
    if setting.scale == "none" or "k" not in sizes.sizes:
        return None, None
    if setting.scale == "sqrt(d_k)":
        d_k = sizes["k"] // setting.heads
        return math.sqrt(d_k), d_k
    return float(setting.scale), None


def find_missing_projection(given: Collection[str]) -> str | None:
    """Return what is missing: without X, the queries, and the keys and values or a context."""
    if "X" in given:
        return None
    projections = ("Q",) if "context" in given else ("Q", "K", "V")
    missing = [name for name in projections if name not in given]
    return "X" if "Q" in missing else next(iter(missing), None)


# Two sizes are equal if none of these matrices is given.
ATTENTION_TIED_SIZES = (
    (("context", "K"), "m", "n"),
    (("context", "V"), "m", "n"),
    (("context",), "e", "d"),
    (("W_Q", "Q"), "k", "d"),
    (("W_K", "K"), "k", "e"),
    (("W_V", "V"), "v", "e"),
)

ATTENTION = Kind(
    name="attention",
    matrices=ATTENTION_MATRICES,
    required=(),
    find_missing=find_missing_projection,
    tied_sizes=(*ATTENTION_TIED_SIZES, (("W_O",), "o", "v")),
    settings=("heads", "scale", "mask", "normalizer"),
    options={"exponentials": EXPONENTIALS_OPTION},
    build=build_attention_steps,
    part_name="head",
)
