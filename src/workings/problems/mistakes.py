"""The named mistakes in the formula of a step; each is a wrong operation in its place."""

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

MistakeOption: TypeAlias = tuple[str, Op, str]  # name, wrong operation, description
_MAX_PERMUTED_HEADS = 4  # up to so many heads are tried in every order
_WEIGHT_FAMILIES = ("QKV", "".join(gate for gate, _ in GATES))


@dataclass(frozen=True)
class Mistake:
    """A named mistake: wrong operations by the keys of their steps."""

    name: str
    ops: Mapping[str, Op]
    description: str


def list_mistakes(problem: Problem, keys: Collection[str]) -> Iterator[Mistake]:
    """Yield the mistakes that are possible in the given steps of a problem.

    A mistake that is possible in several places (each head, each time step, keys and values) is
    listed for each place and once for all of them together.
    """
    options: dict[tuple[str, str], dict[str, list[Op]]] = {}
    for step in problem.steps:
        if step.key in keys:
            for name, op, description in _list_step_mistakes(problem, step):
                options.setdefault((name, description), {}).setdefault(step.key, []).append(op)
    for (name, description), ops in options.items():
        for key, variants in ops.items():
            for op in variants:
                yield Mistake(name, {key: op}, description)
        if len(ops) > 1:
            yield Mistake(name, {key: variants[0] for key, variants in ops.items()}, description)


def _list_step_mistakes(problem: Problem, step: Step) -> Iterator[MistakeOption]:
    """Yield the mistakes in one step."""
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
        description = "concatenated the heads in another order"
        for order in _list_head_orders(op.parts):
            yield "heads-in-wrong-order", Concatenation(order), description
    elif name == "mixed" and isinstance(op, Linear):
        yield from _list_mixing_mistakes(problem, step, op)
    elif name == "output" and isinstance(op, Linear):
        yield from _list_output_mistakes(problem, op)


def _list_projection_mistakes(problem: Problem, step: Step, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistakes with a weight, for every product of an input and a W."""
    for k, (x, w) in enumerate(op.pairs):
        if not w.startswith("W_") or w == "W_O":
            continue
        yield "weight-transposed", _replace_pair(op, k, x, f"{w}ᵀ"), f"used {w}ᵀ, not {w}"
        for other in problem.exact_matrices:
            if other.startswith("W_") and other != w:
                yield "wrong-weight", _replace_pair(op, k, x, other), f"used {other}, not {w}"
        description = f"used {x.rstrip('.0123456789')} itself, without {w}"
        if len(op.pairs) == 1:
            yield "not-projected", Copy(x), description
        if len(op.pairs) > 1 or op.bias is not None:
            identity = _format_identity_key(problem, x)
            yield "not-projected", _replace_pair(op, k, x, identity), description
    yield from _list_wrong_projection_mistakes(problem, step, op)


def _list_context_mistakes(op: Op) -> Iterator[MistakeOption]:
    """Yield the mistakes of taking queries from the context, or keys and values from X."""
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
    """Return the key of the identity that leaves x as it is."""
    return f"I.{problem.exact_matrices[x].shape[1]}"


def _list_wrong_projection_mistakes(
    problem: Problem, step: Step, op: Linear
) -> Iterator[MistakeOption]:
    """Yield the mistakes of using all weights of another projection or gate: W_K and b_K for Q."""
    own = step.name.rpartition(".")[2]
    for other in next((family for family in _WEIGHT_FAMILIES if own in family), ""):
        pairs = tuple((x, w.removesuffix(own) + other) for x, w in op.pairs)
        bias: str | None = f"b_{other}"
        bias = bias if bias in problem.exact_matrices else None
        is_listed = len(pairs) == 1 and bias == op.bias  # as a single wrong weight
        if other != own and not is_listed and all(w in problem.exact_matrices for _, w in pairs):
            used = ", ".join((*(w for _, w in pairs), *([bias] if bias else [])))
            yield "wrong-weight", replace(op, pairs=pairs, bias=bias), f"used {used}"


def _list_scale_mistakes(problem: Problem, scores: str) -> Iterator[MistakeOption]:
    divisor, _ = resolve_scale(problem.sizes, problem.setting)
    if divisor is None:
        return
    width = problem.sizes["k"]
    d_k = width // problem.setting.heads
    yield "not-scaled", Copy(scores), f"did not divide by {divisor:.4g}"
    yield "scaled-by-d_k", Scaling(scores, d_k), f"divided by d_k = {d_k}, not by {divisor:.4g}"
    for d_model in sorted({problem.sizes.sizes.get("d", width), width}):
        description = f"divided by √{d_model}, not by {divisor:.4g}"
        yield "scaled-by-sqrt-d_model", Scaling(scores, d_model**0.5, d_model), description
    multiplied = Scaling(scores, divisor, multiplies=True)
    yield "multiplied-by-scale", multiplied, f"multiplied by {divisor:.4g} instead of dividing"


def _list_mask_mistakes(mask: Bools, scaled: str) -> Iterator[MistakeOption]:
    yield "mask-forgotten", Copy(scaled), "did not apply the mask"
    if mask.shape[0] == mask.shape[1]:
        yield "mask-transposed", Masking(scaled, mask.T), "applied the mask's transpose"
        without_self: Bools = mask & ~np.eye(len(mask), dtype=np.bool_)
        yield "mask-hides-self", Masking(scaled, without_self), "hid each token from itself, too"
    zeros = Masking(scaled, mask, fill_value=0.0)
    yield "masked-with-zeros", zeros, "put 0 instead of −∞: e⁰ = 1 still has weight"


def _list_normalization_mistakes(problem: Problem, op: Normalization) -> Iterator[MistakeOption]:
    mask = problem.setting.mask
    if mask is not None:
        unmasked = op.x.replace("masked", "scaled")
        after = replace(op, x=unmasked, post_mask=mask)
        yield "masked-after-softmax", after, "masked after the softmax and did not renormalize"
    if op.normalizer != "softmax":
        return
    across = replace(op, transposed=True)
    yield "wrong-softmax-axis", across, "normalized over the queries, not over the keys"
    for name, normalizer, description in (
        ("sigmoid-for-softmax", "sigmoid", "used the sigmoid of each score"),
        ("sum-for-softmax", "sum", "divided by the sum, without exponentials"),
        ("exp-not-normalised", "exp", "took e^score and did not divide by the sum"),
    ):
        yield name, replace(op, normalizer=normalizer), description
    divisor, _ = resolve_scale(problem.sizes, problem.setting)
    if divisor is not None and "masked" in op.x:
        late = replace(op, x=op.x.replace("masked", "scores"), allowed=mask, post_divisor=divisor)
        yield "scaled-after-softmax", late, f"divided the weights, not the scores, by {divisor:.4g}"


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
    """Yield the mistake of slicing the input of V for a head, instead of V."""
    projection = problem.get_step(op.x).op
    if isinstance(projection, Linear):
        source, _ = projection.pairs[0]
        yield "values-not-projected", replace(op, x=source), f"mixed {source} itself, not V"


def _list_output_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    ((mixed, weight),) = op.pairs
    if not weight.startswith("W_"):
        return
    description = f"did not multiply by {weight}"
    yield "output-projection-forgotten", Copy(mixed), description
    if op.bias is not None:
        only_bias = _replace_pair(op, 0, mixed, _format_identity_key(problem, mixed))
        yield "output-projection-forgotten", only_bias, description
    transposed = replace(op, pairs=((mixed, f"{weight}ᵀ"),))
    yield "output-projection-transposed", transposed, f"used {weight}ᵀ, not {weight}"


def _list_head_orders(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return wrong orders of the heads: all for a few heads; two swapped or reversed for many."""
    if len(parts) <= _MAX_PERMUTED_HEADS:
        return [order for order in permutations(parts) if order != parts]
    swapped = [
        (*parts[:a], parts[b], *parts[a + 1 : b], parts[a], *parts[b + 1 :])
        for b in range(len(parts))
        for a in range(b)
    ]
    return [*swapped[: _MAX_PERMUTED_HEADS**3], parts[::-1]]
