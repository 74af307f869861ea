"""The mistakes people make with a whole step, by name: each is another way to compute it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

import numpy as np

from workings.problems.intervals import Bools
from workings.problems.kinds import Step
from workings.problems.kinds.attention import resolve_scale
from workings.problems.kinds.recurrent import GATES
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
from workings.problems.problem import Problem

MistakeOption: TypeAlias = tuple[
    str, Op, str
]  # a mistake's name, what it computes, and what to say of it
_MAX_PERMUTED_HEADS = 4  # so many can be put in every order
_WEIGHT_FAMILIES = ("QKV", "".join(gate for gate, _ in GATES))


@dataclass(frozen=True)
class Mistake:
    """A wrong way to work: `ops` in the place of the right ones, by the steps' keys."""

    name: str
    ops: Mapping[str, Op]
    description: str


def list_mistakes(problem: Problem, keys: Collection[str]) -> Iterator[Mistake]:
    """List the mistakes of the catalogue that there is room for in some of a problem's steps.

    One that can be made several times over (in each head, at each time, with keys and values) is
    listed for each time, and for all of them together.
    """
    made: dict[tuple[str, str], dict[str, list[Op]]] = {}
    for step in problem.steps:
        if step.key in keys:
            for name, op, says in _list_step_mistakes(problem, step):
                made.setdefault((name, says), {}).setdefault(step.key, []).append(op)
    for (name, says), ops in made.items():
        for key, ways in ops.items():
            for op in ways:
                yield Mistake(name, {key: op}, says)
        if len(ops) > 1:
            yield Mistake(name, {key: ways[0] for key, ways in ops.items()}, says)


def _list_step_mistakes(problem: Problem, step: Step) -> Iterator[MistakeOption]:
    op = step.op
    if isinstance(op, Linear):
        yield from _list_projection_mistakes(problem, step, op)
    if "context" in problem.given:
        yield from _list_context_mistakes(op)
    if isinstance(op, Normalization):
        yield from _list_normalization_mistakes(problem, op)
    prefix, _, name = step.name.rpartition(".")
    if "scale" not in problem.kind.settings or prefix not in ("", "attention"):
        return
    prefix = f"{prefix}." if prefix else ""
    end = "" if step.part_index is None else f".{step.part_index}"

    def key(other: str) -> str:
        return f"{prefix}{other}{end}"

    if name == "scores":
        yield "keys-not-transposed", Linear(((key("Q"), key("K")),)), "computed Q K, not Q Kᵀ"
        swapped = Linear(((key("K"), key("Q") + "ᵀ"),))
        yield "queries-and-keys-swapped", swapped, "computed K Qᵀ, not Q Kᵀ"
    elif name == "scaled":
        yield from _list_scale_mistakes(problem, key("scores"))
    elif name == "masked" and problem.setting.mask is not None:
        yield from _list_mask_mistakes(problem.setting.mask, key("scaled"))
    elif name == "V" and isinstance(op, ColumnSlice):
        yield from _list_unprojected_mistakes(problem, op)
    elif name == "mixed" and isinstance(op, Concatenation):
        for order in _list_head_orders(op.parts):
            yield (
                "heads-in-wrong-order",
                Concatenation(order),
                "put the heads together in another order",
            )
    elif name == "mixed" and isinstance(op, Linear):
        yield from _list_mixing_mistakes(problem, step, op)
    elif name == "output" and isinstance(op, Linear):
        yield from _list_output_mistakes(problem, op)


def _list_projection_mistakes(problem: Problem, step: Step, op: Linear) -> Iterator[MistakeOption]:
    """Mistakes with a weight: every product of an input with one of the problem's W."""
    for k, (x, w) in enumerate(op.pairs):
        if not w.startswith("W_") or w == "W_O":
            continue
        yield "weight-transposed", _replace_pair(op, k, x, f"{w}ᵀ"), f"used {w}ᵀ, not {w}"
        for other in problem.exact_matrices:
            if other.startswith("W_") and other != w:
                yield "wrong-weight", _replace_pair(op, k, x, other), f"used {other}, not {w}"
        says = f"used {x.rstrip('.0123456789')} itself, without {w}"
        if len(op.pairs) == 1:
            yield "not-projected", Copy(x), says
        if len(op.pairs) > 1 or op.bias is not None:
            yield "not-projected", _replace_pair(op, k, x, _format_identity_key(problem, x)), says
    yield from _list_wrong_projection_mistakes(problem, step, op)


def _list_context_mistakes(op: Op) -> Iterator[MistakeOption]:
    """Queries from the context, or keys and values from X."""
    other = {"X": "context", "context": "X"}
    if isinstance(op, Copy) and op.x in other:
        yield "context-mixed-up", Copy(other[op.x]), f"took {other[op.x]}, not {op.x}"
    elif isinstance(op, Linear):
        for k, (x, w) in enumerate(op.pairs):
            if x in other:
                wrong = _replace_pair(op, k, other[x], w)
                yield "context-mixed-up", wrong, f"took {other[x]}, not {x}"


def _replace_pair(op: Linear, k: int, x: str, w: str) -> Linear:
    return replace(op, pairs=(*op.pairs[:k], (x, w), *op.pairs[k + 1 :]))


def _format_identity_key(problem: Problem, x: str) -> str:
    return f"I.{problem.exact_matrices[x].shape[1]}"


def _list_wrong_projection_mistakes(
    problem: Problem, step: Step, op: Linear
) -> Iterator[MistakeOption]:
    """All that belongs to another projection or gate: W_K and b_K for Q, W_xf, W_hf, b_f for i."""
    own = step.name.rpartition(".")[2]
    for other in next((family for family in _WEIGHT_FAMILIES if own in family), ""):
        pairs = tuple((x, w.removesuffix(own) + other) for x, w in op.pairs)
        bias: str | None = f"b_{other}"
        bias = bias if bias in problem.exact_matrices else None
        alone = len(pairs) == 1 and bias == op.bias  # the weight alone was tried already
        if other != own and not alone and all(w in problem.exact_matrices for _, w in pairs):
            used = ", ".join((*(w for _, w in pairs), *([bias] if bias else [])))
            yield "wrong-weight", replace(op, pairs=pairs, bias=bias), f"used {used}"


def _list_scale_mistakes(problem: Problem, scores: str) -> Iterator[MistakeOption]:
    scale, _ = resolve_scale(problem.sizes, problem.setting)
    if scale is None:
        return
    width = problem.sizes["k"]
    d_k = width // problem.setting.heads
    yield "not-scaled", Copy(scores), f"did not divide by {scale:.4g}"
    yield "scaled-by-d_k", Scaling(scores, d_k), f"divided by d_k = {d_k}, not by {scale:.4g}"
    for d_model in sorted({problem.sizes.sizes.get("d", width), width}):
        says = f"divided by √{d_model}, not by {scale:.4g}"
        yield "scaled-by-sqrt-d_model", Scaling(scores, d_model**0.5, d_model), says
    multiplied = Scaling(scores, scale, multiplies=True)
    yield "multiplied-by-scale", multiplied, f"multiplied by {scale:.4g} instead of dividing"


def _list_mask_mistakes(mask: Bools, scaled: str) -> Iterator[MistakeOption]:
    yield "mask-forgotten", Copy(scaled), "did not apply the mask"
    if mask.shape[0] == mask.shape[1]:
        yield "mask-transposed", Masking(scaled, mask.T), "applied the mask's transpose"
        selfless: Bools = mask & ~np.eye(len(mask), dtype=np.bool_)
        yield "mask-hides-self", Masking(scaled, selfless), "hid each token from itself, too"
    zeros = Masking(scaled, mask, fill_value=0.0)
    yield "masked-with-zeros", zeros, "put 0 where −∞ belongs: e⁰ = 1 still has weight"


def _list_normalization_mistakes(problem: Problem, op: Normalization) -> Iterator[MistakeOption]:
    mask = problem.setting.mask
    if mask is not None:
        unmasked = op.x.replace("masked", "scaled")
        after = replace(op, x=unmasked, post_mask=mask)
        yield "masked-after-softmax", after, "masked after the softmax and did not renormalise"
    if op.normalizer != "softmax":
        return
    across = replace(op, transposed=True)
    yield "wrong-softmax-axis", across, "normalised over the queries, not over the keys"
    yield "sigmoid-for-softmax", replace(op, normalizer="sigmoid"), "used the sigmoid of each score"
    yield (
        "sum-for-softmax",
        replace(op, normalizer="sum"),
        "divided by the sum, without exponentials",
    )
    yield (
        "exp-not-normalised",
        replace(op, normalizer="exp"),
        "took e^score and did not divide by the sum",
    )
    scale, _ = resolve_scale(problem.sizes, problem.setting)
    if scale is not None and "masked" in op.x:
        late = replace(op, x=op.x.replace("masked", "scores"), allowed=mask, post_divisor=scale)
        yield "scaled-after-softmax", late, f"divided the weights, not the scores, by {scale:.4g}"


def _list_mixing_mistakes(problem: Problem, step: Step, op: Linear) -> Iterator[MistakeOption]:
    ((weights, values),) = op.pairs
    transposed = Linear(((f"{weights}ᵀ", values),))
    yield "weights-transposed", transposed, "used the weights' transpose"
    keys = Linear(((weights, values.replace("V", "K")),))
    yield "keys-used-as-values", keys, "mixed the keys, not the values"
    projection = problem.get_step(step.name.replace("mixed", "V")).op
    if step.part_index is None and isinstance(projection, Linear):
        source, _ = projection.pairs[0]
        unprojected = Linear(((weights, source),))
        yield "values-not-projected", unprojected, f"mixed {source} itself, not V"


def _list_unprojected_mistakes(problem: Problem, op: ColumnSlice) -> Iterator[MistakeOption]:
    """What a head mixes is a part of V; by mistake, the same part of what V is made from."""
    projection = problem.get_step(op.x).op
    if isinstance(projection, Linear):
        source, _ = projection.pairs[0]
        yield "values-not-projected", replace(op, x=source), f"mixed {source} itself, not V"


def _list_output_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    ((mixed, weight),) = op.pairs
    if not weight.startswith("W_"):
        return
    says = f"did not multiply by {weight}"
    yield "output-projection-forgotten", Copy(mixed), says
    if op.bias is not None:
        biased = _replace_pair(op, 0, mixed, _format_identity_key(problem, mixed))
        yield "output-projection-forgotten", biased, says
    transposed = replace(op, pairs=((mixed, f"{weight}ᵀ"),))
    yield "output-projection-transposed", transposed, f"used {weight}ᵀ, not {weight}"


def _list_head_orders(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Other orders of the heads: all of them for a few, two swapped or all reversed for many."""
    if len(parts) <= _MAX_PERMUTED_HEADS:
        return [order for order in permutations(parts) if order != parts]
    swapped = [
        (*parts[:a], parts[b], *parts[a + 1 : b], parts[a], *parts[b + 1 :])
        for b in range(len(parts))
        for a in range(b)
    ]
    return [*swapped[: _MAX_PERMUTED_HEADS**3], parts[::-1]]
