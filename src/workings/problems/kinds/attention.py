"""Attention problems: Q, K, V, scores, scaled, masked, weights, mixed, output."""

import math
from collections.abc import Collection
from dataclasses import replace

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.rotation import Rotation
from workings.problems.kinds.softmax import EXPONENTIALS_OPTION, build_weight_steps
from workings.problems.ops import (
    ColumnSlice,
    Concatenation,
    Copy,
    Linear,
    Masking,
    MistakeOption,
    Normalization,
    Op,
    Scaling,
)
from workings.problems.options import make_choice, make_count, make_number

ATTENTION_MATRICES = {
    "X": ("n", "d"),
    "context": ("m", "e"),
    "W_Q": ("d", "k"),
    "b_Q": ("1", "k"),
    "Q": ("n", "k"),
    "W_K": ("e", "g"),
    "b_K": ("1", "g"),
    "K": ("m", "g"),
    "W_V": ("f", "v"),
    "b_V": ("1", "v"),
    "V": ("m", "v"),
    "W_O": ("w", "o"),
    "b_O": ("1", "o"),
}
PROJECTION_NAMES = ("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O")


def build_attention_steps(
    sizes: Sizes,
    setting: Setting,
    prefix: str = "",
    x: str = "X",
    weights: str = "",
    context: str | None = None,
) -> list[Step]:
    """Return the steps of attention; a block adds a prefix and takes another matrix as input.

    `weights` is the prefix of the given weights, `context` what the keys and values come from.
    """
    _check_widths(sizes, setting)
    context = context or ("context" if "context" in sizes else x)
    queries = "X_Q" if "X_Q" in sizes else x
    keys = "X_K" if "X_K" in sizes else context
    values = "X_V" if "X_V" in sizes else keys

    def projection(name: str, source: str) -> Op:
        weight, bias = f"{weights}W_{name}", f"{weights}b_{name}"
        if name in sizes:
            return Copy(f"given.{name}")
        if weight in sizes:
            return Linear(((source, weight),), bias=bias if bias in sizes else None)
        identity = f"I.{sizes[_WIDTHS[name]]}"
        return Linear(((source, identity),), bias=bias) if bias in sizes else Copy(source)

    has_scores = "scores" in sizes
    sources = [("Q", queries, "tokens"), ("K", keys, "context"), ("V", values, "context")]
    has_values = x != "X" or any(name in sizes for name in ("V", "X_V", "context", "X"))
    sources = sources[2 if has_scores else 0 : 3 if has_values else 2]
    steps = [
        Step(f"{prefix}{name}", projection(name, source), row_axis=rows, is_shown=name not in sizes)
        for name, source, rows in sources
    ]
    heads = range(1, setting.heads + 1) if setting.heads > 1 else (None,)
    if setting.heads > 1:
        steps += _build_head_slices(sizes, setting, prefix)
    if setting.options.get("rope"):
        steps += _build_rotations(setting, prefix, heads)
    by_head = [_build_head_steps(sizes, setting, prefix, head) for head in heads]
    for name in by_head[0]:
        steps += [head_steps[name] for head_steps in by_head if name != "mixed" or has_values]
    if not has_values:
        return steps
    if setting.heads > 1:
        outputs = tuple(f"{prefix}mixed.{head}" for head in heads)
        steps.append(Step(f"{prefix}mixed", Concatenation(outputs)))
    mixed, weight = f"{prefix}mixed", f"{weights}W_O"
    bias = f"{weights}b_O" if f"{weights}b_O" in sizes else None
    has_projection = weight in sizes or bias is not None
    width = sizes["v"] * setting.heads // count_key_value_heads(setting)
    output = Linear(((mixed, weight if weight in sizes else f"I.{width}"),), bias=bias)
    steps.append(
        Step(f"{prefix}output", output if has_projection else Copy(mixed), is_shown=has_projection)
    )
    return steps


_WIDTHS = {"Q": "k", "K": "g", "V": "v"}


def count_key_value_heads(setting: Setting) -> int:
    """Return how many heads the keys and values have: fewer than the queries if grouped."""
    return setting.options.get("kv_heads") or setting.heads


def _check_widths(sizes: Sizes, setting: Setting) -> None:
    """Check the sizes that depend on the heads: of keys and of what W_O multiplies."""
    heads, kv_heads, known = setting.heads, count_key_value_heads(setting), sizes.sizes
    if heads % kv_heads:
        raise UserError(f"kv_heads = {kv_heads}: it must divide heads = {heads}")
    expected: dict[str, tuple[int, str]] = {}
    if "k" in known and "g" in known:
        expected["g"] = known["k"] * kv_heads // heads, sizes.reasons["k"]
    if "v" in known:
        expected["w"] = known["v"] * heads // kv_heads, sizes.reasons["v"]
    for size, (width, reason) in expected.items():
        if known.get(size, width) != width:
            raise UserError(f"{sizes.reasons[size]}, but {reason}: it must be {width}")
    if "scores" in sizes and heads > 1:
        raise UserError("given scores are those of one head: expected heads = 1")
    is_from_x = "X" in sizes and not {"V", "X_V", "context"} & sizes.given
    if is_from_x and known["m"] != known["n"]:
        raise UserError(
            f"{sizes.reasons['m']}, but the values come from X, which has {known['n']} vectors"
        )


def _build_head_slices(sizes: Sizes, setting: Setting, prefix: str) -> list[Step]:
    """Split Q, K and V into adjacent blocks of equal width, one per head or group of heads."""
    steps, heads = [], setting.heads
    for name, size in _WIDTHS.items():
        if size not in sizes.sizes:
            continue  # no values: the weights are the last step
        count = heads if name == "Q" else count_key_value_heads(setting)
        if sizes[size] % count:
            raise UserError(f"heads = {count} does not divide {name}'s width of {sizes[size]}")
        part = sizes[size] // count
        for head in range(1, heads + 1):
            block = (head - 1) * count // heads
            key = f"{prefix}{name}.{head}"
            steps.append(
                Step(
                    f"{prefix}{name}",
                    ColumnSlice(f"{prefix}{name}", part * block, part * (block + 1)),
                    part_index=head,
                    is_shown=key in sizes.claimed,
                    is_claimable=key in sizes.claimed,
                    mistakes=_list_group_mistakes(f"{prefix}{name}", head, part, count, heads),
                )
            )
    return steps


def _list_group_mistakes(
    key: str, head: int, part: int, count: int, heads: int
) -> tuple[MistakeOption, ...]:
    """Return the mistake of giving the groups of heads their keys and values in turn."""
    if count in (1, heads):
        return ()
    block = (head - 1) % count
    wrong = ColumnSlice(key, part * block, part * (block + 1))
    return (
        ("heads-grouped-in-turn", wrong, gettext("gave adjacent heads different groups of keys")),
    )


def _build_rotations(setting: Setting, prefix: str, heads: Collection[int | None]) -> list[Step]:
    """Return the steps that rotate queries and keys by their positions."""
    steps = []
    for name, axis in (("Q", "tokens"), ("K", "context")):
        for head in heads:
            end = "" if head is None else f".{head}"
            rotation = Rotation(
                f"{prefix}{name}{end}", setting.options["base"], setting.options["rope"]
            )
            steps.append(Step(f"{prefix}rotated_{name}", rotation, head, row_axis=axis))
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

    products = ("rotated_Q", "rotated_K") if setting.options.get("rope") else ("Q", "K")
    pair = (key(products[0]), f"{key(products[1])}ᵀ")
    has_scores = "scores" in sizes
    similarity: Op = Copy("given.scores") if has_scores else Linear((pair,))
    divisor, radicand = resolve_scale(sizes, setting)
    scores, scaled, masked = key("scores"), key("scaled"), key("masked")
    scaling = Copy(scores) if divisor is None else Scaling(scores, divisor, radicand)
    masking = Copy(scaled) if setting.mask is None else Masking(scaled, setting.mask)
    weights = make("weights", Normalization(masked, setting.normalizer))
    return {
        "scores": make("scores", similarity, is_shown=not has_scores),
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
    # Given scores are scaled only by a number: the width of their queries and keys is not known.
    is_unknown = "k" not in sizes.sizes or "scores" in sizes
    if setting.scale == "none" or (setting.scale == "sqrt(d_k)" and is_unknown):
        return None, None
    if setting.scale == "sqrt(d_k)":
        d_k = sizes["k"] // setting.heads
        return math.sqrt(d_k), d_k
    return float(setting.scale), None


def find_missing_projection(given: Collection[str]) -> str | None:
    """Return what is missing: without X, the queries, and the keys or a context.

    Without values, the weights are the last step.
    """
    if "X" in given or "scores" in given:
        return None
    has_context = "context" in given or "X_K" in given
    projections = ("Q",) if has_context else ("Q", "K")
    missing = [name for name in projections if name not in given and f"X_{name}" not in given]
    return "X" if "Q" in missing else next(iter(missing), None)


# Two sizes are equal if none of these matrices is given.
ATTENTION_TIED_SIZES = (
    (("context", "K", "X_K", "scores"), "m", "n"),
    (("context", "V", "X_K", "X_V", "scores", "Q"), "m", "n"),
    (("context", "X_K"), "e", "d"),
    (("X_V",), "f", "e"),
    (("W_Q", "Q"), "k", "d"),
    (("W_K", "K"), "g", "e"),
    (("W_V", "V"), "v", "f"),
)

ATTENTION = Kind(
    name="attention",
    matrices={
        **ATTENTION_MATRICES,
        "X_Q": ("n", "d"),
        "X_K": ("m", "e"),
        "X_V": ("m", "f"),
        "scores": ("n", "m"),
    },
    required=(),
    find_missing=find_missing_projection,
    tied_sizes=(*ATTENTION_TIED_SIZES, (("W_O",), "o", "w")),
    settings=("heads", "scale", "mask", "normalizer"),
    options={
        "exponentials": EXPONENTIALS_OPTION,
        "kv_heads": make_count(None),
        "rope": replace(make_choice("adjacent", "halves"), default=None),
        "base": make_number(10_000.0, 1.0),
    },
    per_head={name: "columns" if name != "W_O" else "rows" for name in PROJECTION_NAMES[:-1]},
    build=build_attention_steps,
    part_name="head",
)
